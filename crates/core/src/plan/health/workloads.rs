//! The workloads of Kubernetes: what their controllers count.

use serde_json::Value;

use super::Health::{self, Failed, Healthy, Progressing};
use super::first_missing;
use super::status::{Condition, condition, number, text};

pub(super) fn deployment(live: &Value) -> Health {
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

pub(super) fn stateful_set(live: &Value) -> Health {
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

pub(super) fn daemon_set(live: &Value) -> Health {
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

pub(super) fn job(live: &Value) -> Health {
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

pub(super) fn replicas(live: &Value, counts: &[(&str, &str)]) -> Health {
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
