use std::sync::Arc;

use serde_json::json;

use super::*;

fn judged(object: Value) -> String {
    told(health(&object, || None))
}

fn told(health: Health) -> String {
    match health {
        Healthy => "healthy".to_owned(),
        Progressing(why) => why,
        Failed(why) => format!("failed: {why}"),
    }
}

fn of(api_version: &str, kind: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2}});
    for (field, value) in more.as_object().unwrap() {
        match field.as_str() {
            "metadata" => object["metadata"]
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone()),
            _ => object[field] = value.clone(),
        }
    }
    object
}

fn workload(kind: &str, spec: Value, status: Value) -> String {
    judged(of("apps/v1", kind, json!({"spec": spec, "status": status})))
}

#[test]
fn a_deployment_is_healthy_when_its_rollout_is_over() {
    let at = |status: Value| workload("Deployment", json!({"replicas": 3}), status);
    let rolling = |updated: i64, available: i64, all: i64| {
        at(json!({
            "observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "availableReplicas": available,
        }))
    };
    assert_eq!(at(json!({})), "its controller has not reported on it yet");
    assert_eq!(
        at(json!({"observedGeneration": 1, "updatedReplicas": 3, "availableReplicas": 3})),
        "its controller has seen generation 1 of 2"
    );
    assert_eq!(rolling(1, 3, 4), "1 of 3 replicas updated");
    assert_eq!(rolling(3, 2, 3), "2 of 3 replicas available");
    assert_eq!(rolling(3, 3, 4), "1 old replicas are still there");
    assert_eq!(rolling(3, 3, 3), "healthy");
    let deadline = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
    assert_eq!(
        at(json!({"observedGeneration": 2, "conditions": [deadline]})),
        "failed: its rollout has exceeded its deadline"
    );
    assert_eq!(
        workload(
            "Deployment",
            json!({"replicas": 0}),
            json!({"observedGeneration": 2})
        ),
        "healthy"
    );
}

#[test]
fn a_stateful_set_may_hold_replicas_back() {
    let set = |spec: Value, updated: i64, ready: i64| {
        let status = json!({"observedGeneration": 2, "updatedReplicas": updated, "readyReplicas": ready});
        workload("StatefulSet", spec, status)
    };
    assert_eq!(set(json!({"replicas": 3}), 2, 3), "2 of 3 replicas updated");
    assert_eq!(set(json!({"replicas": 3}), 3, 1), "1 of 3 replicas ready");
    let partition = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}});
    assert_eq!(set(partition.clone(), 0, 3), "0 of 1 replicas updated");
    assert_eq!(set(partition, 1, 3), "healthy");
    let by_hand = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    assert_eq!(set(by_hand, 0, 3), "healthy");
}

#[test]
fn a_daemon_set_counts_nodes() {
    let set = |updated: i64, available: i64| {
        let status = json!({
            "observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated,
            "numberAvailable": available,
        });
        workload("DaemonSet", json!({}), status)
    };
    assert_eq!(set(1, 2), "1 of 2 replicas updated");
    assert_eq!(set(2, 1), "1 of 2 replicas available");
    assert_eq!(set(2, 2), "healthy");
}

#[test]
fn a_job_is_healthy_when_it_is_done() {
    let with = |conditions: Value| {
        judged(of(
            "batch/v1",
            "Job",
            json!({"spec": {"completions": 2}, "status": {"succeeded": 1, "conditions": conditions}}),
        ))
    };
    assert_eq!(with(json!([])), "1 of 2 completed");
    assert_eq!(with(json!([{"type": "Complete", "status": "True"}])), "healthy");
    assert_eq!(
        with(json!([{"type": "Failed", "status": "True"}])),
        "failed: it has failed"
    );
    let suspended = of("batch/v1", "Job", json!({"spec": {"suspend": true}}));
    assert_eq!(judged(suspended), "healthy");
}

