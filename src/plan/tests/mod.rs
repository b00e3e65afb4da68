mod ownership;
mod secrets;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::manifest::{Limits, Set, Source, parse};

const US: &str = "cutover";

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
    insta::assert_snapshot!(plan.text(&TextOptions { context: 1, ..TextOptions::default() }), @"
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

    ! FlinkDeployment shop/orders  (workloads/held.yaml:1:1)  held back by Migration shop/orders-to-west
      @ spec
          job:
      -     parallelism: 2
      -     state: running
      +     state: suspended
          mode: native

    - Deployment shop/web

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
    let text = plan.text(&TextOptions {
        palette: Palette::coloured(),
        context: 0,
        unchanged: false,
    });
    insta::assert_snapshot!(text.replace('\u{1b}', "^"), @"
    ^[1m~ FlinkDeployment shop/orders^[0m^[2m  (a.yaml:1:1)^[0m
    ^[2m  @ spec^[0m
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
    insta::assert_snapshot!(plan.text(&TextOptions::default()), @"No changes: 1 object in sync.");
    assert!(plan.document().changes.is_empty());
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
        "OverridePolicy o",
        "PropagationPolicy p",
        "WorkloadProfile p",
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
fn a_document_is_recognised_by_its_hash() {
    let change = |image: &str| {
        Change::apply(
            &manifest("a.yaml", &flink(json!({"image": image}))),
            None,
            None,
            US,
        )
    };
    let plan = |image: &str| {
        ChangeSet::new(
            Some("0123456789abcdef0123456789abcdef01234567".parse().unwrap()),
            vec![change(image)],
        )
    };
    assert_eq!(plan("a").document().hash, plan("a").document().hash);
    assert_ne!(plan("a").document().hash, plan("b").document().hash);
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan("a").document()).unwrap(), @r#"
    {
      "apiVersion": "cutover.dev/v1alpha1",
      "kind": "Plan",
      "revision": "0123456789abcdef0123456789abcdef01234567",
      "hash": "d87641bf8d23b07cc07a85901b08dd6ea07e0b8b451a7bd1ae221f5e5643452a",
      "summary": {
        "create": 1,
        "change": 0,
        "delete": 0,
        "recreate": 0,
        "heldBack": 0,
        "blocked": 0,
        "unchanged": 0
      },
      "changes": [
        {
          "action": "create",
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
          "diff": [
            {
              "op": "add",
              "path": "",
              "value": {
                "apiVersion": "flink.apache.org/v1beta1",
                "kind": "FlinkDeployment",
                "metadata": {
                  "name": "orders",
                  "namespace": "shop"
                },
                "spec": {
                  "image": "a"
                }
              }
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn pruning_spares_what_is_protected_unknown_or_too_much() {
    let object = |name: &str, annotations: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}});
    let all: Vec<_> = (0..20)
        .map(|n| {
            object(
                &format!("c{n}"),
                if n == 3 {
                    json!({"cutover.dev/keep": "true"})
                } else {
                    json!({})
                },
            )
        })
        .collect();
    let members: Vec<_> = all
        .iter()
        .map(|live| {
            let manifest = manifest("a.yaml", live);
            Member {
                key: manifest.key,
                gvk: manifest.gvk,
                live,
            }
        })
        .collect();
    let wanted = |from: usize| {
        let text: String = all[from..]
            .iter()
            .map(|object| format!("---\n{object}\n"))
            .collect();
        let mut set = Set::new();
        set.update(
            "a.yaml",
            parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default()),
        );
        set
    };
    let changes = prune(&members, &wanted(4), Guard::default()).unwrap();
    assert_eq!(changes.len(), 4);
    assert_eq!(
        changes[3].action,
        Action::Blocked {
            reason: "annotation cutover.dev/keep: true".into()
        }
    );
    assert_eq!(
        prune(&members, &wanted(10), Guard::default()),
        Err(MassDeletion {
            deletions: 10,
            all: 20
        })
    );
    let mut broken = wanted(4);
    broken.update(
        "b.yaml",
        parse(Source::new("b.yaml"), b"a: [", &Limits::default()),
    );
    assert_eq!(prune(&members, &broken, Guard::default()), Ok(Vec::new()));
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

proptest! {
    #[test]
    fn the_patch_of_a_change_leads_from_before_to_after(before in fields(), after in fields()) {
        let (before, after) = (flink(before), flink(after));
        let mut change = Change::apply(&manifest("a.yaml", &after), Some(&before), Some(&after), US);
        change.before.get_or_insert(before.clone());
        change.after.get_or_insert(after.clone());
        change.action = Action::Configure;
        let document = ChangeSet::new(None, vec![change]).document();
        let mut patched = before;
        json_patch::patch(&mut patched, &document.changes[0].diff).unwrap();
        prop_assert_eq!(patched, after);
    }
}
