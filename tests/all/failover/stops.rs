//! Replicas that stand still before a write of a plan, as by SIGSTOP, which another one then sends: they go on when it is all
//! over, and send what they were about to send.

use std::sync::Arc;

use cutover::api::OWN_NAMESPACE;
use cutover::reconcile::intents::Nobody;
use cutover::sandbox::api::ListOptions;

use super::crash::{DIRECTLY, NEVER_LOST, Scenario, has_moved};
use super::stage::{one_writer, status, until};
use crate::stops::{Led, stand_still};
use crate::support::fleet::{CLAIMS, Fleet, PINS, POLICIES};

#[tokio::test(start_paused = true)]
async fn what_is_sent_late_in_a_failover_that_purged_at_once_changes_nothing_under_the_guard() {
    under_the_guard(DIRECTLY).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_late_in_a_failover_from_a_lost_cluster_changes_nothing_under_the_guard() {
    under_the_guard(NEVER_LOST).await;
}

/// The plan goes on guarding: its claim and its pin are there, and nothing late may change them.
async fn under_the_guard(scenario: Scenario) {
    let fleet = scenario.begin().await;
    let struck = scenario.strike(&fleet);
    let (stopped, ()) = tokio::join!(stand_still(&fleet, Led::ForEver, has_moved), struck);
    assert!(stopped.len() > 15, "only {} writes", stopped.len());
    fleet.lead(Arc::new(Nobody));
    // The old cluster is back, and what was left there is settled, before anything late comes.
    scenario.ended(&fleet).await;
    scenario.assert_ended(&fleet);
    let (before, spec) = (status(&fleet), fleet.binding()["spec"].clone());
    for replica in stopped {
        let line = replica.go_on(&fleet).await;
        let first = replica.sent.lock().unwrap().first().cloned();
        if let Some(first) = first.filter(|_| !line.contains("canary")) {
            assert!(!first.taken, "after {line}: {first:?} was taken");
        }
        until(&fleet, &format!("no canary is left after {line}"), |fleet| {
            canaries(fleet) == 0
        })
        .await;
        let now = status(&fleet);
        for field in ["phase", "writer", "attempt", "history", "oldCopies", "rounds"] {
            assert_eq!(now[field], before[field], "{field} after {line}");
        }
        assert_eq!(fleet.binding()["spec"], spec, "after {line}");
        assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1), "after {line}");
        one_writer(&fleet);
    }
}

fn canaries(fleet: &Fleet) -> usize {
    let server = fleet.world.control_plane();
    let all = server.list(&POLICIES, Some(OWN_NAMESPACE), &ListOptions::default());
    all.map_or(0, |all| all.items.len())
}
