//! What people, and the infrastructure, answer for; and for how long that counts.

use jiff::SignedDuration;
use serde_json::json;

use super::scene::{EARLY, EAST, Scene, WEST, approve, cut_off, held, lost, member, running, seen};
use crate::api::{FailoverGate, FailoverPhase as Phase, OldCopy, SourceUnreachable};

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

fn rule(of: serde_json::Value) -> SourceUnreachable {
    serde_json::from_value(of).unwrap()
}

fn by_approval() -> SourceUnreachable {
    rule(json!({"proceedAfter": "10m", "fencedBy": "Approval"}))
}

/// East is lost.
fn unreachable(of: SourceUnreachable) -> Scene {
    let mut scene = Scene::fencing();
    scene.spec.source_unreachable = of;
    scene.see(EAST, lost());
    cut_off(&mut scene, EAST);
    assert_eq!(scene.play(), Vec::<String>::new());
    scene
}

#[test]
fn on_hold_nobody_is_asked_and_nothing_goes_on_however_long_it_takes() {
    for of in [json!({}), json!({"action": "Hold"})] {
        let mut scene = unreachable(rule(of));
        approve(&mut scene, "Fenced", EAST, 1);
        assert_eq!(scene.watch(minutes(600)), Vec::<String>::new());
        assert!(scene.status.asks.is_empty() && scene.waits().contains("sourceUnreachable: Hold"));
    }
}

#[test]
fn a_rule_that_contradicts_itself_holds() {
    for of in [
        json!({"action": "Hold", "proceedAfter": "1m", "fencedBy": "NodeFencing"}),
        json!({"proceedAfter": "1m"}),
        json!({"fencedBy": "NodeFencing"}),
    ] {
        let mut scene = unreachable(rule(of));
        assert_eq!(scene.watch(minutes(100)), Vec::<String>::new());
        assert!(scene.waits().contains("contradicts itself"), "{}", scene.waits());
    }
}

#[test]
fn a_person_is_asked_when_it_has_been_lost_for_so_long_and_the_answer_is_on_record() {
    let mut scene = unreachable(by_approval());
    assert_eq!(scene.watch(minutes(9)), Vec::<String>::new());
    assert!(scene.status.asks.is_empty());
    assert_eq!(scene.watch(minutes(2)), Vec::<String>::new());
    let asked = &scene.status.asks[0];
    assert_eq!(
        (asked.gate, asked.cluster.as_str(), asked.attempt),
        (FailoverGate::Fenced, EAST, 1)
    );
    approve(&mut scene, "Fenced", EAST, 1);
    assert_eq!(scene.play(), [WEST]);
    assert_eq!(scene.flight().fenced.as_deref(), Some("ann"));
}

#[test]
fn only_an_answer_to_this_question_in_this_failover_counts() {
    for (gate, cluster, attempt) in [
        ("Fenced", EAST, 0),
        ("Fenced", EAST, 2),
        ("Fenced", WEST, 1),
        ("Purge", EAST, 1),
        ("FromNothing", EAST, 1),
    ] {
        let mut scene = unreachable(by_approval());
        assert_eq!(scene.watch(minutes(11)), Vec::<String>::new());
        approve(&mut scene, gate, cluster, attempt);
        assert_eq!(scene.play(), Vec::<String>::new(), "{gate} {cluster} {attempt}");
        assert_eq!(scene.status.asks.len(), 1);
    }
}

#[test]
fn the_infrastructure_needs_its_time_too() {
    let mut scene = unreachable(rule(json!({"proceedAfter": "10m", "fencedBy": "NodeFencing"})));
    assert_eq!(scene.watch(minutes(9)), Vec::<String>::new());
    assert_eq!(scene.watch(minutes(2)), [WEST]);
}

#[test]
fn the_time_starts_again_when_the_cluster_was_seen_in_between() {
    let mut scene = unreachable(rule(json!({"proceedAfter": "10m", "fencedBy": "NodeFencing"})));
    assert_eq!(scene.watch(minutes(9)), Vec::<String>::new());
    let marker = scene.marker();
    scene.see(EAST, member(Some(running(&marker, "s3://seen"))));
    assert_eq!(scene.play(), Vec::<String>::new());
    scene.see(EAST, lost());
    assert_eq!(scene.watch(minutes(2)), Vec::<String>::new());
    assert_eq!(scene.watch(minutes(11)), [WEST]);
}

#[test]
fn a_word_does_not_outlive_a_look_at_the_copy_that_it_was_given_for() {
    let mut scene = unreachable(by_approval());
    assert_eq!(scene.watch(minutes(11)), Vec::<String>::new());
    approve(&mut scene, "Fenced", EAST, 1);
    while !scene.is(Phase::Releasing) {
        scene.pass();
    }
    // It is back, and runs; then it is lost again.
    let marker = scene.marker();
    scene.see(EAST, member(Some(running(&marker, "s3://seen"))));
    assert_eq!(scene.play(), Vec::<String>::new());
    assert!(scene.is(Phase::Fencing));
    assert!(scene.flight().fenced.is_none());
    scene.spec.approvals.clear();
    scene.see(EAST, lost());
    assert_eq!(scene.watch(minutes(2)), Vec::<String>::new());
}

