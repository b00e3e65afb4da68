//! Whether an object does what it is there for, judged from the object alone, or from the binding of a template.
//!
//! The rules are those that people know from `kubectl wait` and kstatus: what its controller has not seen yet is not
//! healthy, and what isn't known never is. Texts name conditions and numbers, never what a controller wrote in prose:
//! they end up on the status branch.

mod status;
mod workloads;

use serde_json::Value;

use self::status::{Condition, condition, items, number, text};
use self::workloads::{daemon_set, deployment, job, replicas, stateful_set};
use super::annotations::{WAIT_ANNOTATION, says};
use super::order::Rank;
use cutover_karmada::meta::{CLUSTER_POLICY_ID, POLICY_ID};
use cutover_karmada::name::{Gvk, ObjectKey};

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
        name: cutover_karmada::meta::binding_name(&template.name, &template.kind),
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

fn first_missing(all: impl IntoIterator<Item = Health>) -> Health {
    all.into_iter()
        .find(|health| *health != Healthy)
        .unwrap_or(Healthy)
}

#[cfg(test)]
mod tests;
