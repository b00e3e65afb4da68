//! The scheduler against a migration: policies that change, queues, and who keeps the job in the end.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::member::Timings;
use serde_json::json;

use super::Guard::{self, Off, On};
use super::hand::{Hand, a_while, backlog, clean, fleet, lost_state, place, runs_in, two_writers};
use crate::support::fleet::Fleet;

#[tokio::test(start_paused = true)]
async fn a_policy_that_names_another_cluster_moves_the_job_without_its_state() {
    lost_state(&policy_changed(Off, Timings::default()).await);
    clean(&policy_changed(On, Timings::default()).await);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_its_time_to_go_runs_beside_the_one_that_a_policy_moved() {
    let slow = Timings {
        cancel: Duration::from_secs(3),
        teardown: Duration::from_secs(3),
        ..Timings::default()
    };
    two_writers(&policy_changed(Off, slow.clone()).await);
    clean(&policy_changed(On, slow).await);
}

async fn policy_changed(fence: Guard, timings: Timings) -> Fleet {
    let fleet = Fleet::start(WorldOptions {
        timings,
        ..WorldOptions::default()
    })
    .await;
    let hand = Hand::on(&fleet);
    if fence == On {
        hand.suspend_scheduling();
        hand.canary().await;
    }
    place(&fleet, json!({"clusterAffinity": {"clusterNames": ["west"]}}));
    match fence {
        Off => {
            runs_in(&fleet, "west").await;
        }
        On => {
            a_while().await;
            assert_eq!(fleet.listed(), ["east"]);
        }
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn what_the_scheduler_had_queued_drops_the_source_after_the_suspension() {
    lost_state(&queued_before_the_suspension(Off).await);
    clean(&queued_before_the_suspension(On).await);
}

/// The job runs in west and goes to east: of two clusters that are listed the scheduler keeps the first by name.
async fn queued_before_the_suspension(barrier: Guard) -> Fleet {
    let fleet = fleet().await;
    {
        let _controller = fleet.controller(Arc::new(NoFailpoints));
        fleet.migrate("there", "west");
        assert_eq!(fleet.ended("there").await, Phase::Completed);
    }
    let hand = Hand::on(&fleet);
    backlog(&fleet.world, 100);
    place(
        &fleet,
        json!({"clusterAffinity": {"clusterNames": ["east", "west"]}}),
    );
    let names =
        |fleet: &Fleet| fleet.binding()["spec"]["placement"]["clusterAffinity"]["clusterNames"].clone();
    fleet
        .until("the binding has it", |fleet| {
            names(fleet) == json!(["east", "west"])
        })
        .await;
    hand.suspend_scheduling();
    if barrier == On {
        hand.canary().await;
        assert_eq!(fleet.listed(), ["west"]);
    }
    hand.hold_and_expand("west", "east").await;
    if barrier == On {
        hand.hand_over("west", "east").await;
        return fleet;
    }
    fleet
        .until("the source is dropped", |fleet| {
            fleet.listed() == ["east"] && fleet.copy("west").is_none()
        })
        .await;
    hand.release("east", None).await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_spreads_puts_both_back_when_the_pin_goes() {
    two_writers(&spread_in_the_end(Off).await);
    clean(&spread_in_the_end(On).await);
}

async fn spread_in_the_end(stays: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    let affinity = match stays {
        On => json!({"clusterNames": ["west"]}),
        Off => json!({"clusterNames": ["east", "west"]}),
    };
    let placement = json!({"clusterAffinity": affinity, "spreadConstraints": null});
    place(&fleet, json!(placement));
    hand.hold_and_expand("east", "west").await;
    hand.hand_over("east", "west").await;
    hand.list(&["west"]);
    fleet
        .until("the source is gone", |fleet| fleet.copy("east").is_none())
        .await;
    hand.resume();
    hand.delete_pin().unwrap();
    a_while().await;
    assert!(fleet.runs_in("west"));
    fleet
}
