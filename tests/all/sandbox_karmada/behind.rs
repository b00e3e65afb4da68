//! Who acts on what was, or takes what another one has: caches that are behind, operators that are, policies that preempt.

use std::time::Duration;

use cutover::sandbox::WorldOptions;
use cutover::sandbox::karmada::{Features, kinds};
use serde_json::{Value, json};

use super::stage::{ANY, Stage, job, one_of, seeded, suspended};

/// A target that is listed while the override cache is behind the binding is born running, and held only then.
#[tokio::test(start_paused = true)]
async fn an_override_cache_that_is_behind_the_binding_lets_a_target_begin_unheld() {
    let (stage, source, target) = suspended(1).await;
    let lag = Duration::from_secs(2);
    stage.world.faults().lag("override-cache", lag);
    stage.pin(&[&source], "1");
    stage.list(&[&source, target]);
    stage.until("it is there", || stage.copy(target).is_some()).await;
    let born = stage.copy(target).unwrap();
    assert_eq!(born["spec"]["job"]["state"], "running");
    assert_eq!(stage.marker(target), None);
    stage.marked(&[&source, target], "1").await;
    stage
        .until("it is held", || {
            stage.copy(target).unwrap()["spec"]["job"]["state"] == "suspended"
        })
        .await;
}

/// An operator that is behind takes no notice of a hold: what its status says is of an older generation.
#[tokio::test(start_paused = true)]
async fn an_operator_that_is_behind_lets_a_job_run_whose_spec_is_held_already() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    let state = |stage: &Stage| stage.copy(&source).unwrap()["status"]["jobStatus"]["state"].clone();
    stage.until("it runs", || state(&stage) == "RUNNING").await;
    stage.pause(5000).await;
    let lag = Duration::from_secs(10);
    stage.world.faults().lag(&format!("operators/{source}"), lag);
    stage.pin(&["nobody"], "1");
    stage
        .until("the hold is in the spec", || {
            stage.copy(&source).unwrap()["spec"]["job"]["state"] == "suspended"
        })
        .await;
    stage.pause(8000).await;
    let copy = stage.copy(&source).unwrap();
    assert_eq!(state(&stage), "RUNNING");
    let observed = copy["status"]["observedGeneration"].as_i64();
    assert!(observed < copy["metadata"]["generation"].as_i64(), "{copy:#}");
    stage
        .until("it has seen it", || state(&stage) == "FINISHED")
        .await;
    let copy = stage.copy(&source).unwrap();
    assert_eq!(
        copy["status"]["observedGeneration"],
        copy["metadata"]["generation"]
    );
}

fn preempting(seed: u64) -> WorldOptions {
    WorldOptions {
        features: Features {
            policy_preemption: true,
            ..Features::default()
        },
        ..seeded(seed)
    }
}

fn other_policy(stage: &Stage, priority: i64, preemption: &str) -> Value {
    let mut other = stage.get(&kinds::POLICIES, "orders");
    other["metadata"] = json!({"name": "first", "namespace": "shop"});
    other["spec"]["priority"] = json!(priority);
    other["spec"]["preemption"] = json!(preemption);
    other["spec"]["preserveResourcesOnDeletion"] = json!(true);
    other["spec"]["schedulerName"] = json!("another");
    other
}

fn policy_of(stage: &Stage) -> Value {
    let template = stage.get(&stage.resource, "orders");
    template["metadata"]["annotations"]["propagationpolicy.karmada.io/name"].clone()
}

/// Whose policy it is changes, and with it what the policy says of the binding; a suspension of scheduling is nobody's but
/// ours.
#[tokio::test(start_paused = true)]
async fn a_policy_that_preempts_rewrites_the_binding_and_leaves_the_suspension() {
    let stage = Stage::job(preempting(1), one_of(ANY)).await;
    stage.suspend();
    stage.pause(5000).await;
    let before = stage.listed();
    stage.create(&kinds::POLICIES, other_policy(&stage, 10, "Always"));
    stage
        .until("it is the other one's", || policy_of(&stage) == "first")
        .await;
    stage
        .until("the binding says what the other one says", || {
            stage.bound()["spec"]["preserveResourcesOnDeletion"] == true
        })
        .await;
    let bound = stage.bound();
    assert_eq!(bound["spec"]["schedulerName"], "another");
    assert_eq!(bound["spec"]["suspension"]["scheduling"], true);
    assert_eq!(stage.listed(), before);
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_higher_priority_takes_nothing_unless_it_preempts_and_may() {
    for (options, priority, preemption) in [
        (preempting(1), 10, "Never"),
        (preempting(1), 0, "Always"),
        (seeded(1), 10, "Always"),
    ] {
        let stage = Stage::job(options, one_of(ANY)).await;
        stage.pause(5000).await;
        stage.create(&kinds::POLICIES, other_policy(&stage, priority, preemption));
        stage.pause(30_000).await;
        assert_eq!(policy_of(&stage), "orders", "{priority} {preemption}");
    }
}
