use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema() -> Schema {
    Schema::of_crd(&json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "image": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "atom": {"type": "object", "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "args": {"type": "array", "items": {"type": "string"}},
                "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "weight": {"type": "integer"}, "note": {"type": "string"}}}},
            }},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }))
    .unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_323_045 + second).unwrap()
}

fn by(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        api_version: "x.dev/v1",
        subresource: None,
        now: at(0),
    }
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "X", "metadata": {"name": "a", "namespace": "n"}, "spec": spec})
}

fn applied(live: Option<&Value>, spec: Value, manager: &str) -> Value {
    apply(
        live,
        &json!({}),
        &object(spec),
        &schema(),
        by(manager),
        Resets::Status,
        false,
    )
    .unwrap()
}

fn refused(live: &Value, spec: Value, manager: &str) -> String {
    apply(
        Some(live),
        &json!({}),
        &object(spec),
        &schema(),
        by(manager),
        Resets::Status,
        false,
    )
    .unwrap_err()
    .to_string()
}

/// What a manager owns, as text.
fn owned(object: &Value, manager: &str) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let entries = entries.iter().filter(|entry| entry["manager"] == manager);
    let sets = entries.map(|entry| FieldSet::from_json(&entry["fieldsV1"]).unwrap());
    let all = sets.fold(FieldSet::new(), |all, set| all.union(&set));
    all.paths().iter().map(|path| display(path)).collect()
}

#[test]
fn an_apply_creates_the_object_and_owns_what_it_said() {
    let created = applied(
        None,
        json!({"replicas": 1, "labels": {"a": "1"}, "rules": [{"name": "x", "weight": 1}]}),
        "me",
    );
    assert_eq!(
        created,
        json!({
            "apiVersion": "x.dev/v1", "kind": "X",
            "metadata": {"name": "a", "namespace": "n", "managedFields": [{
                "manager": "me", "operation": "Apply", "apiVersion": "x.dev/v1", "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {
                    "f:replicas": {},
                    "f:labels": {"f:a": {}},
                    "f:rules": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:weight": {}}},
                }},
            }]},
            "spec": {"replicas": 1, "labels": {"a": "1"}, "rules": [{"name": "x", "weight": 1}]},
        })
    );
}

#[test]
fn a_field_that_somebody_else_set_conflicts_by_name_until_forced() {
    let mut live = object(json!({"replicas": 1, "image": "a"}));
    update(None, &mut live, &schema(), by("kubectl"), Resets::Status);
    assert_eq!(
        refused(&live, json!({"replicas": 2}), "me"),
        "Apply failed with 1 conflict: conflict with \"kubectl\" using x.dev/v1: .spec.replicas"
    );
    assert_eq!(
        refused(&live, json!({"replicas": 2, "image": "b"}), "me"),
        "Apply failed with 2 conflicts: conflicts with \"kubectl\" using x.dev/v1:\n- .spec.image\n- .spec.replicas"
    );
    let forced = apply(
        Some(&live),
        &json!({}),
        &object(json!({"replicas": 2})),
        &schema(),
        by("me"),
        Resets::Status,
        true,
    )
    .unwrap();
    assert_eq!(forced["spec"], json!({"replicas": 2, "image": "a"}));
    assert_eq!(owned(&forced, "me"), [".spec.replicas"]);
    assert_eq!(owned(&forced, "kubectl"), [".spec", ".spec.image"]);
}

#[test]
fn two_appliers_may_say_the_same_and_a_conflict_of_appliers_names_no_version() {
    let live = applied(None, json!({"replicas": 1}), "one");
    let live = applied(Some(&live), json!({"replicas": 1}), "two");
    assert_eq!(owned(&live, "one"), owned(&live, "two"));
    assert_eq!(
        refused(&live, json!({"replicas": 2}), "one"),
        "Apply failed with 1 conflict: conflict with \"two\": .spec.replicas"
    );
}

