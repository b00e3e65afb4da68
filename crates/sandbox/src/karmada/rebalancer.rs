//! The `WorkloadRebalancer`: it marks bindings for a fresh scheduling and calls that a success, whether or not anybody
//! schedules them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::REBALANCERS;
use super::status::revise;
use super::{BindingKey, Manager, objects};
use crate::api::Status;
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::binding_name;

const NAME: &str = "workload-rebalancer";

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<String>> = Queue::new();
    let rebalancers = Arc::clone(&queue);
    manager.rebalancers.subscribe(move |change| {
        let spec =
            |object: Option<&crate::api::Object>| object.and_then(|object| object.get("spec")).cloned();
        if change.new.is_some() && spec(change.old) != spec(change.new) {
            rebalancers.add(change.key.name.clone());
        }
    });
    manager.context.run(
        NAME,
        &queue,
        Rebalancer {
            manager: manager.clone(),
        },
    );
}

struct Rebalancer {
    manager: Manager,
}

impl Controller for Rebalancer {
    type Key = String;

    async fn reconcile(&self, name: &String, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.spend(self.manager.context.latencies.detect).await;
        let Some(rebalancer) = self.manager.rebalancers.get(None, name) else {
            return Ok(None);
        };
        let (mut observed, mut failure) = (Vec::new(), None);
        for workload in workloads(&rebalancer) {
            let mut entry =
                known_result(&rebalancer, &workload).unwrap_or_else(|| json!({"workload": workload}));
            if entry.get("result").is_none() {
                match self.trigger(&rebalancer, &workload) {
                    Ok(()) => entry["result"] = json!("Successful"),
                    Err(status) if status.is_not_found() => {
                        entry["result"] = json!("Failed");
                        entry["reason"] = json!("ReferencedBindingNotFound");
                    }
                    Err(status) => failure = Some(status),
                }
            }
            observed.push(entry);
        }
        let (generation, now) = (objects::generation(&rebalancer), self.manager.context.time());
        let finished = failure.is_none();
        revise(&self.manager.context, &REBALANCERS, &rebalancer, |status| {
            let before = status.clone();
            status["observedWorkloads"] = json!(observed);
            status["observedGeneration"] = json!(generation);
            if finished && *status != before {
                status["finishTime"] = now.clone();
            }
        })?;
        match failure {
            Some(status) => Err(status),
            None => Ok(None),
        }
    }
}

/// Returns the workloads, each once, in the order in which the status lists them.
fn workloads(rebalancer: &Value) -> Vec<Value> {
    let workloads = rebalancer.pointer("/spec/workloads").and_then(Value::as_array);
    let ordered: BTreeSet<[&str; 4]> = workloads
        .into_iter()
        .flatten()
        .map(|workload| {
            ["/apiVersion", "/kind", "/namespace", "/name"].map(|field| objects::text(workload, field))
        })
        .collect();
    let workload = |[api_version, kind, namespace, name]: [&str; 4]| {
        let mut workload = json!({"apiVersion": api_version, "kind": kind, "name": name});
        if !namespace.is_empty() {
            workload["namespace"] = json!(namespace);
        }
        workload
    };
    ordered.into_iter().map(workload).collect()
}

fn known_result(rebalancer: &Value, workload: &Value) -> Option<Value> {
    let observed = rebalancer.pointer("/status/observedWorkloads")?.as_array()?;
    observed
        .iter()
        .find(|known| known["workload"] == *workload)
        .cloned()
}

impl Rebalancer {
    fn trigger(&self, rebalancer: &Value, workload: &Value) -> Result<(), Status> {
        let namespace = Some(objects::text(workload, "/namespace")).filter(|namespace| !namespace.is_empty());
        let name = binding_name(objects::text(workload, "/name"), objects::text(workload, "/kind"));
        let key = BindingKey {
            namespace: namespace.map(str::to_owned),
            name,
        };
        let binding = self
            .manager
            .binding(&key)
            .ok_or_else(|| Status::not_found(key.resource(), &key.name))?;
        let created = objects::text(rebalancer, "/metadata/creationTimestamp");
        let triggered = objects::text(&binding, "/spec/rescheduleTriggeredAt");
        let time = |text: &str| text.parse::<Timestamp>().ok();
        if time(triggered).is_some_and(|triggered| time(created).is_none_or(|created| created <= triggered)) {
            return Ok(());
        }
        let mut binding = (*binding).clone();
        binding["spec"]["rescheduleTriggeredAt"] = json!(created);
        self.manager.context.put(key.resource(), binding).map(drop)
    }
}
