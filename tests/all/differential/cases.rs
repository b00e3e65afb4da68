//! What was once answered differently, kept as one short sequence for each class.

mod services;

use serde_json::{Value, json};

use super::run::Pair;
use super::step::{self, APPLY, JSON, JSON_PATCH, MERGE, PARTIAL_LIST, Step, TABLE};

const MAPS: &str = "/api/v1/namespaces/${ns}/configmaps";
const SECRETS: &str = "/api/v1/namespaces/${ns}/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/${ns}/deployments";
const GADGETS: &str = "/apis/diff.example.dev/v1/namespaces/${ns}/gadgets";

async fn same(test: &str, steps: &[Step]) {
    let Some(pair) = Pair::start(test).await else {
        return;
    };
    if let Some(difference) = pair.compare(steps).await {
        panic!("{}{difference}", step::listing(steps));
    }
}

fn map(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn gadget(metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "diff.example.dev/v1", "kind": "Gadget", "metadata": metadata, "spec": spec})
}

#[tokio::test]
async fn watches_see_what_is_created_once() {
    let object = map(&json!({"name": "a"}));
    let watch = Step::watch(MAPS).with("resourceVersion", "${list}");
    let create = Step::post(MAPS, object);
    same(
        "creating twice",
        &[Step::get(MAPS), watch, create.clone(), create],
    )
    .await;
}

#[tokio::test]
async fn what_is_empty_is_left_out_and_owned_by_nobody() {
    let metadata = json!({"name": "a", "labels": {}, "annotations": {}, "finalizers": []});
    let apply = Step::apply(
        format!("{GADGETS}/b"),
        "one",
        gadget(&json!({"name": "b", "labels": {}}), &json!({"size": 1})),
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {}});
    let steps = [
        Step::post(GADGETS, gadget(&metadata, &json!({"size": 1}))),
        apply,
        Step::post(SECRETS, secret),
    ];
    same("empty metadata", &steps).await;
}

#[tokio::test]
async fn rules_wait_until_the_schema_is_content() {
    let create = |name: &str, spec: Value| Step::post(GADGETS, gadget(&json!({"name": name}), &spec));
    let steps = [
        create("a", json!({})),
        create("a", json!({"size": 11, "least": 12})),
        create("a", json!({"size": 1, "mode": "odd", "least": 2})),
        create("a", json!({"size": -1})),
        create("a", json!({"size": 1, "fixed": "one"})),
        Step::patch(format!("{GADGETS}/a"), MERGE, json!({"spec": {"fixed": "two"}})),
    ];
    same("rules after the schema", &steps).await;
}

#[tokio::test]
async fn fields_that_stand_twice_are_told() {
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
    let send = |level: &str| {
        Step::new("POST", MAPS)
            .text(JSON, text)
            .with("fieldValidation", level)
    };
    same(
        "duplicate fields",
        &[send("Strict"), send("Warn"), send("Ignore")],
    )
    .await;
}

#[tokio::test]
async fn a_body_is_read_before_the_object_is_looked_for() {
    let steps = [
        Step::put(
            format!("{DEPLOYMENTS}/a"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b"}}),
        ),
        Step::put(
            format!("{MAPS}/a"),
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        ),
        Step::new("PATCH", format!("{MAPS}/a")).text(MERGE, "{"),
    ];
    same("bodies of objects that are not there", &steps).await;
}

#[tokio::test]
async fn finalizers_have_names_and_warnings() {
    let finalizers = |finalizers: Value| json!({"name": "a", "finalizers": finalizers});
    let steps = [
        Step::post(MAPS, map(&finalizers(json!(["plain"])))),
        Step::post(MAPS, map(&finalizers(json!(["a.b/c", "bad name"])))),
        Step::post(
            GADGETS,
            gadget(&finalizers(json!(["plain"])), &json!({"size": 1})),
        ),
        Step::delete(format!("{GADGETS}/a")),
        Step::post(GADGETS, gadget(&finalizers(json!([])), &json!({"size": 1}))),
        Step::patch(
            format!("{GADGETS}/a"),
            MERGE,
            json!({"metadata": {"finalizers": ["d.e/f"]}}),
        ),
        Step::patch(
            format!("{GADGETS}/a"),
            MERGE,
            json!({"metadata": {"finalizers": null}}),
        ),
        Step::get(format!("{GADGETS}/a")),
    ];
    same("finalizers", &steps).await;
}

#[tokio::test]
async fn what_does_not_fit_the_schema_has_no_owner() {
    let mut object = gadget(&json!({"name": "a"}), &json!({"size": 1}));
    object["status"] = json!({"ready": "surely"});
    same("a status of the wrong type", &[Step::post(GADGETS, object)]).await;
}

#[tokio::test]
async fn parts_that_go_always_writes_have_no_owner() {
    let containers = json!([{"name": "c", "image": "i:1"}]);
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}});
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
    let object =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec});
    same("owners of a Deployment", &[Step::post(DEPLOYMENTS, object)]).await;
}

#[tokio::test]
async fn the_resource_version_0_is_none() {
    let change = json!({"metadata": {"resourceVersion": "0"}});
    let put = |path: &str, object: &str| Step::put_seen(path, object, change.clone());
    let steps = [
        Step::post(MAPS, map(&json!({"name": "a"}))),
        put(&format!("{MAPS}/a"), "configmaps/a"),
        Step::post(GADGETS, gadget(&json!({"name": "a"}), &json!({"size": 1}))),
        put(&format!("{GADGETS}/a"), "gadgets/a"),
    ];
    same("the resourceVersion 0", &steps).await;
}

