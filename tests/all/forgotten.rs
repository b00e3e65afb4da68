//! Copies that Karmada has lost sight of: it has no Work of them, and so never deletes them. They are listed again, held, and
//! removed once more; what comes back nevertheless, or isn't Karmada's, is told to a person.

use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Patch, WriteOptions};
use serde_json::json;

use crate::support::fleet::{CLAIMS, Fleet, JOBS, MIGRATIONS, PINS};

const MOVE: &str = "orders-to-west";

fn asks_for_its_removal(fleet: &Fleet, cluster: &str) -> bool {
    let reason = &fleet.status(MOVE)["waitingFor"]["reason"];
    let todo = format!("a person must delete it in {cluster}");
    reason.as_str().is_some_and(|reason| reason.contains(&todo))
}

fn delete_copy(fleet: &Fleet, cluster: &str) {
    let api = &fleet.world.member(cluster).api;
    api.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default())
        .unwrap();
}

/// Called off when the target's copy is there, and Karmada's cache of the target doesn't show it: so it counts as deleted.
async fn called_off_behind_the_cache(lag: Duration) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.world.faults().lag("member-cache/west", lag);
    fleet.lead(std::sync::Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    fleet
        .until("the target has a copy", |fleet| fleet.copy("west").is_some())
        .await;
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    fleet
        .until("the target is not listed any more", |fleet| {
            fleet.status(MOVE)["phase"] == "RollingBack" && fleet.listed() == ["east"]
        })
        .await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_deletion_was_lost_is_listed_again_held_and_removed() {
    let fleet = called_off_behind_the_cache(Duration::from_secs(20)).await;
    fleet
        .until("it is listed again", |fleet| fleet.listed() == ["east", "west"])
        .await;
    assert_eq!(fleet.copy("west").unwrap()["spec"]["job"]["state"], "suspended");
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Aborted,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_cannot_be_removed_is_a_persons_after_some_tries() {
    let fleet = called_off_behind_the_cache(Duration::from_hours(10)).await;
    fleet
        .until("a person is asked", |fleet| asks_for_its_removal(fleet, "west"))
        .await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(asks_for_its_removal(&fleet, "west"), "{:#}", fleet.status(MOVE));
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    delete_copy(&fleet, "west");
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Aborted,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("east");
}

/// Karmada's mark is off it, as on every copy that it lets go; what was under the pin is this move's all the same.
#[tokio::test(start_paused = true)]
async fn a_copy_without_karmadas_mark_is_listed_again_and_removed() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.lead(std::sync::Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    fleet.phase(MOVE, Phase::Verify).await;
    fleet.world.faults().freeze("work-status-controller");
    let theirs = Patch::Merge(json!({"metadata": {"labels": {"karmada.io/managed": null}}}));
    let (east, writer) = (&fleet.world.member("east").api, WriteOptions::manager("somebody"));
    east.patch(&JOBS, Some("shop"), "orders", None, &theirs, &writer)
        .unwrap();
    fleet.phase(MOVE, Phase::Cleanup).await;
    fleet.world.faults().end();
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("west");
}

/// Nobody sees whether the copy of a source that is lost still runs; a person may know.
#[tokio::test(start_paused = true)]
async fn a_person_vouches_for_a_source_that_is_lost_after_the_commit_point() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.lead(std::sync::Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    fleet.phase(MOVE, Phase::Cleanup).await;
    fleet.world.faults().partition("east");
    let asks = |fleet: &Fleet| {
        let reason = &fleet.status(MOVE)["waitingFor"]["reason"];
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("spec.assume: Stopped in east"))
    };
    fleet.until("a person is asked", asks).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(asks(&fleet), "{:#}", fleet.status(MOVE));
    let assume = json!([{"fact": "Stopped", "cluster": "east", "attempt": 1, "phase": "Cleanup"}]);
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"assume": assume}}));
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_nothing_is_left();
    assert!(fleet.runs_in("west"));
    // Karmada goes on to delete the copy when it can.
    fleet.world.faults().heal("east");
    fleet
        .until("it is gone", |fleet| fleet.copy("east").is_none())
        .await;
    fleet.assert_clean_in("west");
}
