//! A job under a plan, and what happens to it.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::FailoverPhase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Resource, WriteOptions};
use cutover::sandbox::member::flink::snapshots;
use serde_json::{Value, json};

use crate::support::fleet::{Fleet, JOBS, POLICIES};
use crate::support::wait::wait_for;

pub const PLANS: Resource = Resource::new("cutover.dev", "failoverplans");
pub const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
pub const PLAN: &str = "orders";

/// A sandbox in which taints evict, with a controller at work.
pub async fn fleet() -> Fleet {
    let fleet = unled().await;
    fleet.lead(Arc::new(NoFailpoints));
    fleet
}

pub async fn unled() -> Fleet {
    let mut options = WorldOptions::default();
    options.features.no_execute_eviction = true;
    Fleet::start(options).await
}

/// Says how Karmada purges the old copy.
pub fn purge_mode(fleet: &Fleet, mode: &str) {
    let mut application = json!({"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": mode});
    // Karmada knows it for applications alone.
    let mut cluster = json!({"purgeMode": if mode == "Never" { "Gracefully" } else { mode }});
    if mode == "Gracefully" {
        application["gracePeriodSeconds"] = 600.into();
        cluster["gracePeriodSeconds"] = 600.into();
    }
    fleet.patch(
        &POLICIES,
        "orders",
        json!({"spec": {"failover": {"application": application, "cluster": cluster}}}),
    );
}

pub fn plan(fleet: &Fleet, more: Value) {
    let mut spec = json!({
        "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    fleet.apply(
        &PLANS,
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "FailoverPlan",
            "metadata": {"name": PLAN, "namespace": "shop"}, "spec": spec,
        }),
    );
}

pub fn status(fleet: &Fleet) -> Value {
    let plan = fleet.world.control_plane().get(&PLANS, Some("shop"), PLAN);
    plan.map(|plan| plan["status"].clone()).unwrap_or_default()
}

pub fn phase_is(fleet: &Fleet, phase: FailoverPhase) -> bool {
    status(fleet)["phase"] == phase.name()
}

/// Waits until the plan guards a workload that runs in this cluster.
pub async fn guarded_in(fleet: &Fleet, cluster: &str) {
    until(fleet, &format!("guarded in {cluster}"), |fleet| {
        let status = status(fleet);
        phase_is(fleet, FailoverPhase::Guarding) && status["writer"] == cluster && fleet.runs_in(cluster)
    })
    .await;
}

pub async fn until(fleet: &Fleet, what: &str, holds: impl Fn(&Fleet) -> bool) {
    let story = || {
        let binding = &fleet.binding()["spec"];
        format!(
            "{:#}\nbinding {binding:#}\n{}",
            status(fleet),
            fleet.world.ledger()
        )
    };
    let wait = wait_for(what).within(Duration::from_mins(20));
    wait.every(Duration::from_millis(50))
        .until_or(|| holds(fleet), story)
        .await;
}

/// The job's REST API doesn't answer: Karmada takes it for unhealthy.
pub fn unwell(fleet: &Fleet, cluster: &str) {
    answers(fleet, cluster, false);
}

pub fn well(fleet: &Fleet, cluster: &str) {
    answers(fleet, cluster, true);
}

fn answers(fleet: &Fleet, cluster: &str, reachable: bool) {
    let key = ("shop".to_owned(), "orders".to_owned());
    let member = fleet.world.member(cluster);
    member.simulators(|simulators| simulators.jobs().set_reachable(&key, reachable));
}

/// A taint that nothing tolerates.
pub fn taint(fleet: &Fleet, cluster: &str) {
    cluster_patch(
        fleet,
        cluster,
        json!({"spec": {"taints": [{"key": "example.org/broken", "effect": "NoExecute"}]}}),
    );
}

pub fn untaint(fleet: &Fleet, cluster: &str) {
    cluster_patch(fleet, cluster, json!({"spec": {"taints": null}}));
}

fn cluster_patch(fleet: &Fleet, cluster: &str, patch: Value) {
    let writer = WriteOptions::manager("somebody");
    let patch = cutover::sandbox::api::Patch::Merge(patch);
    let server = fleet.world.control_plane();
    server
        .patch(&CLUSTERS, None, cluster, None, &patch, &writer)
        .unwrap();
}

/// Cuts a cluster off and has its workloads evicted; what runs there runs on.
pub fn lose(fleet: &Fleet, cluster: &str) {
    fleet.world.faults().partition(cluster);
    taint(fleet, cluster);
}

