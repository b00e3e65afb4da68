//! Rebalances in the sandbox: what is divided is divided anew, what is whole moves to where there is room, and a dry run does nothing.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::Nobody;
use cutover::sandbox::api::{ListOptions, Resource};
use serde_json::{Value, json};

use crate::support::fleet::BINDINGS;
use crate::support::many::{CLUSTERS, REBALANCE, Stage};

const REBALANCERS: Resource = Resource::new("apps.karmada.io", "workloadrebalancers");

/// As much as `taken` of ten.
fn capacity(taken: u32) -> Value {
    let amount = |cpu: u32| json!({"cpu": cpu.to_string(), "memory": format!("{cpu}Gi"), "pods": "100"});
    let mut allocated = amount(taken);
    allocated["pods"] = "3".into();
    json!({"allocatable": amount(10), "allocated": allocated})
}

/// `east` is full and `west` is empty; the jobs of Flink ask for what Karmada says that they do.
async fn uneven() -> Stage {
    let stage = Stage::start(REBALANCE, &["clicks", "payments"]).await;
    for (cluster, taken) in [("east", 9), ("north", 6), ("west", 0)] {
        stage.set_capacity(cluster, capacity(taken));
    }
    for job in &stage.jobs {
        let asks = json!({"spec": {"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "2", "memory": "2Gi"}}}});
        stage.patch(&BINDINGS, Some("shop"), &format!("{job}-flinkdeployment"), asks);
    }
    stage
}

fn spec(more: &Value) -> Value {
    let mut spec = json!({"verify": {"healthyFor": "1s", "timeout": "30s"}});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    spec
}

fn rebalancers(stage: &Stage) -> Vec<Value> {
    let server = stage.fleet.world.control_plane();
    let list = server.list(&REBALANCERS, None, &ListOptions::default()).unwrap();
    list.items.iter().map(|object| (**object).clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_has_state_moves_from_the_busiest_cluster_until_the_load_is_even() {
    let stage = uneven().await;
    let _controller = stage.controller(Arc::new(Nobody));
    stage.ask("even-out", &spec(&json!({})));
    let status = stage.is("even-out", "Completed").await;
    // 90 and 0 percent: two jobs of 20 make it 50 and 40, and a third one would only turn it round.
    assert_eq!(status["progress"]["done"], 2, "{status:#}");
    let in_west = stage
        .jobs
        .iter()
        .filter(|job| stage.clusters_of(job, "flinkdeployment") == ["west"]);
    assert_eq!(in_west.count(), 2);
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn within_its_tolerance_nothing_moves() {
    let stage = uneven().await;
    let _controller = stage.controller(Arc::new(Nobody));
    stage.ask("even-out", &spec(&json!({"tolerance": 95})));
    stage.is("even-out", "Completed").await;
    assert!(stage.migrations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_move_and_then_it_is_asked_for() {
    let stage = uneven().await;
    let _controller = stage.controller(Arc::new(Nobody));
    stage.ask("even-out", &spec(&json!({"dryRun": true})));
    let status = stage.is("even-out", "Completed").await;
    assert_eq!(status["moves"].as_array().unwrap().len(), 2, "{status:#}");
    assert_eq!(status["moves"][0]["to"], "west");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(stage.migrations().is_empty());
    stage.ask("even-out", &spec(&json!({"dryRun": false})));
    stage.begins_again("even-out").await;
    stage.is("even-out", "Completed").await;
    assert_eq!(stage.migrations().len(), 2);
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_known_of_a_cluster_nothing_is_moved_for_balance() {
    let stage = Stage::start(REBALANCE, &[]).await;
    let _controller = stage.controller(Arc::new(Nobody));
    stage.ask("even-out", &spec(&json!({})));
    let status = stage.is("even-out", "Completed").await;
    assert_eq!(status["findings"][0]["code"], "CapacityUnknown", "{status:#}");
    assert!(stage.migrations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_divided_are_divided_anew_when_a_cluster_joins() {
    let divided = json!({
        "clusterAffinity": {"labelSelector": {"matchLabels": {"pool": "web"}}},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    });
    let stage = Stage::start(REBALANCE, &[]).await;
    stage.patch(
        &CLUSTERS,
        None,
        "east",
        json!({"metadata": {"labels": {"pool": "web"}}}),
    );
    let stage = stage.with_web(divided).await;
    assert_eq!(stage.clusters_of("web", "deployment"), ["east"]);
    let _controller = stage.controller(Arc::new(Nobody));
    stage.patch(
        &CLUSTERS,
        None,
        "west",
        json!({"metadata": {"labels": {"pool": "web"}}}),
    );
    stage.ask("even-out", &spec(&json!({"select": {"kinds": ["Deployment"]}})));
    let status = stage.is("even-out", "Completed").await;
    assert_eq!(status["progress"]["done"], 1, "{status:#}");
    assert_eq!(
        stage.clusters_of("web", "deployment"),
        ["east", "west"],
        "{status:#}"
    );
    let made = rebalancers(&stage);
    assert_eq!(made.len(), 1);
    assert_eq!(made[0]["metadata"]["ownerReferences"][0]["kind"], "Rebalance");
    assert!(stage.migrations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_waits_for_its_occasion() {
    let stage = uneven().await;
    for cluster in ["east", "north", "west"] {
        stage.set_capacity(cluster, capacity(5));
    }
    let _controller = stage.controller(Arc::new(Nobody));
    stage.ask("even-out", &spec(&json!({"when": ["CapacityLacking"]})));
    stage.is("even-out", "Watching").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(stage.migrations().is_empty());
    stage.set_capacity("east", capacity(11));
    stage
        .fleet
        .until("it has moved something", |_| {
            stage.status("even-out")["progress"]["done"].as_u64() > Some(0)
        })
        .await;
    stage.is("even-out", "Watching").await;
    let status = stage.status("even-out");
    assert_eq!(
        status["journal"]["because"], "east is asked for more than it has",
        "{status:#}"
    );
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn what_another_intent_has_claimed_is_left_to_it() {
    let divided = json!({
        "clusterAffinity": {"clusterNames": ["east"]},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    });
    let stage = Stage::start(REBALANCE, &[]).await.with_web(divided).await;
    let suspended = json!({"spec": {"suspension": {"scheduling": true}}});
    stage.patch(&BINDINGS, Some("shop"), "web-deployment", suspended);
    let _controller = stage.controller(Arc::new(Nobody));
    stage.ask("even-out", &spec(&json!({"select": {"kinds": ["Deployment"]}})));
    let status = stage.is("even-out", "Completed").await;
    assert_eq!(
        status["stays"][0]["why"]["code"], "SchedulingSuspended",
        "{status:#}"
    );
    assert!(rebalancers(&stage).is_empty());
}
