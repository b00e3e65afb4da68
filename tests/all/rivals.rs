//! Several intents of one workload take turns, and the record of each speaks of what itself did.

use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use serde_json::json;

use crate::support::fleet::{Fleet, MIGRATIONS};

#[tokio::test(start_paused = true)]
async fn of_two_that_come_at_once_the_one_that_was_created_first_goes_first_then_by_name() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.migrate("b-to-north", "north");
    fleet.migrate("a-to-west", "west");
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    assert_eq!(fleet.ended("b-to-north").await, Phase::Completed);
    assert_eq!(fleet.ended("a-to-west").await, Phase::Completed);
    assert_eq!(fleet.status("a-to-west")["source"], "east");
    assert_eq!(fleet.status("b-to-north")["source"], "west");
    fleet.assert_clean_in("north");
    assert_eq!(fleet.world.ledger().verdict().runs.len(), 3);
}

/// One that a person keeps from beginning keeps nobody else.
#[tokio::test(start_paused = true)]
async fn one_that_is_paused_lets_the_others_go_first() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let verify = json!({"healthyFor": "2s", "timeout": "60s"});
    fleet.migrate_with(
        "a-to-west",
        json!({"to": "west", "paused": true, "verify": verify}),
    );
    fleet.migrate("b-to-north", "north");
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    assert_eq!(fleet.ended("b-to-north").await, Phase::Completed);
    fleet.patch(&MIGRATIONS, "a-to-west", json!({"spec": {"paused": false}}));
    assert_eq!(fleet.ended("a-to-west").await, Phase::Completed);
    assert_eq!(fleet.status("a-to-west")["source"], "north");
    fleet.assert_clean_in("west");
}

/// It had looked at the workload, and then had to wait for an approval: what it saw is out of date.
#[tokio::test(start_paused = true)]
async fn one_that_is_overtaken_before_its_first_effect_starts_again_and_says_nothing_of_the_other() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let gated = json!({"to": "north", "approval": {"before": ["Hold"]}, "verify": {"healthyFor": "2s", "timeout": "60s"}});
    fleet.migrate_with("a-to-north", gated);
    fleet
        .until("it waits for approval", |fleet| {
            fleet.status("a-to-north")["waitingFor"]["approval"] == "Hold"
        })
        .await;
    let long = json!({"to": "west", "verify": {"healthyFor": "8m", "timeout": "60s"}});
    fleet.migrate_with("b-to-west", long);
    fleet.phase("b-to-west", Phase::Verify).await;
    let approval = json!({"spec": {"approvals": [{"phase": "Hold", "attempt": 1, "by": "ann"}]}});
    fleet.patch(&MIGRATIONS, "a-to-north", approval);
    fleet
        .until("it waits for the other", |fleet| {
            fleet.status("a-to-north")["waitingFor"]["code"] == "Claim"
        })
        .await;
    assert_eq!(fleet.ended("b-to-west").await, Phase::Completed);
    assert_eq!(fleet.ended("a-to-north").await, Phase::Completed);
    assert_eq!(fleet.status("a-to-north")["source"], "west");
    let steps = fleet.status("a-to-north")["steps"].to_string();
    assert!(!steps.contains("east"), "{steps}");
    fleet.assert_clean_in("north");
}