#[test]
fn what_is_applied_no_longer_goes_unless_somebody_else_owns_it() {
    let spec = json!({"replicas": 1, "labels": {"a": "1", "b": "2"}, "tags": ["x", "y"],
        "rules": [{"name": "r", "weight": 1, "note": "n"}, {"name": "s"}]});
    let live = applied(None, spec, "one");
    let live = applied(
        Some(&live),
        json!({"labels": {"b": "2"}, "rules": [{"name": "r", "weight": 1}]}),
        "two",
    );
    let live = applied(Some(&live), json!({"image": "i", "tags": ["y"]}), "one");
    assert_eq!(
        live["spec"],
        json!({"labels": {"b": "2"}, "tags": ["y"], "rules": [{"name": "r", "weight": 1}], "image": "i"})
    );
    assert_eq!(owned(&live, "one"), [".spec.image", ".spec.tags[=\"y\"]"]);
}

#[test]
fn fields_that_nobody_applied_survive_their_siblings_but_not_the_item_they_are_in() {
    let live = applied(
        None,
        json!({"replicas": 1, "rules": [{"name": "r", "weight": 1}]}),
        "one",
    );
    let mut changed = live.clone();
    changed["spec"]["image"] = json!("by hand");
    changed["spec"]["rules"][0]["note"] = json!("by hand");
    update(Some(&live), &mut changed, &schema(), by("hand"), Resets::Status);
    assert_eq!(
        owned(&changed, "hand"),
        [".spec.image", ".spec.rules[name=\"r\"].note"]
    );
    let mut live = applied(Some(&changed), json!({"replicas": 1}), "one");
    schema().drop_nulls(&mut live);
    assert_eq!(live["spec"], json!({"replicas": 1, "image": "by hand"}));
    assert_eq!(owned(&live, "hand"), [".spec.image"]);
}

/// `recorded.json` holds random histories and what structured-merge-diff 6.3.3 made of them, behind the field manager
/// for custom resources of apimachinery 0.36.3.
#[test]
fn recorded_histories_of_the_real_implementation_are_repeated() {
    let recorded: Value = serde_json::from_str(include_str!("recorded.json")).unwrap();
    let schema = Schema::of_crd(&recorded["schema"]).unwrap();
    for history in recorded["histories"].as_array().unwrap() {
        let mut live: Option<Value> = None;
        for (number, act) in history.as_array().unwrap().iter().enumerate() {
            let mut new = object(act["say"].clone());
            let writer = by(act["by"].as_str().unwrap());
            if act["do"] == "update" {
                if let Some(live) = &live {
                    new["metadata"] = live["metadata"].clone();
                }
                update(live.as_ref(), &mut new, &schema, writer, Resets::Status);
            } else {
                let force = act["do"] == "apply force";
                match apply(
                    live.as_ref(),
                    &json!({}),
                    &new,
                    &schema,
                    writer,
                    Resets::Status,
                    force,
                ) {
                    // Nulls that are left where a map was are not stored.
                    Ok(applied) => {
                        new = applied;
                        schema.drop_nulls(&mut new);
                    }
                    Err(error) => {
                        assert_eq!(error.to_string(), act["refused"], "act {number} of {history}");
                        continue;
                    }
                }
            }
            assert_eq!(new["spec"], act["spec"], "act {number} of {history}");
            assert_eq!(owners(&new), act["owners"], "act {number} of {history}");
            live = Some(new);
        }
    }
}

/// The sets of all owners by manager and operation.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let named = entries.map(|entry| {
        let name = format!("{} {}", text(&entry["manager"]), text(&entry["operation"]));
        (name, entry["fieldsV1"].clone())
    });
    Value::Object(named.collect())
}

#[test]
fn atomic_lists_and_maps_are_one_field() {
    let live = applied(None, json!({"args": ["a"], "atom": {"x": "1", "y": "2"}}), "one");
    assert_eq!(owned(&live, "one"), [".spec.args", ".spec.atom"]);
    assert_eq!(
        refused(&live, json!({"atom": {"x": "1"}}), "two"),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.atom"
    );
    let live = applied(Some(&live), json!({"args": ["b"], "atom": {"x": "1"}}), "one");
    assert_eq!(live["spec"], json!({"args": ["b"], "atom": {"x": "1"}}));
}

