//! After a move by hand, from east to west, and when scheduling resumes: who keeps the workload?

use cutover::sandbox::WorldOptions;
use cutover::sandbox::karmada::kinds;
use serde_json::{Value, json};

use super::stage::{Stage, one_of};

/// Moves a Deployment by hand, under a suspension.
async fn moved(placement: Value) -> Stage {
    let stage = Stage::deployment(WorldOptions::fast(), placement).await;
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&["east", "west"]);
    stage.pause(1000).await;
    assert_eq!(
        stage.listed(),
        ["east", "west"],
        "nobody reverts it while it is suspended"
    );
    stage.list(&["west"]);
    stage.pause(1000).await;
    stage
}

async fn resumed(stage: &Stage) -> Vec<String> {
    stage.resume();
    stage.pause(3000).await;
    stage.listed()
}

async fn scaled(stage: &Stage, replicas: i32) -> Vec<String> {
    stage.edit_template(json!({"spec": {"replicas": replicas}}));
    stage.pause(3000).await;
    stage.listed()
}

fn all() -> Value {
    json!({"clusterNames": ["east", "west"]})
}

#[tokio::test(start_paused = true)]
async fn at_most_one_cluster_and_no_division_stays_also_after_a_scale_and_a_rebalance() {
    for scheduling in [Value::Null, json!({"replicaSchedulingType": "Duplicated"})] {
        let mut placement = one_of(&["east", "west"]);
        if !scheduling.is_null() {
            placement["replicaScheduling"] = scheduling;
        }
        let stage = moved(placement).await;
        assert_eq!(resumed(&stage).await, ["west"]);
        assert_eq!(scaled(&stage, 5).await, ["west"]);
        stage.edit_binding(json!({"spec": {"rescheduleTriggeredAt": "2030-01-01T00:00:00Z"}}));
        stage.pause(3000).await;
        assert_eq!(stage.listed(), ["west"]);
    }
}

#[tokio::test(start_paused = true)]
async fn aggregated_division_stays_also_after_a_scale() {
    let scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let stage = moved(json!({"clusterAffinity": all(), "replicaScheduling": scheduling})).await;
    assert_eq!(resumed(&stage).await, ["west"]);
    assert_eq!(scaled(&stage, 5).await, ["west"]);
    assert_eq!(scaled(&stage, 1).await, ["west"]);
}

/// Static weights ignore the spread constraint.
#[tokio::test(start_paused = true)]
async fn static_weights_stay_until_a_scale_and_are_then_on_both() {
    let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
    let mut placement = one_of(&["east", "west"]);
    placement["replicaScheduling"] = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [weight("east"), weight("west")]},
    });
    let stage = moved(placement).await;
    assert_eq!(resumed(&stage).await, ["west"]);
    let mut listed = scaled(&stage, 4).await;
    listed.sort();
    assert_eq!(listed, ["east", "west"]);
    let replicas = |index: usize| stage.bound()["spec"]["clusters"][index]["replicas"].clone();
    assert_eq!((replicas(0), replicas(1)), (json!(2), json!(2)));
}

#[tokio::test(start_paused = true)]
async fn duplicated_without_a_spread_constraint_is_on_both_at_once() {
    let stage = moved(json!({"clusterAffinity": all()})).await;
    let mut listed = resumed(&stage).await;
    listed.sort();
    assert_eq!(listed, ["east", "west"]);
}

#[tokio::test(start_paused = true)]
async fn groups_go_back_to_the_source_unless_the_scheduler_is_told_that_it_observes_the_target() {
    let group = |name: &str, cluster: &str| json!({"affinityName": name, "clusterNames": [cluster]});
    let placement = json!({"clusterAffinities": [group("g1", "east"), group("g2", "west")]});
    let stage = moved(placement.clone()).await;
    assert_eq!(stage.bound()["status"]["schedulerObservingAffinityName"], "g1");
    assert_eq!(resumed(&stage).await, ["east"]);

    let stage = moved(placement.clone()).await;
    let turned = json!([group("g2", "west"), group("g1", "east")]);
    stage.edit_policy(json!({"spec": {"placement": {"clusterAffinities": turned}}}));
    stage.pause(1000).await;
    assert_eq!(
        resumed(&stage).await,
        ["east"],
        "re-ordering the groups does not help"
    );

    let stage = moved(placement).await;
    let observes = json!({"status": {"schedulerObservingAffinityName": "g2"}});
    stage.merge_status(&kinds::BINDINGS, stage.binding, observes);
    assert_eq!(resumed(&stage).await, ["west"]);
    assert_eq!(scaled(&stage, 5).await, ["west"]);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_the_affinity_does_not_mean_is_left_at_once_or_at_the_next_scale() {
    let east = json!({"clusterNames": ["east"]});
    let stage = moved(json!({"clusterAffinity": east})).await;
    assert_eq!(resumed(&stage).await, ["east"]);

    let scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let stage = moved(json!({"clusterAffinity": east, "replicaScheduling": scheduling})).await;
    assert_eq!(resumed(&stage).await, ["west"]);
    assert_eq!(scaled(&stage, 5).await, ["east"]);
}

#[tokio::test(start_paused = true)]
async fn an_affinity_that_was_changed_to_the_target_before_keeps_it() {
    let stage = moved(json!({"clusterAffinity": {"clusterNames": ["east"]}})).await;
    stage.edit_policy(json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["west"]}}}}));
    stage.pause(1000).await;
    assert_eq!(resumed(&stage).await, ["west"]);
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_cluster_keeps_what_it_has_and_takes_what_is_put_there_by_hand() {
    let stage = Stage::deployment(WorldOptions::fast(), one_of(&["east", "west"])).await;
    let taint =
        json!({"spec": {"taints": [{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]}});
    stage.merge(&kinds::CLUSTERS, "east", taint);
    stage.pause(2000).await;
    assert_eq!(stage.listed(), ["east"]);
    assert_eq!(scaled(&stage, 5).await, ["east"]);
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&["west"]);
    stage.pause(1000).await;
    stage.list(&["east", "west"]);
    stage.pause(1000).await;
    assert!(stage.copy("east").is_some(), "an expansion by hand onto it works");
    assert_eq!(
        resumed(&stage).await,
        ["east"],
        "with two listed, the cordoned one was kept"
    );
}
