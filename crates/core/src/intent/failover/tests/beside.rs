//! The newest state that is noted while a plan guards: what objects beside the copy show of it.

use serde_json::{Value, json};

use super::scene::{EAST, LATE, SNAPSHOTS, Scene, member, running, seen};
use crate::intent::Seen;

const OWN: &str = "s3://seen";
const NEWER: &str = "s3://state/savepoint-b1ea3c-000000000002";

/// East's copy runs, and this is seen of its snapshots.
fn beside(scene: &mut Scene, snapshots: Seen<Vec<Value>>) {
    let mut copy = running(&scene.marker(), OWN);
    copy["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    copy["status"]["jobStatus"]["jobId"] = json!("b1ea3c5d00");
    scene.see(EAST, member(Some(copy)));
    let rules = scene.snapshot.beside.get_mut(&EAST.into()).unwrap();
    rules.insert(SNAPSHOTS, snapshots);
    scene.play();
}

fn complete() -> Seen<Vec<Value>> {
    let snapshot = json!({
        "metadata": {"name": "orders-savepoint-periodic-1", "creationTimestamp": "2026-01-01T00:30:00Z"},
        "spec": {"savepoint": {}},
        "status": {"state": "COMPLETED", "path": NEWER, "resultTimestamp": "2026-01-01T00:30:01Z"},
    });
    seen(vec![snapshot], LATE)
}

fn noted(scene: &Scene) -> &str {
    &scene.status.last_known.as_ref().unwrap().values["savepoint"]
}

#[test]
fn a_savepoint_that_only_a_snapshot_shows_is_what_a_failover_goes_on_from() {
    let mut scene = Scene::guarding();
    beside(&mut scene, complete());
    assert_eq!(noted(&scene), NEWER);
    assert_eq!(scene.told(), Vec::<&str>::new());
    // One that was deleted may have been disposed of.
    beside(&mut scene, seen(Vec::new(), LATE));
    assert_eq!(noted(&scene), OWN);
}

#[test]
fn where_snapshots_can_not_be_seen_people_are_told_and_what_was_noted_stays() {
    let mut scene = Scene::guarding();
    beside(&mut scene, complete());
    for why in ["403 forbidden", "i/o timeout"] {
        beside(&mut scene, Seen::unknown(why));
        assert_eq!(noted(&scene), NEWER);
        assert_eq!(scene.told(), ["NewestStateUnseen"]);
        assert!(scene.status.common.findings[0].message.contains(why));
    }
    beside(&mut scene, complete());
    assert_eq!(scene.told(), Vec::<&str>::new());
}

/// Its operator has stopped it with a savepoint, and started it again: that is newer than what the run before left.
#[test]
fn what_an_earlier_run_left_does_not_stay() {
    let mut scene = Scene::guarding();
    beside(&mut scene, complete());
    let seen_in_east = scene.snapshot.around.members.get(&EAST.into()).unwrap();
    let mut again = seen_in_east.object.get().unwrap().clone().unwrap();
    again["status"]["jobStatus"]["jobId"] = json!("c2fb4d7e00");
    scene.see(EAST, member(Some(again)));
    let rules = scene.snapshot.beside.get_mut(&EAST.into()).unwrap();
    rules.insert(SNAPSHOTS, Seen::unknown("403 forbidden"));
    scene.play();
    assert_eq!(noted(&scene), OWN);
}

#[test]
fn what_the_copy_shows_is_noted_as_long_as_nothing_else_was_seen() {
    let mut scene = Scene::guarding();
    beside(&mut scene, Seen::unknown("403 forbidden"));
    assert_eq!(noted(&scene), OWN);
    assert_eq!(scene.told(), ["NewestStateUnseen"]);
}

#[test]
fn what_was_not_looked_for_in_a_pass_is_no_news() {
    let mut scene = Scene::guarding();
    beside(&mut scene, complete());
    scene.snapshot.beside.clear();
    scene.play();
    assert_eq!(noted(&scene), NEWER);
    assert_eq!(scene.told(), Vec::<&str>::new());
}