#[test]
fn items_of_a_keyed_list_come_in_the_order_of_the_configuration() {
    let live = object(json!({"rules": [{"name": "a"}, {"name": "other"}, {"name": "b"}, {"name": "last"}]}));
    let merged = merge(
        &live,
        &object(json!({"rules": [{"name": "b"}, {"name": "new"}, {"name": "a"}]})),
        Some(&schema()),
    );
    let names: Vec<&str> = merged["spec"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["other", "b", "last", "new", "a"]);
}

#[test]
fn an_update_owns_what_it_changed_and_takes_it_from_others() {
    let live = applied(None, json!({"replicas": 1, "image": "a"}), "one");
    let mut changed = live.clone();
    changed["spec"]["replicas"] = json!(5);
    let later = Writer {
        now: at(60),
        ..by("kubectl")
    };
    update(Some(&live), &mut changed, &schema(), later, Resets::Status);
    assert_eq!(owned(&changed, "kubectl"), [".spec.replicas"]);
    assert_eq!(owned(&changed, "one"), [".spec.image"]);
    let entries = changed["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries[1]["time"], "2026-01-02T03:05:05Z");
    assert_eq!(
        entries[0]["time"], "2026-01-02T03:04:05Z",
        "an entry keeps the time of its own last change"
    );
    let mut same = changed.clone();
    update(
        Some(&changed),
        &mut same,
        &schema(),
        Writer {
            now: at(120),
            ..by("kubectl")
        },
        Resets::Status,
    );
    assert_eq!(same, changed, "an update that changes nothing changes no time");
}

#[test]
fn each_endpoint_owns_only_its_part() {
    let mut live = object(json!({"replicas": 1}));
    live["status"] = json!({"phase": "x"});
    let mut created = live.clone();
    update(None, &mut created, &schema(), by("main"), Resets::Status);
    assert_eq!(owned(&created, "main"), [".spec", ".spec.replicas"]);
    let mut status = created.clone();
    status["status"] = json!({"phase": "y"});
    let writer = Writer {
        subresource: Some("status"),
        ..by("controller")
    };
    update(
        Some(&created),
        &mut status,
        &schema(),
        writer,
        Resets::AllButStatus,
    );
    assert_eq!(owned(&status, "controller"), [".status.phase"]);
    assert_eq!(status["metadata"]["managedFields"][0]["subresource"], "status");
}

#[test]
fn a_configuration_that_does_not_fit_the_schema_is_refused() {
    let try_spec = |spec: Value| {
        apply(
            None,
            &json!({}),
            &object(spec),
            &schema(),
            by("me"),
            Resets::Status,
            false,
        )
        .unwrap_err()
        .to_string()
    };
    let intro = "failed to create typed patch object (n/a; x.dev/v1, Kind=X): ";
    assert_eq!(
        try_spec(json!({"foo": 1})),
        format!("{intro}.spec.foo: field not declared in schema")
    );
    assert_eq!(
        try_spec(json!({"replicas": "x"})),
        format!("{intro}.spec.replicas: expected numeric (int or float), got string")
    );
    assert_eq!(
        try_spec(json!({"rules": [{"name": "x"}, {"name": "x"}], "image": 1})),
        format!(
            "{intro}errors:\n  .spec.rules: duplicate entries for key [name=\"x\"]\n  \
             .spec.image: expected string, got &value.valueUnstructured{{Value:1}}"
        )
    );
    let mut config = object(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        apply(
            None,
            &json!({}),
            &config,
            &schema(),
            by("me"),
            Resets::Status,
            false
        ),
        Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned()
        ))
    );
}

#[test]
fn what_was_there_before_anybody_was_tracked_gets_an_owner_at_the_first_apply() {
    let live = object(json!({"replicas": 1, "image": "a"}));
    assert_eq!(
        refused(&live, json!({"replicas": 2}), "me"),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using x.dev/v1: .spec.replicas"
    );
    let mut untracked = live.clone();
    untracked["spec"]["replicas"] = json!(3);
    update(Some(&live), &mut untracked, &schema(), by("x"), Resets::Status);
    assert_eq!(untracked["metadata"].get("managedFields"), None);
}

#[test]
fn owners_can_be_reset() {
    let live = applied(None, json!({"replicas": 1}), "one");
    let mut reset = live.clone();
    reset["metadata"]["managedFields"] = json!([{}]);
    update(Some(&live), &mut reset, &schema(), by("two"), Resets::Status);
    assert_eq!(reset["metadata"].get("managedFields"), None);
}

