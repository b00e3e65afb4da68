//! Canaries of others are waited on: Argo Rollouts' by its profile, Flagger's by a check of another object.

use std::collections::BTreeSet;

use cutover::api::Phase;
use cutover::name::Gvk;
use cutover::profile::{self, Profile};
use cutover::sandbox::api::{Patch, Subresource, WriteOptions};
use cutover::schema::violations;
use serde_json::{Value, json};

use super::crds::{self, CANARIES};
use super::{MOVE, Stage, image_in, roll_web, rollout, web};
use crate::support::fleet::{Fleet, POLICIES};

const PROMOTED: &str = "has(object.status) && object.status.phase in ['Initialized', 'Succeeded']";

/// A Rollout of Argo Rollouts as its controller leaves it.
fn argo_rollout(status: Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
        "metadata": {"namespace": "shop", "name": "web", "generation": 7},
        "spec": {
            "replicas": 4, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"canary": {"steps": [{"setWeight": 25}, {"setWeight": 50}]}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
        "status": status,
    })
}

fn healthy() -> Value {
    json!({
        "HPAReplicas": 4, "availableReplicas": 4, "currentPodHash": "7d9c", "currentStepIndex": 2,
        "observedGeneration": "7", "phase": "Healthy", "readyReplicas": 4, "replicas": 4, "stableRS": "7d9c",
        "updatedReplicas": 4,
    })
}

fn with(more: Value) -> Value {
    let mut status = healthy();
    let fields = status.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    argo_rollout(status)
}

fn in_the_middle() -> Value {
    with(json!({
        "phase": "Paused", "message": "CanaryPauseStep", "currentPodHash": "55f4", "currentStepIndex": 1, "updatedReplicas": 1,
        "controllerPause": true, "pauseConditions": [{"reason": "CanaryPauseStep", "startTime": "2026-01-01T00:00:00Z"}],
    }))
}

fn argo_profile() -> Profile {
    let kind = Gvk::new("argoproj.io/v1alpha1", "Rollout");
    let found = profile::find(&[], None, &kind).unwrap().unwrap();
    Profile::compile("argo-rollout", &found.spec).unwrap()
}

