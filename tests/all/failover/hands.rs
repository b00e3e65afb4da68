//! What people do to the objects of a guarded workload; and what a plan does that may not do everything.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::FailoverPhase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{Nobody, install_fence};
use cutover::sandbox::faults::{Effect, Rule};
use serde_json::json;

use super::modes::moved_from;
use super::stage::{
    fleet, guarded_in, one_writer, phase_is, plan, purge_mode, status, taint, tidy, unled, until, untaint,
};
use crate::support::fleet::Fleet;

#[tokio::test(start_paused = true)]
async fn the_fence_stands_in_for_a_canary_that_a_failover_may_not_create() {
    let fleet = unled().await;
    let cluster = Cluster::from_client(fleet.world.client(), Limits::default());
    let name = cluster.whoami().await.unwrap();
    install_fence(&cluster, &[name]).await.unwrap().unwrap();
    fleet.lead(Arc::new(Nobody));
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    forbid_canaries(&fleet);
    taint(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(status(&fleet)["journal"]["fence"]["barrier"]["canary"], "");
    one_writer(&fleet);
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn without_canary_and_fence_a_failover_is_held_and_says_what_is_needed() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    forbid_canaries(&fleet);
    taint(&fleet, "east");
    until(&fleet, "it says what it needs", |fleet| {
        let why = status(fleet)["waitingFor"]["reason"].to_string();
        phase_is(fleet, FailoverPhase::Fencing)
            && why.contains("docs/rbac.md")
            && why.contains("docs/fence.md")
    })
    .await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(phase_is(&fleet, FailoverPhase::Fencing) && status(&fleet)["writer"].is_null());
    fleet.world.faults().end();
    let to = moved_from(&fleet, "east").await;
    one_writer(&fleet);
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
}
