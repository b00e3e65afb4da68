//! What suspensions leave that somebody tears away, and what they wait for before they say that they are in force.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::ListOptions;
use serde_json::json;

use super::{DEPLOYMENTS, SUSPENSIONS, Stage, web};
use crate::races::hand::backlog;
use crate::support::fleet::{BINDINGS, POLICIES};

impl Stage {
    /// Takes the intent away as nobody should.
    fn tear_away(&self, name: &str) {
        self.fleet
            .patch(&SUSPENSIONS, name, json!({"metadata": {"finalizers": null}}));
        self.delete(&SUSPENSIONS, name);
    }

    fn binding(&self) -> serde_json::Value {
        let server = self.fleet.world.control_plane();
        (*server.get(&BINDINGS, Some("shop"), "web-deployment").unwrap()).clone()
    }

    fn canaries(&self) -> usize {
        let server = self.fleet.world.control_plane();
        let all = server.list(&POLICIES, Some("cutover-system"), &ListOptions::default());
        all.map_or(0, |all| all.items.len())
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_intent_left_that_was_torn_away_is_taken_off_when_it_does_not_come_back() {
    let mut stage = Stage::start().await;
    stage.suspend("torn", json!({"scope": "Both"}));
    stage.is("torn", "Suspended").await;
    stage.controller = None;
    stage.tear_away("torn");
    stage.controller = Some(stage.fleet.controller(Arc::new(NoFailpoints)));
    stage.fleet.apply(&DEPLOYMENTS, web("web", 1));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stage.image("east"), "web:0", "it may still come back");
    stage.catches_up("web:1").await;
    stage.assert_policy_is_clean();
    stage
        .fleet
        .until("the binding is clean", |_| {
            let binding = stage.binding();
            binding["spec"]["suspension"]["scheduling"].is_null()
                && binding["metadata"]["annotations"]["cutover.dev/suspensions"].is_null()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_under_another_uid_is_kept_all_the_while() {
    let stage = Stage::start().await;
    stage.suspend("freeze", json!({}));
    stage.is("freeze", "Suspended").await;
    stage.tear_away("freeze");
    stage.fleet.apply(&DEPLOYMENTS, web("web", 1));
    tokio::time::sleep(Duration::from_secs(20)).await;
    stage.suspend("freeze", json!({}));
    stage.is("freeze", "Suspended").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(stage.image("east"), "web:0");
    stage.delete(&SUSPENSIONS, "freeze");
    stage.catches_up("web:1").await;
    stage.assert_policy_is_clean();
}

/// What the scheduler has queued it schedules once more, suspended or not.
#[tokio::test(start_paused = true)]
async fn scheduling_is_said_to_be_suspended_when_the_scheduler_is_past_it() {
    let stage = Stage::start().await;
    stage.suspend("warm", json!({"scope": "Scheduling"}));
    stage.is("warm", "Suspended").await;
    stage.suspend("warm", json!({"scope": "Scheduling", "abort": true}));
    stage.is("warm", "Aborted").await;
    backlog(&stage.fleet.world, 100);
    let narrow = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["east"]}}}});
    stage.fleet.patch(&POLICIES, "web", narrow);
    stage
        .fleet
        .until("the binding has it", |_| {
            stage.binding()["spec"]["placement"]["clusterAffinity"]["clusterNames"] == json!(["east"])
        })
        .await;
    stage.suspend("freeze", json!({"scope": "Scheduling"}));
    stage.is("freeze", "Suspended").await;
    let listed = stage.binding()["spec"]["clusters"].clone();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(
        stage.binding()["spec"]["clusters"],
        listed,
        "it was placed afterwards"
    );
    stage
        .fleet
        .until("no canary is left", |_| stage.canaries() == 0)
        .await;
    stage.delete(&SUSPENSIONS, "freeze");
    stage.fleet.until("it is gone", |_| stage.is_gone("freeze")).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_back_is_told_within_seconds_of_the_change() {
    let stage = Stage::start().await;
    stage.suspend("freeze", json!({}));
    stage.is("freeze", "Suspended").await;
    let mut template = web("web", 0);
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        tokio::time::sleep(Duration::from_secs(21)).await;
        template["spec"][field] = 7.into();
        stage.fleet.apply(&DEPLOYMENTS, template.clone());
        let before = tokio::time::Instant::now();
        stage
            .fleet
            .until("it is told", |_| {
                let held = &stage.status("freeze")["held"];
                held[0]["pending"].to_string().contains(&format!("/spec/{field}"))
            })
            .await;
        assert!(
            before.elapsed() < Duration::from_secs(4),
            "{field}: {:?}",
            before.elapsed()
        );
    }
}
