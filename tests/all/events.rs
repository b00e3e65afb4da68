//! Events tell people what a migration does: each thing once, and never at the migration's cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{ListOptions, Resource, WriteOptions};
use serde_json::{Value, json};

use crate::support::fleet::{Fleet, MIGRATIONS};

const EVENTS: Resource = Resource::new("", "events");

/// Returns what was told of a migration: reason to type, note and count.
fn told(fleet: &Fleet, name: &str) -> Vec<(String, Value)> {
    let server = fleet.world.control_plane();
    let events = server
        .list(&EVENTS, Some("shop"), &ListOptions::default())
        .unwrap();
    let about = |event: &Value| {
        event["involvedObject"]["name"] == name && event["involvedObject"]["kind"] == "Migration"
    };
    let events = events.items.iter().filter(|event| about(event));
    events
        .map(|event| (event["reason"].as_str().unwrap().to_owned(), (**event).clone()))
        .collect()
}

fn reasons(fleet: &Fleet, name: &str) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for (reason, _) in told(fleet, name) {
        *reasons.entry(reason).or_default() += 1;
    }
    reasons
}

async fn until_told(fleet: &Fleet, name: &str, reason: &str) {
    fleet
        .until(&format!("{reason} is told"), |fleet| {
            reasons(fleet, name).contains_key(reason)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn every_phase_is_told_once_and_the_end_with_its_times() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    until_told(&fleet, "orders-to-west", "Completed").await;
    let phases = [
        "Preflight",
        "Hold",
        "Expand",
        "Capture",
        "Handoff",
        "Verify",
        "Cleanup",
        "Completed",
    ];
    let once: BTreeMap<String, usize> = phases.iter().map(|phase| ((*phase).to_owned(), 1)).collect();
    assert_eq!(reasons(&fleet, "orders-to-west"), once);
    let all = told(&fleet, "orders-to-west");
    let (_, end) = all.iter().find(|(reason, _)| reason == "Completed").unwrap();
    let note = end["message"].as_str().unwrap();
    assert!(
        note.starts_with("FlinkDeployment orders moved to west; took "),
        "{note}"
    );
    assert!(note.contains("downtime "), "{note}");
    assert_eq!(end["type"], "Normal");
    let migration = fleet
        .world
        .control_plane()
        .get(&MIGRATIONS, Some("shop"), "orders-to-west")
        .unwrap();
    assert_eq!(end["involvedObject"]["uid"], migration["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_is_told_with_its_hint() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("nowhere", "atlantis");
    assert_eq!(fleet.ended("nowhere").await, Phase::Failed);
    until_told(&fleet, "nowhere", "NoCluster").await;
    let all = told(&fleet, "nowhere");
    let (_, finding) = all.iter().find(|(reason, _)| reason == "NoCluster").unwrap();
    assert_eq!(finding["type"], "Warning");
    assert_eq!(finding["message"], "no cluster atlantis is joined (fix spec.to)");
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_asked_for_once_however_long_it_takes_and_whoever_leads() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with("gated", json!({"to": "west", "approval": {"before": ["Expand"]}}));
    until_told(&fleet, "gated", "ApprovalNeeded").await;
    controller.kill().await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.patch(&MIGRATIONS, "gated", json!({"spec": {"paused": true}}));
    until_told(&fleet, "gated", "Paused").await;
    fleet.patch(&MIGRATIONS, "gated", json!({"spec": {"paused": false}}));
    until_told(&fleet, "gated", "Resumed").await;
    let counted = |fleet: &Fleet| {
        let all = told(fleet, "gated");
        let asked: Vec<&Value> = all
            .iter()
            .filter(|(reason, _)| reason == "ApprovalNeeded")
            .map(|(_, one)| one)
            .collect();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0]["count"].as_i64().unwrap()
    };
    // Asked for anew after the pause: the same Event, counted by the one who leads now.
    fleet.until("it is counted", |fleet| counted(fleet) == 2).await;
    let all = told(&fleet, "gated");
    let (_, asked) = all.iter().find(|(reason, _)| reason == "ApprovalNeeded").unwrap();
    assert_eq!(asked["series"]["count"], 2);
    assert_eq!(
        asked["message"],
        "waits for approval of Expand for attempt 1: cutover approve shop/gated --phase Expand"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_becomes_long_is_told_with_its_end() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.world.faults().partition("west");
    fleet.migrate("orders-to-west", "west");
    until_told(&fleet, "orders-to-west", "Waiting").await;
    let all = told(&fleet, "orders-to-west");
    let (_, wait) = all.iter().find(|(reason, _)| reason == "Waiting").unwrap();
    assert_eq!(wait["type"], "Warning");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_events_costs_a_migration_nothing() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-events"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["", "events.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["events"],
            }]},
            "validations": [{"expression": "false"}],
        },
    });
    let bound = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-events"},
        "spec": {"policyName": "no-events", "validationActions": ["Deny"]},
    });
    let group = "admissionregistration.k8s.io";
    fleet.create(&Resource::new(group, "validatingadmissionpolicies"), None, policy);
    fleet.create(
        &Resource::new(group, "validatingadmissionpolicybindings"),
        None,
        bound,
    );
    let refuses = |fleet: &Fleet| {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "tried", "namespace": "shop"},
            "involvedObject": {"kind": "Namespace", "name": "shop", "namespace": "shop"},
        });
        let options = WriteOptions {
            dry_run: true,
            ..WriteOptions::manager("somebody")
        };
        let server = fleet.world.control_plane();
        server.create(&EVENTS, Some("shop"), event, &options).is_err()
    };
    fleet.until("the policy is in force", refuses).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    fleet.assert_clean_in("west");
    assert_eq!(told(&fleet, "orders-to-west"), []);
}
