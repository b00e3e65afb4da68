//! Rebalances in the sandbox: what is divided is divided anew, what is whole moves to where there is room, and a dry run does nothing.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, PINS};
use crate::support::killed::at_any_line_of;
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
    let _controller = stage.controller(Arc::new(NoFailpoints));
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
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("even-out", &spec(&json!({"tolerance": 95})));
    stage.is("even-out", "Completed").await;
    assert!(stage.migrations().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_move_and_then_it_is_asked_for() {
    let stage = uneven().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
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
    let _controller = stage.controller(Arc::new(NoFailpoints));
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
    let _controller = stage.controller(Arc::new(NoFailpoints));
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
    let _controller = stage.controller(Arc::new(NoFailpoints));
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
        status["journal"]["because"], "the requests in east exceed its capacity",
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
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("even-out", &spec(&json!({"select": {"kinds": ["Deployment"]}})));
    let status = stage.is("even-out", "Completed").await;
    assert_eq!(
        status["stays"][0]["why"]["code"], "SchedulingSuspended",
        "{status:#}"
    );
    assert!(rebalancers(&stage).is_empty());
}

/// The Cluster object of a member, without what the API server has added.
fn leaves(stage: &Stage, name: &str) -> Value {
    let server = stage.fleet.world.control_plane();
    let mut cluster = (*server.get(&CLUSTERS, None, name).unwrap()).clone();
    stage.patch(&CLUSTERS, None, name, json!({"metadata": {"finalizers": null}}));
    server
        .delete(&CLUSTERS, None, name, &DeleteOptions::default())
        .unwrap();
    cluster["metadata"] = json!({"name": name, "finalizers": cluster["metadata"]["finalizers"]});
    cluster
}

fn joins(stage: &Stage, mut cluster: Value) {
    let name = cluster["metadata"]["name"].as_str().unwrap().to_owned();
    let status = cluster.as_object_mut().unwrap().remove("status").unwrap();
    stage.fleet.create(&CLUSTERS, None, cluster);
    let server = stage.fleet.world.control_plane();
    let writer = WriteOptions::manager("karmadactl");
    let status = Patch::Merge(json!({"status": status}));
    server
        .patch(
            &CLUSTERS,
            None,
            &name,
            Some(Subresource::Status),
            &status,
            &writer,
        )
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_is_an_occasion_and_gets_its_share() {
    let stage = uneven().await;
    let west = leaves(&stage, "west");
    for cluster in ["east", "north"] {
        stage.set_capacity(cluster, capacity(9));
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("even-out", &spec(&json!({"when": ["ClusterJoined"]})));
    stage.is("even-out", "Watching").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(stage.migrations().is_empty());
    joins(&stage, west);
    stage
        .fleet
        .until("it has moved something", |_| {
            stage.status("even-out")["progress"]["done"].as_u64() > Some(0)
        })
        .await;
    let status = stage.is("even-out", "Watching").await;
    assert_eq!(status["journal"]["because"], "west has joined", "{status:#}");
    assert!(
        stage
            .jobs
            .iter()
            .any(|job| stage.clusters_of(job, "flinkdeployment") == ["west"]),
        "{status:#}"
    );
    // It is known now: another round would need another occasion.
    let (moved, round) = (stage.migrations().len(), status["journal"]["round"].clone());
    tokio::time::sleep(Duration::from_mins(5)).await;
    let status = stage.is("even-out", "Watching").await;
    assert_eq!(status["journal"]["round"], round, "{status:#}");
    assert_eq!(stage.migrations().len(), moved);
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_is_an_occasion_once() {
    let stage = uneven().await;
    for cluster in ["east", "north", "west"] {
        stage.set_capacity(cluster, capacity(5));
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("even-out", &spec(&json!({"when": ["ClusterLeft"]})));
    stage.is("even-out", "Watching").await;
    let _north = leaves(&stage, "north");
    // What ran there asks for its place elsewhere.
    stage.set_capacity("east", capacity(9));
    stage.set_capacity("west", capacity(0));
    stage
        .fleet
        .until("it has moved something", |_| {
            stage.status("even-out")["progress"]["done"].as_u64() > Some(0)
        })
        .await;
    let status = stage.is("even-out", "Watching").await;
    assert_eq!(status["journal"]["because"], "north has left", "{status:#}");
    assert_eq!(status["journal"]["known"], json!(["east", "west"]));
    let round = status["journal"]["round"].clone();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(stage.status("even-out")["journal"]["round"], round);
    assert_eq!(stage.fleet.count(&CLAIMS) + stage.fleet.count(&PINS), 0);
    stage.fleet.assert_one_writer();
}

#[test]
fn killed_after_any_write_a_rebalance_still_ends() {
    let begin = async || {
        let divided = json!({
            "clusterAffinity": {"labelSelector": {"matchLabels": {"pool": "web"}}},
            "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            },
        });
        let stage = uneven().await;
        let pool = |stage: &Stage, cluster| {
            let label = json!({"metadata": {"labels": {"pool": "web"}}});
            stage.patch(&CLUSTERS, None, cluster, label);
        };
        pool(&stage, "east");
        let stage = stage.with_web(divided).await;
        pool(&stage, "west");
        stage
    };
    let play = async |stage: &Stage| {
        stage.ask("even-out", &spec(&json!({"maxParallel": 2})));
        stage.is("even-out", "Completed").await;
    };
    let ended = |stage: &Stage| {
        let status = stage.status("even-out");
        let in_west = stage
            .jobs
            .iter()
            .filter(|job| stage.clusters_of(job, "flinkdeployment") == ["west"]);
        assert!(in_west.count() > 0, "{status:#}");
        assert_eq!(
            stage.clusters_of("web", "deployment"),
            ["east", "west"],
            "{status:#}"
        );
        // Twice the same would be one too many.
        assert_eq!(rebalancers(stage).len(), 1);
        assert_eq!(status["progress"]["failed"], 0, "{status:#}");
        stage.assert_clean();
    };
    at_any_line_of("Rebalance")
        .among_them(&["create Migration", "let it go", "WorkloadRebalancer"])
        .first_journals(3)
        .each_time(begin, play, ended);
}
