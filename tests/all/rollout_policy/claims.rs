//! A policy beside others that claim a workload: its change waits, the status says for whom, and nobody else waits for it.

use serde_json::Value;

use super::{ALL, Resource, Stage, policy, workload};
use crate::support::fleet;

const JOBS: Resource = fleet::JOBS;
const MIGRATIONS: Resource = fleet::MIGRATIONS;
const PLANS: Resource = Resource::new("cutover.dev", "failoverplans");
const SHIFTS: Resource = Resource::new("cutover.dev", "replicashifts");

/// The policy selects the job `orders` as well, and lets one workload roll at a time.
fn with_the_job() -> String {
    let job = "{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}";
    policy("web", "  maxParallel: 1\n").replace("select: [", &format!("select: [{job}, "))
}

/// The job `orders` runs in one of the clusters, which is returned.
async fn stage() -> (Stage, String) {
    let (places, job) = (fleet::policy().to_string(), job("orders:1"));
    let stage = Stage::start_with(
        &[
            ("policy.yaml", &with_the_job()),
            ("orders-places.yaml", &places),
            ("orders.yaml", &job),
        ],
        &["orders:1".to_owned()],
    )
    .await;
    stage.until("the job runs", || ran_in(&stage).is_some()).await;
    let here = ran_in(&stage).unwrap();
    (stage, here)
}

fn job(image: &str) -> String {
    fleet::job(image).to_string()
}

fn copy(stage: &Stage, cluster: &str) -> Value {
    let found = stage.world.member(cluster).api.get(&JOBS, Some("shop"), "orders");
    found.map(|copy| Value::clone(&copy)).unwrap_or_default()
}

fn ran_in(stage: &Stage) -> Option<String> {
    let runs = |cluster: &&str| copy(stage, cluster)["status"]["jobStatus"]["state"] == "RUNNING";
    let mut clusters = ALL.iter().filter(|cluster| runs(cluster));
    clusters.next().map(|cluster| (*cluster).to_owned())
}

