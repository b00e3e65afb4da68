//! A Migration of a guarded workload: it gets the claim, and gives it back with the writer that it left.

use cutover::api::Phase;
use serde_json::json;

use super::modes::moved_from;
use super::stage::{
    fleet, guarded_in, known, one_writer, plan, savepoint, started_from, status, tidy, unwell,
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
