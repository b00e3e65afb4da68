//! Whether an object does what it is there for, judged from the object alone, or from the binding of a template.
//!
//! The rules are those that people know from `kubectl wait` and kstatus: what its controller has not seen yet is not
//! healthy, and what isn't known never is. Texts name conditions and numbers, never what a controller wrote in prose:
//! they end up on the status branch.

use serde_json::Value;

use super::annotations::{WAIT_ANNOTATION, says};
use super::order::Rank;
use crate::karmada::meta::{CLUSTER_POLICY_ID, POLICY_ID};
use crate::name::{Gvk, ObjectKey};

/// What is known of an object's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    /// It isn't healthy now, and it may become so by itself.
    Progressing(String),
    /// Its controller has given it up; that too can change, when somebody does something about it.
    Failed(String),
}

use Health::{Failed, Healthy, Progressing};

impl Health {
    /// Returns what is missing; `None` for what is healthy.
    pub fn missing(self) -> Option<String> {
        match self {
            Healthy => None,
            Progressing(why) | Failed(why) => Some(why),
        }
    }
}

/// Returns the health of a live object. `binding` is asked for the `ResourceBinding` of a template that a policy has
/// claimed, and of whose kind nothing is known here.
pub fn health(live: &Value, binding: impl FnOnce() -> Option<std::sync::Arc<Value>>) -> Health {
    if says(live, WAIT_ANNOTATION) == Some(false) {
        return Healthy;
    }
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Progressing("it is being deleted".to_owned());
    }
    let gvk = Gvk::new(text(live, "/apiVersion"), text(live, "/kind"));
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        _ if Rank::of(&gvk) == Rank::Intent => Healthy,
        ("", "Namespace") => phase(live, &["Active"]),
        ("", "PersistentVolumeClaim") => phase(live, &["Bound"]),
        ("", "Pod") => pod(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(live),
        ("apps", "Deployment") => first_missing([seen(live), deployment(live)]),
        ("apps", "StatefulSet") => first_missing([seen(live), stateful_set(live)]),
        ("apps", "DaemonSet") => first_missing([seen(live), daemon_set(live)]),
        ("apps", "ReplicaSet") => {
            first_missing([seen(live), replicas(live, &[("availableReplicas", "available")])])
        }
        ("batch", "Job") => job(live),
        _ if is_claimed(&gvk, live) => binding().map_or_else(
            || Progressing("Karmada has made no binding for it yet".to_owned()),
            |binding| bound(&binding),
        ),
        _ if is_foreign(&gvk) && !has_conditions(live) => {
            Progressing("no propagation policy has claimed it".to_owned())
        }
        _ => first_missing([unless_behind(live), conditions(live)]),
    }
}

/// Returns the key of the `ResourceBinding` of a template.
pub fn binding_of(template: &ObjectKey) -> Option<ObjectKey> {
    Some(ObjectKey {
        group: "work.karmada.io".to_owned(),
        kind: "ResourceBinding".to_owned(),
        namespace: Some(template.namespace.clone()?),
        name: crate::karmada::meta::binding_name(&template.name, &template.kind),
    })
}

/// Policies carry the label too: it names themselves.
fn is_claimed(gvk: &Gvk, live: &Value) -> bool {
    let labels = live.pointer("/metadata/labels");
    matches!(Rank::of(gvk), Rank::Support | Rank::Template)
        && labels.is_some_and(|labels| {
            [POLICY_ID, CLUSTER_POLICY_ID]
                .iter()
                .any(|id| labels.get(id).is_some())
        })
}

/// Returns whether a kind is neither Kubernetes' nor Karmada's: without a policy, nobody in the control plane does anything
/// about such an object, and right after it was created its policy has not found it yet.
fn is_foreign(gvk: &Gvk) -> bool {
    Rank::of(gvk) == Rank::Template
        && gvk.group.contains('.')
        && !gvk.group.ends_with(".k8s.io")
        && !gvk.group.ends_with("karmada.io")
}

fn has_conditions(live: &Value) -> bool {
    ["Ready", "Available", "Stalled", "Reconciling"]
        .iter()
        .any(|kind| !matches!(condition(live, kind), Condition::Absent))
}

/// A binding says it of all clusters: where the copies are, and how Karmada's interpreter judges them.
fn bound(binding: &Value) -> Health {
    let clusters = items(binding, "/spec/clusters");
    if clusters.is_empty() {
        return Progressing("no cluster has been chosen for it".to_owned());
    }
    if let Some(why) = condition(binding, "FullyApplied").unless_true("FullyApplied") {
        return Progressing(why);
    }
    let reports = items(binding, "/status/aggregatedStatus");
    for cluster in clusters.iter().filter_map(|cluster| cluster["name"].as_str()) {
        let report = reports.iter().find(|report| report["clusterName"] == cluster);
        match report.and_then(|report| report["health"].as_str()) {
            Some("Healthy") => {}
            Some("Unhealthy") => return Progressing(format!("it is not healthy in {cluster}")),
            _ => return Progressing(format!("nothing is known of its health in {cluster}")),
        }
    }
    Healthy
}

fn phase(live: &Value, good: &[&str]) -> Health {
    match text(live, "/status/phase") {
        phase if good.contains(&phase) => Healthy,
        "" => Progressing("it has no phase yet".to_owned()),
        phase => Progressing(format!("its phase is {phase}")),
    }
}

fn pod(live: &Value) -> Health {
    match text(live, "/status/phase") {
        "Succeeded" => Healthy,
        "Failed" => Failed("its phase is Failed".to_owned()),
        _ => match condition(live, "Ready").unless_true("Ready") {
            None => Healthy,
            Some(why) => Progressing(why),
        },
    }
}

