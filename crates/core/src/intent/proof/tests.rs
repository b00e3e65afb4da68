use serde_json::json;

use super::super::seen::Seen;
use super::*;
use crate::intent::member::{Pod, SoakSample};

const MARKER: &str = "uid.1.2";

fn profile() -> Profile {
    Profile::compile("flink", &crate::profile::built_in().unwrap()[0].spec).unwrap()
}

fn read(sent: u64) -> Read {
    Read {
        sent,
        answered: sent + 1,
    }
}

fn held() -> Value {
    json!({
        "metadata": {"name": "orders", "uid": "u1", "generation": 1, "annotations": {MARKER_ANNOTATION: MARKER}},
        "spec": {"job": {"state": "suspended"}},
    })
}

fn stopped(path: &str) -> Value {
    let mut object = held();
    object["metadata"]["generation"] = json!(3);
    object["status"] = json!({
        "observedGeneration": 3,
        "jobManagerDeploymentStatus": "MISSING",
        "jobStatus": {"state": "FINISHED", "startTime": "1", "jobId": "j1", "upgradeSavepointPath": path},
        "reconciliationStatus": {
            "state": "DEPLOYED",
            "lastReconciledSpec": r#"{"spec":{"job":{"state":"suspended","upgradeMode":"savepoint"}}}"#,
        },
    });
    object
}

fn member(object: Option<Value>) -> Member {
    Member {
        object: Seen::known(object, read(5)),
        pods: Seen::known(Vec::new(), read(6)),
        nodes: Seen::known(BTreeMap::from([("node-1".to_owned(), true)]), read(7)),
        ended: std::collections::BTreeSet::new(),
        unchanged: std::time::Duration::ZERO,
        silent: false,
    }
}

