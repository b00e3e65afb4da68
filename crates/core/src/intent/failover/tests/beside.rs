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
    of(&json!({"disposeOnDelete": false}))
}

/// A snapshot with such a savepoint.
fn of(savepoint: &Value) -> Seen<Vec<Value>> {
    let snapshot = json!({
        "metadata": {"name": "orders-savepoint-periodic-1", "creationTimestamp": "2026-01-01T00:30:00Z"},
        "spec": {"savepoint": savepoint},
        "status": {"state": "COMPLETED", "path": NEWER, "resultTimestamp": "2026-01-01T00:30:01Z"},
    });
    seen(vec![snapshot], LATE)
}

/// The value of the handle that is noted.
fn noted(scene: &Scene) -> String {
    named(scene, "savepoint").unwrap()
}

fn named(scene: &Scene, name: &str) -> Option<String> {
    let handle = scene.status.last_known.as_ref()?.values.get(name)?;
    let secrets = &scene.status.journal.as_ref()?.secrets;
    secrets.plain(handle).map(str::to_owned)
}

/// Scenes in which handles are no secrets, and in which they are.
fn scenes() -> [Scene; 2] {
    [false, true].map(|secret| {
        let mut scene = Scene::guarding();
        scene.status.journal.as_mut().unwrap().profile.capture[0].secret = secret;
        scene
    })
}

/// The copy itself shows a savepoint of its run.
fn shows(scene: &mut Scene, number: u8, minute: u8) -> String {
    let seen_in_east = scene.snapshot.around.members.get(&EAST.into()).unwrap();
    let mut copy = seen_in_east.object.get().unwrap().clone().unwrap();
    let location = format!("s3://state/savepoint-b1ea3c-00000000001{number}");
    copy["status"]["jobStatus"]["savepointInfo"] = json!({
        "lastSavepoint": {"location": location, "timeStamp": format!("2026-01-01T00:{minute}:00Z")},
    });
    scene.see(EAST, member(Some(copy)));
    scene.play();
    location
}

#[test]
fn a_savepoint_that_only_a_snapshot_shows_is_what_a_failover_goes_on_from() {
    for mut scene in scenes() {
        beside(&mut scene, complete());
        assert_eq!(noted(&scene), NEWER);
        assert_eq!(scene.told(), Vec::<&str>::new());
        // One that was deleted may have been disposed of.
        beside(&mut scene, seen(Vec::new(), LATE));
        assert_eq!(noted(&scene), OWN);
    }
}

/// It is the newest all the same: an older one would lose what was written since.
#[test]
fn a_savepoint_that_goes_with_its_snapshot_is_noted_and_people_are_told() {
    for savepoint in [json!({}), json!({"disposeOnDelete": true})] {
        let mut scene = Scene::guarding();
        beside(&mut scene, of(&savepoint));
        assert_eq!(noted(&scene), NEWER);
        assert_eq!(scene.told(), ["NewestStateDisposable"]);
        beside(&mut scene, Seen::unknown("403 forbidden"));
        assert_eq!(noted(&scene), NEWER);
        assert_eq!(scene.told(), ["NewestStateDisposable", "NewestStateUnseen"]);
        beside(&mut scene, complete());
        assert_eq!(scene.told(), Vec::<&str>::new());
    }
}

#[test]
fn what_was_said_of_a_savepoint_in_another_cluster_is_not_kept() {
    let mut scene = Scene::guarding();
    beside(&mut scene, of(&json!({"disposeOnDelete": true})));
    assert_eq!(scene.told(), ["NewestStateDisposable"]);
    let findings = &mut scene.status.common.findings;
    findings[0].message = findings[0].message.replace(EAST, "elsewhere");
    beside(&mut scene, Seen::unknown("403 forbidden"));
    assert_eq!(scene.told(), ["NewestStateUnseen"]);
}