#[test]
fn definitions_and_namespaces_are_served_before_they_are_healthy() {
    let crd = |conditions: Value| {
        let status = json!({"status": {"conditions": conditions}});
        judged(of("apiextensions.k8s.io/v1", "CustomResourceDefinition", status))
    };
    assert_eq!(crd(json!([])), "it is not Established yet");
    assert_eq!(
        crd(json!([{"type": "NamesAccepted", "status": "False", "reason": "PluralConflict"}])),
        "failed: its names are not accepted (PluralConflict)"
    );
    assert_eq!(crd(json!([{"type": "Established", "status": "True"}])), "healthy");
    let namespace = |phase: &str| judged(of("v1", "Namespace", json!({"status": {"phase": phase}})));
    assert_eq!(namespace("Active"), "healthy");
    assert_eq!(namespace("Terminating"), "its phase is Terminating");
}

#[test]
fn other_kinds_are_judged_by_the_conditions_that_they_have() {
    let with = |status: Value| judged(of("example.dev/v1", "Widget", json!({"status": status})));
    assert_eq!(with(json!({})), "no propagation policy has claimed it");
    let behind = json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(with(behind), "its controller has seen generation 1 of 2");
    let ready = |status: &str| {
        with(
            json!({"conditions": [{"type": "Ready", "status": status, "reason": "Starting", "message": "hunter2"}]}),
        )
    };
    assert_eq!(ready("True"), "healthy");
    assert_eq!(ready("False"), "Ready is False (Starting)");
    assert_eq!(ready("Unknown"), "Ready is Unknown");
    assert_eq!(
        with(json!({"conditions": [{"type": "Stalled", "status": "True"}]})),
        "failed: it is stalled"
    );
    assert_eq!(judged(of("v1", "ConfigMap", json!({}))), "healthy");
    assert_eq!(
        judged(of("networking.k8s.io/v1", "Ingress", json!({}))),
        "healthy"
    );
    let policy = json!({"metadata": {"labels": {(POLICY_ID): "its own"}}});
    assert_eq!(
        judged(of("policy.karmada.io/v1alpha1", "PropagationPolicy", policy)),
        "healthy"
    );
}

#[test]
fn what_is_being_deleted_is_not_healthy_and_what_asks_not_to_be_judged_is() {
    let deleted = of(
        "v1",
        "ConfigMap",
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    assert_eq!(judged(deleted), "it is being deleted");
    let spared = of(
        "apps/v1",
        "Deployment",
        json!({"metadata": {"annotations": {"cutover.dev/wait": "false"}}}),
    );
    assert_eq!(judged(spared), "healthy");
}

#[test]
fn a_template_of_a_kind_of_its_own_is_judged_by_its_binding() {
    let template = of(
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
        json!({"metadata": {"labels": {(POLICY_ID): "x"}}, "status": {"observedGeneration": 1}}),
    );
    let with = |binding: Option<Value>| told(health(&template, || binding.map(Arc::new)));
    assert_eq!(with(None), "Karmada has made no binding for it yet");
    let binding = |applied: &str, health: Value| {
        json!({
            "spec": {"clusters": [{"name": "east"}, {"name": "west"}]},
            "status": {
                "conditions": [{"type": "FullyApplied", "status": applied, "reason": "Applying"}],
                "aggregatedStatus": [
                    {"clusterName": "east", "health": "Healthy"}, {"clusterName": "west", "health": health},
                ],
            },
        })
    };
    assert_eq!(
        with(Some(json!({"spec": {}}))),
        "no cluster has been chosen for it"
    );
    assert_eq!(
        with(Some(binding("False", json!("Healthy")))),
        "FullyApplied is False (Applying)"
    );
    assert_eq!(
        with(Some(binding("True", json!("Unhealthy")))),
        "it is not healthy in west"
    );
    assert_eq!(
        with(Some(binding("True", Value::Null))),
        "nothing is known of its health in west"
    );
    assert_eq!(with(Some(binding("True", json!("Healthy")))), "healthy");
}