/// What the policy says of a workload.
fn note(stage: &Stage, name: &str) -> String {
    let status = &stage.policy("web")["status"];
    let rows = status["workloads"].as_array().cloned().unwrap_or_default();
    let row = rows.iter().find(|row| row["name"] == name);
    row.and_then(|row| row["note"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn intent(kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: cutover.dev/v1alpha1
kind: {kind}
metadata: {{name: orders-{}, namespace: shop}}
spec:
  workload: {{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}}
{spec}",
        kind.to_lowercase()
    )
}

async fn says(stage: &Stage, kind: &str, field: &str, value: &str) {
    let resource = match kind {
        "Migration" => MIGRATIONS,
        "FailoverPlan" => PLANS,
        _ => SHIFTS,
    };
    let name = format!("orders-{}", kind.to_lowercase());
    stage
        .until(&format!("{kind}: {field} {value}"), || {
            let found = stage.world.control_plane().get(&resource, Some("shop"), &name);
            found.is_ok_and(|object| object.pointer(field).is_some_and(|now| now == value))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_waits_for_a_migration_which_is_named_and_takes_nobody_elses_turn() {
    let (stage, here) = stage().await;
    let there = *ALL.iter().find(|cluster| **cluster != here).unwrap();
    let moves = |more: &str| {
        let spec = format!(
            "  to: {there}\n  verify: {{healthyFor: 200ms, timeout: 20s}}\n  approval: {{before: [Handoff]}}\n{more}"
        );
        intent("Migration", &spec)
    };
    stage.push(&[("move.yaml", &moves(""))]);
    says(&stage, "Migration", "/status/waitingFor/approval", "Handoff").await;
    stage.push(&[
        ("orders.yaml", &job("orders:2")),
        ("web.yaml", &workload("web", "web:2")),
    ]);
    stage
        .until("the change of the job waits for the migration", || {
            note(&stage, "orders") == "Migration shop/orders-migration holds the workload"
        })
        .await;
    // The one turn that there is goes to whom it is of use.
    stage.everywhere("web", "web:2").await;
    stage.goes_in_order("web:2", ["east", "north", "west"]).await;
    stage.push(&[(
        "move.yaml",
        &moves("  approvals: [{phase: Handoff, attempt: 1}]\n"),
    )]);
    says(&stage, "Migration", "/status/phase", "Completed").await;
    stage
        .until("the change has come where it runs", || {
            let copy = copy(&stage, there);
            copy["spec"]["image"] == "orders:2" && ran_in(&stage).as_deref() == Some(there)
        })
        .await;
    stage
        .until("nothing waits any more", || {
            note(&stage, "orders").is_empty() && stage.policy("web")["status"]["rolling"] == 0
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_rolls_out_under_a_failover_plan_which_goes_on_guarding() {
    let (stage, here) = stage().await;
    stage.push(&[("plan.yaml", &intent("FailoverPlan", "  guard: true\n"))]);
    says(&stage, "FailoverPlan", "/status/phase", "Guarding").await;
    stage.push(&[("orders.yaml", &job("orders:2"))]);
    stage
        .until("the change has come", || {
            copy(&stage, &here)["spec"]["image"] == "orders:2" && note(&stage, "orders").is_empty()
        })
        .await;
    says(&stage, "FailoverPlan", "/status/phase", "Guarding").await;
    stage.push(&[("web.yaml", &workload("web", "web:2"))]);
    stage.everywhere("web", "web:2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_waits_for_a_shift_of_replicas() {
    let two = |image: &str| workload("web", image).replace("replicas: 1", "replicas: 2");
    let stage = Stage::start(&[("policy.yaml", &policy("web", "")), ("web.yaml", &two("web:1"))]).await;
    let shift = |more: &str| {
        intent(
            "ReplicaShift",
            &format!("  from: {{cluster: east}}\n  to: west\n  percentages: [50, 100]\n  pause: {{approval: [50]}}\n{more}"),
        )
        .replace(
            "{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}",
            "{apiVersion: apps/v1, kind: Deployment, name: web}",
        )
    };
    stage.push(&[("shift.yaml", &shift(""))]);
    says(&stage, "ReplicaShift", "/status/waitingFor/code", "Approval").await;
    stage.push(&[("web.yaml", &two("web:2"))]);
    stage
        .until("it waits for the shift", || {
            note(&stage, "web") == "ReplicaShift shop/orders-replicashift holds the workload"
        })
        .await;
    assert!(ALL.iter().all(|cluster| stage.image(cluster, "web") == "web:1"));
    stage.push(&[("shift.yaml", &shift("  abort: true\n"))]);
    stage.rests("web", "web:2").await;
    stage.goes_in_order("web:2", ["east", "north", "west"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_waits_for_what_rolls() {
    let (stage, here) = stage().await;
    let there = *ALL.iter().find(|cluster| **cluster != here).unwrap();
    let gated = with_the_job() + "  approval: {beforeWaves: [1]}\n";
    stage.push(&[("policy.yaml", &gated), ("orders.yaml", &job("orders:2"))]);
    stage
        .until("it waits for approval", || {
            stage.rollout("orders")["status"]["waitingFor"]["code"] == "Approval"
        })
        .await;
    stage.push(&[(
        "move.yaml",
        &intent(
            "Migration",
            &format!("  to: {there}\n  verify: {{healthyFor: 200ms, timeout: 20s}}\n"),
        ),
    )]);
    let roll = stage.rollout("orders")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    stage
        .until("the migration says for whom it waits", || {
            let found = stage
                .world
                .control_plane()
                .get(&MIGRATIONS, Some("shop"), "orders-migration");
            let reason = found.map(|one| one["status"]["waitingFor"]["reason"].to_string());
            reason.is_ok_and(|reason| reason.contains(&format!("Rollout shop/{roll}")))
        })
        .await;
    stage.push(&[("policy.yaml", &with_the_job())]);
    says(&stage, "Migration", "/status/phase", "Completed").await;
    stage
        .until("it runs there with the change", || {
            copy(&stage, there)["spec"]["image"] == "orders:2" && ran_in(&stage).as_deref() == Some(there)
        })
        .await;
}
