//! What holds the second copy, and what lets it go too early.

use std::cell::Cell;
use std::time::Duration;

use serde_json::{Value, json};

use super::Guard::{self, Off, On};
use super::hand::{
    BINDING, Hand, PIN, a_while, clean, fleet, fully_applied, marker_on_work, runs_in, two_writers,
};
use crate::support::fleet::{BINDINGS, Fleet, JOBS, PINS, job};

#[tokio::test(start_paused = true)]
async fn a_second_cluster_listed_without_a_pin_runs_beside_the_first() {
    two_writers(&expanded(Off).await);
    clean(&expanded(On).await);
}

async fn expanded(pin: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    match pin {
        On => hand.hold_and_expand("east", "west").await,
        Off => {
            hand.list(&["east", "west"]);
            runs_in(&fleet, "west").await;
        }
    }
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_target_listed_before_the_pin_is_seen_in_force_is_born_running() {
    two_writers(&listed_with_the_pin(Off).await);
    clean(&listed_with_the_pin(On).await);
}

/// Pin and expansion are written at the same moment; the controller's cache of override policies is behind.
async fn listed_with_the_pin(marker: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    fleet.world.faults().lag("override-cache", Duration::from_secs(3));
    let pin = hand.pin(Some("east"), &[]);
    if marker == On {
        hand.marked("east", &pin).await;
    }
    hand.list(&["east", "west"]);
    hand.marked("west", &pin).await;
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn swapping_the_writer_in_one_change_lets_both_write() {
    two_writers(&swapped(Off).await);
    clean(&swapped(On).await);
}

async fn swapped(via_nobody: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    match via_nobody {
        On => hand.hand_over("east", "west").await,
        Off => hand.release("west", None).await,
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_can_be_deleted_lets_both_write_when_it_is() {
    two_writers(&pin_deleted(Off).await);
    clean(&pin_deleted(On).await);
}

async fn pin_deleted(protection: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    if protection == On {
        fleet.patch(
            &PINS,
            PIN,
            json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": "Always"}}}),
        );
    }
    let deleted = hand.delete_pin();
    assert_eq!(deleted.is_err(), protection == On, "{deleted:?}");
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_is_wiped_by_a_change_of_the_template() {
    two_writers(&template_touched(Off).await);
    clean(&template_touched(On).await);
}

async fn template_touched(pin: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    let lock = json!({"spec": {"suspension": {"scheduling": true, "dispatchingOnClusters": {"clusterNames": ["west"]}}}});
    fleet.patch(&BINDINGS, BINDING, lock);
    match pin {
        Off => hand.list(&["east", "west"]),
        On => {
            let pin = hand.pin(Some("east"), &[]);
            hand.marked("east", &pin).await;
            hand.list(&["east", "west"]);
        }
    }
    a_while().await;
    assert!(
        fleet.copy("west").is_none(),
        "the lock holds as long as nobody touches the template"
    );
    fleet.patch(
        &JOBS,
        "orders",
        json!({"metadata": {"labels": {"touched": "yes"}}}),
    );
    fleet
        .until("the lock is gone", |fleet| fleet.copy("west").is_some())
        .await;
    a_while().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_cannot_be_applied_keeps_the_hold_from_arriving() {
    two_writers(&hold_that_fails(Off).await);
    clean(&hold_that_fails(On).await);
}

/// The hold of the source has a `replace` on a path that isn't there: its Work stays as it was, and nothing says so.
async fn hold_that_fails(await_marker: Guard) -> Fleet {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    hand.hold_and_expand("east", "west").await;
    let broken = json!({
        "targetCluster": {"clusterNames": ["east"]},
        "overriders": {"plaintext": [{"operator": "replace", "path": "/spec/restartNonce", "value": 1}]},
    });
    let nobody = hand.pin(None, std::slice::from_ref(&broken));
    hand.marked("west", &nobody).await;
    a_while().await;
    assert_ne!(marker_on_work(&fleet, "east").as_deref(), Some(nobody.as_str()));
    assert_eq!(fully_applied(&fleet), "True");
    match await_marker {
        Off => hand.release_with("west", None, vec![broken]).await,
        On => hand.hand_over("east", "west").await,
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_applied_before_the_pin_upgrades_the_source() {
    assert!(image_changed(Off).await);
    assert!(!image_changed(On).await);
}

/// The new image is for the target alone. Tells whether the source has ever had it.
async fn image_changed(pin_first: Guard) -> bool {
    let fleet = fleet().await;
    let hand = Hand::fenced(&fleet).await;
    let keep = json!({
        "targetCluster": {"clusterNames": ["east"]},
        "overriders": {"plaintext": [{"operator": "add", "path": "/spec/image", "value": "orders:1.0"}]},
    });
    let apply = || fleet.apply(&JOBS, job("orders:2.0"));
    if pin_first == Off {
        apply();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pin = hand.pin(Some("east"), &[keep]);
    let leaked = Cell::new(false);
    fleet
        .until("the pin is in force", |fleet| {
            leaked.set(leaked.get() || image(fleet, "east") == "orders:2.0");
            marker_on_work(fleet, "east").as_deref() == Some(pin.as_str())
        })
        .await;
    if pin_first == On {
        apply();
        a_while().await;
    }
    clean(&fleet);
    leaked.get() || image(&fleet, "east") == "orders:2.0"
}

fn image(fleet: &Fleet, cluster: &str) -> Value {
    fleet.copy(cluster).unwrap_or_default()["spec"]["image"].clone()
}
