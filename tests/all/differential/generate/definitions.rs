//! Sequences about a custom resource's definition: it comes, changes and goes while objects of its kind are written.

use serde_json::{Value, json};

use super::super::step::{MERGE, Step, TABLE};
use super::super::values::{Dice, once_in, one};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.${ns}.example.dev";
const NAME: &str = "things.${ns}.example.dev";
/// How a step names the definition that was seen last.
const SEEN: &str = "customresourcedefinitions/things..example.dev";
const THINGS: &str = "/apis/${ns}.example.dev/v1/namespaces/${ns}/things";

pub fn sequence(rng: &Dice) -> Vec<Step> {
    let mut mark = 1;
    let mut steps = vec![Step::post(CRDS, definition(rng, mark)), Step::settle(CRD)];
    for _ in 0..rng.usize(4..14) {
        if once_in(rng, 4) {
            mark += 1;
            steps.push(change(rng, mark));
            steps.push(Step::settle(CRD));
            steps.push(Step::get(CRD));
        } else {
            steps.push(use_of(rng));
        }
    }
    steps.push(Step::get(THINGS));
    steps.push(Step::delete(CRD));
    steps.push(Step::settle(CRD));
    steps
}

/// Writes the definition.
fn change(rng: &Dice, mark: usize) -> Step {
    let definition = definition(rng, mark);
    let step = match rng.usize(..8) {
        0 => Step::post(CRDS, definition),
        1 => Step::delete(CRD),
        2 | 3 => Step::apply(CRD, one(rng, &["one", "two"]), definition)
            .with("force", one(rng, &["true", "true", "false"])),
        4 => {
            let versions = definition["spec"]["versions"].clone();
            Step::patch(CRD, MERGE, json!({"spec": {"versions": versions}}))
        }
        5 => Step::patch(
            CRD,
            MERGE,
            one(
                rng,
                &[
                    json!({"metadata": {"labels": {"app": "x"}}}),
                    json!({"spec": {"names": {"shortNames": ["th"]}}}),
                    json!({"spec": {"names": {"categories": ["all"]}}}),
                    json!({"spec": {"scope": "Cluster"}}),
                    json!({"spec": {"group": "other.example.dev"}}),
                    json!({"spec": {"names": {"plural": "others"}}}),
                    json!({"spec": null}),
                    json!({"status": {"storedVersions": []}}),
                ],
            ),
        ),
        _ => Step::put_seen(CRD, SEEN, json!({"spec": definition["spec"]})),
    };
    if once_in(rng, 6) {
        step.with("dryRun", "All")
    } else {
        step
    }
}

/// Reads or writes objects of the kind.
fn use_of(rng: &Dice) -> Step {
    let name = one(rng, &["a", "b"]);
    let path = format!("{THINGS}/{name}");
    let thing = thing(rng, name);
    match rng.usize(..11) {
        0..=2 => Step::post(THINGS, thing),
        3 | 4 => Step::apply(path, one(rng, &["one", "two"]), thing),
        5 => Step::patch(path, MERGE, json!({"spec": thing["spec"]})),
        6 => Step::put_seen(path, format!("things/{name}"), json!({"spec": thing["spec"]})),
        7 => Step::patch(
            format!("{path}/status"),
            MERGE,
            json!({"status": {"ready": rng.bool()}}),
        ),
        8 => Step::get(path),
        9 => Step::get(THINGS).accepting(TABLE),
        _ => Step::delete(path),
    }
    .with("fieldValidation", one(rng, &["Warn", "Warn", "Strict", "Ignore"]))
}

fn thing(rng: &Dice, name: &str) -> Value {
    let mut spec = json!({"size": one(rng, &[0, 1, 3, 7])});
    if once_in(rng, 3) {
        spec["mode"] = json!(one(rng, &["fast", "safe", "odd"]));
    }
    if once_in(rng, 4) {
        spec["extra"] = one(rng, &[json!("text"), json!({"a": 1}), json!([1])]);
    }
    if once_in(rng, 5) {
        spec["labels"] = one(rng, &[json!({"a": "b"}), json!({"a": 1}), json!({})]);
    }
    json!({"apiVersion": "${ns}.example.dev/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// Returns the definition in one of its shapes; the mark tells when a server has taken it in.
fn definition(rng: &Dice, mark: usize) -> Value {
    let mut spec = json!({
        "group": "${ns}.example.dev", "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [version(rng, "v1", mark)],
    });
    if once_in(rng, 3) {
        spec["names"]["shortNames"] = json!(["th"]);
    }
    if once_in(rng, 4) {
        spec["versions"] = json!([version(rng, "v1", mark), other_version(rng, mark)]);
    }
    if once_in(rng, 8) {
        spec["versions"][0]["storage"] = json!(false);
    }
    if once_in(rng, 12) {
        spec["names"]["listKind"] = json!("ThingList");
    }
    if once_in(rng, 12) {
        spec["versions"][0]["deprecated"] = json!(true);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": if once_in(rng, 25) { "other.${ns}.example.dev" } else { NAME }},
        "spec": spec,
    })
}

fn other_version(rng: &Dice, mark: usize) -> Value {
    let mut other = version(rng, one(rng, &["v2", "v1beta1"]), mark);
    other["storage"] = json!(once_in(rng, 10));
    other["served"] = json!(rng.bool());
    other
}

fn version(rng: &Dice, name: &str, mark: usize) -> Value {
    let mut size = json!({"type": "integer"});
    if once_in(rng, 2) {
        size["minimum"] = json!(1);
    }
    if once_in(rng, 3) {
        size["default"] = json!(one(rng, &[1, 5]));
    }
    let mut spec = json!({"type": "object", "properties": {"size": size}});
    if !once_in(rng, 3) {
        spec["properties"]["mode"] = json!({"type": "string", "enum": ["fast", "safe"]});
    }
    if once_in(rng, 2) {
        spec["properties"]["labels"] = json!({"type": "object", "additionalProperties": {"type": "string"}});
    }
    if once_in(rng, 3) {
        spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    if once_in(rng, 3) {
        spec["required"] = json!([one(rng, &["size", "mode"])]);
    }
    if once_in(rng, 3) {
        let rules = [
            json!({"rule": "!has(self.size) || self.size < 5", "message": "too large"}),
            json!({"rule": "!has(self.size) || !has(oldSelf.size) || self.size >= oldSelf.size"}),
        ];
        spec["x-kubernetes-validations"] = json!([one(rng, &rules)]);
    }
    let status = json!({"type": "object", "properties": {"ready": {"type": "boolean"}}});
    let mut version = json!({
        "name": name, "served": true, "storage": true,
        "additionalPrinterColumns": [
            {"name": format!("Mark{mark}"), "type": "string", "jsonPath": ".spec.mode"},
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    });
    if rng.bool() {
        version["subresources"] = json!({"status": {}});
    }
    version
}
