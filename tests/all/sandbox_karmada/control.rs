//! What happens within the control plane: templates to bindings, bindings to clusters, bindings to Works.

use std::time::Duration;

use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{Patch, WriteOptions};
use cutover::sandbox::karmada::kinds;
use serde_json::json;

use super::stage::{CONFIG_MAPS, FLINK, MARKER, SHOP, Stage, one_of, seeded};

const ANY: &[&str] = &["east", "west", "north"];

async fn job(seed: u64) -> Stage {
    Stage::job(seeded(seed), one_of(ANY)).await
}

/// A job under a suspension that the scheduler has taken notice of; with where it is, and where it is not.
async fn suspended(seed: u64) -> (Stage, String, &'static str) {
    let stage = job(seed).await;
    stage.suspend();
    stage.canary("canary").await;
    let source = stage.listed().remove(0);
    let target = other_than(&source);
    (stage, source, target)
}

fn other_than(cluster: &str) -> &'static str {
    if cluster == "west" { "north" } else { "west" }
}

/// A held copy in west beside the writer in east, both marked.
async fn held_in_west(seed: u64) -> Stage {
    let (stage, ..) = suspended(seed).await;
    stage.pin(&["east"], "1");
    stage.list(&["east", "west"]);
    stage.marked(&["east", "west"], "1").await;
    stage
}

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
            stage.condition(&stage.bound(), "Scheduled")["reason"] == "NoClusterFit"
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

#[tokio::test(start_paused = true)]
async fn failover_is_restored_by_a_change_of_the_template_and_by_nothing_of_ours() {
    let stage = job(1).await;
    let failover =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Directly"}});
    stage.edit_policy(json!({"spec": {"failover": failover}}));
    let present = || !stage.bound()["spec"]["failover"].is_null();
    stage.until("it arrives", present).await;
    stage.edit_binding(json!({"spec": {"failover": null}}));
    stage.pin(ANY, "1");
    stage.suspend();
    stage.pause(60_000).await;
    assert!(
        !present(),
        "not after status, override policies or our own patches"
    );

    let restored_by = async |what: &str| {
        let begun = tokio::time::Instant::now();
        stage.within(Duration::from_secs(5), what, present).await;
        let took = begun.elapsed();
        stage.edit_binding(json!({"spec": {"failover": null}}));
        took
    };
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    assert!(restored_by("template").await < Duration::from_millis(100));
    stage.edit_policy(json!({"spec": {"conflictResolution": "Overwrite"}}));
    restored_by("policy").await;
    stage.world.faults().restart("karmada-controller-manager");
    restored_by("restart").await;
}

#[tokio::test(start_paused = true)]
async fn a_template_is_claimed_with_one_label_and_two_annotations() {
    let stage = job(1).await;
    let (template, policy) = (stage.get(&FLINK, "orders"), stage.get(&kinds::POLICIES, "orders"));
    let id = "propagationpolicy.karmada.io/permanent-id";
    assert_eq!(
        template["metadata"]["labels"],
        json!({id: policy["metadata"]["labels"][id]})
    );
    assert_eq!(
        template["metadata"]["annotations"],
        json!({"propagationpolicy.karmada.io/name": "orders", "propagationpolicy.karmada.io/namespace": "shop"})
    );
}

