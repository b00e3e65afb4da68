//! Who gets the token, on which evidence.

use std::collections::BTreeMap;

use serde_json::json;

use super::scene::{EARLY, EAST, LATE, Scene, WEST, held, lost, member, running, seen, work};
use crate::api::{Capture, ClaimOwner, FailoverPhase as Phase, LeaseSeen, SecretHandles, reference};
use crate::intent::failover::{Borrower, Snapshot, troubled};
use crate::intent::member::Pod;
use crate::intent::warnings::Warned;
use crate::intent::{Effect, Seen};

const WHY: &str = "nobody answers";

type Blind = (&'static str, fn(&mut Snapshot));

/// Whatever the release of the token is decided on.
const EVIDENCE: [Blind; 11] = [
    ("the binding", |snapshot| {
        snapshot.around.plane.binding = Seen::unknown(WHY);
    }),
    ("the Works", |snapshot| {
        snapshot.around.plane.works = Seen::unknown(WHY);
    }),
    ("the claim", |snapshot| {
        snapshot.around.plane.claim = Seen::unknown(WHY);
    }),
    ("the pin", |snapshot| {
        snapshot.around.plane.pin = Seen::unknown(WHY);
    }),
    ("who the clusters are", |snapshot| {
        snapshot.around.plane.clusters = Seen::unknown(WHY);
    }),
    ("the controllers' leases", |snapshot| {
        snapshot.around.plane.leases = Seen::unknown(WHY);
    }),
    ("the record in Git", |snapshot| snapshot.kept = Seen::unknown(WHY)),
    ("the old copy", |snapshot| {
        of(snapshot, EAST).object = Seen::unknown(WHY);
    }),
    ("the pods of the old copy", |snapshot| {
        of(snapshot, EAST).pods = Seen::unknown(WHY);
    }),
    ("the nodes of the old copy", |snapshot| {
        of(snapshot, EAST).nodes = Seen::unknown(WHY);
    }),
    ("the new copy", |snapshot| {
        of(snapshot, WEST).object = Seen::unknown(WHY);
    }),
];

fn of<'a>(snapshot: &'a mut Snapshot, cluster: &str) -> &'a mut crate::intent::member::Member {
    snapshot.around.members.get_mut(&cluster.into()).unwrap()
}

#[test]
fn with_all_of_the_evidence_the_token_is_given_from_the_state_that_git_has() {
    let mut scene = Scene::fencing();
    assert_eq!(scene.play(), [WEST]);
    assert!(scene.is(Phase::Releasing));
    let carried = scene.status.journal.unwrap().carried.unwrap();
    assert_eq!(carried["savepoint"], "s3://seen");
}

#[test]
fn nothing_that_is_unknown_is_a_yes() {
    for (what, blind) in EVIDENCE {
        let mut scene = Scene::fencing();
        blind(&mut scene.snapshot);
        assert_eq!(scene.play(), Vec::<String>::new(), "without {what}");
    }
}

#[test]
fn what_is_lost_between_the_decision_and_the_write_is_no_yes_either() {
    // The record and the new copy have been seen by then; nobody else can have changed either.
    for (what, blind) in EVIDENCE
        .into_iter()
        .filter(|(what, _)| !["the record in Git", "the new copy"].contains(what))
    {
        let mut scene = Scene::releasing();
        blind(&mut scene.snapshot);
        assert_eq!(scene.play(), Vec::<String>::new(), "without {what}");
    }
}

#[test]
fn in_a_phase_that_sees_nothing_nothing_is_sent_and_nothing_is_decided() {
    let phases = [
        Phase::Arming,
        Phase::Guarding,
        Phase::Lent,
        Phase::Evicted,
        Phase::Fencing,
        Phase::Releasing,
        Phase::Settling,
        Phase::Disarming,
    ];
    for phase in phases {
        let mut scene = if phase.in_flight() {
            Scene::fencing()
        } else {
            Scene::guarding()
        };
        scene.status.phase = phase;
        if phase == Phase::Lent {
            scene.status.journal.as_mut().unwrap().lent = Some(migration());
        }
        let around = &mut scene.snapshot.around;
        around.plane.template = Seen::unknown(WHY);
        around.plane.pin = Seen::unknown(WHY);
        around.plane.overrides = Seen::unknown(WHY);
        around.plane.canary = Seen::unknown(WHY);
        for (_, blind) in EVIDENCE {
            blind(&mut scene.snapshot);
        }
        scene.snapshot.migrations = Seen::unknown(WHY);
        let journal = scene.status.journal.clone();
        assert!(scene.settle().is_empty(), "{phase}");
        assert!(scene.is(phase) && scene.status.journal == journal, "{phase}");
        assert!(scene.waits().contains(WHY), "{phase}: {}", scene.waits());
    }
}