fn schema_of(definition: &Value) -> Value {
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

#[test]
fn what_is_said_of_a_rollout_of_argo_and_of_a_canary_fits_their_definitions() {
    let rollout = schema_of(&crds::rollout());
    let canary = schema_of(&crds::canary());
    for (object, schema) in [
        (with(json!({})), &rollout),
        (in_the_middle(), &rollout),
        (with(json!({"abort": true, "phase": "Degraded"})), &rollout),
        (canary_of("Succeeded"), &canary),
    ] {
        let found = violations(&object, schema);
        assert!(found.is_empty(), "{found:?}");
    }
    // The definitions can tell: this number is text.
    assert!(!violations(&with(json!({"observedGeneration": 7})), &rollout).is_empty());
}

#[test]
fn every_field_that_the_profile_goes_by_is_one_of_the_definition() {
    let kind = Gvk::new("argoproj.io/v1alpha1", "Rollout");
    let spec = profile::find(&[], None, &kind).unwrap().unwrap().spec;
    let expressions = [
        Some(&spec.observed_when),
        Some(&spec.suspended_when),
        Some(&spec.healthy_when),
        spec.failed_when.as_ref(),
        spec.ran_when.as_ref(),
    ];
    let schema = schema_of(&crds::rollout());
    let known = schema["properties"]["status"]["properties"].as_object().unwrap();
    let mut used = BTreeSet::new();
    for expression in expressions.into_iter().flatten() {
        let after = expression.split("object.status.").skip(1);
        used.extend(after.map(|rest| {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(rest.len());
            &rest[..end]
        }));
    }
    assert!(used.len() > 5, "{used:?}");
    let unknown: Vec<_> = used.iter().filter(|field| !known.contains_key(**field)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_rollout_of_argo_is_healthy_when_its_last_step_is_over_and_its_controller_has_seen_the_spec() {
    let profile = argo_profile();
    let is = |object: &Value| profile.healthy(object).unwrap();
    assert!(is(&with(json!({}))));
    assert!(profile.observed(&with(json!({}))).unwrap());
    for object in [
        in_the_middle(),
        // A change that its controller has not seen yet leaves the old phase.
        with(json!({"observedGeneration": "6"})),
        with(json!({"phase": "Progressing"})),
        // A pause that a person has just lifted.
        with(json!({"controllerPause": true})),
        with(json!({"abort": true})),
        with(json!({"availableReplicas": 3})),
        with(json!({"updatedReplicas": null})),
        argo_rollout(json!({})),
    ] {
        assert!(!is(&object), "{object:#}");
    }
}

#[test]
fn a_rollout_of_argo_has_failed_when_its_controller_gave_up_on_this_spec() {
    let profile = argo_profile();
    let has = |object: &Value| profile.failed(object).unwrap();
    assert!(has(&with(json!({"phase": "Degraded"}))));
    assert!(has(&with(json!({"abort": true, "phase": "Degraded"}))));
    assert!(!has(&with(
        json!({"phase": "Degraded", "observedGeneration": "6"})
    )));
    assert!(!has(&in_the_middle()));
    assert!(!has(&with(json!({}))));
}

#[test]
fn a_held_rollout_of_argo_runs_nothing() {
    let profile = argo_profile();
    let mut held = with(json!({"replicas": null, "availableReplicas": null, "updatedReplicas": null}));
    held["spec"]["replicas"] = json!(0);
    assert!(profile.carries_hold(&held, &"west".into()));
    assert!(profile.suspended(&held).unwrap());
    assert!(!profile.ran(&held).unwrap());
    assert!(
        profile
            .ran(&with(json!({"observedGeneration": "6", "replicas": null})))
            .unwrap()
    );
    assert_eq!(profile.pod_selector(&held).unwrap().as_deref(), Some("app=web"));
}

#[test]
fn a_rollout_of_argo_that_borrows_its_pods_is_not_moved() {
    let profile = argo_profile();
    let unmet = |object: &Value| profile.unmet(object).unwrap().len();
    assert_eq!(unmet(&with(json!({}))), 0);
    let mut borrows = with(json!({}));
    borrows["spec"]["workloadRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    borrows["spec"].as_object_mut().unwrap().remove("template");
    assert_eq!(unmet(&borrows), 1);
    let mut uncounted = with(json!({}));
    uncounted["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(unmet(&uncounted), 1);
}

/// A Canary of Flagger as it stands in a member.
fn canary_of(phase: &str) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "analysis": {"interval": "1m", "threshold": 5, "maxWeight": 50, "stepWeight": 10},
        },
        "status": {"phase": phase, "failedChecks": 0, "canaryWeight": 0, "iterations": 0},
    })
}

fn say(fleet: &Fleet, cluster: &str, phase: &str) {
    let server = &fleet.world.member(cluster).api;
    let writer = WriteOptions {
        force: true,
        ..WriteOptions::manager("flagger")
    };
    let write = |subresource, object| {
        server
            .patch(
                &CANARIES,
                Some("shop"),
                "web",
                subresource,
                &Patch::Apply(object),
                &writer,
            )
            .unwrap();
    };
    let mut object = canary_of(phase);
    let status = object.as_object_mut().unwrap().remove("status").unwrap();
    write(None, object.clone());
    object.as_object_mut().unwrap().remove("spec");
    object["status"] = status;
    write(Some(Subresource::Status), object);
}

/// The members have Flagger, and the control plane knows its kind.
fn install(fleet: &Fleet) {
    fleet.world.control_plane().install(&crds::canary()).unwrap();
    for cluster in ["east", "west"] {
        fleet.world.member(cluster).api.install(&crds::canary()).unwrap();
    }
}

async fn stage() -> Stage {
    let stage = Stage::unmanaged().await;
    install(&stage.fleet);
    stage
}

fn of_canary() -> Value {
    json!([{"of": {"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web"}, "cel": PROMOTED}])
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_on_to_the_next_cluster_when_flagger_has_promoted_in_this_one() {
    let stage = stage().await;
    let fleet = &stage.fleet;
    fleet.apply(
        &POLICIES,
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
                "placement": {"clusterAffinity": {"clusterNames": ["east", "west"]}},
            },
        }),
    );
    let plain = |image: &str| {
        let mut web = web(image);
        web["metadata"].as_object_mut().unwrap().remove("annotations");
        web
    };
    fleet.apply(&super::DEPLOYMENTS, plain("web:1"));
    fleet.want(plain("web:1"));
    fleet
        .until("web runs in both", |fleet| {
            ["east", "west"]
                .iter()
                .all(|cluster| image_in(fleet, cluster) == "web:1")
        })
        .await;
    say(fleet, "east", "Initialized");
    say(fleet, "west", "Initialized");
    roll_web(
        fleet,
        json!({"timeout": "60s", "healthyFor": "5s", "checks": of_canary()}),
    );
    fleet
        .until("it rests", |fleet| rollout(fleet)["phase"] == "Completed")
        .await;
    fleet.want(plain("web:2"));
    fleet
        .until("east has it", |fleet| image_in(fleet, "east") == "web:2")
        .await;
    say(fleet, "east", "Progressing");
    fleet
        .until("it waits for the canary in east", |fleet| {
            let reason = rollout(fleet)["waitingFor"]["reason"].clone();
            reason
                .as_str()
                .is_some_and(|reason| reason.contains("to hold of Canary web"))
        })
        .await;
    assert_eq!(image_in(fleet, "west"), "web:1");
    say(fleet, "east", "Succeeded");
    fleet
        .until("west has it", |fleet| image_in(fleet, "west") == "web:2")
        .await;
    fleet
        .until("it rests", |fleet| rollout(fleet)["phase"] == "Completed")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_migration_is_not_committed_before_the_canary_in_the_target_is_over() {
    let stage = stage().await;
    let fleet = &stage.fleet;
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "5s", "timeout": "60s", "checks": of_canary()}}),
    );
    let waits = |why: &'static str| {
        move |fleet: &Fleet| {
            let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
            reason.as_str().is_some_and(|reason| reason.ends_with(why))
        }
    };
    fleet.until("it is not there", waits("it is not there")).await;
    say(fleet, "west", "Progressing");
    fleet.until("it waits", waits("to hold of Canary web")).await;
    assert_eq!(fleet.status(MOVE)["phase"], "Verify");
    say(fleet, "west", "Succeeded");
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_fails_brings_the_workload_back() {
    let stage = stage().await;
    let fleet = &stage.fleet;
    say(fleet, "west", "Failed");
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "5s", "timeout": "20s", "checks": of_canary()}}),
    );
    assert_eq!(fleet.ended(MOVE).await, Phase::RolledBack);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_check_of_both_a_number_and_an_object_is_refused() {
    let stage = stage().await;
    let mut checks = of_canary();
    checks[0]["prometheus"] = json!("up");
    stage
        .fleet
        .migrate_with(MOVE, json!({"to": "west", "verify": {"checks": checks}}));
    assert_eq!(stage.fleet.ended(MOVE).await, Phase::Failed);
    let findings = stage.fleet.status(MOVE)["findings"].clone();
    assert!(
        findings
            .as_array()
            .unwrap()
            .iter()
            .any(|finding| finding["code"] == "BadCheck"),
        "{findings:#}"
    );
}
