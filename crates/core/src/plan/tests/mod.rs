mod ownership;
mod secrets;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::manifest::{Limits, Source, parse};

const US: &str = "cutover";

fn text(plan: &ChangeSet, options: &TextOptions) -> String {
    plan.view(None).text(options)
}

fn manifest(path: &str, value: &Value) -> Manifest {
    let parsed = parse(
        Source::new(path),
        value.to_string().as_bytes(),
        &Limits::default(),
    );
    assert_eq!(parsed.errors, []);
    parsed.objects.into_iter().next().unwrap()
}

fn flink(spec: Value) -> Value {
    json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop"}, "spec": spec})
}

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "shop"}, "data": data})
}

/// A live object: what was asked for, what the server adds, and whose the fields are.
fn live(mut object: Value, managers: &[(&str, Value)]) -> Value {
    let entries: Vec<_> = managers
        .iter()
        .map(|(manager, fields)| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": object["apiVersion"],
                "fieldsType": "FieldsV1", "fieldsV1": fields})
        })
        .collect();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("uid".into(), json!("5c1f"));
    metadata.insert("resourceVersion".into(), json!("77"));
    metadata.insert("managedFields".into(), json!(entries));
    object["status"] = json!({"state": "RUNNING"});
    object
}

#[test]
fn a_plan_is_readable() {
    let template = flink(
        json!({"job": {"parallelism": 2, "state": "running"}, "image": "flink:1.20", "mode": "native",
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": "a:1", "args": ["x"]},
            {"name": "side", "image": "b:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}}}),
    );
    let mut wanted = template.clone();
    wanted["spec"]["job"]["parallelism"] = json!(4);
    wanted["spec"]["podTemplate"]["spec"]["containers"][1]["env"][1]["value"] = json!("3");
    let before = live(
        template,
        &[(US, json!({"f:spec": {"f:job": {"f:parallelism": {}}}}))],
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let gone = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
    let key = manifest("x", &gone).key;
    let held = flink(json!({"job": {"state": "suspended"}}));
    let held = Change::apply(&manifest("workloads/held.yaml", &held), Some(&before), None, US);
    let plan = ChangeSet::new(
        None,
        vec![
            Change::delete(key, Gvk::new("apps/v1", "Deployment"), &gone),
            Change::apply(
                &manifest("workloads/orders.yaml", &wanted),
                Some(&before),
                None,
                US,
            ),
            Change::apply(&manifest("namespace.yaml", &namespace), None, None, US),
            Change {
                action: Action::HeldBack {
                    by: "Migration shop/orders-to-west".into(),
                },
                ..held
            },
        ],
    );
    insta::assert_snapshot!(text(&plan, &TextOptions { context: 1, style: DiffStyle::Unified, ..TextOptions::default() }), @"
    + Namespace shop  (namespace.yaml:1:1)
      + apiVersion: v1
      + kind: Namespace
      + metadata:
      +   name: shop

    ~ FlinkDeployment shop/orders  (workloads/orders.yaml:1:1)
      @ spec
          job:
      -     parallelism: 2
      +     parallelism: 4
            state: running
      @ spec.podTemplate.spec.containers[side].env
                - name: B
      -           value: '2'
      +           value: '3'
                image: b:1

    ! FlinkDeployment shop/orders  (workloads/held.yaml:1:1)
      held back by Migration shop/orders-to-west
      @ spec
          job:
      -     parallelism: 2
      -     state: running
      +     state: suspended
          mode: native

    - Deployment shop/web
      - apiVersion: apps/v1
      - kind: Deployment
      - metadata:
      -   name: web
      -   namespace: shop

    Plan: 1 to create, 1 to change, 1 to delete, 1 held back.
    ");
}

#[test]
fn words_that_differ_are_marked_in_colour() {
    let before = live(
        flink(json!({"image": "registry/flink:1.19"})),
        &[(US, json!({"f:spec": {"f:image": {}}}))],
    );
    let wanted = manifest("a.yaml", &flink(json!({"image": "registry/flink:1.20"})));
    let plan = ChangeSet::new(None, vec![Change::apply(&wanted, Some(&before), None, US)]);
    let options = TextOptions {
        palette: Palette::coloured(),
        style: DiffStyle::Unified,
        context: 0,
        unchanged: false,
    };
    insta::assert_snapshot!(text(&plan, &options).replace('\u{1b}', "^"), @"
    ^[1m~ FlinkDeployment shop/orders^[0m^[2m  (a.yaml:1:1)^[0m
    ^[2m  @ ^[0m^[2mspec^[0m
    ^[31m  - ^[0m^[31m  image: ^[0m^[1m^[4m^[31mregistry/flink:1.19^[0m
    ^[32m  + ^[0m^[32m  image: ^[0m^[1m^[4m^[32mregistry/flink:1.20^[0m

    Plan: 0 to create, 1 to change, 0 to delete.
    ");
}

#[test]
fn nothing_to_do_says_so() {
    let object = flink(json!({"image": "a"}));
    let live = live(object.clone(), &[(US, json!({"f:spec": {"f:image": {}}}))]);
    let plan = ChangeSet::new(
        None,
        vec![Change::apply(&manifest("a.yaml", &object), Some(&live), None, US)],
    );
    assert!(plan.is_noop());
    insta::assert_snapshot!(text(&plan, &TextOptions::default()), @"No changes: 1 object in sync.");
    assert!(plan.view(None).document().changes.is_empty());
}

#[test]
fn a_preview_of_the_server_decides() {
    let wanted = manifest("a.yaml", &flink(json!({"cpu": "1000m"})));
    let live = live(
        flink(json!({"cpu": "1"})),
        &[(US, json!({"f:spec": {"f:cpu": {}}}))],
    );
    assert_eq!(
        Change::apply(&wanted, Some(&live), Some(&live), US).action,
        Action::Unchanged
    );
    let mut preview = live.clone();
    preview["spec"]["memory"] = json!("1Gi");
    let change = Change::apply(&wanted, Some(&live), Some(&preview), US);
    assert_eq!(
        (change.action, change.after.unwrap()["spec"]["memory"].clone()),
        (Action::Configure, json!("1Gi"))
    );
}

#[test]
fn changes_are_ordered_by_what_needs_what() {
    let object = |api: &str, kind: &str, name: &str, wave: &str| {
        let annotations = json!({WAVE_ANNOTATION: wave});
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "annotations": annotations}})
    };
    let all = [
        object("cutover.dev/v1alpha1", "Migration", "m", "0"),
        object("apps/v1", "Deployment", "b", "0"),
        object("apps/v1", "Deployment", "a", "1"),
        object("apps/v1", "Deployment", "c", "-1"),
        object("v1", "ConfigMap", "c", "0"),
        object("cutover.dev/v1alpha1", "WorkloadProfile", "p", "0"),
        object("policy.karmada.io/v1alpha1", "PropagationPolicy", "p", "0"),
        object("policy.karmada.io/v1alpha1", "OverridePolicy", "o", "0"),
        object("v1", "Namespace", "n", "0"),
    ];
    let apply = all
        .iter()
        .map(|value| Change::apply(&manifest("a.yaml", value), None, None, US));
    let delete = all.iter().map(|value| {
        let manifest = manifest("a.yaml", value);
        Change::delete(manifest.key, manifest.gvk, value)
    });
    let plan = ChangeSet::new(None, delete.chain(apply).collect());
    let order: Vec<_> = plan
        .changes
        .iter()
        .map(|change| format!("{}", change.key))
        .collect();
    let expected = [
        "Namespace n",
        "WorkloadProfile p",
        "OverridePolicy o",
        "PropagationPolicy p",
        "ConfigMap c",
        "Deployment c",
        "Deployment b",
        "Deployment a",
        "Migration m",
    ];
    assert_eq!(order[..9], expected);
    assert!(order[9..].iter().rev().eq(&expected));
}

#[test]
fn what_karmada_writes_is_no_difference() {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a",
        "generation": 3, "creationTimestamp": "2026-11-01T00:00:00Z", "finalizers": ["karmada.io/x"],
        "labels": {"propagationpolicy.karmada.io/permanent-id": "1"},
        "annotations": {"propagationpolicy.karmada.io/name": "p", "mine": "1"}}, "status": {"replicas": 1}});
    assert_eq!(
        normalise(&object),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "annotations": {"mine": "1"}}})
    );
}

#[test]
fn a_document_says_what_changes_from_what_to_what() {
    let before = live(
        flink(json!({"image": "a", "job": {"state": "running"}})),
        &[(US, json!({"f:spec": {"f:image": {}, "f:job": {"f:state": {}}}}))],
    );
    let wanted = manifest("a.yaml", &flink(json!({"image": "b"})));
    let plan = ChangeSet::new(
        Some("0123456789abcdef0123456789abcdef01234567".parse().unwrap()),
        vec![Change::apply(&wanted, Some(&before), None, US)],
    );
    let hash = plan.hash("here").unwrap();
    let document = plan.view(Some(&hash)).document();
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap(), @r#"
    {
      "apiVersion": "cutover.dev/v1alpha1",
      "kind": "Plan",
      "revision": "0123456789abcdef0123456789abcdef01234567",
      "hash": "264e726bc86cbb047e7cb7b8d6362ef27b308f2871390c58209550a3068a5b2e",
      "summary": {
        "create": 0,
        "change": 1,
        "delete": 0,
        "recreate": 0,
        "heldBack": 0,
        "blocked": 0,
        "leftBehind": 0,
        "unchanged": 0
      },
      "changes": [
        {
          "action": "configure",
          "object": {
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "namespace": "shop",
            "name": "orders"
          },
          "source": {
            "path": "a.yaml",
            "line": 1,
            "column": 1
          },
          "fields": [
            {
              "path": "/spec/image",
              "field": "spec.image",
              "before": "a",
              "after": "b",
              "masked": false
            },
            {
              "path": "/spec/job",
              "field": "spec.job",
              "before": {
                "state": "running"
              },
              "masked": false
            }
          ]
        }
      ],
      "problems": []
    }
    "#);
}

#[test]
fn a_hash_covers_what_is_sent_to_what_and_what_it_replaces() {
    let there = |image: &str, uid: &str| {
        let mut object = live(
            flink(json!({"image": image})),
            &[(US, json!({"f:spec": {"f:image": {}}}))],
        );
        object["metadata"]["uid"] = json!(uid);
        object
    };
    let hash = |wanted: &str, live: Option<&Value>, server: &str| {
        let wanted = manifest("a.yaml", &flink(json!({"image": wanted})));
        let plan = ChangeSet::new(None, vec![Change::apply(&wanted, live, None, US)]);
        plan.hash(server).unwrap()
    };
    let a = there("a", "1");
    let all = [
        hash("b", Some(&a), "x"),
        hash("c", Some(&a), "x"),
        hash("b", Some(&there("z", "1")), "x"),
        hash("b", Some(&there("a", "2")), "x"),
        hash("b", Some(&a), "y"),
        hash("b", None, "x"),
        hash("a", Some(&a), "x"),
    ];
    for (place, one) in all.iter().enumerate() {
        assert!(!all[..place].contains(one), "{place}");
    }
    // Neither who else changed something there, nor the commit, makes another plan.
    let mut busy = a.clone();
    busy["spec"]["replicas"] = json!(3);
    busy["metadata"]["resourceVersion"] = json!("78");
    assert_eq!(hash("b", Some(&busy), "x"), all[0]);

    let expected: Expected = all[0].short().parse().unwrap();
    assert!(expected.is(&all[0]) && !expected.is(&all[1]));
    assert!("0123".parse::<Expected>().is_err() && "x".repeat(16).parse::<Expected>().is_err());
}

#[test]
fn a_secret_that_changes_changes_the_hash() {
    let hash = |value: &str| {
        let wanted = manifest("s.yaml", &secret(json!({"a": value})));
        ChangeSet::new(None, vec![Change::apply(&wanted, None, None, US)])
            .hash("x")
            .unwrap()
    };
    assert_ne!(hash("b2xk"), hash("bmV3"));
}

/// An object as custom resources have it: keys say of which type they are, so that two of them can be merged.
fn fields() -> impl Strategy<Value = Value> {
    let scalars = prop::collection::btree_map("s[0-3]", (0..3_i64).prop_map(Value::from), 1..3);
    let lists = prop::collection::btree_map(
        "l[0-1]",
        prop::collection::vec(0..2_i64, 1..3).prop_map(Value::from),
        0..2,
    );
    let leaf =
        (scalars, lists).prop_map(|(scalars, lists)| scalars.into_iter().chain(lists).collect::<Value>());
    leaf.prop_recursive(3, 12, 3, |inner| {
        (prop::collection::btree_map("m[0-2]", inner.clone(), 0..3), inner).prop_map(|(maps, mut fields)| {
            fields.as_object_mut().unwrap().extend(maps);
            fields
        })
    })
}
