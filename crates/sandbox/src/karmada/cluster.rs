//! The cluster status controller and the taints that follow from it: is a member reachable, and what does it serve.
//!
//! One bad look is not believed: a member must fail, or be well again, for some time first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kinds::{self, CLUSTERS};
use super::status::revise;
use super::{Manager, objects};
use crate::api::{ApiServer, Status};
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{CLUSTER_FINALIZER, TAINT_NOT_READY, TAINT_UNREACHABLE};

const STATUS: &str = "cluster-status-controller";
const CONDITIONS: &str = "cluster-controller";
/// The defaults of `--cluster-status-update-frequency`, `--cluster-failure-threshold`, `--cluster-success-threshold`.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const THRESHOLD: Duration = Duration::from_secs(30);

/// Tells whether a Cluster's `Ready` condition says so.
pub(super) fn is_ready(cluster: &Value) -> bool {
    objects::condition(cluster, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// Returns the status of a member's Cluster object.
pub fn cluster_status(member: &ApiServer, now: Timestamp, ready: bool) -> Value {
    let mut status = enablements(member);
    let time = objects::time(now);
    let (value, reason, message) = condition(ready);
    objects::set_condition(&mut status, "Ready", value, reason, message, &time);
    status
}

fn enablements(member: &ApiServer) -> Value {
    let enabled: Vec<Value> = kinds::enablements(member)
        .into_iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources
                .into_iter()
                .map(|(name, kind)| json!({"name": name, "kind": kind}))
                .collect();
            json!({"groupVersion": version, "resources": resources})
        })
        .collect();
    json!({"kubernetesVersion": "v1.36.3", "apiEnablements": enabled})
}

const fn condition(ready: bool) -> (&'static str, &'static str, &'static str) {
    if ready {
        (
            "True",
            "ClusterReady",
            "cluster is healthy and ready to accept workloads",
        )
    } else {
        ("False", "ClusterNotReachable", "cluster is not reachable")
    }
}

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<String>> = Queue::new();
    let clusters = Arc::clone(&queue);
    manager.clusters.subscribe(move |change| {
        if change.new.is_some() && change.generation_changed() {
            clusters.add(change.key.name.clone());
        }
    });
    manager.context.run(
        STATUS,
        &queue,
        ClusterStatus {
            manager: manager.clone(),
            seen: Mutex::default(),
        },
    );

    let queue: Arc<Queue<String>> = Queue::new();
    let clusters = Arc::clone(&queue);
    manager.clusters.subscribe(move |change| {
        if change.new.is_some() {
            clusters.add(change.key.name.clone());
        }
    });
    manager.context.run(
        CONDITIONS,
        &queue,
        Conditions {
            manager: manager.clone(),
        },
    );
}

/// Looks at each member from time to time.
struct ClusterStatus {
    manager: Manager,
    /// What was last seen of each member, and since when.
    seen: Mutex<BTreeMap<String, (bool, Option<Instant>)>>,
}

impl Controller for ClusterStatus {
    type Key = String;

    async fn reconcile(&self, name: &String, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.pass().await;
        let context = &self.manager.context;
        let Some(cluster) = self.manager.clusters.get(None, name) else {
            self.seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(name);
            return Ok(None);
        };
        let Some(member) = context
            .members
            .get(name)
            .filter(|_| objects::has_finalizer(&cluster, CLUSTER_FINALIZER))
        else {
            return Ok(None);
        };
        let online = !context.faults.is_partitioned(name);
        let Some(ready) = self.believed(name, online, is_ready(&cluster)) else {
            return Ok(Some(LOOK_EVERY));
        };
        let (value, reason, message) = condition(ready);
        let (now, collected) = (context.time(), (online && ready).then(|| enablements(member)));
        revise(context, &CLUSTERS, &cluster, |status| {
            objects::set_condition(status, "Ready", value, reason, message, &now);
            if let Some(Value::Object(collected)) = collected.clone() {
                objects::fields(status).extend(collected);
            }
        })?;
        Ok(Some(LOOK_EVERY))
    }
}

impl ClusterStatus {
    /// Returns whether a member is to be shown as ready; nothing while a change isn't believed yet.
    fn believed(&self, name: &str, online: bool, shown: bool) -> Option<bool> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = seen.entry(name.to_owned()).or_insert((online, None));
        if entry.0 != online {
            *entry = (online, Some(Instant::now()));
        }
        let waits = entry.1.is_some_and(|since| since.elapsed() < THRESHOLD);
        if online != shown && waits {
            None
        } else {
            Some(online)
        }
    }
}

/// Gives the Cluster objects their finalizer, and the taints that keep new work away from what isn't ready.
struct Conditions {
    manager: Manager,
}

impl Controller for Conditions {
    type Key = String;

    async fn reconcile(&self, name: &String, _: &Pace) -> Result<Option<Duration>, Status> {
        let Some(cluster) = self.manager.clusters.get(None, name) else {
            return Ok(None);
        };
        if objects::is_terminating(&cluster) {
            return Ok(None);
        }
        let ready = objects::condition(&cluster, "Ready")
            .map_or("False", |condition| objects::text(condition, "/status"));
        let wanted = match ready {
            "True" => None,
            "Unknown" => Some(TAINT_UNREACHABLE),
            _ => Some(TAINT_NOT_READY),
        };
        let mut changed = (*cluster).clone();
        taint(&mut changed, wanted, &self.manager.context.time());
        if changed != *cluster {
            self.manager.context.put(&CLUSTERS, changed)?;
        }
        Ok(None)
    }
}

fn taint(cluster: &mut Value, wanted: Option<&str>, now: &Value) {
    let known = cluster
        .pointer("/spec/taints")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let ours = |taint: &Value| {
        let key = objects::text(taint, "/key");
        taint["effect"] == "NoSchedule" && (key == TAINT_NOT_READY || key == TAINT_UNREACHABLE)
    };
    let is_wanted = |taint: &Value| wanted == Some(objects::text(taint, "/key"));
    let mut taints: Vec<Value> = known
        .iter()
        .filter(|taint| !ours(taint) || is_wanted(taint))
        .cloned()
        .collect();
    if let Some(key) = wanted
        && !taints.iter().any(ours)
    {
        taints.push(json!({"key": key, "effect": "NoSchedule", "timeAdded": now}));
    }
    if taints == known {
        return;
    }
    if taints.is_empty() {
        objects::fields(&mut cluster["spec"]).shift_remove("taints");
    } else {
        cluster["spec"]["taints"] = json!(taints);
    }
}