#[test]
fn without_any_state_only_a_word_about_the_new_cluster_lets_it_start_from_nothing() {
    let nothing = || {
        let mut scene = Scene::fencing();
        scene.flight().state = None;
        scene.status.last_known = None;
        assert_eq!(scene.play(), Vec::<String>::new());
        scene
    };
    for (gate, cluster, attempt) in [
        ("FromNothing", EAST, 1),
        ("FromNothing", WEST, 0),
        ("Fenced", WEST, 1),
    ] {
        let mut scene = nothing();
        approve(&mut scene, gate, cluster, attempt);
        assert_eq!(scene.play(), Vec::<String>::new(), "{gate} {cluster} {attempt}");
    }
    let mut scene = nothing();
    assert_eq!(scene.status.asks[0].gate, FailoverGate::FromNothing);
    approve(&mut scene, "FromNothing", WEST, 1);
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn a_secret_state_reaches_the_pin_alone_and_starts_nothing_where_its_value_is_lost() {
    let knows = |value: Option<&str>| {
        let mut scene = Scene::fencing();
        let journal = scene.status.journal.as_mut().unwrap();
        journal.profile.capture[0].secret = true;
        if let Some(value) = value {
            journal.secrets.add(value);
        }
        scene.flight().state = None;
        let known = json!({
            "cluster": EAST, "uid": "copy", "values": {"savepoint": crate::api::reference("s3://C4n4ry")},
            "at": "2026-01-01T00:53:00Z", "recorded": true,
        });
        scene.status.last_known = Some(serde_json::from_value(known).unwrap());
        scene
    };
    // Git has only said which one it was.
    let mut scene = knows(None);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert_eq!(scene.status.asks[0].gate, FailoverGate::FromNothing);

    let mut scene = knows(Some("s3://C4n4ry"));
    assert_eq!(scene.play(), [WEST]);
    let pin = serde_json::to_string(scene.snapshot.around.plane.pin.get().unwrap()).unwrap();
    assert!(pin.contains("s3://C4n4ry"), "{pin}");
    let kept = serde_json::to_string(scene.snapshot.kept.get().unwrap()).unwrap();
    assert!(
        kept.contains("<secret, sha256:") && !kept.contains("C4n4ry"),
        "{kept}"
    );
}

/// A cluster that has joined under the same name.
fn replace(scene: &mut Scene, name: &str) {
    let mut clusters = (**scene.snapshot.around.plane.clusters.get().unwrap()).clone();
    clusters.get_mut(&name.into()).unwrap().metadata.uid = Some("another".to_owned());
    scene.snapshot.around.plane.clusters = seen(std::sync::Arc::new(clusters), EARLY);
}

#[test]
fn a_cluster_that_joined_under_the_name_of_a_lost_one_says_nothing_of_it() {
    let mut scene = Scene::fencing();
    scene.spec.source_unreachable = by_approval();
    replace(&mut scene, EAST);
    assert_eq!(scene.play(), Vec::<String>::new());
    assert_eq!(scene.watch(minutes(11)), Vec::<String>::new());
    assert_eq!(scene.status.asks.len(), 1, "{}", scene.waits());
    approve(&mut scene, "Fenced", EAST, 1);
    assert_eq!(scene.play(), [WEST]);
}

#[test]
fn an_old_copy_in_a_cluster_that_was_replaced_is_forgotten_only_on_a_word() {
    let mut scene = Scene::guarding();
    let old = OldCopy {
        attempt: 0,
        since: scene.now,
        kept: false,
        fenced: None,
        identity: Some("uid-of-west/west".to_owned()),
        marker: None,
        refuted: 0,
        purged_by: None,
        fetching_since: None,
    };
    scene.status.old_copies.insert(WEST.into(), old);
    replace(&mut scene, WEST);
    scene.play();
    assert_eq!((scene.status.old_copies.len(), scene.status.asks.len()), (1, 1));
    approve(&mut scene, "Fenced", WEST, 0);
    scene.play();
    assert!(scene.status.old_copies.is_empty() && scene.status.asks.is_empty());
}

#[test]
fn people_are_told_when_another_cluster_joins_under_the_writers_name() {
    let mut scene = Scene::guarding();
    replace(&mut scene, EAST);
    scene.play();
    assert_eq!(scene.told(), ["ClusterReplaced"]);
}

#[test]
fn an_old_copy_of_which_nobody_sees_anything_has_to_be_vouched_for_once() {
    for replaced in [false, true] {
        let mut scene = Scene::fencing();
        let (north, identity) = ("north", Some("uid-of-north/north".to_owned()));
        let old = OldCopy {
            attempt: 1,
            since: scene.now,
            kept: false,
            fenced: None,
            identity,
            marker: None,
            refuted: 0,
            purged_by: None,
            fetching_since: None,
        };
        scene.status.common.attempt = 2;
        scene.status.old_copies.insert(north.into(), old);
        scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
        scene.see(north, lost());
        if replaced {
            let mut clusters = (**scene.snapshot.around.plane.clusters.get().unwrap()).clone();
            let mut another = clusters[&EAST.into()].clone();
            another.metadata.uid = Some("another".to_owned());
            clusters.insert(north.into(), another);
            scene.snapshot.around.plane.clusters = seen(std::sync::Arc::new(clusters), EARLY);
            scene.see(north, member(Some(held("of-another"))));
        }
        assert_eq!(scene.play(), Vec::<String>::new());
        let asked = &scene.status.asks[0];
        assert_eq!(
            (asked.cluster.as_str(), asked.attempt),
            (north, 1),
            "it is of the failover before"
        );
        approve(&mut scene, "Fenced", north, 2);
        assert_eq!(scene.play(), Vec::<String>::new());
        approve(&mut scene, "Fenced", north, 1);
        assert_eq!(scene.play(), [WEST]);
    }
}
