//! What can't be seen of the old copy: each kind of it is told as itself, and the time counts that was looked at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::scene::{
    EARLY, EAST, LATE, Scene, WEST, approve, binding, cut_off, held, lost, member, refused, running, seen,
};
use crate::api::{FailoverGate, FailoverPhase as Phase, OldCopy, StateSource};
use crate::intent::member::{Member, Pod};

const NODE: &str = "node-1";

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

fn by(word: &str) -> crate::api::SourceUnreachable {
    serde_json::from_value(json!({"proceedAfter": "10m", "fencedBy": word})).unwrap()
}

/// A copy that its operator has stopped with a savepoint.
fn stopped(marker: &str, handle: &str) -> Value {
    let mut copy = running(marker, handle);
    copy["spec"]["job"]["state"] = json!("suspended");
    copy["metadata"]["generation"] = json!(3);
    copy["status"]["observedGeneration"] = json!(3);
    copy["status"]["jobManagerDeploymentStatus"] = json!("MISSING");
    copy["status"]["jobStatus"]["state"] = json!("FINISHED");
    copy["status"]["reconciliationStatus"]["lastReconciledSpec"] =
        json!(r#"{"spec":{"job":{"state":"suspended","upgradeMode":"savepoint"}}}"#);
    copy
}

fn pod(on: &str) -> Pod {
    Pod {
        name: format!("orders-on-{on}"),
        node: Some(on.to_owned()),
        uid: format!("{on}-1"),
        is_ready: true,
        began: true,
        restarts: 0,
        has_ended: false,
        labels: BTreeMap::new(),
        trouble: None,
    }
}

/// Without pods, and with these nodes.
fn on(object: Option<Value>, nodes: &[(&str, bool)]) -> Member {
    let nodes = nodes.iter().map(|(name, ready)| ((*name).to_owned(), *ready));
    Member {
        nodes: seen(nodes.collect(), LATE + 2),
        ..member(object)
    }
}

fn ran_on(scene: &mut Scene, cluster: &str, node: &str) {
    let journal = scene.status.journal.as_mut().unwrap();
    journal
        .nodes
        .insert(cluster.into(), BTreeSet::from([node.to_owned()]));
}

/// East is left, and listed beside west to be stopped with its state; something older of it is known.
fn with_source() -> Scene {
    let mut scene = Scene::fencing();
    let journal = scene.status.journal.as_mut().unwrap();
    journal.clusters = vec![WEST.into(), EAST.into()];
    journal.suspended = vec![EAST.into()];
    let flight = scene.flight();
    (flight.with_source, flight.state) = (Some(true), None);
    let older = json!({
        "cluster": EAST, "uid": "copy", "values": {"savepoint": "s3://older"}, "at": "2026-01-01T00:53:00Z", "recorded": true,
    });
    scene.status.last_known = Some(serde_json::from_value(older).unwrap());
    scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST, EAST], true)), EARLY);
    scene.come_about();
    scene.work_in(EAST);
    scene
}

/// The operator of east has stopped it with a fresh savepoint, and a node that it ran on is as `nodes` say.
fn stopped_on(nodes: &[(&str, bool)]) -> Scene {
    let mut scene = with_source();
    ran_on(&mut scene, EAST, NODE);
    let copy = stopped(&scene.marker(), "s3://fresh");
    scene.see(EAST, on(Some(copy), nodes));
    scene
}

#[test]
fn a_savepoint_that_the_operator_vouches_for_is_noted_whatever_a_lost_node_hides() {
    for nodes in [&[(NODE, false)][..], &[]] {
        let mut scene = stopped_on(nodes);
        assert_eq!(scene.play(), Vec::<String>::new());
        let state = scene.flight().state.clone().unwrap();
        assert_eq!(
            (state.source, state.values["savepoint"].as_str()),
            (StateSource::Captured, "s3://fresh")
        );
        // Its time to stop is over: it has stopped, and stays listed with what it has left.
        assert_eq!(scene.watch(minutes(5)), Vec::<String>::new());
        assert_eq!(scene.flight().with_source, Some(true));
        assert!(scene.waits().contains(NODE), "{}", scene.waits());
    }
}

