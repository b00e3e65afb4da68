use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::intent::proof::{Sole, Stateless};
use cutover_karmada::{Cluster, ClusterOverridePolicy, ClusterSpec, overrides};

fn pin(writer: Option<&str>) -> Pin {
    Pin {
        namespace: Some("shop".into()),
        name: "zzzz-cutover-orders".into(),
        owner_uid: "uid".into(),
        owner: "Migration shop/orders-to-west".into(),
        api_version: "flink.apache.org/v1beta1".into(),
        versions: Arc::default(),
        kind: "FlinkDeployment".into(),
        workload: "orders".into(),
        marker: marker("uid", 1, 2),
        differences: Vec::new(),
        created: Vec::new(),
        says: Says::Token(token(writer)),
    }
}

fn token(writer: Option<&str>) -> Token {
    Token {
        may_run: writer.map_or(Writer::Nobody, |writer| Writer::Only(writer.into())),
        hold: vec![PatchOp::add("/spec/job/state", "suspended")],
        suspended: vec!["east".into()],
        suspend: vec![PatchOp::add("/spec/job/upgradeMode", "savepoint")],
        named: std::collections::BTreeMap::new(),
        carry: vec![PatchOp::add("/spec/job/initialSavepointPath", "s3://a")],
    }
}

/// What each cluster gets: state, upgrade mode, initial path, marker.
fn copies(pin: &Pin) -> Vec<(Value, Value, Value, Value)> {
    let template = json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"namespace": "shop", "name": "orders", "annotations": {}},
        "spec": {"job": {"state": "running"}},
    });
    let none: [ClusterOverridePolicy; 0] = [];
    ["east", "west", "north"]
        .map(|name| {
            let cluster = Cluster::new(name, ClusterSpec::default());
            let got = overrides::effective(&template, &cluster, &none, &[pin.policy()]).unwrap();
            let at = |path: &str| got.pointer(path).cloned().unwrap_or(Value::Null);
            (
                at("/spec/job/state"),
                at("/spec/job/upgradeMode"),
                at("/spec/job/initialSavepointPath"),
                at("/metadata/annotations/cutover.dev~1pin"),
            )
        })
        .into()
}

#[test]
fn a_pin_that_names_nobody_holds_every_cluster_and_suspends_the_one_with_state() {
    let held = (json!("suspended"), Value::Null, Value::Null, json!("uid.1.2"));
    let suspended = (
        json!("suspended"),
        json!("savepoint"),
        Value::Null,
        json!("uid.1.2"),
    );
    assert_eq!(copies(&pin(None)), [suspended, held.clone(), held]);
}

/// Karmada makes the Works from the version that the control plane prefers, which needn't be that of the intent.
#[test]
fn a_pin_holds_the_workload_under_every_version_that_is_served() {
    let preferred = "flink.apache.org/v1beta2";
    let template = json!({
        "apiVersion": preferred, "kind": "FlinkDeployment",
        "metadata": {"namespace": "shop", "name": "orders", "annotations": {}},
        "spec": {"job": {"state": "running"}},
    });
    let pin = Pin {
        versions: vec!["flink.apache.org/v1beta1".to_owned(), preferred.to_owned()].into(),
        ..pin(None)
    };
    let none: [ClusterOverridePolicy; 0] = [];
    let north = Cluster::new("north", ClusterSpec::default());
    let got = overrides::effective(&template, &north, &none, &[pin.policy()]).unwrap();
    assert_eq!(got["spec"]["job"]["state"], "suspended");
    assert_eq!(got["metadata"]["annotations"]["cutover.dev/pin"], "uid.1.2");
}

/// A version that came since is selected as well, under the same marker; it isn't somebody's tampering.
#[test]
fn a_pin_from_before_a_version_came_is_ours_and_due() {
    let before = pin(None);
    let now = Pin {
        versions: vec!["flink.apache.org/v1beta2".to_owned()].into(),
        ..before.clone()
    };
    let there = before.policy();
    assert!(now.is_written_as(&there) && !now.reaches(&there));
    assert!(
        before.is_written_as(&now.policy()),
        "one that isn't served any more may stay"
    );
    let mut foreign = now.policy();
    foreign.spec.resource_selectors[1].name = "invoices".into();
    assert!(!now.is_written_as(&foreign));
    foreign.spec.resource_selectors.clear();
    assert!(!now.is_written_as(&foreign));
}

