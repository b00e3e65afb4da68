//! What looks like a job that has stopped, or like its newest state, and is not.

use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use serde_json::json;

use super::Guard::{self, Off, On};
use super::hand::{
    Hand, POLICIES, a_while, can_write, clean, fleet, freeze, handle, lost_state, place, runs_in, stopped,
    thaw, two_writers, verdict, work,
};
use crate::support::fleet::{Fleet, JOBS, job};

#[tokio::test(start_paused = true)]
async fn a_work_that_is_gone_does_not_say_that_the_job_is_gone() {
    two_writers(&source_taken_out(Off).await);
    let verdict = verdict(&source_taken_out(On).await);
    assert_eq!(verdict.overlaps, [], "{verdict}");
}

/// The source is taken out while its operator is down: the finalizer keeps the object, Terminating, and the job writes on.
/// That its state is lost is another matter.
async fn source_taken_out(look_at_the_member: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    freeze(&fleet, "east");
    hand.list(&["west"]);
    fleet
        .until("the source's Work is gone", |fleet| work(fleet, "east").is_none())
        .await;
    assert!(!fleet.copy("east").unwrap()["metadata"]["deletionTimestamp"].is_null());
    if look_at_the_member == On {
        a_while().await;
        thaw(&fleet, "east");
        fleet
            .until("the source is gone", |fleet| {
                fleet.copy("east").is_none() && !can_write(fleet, "east")
            })
            .await;
    }
    hand.release("west", None).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_operator_has_not_acted_on_stops_nobody() {
    two_writers(&held_but_not_observed(Off).await);
    clean(&held_but_not_observed(On).await);
}

async fn held_but_not_observed(proof: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    freeze(&fleet, "east");
    let nobody = hand.pin(None, &[]);
    for cluster in ["east", "west"] {
        hand.marked(cluster, &nobody).await;
        hand.arrived(cluster, &nobody).await;
    }
    if proof == Off {
        hand.release("west", None).await;
        return fleet;
    }
    a_while().await;
    assert!(
        !stopped(&fleet, "east"),
        "{:#}",
        fleet.copy("east").unwrap_or_default()
    );
    thaw(&fleet, "east");
    hand.hand_over("east", "west").await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_handle_from_an_earlier_upgrade_loses_what_came_after_it() {
    lost_state(&upgraded_before(Off).await);
    clean(&upgraded_before(On).await);
}

async fn upgraded_before(compare: Guard) -> Fleet {
    let fleet = fleet().await;
    fleet.apply(&JOBS, job("orders:1.1"));
    let restarted = |fleet: &Fleet| fleet.runs_in("east") && handle(fleet, "east").is_some();
    fleet.until("the upgrade is done", restarted).await;
    a_while().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    let before = handle(&fleet, "east");
    let nobody = hand.pin(None, &[]);
    hand.marked("east", &nobody).await;
    let stale = handle(&fleet, "east");
    assert_eq!(stale, before);
    fleet
        .until("the source has stopped", |fleet| stopped(fleet, "east"))
        .await;
    let given = match compare {
        Off => stale,
        On => handle(&fleet, "east").filter(|handle| Some(handle) != before.as_ref()),
    };
    assert!(given.is_some());
    hand.release("west", given.as_deref()).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_preserved_object_keeps_writing_when_its_cluster_is_taken_out() {
    let fleet = fleet().await;
    fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"preserveResourcesOnDeletion": true}}),
    );
    let preserved = |fleet: &Fleet| fleet.binding()["spec"]["preserveResourcesOnDeletion"] == true;
    fleet.until("the binding says so", preserved).await;

    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("guarded", "west");
    assert_eq!(fleet.ended("guarded").await, Phase::Failed);
    clean(&fleet);

    place(&fleet, json!({"clusterAffinity": {"clusterNames": ["west"]}}));
    runs_in(&fleet, "west").await;
    a_while().await;
    two_writers(&fleet);
}
