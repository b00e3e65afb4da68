//! What an intent in a push asks for, in a line.

use serde_json::Value;

use crate::api::{self, Migration, OnFailure, Strategy};

/// Returns what an object asks cutover to do; `None` if it is no intent, or has a form that this release doesn't know.
pub(super) fn of_intent(object: &Value) -> Option<String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    if text("apiVersion") != Some(api::API_VERSION) || text("kind") != Some("Migration") {
        return None;
    }
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
