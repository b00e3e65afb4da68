//! Which Migrations are set off, what they say, and when Git has overtaken one.

use super::*;
use crate::intent::Input;
use crate::intent::custody::LAPSE;

fn policy(clusters: &[&str], names: &[&str]) -> Value {
    let selector = |name| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name});
    let selectors: Vec<Value> = names.iter().map(selector).collect();
    json!({"spec": {
        "placement": {"clusterAffinity": {"clusterNames": clusters}}, "resourceSelectors": selectors,
    }})
}

fn set_off(name: &str, created: &str, by: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "creationTimestamp": created,
            "annotations": {
                SYNC_ANNOTATION: "sync", POLICY_ANNOTATION: r#"["shop","orders"]"#,
                PLACEMENT_ANNOTATION: placement_digest(by),
            },
        },
        "spec": {"workload": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "orders"}},
        "status": {"phase": "Pending"},
    })
}

#[test]
fn another_workload_of_the_policy_is_no_other_placement() {
    let by = policy(&["west"], &["orders"]);
    let migration = set_off("one", "2026-01-01T00:00:00Z", &by);
    let template = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "shop", "name": "orders"},
    });
    let is_overtaken = |wanted: &Value, template: Option<&Value>| {
        Driven::of(&migration).unwrap().is_overtaken(wanted, template)
    };
    let more = policy(&["west"], &["orders", "bills"]);
    assert!(!is_overtaken(&more, Some(&template)));
    assert!(is_overtaken(&policy(&["north"], &["orders"]), Some(&template)));
    let without = policy(&["west"], &["bills"]);
    assert!(is_overtaken(&without, Some(&template)));
    // Whether it still selects what can't be seen isn't known.
    assert!(!is_overtaken(&without, None));
    // By earlier versions.
    let mut earlier = migration.clone();
    earlier["metadata"]["annotations"][PLACEMENT_ANNOTATION] = json!(digest(&json!([
        by["spec"]["placement"],
        by["spec"]["resourceSelectors"]
    ])));
    assert!(!Driven::of(&earlier).unwrap().is_overtaken(&by, Some(&template)));
}

#[test]
fn a_move_to_any_cluster_that_the_placement_leaves_open_is_the_one_that_is_called_for() {
    let by = policy(&["west", "north"], &["orders"]);
    let mut migration = set_off("one", "2026-01-01T00:00:00Z", &by);
    migration["spec"]["from"] = json!("east");
    let called = Called {
        workload: serde_json::from_value(migration["spec"]["workload"].clone()).unwrap(),
        namespace: "shop".to_owned(),
        uid: String::new(),
        from: "east".into(),
        to: "north".into(),
        open: vec!["north".into(), "west".into()],
        successor: None,
    };
    for (to, answers) in [("north", true), ("west", true), ("south", false)] {
        migration["spec"]["to"] = json!(to);
        assert_eq!(
            Driven::of(&migration).unwrap().answers(&called, &by),
            answers,
            "{to}"
        );
    }
    // One that has failed answers for the placement, though what it went to would not do any more.
    let has_failed = |migration: &Value| Driven::of(migration).unwrap().has_failed_for(&called, &by);
    assert!(!has_failed(&migration));
    migration["status"]["phase"] = json!("RolledBack");
    assert_eq!(migration["spec"]["to"], "south");
    assert!(has_failed(&migration));
    migration["spec"]["from"] = json!("north");
    assert!(!has_failed(&migration));
}

fn orders_to_west(successor: Option<PolicyName>) -> Called {
    Called {
        workload: WorkloadRef {
            api_version: "apps/v1".to_owned(),
            kind: "StatefulSet".to_owned(),
            name: "orders".to_owned(),
        },
        namespace: "shop".to_owned(),
        uid: String::new(),
        from: "east".into(),
        to: "west".into(),
        open: vec!["west".into()],
        successor,
    }
}

#[test]
fn it_says_which_policy_takes_the_workload_up() {
    let name = |name: &str| PolicyName {
        namespace: None,
        name: name.to_owned(),
    };
    let (gone, successor, by) = (name("gone"), name("rest"), policy(&["west"], &["orders"]));
    let mut called = orders_to_west(Some(successor.clone()));
    let cause = Cause {
        sync: "sync",
        source: "example.com/fleet@main",
        policy: &gone,
        wanted: &by,
    };
    let set_off = |called: &Called| migration(called, cause, &Migrations::default(), Timestamp::UNIX_EPOCH);
    let migration = set_off(&called);
    let driven = Driven::of(&migration).unwrap();
    assert_eq!(
        (&driven.policy, &driven.successor),
        (&gone, &Some(successor.clone()))
    );
    assert!(driven.answers(&called, &by) && !driven.is_overtaken(&by, None));
    let planned = planned(&called, &Migrations::default());
    for migration in [&migration, &planned] {
        let metadata: ObjectMeta = serde_json::from_value(migration["metadata"].clone()).unwrap();
        assert_eq!(successor_in(&metadata), Some(successor.clone()));
    }
    called.successor = None;
    assert_eq!(Driven::of(&set_off(&called)).unwrap().successor, None);
}

