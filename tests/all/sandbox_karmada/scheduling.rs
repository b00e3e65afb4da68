//! The scheduler: its queue, what suspends it, what it writes.

use std::time::Duration;

use cutover::sandbox::WorldOptions;
use cutover::sandbox::karmada::kinds;
use serde_json::json;

use super::stage::{ANY, Stage, condition, job, one_of, other_than, suspended};

/// Suspends a binding that waits in the scheduler's queue.
async fn queued(seed: u64) -> Stage {
    let stage = job(seed).await;
    stage.backlog(100).await;
    stage.edit_binding(json!({"spec": {"rescheduleTriggeredAt": "2030-01-01T00:00:00Z"}}));
    stage.pause(20).await;
    stage.suspend();
    stage
}

#[tokio::test(start_paused = true)]
async fn a_binding_in_the_queue_is_scheduled_once_more_over_what_was_written_meanwhile() {
    for seed in 1..=8 {
        let stage = queued(seed).await;
        stage.pause(20).await;
        let source = stage.listed().remove(0);
        stage.list(&[other_than(&source), &source]);
        stage
            .within(Duration::from_secs(20), "the late overwrite", || {
                stage.listed().len() == 1
            })
            .await;
        assert!(
            stage.bound()["spec"]["suspension"]["scheduling"] == true,
            "and it is still suspended"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_canary_that_was_observed_says_that_the_queue_is_through() {
    for seed in 1..=7 {
        let stage = queued(seed).await;
        stage.canary("canary").await;
        let source = stage.listed().remove(0);
        let target = other_than(&source);
        stage.list(&[target, &source]);
        stage.pause(60_000).await;
        assert_eq!(stage.listed(), [target, &source], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_canary_costs_little_and_one_behind_a_queue_seconds() {
    let stage = job(1).await;
    let begun = tokio::time::Instant::now();
    stage.canary("idle").await;
    assert!(
        begun.elapsed() < Duration::from_millis(250),
        "{:?}",
        begun.elapsed()
    );
    stage.backlog(200).await;
    let begun = tokio::time::Instant::now();
    stage.canary("behind").await;
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_suspension_of_scheduling_survives_template_placement_policy_and_restarts() {
    let (stage, ..) = suspended(1).await;
    stage.list(&["east", "west"]);
    stage.edit_template(json!({"metadata": {"labels": {"a": "1"}}, "spec": {"image": "orders:2"}}));
    stage.pause(2000).await;
    stage.edit_policy(json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["north"]}}}}));
    stage.pause(2000).await;
    stage
        .edit_policy(json!({"spec": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["north"]}}}}));
    stage.pause(2000).await;
    stage
        .world
        .faults()
        .restart("karmada-controller-manager")
        .restart("karmada-scheduler");
    stage.pause(5000).await;
    let binding = stage.bound();
    assert_eq!(stage.listed(), ["east", "west"]);
    assert_eq!(binding["spec"]["suspension"]["scheduling"], true);
    let dispatching = &binding["spec"]["suspension"]["dispatchingOnClusters"]["clusterNames"];
    assert_eq!(
        *dispatching,
        json!(["north"]),
        "the dispatching part is the policy's"
    );
    assert_eq!(
        binding["spec"]["placement"]["clusterAffinity"]["clusterNames"],
        json!(["north"])
    );
}

