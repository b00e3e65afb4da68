use super::*;

/// Spec desired, spec live, our fields of the spec.
#[test]
fn ownership_decides_case_by_case() {
    use Decision::{Differs, InSync, Undecided};
    let containers = json!({"f:c": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}}}});
    let ports = json!({"f:p": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}});
    for (why, desired, there, ours, expected) in [
        (
            "equal",
            json!({"a": 1}),
            json!({"a": 1, "b": 2}),
            json!({"f:a": {}}),
            InSync,
        ),
        (
            "1 is 1.0",
            json!({"a": 1}),
            json!({"a": 1.0}),
            json!({"f:a": {}}),
            InSync,
        ),
        (
            "a changed value",
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"f:a": {}}),
            Differs,
        ),
        (
            "not yet ours",
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "b": 2}),
            json!({"f:a": {}}),
            Differs,
        ),
        (
            "no longer wanted",
            json!({"a": 1}),
            json!({"a": 1, "b": 2}),
            json!({"f:a": {}, "f:b": {}}),
            Differs,
        ),
        (
            "taken away from us",
            json!({"a": 1}),
            json!({}),
            json!({"f:a": {}}),
            Differs,
        ),
        (
            "a quantity",
            json!({"a": "1000m"}),
            json!({"a": "1"}),
            json!({"f:a": {}}),
            Undecided,
        ),
        (
            "another quantity",
            json!({"a": "1001m"}),
            json!({"a": "1"}),
            json!({"f:a": {}}),
            Differs,
        ),
        (
            "an unknown field",
            json!({"a": 1, "z": 1}),
            json!({"a": 1}),
            json!({"f:a": {}}),
            Undecided,
        ),
        (
            "defaults inside",
            json!({"a": {"x": 1}}),
            json!({"a": {"x": 1, "y": 2}}),
            json!({"f:a": {}}),
            Undecided,
        ),
        (
            "empty and kept",
            json!({"a": {}}),
            json!({"a": {}}),
            json!({"f:a": {}}),
            InSync,
        ),
        (
            "empty and dropped",
            json!({"a": {}}),
            json!({}),
            json!({}),
            Undecided,
        ),
        (
            "atomic list",
            json!({"a": [1, 2]}),
            json!({"a": [2, 1]}),
            json!({"f:a": {}}),
            Differs,
        ),
        (
            "an item by key among others",
            json!({"c": [{"name": "a", "image": "x"}]}),
            json!({"c": [{"name": "sidecar"}, {"name": "a", "image": "x", "pull": "Always"}]}),
            containers.clone(),
            InSync,
        ),
        (
            "an item by key that changed",
            json!({"c": [{"name": "a", "image": "x"}]}),
            json!({"c": [{"name": "a", "image": "y"}]}),
            containers.clone(),
            Differs,
        ),
        (
            "an item renamed",
            json!({"c": [{"name": "b"}]}),
            json!({"c": [{"name": "a"}]}),
            containers,
            Differs,
        ),
        (
            "a key field by default",
            json!({"p": [{"port": 80}]}),
            json!({"p": [{"port": 80, "protocol": "TCP"}]}),
            ports,
            InSync,
        ),
        (
            "a set",
            json!({"s": ["a"]}),
            json!({"s": ["b", "a"]}),
            json!({"f:s": {"v:\"a\"": {}}}),
            InSync,
        ),
        (
            "a set that grew",
            json!({"s": ["a", "c"]}),
            json!({"s": ["a"]}),
            json!({"f:s": {"v:\"a\"": {}}}),
            Differs,
        ),
    ] {
        let live = live(
            flink(there),
            &[("other", json!({})), (US, json!({"f:spec": ours}))],
        );
        assert_eq!(owned_matches(&flink(desired), &live, US), expected, "{why}");
    }
    assert_eq!(
        owned_matches(&flink(json!({})), &live(flink(json!({})), &[]), US),
        Differs,
        "never applied"
    );
}

#[test]
fn string_data_is_compared_with_what_it_is_stored_as() {
    let mut desired = secret(json!({}));
    desired.as_object_mut().unwrap().shift_remove("data");
    desired["stringData"] = json!({"password": "swordfish"});
    let fields = json!({"f:stringData": {"f:password": {}}});
    let there = live(
        secret(json!({"password": "c3dvcmRmaXNo"})),
        &[(US, fields.clone())],
    );
    assert_eq!(owned_matches(&desired, &there, US), Decision::InSync);
    let there = live(secret(json!({"password": "b3RoZXI="})), &[(US, fields)]);
    assert_eq!(owned_matches(&desired, &there, US), Decision::Differs);
}

/// The slow and obvious model of an apply: the leaves by their paths.
mod model {
    use std::collections::BTreeMap;

    use super::*;

    pub(super) type Leaves = BTreeMap<Vec<String>, Value>;

    pub(super) fn leaves(value: &Value) -> Leaves {
        let Some(fields) = value.as_object() else {
            return Leaves::from([(Vec::new(), value.clone())]);
        };
        let mut all = Leaves::new();
        for (key, value) in fields {
            for (mut path, leaf) in leaves(value) {
                path.insert(0, key.clone());
                all.insert(path, leaf);
            }
        }
        all
    }

    pub(super) fn owned(leaves: &Leaves) -> Value {
        let mut fields = json!({});
        for path in leaves.keys() {
            let mut here = &mut fields;
            for key in path {
                here = &mut here[format!("f:{key}")];
            }
            *here = json!({});
        }
        fields
    }

    pub(super) fn object(leaves: &Leaves) -> Value {
        let mut object = json!({});
        for (path, leaf) in leaves {
            let mut here = &mut object;
            for key in path {
                here = &mut here[key.as_str()];
            }
            here.clone_from(leaf);
        }
        object
    }
}

proptest! {
    #[test]
    fn ownership_agrees_with_an_obvious_apply(
        theirs in fields(), applied in fields(), other in fields(), same in any::<bool>(),
    ) {
        let desired = if same { applied.clone() } else { other };
        let (ours, wanted) = (model::leaves(&applied), model::leaves(&desired));
        let mut foreign = model::leaves(&theirs);
        foreign.retain(|path, _| !ours.contains_key(path));
        let there: model::Leaves = foreign.clone().into_iter().chain(ours.clone()).collect();
        let mut expected = there.clone();
        expected.retain(|path, _| !ours.contains_key(path) || wanted.contains_key(path));
        expected.extend(wanted.clone());

        let managers = [("other", json!({"f:spec": model::owned(&foreign)})), (US, json!({"f:spec": model::owned(&ours)}))];
        let live = live(flink(model::object(&there)), &managers);
        let decision = owned_matches(&flink(desired.clone()), &live, US);
        let noop = expected == there && ours.keys().eq(wanted.keys());
        prop_assert_eq!(decision == Decision::InSync, noop, "{:?} {} on {}", decision, desired, live);
        if decision == Decision::Undecided {
            prop_assert!(wanted.keys().any(|path| !there.contains_key(path)), "{} on {}", desired, live);
        }
        let after = overlay(&flink(desired), &live, US);
        prop_assert_eq!(model::leaves(&after["spec"]), expected);
    }
}
