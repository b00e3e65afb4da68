//! Replicas that stand still before a write of a suspension, which another one then sends: when it has ended they go on, and
//! send what they were about to send.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::NoFailpoints;
use serde_json::json;

use super::pins::shared;
use super::{DEPLOYMENTS, SUSPENSIONS, Stage, web};
use crate::stops::{Led, before_its_pin, goes_on_when_it_is_gone, stand_still};
use crate::support::fleet::{CLAIMS, Fleet, PINS};

#[tokio::test(start_paused = true)]
async fn what_is_sent_late_in_a_suspension_that_has_ended_is_refused_or_taken_away() {
    all_the_way(Stage::start().await, json!({"scope": "Both"})).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_late_of_a_pin_whose_suspension_has_ended_is_refused_or_taken_away() {
    all_the_way(shared().await, json!({})).await;
}

async fn all_the_way(mut stage: Stage, mut spec: serde_json::Value) {
    if let Some(controller) = stage.controller.take() {
        controller.kill().await;
    }
    let until = stage.fleet.world.clock().now() + Duration::from_mins(5);
    spec["until"] = until.to_string().into();
    stage.suspend("freeze", spec);
    let is_over = |fleet: &Fleet| {
        let server = fleet.world.control_plane();
        let freeze = server.get(&SUSPENSIONS, Some("shop"), "freeze").unwrap();
        freeze["status"]["phase"] == "Completed" && freeze["metadata"]["finalizers"].is_null()
    };
    let stopped = stand_still(&stage.fleet, Led::ForEver, is_over).await;
    assert!(stopped.len() > 10, "only {} writes", stopped.len());
    stage.fleet.apply(&DEPLOYMENTS, web("web", 1));
    stage.catches_up("web:1").await;
    let status = stage.status("freeze");
    for replica in stopped {
        let line = replica.go_on(&stage.fleet).await;
        stage
            .fleet
            .until(&format!("nothing is left after {line}"), |fleet| {
                (fleet.count(&PINS), fleet.count(&CLAIMS)) == (0, 0)
            })
            .await;
        stage.catches_up("web:1").await;
        stage.assert_policy_is_clean();
        assert_eq!(stage.status("freeze"), status, "after {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_is_put_up_when_its_suspension_is_gone_changes_nothing_in_any_member() {
    let mut stage = shared().await;
    if let Some(controller) = stage.controller.take() {
        controller.kill().await;
    }
    let until = stage.fleet.world.clock().now() + Duration::from_mins(5);
    stage.suspend("freeze", json!({"until": until.to_string()}));
    let late = before_its_pin(&stage.fleet).await;
    stage.fleet.lead(Arc::new(NoFailpoints));
    stage.is("freeze", "Suspended").await;
    stage.fleet.apply(&DEPLOYMENTS, web("web", 1));
    stage.is("freeze", "Completed").await;
    stage.catches_up("web:1").await;
    goes_on_when_it_is_gone(
        &stage.fleet,
        late,
        (&SUSPENSIONS, "freeze"),
        (&DEPLOYMENTS, "web"),
    )
    .await;
}