#[tokio::test(start_paused = true)]
async fn the_observed_generation_stays_behind_while_suspended_and_proves_nothing() {
    let stage = job(1).await;
    stage.pause(3000).await;
    let behind = || {
        let binding = stage.bound();
        binding["metadata"]["generation"].as_i64().unwrap()
            - binding["status"]["schedulerObservedGeneration"].as_i64().unwrap()
    };
    assert_eq!(behind(), 0);
    stage.suspend();
    stage.pause(60_000).await;
    assert_eq!(behind(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_no_cluster_fits_the_list_is_emptied() {
    let stage = job(1).await;
    stage.edit_policy(json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["nowhere"]}}}}));
    stage.until("it is nowhere", || stage.listed().is_empty()).await;
    stage
        .until("it says so", || {
            condition(&stage.bound(), "Scheduled")["reason"] == "NoClusterFit"
        })
        .await;
    stage
        .until("the copies are gone", || {
            ANY.iter().all(|cluster| stage.copy(cluster).is_none())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_writes_only_what_differs_from_its_cache() {
    let stage = job(1).await;
    stage.pause(3000).await;
    // It sees the list of before, chooses the same, and so has nothing to say about the list.
    stage
        .world
        .faults()
        .lag("scheduler-cache", Duration::from_secs(2));
    stage.edit_policy(json!({"spec": {"placement": {"clusterTolerations": [{"operator": "Exists"}]}}}));
    stage.pause(1950).await;
    stage.suspend();
    stage.list(&["north", "east", "west"]);
    stage.pause(10_000).await;
    assert_eq!(stage.listed(), ["north", "east", "west"]);
    let applied = stage.bound()["metadata"]["annotations"]["policy.karmada.io/applied-placement"].clone();
    assert!(
        applied.as_str().unwrap().contains("clusterTolerations"),
        "but it was at work: {applied}"
    );
}

/// Unlike where none fits: what is there stays.
#[tokio::test(start_paused = true)]
async fn where_too_few_clusters_fit_the_list_stays_and_it_is_tried_again() {
    let stage = job(1).await;
    let before = stage.listed();
    let spread = |groups: i32| {
        let constraints = json!([{"spreadByField": "cluster", "minGroups": groups, "maxGroups": groups}]);
        stage.edit_policy(json!({"spec": {"placement": {"spreadConstraints": constraints}}}));
    };
    spread(4);
    stage
        .until("it says so", || {
            condition(&stage.bound(), "Scheduled")["reason"] == "SchedulerError"
        })
        .await;
    stage.pause(5000).await;
    assert_eq!(stage.listed(), before);
    spread(2);
    stage.until("it is scheduled", || stage.listed().len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_concerns_nobody_before_its_labels_change() {
    let placement = json!({"clusterAffinity": {"labelSelector": {"matchExpressions": [
        {"key": "retired", "operator": "DoesNotExist"},
    ]}}});
    let stage = Stage::deployment(WorldOptions::fast(), placement).await;
    assert_eq!(stage.listed().len(), 3);
    let east = stage
        .world
        .control_plane()
        .get(&kinds::CLUSTERS, None, "east")
        .unwrap();
    let south = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "south"},
        "spec": {"id": "south", "syncMode": "Push", "apiEndpoint": "https://south.members.invalid"},
    });
    stage.create(&kinds::CLUSTERS, south);
    stage.merge_status(&kinds::CLUSTERS, "south", json!({"status": east["status"]}));
    stage.pause(60_000).await;
    assert_eq!(stage.listed().len(), 3);
    stage.merge(
        &kinds::CLUSTERS,
        "south",
        json!({"metadata": {"labels": {"any": "change"}}}),
    );
    stage.until("it is used", || stage.listed().len() == 4).await;
    stage.merge(
        &kinds::CLUSTERS,
        "south",
        json!({"metadata": {"labels": {"retired": "yes"}}}),
    );
    stage.until("it is left", || stage.listed().len() == 3).await;
}

/// What has no policy any more is out of the scheduler's sight, but for changes of clusters.
#[tokio::test(start_paused = true)]
async fn a_binding_without_a_policy_is_scheduled_only_for_a_cluster() {
    let stage = Stage::deployment(WorldOptions::fast(), one_of(ANY)).await;
    stage.delete(&kinds::POLICIES, "orders");
    stage
        .until("the policy is gone", || {
            stage.get(&kinds::POLICIES, "orders").is_null()
        })
        .await;
    stage.pause(1000).await;
    stage.list(&["north", "west"]);
    stage.pause(5000).await;
    assert_eq!(stage.listed(), ["north", "west"]);
    stage.merge(
        &kinds::CLUSTERS,
        "east",
        json!({"metadata": {"labels": {"any": "change"}}}),
    );
    stage.until("it is scheduled", || stage.listed().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_constraint_without_a_limit_is_a_limit_of_none() {
    let stage = job(1).await;
    let before = stage.listed();
    let constraints = json!([{"spreadByField": "cluster", "minGroups": 1}]);
    stage.edit_policy(json!({"spec": {"placement": {"spreadConstraints": constraints}}}));
    stage
        .until("it says so", || {
            let scheduled = condition(&stage.bound(), "Scheduled");
            scheduled["reason"] == "SchedulerError"
                && scheduled["message"] == "no clusters available to schedule"
        })
        .await;
    assert_eq!(stage.listed(), before);
}
