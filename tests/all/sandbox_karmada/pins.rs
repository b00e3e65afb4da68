//! Override policies on their way into Works: markers, holds, and what keeps them from arriving.

use std::time::Duration;

use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{Patch, WriteOptions};
use cutover::sandbox::karmada::kinds;
use serde_json::json;

use super::stage::{MARKER, Stage, condition, held_in_west, job, one_of, suspended};

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
    let applied = || condition(&stage.bound(), "FullyApplied")["status"] == "True";
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
        stage.pause(5000).await;
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