#[tokio::test]
async fn clients_get_the_form_they_take_or_hear_why_not() {
    let list = Step::get(GADGETS);
    let one = Step::get(format!("{GADGETS}/a"));
    let steps = [
        list.clone().accepting("text/html, application/yaml;q=0.5, */*"),
        list.clone().accepting("text/html"),
        list.clone().accepting(PARTIAL_LIST),
        list.accepting(TABLE),
        one.clone().accepting("text/html"),
        one.with("includeObject", "Odd"),
        Step::get(MAPS).accepting("text/html"),
        Step::new("PATCH", format!("{GADGETS}/a")).text("text/plain", "{}"),
        Step::new("POST", MAPS).text("text/plain", "{}"),
    ];
    same("content types", &steps).await;
}

#[tokio::test]
async fn paths_that_lead_nowhere_say_so_in_the_same_way() {
    let steps = [
        Step::get("/apis/diff.example.dev/v1/gadgets/a"),
        Step::post("/apis/diff.example.dev/v1/gadgets", json!({})),
        Step::get("/api/v2/namespaces"),
        Step::get("/apis/odd.example.dev/v1/things"),
        Step::get("/apis/policy.karmada.io/v1alpha1/namespaces/${ns}/overridepolicies/a/status"),
        Step::put(GADGETS, json!({})),
    ];
    same("paths", &steps).await;
}

#[tokio::test]
async fn deletions_are_asked_for_in_words_that_are_checked() {
    let path = format!("{GADGETS}/a");
    let ask = |body: Value| Step::delete(path.clone()).json(JSON, body);
    let steps = [
        ask(json!({"dryRun": ["Odd"]})),
        ask(json!({"propagationPolicy": "Odd"})),
        ask(json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
        Step::post(GADGETS, gadget(&json!({"name": "a"}), &json!({"size": 1}))),
        ask(json!({"preconditions": {"uid": "b8d3a0d2-0000-4000-8000-000000000004"}})),
        ask(json!({"preconditions": {"resourceVersion": "1"}})),
        ask(json!({"preconditions": {"uid": "${uid:gadgets/a}"}, "propagationPolicy": "Foreground"})),
        Step::get(path.clone()),
    ];
    same("deletions", &steps).await;
}

#[tokio::test]
async fn appliers_conflict_over_values_and_share_what_is_equal() {
    let apply = |manager: &str, spec: Value| {
        Step::apply(
            format!("{GADGETS}/a"),
            manager,
            gadget(&json!({"name": "a"}), &spec),
        )
    };
    let steps = [
        apply(
            "one",
            json!({"size": 1, "tags": ["a"], "ports": [{"port": 80, "name": "http"}]}),
        ),
        apply(
            "two",
            json!({"size": 1, "tags": ["b"], "ports": [{"port": 80, "protocol": "UDP"}]}),
        ),
        apply("two", json!({"size": 2})),
        apply("two", json!({"size": 2})).with("force", "true"),
        apply("one", json!({"size": 2})),
        apply("one", json!({"size": 3}))
            .with("force", "true")
            .with("dryRun", "All"),
        Step::new("PATCH", format!("{GADGETS}/a"))
            .json(APPLY, gadget(&json!({"name": "a"}), &json!({"size": 2}))),
        Step::get(format!("{GADGETS}/a")),
    ];
    same("several appliers", &steps).await;
}

#[tokio::test]
async fn counts_of_a_deployment_are_not_negative() {
    let containers = json!([{"name": "c", "image": "i:1"}]);
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}});
    let create = |field: &str, value: i64| {
        let mut spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
        spec[field] = json!(value);
        let object =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec});
        Step::post(DEPLOYMENTS, object)
    };
    let steps = [
        create("revisionHistoryLimit", -3),
        create("minReadySeconds", -3),
        create("minReadySeconds", 700),
        create("progressDeadlineSeconds", -1),
    ];
    same("counts of a Deployment", &steps).await;
}

#[tokio::test]
async fn what_is_not_of_the_kind_is_still_checked_for_its_structure() {
    let mut object = gadget(&json!({"name": "a"}), &json!({"object": {}}));
    object["kind"] = json!("Odd");
    same(
        "an embedded object in another kind",
        &[Step::post(GADGETS, object)],
    )
    .await;
}

#[tokio::test]
async fn a_status_that_is_null_is_more_than_none() {
    const PLAINS: &str = "/apis/diff.example.dev/v1/namespaces/${ns}/plains";
    let object = json!({
        "apiVersion": "diff.example.dev/v1", "kind": "Plain", "metadata": {"name": "a"}, "status": null,
    });
    let remove = json!([{"op": "remove", "path": "/status"}]);
    let steps = [
        Step::post(PLAINS, object),
        Step::patch(format!("{PLAINS}/a"), JSON_PATCH, remove),
    ];
    same("a status that is null", &steps).await;
}

#[tokio::test]
async fn a_dry_run_tells_another_place_of_an_object() {
    let other = json!({"metadata": {"uid": "b8d3a0d2-0000-4000-8000-000000000005"}});
    let put = Step::put_seen(format!("{GADGETS}/a"), "gadgets/a", other);
    let steps = [
        Step::post(GADGETS, gadget(&json!({"name": "a"}), &json!({"size": 1}))),
        put.clone(),
        put.with("dryRun", "All"),
    ];
    same("the place of an object", &steps).await;
}
