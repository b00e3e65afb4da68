//! Karmada's own failover in the middle of a migration.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use serde_json::{Value, json};

use super::Guard::{self, Off, On};
use super::hand::{
    BINDING, Hand, a_while, can_write, clean, fleet, lost_state, marker_on_work, reachable, two_writers,
    verdict,
};
use crate::support::fleet::{BINDINGS, Fleet, PINS};

#[tokio::test(start_paused = true)]
async fn failover_left_on_takes_the_source_away_in_mid_flight() {
    lost_state(&unhealthy_in_mid_flight(Off).await);
    clean(&unhealthy_in_mid_flight(On).await);
}

/// For longer than the policy tolerates the job's REST API doesn't answer; scheduling is suspended all the while.
async fn unhealthy_in_mid_flight(failover_off: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::on(&fleet);
    hand.suspend_scheduling();
    hand.canary().await;
    if failover_off == On {
        hand.failover_off();
    }
    let pin = hand.pin(Some("east"), &[]);
    hand.marked("east", &pin).await;
    reachable(&fleet, false);
    tokio::time::sleep(Duration::from_mins(2)).await;
    reachable(&fleet, true);
    if failover_off == On {
        fleet
            .until("it is well again", |fleet| fleet.runs_in("east"))
            .await;
        hand.list(&["east", "west"]);
        hand.marked("west", &pin).await;
        hand.hand_over("east", "west").await;
        return fleet;
    }
    assert_eq!(fleet.listed(), Vec::<String>::new(), "{:#}", fleet.binding());
    assert!(fleet.copy("east").is_none());
    // Nothing is left to be moved: the migration is called off.
    hand.resume();
    hand.delete_pin().unwrap();
    fleet
        .until("it runs somewhere", |fleet| {
            ["east", "west", "north"].iter().any(|name| fleet.runs_in(name))
        })
        .await;
    fleet
}

/// Karmada computes no Work any more for a cluster that is being left: what runs there never gets the pin.
#[tokio::test(start_paused = true)]
async fn a_copy_under_an_eviction_task_runs_on_whatever_the_pin_says() {
    for task in [
        json!({"purgeMode": "Never", "suppressDeletion": true}),
        json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 600}),
        json!({"purgeMode": "Graciously", "gracePeriodSeconds": 600}),
    ] {
        two_writers(&evicted_in_mid_flight(&task, Off).await);
        let verdict = verdict(&evicted_in_mid_flight(&task, On).await);
        assert_eq!(verdict.overlaps, [], "{verdict}");
    }
}

/// That the state is lost, where nobody saved it before, is another matter.
async fn evicted_in_mid_flight(task: &Value, look_at_tasks: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    hand.evict("east", task);
    let nobody = hand.pin(None, &[]);
    hand.marked("west", &nobody).await;
    a_while().await;
    assert_ne!(marker_on_work(&fleet, "east"), Some(nobody));
    assert!(can_write(&fleet, "east"));
    if look_at_tasks == On {
        fleet.patch(
            &BINDINGS,
            BINDING,
            json!({"spec": {"gracefulEvictionTasks": null}}),
        );
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
async fn a_migration_does_not_begin_while_an_eviction_is_in_flight() {
    for task in [
        json!({"purgeMode": "Never", "suppressDeletion": true}),
        json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 120}),
    ] {
        let fleet = fleet().await;
        let hand = Hand::on(&fleet);
        // The scheduler doesn't come to see the binding as it is: so the task is kept.
        hand.suspend_scheduling();
        hand.evict("north", &task);
        a_while().await;
        let _controller = fleet.controller(Arc::new(NoFailpoints));
        fleet.migrate("move", "west");
        assert_eq!(
            fleet.ended("move").await,
            Phase::Failed,
            "{:#}",
            fleet.status("move")
        );
        assert!(fleet.status("move").to_string().contains("EvictionRunning"));
        assert_eq!((fleet.count(&PINS), fleet.listed()), (0, vec!["east".to_owned()]));
        clean(&fleet);
    }
}
