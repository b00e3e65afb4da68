//! Karmada's resource interpreter, as far as status goes: is a member object healthy, what of its status is shown, and
//! what the template shows of all copies.

use serde_json::{Map, Value, json};

use super::objects;
use cutover_karmada::meta::TEMPLATE_GENERATION;
use cutover_karmada::{AggregatedStatus, Health};

/// The kinds whose health is interpreted; every object of another kind is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interpreter {
    Flink,
    /// Deployments and what counts replicas like them.
    Replicas,
    DaemonSet,
    Pod,
    Claim,
}

/// Returns how a kind is interpreted.
fn interpreter(api_version: &str, kind: &str) -> Option<Interpreter> {
    match (api_version.split('/').next().unwrap_or_default(), kind) {
        ("flink.apache.org", "FlinkDeployment") => Some(Interpreter::Flink),
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => Some(Interpreter::Replicas),
        ("apps", "DaemonSet") => Some(Interpreter::DaemonSet),
        ("v1", "Pod") => Some(Interpreter::Pod),
        ("v1", "PersistentVolumeClaim") => Some(Interpreter::Claim),
        _ => None,
    }
}

fn interpreter_of(object: &Value) -> Option<Interpreter> {
    interpreter(
        objects::text(object, "/apiVersion"),
        objects::text(object, "/kind"),
    )
}

/// Tells whether the health of a kind is interpreted: only such workloads fail over.
pub fn is_interpreted(api_version: &str, kind: &str) -> bool {
    interpreter(api_version, kind).is_some()
}

/// Returns the health of an object in a member.
pub fn of(object: &Value) -> Health {
    let healthy = match interpreter_of(object) {
        Some(Interpreter::Flink) => flink_is_healthy(object),
        Some(Interpreter::Replicas) => replicas_are_healthy(object),
        Some(Interpreter::DaemonSet) => daemons_are_healthy(object),
        Some(Interpreter::Pod) => matches!(objects::text(object, "/status/phase"), "Running" | "Succeeded"),
        Some(Interpreter::Claim) => objects::text(object, "/status/phase") == "Bound",
        None => true,
    };
    if healthy {
        Health::Healthy
    } else {
        Health::Unhealthy
    }
}

/// A job that never had a state, as that of a held copy, is not healthy.
fn flink_is_healthy(object: &Value) -> bool {
    const USERS_FAULT: &[&str] = &["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"];
    let state = object.pointer("/status/jobStatus/state").and_then(Value::as_str);
    match state {
        None => {
            objects::text(object, "/status/jobManagerDeploymentStatus") == "READY"
                && objects::text(object, "/status/lifecycleState") == "STABLE"
        }
        // At work, over, or about to be one of them.
        Some(
            "RUNNING" | "FINISHED" | "FAILED" | "CANCELED" | "SUSPENDED" | "CANCELLING" | "FAILING"
            | "RESTARTING",
        ) => true,
        Some("CREATED" | "INITIALIZING" | "RECONCILING") => {
            let error = objects::text(object, "/status/error");
            USERS_FAULT.iter().any(|fault| error.contains(fault))
        }
        Some(_) => false,
    }
}

fn replicas_are_healthy(object: &Value) -> bool {
    let updated = number(object, "/status/updatedReplicas");
    // A ReplicaSet has no updated replicas.
    let updated = if objects::text(object, "/kind") == "ReplicaSet" {
        number(object, "/status/replicas")
    } else {
        updated
    };
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64);
    is_observed(object)
        && wanted.is_none_or(|wanted| updated >= wanted)
        && number(object, "/status/availableReplicas") >= updated
}

fn daemons_are_healthy(object: &Value) -> bool {
    let updated = number(object, "/status/updatedNumberScheduled");
    is_observed(object)
        && updated >= number(object, "/status/desiredNumberScheduled")
        && number(object, "/status/numberAvailable") >= updated
}

fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration") == objects::generation(object)
}

fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

const FLINK_STATUS: &[&str] = &[
    "clusterInfo",
    "error",
    "jobManagerDeploymentStatus",
    "jobStatus",
    "observedGeneration",
    "lifecycleState",
    "reconciliationStatus",
    "taskManager",
];
const REPLICAS: &[&str] = &[
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
];

