//! The operator of a stateful workload: what the profile `flink` speaks of. It acts on what it has read, which may be older than
//! what is there; the process ends after the operator has said that it shall, and goes on writing until then.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::ledger::{Copy, Ledger, Origin};
use crate::member::{Member, Process};
use crate::plane::{generation, text};

/// What the operator leaves where it could make no savepoint.
const LAST_STATE: &str = "KUBERNETES_OPERATOR_LAST_STATE";

pub fn operate(member: &mut Member, workload: usize, seen: &Value, copy: &Copy, ledger: &mut Ledger) -> bool {
    let wants = text(seen, "/spec/job/state").unwrap_or("running").to_owned();
    let process = member.copies[workload].process.as_ref();
    let runs = process.is_some_and(|process| process.ends.is_none());
    let ends = process.is_some_and(|process| process.ends.is_some());
    let object = member.copies[workload].object.as_ref();
    let before = object.map(|object| object["status"].clone()).unwrap_or_default();
    let mut status = before.clone();
    match wants.as_str() {
        "suspended" if runs => stop(member, workload, seen, &mut status, ledger),
        "running" if ends => {
            // It is stopped first.
            member.copies[workload].acted = false;
            return false;
        }
        "running" if !runs => start(member, workload, seen, copy, &mut status, ledger),
        _ => {}
    }
    if !status.is_null() {
        status["observedGeneration"] = generation(seen).into();
        status["reconciliationStatus"]["lastReconciledSpec"] =
            json!({"spec": seen["spec"]}).to_string().into();
    }
    let is_news = status != before;
    if is_news {
        member.copies[workload].report = Some(status);
    }
    is_news
}

fn start(
    member: &mut Member,
    workload: usize,
    seen: &Value,
    copy: &Copy,
    status: &mut Value,
    ledger: &mut Ledger,
) {
    let Some(node) = member.free_node() else { return };
    let left = text(status, "/jobStatus/upgradeSavepointPath").map(str::to_owned);
    let nonce = &seen["spec"]["job"]["savepointRedeployNonce"];
    let is_told = !nonce.is_null() && *nonce != status["nonce"];
    let given = text(seen, "/spec/job/initialSavepointPath").map(str::to_owned);
    let origin = match left {
        Some(path) if !is_told && path == LAST_STATE => Origin::Own,
        Some(path) if !is_told => Origin::Handle(path),
        _ => given.map_or(Origin::Nothing, Origin::Handle),
    };
    if member.reads_no_handle && matches!(origin, Origin::Handle(_)) {
        *status = json!({
            "jobStatus": {"state": "RECONCILING"}, "jobManagerDeploymentStatus": "ERROR", "error": "no such savepoint",
            "reconciliationStatus": {"state": "DEPLOYED"}, "nonce": nonce,
        });
        return;
    }
    ledger.start(copy, &origin);
    let started = ledger.runs;
    let path = match &origin {
        Origin::Handle(path) => json!(path),
        Origin::Own => json!(LAST_STATE),
        Origin::Nothing => Value::Null,
    };
    *status = json!({
        "jobStatus": {
            "state": "RUNNING", "startTime": started.to_string(), "jobId": format!("job-{started}"),
            "upgradeSavepointPath": path,
        },
        "jobManagerDeploymentStatus": "READY", "reconciliationStatus": {"state": "DEPLOYED"}, "nonce": nonce,
    });
    let pod = member.pod(workload, started, node);
    let here = &mut member.copies[workload];
    here.pods = Arc::new(vec![pod]);
    here.process = Some(Process {
        copy: copy.clone(),
        node,
        deployed: origin,
        ends: None,
    });
}

/// A stop with a savepoint needs the process; without, what it runs is told to end, and ends in its own time.
fn stop(member: &mut Member, workload: usize, seen: &Value, status: &mut Value, ledger: &Ledger) {
    let name = member.name.clone();
    let falls_back = member.falls_back;
    let nodes = member.nodes.clone();
    let Some(process) = member.copies[workload].process.as_mut() else {
        return;
    };
    let reaches = nodes.get(process.node) == Some(&true);
    let saves = text(seen, "/spec/job/upgradeMode") == Some("savepoint") && !falls_back && reaches;
    let handle = saves.then(|| format!("s3://savepoints/{name}-{}", ledger.runs));
    process.ends = Some(handle.clone());
    status["jobStatus"]["state"] = "FINISHED".into();
    status["jobStatus"]["upgradeSavepointPath"] = handle.unwrap_or_else(|| LAST_STATE.to_owned()).into();
    status["jobManagerDeploymentStatus"] = "MISSING".into();
}