/// Whoever may edit Migrations in a namespace has no say about the policies of another one.
#[test]
fn a_migration_names_a_policy_of_its_own_namespace_or_one_of_cluster_scope() {
    let by = policy(&["west"], &["orders"]);
    for (annotation, value, counts) in [
        (POLICY_ANNOTATION, r#"["shop","orders"]"#, true),
        (POLICY_ANNOTATION, r#"[null,"orders"]"#, true),
        (POLICY_ANNOTATION, r#"["team-b","orders"]"#, false),
        (SUCCESSOR_ANNOTATION, r#"["shop","next"]"#, true),
        (SUCCESSOR_ANNOTATION, r#"["team-b","next"]"#, false),
    ] {
        let mut migration = set_off("one", "2026-01-01T00:00:00Z", &by);
        migration["metadata"]["annotations"][annotation] = json!(value);
        assert_eq!(Driven::of(&migration).is_some(), counts, "{annotation} {value}");
        let metadata: ObjectMeta = serde_json::from_value(migration["metadata"].clone()).unwrap();
        assert_eq!(policy_named(&metadata, annotation).is_some(), counts, "{value}");
    }
}

#[test]
fn another_sync_of_the_same_branch_takes_over_what_has_not_ended_or_has_failed() {
    let (by, source) = (policy(&["west"], &["orders"]), "example.com/fleet@main");
    for (phase, noted, sync, may) in [
        ("Verify", Some(source), "other", true),
        ("Cleanup", Some(source), "other", true),
        ("RolledBack", Some(source), "other", true),
        ("Completed", Some(source), "other", false),
        ("Verify", Some(source), "sync", false),
        ("Verify", Some("example.com/other@main"), "other", false),
        // By earlier versions.
        ("Verify", None, "other", false),
    ] {
        let mut migration = set_off("one", "2026-01-01T00:00:00Z", &by);
        migration["status"]["phase"] = json!(phase);
        if let Some(noted) = noted {
            migration["metadata"]["annotations"][SOURCE_ANNOTATION] = json!(noted);
        }
        let driven = Driven::of(&migration).unwrap();
        assert_eq!(
            driven.may_be_taken_over(sync, source),
            may,
            "{phase} {noted:?} {sync}"
        );
    }
}

#[test]
fn what_has_touched_nothing_and_waits_for_a_person_keeps_no_other_move_waiting() {
    let by = policy(&["west"], &["orders"]);
    for (phase, code, takes) in [
        ("Pending", None, true),
        ("Preflight", Some("Evidence"), true),
        ("Pending", Some("Pause"), false),
        ("Preflight", Some("Approval"), false),
        ("Hold", Some("Pause"), true),
        ("Verify", Some("Approval"), true),
        ("Cleanup", None, false),
        ("Completed", None, false),
    ] {
        let mut migration = set_off("one", "2026-01-01T00:00:00Z", &by);
        migration["status"] = json!({"phase": phase, "waitingFor": {"code": code}});
        let driven = Driven::of(&migration).unwrap();
        assert_eq!(driven.takes_a_turn(), takes, "{phase} {code:?}");
    }
    let mut given_back = set_off("one", "2026-01-01T00:00:00Z", &by);
    given_back["status"] = json!({"phase": "RollingBack", "journal": {
        "source": "east", "writer": "east", "rollBack": {"fromPhase": "Cleanup", "stage": "Returned"},
    }});
    assert!(!Driven::of(&given_back).unwrap().takes_a_turn());
}

#[test]
fn where_it_stands_and_what_it_waits_for_is_one_line() {
    let mut migration = set_off("one", "2026-01-01T00:00:00Z", &policy(&["west"], &["orders"]));
    let described = |migration: &Value| Driven::of(migration).unwrap().described();
    assert_eq!(described(&migration), "Migration shop/one is in Pending");
    migration["status"]["waitingFor"] = json!({
        "code": "Evidence", "reason": "east: the job is not healthy\nand more", "since": "2026-01-01T00:00:00Z",
    });
    assert_eq!(
        described(&migration),
        "Migration shop/one is in Pending and waits: east: the job is not healthy"
    );
}

#[test]
fn it_notes_the_placement_that_its_policy_is_to_have() {
    let orders = PolicyName {
        namespace: Some("shop".to_owned()),
        name: "orders".to_owned(),
    };
    let mut called = orders_to_west(None);
    let set_off = |called: &Called, wanted: &Value| {
        let cause = Cause {
            sync: "sync",
            source: "example.com/fleet@main",
            policy: &orders,
            wanted,
        };
        migration(called, cause, &Migrations::default(), Timestamp::UNIX_EPOCH)
    };
    let agreed = |migration: &Value| Driven::of(migration).unwrap().agreed();
    let by = policy(&["west"], &["orders"]);
    let noted = set_off(&called, &by);
    assert_eq!(agreed(&noted).as_ref(), by.pointer("/spec/placement"));
    // Another one than it was set off for, and none.
    for said in [
        json!({"clusterAffinity": {"clusterNames": ["north"]}}),
        json!("west"),
    ] {
        let mut changed = noted.clone();
        changed["metadata"]["annotations"][AGREED_ANNOTATION] = json!(said.to_string());
        assert_eq!(agreed(&changed), None);
    }
    // Too much for an annotation, and what says nothing of another policy.
    let many = vec!["west"; MOST_OF_A_PLACEMENT / 4];
    assert_eq!(agreed(&set_off(&called, &policy(&many, &["orders"]))), None);
    called.successor = Some(orders.clone());
    let mut taken_up = set_off(&called, &by);
    assert_eq!(agreed(&taken_up), None);
    taken_up["metadata"]["annotations"][AGREED_ANNOTATION] = json!(by["spec"]["placement"].to_string());
    assert_eq!(agreed(&taken_up), None, "it is the placement of another policy");
}

#[test]
fn only_what_is_committed_and_offers_no_word_awaits_a_placement() {
    let by = policy(&["west"], &["orders"]);
    let offer = json!([{"fact": "To", "cluster": "east", "givesUp": "what west wrote"}]);
    for (phase, offers, awaits) in [
        ("Verify", json!([]), false),
        ("Cleanup", Value::Null, true),
        ("Cleanup", json!([]), true),
        ("Cleanup", offer, false),
        ("RollingBack", json!([]), false),
    ] {
        let mut migration = set_off("one", "2026-01-01T00:00:00Z", &by);
        migration["status"] = json!({"phase": phase, "waitingFor": {"offers": offers}});
        let driven = Driven::of(&migration).unwrap();
        assert_eq!(driven.awaits_placement(), awaits, "{phase}");
    }
}

#[test]
fn only_what_a_person_gave_back_after_the_commit_waits_for_a_placement_at_the_source() {
    let by = policy(&["west"], &["orders"]);
    for (phase, from, stage, writer, returned) in [
        ("RollingBack", "Cleanup", "Returned", "east", Some("east")),
        ("RollingBack", "Cleanup", "Returned", "west", None),
        ("RollingBack", "Cleanup", "Taken", "east", None),
        ("RollingBack", "Verify", "Returned", "east", None),
        ("RolledBack", "Cleanup", "Returned", "east", None),
    ] {
        let mut migration = set_off("one", "2026-01-01T00:00:00Z", &by);
        migration["status"] = json!({"phase": phase, "journal": {
            "source": "east", "writer": writer, "rollBack": {"fromPhase": from, "stage": stage},
        }});
        assert_eq!(
            returned_to(&migration),
            returned,
            "{phase} {from} {stage} {writer}"
        );
    }
}

#[test]
fn of_two_for_one_workload_the_committed_or_the_first_one_goes_on() {
    let by = policy(&["west"], &["orders"]);
    let first = set_off("one", "2026-01-01T00:00:00Z", &by);
    let second = set_off("two", "2026-01-01T00:00:01Z", &by);
    let comes_after =
        |one: &Value, other: &Value| Driven::of(one).unwrap().comes_after(&Driven::of(other).unwrap());
    assert!(comes_after(&second, &first) && !comes_after(&first, &second));
    assert!(!comes_after(&first, &first));
    let mut committed = second.clone();
    committed["status"]["phase"] = json!("Cleanup");
    assert!(comes_after(&first, &committed) && !comes_after(&committed, &first));
    for change in ["/status/phase", "/spec/abort", "/spec/workload/name"] {
        let mut other = first.clone();
        match change {
            "/status/phase" => other["status"]["phase"] = json!("Completed"),
            "/spec/abort" => other["spec"]["abort"] = json!(true),
            _ => other["spec"]["workload"]["name"] = json!("bills"),
        }
        assert!(!comes_after(&second, &other), "{change}");
    }
}

/// Whoever may annotate an intent writes it: nothing is read from it.
#[test]
fn what_an_annotation_gives_as_a_reason_is_one_short_line() {
    let why = |text: &str| {
        let annotations = BTreeMap::from([(OVERTAKEN_ANNOTATION.to_owned(), text.to_owned())]);
        why_overtaken(Some(&annotations)).map(str::to_owned)
    };
    assert_eq!(why_overtaken(None), None);
    for (text, says) in [
        ("true", OVERTAKEN),
        (COMES_AFTER, COMES_AFTER),
        ("\n one\nSingleWriterLapse: two", "one"),
        ("", ""),
    ] {
        assert_eq!(why(text).as_deref(), Some(says), "{text:?}");
    }
    let long = why(&"ä".repeat(10_000)).unwrap();
    assert_eq!(long.chars().count(), MOST_OF_A_REASON);
}

/// A roll back whose reason begins so keeps the token from both copies.
#[test]
fn a_reason_that_an_annotation_gives_is_none_of_the_operations_own() {
    let input = Input::<(), (), ()> {
        uid: "",
        namespace: None,
        name: "",
        generation: 0,
        revision: None,
        deleting: false,
        overtaken: Some(LAPSE),
        has_finalizer: false,
        spec: &(),
        status: &(),
        trouble: None,
        ahead: None,
        snapshot: &(),
        now: Timestamp::UNIX_EPOCH,
    };
    assert!(!input.why_aborted().starts_with(LAPSE), "{}", input.why_aborted());
}