#[test]
fn where_snapshots_can_not_be_seen_people_are_told_and_what_was_noted_stays() {
    for mut scene in scenes() {
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
}

/// An operator that writes its savepoints into the status goes on doing so where cutover may not list any snapshots.
#[test]
fn where_snapshots_can_not_be_seen_each_later_savepoint_of_the_status_is_noted() {
    for mut scene in scenes() {
        beside(&mut scene, Seen::unknown("403 forbidden"));
        for (number, minute) in [(1, 10), (2, 20), (3, 50)] {
            let shown = shows(&mut scene, number, minute);
            assert_eq!(noted(&scene), shown);
        }
    }
}

#[test]
fn of_a_noted_savepoint_and_one_in_the_status_the_one_that_was_saved_later_counts() {
    for mut scene in scenes() {
        beside(&mut scene, complete());
        beside(&mut scene, Seen::unknown("403 forbidden"));
        shows(&mut scene, 1, 29);
        assert_eq!(noted(&scene), NEWER);
        let shown = shows(&mut scene, 2, 31);
        assert_eq!(noted(&scene), shown);
    }
}

/// Which run made a savepoint can't be told without a pattern, and the copy is the same.
#[test]
fn where_the_run_can_not_be_told_a_noted_savepoint_gives_way_to_none_that_was_saved_before() {
    for mut scene in scenes() {
        let journal = scene.status.journal.as_mut().unwrap();
        for rule in &mut journal.profile.last_known {
            rule.run_pattern = None;
        }
        beside(&mut scene, complete());
        let rules = scene.snapshot.beside.get_mut(&EAST.into()).unwrap();
        rules.insert(SNAPSHOTS, Seen::unknown("403 forbidden"));
        shows(&mut scene, 1, 29);
        assert_eq!(noted(&scene), NEWER);
        let shown = shows(&mut scene, 2, 31);
        assert_eq!(noted(&scene), shown);
    }
}

#[test]
fn when_a_known_savepoint_was_saved_is_noted_once_it_is_seen() {
    let mut scene = Scene::guarding();
    beside(&mut scene, complete());
    let known = scene.status.last_known.clone();
    let noted = scene.status.last_known.as_mut().unwrap();
    assert!(!noted.saved.is_empty());
    noted.saved.clear();
    scene.play();
    assert_eq!(scene.status.last_known, known);
}

/// When it was saved was not noted before.
#[test]
fn a_noted_savepoint_without_a_time_does_not_stay_for_one_that_has_one() {
    let mut scene = Scene::guarding();
    beside(&mut scene, complete());
    scene.status.last_known.as_mut().unwrap().saved.clear();
    beside(&mut scene, Seen::unknown("403 forbidden"));
    assert_eq!(noted(&scene), NEWER);
    let shown = shows(&mut scene, 1, 29);
    assert_eq!(noted(&scene), shown);
}

#[test]
fn each_handle_is_kept_by_its_own_rule() {
    let mut scene = Scene::guarding();
    let profile = &mut scene.status.journal.as_mut().unwrap().profile;
    let mut rule = profile.last_known[SNAPSHOTS].clone();
    "offsets".clone_into(&mut rule.name);
    let offsets = profile.last_known.len();
    profile.last_known.push(rule);
    let also = |scene: &mut Scene, objects: Seen<Vec<Value>>| {
        let rules = scene.snapshot.beside.get_mut(&EAST.into()).unwrap();
        rules.insert(offsets, objects);
    };
    also(&mut scene, complete());
    beside(&mut scene, seen(Vec::new(), LATE));
    also(&mut scene, Seen::unknown("403 forbidden"));
    beside(&mut scene, Seen::unknown("403 forbidden"));
    assert_eq!(noted(&scene), OWN);
    assert_eq!(named(&scene, "offsets").as_deref(), Some(NEWER));
}

/// Its operator has stopped it with a savepoint, and started it again: that is newer than what the run before left.
#[test]
fn what_an_earlier_run_left_does_not_stay() {
    for mut scene in scenes() {
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
    for mut scene in scenes() {
        beside(&mut scene, complete());
        scene.snapshot.beside.clear();
        scene.play();
        assert_eq!(noted(&scene), NEWER);
        assert_eq!(scene.told(), Vec::<&str>::new());
    }
}