#[tokio::test(start_paused = true)]
async fn without_its_policy_everything_stays_until_another_claims_it_with_the_suspension_intact() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.suspend();
    let policy = stage.get(&kinds::POLICIES, "orders");
    stage.delete(&kinds::POLICIES, "orders");
    stage
        .until("the policy is gone", || {
            stage.get(&kinds::POLICIES, "orders").is_null()
        })
        .await;
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    stage.pause(10_000).await;
    assert_eq!(stage.listed(), [source.clone()]);
    assert_eq!(
        stage.copy(&source).unwrap()["spec"]["image"],
        "orders:1",
        "changes stop"
    );
    let another = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "another", "namespace": "shop"}, "spec": policy["spec"],
    });
    stage.create(&kinds::POLICIES, another);
    stage
        .until("changes flow", || {
            stage.copy(&source).unwrap()["spec"]["image"] == "orders:2"
        })
        .await;
    assert_eq!(stage.bound()["spec"]["suspension"]["scheduling"], true);
    assert_eq!(
        stage.bound()["metadata"]["annotations"]["propagationpolicy.karmada.io/name"],
        "another"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_binding_takes_all_with_it_and_is_made_anew_at_the_next_change_of_the_template() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.suspend();
    stage.delete(&kinds::BINDINGS, stage.binding);
    stage
        .until("the copy is gone", || stage.copy(&source).is_none())
        .await;
    stage.pause(10_000).await;
    assert!(stage.bound().is_null());
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.until("it is back", || !stage.listed().is_empty()).await;
    assert!(stage.bound()["spec"]["suspension"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_template_takes_all_with_it() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.delete(&FLINK, "orders");
    stage
        .until("binding and copy are gone", || {
            stage.bound().is_null() && stage.copy(&source).is_none()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_on_the_binding_is_wiped_by_the_next_change_of_the_template() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.edit_binding(json!({"spec": {"suspension": {"dispatching": true, "scheduling": true}}}));
    let suspended = || stage.work(&source)["spec"]["suspendDispatching"] == true;
    stage.until("it is on the Work", suspended).await;
    stage
        .until("the Work says so", || {
            let condition = stage.condition(&stage.work(&source), "Dispatching");
            condition["status"] == "False" && condition["reason"] == "SuspendDispatching"
        })
        .await;
    stage.pause(10_000).await;
    assert!(suspended(), "it survives the status");
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.until("it is wiped", || !suspended()).await;
    assert_eq!(stage.bound()["spec"]["suspension"], json!({"scheduling": true}));
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_on_the_policy_lasts_and_a_shrink_deletes_nevertheless() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.edit_policy(json!({"spec": {"suspension": {"dispatching": true}}}));
    stage
        .until("it is on the Work", || {
            stage.work(&source)["spec"]["suspendDispatching"] == true
        })
        .await;
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    stage
        .until("the Work has the change", || {
            stage.manifest(&source)["spec"]["image"] == "orders:2"
        })
        .await;
    stage.pause(10_000).await;
    assert_eq!(stage.copy(&source).unwrap()["spec"]["image"], "orders:1");
    assert_eq!(stage.condition(&stage.bound(), "FullyApplied")["status"], "True");
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&[other_than(&source)]);
    stage
        .until("the copy is gone", || stage.copy(&source).is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_marker_reaches_the_works_and_only_those_that_change_are_written() {
    let stage = held_in_west(1).await;
    assert_eq!(stage.manifest("east")["spec"]["job"]["state"], "running");
    assert_eq!(stage.manifest("west")["spec"]["job"]["state"], "suspended");
    let marked = |cluster: &str| {
        stage
            .copy(cluster)
            .is_some_and(|copy| copy["metadata"]["annotations"][MARKER] == "1")
    };
    stage
        .until("the copies have it", || marked("east") && marked("west"))
        .await;
    let generation = stage.copy("east").unwrap()["metadata"]["generation"].clone();
    let version = |cluster: &str| stage.work(cluster)["metadata"]["generation"].clone();
    let before = (version("east"), version("west"));
    let rule = json!([{
        "targetCluster": {"clusterNames": ["west"]},
        "overriders": {"annotationsOverrider": [{"operator": "add", "value": {"only": "west"}}]},
    }]);
    stage.override_with("west-only", rule);
    stage
        .until("west has it", || {
            stage.manifest("west")["metadata"]["annotations"]["only"] == "west"
        })
        .await;
    stage.pause(5000).await;
    assert_eq!(version("east"), before.0);
    assert_ne!(version("west"), before.1);
    assert_eq!(
        stage.copy("east").unwrap()["metadata"]["generation"],
        generation,
        "a marker bumps no generation"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_work_notes_about_overrides_is_stale_after_their_deletion() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.pin(&[&source], "1");
    stage.marked(&[&source], "1").await;
    stage.delete(&kinds::OVERRIDES, "zzzz-pin");
    stage
        .until("the manifest is clean", || stage.marker(&source).is_none())
        .await;
    let noted = &stage.work(&source)["metadata"]["annotations"]["policy.karmada.io/applied-overrides"];
    assert!(noted.as_str().unwrap().contains(MARKER), "{noted}");
    let clean = || {
        stage.copy(&source).unwrap()["metadata"]["annotations"]
            .get(MARKER)
            .is_none()
    };
    stage.until("the copy is clean", clean).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_goes_but_has_a_finalizer_stays_in_force() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.pin(&[&source], "1");
    stage.merge(
        &kinds::OVERRIDES,
        "zzzz-pin",
        json!({"metadata": {"finalizers": ["cutover.dev/pin"]}}),
    );
    stage.marked(&[&source], "1").await;
    stage.delete(&kinds::OVERRIDES, "zzzz-pin");
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    stage
        .until("the change is through", || {
            stage.manifest(&source)["spec"]["image"] == "orders:2"
        })
        .await;
    assert_eq!(stage.marker(&source).as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_failing_patch_freezes_that_clusters_work_and_only_a_late_event_says_so() {
    let stage = held_in_west(1).await;
    let applied = || stage.condition(&stage.bound(), "FullyApplied")["status"] == "True";
    stage.until("both are applied", applied).await;
    let rule = json!([{
        "targetCluster": {"clusterNames": ["west"]},
        "overriders": {"plaintext": [{"operator": "remove", "path": "/spec/not/there"}]},
    }]);
    stage.override_with("broken", rule);
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    stage
        .until("the other cluster has the change", || {
            stage.manifest("east")["spec"]["image"] == "orders:2"
        })
        .await;
    assert_eq!(stage.events("SyncWorkFailed"), 0, "the event is late");
    stage
        .until("the event", || stage.events("SyncWorkFailed") > 0)
        .await;
    stage.pause(30_000).await;
    assert_eq!(stage.manifest("west")["spec"]["image"], "orders:1");
    assert!(applied());
}

#[tokio::test(start_paused = true)]
async fn a_pin_written_together_with_the_expansion_may_come_too_late() {
    let mut unheld = 0;
    for seed in 1..=40 {
        let (stage, source, target) = suspended(seed).await;
        stage.pin(&[&source], "1");
        stage.list(&[&source, target]);
        stage
            .until("the target's Work", || !stage.work(target).is_null())
            .await;
        let state = || stage.manifest(target)["spec"]["job"]["state"].clone();
        unheld += usize::from(state() == "running");
        stage
            .until("it is held in the end", || state() == "suspended")
            .await;
    }
    assert!((1..=20).contains(&unheld), "{unheld} of 40");
}

#[tokio::test(start_paused = true)]
async fn a_marker_awaited_on_the_sources_work_lets_every_target_be_born_held() {
    for seed in 1..=40 {
        let (stage, source, target) = suspended(seed).await;
        stage
            .world
            .faults()
            .lag("override-cache", Duration::from_millis(200));
        stage.pin(&[&source], "1");
        stage.marked(&[&source], "1").await;
        stage.list(&[&source, target]);
        stage
            .until("the target's Work", || !stage.work(target).is_null())
            .await;
        assert_eq!(
            stage.manifest(target)["spec"]["job"]["state"],
            "suspended",
            "seed {seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn swapping_the_writer_in_one_change_leaves_both_unheld_for_a_moment() {
    for seed in 1..=10 {
        let (stage, ..) = suspended(seed).await;
        stage.pin(&["west"], "1");
        stage.list(&["east", "west"]);
        stage.marked(&["east", "west"], "1").await;
        stage.pin(&["east"], "2");
        let unheld = |cluster: &str| stage.manifest(cluster)["spec"]["job"]["state"] == "running";
        let mut both = 0;
        stage
            .until("the marker is on both", || {
                both += usize::from(unheld("east") && unheld("west"));
                ["east", "west"]
                    .iter()
                    .all(|cluster| stage.marker(cluster).as_deref() == Some("2"))
            })
            .await;
        assert!((5..=200).contains(&both), "seed {seed}: {both} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_of_the_template_wait_while_scheduling_is_suspended_and_other_changes_do_not() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.suspend();
    stage.canary("canary").await;
    let image = json!([{"name": "main", "image": "orders:2"}]);
    stage.edit_template(json!({"spec": {"replicas": 7, "template": {"spec": {"containers": image}}}}));
    let copy = || stage.copy("east").unwrap();
    let arrived = || copy()["spec"]["template"]["spec"]["containers"][0]["image"] == "orders:2";
    stage.until("the image arrives", arrived).await;
    stage.pause(10_000).await;
    assert_eq!(copy()["spec"]["replicas"], 2);
    let rule =
        json!([{"overriders": {"plaintext": [{"operator": "add", "path": "/spec/replicas", "value": 5}]}}]);
    stage.override_with("replicas", rule);
    stage
        .until("an override wins over the binding", || {
            copy()["spec"]["replicas"] == 5
        })
        .await;
    stage.delete(&kinds::OVERRIDES, "replicas");
    stage
        .until("and gives them back", || copy()["spec"]["replicas"] == 2)
        .await;
    stage.resume();
    stage
        .until("the scale goes on", || copy()["spec"]["replicas"] == 7)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_listed_without_replicas_gets_none() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.suspend();
    stage.canary("canary").await;
    stage.edit_binding(json!({"spec": {"clusters": [{"name": "east", "replicas": 2}, {"name": "west"}]}}));
    stage
        .until("it is in west", || stage.copy("west").is_some())
        .await;
    assert_eq!(stage.copy("west").unwrap()["spec"]["replicas"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_deployments_generation_rises_on_a_marker() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.pause(5000).await;
    let generation = || {
        stage.copy("east").unwrap()["metadata"]["generation"]
            .as_i64()
            .unwrap()
    };
    let before = generation();
    let marker =
        json!([{"overriders": {"annotationsOverrider": [{"operator": "add", "value": {MARKER: "1"}}]}}]);
    stage.override_with("zzzz-pin", marker);
    stage
        .until("it is there", || {
            stage.copy("east").unwrap()["metadata"]["annotations"][MARKER] == "1"
        })
        .await;
    assert!(generation() > before);
}

#[tokio::test(start_paused = true)]
async fn dependencies_follow_an_expansion_and_leave_with_a_shrink() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.pause(1000).await;
    let prices = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"}, "data": {"a": "1"},
    });
    stage.create(&CONFIG_MAPS, prices);
    let there = |cluster: &str| {
        stage
            .world
            .member(cluster)
            .api
            .get(&CONFIG_MAPS, SHOP, "prices")
            .is_ok()
    };
    stage
        .until("it comes even after the workload", || there("east"))
        .await;
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&["east", "west"]);
    stage
        .within(Duration::from_secs(1), "it follows", || there("west"))
        .await;
    stage.list(&["west"]);
    stage.until("it leaves", || !there("east")).await;
    assert!(there("west"));
}

#[tokio::test(start_paused = true)]
async fn clusters_that_are_required_get_works_that_no_shrink_removes() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    let other = other_than(&source);
    let required = json!([{"namespace": "shop", "name": "somebody", "clusters": [{"name": other}]}]);
    stage.edit_binding(json!({"spec": {"requiredBy": required}}));
    stage
        .until("it is there too", || stage.copy(other).is_some())
        .await;
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&[&source]);
    stage.pause(5000).await;
    assert!(stage.copy(other).is_some());
}

#[tokio::test(start_paused = true)]
async fn while_a_purged_work_is_there_no_change_of_a_pin_reaches_any_cluster() {
    let stage = held_in_west(1).await;
    stage.world.faults().partition("east");
    let task = json!([{
        "fromCluster": "east", "purgeMode": "Directly", "reason": "ApplicationFailure", "producer": "somebody",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }]);
    stage.edit_binding(json!({"spec": {"clusters": [{"name": "west"}], "gracefulEvictionTasks": task}}));
    stage.pause(1000).await;
    stage.pin(&["west"], "2");
    stage.pause(20_000).await;
    assert_eq!(stage.marker("west").as_deref(), Some("1"));
    stage.edit_binding(json!({"spec": {"gracefulEvictionTasks": null}}));
    stage.marked(&["west"], "2").await;
}

#[tokio::test(start_paused = true)]
async fn a_work_that_somebody_edits_is_put_right_only_when_its_binding_is_looked_at() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.pin(&[&source], "1");
    stage.marked(&[&source], "1").await;
    let work = stage.work(&source);
    let (namespace, name) = (
        work["metadata"]["namespace"].as_str(),
        work["metadata"]["name"].as_str().unwrap(),
    );
    let mut manifest = stage.manifest(&source);
    manifest["metadata"]["annotations"][MARKER] = json!("9");
    let patch = Patch::Merge(json!({"spec": {"workload": {"manifests": [manifest]}}}));
    let (server, writer) = (stage.world.control_plane(), WriteOptions::manager("somebody"));
    server
        .patch(&kinds::WORKS, namespace, name, None, &patch, &writer)
        .unwrap();
    stage.pause(10_000).await;
    assert_eq!(stage.marker(&source).as_deref(), Some("9"));
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.marked(&[&source], "1").await;
}
