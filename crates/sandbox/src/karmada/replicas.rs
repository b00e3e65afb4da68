//! Karmada's interpretation of replicas: how many a template asks for, and how a member's share gets into its copy.

use serde_json::{Value, json};

/// Returns the replicas of a template; `None` for a kind that has none.
pub fn of_template(template: &Value) -> Option<i32> {
    let at = |pointer: &str| {
        template
            .pointer(pointer)
            .and_then(Value::as_i64)
            .and_then(|n| i32::try_from(n).ok())
    };
    match template["kind"].as_str()? {
        "Deployment" | "StatefulSet" => Some(at("/spec/replicas").unwrap_or(1)),
        "Job" => Some(at("/spec/parallelism").unwrap_or(1)),
        "FlinkDeployment" => {
            let managers = at("/spec/jobManager/replicas").unwrap_or(1);
            let workers = at("/spec/taskManager/replicas").unwrap_or_else(|| task_managers(template));
            Some(managers.saturating_add(workers))
        }
        _ => None,
    }
}

/// Returns what Karmada notes about one replica. Only that there is something is simulated, for it decides whether a
/// template without replicas still counts as one that has them.
pub fn requirements(template: &Value) -> Option<Value> {
    let asks = match template["kind"].as_str()? {
        "Deployment" | "StatefulSet" | "Job" => asks_for_something(&template["spec"]["template"]["spec"]),
        "FlinkDeployment" => true,
        _ => false,
    };
    asks.then(|| json!({}))
}

fn asks_for_something(pod: &Value) -> bool {
    let has = |value: &Value| match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    let mut containers = pod["containers"].as_array().into_iter().flatten();
    has(&pod["nodeSelector"])
        || has(&pod["tolerations"])
        || has(&pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"])
        || containers.any(|container| {
            // A limit is a request too, where none is made.
            has(&container["resources"]["requests"]) || has(&container["resources"]["limits"])
        })
}

/// As many as the parallelism needs slots; one, where either isn't said.
fn task_managers(template: &Value) -> i32 {
    let slots = &template["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"];
    let slots = slots
        .as_str()
        .and_then(|text| text.parse().ok())
        .or_else(|| slots.as_i64());
    match (template["spec"]["job"]["parallelism"].as_i64(), slots) {
        (Some(parallelism), Some(slots)) if slots > 0 => {
            i32::try_from((parallelism + slots - 1) / slots).unwrap_or(i32::MAX)
        }
        _ => 1,
    }
}

/// Writes a member's share into its copy; a `FlinkDeployment` can't be divided.
pub fn revise(manifest: &mut Value, replicas: i32) {
    let field = match manifest["kind"].as_str() {
        Some("Deployment" | "StatefulSet") => "replicas",
        Some("Job") => "parallelism",
        _ => return,
    };
    manifest["spec"][field] = json!(replicas);
}
