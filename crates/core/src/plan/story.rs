//! What an intent in a push asks for, in a line.

use serde_json::Value;

use crate::api::{
    self, Evacuation, FailoverPlan, FencedBy, Migration, MovesSpec, OnFailure, OnRolloutFailure, Rebalance,
    ReplicaShift, Rollout, RolloutPolicy, RolloutStrategy, Strategy, Suspension, WorkloadSelector,
};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// Returns what an object asks cutover to do; `None` if it is no intent, or has a form that this release doesn't know. `from`: where
/// the workload of a Migration was seen to run.
pub(super) fn of_intent(
    object: &Value,
    suspends: &[ObjectKey],
    from: Option<&ClusterName>,
) -> Option<String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    if text("apiVersion") != Some(api::API_VERSION) {
        return None;
    }
    match text("kind")? {
        "Migration" => of_migration(object, from),
        "Suspension" => of_suspension(object, suspends),
        "Evacuation" => of_evacuation(object),
        "Rebalance" => of_rebalance(object),
        "Rollout" => of_rollout(object),
        "RolloutPolicy" => of_rollout_policy(object),
        "ReplicaShift" => of_shift(object),
        "FailoverPlan" => of_failover_plan(object),
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
    parts.extend(of_control(spec.paused, spec.abort));
    Some(parts.join("; "))
}

fn of_rollout(object: &Value) -> Option<String> {
    let rollout: Rollout = serde_json::from_value(object.clone()).ok()?;
    let spec = &rollout.spec;
    let workload = &spec.workload;
    let mut parts = vec![match &spec.controls.undo_to {
        Some(revision) => format!(
            "takes {} {} back to revision {revision}, cluster by cluster",
            workload.kind, workload.name
        ),
        None => format!(
            "lets every change of {} {} go cluster by cluster",
            workload.kind, workload.name
        ),
    }];
    parts.extend(of_strategy(&spec.strategy));
    parts.extend(of_control(spec.controls.paused, spec.controls.abort));
    Some(parts.join("; "))
}

fn of_rollout_policy(object: &Value) -> Option<String> {
    let policy: RolloutPolicy = serde_json::from_value(object.clone()).ok()?;
    let spec = &policy.spec;
    let selected: Vec<String> = spec.select.iter().map(selection).collect();
    let mut parts = vec![format!(
        "lets every change of {} go cluster by cluster",
        selected.join(", and of ")
    )];
    parts.extend(of_strategy(&spec.strategy));
    for said in &spec.controls {
        let control = of_control(said.controls.paused, said.controls.abort);
        let back = said.controls.undo_to.as_ref();
        let back = back.map(|revision| format!("goes back to revision {revision}"));
        let what = control.into_iter().chain(back);
        parts.extend(what.map(|what| format!("{} {}: {what}", said.kind, said.name)));
    }
    parts.extend(of_control(spec.paused, false));
    Some(parts.join("; "))
}

fn selection(selector: &WorkloadSelector) -> String {
    let mut text = match &selector.name {
        Some(name) => format!("{} {name}", selector.kind),
        None => format!("every {}", selector.kind),
    };
    if let Some(labels) = &selector.label_selector {
        text = format!("{text} with {labels}");
    }
    text
}

fn of_strategy(strategy: &RolloutStrategy) -> Vec<String> {
    let mut parts = vec![match strategy.max_unavailable_clusters {
        1 => "one cluster may be other than good meanwhile".to_owned(),
        most => format!("{most} clusters may be other than good meanwhile"),
    }];
    if let Some(window) = &strategy.window {
        parts.push(format!("releases clusters {window}"));
    }
    parts.push(match strategy.on_failure {
        OnRolloutFailure::Halt => "halts if one isn't good in time".to_owned(),
        OnRolloutFailure::Undo => "undoes it if one isn't good in time".to_owned(),
    });
    parts
}

fn of_shift(object: &Value) -> Option<String> {
    let shift: ReplicaShift = serde_json::from_value(object.clone()).ok()?;
    let spec = &shift.spec;
    let how = if spec.percentages.is_empty() {
        format!("{} at a time", spec.step.unwrap_or(1))
    } else {
        let shares: Vec<String> = spec.percentages.iter().map(|share| format!("{share}%")).collect();
        format!("in steps of {}", shares.join(", "))
    };
    let mut parts = vec![
        format!(
            "moves the replicas of {} {} from {} to {}",
            spec.workload.kind, spec.workload.name, spec.from, spec.to
        ),
        how,
        format!("never fewer than {} ready", spec.floor),
    ];
    if let Some(window) = &spec.window {
        parts.push(format!("begins {window}"));
    }
    parts.push(match spec.on_failure {
        OnFailure::RollBack => "brings them back if a step fails".to_owned(),
        OnFailure::Hold => "stays as it is if a step fails".to_owned(),
    });
    parts.extend(of_control(spec.paused, spec.abort));
    Some(parts.join("; "))
}

