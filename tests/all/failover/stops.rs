//! Replicas that stand still before a write of a plan, as by SIGSTOP, which another one then sends: they go on when it is all
//! over, and send what they were about to send.

use std::cell::Cell;

use cutover::sandbox::api::DeleteOptions;
use http::Method;
use serde_json::json;

use super::crash::{DIRECTLY, NEVER_LOST, Scenario, has_moved};
use super::stage::{
    PLAN, PLANS, one_writer, phase_is, plan, purge_mode, status, taint, unled, untaint, until,
};
use crate::stops::{Led, canaries, stand_still};
use crate::support::fleet::{CLAIMS, Fleet, PINS};

/// What comes too late and is taken nevertheless, because nothing has that name any more: the sweep takes it away.
const CREATED: [&str; 3] = [
    "Arming: claim ",
    "Arming: pin: says nothing yet",
    "Evicted: create canary ",
];

/// The whole life of a plan, from its first write to its last.
#[tokio::test(start_paused = true)]
async fn what_is_sent_late_of_a_plan_that_has_ended_is_refused_or_taken_away() {
    let fleet = unled().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    let chapter = Cell::new(0);
    let goes_on = |fleet: &Fleet| match chapter.get() {
        0 if phase_is(fleet, cutover::api::FailoverPhase::Guarding) => {
            taint(fleet, "east");
            chapter.set(1);
            false
        }
        1 if has_moved(fleet) && fleet.copy("east").is_none() => {
            untaint(fleet, "east");
            let server = fleet.world.control_plane();
            server
                .delete(&PLANS, Some("shop"), PLAN, &DeleteOptions::default())
                .unwrap();
            chapter.set(2);
            false
        }
        2 => fleet
            .world
            .control_plane()
            .get(&PLANS, Some("shop"), PLAN)
            .is_err(),
        _ => false,
    };
    let stopped = stand_still(&fleet, Led::ForEver, goes_on).await;
    assert!(stopped.len() > 40, "only {} writes", stopped.len());
    let to = fleet.listed()[0].clone();
    let mut created = [false; CREATED.len()];
    for replica in stopped {
        let line = replica.go_on(&fleet).await;
        let first = replica.sent.lock().unwrap().first().cloned();
        let kind = CREATED.iter().position(|begins| line.starts_with(begins));
        if let (Some(first), Some(kind)) = (&first, kind) {
            created[kind] |= first.taken && first.method == Method::POST;
        } else if let Some(first) = first {
            assert!(!first.taken, "after {line}: {first:?} was taken");
        }
        until(&fleet, &format!("nothing is left after {line}"), |fleet| {
            fleet.is_clean_in(&to) && canaries(fleet) == 0
        })
        .await;
        one_writer(&fleet);
    }
    assert_eq!(created, [true; CREATED.len()]);
}

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
    fleet.lead(std::sync::Arc::new(cutover::reconcile::intents::NoFailpoints));
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
