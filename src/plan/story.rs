//! What an intent in a push asks for, in a line.

use serde_json::Value;

use crate::api::{self, Migration, OnFailure, Strategy, Suspension};
use crate::name::{ClusterName, ObjectKey};

/// Returns what an object asks cutover to do; `None` if it is no intent, or has a form that this release doesn't know.
pub(super) fn of_intent(object: &Value, suspends: &[ObjectKey]) -> Option<String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    if text("apiVersion") != Some(api::API_VERSION) {
        return None;
    }
    match text("kind")? {
        "Migration" => of_migration(object),
        "Suspension" => of_suspension(object, suspends),
        _ => None,
    }
}

fn of_suspension(object: &Value, suspends: &[ObjectKey]) -> Option<String> {
    let suspension: Suspension = serde_json::from_value(object.clone()).ok()?;
    let spec = &suspension.spec;
    let of = match (&spec.target.policy, &spec.target.workload) {
        (Some(policy), _) => format!("{} {}", policy.kind.name(), policy.name),
        (None, Some(workload)) => format!("{} {}", workload.kind, workload.name),
        (None, None) => return None,
    };
    let clusters: Vec<&str> = spec.clusters.iter().map(ClusterName::as_str).collect();
    let to = if clusters.is_empty() {
        "every cluster".to_owned()
    } else {
        clusters.join(", ")
    };
    let mut parts = vec![format!("suspends {} of {of} to {to}", spec.scope)];
    if !suspends.is_empty() {
        let names: Vec<String> = suspends.iter().map(ToString::to_string).collect();
        parts.push(format!("that is about {}", names.join(", ")));
    }
    parts.push(match spec.until {
        Some(until) => format!("until {until}"),
        None => "until a person ends it".to_owned(),
    });
    if spec.paused {
        parts.push("is paused".to_owned());
    }
    if spec.abort {
        parts.push("is to be aborted".to_owned());
    }
    Some(parts.join("; "))
}

fn of_migration(object: &Value) -> Option<String> {
    let migration: Migration = serde_json::from_value(object.clone()).ok()?;
    let spec = &migration.spec;
    let workload = &spec.workload;
    let from = spec.from.as_ref().map_or_else(
        || "from where it runs".to_owned(),
        |from| format!("from {}", from.as_str()),
    );
    let mut parts = vec![format!(
        "moves {} {} {from} to {}",
        workload.kind,
        workload.name,
        spec.to.as_str()
    )];
    match spec.strategy {
        Strategy::StopFirst => parts.push("stops it with its state first".to_owned()),
        Strategy::StartFirst => parts.push("starts it there before it is taken away here".to_owned()),
    }
    parts.push(if spec.changes.template {
        "takes a change of its template along".to_owned()
    } else {
        "leaves its template as it is".to_owned()
    });
    if !spec.changes.patches.is_empty() {
        parts.push(format!(
            "patches its template in {} places",
            spec.changes.patches.len()
        ));
    }
    if let Some(window) = &spec.window {
        parts.push(format!("begins {window}"));
    }
    if let Some(gate) = &spec.approval
        && !gate.before.is_empty()
    {
        let phases: Vec<String> = gate.before.iter().map(ToString::to_string).collect();
        parts.push(format!("waits for approval before {}", phases.join(", ")));
    }
    parts.push(match spec.on_failure {
        OnFailure::RollBack => "rolls back if it fails".to_owned(),
        OnFailure::Hold => "stays held if it fails".to_owned(),
    });
    if spec.paused {
        parts.push("is paused".to_owned());
    }
    if spec.abort {
        parts.push("is to be aborted".to_owned());
    }
    Some(parts.join("; "))
}