fn of_failover_plan(object: &Value) -> Option<String> {
    let plan: FailoverPlan = serde_json::from_value(object.clone()).ok()?;
    let spec = &plan.spec;
    let workload = format!("{} {}", spec.workload.kind, spec.workload.name);
    let mut parts = vec![format!(
        "keeps {workload} to one writer, with its state, when it fails over"
    )];
    let source = &spec.source_unreachable;
    parts.push(match (&source.proceed_after, source.fenced_by) {
        (Some(after), Some(FencedBy::Approval)) => {
            format!("asks for an approval when its cluster can't be seen for {after}")
        }
        (Some(after), Some(FencedBy::NodeFencing)) => {
            format!("treats a cluster that can't be seen for {after} as fenced")
        }
        _ => "stays held while its cluster can't be seen".to_owned(),
    });
    if let Some(request) = &spec.request {
        parts.push(format!(
            "asks for failover {} to {} now",
            request.attempt, request.to
        ));
    }
    parts.extend(of_control(spec.paused, spec.abort));
    Some(parts.join("; "))
}

fn of_control(paused: bool, abort: bool) -> Vec<String> {
    let paused = paused.then(|| "is paused".to_owned());
    let abort = abort.then(|| "is to be aborted".to_owned());
    paused.into_iter().chain(abort).collect()
}

fn of_evacuation(object: &Value) -> Option<String> {
    let evacuation: Evacuation = serde_json::from_value(object.clone()).ok()?;
    let spec = &evacuation.spec;
    let what = match (&spec.cluster, &spec.taint) {
        (Some(cluster), _) => format!("moves what runs in {cluster} elsewhere"),
        (None, Some(taint)) => format!(
            "moves what runs in every cluster with the taint {} elsewhere",
            taint.key
        ),
        (None, None) => return None,
    };
    let mut parts = vec![what];
    if spec.cordon {
        let until = if spec.keep_cordoned {
            "until it is deleted"
        } else {
            "meanwhile"
        };
        parts.push(format!("the cluster takes nothing new {until}"));
    }
    parts.extend(of_moves(&spec.moves));
    Some(parts.join("; "))
}

fn of_rebalance(object: &Value) -> Option<String> {
    let rebalance: Rebalance = serde_json::from_value(object.clone()).ok()?;
    let spec = &rebalance.spec;
    let mut parts = vec![if spec.dry_run {
        "says what would move if workloads were redistributed".to_owned()
    } else {
        "redistributes workloads over the clusters".to_owned()
    }];
    if !spec.when.is_empty() {
        let when: Vec<String> = spec.when.iter().map(|occasion| format!("{occasion:?}")).collect();
        parts.push(format!("again at each {}", when.join(", ")));
    }
    parts.extend(of_moves(&spec.moves));
    Some(parts.join("; "))
}

fn of_moves(spec: &MovesSpec) -> Vec<String> {
    let mut parts = Vec::new();
    let clusters: Vec<&str> = spec.to.clusters.iter().map(ClusterName::as_str).collect();
    if !clusters.is_empty() {
        parts.push(format!("to {}", clusters.join(" or ")));
    }
    parts.push(format!("{} at a time", spec.max_parallel));
    parts.push(match spec.max_failures {
        0 => "stops at the first failure".to_owned(),
        most => format!("stops after more than {most} failures"),
    });
    if let Some(window) = &spec.window {
        parts.push(format!("begins moves {window}"));
    }
    if spec.approval.as_ref().is_some_and(|gate| !gate.before.is_empty()) {
        parts.push("waits for approval before the first".to_owned());
    }
    parts.extend(of_control(spec.paused, spec.abort));
    parts
}

fn of_migration(object: &Value, seen: Option<&ClusterName>) -> Option<String> {
    let migration: Migration = serde_json::from_value(object.clone()).ok()?;
    let spec = &migration.spec;
    let workload = &spec.workload;
    let from = spec.from.as_ref().or(seen).map_or_else(
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
    parts.extend(of_control(spec.paused, spec.abort));
    Some(parts.join("; "))
}