#[test]
fn updaters_beyond_the_tenth_are_put_together() {
    let mut live = object(json!({"labels": {}}));
    update(None, &mut live, &schema(), by("creator"), Resets::Status);
    for index in 0..15 {
        let mut next = live.clone();
        next["spec"]["labels"][format!("l{index}")] = json!("x");
        let manager = format!("m{index}");
        let writer = Writer {
            manager: &manager,
            now: at(index),
            ..by("")
        };
        update(Some(&live), &mut next, &schema(), writer, Resets::Status);
        live = next;
    }
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 10);
    assert!(owned(&live, "ancient-changes").contains(&".spec.labels.l3".to_owned()));
    assert_eq!(owned(&live, "m14"), [".spec.labels.l14"]);
}

fn specs() -> impl Strategy<Value = Value> {
    let label = prop::collection::btree_map("[ab]", "[xy]", 0..3).prop_map(|map| json!(map));
    let tags = prop::collection::btree_set("[pqr]", 0..3).prop_map(|set| json!(set));
    let rules = prop::collection::btree_map("[mno]", prop::option::of(0..3), 0..3).prop_map(|rules| {
        let rule = |(name, weight): (String, Option<i32>)| match weight {
            Some(weight) => json!({"name": name, "weight": weight}),
            None => json!({"name": name}),
        };
        Value::Array(rules.into_iter().map(rule).collect())
    });
    let fields = (
        prop::option::of((0..3).prop_map(|n| json!(n))),
        prop::option::of(label),
        prop::option::of(tags),
        prop::option::of(rules),
        prop::option::of(Just(json!(["a"]))),
    );
    fields.prop_map(|(replicas, labels, tags, rules, args)| {
        let named = [
            ("replicas", replicas),
            ("labels", labels),
            ("tags", tags),
            ("rules", rules),
            ("args", args),
        ];
        let fields = named
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
        Value::Object(fields.collect())
    })
}

fn forced(live: Option<&Value>, spec: &Value, manager: &str) -> Value {
    apply(
        live,
        &json!({}),
        &object(spec.clone()),
        &schema(),
        by(manager),
        Resets::Status,
        true,
    )
    .unwrap()
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(first in specs(), second in specs()) {
        let live = forced(None, &first, "other");
        let once = forced(Some(&live), &second, "me");
        prop_assert_eq!(&forced(Some(&once), &second, "me"), &once);
    }

    #[test]
    fn what_was_applied_is_there_and_owned(first in specs(), second in specs()) {
        let live = forced(None, &first, "other");
        let live = forced(Some(&live), &second, "me");
        let mine = applied_fields(&object(second.clone()), &schema());
        let there = fields_of(&live, Some(&schema()));
        for path in mine.leaves().paths() {
            // A map that is applied empty may have got fields of others.
            let is_empty_map = matches!(display(&path).as_str(), ".spec" | ".spec.labels");
            prop_assert!(is_empty_map || there.contains(&path), "{} of {}", display(&path), live);
        }
        prop_assert_eq!(owned(&live, "me"), mine.paths().iter().map(|path| display(path)).collect::<Vec<_>>());
    }

    #[test]
    fn applying_nothing_gives_back_what_only_the_manager_owned(first in specs(), second in specs()) {
        let base = forced(None, &first, "other");
        let live = forced(Some(&base), &second, "me");
        let mut nothing = object(json!({}));
        nothing.as_object_mut().unwrap().shift_remove("spec");
        let live = apply(Some(&live), &json!({}), &nothing, &schema(), by("me"), Resets::Status, false).unwrap();
        prop_assert_eq!(owned(&live, "me"), [""; 0]);
        let left = fields_of(&live, Some(&schema())).difference(never_owned());
        let mut others = owned(&live, "other");
        others.extend(owned(&live, "before-first-apply"));
        for path in left.leaves().paths() {
            let text = display(&path);
            prop_assert!(others.iter().any(|own| own.starts_with(&text)), "{} is left without an owner: {}", text, live);
        }
    }
}
