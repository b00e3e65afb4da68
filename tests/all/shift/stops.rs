//! A replica that stands still before it puts up the pin of a shift, and goes on when another one has brought it to its end.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::NoFailpoints;
use serde_json::json;

use super::stage::{DEPLOYMENTS, SHIFTS, Stage, duplicated};
use crate::stops::{before_its_pin, goes_on_when_it_is_gone};
use crate::support::fleet::POLICIES;

#[tokio::test(start_paused = true)]
async fn a_pin_that_is_put_up_when_its_shift_is_gone_changes_nothing_in_any_member() {
    // Of two clusters, which one pin for all of them would hold to what it says.
    let policy = duplicated(&["east", "north"]);
    let mut stage = Stage::without_controller(&policy, 2, Duration::from_millis(100)).await;
    stage.shift("go", json!({}));
    let late = before_its_pin(&stage.fleet).await;
    stage.lead(Arc::new(NoFailpoints));
    stage.is("go", "Shifted").await;
    stage.fleet.apply(&POLICIES, duplicated(&["north", "west"]));
    stage.is("go", "Completed").await;
    goes_on_when_it_is_gone(&stage.fleet, late, (&SHIFTS, "go"), (&DEPLOYMENTS, "web")).await;
    stage.assert_clean();
}