#[test]
fn a_pin_lets_only_the_named_cluster_run_and_a_cluster_nobody_thought_of_is_held() {
    let writer = (json!("running"), Value::Null, json!("s3://a"), json!("uid.1.2"));
    let held = (json!("suspended"), Value::Null, Value::Null, json!("uid.1.2"));
    let suspended = (
        json!("suspended"),
        json!("savepoint"),
        Value::Null,
        json!("uid.1.2"),
    );
    assert_eq!(copies(&pin(Some("west"))), [suspended, writer, held]);
}

#[test]
fn no_pin_that_names_a_writer_is_written_without_a_proof() {
    assert!(PinWrite::new(&pin(Some("west")), None, Authority::Nobody).is_err());
    assert!(PinWrite::new(&pin(None), None, Authority::Nobody).is_ok());
    let east = ClusterName::from("east");
    let alone = Sole::new(&east, &BTreeSet::from([east.clone()])).unwrap();
    assert!(PinWrite::new(&pin(Some("east")), None, Authority::Sole(&alone)).is_ok());
    assert!(PinWrite::new(&pin(Some("west")), None, Authority::Sole(&alone)).is_err());
    assert!(Sole::new(&east, &BTreeSet::from([east.clone(), "west".into()])).is_err());
}

#[test]
fn the_same_pin_under_another_marker_needs_no_proof_and_an_edited_one_does() {
    let mut live = Pin {
        marker: marker("uid", 1, 1),
        ..pin(Some("west"))
    }
    .policy();
    assert!(PinWrite::new(&pin(Some("west")), Some(&live), Authority::Nobody).is_ok());
    live.spec.override_rules.remove(0);
    assert!(PinWrite::new(&pin(Some("west")), Some(&live), Authority::Nobody).is_err());
}

#[test]
fn a_pin_is_recognised_only_with_its_protection() {
    let live = pin(None).policy();
    assert!(pin(None).is_written_as(&live));
    assert!(!pin(None).is_written_as(PinWrite::unprotected(&live).policy()));
    assert_eq!(marker_of(&live), Some("uid.1.2"));
    let mut defaulted = live;
    defaulted.spec.overriders = Some(Overriders::default());
    assert!(pin(None).is_written_as(&defaulted));
}

#[test]
fn a_shared_pin_holds_nobody_and_needs_a_profile_without_state() {
    let shared = Pin {
        says: Says::Token(Token {
            may_run: Writer::Shared {
                carrier: "west".into(),
            },
            suspended: Vec::new(),
            ..token(None)
        }),
        ..pin(None)
    };
    let states: Vec<_> = copies(&shared).into_iter().map(|copy| (copy.0, copy.2)).collect();
    let runs = (json!("running"), Value::Null);
    assert_eq!(states, [runs.clone(), (json!("running"), json!("s3://a")), runs]);

    let built_in = |kind: &str| {
        let found = crate::profile::find(&[], Some(kind), &cutover_karmada::name::Gvk::new("", ""))
            .unwrap()
            .unwrap();
        crate::profile::Profile::compile(kind, &found.spec).unwrap()
    };
    assert!(Stateless::new(&built_in("flink")).is_err());
    assert!(Stateless::new(&built_in("statefulset")).is_err());
    let stateless = Stateless::new(&built_in("deployment")).unwrap();
    assert!(PinWrite::new(&shared, None, Authority::Stateless(&stateless)).is_ok());
    assert!(PinWrite::new(&shared, None, Authority::Nobody).is_err());
    assert!(PinWrite::new(&pin(Some("west")), None, Authority::Stateless(&stateless)).is_err());
}

#[test]
fn a_marker_with_numbers_that_no_migration_comes_to_is_nobodys() {
    assert_eq!(sequence("uid.3.7", "uid"), Some((3, 7)));
    assert_eq!(sequence("uid.3.7", "other"), None);
    for forged in [
        format!("uid.{}.1", u32::MAX),
        format!("uid.1.{}", u64::MAX),
        "uid.1.-2".to_owned(),
        "uid.1".to_owned(),
    ] {
        assert_eq!(sequence(&forged, "uid"), None, "{forged}");
    }
}