fn definition(live: &Value) -> Health {
    if let Condition::False(reason) = condition(live, "NamesAccepted") {
        return Failed(format!("its names are not accepted ({reason})"));
    }
    condition(live, "Established")
        .unless_true("Established")
        .map_or(Healthy, Progressing)
}

fn deployment(live: &Value) -> Health {
    if let Condition::False(reason) = condition(live, "Progressing")
        && reason == "ProgressDeadlineExceeded"
    {
        return Failed("its rollout has exceeded its deadline".to_owned());
    }
    replicas(
        live,
        &[("updatedReplicas", "updated"), ("availableReplicas", "available")],
    )
}

fn stateful_set(live: &Value) -> Health {
    if text(live, "/spec/updateStrategy/type") == "OnDelete" {
        return replicas(live, &[("readyReplicas", "ready")]);
    }
    let held = number(live, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let wanted = wanted_replicas(live);
    let to_update = wanted.saturating_sub(held).max(0);
    first_missing([
        counted(live, "updatedReplicas", to_update, "updated"),
        replicas(live, &[("readyReplicas", "ready")]),
    ])
}

fn daemon_set(live: &Value) -> Health {
    let Some(wanted) = number(live, "/status/desiredNumberScheduled") else {
        return Progressing("its controller has not reported on it yet".to_owned());
    };
    let on_delete = text(live, "/spec/updateStrategy/type") == "OnDelete";
    first_missing([
        counted(
            live,
            "updatedNumberScheduled",
            if on_delete { 0 } else { wanted },
            "updated",
        ),
        counted(live, "numberAvailable", wanted, "available"),
    ])
}

fn job(live: &Value) -> Health {
    if let Condition::True = condition(live, "Complete") {
        return Healthy;
    }
    if let Condition::True = condition(live, "Failed") {
        return Failed("it has failed".to_owned());
    }
    if live.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return Healthy;
    }
    let wanted = number(live, "/spec/completions").unwrap_or(1);
    let done = number(live, "/status/succeeded").unwrap_or(0);
    Progressing(format!("{done} of {wanted} completed"))
}

/// What a controller that reports generations has not seen, or no controller has reported on, isn't healthy.
fn seen(live: &Value) -> Health {
    match number(live, "/status/observedGeneration") {
        None => Progressing("its controller has not reported on it yet".to_owned()),
        Some(_) => unless_behind(live),
    }
}

fn unless_behind(live: &Value) -> Health {
    match (
        number(live, "/status/observedGeneration"),
        number(live, "/metadata/generation"),
    ) {
        (Some(seen), Some(now)) if seen < now => {
            Progressing(format!("its controller has seen generation {seen} of {now}"))
        }
        _ => Healthy,
    }
}

fn conditions(live: &Value) -> Health {
    if let Condition::True = condition(live, "Stalled") {
        return Failed("it is stalled".to_owned());
    }
    if let Condition::True = condition(live, "Reconciling") {
        return Progressing("its controller is at work on it".to_owned());
    }
    for kind in ["Ready", "Available"] {
        if let Condition::False(_) | Condition::Unknown = condition(live, kind)
            && let Some(why) = condition(live, kind).unless_true(kind)
        {
            return Progressing(why);
        }
    }
    Healthy
}

fn replicas(live: &Value, counts: &[(&str, &str)]) -> Health {
    let wanted = wanted_replicas(live);
    let missing = counts
        .iter()
        .map(|(field, what)| counted(live, field, wanted, what));
    match first_missing(missing) {
        Healthy => {}
        missing => return missing,
    }
    let (all, updated) = (
        number(live, "/status/replicas"),
        number(live, "/status/updatedReplicas"),
    );
    match (all, updated) {
        (Some(all), Some(updated))
            if all > updated && counts.iter().any(|(field, _)| *field == "updatedReplicas") =>
        {
            Progressing(format!("{} old replicas are still there", all - updated))
        }
        _ => Healthy,
    }
}

fn wanted_replicas(live: &Value) -> i64 {
    number(live, "/spec/replicas").unwrap_or(1)
}

fn counted(live: &Value, field: &str, wanted: i64, what: &str) -> Health {
    let there = number(live, &format!("/status/{field}")).unwrap_or(0);
    if there < wanted {
        Progressing(format!("{there} of {wanted} replicas {what}"))
    } else {
        Healthy
    }
}

fn first_missing(all: impl IntoIterator<Item = Health>) -> Health {
    all.into_iter()
        .find(|health| *health != Healthy)
        .unwrap_or(Healthy)
}

enum Condition<'a> {
    True,
    /// With its reason, a word in CamelCase.
    False(&'a str),
    Unknown,
    /// There is none of that type.
    Absent,
}

impl Condition<'_> {
    fn unless_true(&self, kind: &str) -> Option<String> {
        match self {
            Self::True => None,
            Self::False("") => Some(format!("{kind} is False")),
            Self::False(reason) => Some(format!("{kind} is False ({reason})")),
            Self::Unknown => Some(format!("{kind} is Unknown")),
            Self::Absent => Some(format!("it is not {kind} yet")),
        }
    }
}

fn condition<'a>(live: &'a Value, kind: &str) -> Condition<'a> {
    let Some(condition) = items(live, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == kind)
    else {
        return Condition::Absent;
    };
    match condition["status"].as_str() {
        Some("True") => Condition::True,
        Some("False") => Condition::False(condition["reason"].as_str().unwrap_or_default()),
        _ => Condition::Unknown,
    }
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

#[cfg(test)]
mod tests {
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
        let deadline =
            json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
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
}
