//! Before anything is touched the target is asked to try the held copy: each answer that it can give.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::Nobody;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::faults::{Effect, Rule};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, Controller, Fleet, JOBS, PINS};

const MOVE: &str = "orders-to-west";
const POLICIES: Resource = Resource::new("admissionregistration.k8s.io", "validatingadmissionpolicies");
const BOUND: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
);

async fn moving(prepare: impl FnOnce(&Fleet)) -> (Fleet, Controller) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    prepare(&fleet);
    // A policy is in force a moment after it was made.
    tokio::time::sleep(Duration::from_secs(2)).await;
    fleet.migrate(MOVE, "west");
    let controller = fleet.controller(Arc::new(Nobody));
    (fleet, controller)
}

fn asked_of_members() -> Rule {
    Rule::new(Effect::Refuse(403)).verb("create").resource("clusters")
}

/// The west takes no job of which this holds.
fn west_refuses(fleet: &Fleet, expression: &str) {
    let west = &fleet.world.member("west").api;
    let writer = WriteOptions::manager("somebody");
    let version = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "jobs"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["flink.apache.org"], "apiVersions": ["v1beta1"], "operations": ["CREATE"],
                "resources": ["flinkdeployments"],
            }]},
            "validations": [{"expression": expression, "message": "not such a job"}],
        },
    });
    west.create(&POLICIES, None, policy, &writer).unwrap();
    let bound = json!({
        "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "jobs"},
        "spec": {"policyName": "jobs", "validationActions": ["Deny"]},
    });
    west.create(&BOUND, None, bound, &writer).unwrap();
}

fn findings(fleet: &Fleet) -> Vec<String> {
    let findings = fleet.status(MOVE)["findings"].clone();
    let all = findings.as_array().into_iter().flatten();
    all.map(|finding| finding["code"].as_str().unwrap().to_owned())
        .collect()
}

fn evidence_of_preflight(fleet: &Fleet) -> String {
    let status = fleet.status(MOVE);
    let steps = status["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "Preflight");
    step.map(|step| step["evidence"].to_string()).unwrap_or_default()
}

fn assert_untouched(fleet: &Fleet) {
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
    assert!(fleet.copy("west").is_none());
    assert!(fleet.runs_in("east"));
    let server = fleet.world.control_plane();
    let binding = server.get(&BINDINGS, Some("shop"), "orders-flinkdeployment");
    assert_eq!(binding.unwrap()["spec"]["suspension"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_would_take_the_copy_is_evidence_and_keeps_nothing_of_it() {
    let (fleet, _controller) = moving(|_| {}).await;
    fleet.phase(MOVE, Phase::Hold).await;
    let evidence = evidence_of_preflight(&fleet);
    assert!(evidence.contains("west would take the held copy"), "{evidence}");
    assert!(fleet.copy("west").is_none());
    let west = &fleet.world.member("west").api;
    let there = west.list(&JOBS, None, &ListOptions::default()).unwrap();
    assert_eq!(there.items.len(), 0);
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    assert_eq!(findings(&fleet), [""; 0]);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_would_refuse_the_copy_ends_it_with_nothing_touched() {
    let (fleet, _controller) = moving(|fleet| west_refuses(fleet, "false")).await;
    assert_eq!(fleet.ended(MOVE).await, Phase::Failed);
    assert_eq!(findings(&fleet), ["TargetRefuses"]);
    let finding = fleet.status(MOVE)["findings"][0].clone();
    assert!(
        finding["message"].as_str().unwrap().contains("not such a job"),
        "{finding}"
    );
    assert!(!finding["hint"].as_str().unwrap().is_empty());
    assert_untouched(&fleet);
}

/// What it is asked about is the copy that is held, and under the override policies of others; without what Karmada takes off.
#[tokio::test(start_paused = true)]
async fn the_copy_that_is_tried_is_the_one_that_karmada_will_write() {
    let held = "object.spec.job.state == 'suspended' && object.spec.image == 'orders:west' \
                && !has(object.metadata.finalizers)";
    let (fleet, _controller) = moving(|fleet| {
        west_refuses(fleet, held);
        let finalizers = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/kept"]}}));
        let (server, writer) = (fleet.world.control_plane(), WriteOptions::manager("somebody"));
        server
            .patch(&JOBS, Some("shop"), "orders", None, &finalizers, &writer)
            .unwrap();
        let image = json!([{"operator": "add", "path": "/spec/image", "value": "orders:west"}]);
        fleet.create(
            &PINS,
            Some("shop"),
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                "metadata": {"name": "images", "namespace": "shop"},
                "spec": {
                    "resourceSelectors": [
                        {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
                    ],
                    "overrideRules": [
                        {"targetCluster": {"clusterNames": ["west"]}, "overriders": {"plaintext": image}},
                    ],
                },
            }),
        );
    })
    .await;
    fleet.phase(MOVE, Phase::Expand).await;
    assert!(evidence_of_preflight(&fleet).contains("west would take the held copy"));
}

#[tokio::test(start_paused = true)]
async fn where_it_may_not_be_tried_that_is_noted_and_the_migration_goes_on() {
    let (fleet, _controller) = moving(|fleet| _ = fleet.world.faults().requests(asked_of_members())).await;
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    assert_eq!(findings(&fleet), ["NotRehearsed"]);
    assert!(!evidence_of_preflight(&fleet).contains("would take"));
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_it_waits_and_says_so() {
    let silent = Rule {
        effect: Effect::Refuse(503),
        ..asked_of_members()
    };
    let (fleet, _controller) = moving(|fleet| _ = fleet.world.faults().requests(silent)).await;
    let waits = |fleet: &Fleet| {
        let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("in cluster west"))
    };
    fleet.until("it waits for an answer", waits).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(waits(&fleet), "{:#}", fleet.status(MOVE));
    assert_untouched(&fleet);
    fleet.world.faults().end();
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
}