fn with<T>(member: &Member, look: impl FnOnce(&Facts<'_>) -> T) -> T {
    let profile = profile();
    let nodes = BTreeSet::from(["node-1".to_owned()]);
    let works = BTreeMap::new();
    look(&Facts {
        cluster: &"west".into(),
        member,
        works: &works,
        marker: MARKER,
        profile: &profile,
        nodes: Some(&nodes),
        offered: None,
    })
}

fn is_no<T>(proof: Result<T, NotProved>) -> bool {
    matches!(proof, Err(NotProved::No(_)))
}

fn is_unknown<T>(proof: Result<T, NotProved>) -> bool {
    matches!(proof, Err(NotProved::Unknown(_)))
}

#[test]
fn a_copy_is_held_only_under_the_current_marker_with_the_hold_and_never_having_run() {
    assert!(with(&member(Some(held())), Held::prove).is_ok());
    let mut old = held();
    old["metadata"]["annotations"][MARKER_ANNOTATION] = json!("uid.1.1");
    assert!(is_no(with(&member(Some(old)), Held::prove)));
    let mut running = held();
    running["spec"]["job"]["state"] = json!("running");
    assert!(is_no(with(&member(Some(running)), Held::prove)));
    assert!(is_no(with(&member(Some(stopped("s3://a"))), Held::prove)));
    let mut leaving = held();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(is_no(with(&member(Some(leaving)), Held::prove)));
}

/// Nothing shows yet, and its operator may be about to start it.
#[test]
fn a_copy_that_was_let_run_is_held_only_when_its_operator_says_so_or_the_order_never_came() {
    let offered = Offered {
        uid: Some("u1".to_owned()),
        generation: 1,
        ..Offered::default()
    };
    let look = |copy: Value| {
        let copy = member(Some(copy));
        with(&copy, |facts| {
            Held::prove(&Facts {
                offered: Some(&offered),
                ..*facts
            })
        })
    };
    assert!(look(held()).is_ok(), "the spec that it had");
    let mut told = held();
    told["metadata"]["generation"] = json!(3);
    assert!(is_no(look(told.clone())));
    told["status"] = json!({"observedGeneration": 2});
    assert!(is_no(look(told.clone())));
    told["status"] = json!({"observedGeneration": 3});
    assert!(look(told).is_ok());
    let mut stopped_before_it_came = held();
    stopped_before_it_came["metadata"]["generation"] = json!(2);
    assert!(look(stopped_before_it_came).is_ok());
    let mut recreated = held();
    recreated["metadata"]["uid"] = json!("u2");
    assert!(look(recreated.clone()).is_ok(), "created held");
    recreated["metadata"]["generation"] = json!(2);
    assert!(is_no(look(recreated)));
}

fn built_in(name: &str) -> Profile {
    let all = crate::profile::built_in().unwrap();
    let profile = all
        .iter()
        .find(|profile| profile.metadata.name.as_deref() == Some(name));
    Profile::compile(name, &profile.unwrap().spec).unwrap()
}

/// A Job whose controller says that it is suspended, by the spec of whatever generation.
fn suspended_job(generation: i64) -> Value {
    json!({
        "metadata": {
            "name": "train", "uid": "u1", "generation": generation, "annotations": {MARKER_ANNOTATION: MARKER},
        },
        "spec": {"suspend": true},
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    })
}

/// What its controller said when the copy was created held is all that it has said, and it is about to act on the order to run.
#[test]
fn a_suspension_that_was_told_before_the_order_to_run_is_no_proof_of_a_stop_after_it() {
    let profile = built_in("job");
    let order = |order| Offered {
        uid: Some("u1".to_owned()),
        generation: 1,
        order,
    };
    let look = |generation: i64, offered: Option<&Offered>| {
        let copy = member(Some(suspended_job(generation)));
        with(&copy, |facts| {
            Inert::prove(&Facts {
                offered,
                profile: &profile,
                ..*facts
            })
        })
    };
    assert!(look(3, None).is_ok(), "it was never offered the token");
    for unseen in [RunOrder::Unknown, RunOrder::Awaited] {
        let offered = order(unseen);
        assert!(is_unknown(look(3, Some(&offered))), "{unseen:?}");
        assert!(look(1, Some(&offered)).is_ok(), "the order never came");
        assert!(look(2, Some(&offered)).is_ok(), "the order was taken back before");
    }
    let seen = order(RunOrder::Seen);
    assert!(matches!(look(3, Some(&seen)), Ok(Inert::Stopped(_))));
    let of_another = Offered {
        uid: Some("u0".to_owned()),
        ..seen
    };
    assert!(is_unknown(look(3, Some(&of_another))));
}

#[test]
fn a_copy_that_took_the_place_of_the_first_is_not_noted_where_that_is_told() {
    let seen_by = |keeps_first: bool, first: Option<&str>| {
        let mut offered = Offered {
            uid: first.map(str::to_owned),
            order: RunOrder::Awaited,
            ..Offered::default()
        };
        offered.note_seen("u2".to_owned(), keeps_first);
        (offered.uid.unwrap(), offered.order)
    };
    let noted = ("u2".to_owned(), RunOrder::Seen);
    assert_eq!(seen_by(true, Some("u1")), ("u1".to_owned(), RunOrder::Awaited));
    assert_eq!(seen_by(true, None), noted);
    assert_eq!(seen_by(true, Some("u2")), noted);
    assert_eq!(seen_by(false, Some("u1")), noted);
}

/// An operator that acknowledges the generation of the hold has seen the order before it.
#[test]
fn a_stop_that_is_acknowledged_by_its_generation_is_proved_after_an_order_to_run() {
    let profile = built_in("kafka-connect");
    let offered = Offered {
        uid: Some("u1".to_owned()),
        generation: 1,
        ..Offered::default()
    };
    let look = |observed: i64| {
        let copy = member(Some(json!({
            "metadata": {"name": "train", "uid": "u1", "generation": 3, "annotations": {MARKER_ANNOTATION: MARKER}},
            "spec": {"replicas": 0},
            "status": {
                "observedGeneration": observed, "replicas": 0, "conditions": [{"type": "Ready", "status": "True"}],
            },
        })));
        with(&copy, |facts| {
            Inert::prove(&Facts {
                offered: Some(&offered),
                profile: &profile,
                ..*facts
            })
        })
    };
    assert!(matches!(look(3), Ok(Inert::Stopped(_))));
    assert!(is_no(look(1)));
}

/// A copy is seen to have begun only by a status that can be about no earlier order.
#[test]
fn a_copy_runs_as_told_when_it_has_the_order_and_its_operator_says_that_it_does() {
    let profile = built_in("job");
    let look = |copy: &Value| {
        let copy = member(Some(copy.clone()));
        with(&copy, |facts| {
            Healthy::as_told(&Facts {
                profile: &profile,
                ..*facts
            })
        })
    };
    let mut copy = suspended_job(2);
    copy["spec"]["suspend"] = json!(false);
    assert!(is_no(look(&copy)), "its controller has not looked");
    let runs = json!({
        "startTime": "2030-01-31T06:00:00Z", "ready": 1, "conditions": [{"type": "Suspended", "status": "False"}],
    });
    copy["status"] = runs;
    assert_eq!(look(&copy), Ok("u1".to_owned()));
    copy["spec"]["suspend"] = json!(true);
    assert!(is_no(look(&copy)), "it has no order to run");
}

#[test]
fn a_copy_is_stopped_only_when_its_operator_has_observed_the_hold_and_its_pods_are_gone() {
    assert!(with(&member(Some(stopped("s3://a"))), Stopped::prove).is_ok());
    let mut unobserved = stopped("s3://a");
    unobserved["status"]["observedGeneration"] = json!(2);
    assert!(is_no(with(&member(Some(unobserved)), Stopped::prove)));
    let mut unset = stopped("s3://a");
    unset["status"]
        .as_object_mut()
        .unwrap()
        .remove("observedGeneration");
    assert!(is_no(with(&member(Some(unset)), Stopped::prove)));
    let mut with_pods = member(Some(stopped("s3://a")));
    with_pods.pods = Seen::known(
        vec![Pod {
            name: "orders-1".into(),
            ..Pod::default()
        }],
        read(6),
    );
    assert!(is_no(with(&with_pods, Stopped::prove)));
}

type Change = fn(&mut Value);

/// What its operator says by then is not asked: a reconciliation that fails says nothing of a stop that was proved before.
#[test]
fn a_copy_that_was_proved_stopped_stays_so_while_nothing_can_have_started_it() {
    let proved = Offered {
        uid: Some("u1".to_owned()),
        generation: 3,
        ..Offered::default()
    };
    let mut fails = stopped("s3://a");
    fails["status"]["jobManagerDeploymentStatus"] = json!("DEPLOYING");
    let look = |member: &Member| with(member, |facts| facts.still_stopped(&proved));
    assert!(is_no(with(&member(Some(fails.clone())), Stopped::prove)));
    assert!(look(&member(Some(fails.clone()))).is_ok());
    let cases: [(&str, Change); 7] = [
        ("another spec, which its operator has observed", |copy| {
            copy["metadata"]["generation"] = json!(4);
            copy["status"]["observedGeneration"] = json!(4);
        }),
        ("another copy", |copy| copy["metadata"]["uid"] = json!("u2")),
        ("the marker of before", |copy| {
            copy["metadata"]["annotations"][MARKER_ANNOTATION] = json!("uid.1.1");
        }),
        ("no hold", |copy| copy["spec"]["job"]["state"] = json!("running")),
        ("being deleted", |copy| {
            copy["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }),
        ("not observed", |copy| {
            copy["status"]["observedGeneration"] = json!(2);
        }),
        ("running, as its operator says", |copy| {
            copy["status"]["jobStatus"]["state"] = json!("RUNNING");
            copy["status"]["jobManagerDeploymentStatus"] = json!("READY");
        }),
    ];
    for (what, change) in cases {
        let mut copy = fails.clone();
        change(&mut copy);
        assert!(is_no(look(&member(Some(copy)))), "{what}");
    }
    let mut with_pods = member(Some(fails.clone()));
    with_pods.pods = Seen::known(
        vec![Pod {
            name: "orders-1".into(),
            ..Pod::default()
        }],
        read(6),
    );
    assert!(is_no(look(&with_pods)));
    let mut lost = member(Some(fails.clone()));
    lost.nodes = Seen::known(BTreeMap::from([("node-1".to_owned(), false)]), read(7));
    assert!(is_unknown(look(&lost)));
    let mut spec = crate::profile::built_in().unwrap()[0].spec.clone();
    spec.no_pods = None;
    let no_pods = Profile::compile("flink", &spec).unwrap();
    let says_nothing_of_pods = with(&member(Some(fails)), |facts| {
        let facts = Facts {
            profile: &no_pods,
            ..*facts
        };
        facts.still_stopped(&proved)
    });
    assert!(is_no(says_nothing_of_pods));
}

#[test]
fn a_run_to_completion_that_has_ended_does_not_run_again_by_being_healthy() {
    let mut ended = stopped("s3://a");
    ended["status"]["jobStatus"]["state"] = json!("RUNNING");
    ended["status"]["jobManagerDeploymentStatus"] = json!("READY");
    let proved = Offered {
        uid: Some("u1".to_owned()),
        generation: 3,
        ..Offered::default()
    };
    let mut spec = crate::profile::built_in().unwrap()[0].spec.clone();
    spec.finished_when = Some(spec.healthy_when.clone());
    let to_completion = Profile::compile("job", &spec).unwrap();
    let look = |facts: &Facts<'_>| facts.still_stopped(&proved);
    assert!(is_no(with(&member(Some(ended.clone())), look)));
    let proof = with(&member(Some(ended)), |facts| {
        look(&Facts {
            profile: &to_completion,
            ..*facts
        })
    });
    assert!(proof.is_ok());
}

#[test]
fn pods_that_were_looked_for_before_the_copy_prove_nothing() {
    let mut early = member(Some(stopped("s3://a")));
    early.pods = Seen::known(Vec::new(), read(5));
    assert!(is_unknown(with(&early, Stopped::prove)));
    early.object = Seen::known(None, read(5));
    assert!(is_unknown(with(&early, Gone::prove)));
}

#[test]
fn pods_gone_from_a_node_that_is_not_ready_prove_nothing() {
    let mut lost = member(Some(stopped("s3://a")));
    lost.nodes = Seen::known(BTreeMap::from([("node-1".to_owned(), false)]), read(7));
    assert!(is_unknown(with(&lost, Stopped::prove)));
}

#[test]
fn a_node_that_is_gone_from_the_api_took_no_pod_with_it() {
    for object in [Some(stopped("s3://a")), None] {
        let mut deleted = member(object);
        deleted.nodes = Seen::known(BTreeMap::new(), read(7));
        assert!(is_unknown(with(&deleted, Inert::prove)));
    }
}

#[test]
fn what_could_not_be_read_is_unknown_for_every_proof() {
    let mut unreachable = member(None);
    unreachable.object = Seen::unknown("west did not answer");
    assert!(is_unknown(with(&unreachable, Held::prove)));
    assert!(is_unknown(with(&unreachable, Stopped::prove)));
    assert!(is_unknown(with(&unreachable, Gone::prove)));
    assert!(is_unknown(with(&unreachable, Inert::prove)));
    assert!(is_unknown(with(&unreachable, |facts| Healthy::prove(
        facts, None
    ))));
}

#[test]
fn a_terminating_copy_is_not_gone() {
    assert!(with(&member(None), Gone::prove).is_ok());
    let mut leaving = stopped("s3://a");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(is_no(with(&member(Some(leaving)), Gone::prove)));
}

#[test]
fn a_handle_from_before_the_suspension_is_not_captured() {
    let member = member(Some(stopped("s3://old")));
    let proof = with(&member, Stopped::prove).unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let before = BTreeMap::from([("savepoint".to_owned(), "s3://old".to_owned())]);
    assert!(is_no(proof.capture(&profile(), &before, now)));
    assert_eq!(
        proof.capture(&profile(), &BTreeMap::new(), now).unwrap().values["savepoint"],
        "s3://old"
    );
}

#[test]
fn a_release_needs_a_proof_about_every_other_cluster_read_after_the_pin() {
    let proof = with(&member(None), Inert::prove).unwrap();
    let involved = BTreeSet::from(["east".into(), "west".into()]);
    let east = ClusterName::from("east");
    assert!(Release::new(&east, Some(read(2)), &involved, std::slice::from_ref(&proof)).is_ok());
    assert!(Release::new(&east, Some(read(9)), &involved, std::slice::from_ref(&proof)).is_err());
    assert!(Release::new(&east, None, &involved, std::slice::from_ref(&proof)).is_err());
    assert!(Release::new(&east, Some(read(2)), &involved, &[]).is_err());
    let three = BTreeSet::from(["east".into(), "west".into(), "north".into()]);
    assert!(Release::new(&east, Some(read(2)), &three, &[proof]).is_err());
}

/// A `CronJob` that is told to stop; whether its controller has seen that its status does not say.
fn suspended_cron_job(generation: i64) -> Value {
    json!({
        "metadata": {
            "name": "tick", "namespace": "shop", "uid": "u1", "resourceVersion": "9", "generation": generation,
            "annotations": {MARKER_ANNOTATION: MARKER},
        },
        "spec": {"suspend": true},
        "status": {"lastScheduleTime": "2030-01-31T06:00:00Z"},
    })
}

#[test]
fn where_no_status_tells_of_the_stop_only_time_without_a_change_does() {
    let profile = built_in("cronjob");
    let offered = Offered {
        uid: Some("u1".to_owned()),
        generation: 1,
        order: RunOrder::Awaited,
    };
    let look = |object: Option<Value>, offered: Option<&Offered>, seconds: u64| {
        let copy = Member {
            unchanged: std::time::Duration::from_secs(seconds),
            ..member(object)
        };
        with(&copy, |facts| {
            Inert::prove(&Facts {
                offered,
                profile: &profile,
                ..*facts
            })
        })
    };
    for generation in [1, 2, 3] {
        let copy = || Some(suspended_cron_job(generation));
        for offered in [None, Some(&offered)] {
            assert!(is_no(look(copy(), offered, 89)), "{generation} {offered:?}");
            let proof = look(copy(), offered, 90).unwrap();
            assert!(matches!(proof, Inert::Stopped(_)), "{proof:?}");
            assert!(
                proof.evidence().ends_with("no pods, unchanged for 90s"),
                "{proof:?}"
            );
        }
    }
    // Its controller may go by an older read of one that is gone, too.
    assert!(is_no(look(None, None, 89)));
    assert!(matches!(look(None, None, 90), Ok(Inert::Gone(_))));
    // One that was created held has never been anything else.
    let mut held = suspended_cron_job(1);
    held["status"] = json!({});
    assert!(matches!(look(Some(held), None, 0), Ok(Inert::Held(_))));
}

#[test]
fn a_copy_is_watched_as_long_as_it_is_the_same_without_pods() {
    let of = |object: Option<Value>| member(object).settles();
    let copy = suspended_cron_job(2);
    assert!(matches!(of(Some(copy.clone())), SoakSample::Good(_)));
    let mut written = copy.clone();
    written["metadata"]["resourceVersion"] = json!("10");
    assert_ne!(of(Some(written)), of(Some(copy.clone())));
    assert!(matches!(of(None), SoakSample::Good(_)));
    assert_ne!(of(None), of(Some(copy.clone())));
    let ended_since = Member {
        ended: BTreeSet::from(["p1".to_owned()]),
        ..member(Some(copy.clone()))
    };
    assert!(matches!(ended_since.settles(), SoakSample::Good(_)));
    assert_ne!(ended_since.settles(), of(Some(copy.clone())));
    let with_pod = Member {
        pods: Seen::known(vec![Pod::default()], read(6)),
        ..member(Some(copy.clone()))
    };
    assert_eq!(with_pod.settles(), SoakSample::Bad);
    let unseen = Member {
        pods: Seen::unknown("no answer"),
        ..member(Some(copy))
    };
    assert_eq!(unseen.settles(), SoakSample::Unknown);
}