/// The power goes: nothing runs there any more, and nobody there knows anything of it.
pub fn power_off(fleet: &Fleet, cluster: &str) {
    fleet.world.member(cluster).simulators(|simulators| {
        simulators.crash();
        simulators.jobs().vanish();
    });
}

pub fn power_on(fleet: &Fleet, cluster: &str) {
    fleet
        .world
        .member(cluster)
        .simulators(cutover::sandbox::member::Simulators::restart);
}

/// The job is stopped with a savepoint and started again, by its template: returns the handle.
pub async fn savepoint(fleet: &Fleet, cluster: &str) -> String {
    let path = |fleet: &Fleet| {
        let copy = fleet.copy(cluster)?;
        let last = copy.pointer("/status/jobStatus/savepointInfo/lastSavepoint/location")?;
        last.as_str().map(str::to_owned)
    };
    let before = path(fleet);
    fleet.patch(&JOBS, "orders", json!({"spec": {"job": {"state": "suspended"}}}));
    until(fleet, "it is stopped with a savepoint", |fleet| {
        path(fleet) != before && !fleet.runs_in(cluster)
    })
    .await;
    fleet.patch(&JOBS, "orders", json!({"spec": {"job": {"state": "running"}}}));
    until(fleet, "it runs again", |fleet| fleet.is_settled_in(cluster)).await;
    path(fleet).unwrap()
}

pub const SNAPSHOTS: Resource = Resource::new("flink.apache.org", "flinkstatesnapshots");

/// A savepoint is taken of the job while it runs on: returns the handle.
pub async fn snapshot(fleet: &Fleet, cluster: &str) -> String {
    let member = fleet.world.member(cluster);
    member.api.install(&snapshots::definition()).unwrap();
    member.simulators(cutover::sandbox::member::Simulators::take_snapshots);
    // Times of creation are in seconds: it is seen to be younger than the copy.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": "orders-by-hand", "namespace": "shop"},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "savepoint": {"disposeOnDelete": false}},
    });
    let writer = WriteOptions::manager("somebody");
    member
        .api
        .create(&SNAPSHOTS, Some("shop"), asked, &writer)
        .unwrap();
    let taken = |fleet: &Fleet| {
        let member = fleet.world.member(cluster);
        let snapshot = member.api.get(&SNAPSHOTS, Some("shop"), "orders-by-hand").ok()?;
        Some(snapshot["status"]["path"].as_str()?.to_owned())
    };
    until(fleet, "a savepoint is taken", |fleet| taken(fleet).is_some()).await;
    taken(fleet).unwrap()
}

/// Waits until the plan has noted this handle, and Git has it.
pub async fn known(fleet: &Fleet, handle: &str) {
    until(fleet, "the handle is noted", |fleet| {
        let known = &status(fleet)["lastKnown"];
        known["values"]["savepoint"] == handle && known["recorded"] == true
    })
    .await;
}

/// What the copy there was started from.
pub fn started_from(fleet: &Fleet, cluster: &str) -> String {
    let copy = fleet.copy(cluster).unwrap();
    copy["status"]["jobStatus"]["upgradeSavepointPath"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

pub fn last_move(fleet: &Fleet) -> Value {
    let history = status(fleet)["history"].as_array().cloned().unwrap_or_default();
    history.last().cloned().unwrap_or_default()
}

/// Ends the plan and sees that nothing of it is left.
pub async fn tidy(fleet: &Fleet, cluster: &str) {
    let server = fleet.world.control_plane();
    server
        .delete(&PLANS, Some("shop"), PLAN, &DeleteOptions::default())
        .unwrap();
    until(fleet, "the plan is gone", |fleet| {
        fleet
            .world
            .control_plane()
            .get(&PLANS, Some("shop"), PLAN)
            .is_err()
    })
    .await;
    until(fleet, "nothing is left", |fleet| {
        fleet.runs_in(cluster) && fleet.listed() == [cluster]
    })
    .await;
    assert_eq!(fleet.count(&crate::support::fleet::PINS), 0, "a pin is left");
    assert_eq!(fleet.count(&crate::support::fleet::CLAIMS), 0, "a claim is left");
    assert!(fleet.binding()["spec"]["suspension"]["scheduling"].is_null());
}

pub fn one_writer(fleet: &Fleet) {
    fleet.assert_one_writer();
}

pub fn tasks(fleet: &Fleet) -> Vec<Value> {
    let tasks = &fleet.binding()["spec"]["gracefulEvictionTasks"];
    tasks.as_array().cloned().unwrap_or_default()
}
