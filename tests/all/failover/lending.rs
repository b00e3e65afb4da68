//! A Migration of a guarded workload: it gets the claim, and gives it back with the writer that it left.

use cutover::api::Phase;
use cutover::sandbox::api::ListOptions;
use serde_json::json;

use super::modes::moved_from;
use super::stage::{
    fleet, guarded_in, known, one_writer, plan, savepoint, started_from, status, tidy, until, unwell,
};
use crate::support::fleet::{CLAIMS, PINS, job};

#[tokio::test(start_paused = true)]
async fn a_migration_moves_a_guarded_workload_and_the_guard_goes_on_in_the_target() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    fleet.migrate("move", "west");
    assert_eq!(
        fleet.ended("move").await,
        Phase::Completed,
        "{:#}",
        fleet.status("move")
    );
    guarded_in(&fleet, "west").await;
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    let history = &status(&fleet)["history"];
    assert_eq!(history[0]["what"], "Migration move");
    assert_eq!(
        (&history[0]["from"], &history[0]["to"]),
        (&json!("east"), &json!("west"))
    );
    one_writer(&fleet);
    // The guard is as good as it was.
    let handle = savepoint(&fleet, "west").await;
    known(&fleet, &handle).await;
    unwell(&fleet, "west");
    let to = moved_from(&fleet, "west").await;
    assert_eq!(started_from(&fleet, &to), handle);
    one_writer(&fleet);
    tidy(&fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_rolls_back_leaves_the_guard_where_it_was() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    fleet.want(job("orders:broken"));
    fleet.migrate("move", "west");
    assert_eq!(fleet.ended("move").await, Phase::RolledBack);
    guarded_in(&fleet, "east").await;
    one_writer(&fleet);
    tidy(&fleet, "east").await;
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_fails_before_it_begins_gives_the_claim_back() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    fleet.migrate("move", "nowhere");
    assert_eq!(fleet.ended("move").await, Phase::Failed);
    guarded_in(&fleet, "east").await;
    one_writer(&fleet);
    tidy(&fleet, "east").await;
}

/// Whoever would go first without the plan borrows first; the other one waits for it, not for the plan.
#[tokio::test(start_paused = true)]
async fn two_migrations_of_a_guarded_workload_take_turns() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    fleet.migrate("b-to-north", "north");
    fleet.migrate("a-to-west", "west");
    assert_eq!(fleet.ended("b-to-north").await, Phase::Completed);
    assert_eq!(fleet.ended("a-to-west").await, Phase::Completed);
    let last = if fleet.status("b-to-north")["source"] == "west" {
        "north"
    } else {
        "west"
    };
    guarded_in(&fleet, last).await;
    one_writer(&fleet);
    tidy(&fleet, last).await;
}

/// What can be finished without Git is finished: the guard doesn't wait for the record.
#[tokio::test(start_paused = true)]
async fn with_git_down_after_the_commit_the_guard_is_back_and_the_record_comes_later() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    fleet.migrate("move", "west");
    fleet.phase("move", Phase::Cleanup).await;
    fleet.cut_git_off(true);
    until(&fleet, "the claim is the plan's again", |fleet| {
        let server = fleet.world.control_plane();
        let claims = server.list(&CLAIMS, None, &ListOptions::default()).unwrap();
        let mut claims = claims.items.iter();
        claims.any(|claim| claim["spec"]["owner"]["kind"] == "FailoverPlan")
    })
    .await;
    assert_eq!(fleet.status("move")["phase"], "Cleanup");
    assert!(fleet.binding()["spec"]["suspension"]["scheduling"] != true);
    fleet.cut_git_off(false);
    assert_eq!(fleet.ended("move").await, Phase::Completed);
    guarded_in(&fleet, "west").await;
    one_writer(&fleet);
    tidy(&fleet, "west").await;
}