#[test]
fn differences_hold_nobody_and_are_never_written_over_what_somebody_else_says() {
    let differs = Pin {
        says: Says::Differences(vec![
            Rule {
                place: Place::AllBut(vec!["west".into()]),
                patches: vec![PatchOp::add("/spec/job/upgradeMode", "stateless")],
            },
            Rule {
                place: Place::Only(vec!["north".into()]),
                patches: vec![PatchOp::add("/spec/job/initialSavepointPath", "s3://b")],
            },
        ]),
        ..pin(None)
    };
    let (runs, marker) = (json!("running"), json!("uid.1.2"));
    let (mode, path) = (json!("stateless"), json!("s3://b"));
    assert_eq!(
        copies(&differs),
        [
            (runs.clone(), mode.clone(), Value::Null, marker.clone()),
            (runs.clone(), Value::Null, Value::Null, marker.clone()),
            (runs, mode, path, marker),
        ]
    );
    assert!(PinWrite::new(&differs, None, Authority::Nobody).is_ok());
    let own = pin(None).policy();
    assert!(PinWrite::new(&differs, Some(&own), Authority::Nobody).is_ok());
    let foreign = Pin {
        owner_uid: "other".into(),
        ..pin(None)
    };
    assert_eq!(
        PinWrite::new(&differs, Some(&foreign.policy()), Authority::Nobody).err(),
        Some(Unauthorized::Foreign)
    );
}

#[test]
fn a_pin_is_put_up_without_a_word_and_whosever_it_is_written_over() {
    let foreign = Pin {
        owner_uid: "other".into(),
        ..pin(None)
    };
    let blank = PinWrite::new(&foreign, None, Authority::Nobody).unwrap();
    assert!(blank.creates() && is_blank(blank.policy()));
    assert_eq!(blank.to_string(), "pin: says nothing yet");
    let differs = Pin {
        says: Says::Differences(Vec::new()),
        ..pin(None)
    };
    for wanted in [pin(None), differs] {
        let mut live = blank.policy().clone();
        live.metadata.resource_version = Some("7".into());
        let write = PinWrite::new(&wanted, Some(&live), Authority::Nobody).unwrap();
        assert!(!write.creates() && wanted.is_written_as(write.policy()));
        assert_eq!(write.policy().metadata.resource_version.as_deref(), Some("7"));
    }
    // One that somebody emptied of a policy of his own is not a pin.
    let mut theirs = blank.policy().clone();
    theirs.metadata.labels = None;
    assert!(!is_blank(&theirs) && !is_blank(&pin(None).policy()));
}

/// K0: who may run it and what runs are a product, and holding wins.
#[test]
fn whatever_a_guest_says_who_is_held_stays_held_and_who_is_suspended_too() {
    let differences = vec![
        Rule {
            place: Place::AllBut(vec!["west".into()]),
            patches: vec![
                PatchOp::add(
                    "/spec/job",
                    json!({"state": "running", "upgradeMode": "stateless"}),
                ),
                PatchOp::add("/spec/image", "orders:1.0"),
            ],
        },
        Rule {
            place: Place::Only(vec!["west".into()]),
            patches: vec![PatchOp::add("/spec/job/initialSavepointPath", "s3://of-a-guest")],
        },
    ];
    for writer in [None, Some("west"), Some("east")] {
        let with = Pin {
            differences: differences.clone(),
            ..pin(writer)
        };
        let states = |pin: &Pin| copies(pin).into_iter().map(|copy| copy.0).collect::<Vec<_>>();
        assert_eq!(states(&with), states(&pin(writer)), "{writer:?}");
        let live = with.policy();
        assert!(with.is_written_as(&live) && !pin(writer).is_written_as(&live));
    }
    let west = Pin {
        differences,
        ..pin(Some("west"))
    };
    let [east, west, north] = copies(&west).try_into().unwrap();
    assert_eq!((east.1, north.1), (json!("savepoint"), json!("stateless")));
    assert_eq!(
        west.2,
        json!("s3://a"),
        "what is carried goes over what a guest says"
    );
}