#[test]
fn what_was_read_before_the_pin_was_proves_nothing() {
    let mut scene = Scene::releasing();
    of(&mut scene.snapshot, EAST).object = seen(None, 0);
    of(&mut scene.snapshot, EAST).pods = seen(Vec::new(), 1);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(
        scene.waits().contains("was read before the pin was"),
        "{}",
        scene.waits()
    );
    of(&mut scene.snapshot, EAST).object = seen(None, LATE);
    of(&mut scene.snapshot, EAST).pods = seen(Vec::new(), LATE + 1);
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn an_old_copy_counts_by_what_it_does_not_by_what_was_sent_to_it() {
    let before = "plan-uid.1.4";
    let marker = Scene::fencing().marker();
    let mut leaves = held(&marker);
    leaves["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut pods = member(None);
    pods.pods = seen(
        vec![Pod {
            name: "orders-1".into(),
            ..Pod::default()
        }],
        LATE + 1,
    );
    let copies = [
        ("runs", member(Some(running(&marker, "s3://seen")))),
        ("ran before, and its operator has not seen the hold", {
            let mut copy = running(&marker, "s3://seen");
            copy["spec"]["job"]["state"] = json!("suspended");
            copy["metadata"]["generation"] = json!(3);
            member(Some(copy))
        }),
        ("holds by an older pin", member(Some(held(before)))),
        ("is being deleted", member(Some(leaves))),
        ("has pods", pods),
    ];
    for (what, copy) in copies {
        for begin in [Scene::fencing, Scene::releasing] {
            let mut scene = begin();
            scene.see(EAST, copy.clone());
            assert_eq!(scene.play(), Vec::<String>::new(), "it {what}");
        }
    }
    let mut scene = Scene::fencing();
    scene.see(EAST, member(Some(held(&marker))));
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn a_work_of_an_old_copy_keeps_it_from_counting_as_gone() {
    let mut scene = Scene::fencing();
    let mut works = scene.snapshot.around.plane.works.get().unwrap().clone();
    works.insert(EAST.into(), work("plan-uid.1.4"));
    scene.snapshot.around.plane.works = seen(works, EARLY);
    assert_eq!(scene.play(), Vec::<String>::new());
}

#[test]
fn a_state_that_git_has_not_is_pushed_first() {
    for kept in [None, Some(Scene::guarding().status)] {
        let mut scene = Scene::fencing();
        scene.snapshot.kept = seen(kept, EARLY);
        let effects = scene.settle();
        assert!(matches!(effects.as_slice(), [Effect::Keep(_)]), "{effects:?}");
        assert!(scene.is(Phase::Fencing));
        scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
        assert_eq!(scene.play(), [WEST]);
    }
}

#[test]
fn another_process_of_a_controller_voids_the_barrier_and_the_markers() {
    for begin in [Scene::fencing, Scene::releasing] {
        let mut scene = begin();
        let seq = scene.status.journal.as_ref().unwrap().pin.seq;
        let lease = LeaseSeen {
            holder: Some("another".to_owned()),
            transitions: 1,
        };
        scene.snapshot.around.plane.leases =
            seen(BTreeMap::from([("karmada-scheduler".to_owned(), lease)]), EARLY);
        assert_eq!(scene.play(), Vec::<String>::new());
        let journal = scene.status.journal.as_ref().unwrap();
        assert!(journal.fence.barrier.is_none() && journal.fence.canary == 2 && journal.pin.seq > seq);
    }
}

#[test]
fn a_target_that_nobody_sees_is_not_given_the_token() {
    let mut scene = Scene::fencing();
    scene.see(WEST, lost());
    assert_eq!(scene.play(), Vec::<String>::new());
    assert_eq!(scene.told(), ["TargetLost"]);
}

#[test]
fn the_state_that_a_migration_took_along_is_newer_than_what_was_seen_before_it() {
    let owner = migration();
    let captured = Capture {
        from: EAST.into(),
        values: BTreeMap::from([("savepoint".to_owned(), "s3://moved".to_owned())]),
        evidence: "stopped".to_owned(),
        at: "2026-01-01T00:30:00Z".parse().unwrap(),
    };
    for (captured, known) in [(Some(captured), Some("s3://moved")), (None, None)] {
        let mut scene = Scene::guarding();
        let older = serde_json::from_value(json!({
            "cluster": EAST, "uid": "copy", "values": {"savepoint": "s3://seen"}, "at": "2026-01-01T00:00:00Z",
        }));
        scene.status.last_known = Some(older.unwrap());
        scene.status.phase = Phase::Lent;
        scene.status.journal.as_mut().unwrap().lent = Some(owner.clone());
        let mut claim = scene.snapshot.around.plane.claim.get().unwrap().clone().unwrap();
        (claim.spec.marker, claim.spec.writer) = ("move.1.9".to_owned(), Some(WEST.into()));
        scene.snapshot.around.plane.claim = seen(Some(claim), EARLY);
        let workload = scene.spec.workload.clone();
        let borrower = Borrower {
            owner: owner.clone(),
            workload,
            waits: false,
            ended: true,
            captured,
            secrets: SecretHandles::default(),
        };
        scene.snapshot.migrations = seen(vec![borrower], EARLY);
        scene.pass();
        assert!(scene.is(Phase::Arming));
        let now = scene.status.last_known.as_ref();
        assert_eq!(now.map(|known| known.values["savepoint"].as_str()), known);
    }
}

fn migration() -> ClaimOwner {
    ClaimOwner {
        kind: "Migration".to_owned(),
        namespace: "shop".to_owned(),
        name: "move".to_owned(),
        uid: "move".to_owned(),
    }
}

#[test]
fn the_last_warning_about_a_new_copy_that_does_not_come_up_stands_beside_the_wait() {
    let mut scene = Scene::fencing();
    scene.status.phase = Phase::Releasing;
    scene.snapshot.around.plane.binding = Seen::unknown(WHY);
    scene.snapshot.around.warned = Some(Warned {
        cluster: WEST.into(),
        said: vec!["Pod orders-1: Failed: no such image".to_owned()],
    });
    for (millis, is_troubled) in [(14_000, false), (15_000, true)] {
        let unwell = json!({"since": scene.now, "last": scene.now, "millis": millis});
        scene.flight().unwell = Some(serde_json::from_value(unwell).unwrap());
        let found = troubled(&scene.status, &scene.snapshot.around, scene.now);
        assert_eq!(found.is_some_and(|cluster| cluster.as_str() == WEST), is_troubled);
        scene.settle();
        let said = scene.status.common.waiting_for.as_ref().unwrap();
        let expected = is_troubled.then_some("west: Pod orders-1: Failed: no such image");
        assert_eq!(said.last_warning.as_deref(), expected);
    }
}

/// Operators and kubelets quote what they are given.
#[test]
fn a_warning_that_quotes_a_secret_handle_is_told_without_it() {
    let mut scene = Scene::fencing();
    let journal = scene.status.journal.as_mut().unwrap();
    journal.profile.capture[0].secret = true;
    journal.secrets.add("s3://seen");
    let handles = BTreeMap::from([("savepoint".to_owned(), reference("s3://seen"))]);
    scene.flight().state.as_mut().unwrap().values = handles;
    scene.status.phase = Phase::Releasing;
    // The claim says in which format it is written, which a secret handle makes another one.
    scene.come_about();
    scene.snapshot.around.plane.binding = Seen::unknown(WHY);
    scene.snapshot.around.warned = Some(Warned {
        cluster: WEST.into(),
        said: vec!["Pod orders-1: Failed: cannot read s3://seen/_metadata".to_owned()],
    });
    let unwell = json!({"since": scene.now, "last": scene.now, "millis": 15_000});
    scene.flight().unwell = Some(serde_json::from_value(unwell).unwrap());
    scene.settle();
    let said = scene.status.common.waiting_for.as_ref().unwrap();
    let expected = format!(
        "west: Pod orders-1: Failed: cannot read {}/_metadata",
        reference("s3://seen")
    );
    assert_eq!(said.last_warning, Some(expected));
}

#[test]
fn of_an_old_copy_that_does_not_stop_the_events_are_read_when_a_pod_of_it_is_in_trouble() {
    let mut scene = Scene::fencing();
    let stopping = json!({"since": scene.now, "last": scene.now, "millis": 15_000});
    scene.flight().stopping = Some(serde_json::from_value(stopping).unwrap());
    let found = |scene: &Scene| troubled(&scene.status, &scene.snapshot.around, scene.now);
    assert_eq!(found(&scene), None);
    let pod = Pod {
        trouble: Some("ErrImagePull".to_owned()),
        ..Pod::default()
    };
    of(&mut scene.snapshot, EAST).pods = seen(vec![pod], LATE);
    assert_eq!(found(&scene), Some(EAST.into()));
}