#[test]
fn a_node_in_doubt_is_asked_about_in_its_time_and_the_word_counts_while_the_rest_is_seen() {
    let mut scene = stopped_on(&[(NODE, false)]);
    scene.spec.source_unreachable = by("Approval");
    assert_eq!(scene.watch(minutes(9)), Vec::<String>::new());
    assert!(scene.status.asks.is_empty());
    assert_eq!(scene.watch(minutes(2)), Vec::<String>::new());
    assert_eq!(
        scene.status.asks[0].gate,
        FailoverGate::Fenced,
        "{}",
        scene.waits()
    );
    assert!(scene.waits().contains(NODE), "{}", scene.waits());
    approve(&mut scene, "Fenced", EAST, 1);
    assert_eq!(scene.play(), [WEST]);
    let carried = scene.status.journal.unwrap().carried.unwrap();
    assert_eq!(carried["savepoint"], "s3://fresh");
}

#[test]
fn a_node_that_is_ready_again_ends_the_doubt_by_itself() {
    let mut scene = stopped_on(&[(NODE, false)]);
    assert_eq!(scene.watch(minutes(3)), Vec::<String>::new());
    let copy = stopped(&scene.marker(), "s3://fresh");
    scene.see(EAST, on(Some(copy), &[(NODE, true)]));
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn a_node_is_forgotten_when_it_is_ready_and_has_no_pod_of_it_any_more() {
    let mut scene = Scene::guarding();
    ran_on(&mut scene, EAST, NODE);
    let east = |scene: &Scene, nodes: &[(&str, bool)]| Member {
        pods: seen(vec![pod("node-2")], LATE + 1),
        ..on(Some(running(&scene.marker(), "s3://seen")), nodes)
    };
    let known = |scene: &Scene| scene.status.journal.as_ref().unwrap().nodes[&EAST.into()].clone();
    for nodes in [&[(NODE, false)][..], &[]] {
        let member = east(&scene, nodes);
        scene.see(EAST, member);
        scene.play();
        assert_eq!(
            known(&scene),
            BTreeSet::from([NODE.to_owned(), "node-2".to_owned()])
        );
    }
    let member = east(&scene, &[(NODE, true)]);
    scene.see(EAST, member);
    scene.play();
    assert_eq!(known(&scene), BTreeSet::from(["node-2".to_owned()]));
}

#[test]
fn the_nodes_of_an_earlier_run_are_in_nobodys_way() {
    let mut scene = Scene::guarding();
    let east = |scene: &Scene, job: &str, node: &str| {
        let mut copy = running(&scene.marker(), "s3://seen");
        copy["status"]["jobStatus"]["jobId"] = json!(job);
        Member {
            pods: seen(vec![pod(node)], LATE + 1),
            ..on(Some(copy), &[])
        }
    };
    for (job, node, known) in [
        ("job-1", "node-1", &["node-1"][..]),
        ("job-1", "node-2", &["node-1", "node-2"]),
        ("job-2", "node-3", &["node-3"]),
    ] {
        let member = east(&scene, job, node);
        scene.see(EAST, member);
        scene.play();
        let nodes = &scene.status.journal.as_ref().unwrap().nodes[&EAST.into()];
        assert_eq!(
            nodes.iter().map(String::as_str).collect::<Vec<_>>(),
            known,
            "{job}"
        );
    }
}

#[test]
fn nodes_count_as_fenced_only_where_the_cluster_gave_no_answer_and_karmada_has_none_either() {
    let fenced = |member: Member, cut: bool| {
        let mut scene = Scene::fencing();
        scene.spec.source_unreachable = by("NodeFencing");
        ran_on(&mut scene, EAST, NODE);
        scene.see(EAST, member);
        if cut {
            cut_off(&mut scene, EAST);
        }
        let let_go = scene.watch(minutes(12));
        (let_go, scene)
    };
    assert_eq!(fenced(lost(), true).0, [WEST]);
    assert_eq!(fenced(on(None, &[(NODE, false)]), false).0, [WEST]);
    for (member, cut) in [(refused(), true), (refused(), false), (lost(), false)] {
        let (let_go, mut scene) = fenced(member, cut);
        assert_eq!(let_go, Vec::<String>::new());
        assert_eq!(
            scene.status.asks[0].gate,
            FailoverGate::Fenced,
            "{}",
            scene.waits()
        );
        approve(&mut scene, "Fenced", EAST, 1);
        assert_eq!(scene.play(), [WEST], "what is asked can be answered");
    }
}

#[test]
fn what_nobody_has_looked_at_is_no_time() {
    let mut scene = Scene::fencing();
    scene.spec.source_unreachable = by("NodeFencing");
    scene.see(EAST, lost());
    cut_off(&mut scene, EAST);
    assert_eq!(scene.watch(minutes(3)), Vec::<String>::new());
    for _ in 0..3 {
        scene.later(minutes(60));
        assert_eq!(scene.play(), Vec::<String>::new());
    }
    assert_eq!(scene.watch(minutes(6)), Vec::<String>::new());
    assert_eq!(
        scene.watch(minutes(2)),
        [WEST],
        "what was looked at before is not lost"
    );
}

#[test]
fn a_source_gets_its_time_to_stop_while_it_is_looked_at() {
    let mut scene = with_source();
    let mut copy = running(&scene.marker(), "s3://seen");
    copy["spec"]["job"]["state"] = json!("suspended");
    copy["metadata"]["generation"] = json!(3);
    scene.see(EAST, member(Some(copy)));
    scene.play();
    scene.later(minutes(60));
    scene.play();
    assert_eq!(scene.flight().with_source, Some(true), "nobody has looked");
    scene.watch(minutes(2));
    assert_eq!(scene.flight().with_source, Some(false));
}

/// Karmada takes a request to a member that timed out for one that was answered: the Work has the marker, the copy hasn't.
#[test]
fn a_source_that_was_never_told_to_stop_is_told_again_before_it_is_taken_out() {
    let mut scene = with_source();
    scene.see(EAST, member(Some(running("uid.1.1", "s3://seen"))));
    scene.play();
    let before = scene.status.journal.as_ref().unwrap().pin.clone();
    scene.watch(SignedDuration::from_secs(15));
    let after = &scene.status.journal.as_ref().unwrap().pin;
    assert_eq!(
        (after.seq, after.resent),
        (before.seq + 1, 1),
        "{}",
        scene.waits()
    );
    assert_eq!(scene.flight().with_source, Some(true));
}

#[test]
fn a_source_that_nobody_sees_is_not_taken_out_because_it_does_not_stop() {
    let mut scene = with_source();
    scene.see(EAST, lost());
    assert_eq!(scene.watch(minutes(5)), Vec::<String>::new());
    assert_eq!(scene.flight().with_source, Some(true));
    assert!(
        scene.waits().contains("sourceUnreachable: Hold"),
        "{}",
        scene.waits()
    );
}

fn old(scene: &Scene, cluster: &str, fenced: Option<&str>) -> OldCopy {
    serde_json::from_value(json!({
        "attempt": 1, "since": scene.now, "identity": format!("uid-of-{cluster}/{cluster}"), "fenced": fenced,
    }))
    .unwrap()
}

/// A failover from east to west, with an old copy in north.
fn with_old_copy(fenced: Option<&str>, north: Member) -> Scene {
    let mut scene = Scene::fencing();
    scene.status.common.attempt = 2;
    let left = old(&scene, "north", fenced);
    scene.status.old_copies.insert("north".into(), left);
    scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
    ran_on(&mut scene, "north", NODE);
    scene.see("north", north);
    scene
}

#[test]
fn a_word_for_an_old_copy_holds_while_nothing_that_is_seen_speaks_against_it() {
    let mut scene = with_old_copy(None, on(None, &[(NODE, false)]));
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(scene.waits().contains(NODE), "{}", scene.waits());
    approve(&mut scene, "Fenced", "north", 1);
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn a_word_that_was_refuted_is_to_be_given_again() {
    let mut scene = with_old_copy(Some("ann"), member(Some(running("of-before", "s3://seen"))));
    approve(&mut scene, "Fenced", "north", 1);
    assert_eq!(scene.play(), Vec::<String>::new());
    scene.see("north", lost());
    assert_eq!(
        scene.play(),
        Vec::<String>::new(),
        "it was seen to run after that word"
    );
    assert_eq!(scene.status.asks.len(), 1);
    approve(&mut scene, "Fenced", "north", 1);
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn a_cluster_that_had_the_token_is_no_cluster_that_never_had_it() {
    let mut scene = Scene::releasing();
    assert_eq!(scene.play(), [WEST]);
    let known = json!({"cluster": EAST, "uid": "copy", "values": {"savepoint": "s3://seen"}, "at": "2026-01-01T00:53:00Z"});
    scene.status.last_known = Some(serde_json::from_value(known).unwrap());
    let marker = scene.marker();
    scene.see(WEST, member(Some(running(&marker, "s3://seen"))));
    // Somebody takes the pin away, and west is lost.
    scene.snapshot.around.plane.pin = seen(None, EARLY);
    scene.snapshot.around.plane.overrides = seen(crate::intent::control_plane::Overrides::default(), EARLY);
    scene.see(WEST, lost());
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(scene.is(Phase::Fencing));
    let mut clusters = (**scene.snapshot.around.plane.clusters.get().unwrap()).clone();
    let north = clusters[&EAST.into()].clone();
    clusters.insert("north".into(), north);
    scene.snapshot.around.plane.clusters = seen(std::sync::Arc::new(clusters), EARLY);
    scene.see("north", member(Some(held(&marker))));
    scene.spec.request =
        Some(serde_json::from_value(json!({"attempt": 2, "to": "north", "reason": "lost"})).unwrap());
    assert_eq!(scene.play(), Vec::<String>::new());
    let left = scene.status.old_copies.get(&WEST.into());
    assert!(left.is_none_or(|old| old.fenced.is_none()), "{left:?}");
    assert_eq!(
        scene.flight().from.as_str(),
        WEST,
        "a failover of its own, from there"
    );
}

#[test]
fn nodes_of_nothing_are_no_doubt() {
    let mut scene = Scene::fencing();
    scene.see(EAST, on(None, &[]));
    scene.status.journal.as_mut().unwrap().nodes = BTreeMap::new();
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn pods_of_a_held_old_copy_that_come_back_are_told() {
    let mut scene = Scene::guarding();
    let old = json!({"attempt": 1, "since": scene.now, "kept": true, "identity": "uid-of-west/west"});
    let old = serde_json::from_value::<OldCopy>(old).unwrap();
    scene.status.old_copies.insert(WEST.into(), old);
    scene.status.common.attempt = 1;
    scene.work_in(WEST);
    let mut west = member(Some(held(&scene.marker())));
    scene.see(WEST, west.clone());
    scene.settle();
    assert_eq!(scene.told(), [""; 0]);
    west.pods = seen(vec![pod("node-2")], LATE + 1);
    scene.see(WEST, west);
    scene.settle();
    assert_eq!(scene.told(), ["SingleWriterLapse"]);
}

/// A plan that has failed would guard nothing any more, when only the name of a profile has changed.
#[test]
fn two_profiles_for_the_kind_are_waited_for_and_told() {
    let own = |name: &str| {
        let mut own = crate::profile::built_in().unwrap()[0].clone();
        own.metadata.name = Some(name.to_owned());
        own
    };
    let mut scene = Scene::guarding();
    scene.status.phase = Phase::Pending;
    scene.status.journal = None;
    scene.snapshot.around.plane.claim = seen(None, EARLY);
    scene.snapshot.around.plane.pin = seen(None, EARLY);
    scene.snapshot.around.plane.profiles = seen(vec![own("old"), own("new")], EARLY);
    assert!(scene.settle().is_empty());
    assert!(scene.is(Phase::Pending));
    assert_eq!(scene.told(), ["AmbiguousProfile"]);
    assert!(scene.waits().ends_with(": new, old"), "{}", scene.waits());
    scene.snapshot.around.plane.profiles = seen(vec![own("new")], EARLY);
    scene.pass();
    assert!(!scene.told().contains(&"AmbiguousProfile"));
}