#[test]
fn what_a_pin_says_of_one_guest_can_be_found_in_it_and_left_out() {
    let rule = |clusters: &[&str], image: &str| Rule {
        place: Place::AllBut(clusters.iter().map(|name| (*name).into()).collect()),
        patches: vec![PatchOp::add("/spec/image", image)],
    };
    let (one, other) = (rule(&["west"], "orders:1"), rule(&["east"], "orders:2"));
    let with = Pin {
        differences: vec![one.clone(), other.clone()],
        ..pin(Some("west"))
    };
    let live = with.policy();
    let said = |rule: &Rule| [PinnedRule::from(rule.clone())];
    assert!(includes(&live, &said(&one)) && includes(&live, &said(&other)) && includes(&live, &[]));
    assert!(!includes(&live, &said(&rule(&[], "orders:1"))));
    let left = without(&live, &said(&one)).unwrap();
    let wanted = Pin {
        differences: vec![other],
        ..pin(Some("west"))
    };
    assert!(wanted.is_written_as(&left));
    // The hold is nobody's to leave out.
    let hold = Rule {
        place: Place::AllBut(vec!["west".into()]),
        patches: token(None).hold,
    };
    assert!(!includes(&live, &said(&hold)) && without(&live, &said(&hold)).is_none());
    let tended = PinWrite::of_guests(&live, std::slice::from_ref(&one), "uid.1.3");
    let wanted = Pin {
        differences: vec![one],
        marker: "uid.1.3".into(),
        ..pin(Some("west"))
    };
    assert!(wanted.is_written_as(tended.policy()));
}

/// KEDA, Strimzi and others stop at an annotation, and a template need not have any.
#[test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn a_pin_that_holds_by_an_annotation_is_read_like_any_other() {
    const PAUSED: &str = "/metadata/annotations/example.org~1paused";
    let one = Rule {
        place: Place::AllBut(vec!["north".into()]),
        patches: vec![PatchOp::add("/metadata/labels/version", "2")],
    };
    let by_annotation = Token {
        hold: vec![PatchOp::add(PAUSED, "true")],
        suspend: vec![PatchOp::add(PAUSED, "true")],
        carry: vec![PatchOp {
            op: "remove".to_owned(),
            path: PAUSED.to_owned(),
            value: None,
        }],
        ..token(Some("west"))
    };
    let pin = Pin {
        differences: vec![one.clone()],
        says: Says::Token(by_annotation),
        ..pin(None)
    };
    let live = pin.policy();
    let none: [ClusterOverridePolicy; 0] = [];
    let template = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"namespace": "shop", "name": "orders"}, "spec": {},
    });
    for (name, paused) in [
        ("east", json!("true")),
        ("west", Value::Null),
        ("north", json!("true")),
    ] {
        let cluster = Cluster::new(name, ClusterSpec::default());
        let got = overrides::effective(&template, &cluster, &none, std::slice::from_ref(&live)).unwrap();
        let annotations = &got["metadata"]["annotations"];
        assert_eq!(annotations["example.org/paused"], paused, "{name}");
        assert_eq!(annotations[MARKER_ANNOTATION], "uid.1.2", "{name}");
    }
    assert_eq!(marker_of(&live), Some("uid.1.2"));
    let hold = writer_of(&live)[0].target_cluster.as_ref().unwrap();
    assert_eq!(
        hold.exclude.as_deref(),
        Some([ClusterName::from("west")].as_slice())
    );
    assert!(includes(&live, &[PinnedRule::from(one.clone())]));
    let tended = PinWrite::of_guests(&live, &[], "uid.1.3");
    let alone = Pin {
        differences: Vec::new(),
        marker: "uid.1.3".into(),
        ..pin.clone()
    };
    assert!(alone.is_written_as(tended.policy()));
    // One that an earlier version has written as plain text is this one, and is not written again.
    let mut before = live.clone();
    let said = pin.rules();
    for (rule, said) in before.spec.override_rules.iter_mut().zip(&said) {
        let plain = said.patches.iter().map(|patch| {
            let operator = if patch.op == "remove" { "remove" } else { "add" };
            json!({"path": patch.path, "operator": operator, "value": patch.value})
        });
        let plain: Vec<Value> = plain.collect();
        rule.overriders = serde_json::from_value(json!({"plaintext": plain})).unwrap();
    }
    assert_ne!(before.spec, live.spec);
    assert!(pin.is_written_as(&before) && includes(&before, &[PinnedRule::from(one)]));
}
