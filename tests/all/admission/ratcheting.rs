//! A definition that becomes stricter: what was there before may stay as it is.

use http::Method;
use serde_json::{Value, json};

use super::both::{Both, Step};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str, spec: &Value) -> Value {
    json!({
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

#[tokio::test]
async fn what_was_valid_before_may_stay_when_its_definition_becomes_stricter() {
    let Some(both) = Both::start("ratcheting").await else {
        return;
    };
    let group = format!("{}.example.dev", both.namespace);
    let size = |checks: Value| {
        json!({"type": "object", "properties": {
            "size": checks, "note": {"type": "string"},
            "named": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "size": checks}}},
        }})
    };
    let loose = definition(&group, &size(json!({"type": "integer"})));
    both.write(&Step::post(CRDS, loose)).await;
    let path = format!("/apis/{group}/v1/namespaces/{}/things", both.namespace);
    both.until(&Step::new(Method::GET, &path, None), 200).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"size": 9, "note": "x", "named": [{"name": "a", "size": 9}, {"name": "b", "size": 1}]}});
    both.write(&Step::post(&path, thing.clone())).await;

    let strict = size(json!({"type": "integer", "maximum": 5}));
    let versions = definition(&group, &strict)["spec"]["versions"].clone();
    let crd = format!("{CRDS}/things.{group}");
    both.write(&Step::merge(&crd, json!({"spec": {"versions": versions}})))
        .await;
    let mut another = thing;
    another["metadata"]["name"] = json!("b");
    both.until(&Step::post(format!("{path}?dryRun=All"), another), 422)
        .await;
    let thing = format!("{path}/a");
    for spec in [
        json!({"note": "y"}),
        json!({"size": 8}),
        json!({"size": 4}),
        json!({"size": 9}),
        json!({"named": [{"name": "a", "size": 9}, {"name": "b", "size": 2}]}),
        json!({"named": [{"name": "b", "size": 2}, {"name": "a", "size": 9}]}),
        json!({"named": [{"name": "a", "size": 9}, {"name": "b", "size": 9}]}),
        json!({"named": [{"name": "c", "size": 9}]}),
    ] {
        both.same(&Step::merge(&thing, json!({"spec": spec}))).await;
    }
    both.write(&Step::delete(&crd)).await;
}