/// Returns what a Work shows of the status of its object.
pub fn reflect(object: &Value) -> Option<Value> {
    let status = object.get("status");
    match interpreter_of(object) {
        Some(Interpreter::Flink) => Some(Value::Object(some_of(status, FLINK_STATUS))),
        Some(Interpreter::Replicas) => {
            let mut shown = some_of(Some(status?), REPLICAS);
            shown.retain(|_, count| *count != 0);
            for (field, number) in [
                ("observedGeneration", number(object, "/status/observedGeneration")),
                ("generation", objects::generation(object)),
                ("resourceTemplateGeneration", template_generation(object)),
            ] {
                if number != 0 {
                    shown.insert(field.to_owned(), json!(number));
                }
            }
            Some(Value::Object(shown))
        }
        _ => status.cloned(),
    }
}

fn template_generation(object: &Value) -> i64 {
    objects::annotation(object, TEMPLATE_GENERATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn some_of(status: Option<&Value>, fields: &[&str]) -> Map<String, Value> {
    let field = |name: &&str| Some(((*name).to_owned(), status?.get(*name)?.clone()));
    fields.iter().filter_map(field).collect()
}

/// Returns the status that a template gets from its copies, if it gets any.
pub fn aggregate(template: &Value, copies: &[AggregatedStatus]) -> Option<Value> {
    let statuses = || copies.iter().filter_map(|copy| copy.status.as_ref());
    let mut status = template.get("status").cloned().unwrap_or_else(|| json!({}));
    match interpreter_of(template)? {
        Interpreter::Flink => {
            // The last cluster by name is shown; `observedGeneration` is its number, not the template's.
            let last = statuses().next_back().cloned().unwrap_or_else(|| {
                json!({"clusterInfo": {}, "error": "", "jobManagerDeploymentStatus": "", "jobStatus": {},
                       "lifecycleState": "", "observedGeneration": 0, "reconciliationStatus": {}, "taskManager": {}})
            });
            let fields = objects::fields(&mut status);
            fields.retain(|field, _| !FLINK_STATUS.contains(&field.as_str()));
            fields.extend(some_of(Some(&last), FLINK_STATUS));
        }
        Interpreter::Replicas => {
            for field in REPLICAS {
                let sum: i64 = statuses()
                    .map(|status| status[*field].as_i64().unwrap_or_default())
                    .sum();
                if sum == 0 && status.get(*field).is_none() {
                    continue;
                }
                status[*field] = json!(sum);
            }
            let generation = objects::generation(template);
            let is_current = |status: &&Value| {
                status["observedGeneration"].as_i64().unwrap_or_default()
                    >= status["generation"].as_i64().unwrap_or_default()
                    && status["resourceTemplateGeneration"].as_i64().unwrap_or_default() >= generation
            };
            if statuses().filter(is_current).count() == copies.len() {
                status["observedGeneration"] = json!(generation);
            }
        }
        Interpreter::DaemonSet | Interpreter::Pod | Interpreter::Claim => return None,
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flink(status: Value) -> Value {
        json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "status": status})
    }

    #[test]
    fn a_held_copy_that_never_ran_is_unhealthy() {
        assert_eq!(of(&flink(Value::Null)), Health::Unhealthy);
        assert_eq!(
            of(&flink(json!({"lifecycleState": "CREATED"}))),
            Health::Unhealthy
        );
        assert_eq!(
            of(&flink(json!({"jobStatus": {"state": "RECONCILING"}}))),
            Health::Unhealthy
        );
        let steady = json!({"jobManagerDeploymentStatus": "READY", "lifecycleState": "STABLE"});
        assert_eq!(of(&flink(steady)), Health::Healthy);
    }

    #[test]
    fn a_job_that_has_ended_is_healthy() {
        for state in [
            "RUNNING",
            "FINISHED",
            "FAILED",
            "CANCELED",
            "SUSPENDED",
            "FAILING",
        ] {
            assert_eq!(
                of(&flink(json!({"jobStatus": {"state": state}}))),
                Health::Healthy,
                "{state}"
            );
        }
        let pulled = json!({"jobStatus": {"state": "CREATED"}, "error": "pod: ErrImagePull"});
        assert_eq!(of(&flink(pulled)), Health::Healthy);
    }

    #[test]
    fn the_template_shows_the_last_cluster_with_the_members_generation() {
        let copy = |cluster: &str, generation: i64| AggregatedStatus {
            cluster_name: cutover_karmada::name::ClusterName::new(cluster),
            status: Some(json!({"observedGeneration": generation, "jobStatus": {"jobId": cluster}})),
            applied: true,
            applied_message: String::new(),
            health: None,
            rest: cutover_karmada::Rest::new(),
        };
        let status = aggregate(
            &flink(json!({"error": "old"})),
            &[copy("east", 7), copy("west", 3)],
        )
        .unwrap();
        assert_eq!(
            status,
            json!({"observedGeneration": 3, "jobStatus": {"jobId": "west"}})
        );
    }
}
