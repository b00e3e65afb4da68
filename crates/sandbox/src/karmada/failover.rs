//! Application failover and graceful eviction: a workload that stays unhealthy leaves its cluster, whatever becomes of
//! it. Neither asks whether scheduling is suspended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{BindingKey, Manager, health, jsonpath, objects, read_binding};
use crate::api::{Object, Status};
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{
    AggregatedStatus, ApplicationFailover, EvictionTask, Health, PurgeMode, ResourceBinding,
    ResourceBindingSpec, StatePreservation,
};

const FAILOVER: &str = "application-failover-controller";
const EVICTION: &str = "graceful-eviction-controller";
/// What application failover signs its tasks with.
const PRODUCER: &str = "resource-binding-application-failover-controller";
const CLUSTER_PRODUCER: &str = "cluster-resource-binding-application-failover-controller";
/// The default of `--graceful-eviction-timeout`.
const EVICTION_TIMEOUT: Duration = Duration::from_mins(10);

pub(super) fn start(manager: &Manager) {
    let (failover, eviction): (Arc<Queue<BindingKey>>, Arc<Queue<BindingKey>>) = (Queue::new(), Queue::new());
    for cache in [&manager.bindings, &manager.cluster_bindings] {
        let (failover, eviction) = (Arc::clone(&failover), Arc::clone(&eviction));
        cache.subscribe(move |change| {
            if has_failover(change.old) || has_failover(change.new) {
                failover.add(BindingKey::of(change.key));
            }
            if change.new.is_some_and(|binding| has_tasks(binding)) {
                eviction.add(BindingKey::of(change.key));
            }
        });
    }
    let context = &manager.context;
    context.run(
        FAILOVER,
        &failover,
        ApplicationFailure {
            manager: manager.clone(),
            unhealthy: Mutex::default(),
        },
    );
    context.run(
        EVICTION,
        &eviction,
        Eviction {
            manager: manager.clone(),
        },
    );
}

fn has_failover(binding: Option<&Object>) -> bool {
    binding
        .and_then(|binding| binding.pointer("/spec/failover/application"))
        .is_some_and(|failover| !failover.is_null())
}

fn has_tasks(binding: &Value) -> bool {
    let tasks = binding
        .pointer("/spec/gracefulEvictionTasks")
        .and_then(Value::as_array);
    tasks.is_some_and(|tasks| !tasks.is_empty())
}

/// Since when a workload has been unhealthy, by cluster.
type Timers = BTreeMap<String, Instant>;

struct ApplicationFailure {
    manager: Manager,
    unhealthy: Mutex<BTreeMap<BindingKey, Timers>>,
}

impl Controller for ApplicationFailure {
    type Key = BindingKey;

    async fn reconcile(&self, key: &BindingKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.spend(self.manager.context.latencies.evict).await;
        let Some(object) = self.manager.binding(key) else {
            return Ok(self.forget(key));
        };
        let binding = read_binding(&object)?;
        let failover = binding
            .spec
            .failover
            .as_ref()
            .and_then(|failover| failover.application.clone());
        let statuses = aggregated(&binding);
        let interpreted =
            health::is_interpreted(&binding.spec.resource.api_version, &binding.spec.resource.kind);
        let Some(failover) =
            failover.filter(|_| interpreted && binding.spec.propagate_deps && !statuses.is_empty())
        else {
            // A failover that is written back starts its timers anew.
            return Ok(self.forget(key));
        };
        let toleration = u64::try_from(failover.decision_conditions.toleration_seconds).unwrap_or_default();
        let (again, evicted) = self.overdue(key, &binding.spec, statuses, Duration::from_secs(toleration));
        if !evicted.is_empty() {
            let mut changed = (*object).clone();
            for cluster in &evicted {
                let task = self
                    .task(key, &binding, &failover, cluster)
                    .inspect_err(|status| {
                        // This is all that Karmada says about it.
                        tracing::warn!(binding = key.name, %cluster, %status, "can't fail over");
                    })?;
                evict(&mut changed, &binding.spec, &task)?;
            }
            self.manager.context.put(key.resource(), changed)?;
        }
        self.tidy(key, &binding.spec, statuses, &evicted);
        Ok(again)
    }
}

fn aggregated(binding: &ResourceBinding) -> &[AggregatedStatus] {
    binding
        .status
        .as_ref()
        .map_or(&[], |status| &status.aggregated_status)
}

fn is_leaving(spec: &ResourceBindingSpec, cluster: &ClusterName) -> bool {
    spec.graceful_eviction_tasks
        .iter()
        .any(|task| task.from_cluster == *cluster)
}

/// Takes a cluster out of a binding, and notes why.
pub(super) fn evict(
    binding: &mut Value,
    spec: &ResourceBindingSpec,
    task: &EvictionTask,
) -> Result<(), Status> {
    let name = task.from_cluster.as_str();
    let Some(clusters) = binding
        .pointer_mut("/spec/clusters")
        .and_then(Value::as_array_mut)
    else {
        return Ok(());
    };
    let before = clusters.len();
    clusters.retain(|cluster| cluster["name"] != name);
    if clusters.len() == before {
        return Ok(());
    }
    if clusters.is_empty() {
        objects::fields(&mut binding["spec"]).shift_remove("clusters");
    }
    if is_leaving(spec, &task.from_cluster) {
        return Ok(());
    }
    let task = serde_json::to_value(task).map_err(|error| Status::internal(error.to_string()))?;
    match binding
        .pointer_mut("/spec/gracefulEvictionTasks")
        .and_then(Value::as_array_mut)
    {
        Some(tasks) => tasks.push(task),
        None => binding["spec"]["gracefulEvictionTasks"] = json!([task]),
    }
    Ok(())
}

/// Returns the state that goes with a workload. One rule that matches nothing is enough to fail.
pub(super) fn preserved_state(
    preservation: &StatePreservation,
    statuses: &[AggregatedStatus],
    cluster: &str,
) -> Result<BTreeMap<String, String>, Status> {
    let status = statuses
        .iter()
        .find(|status| status.cluster_name.as_str() == cluster)
        .and_then(|status| status.status.as_ref())
        .ok_or_else(|| {
            Status::internal(format!(
                "the application status has not yet been collected from Cluster({cluster})"
            ))
        })?;
    let mut preserved = BTreeMap::new();
    for rule in &preservation.rules {
        let value = jsonpath::evaluate(&rule.json_path, status).map_err(|error| {
            Status::internal(format!(
                "failed to execute jsonpath {:?}: {error}",
                rule.json_path
            ))
        })?;
        preserved.insert(rule.alias_label_name.clone(), value);
    }
    Ok(preserved)
}

/// Returns a task without anything that is optional.
pub(super) fn task_of(
    spec: &ResourceBindingSpec,
    cluster: &ClusterName,
    reason: &str,
    producer: &str,
) -> EvictionTask {
    let replicas = spec
        .clusters
        .iter()
        .find(|target| target.name == *cluster)
        .map(|target| target.replicas);
    EvictionTask {
        from_cluster: cluster.clone(),
        purge_mode: None,
        replicas: replicas.filter(|replicas| *replicas > 0),
        reason: reason.to_owned(),
        message: String::new(),
        producer: producer.to_owned(),
        grace_period_seconds: None,
        suppress_deletion: None,
        preserved_label_state: BTreeMap::new(),
        creation_timestamp: None,
        clusters_before_failover: Vec::new(),
        rest: serde_json::Map::new(),
    }
}

impl ApplicationFailure {
    /// Returns when to look again, and the clusters in which the workload has been unhealthy for too long.
    fn overdue(
        &self,
        key: &BindingKey,
        spec: &ResourceBindingSpec,
        statuses: &[AggregatedStatus],
        toleration: Duration,
    ) -> (Option<Duration>, Vec<ClusterName>) {
        let mut timers = self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner);
        let timers = timers.entry(key.clone()).or_default();
        let (mut again, mut overdue) = (None, Vec::new());
        for status in statuses {
            let cluster = &status.cluster_name;
            if status.health != Some(Health::Unhealthy) || is_leaving(spec, cluster) {
                continue;
            }
            let left = match timers.get(cluster.as_str()) {
                None => {
                    timers.insert(cluster.to_string(), Instant::now());
                    toleration
                }
                Some(since) if since.elapsed() >= toleration => {
                    overdue.push(cluster.clone());
                    continue;
                }
                // Karmada counts in whole seconds.
                Some(since) => toleration.saturating_sub(Duration::from_secs(since.elapsed().as_secs())),
            };
            again = Some(again.map_or(left, |again: Duration| again.min(left)));
        }
        (again.filter(|again| !again.is_zero()), overdue)
    }

    fn task(
        &self,
        key: &BindingKey,
        binding: &ResourceBinding,
        failover: &ApplicationFailover,
        cluster: &ClusterName,
    ) -> Result<EvictionTask, Status> {
        let producer = if key.namespace.is_some() {
            PRODUCER
        } else {
            CLUSTER_PRODUCER
        };
        let mut task = task_of(&binding.spec, cluster, "ApplicationFailure", producer);
        task.purge_mode = Some(failover.purge_mode);
        if self.manager.context.features.state_injection
            && let Some(preservation) = failover
                .state_preservation
                .as_ref()
                .filter(|state| !state.rules.is_empty())
        {
            task.preserved_label_state =
                preserved_state(preservation, aggregated(binding), cluster.as_str())?;
            task.clusters_before_failover = binding
                .spec
                .clusters
                .iter()
                .map(|target| target.name.clone())
                .collect();
        }
        match failover.purge_mode {
            PurgeMode::Gracefully | PurgeMode::Graciously => {
                task.grace_period_seconds = failover.grace_period_seconds;
            }
            PurgeMode::Never => task.suppress_deletion = Some(true),
            PurgeMode::Directly | PurgeMode::Immediately => {}
        }
        Ok(task)
    }

    /// Stops the timers of clusters that the workload has left, or in which it is well.
    fn tidy(
        &self,
        key: &BindingKey,
        spec: &ResourceBindingSpec,
        statuses: &[AggregatedStatus],
        evicted: &[ClusterName],
    ) {
        let mut present: BTreeSet<&str> = spec.clusters.iter().map(|target| target.name.as_str()).collect();
        present.retain(|name| !evicted.iter().any(|cluster| cluster.as_str() == *name));
        let well = |name: &str| {
            statuses.iter().any(|status| {
                status.cluster_name.as_str() == name
                    && matches!(status.health, Some(Health::Healthy | Health::Unknown))
            })
        };
        let mut timers = self.unhealthy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(timers) = timers.get_mut(key) {
            timers.retain(|name, _| present.contains(name.as_str()) && !well(name));
        }
    }

    fn forget(&self, key: &BindingKey) -> Option<Duration> {
        self.unhealthy
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
        None
    }
}

/// Ends eviction tasks: confirmed, too old, or the workload is healthy wherever it is scheduled now.
struct Eviction {
    manager: Manager,
}

impl Controller for Eviction {
    type Key = BindingKey;

    async fn reconcile(&self, key: &BindingKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.spend(self.manager.context.latencies.evict).await;
        let Some(object) = self
            .manager
            .binding(key)
            .filter(|binding| !objects::is_terminating(binding))
        else {
            return Ok(None);
        };
        let binding = read_binding(&object)?;
        let (now, settled) = (self.manager.context.clock.now(), is_settled(&object, &binding));
        let mut kept = Vec::new();
        for task in &binding.spec.graceful_eviction_tasks {
            let mut task = task.clone();
            if task.creation_timestamp.is_none() {
                // The API keeps whole seconds.
                let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
                task.creation_timestamp = Some(now.into());
                kept.push(task);
            } else if is_kept(&task, now, settled) {
                kept.push(task);
            }
        }
        let again = next_look(&kept, now);
        if kept == binding.spec.graceful_eviction_tasks {
            return Ok(again);
        }
        let tasks = serde_json::to_value(&kept).map_err(|error| Status::internal(error.to_string()))?;
        let tasks = if kept.is_empty() { Value::Null } else { tasks };
        let version = objects::text(&object, "/metadata/resourceVersion");
        let patch =
            json!({"metadata": {"resourceVersion": version}, "spec": {"gracefulEvictionTasks": tasks}});
        self.manager.context.merge(key.resource(), &object, patch)?;
        Ok(again)
    }
}

/// Tells whether the scheduler has seen the binding as it is, and the workload is healthy in all of its clusters.
fn is_settled(object: &Value, binding: &ResourceBinding) -> bool {
    let seen = binding
        .status
        .as_ref()
        .map_or(0, |status| status.scheduler_observed_generation);
    seen == objects::generation(object)
        && binding.spec.clusters.iter().all(|target| {
            let status = aggregated(binding)
                .iter()
                .find(|status| status.cluster_name == target.name);
            status.is_some_and(|status| status.health == Some(Health::Healthy))
        })
}

fn is_kept(task: &EvictionTask, now: Timestamp, settled: bool) -> bool {
    match task.suppress_deletion {
        Some(suppressed) => suppressed,
        None => !settled && left(task, now).is_some_and(|left| !left.is_zero()),
    }
}

/// Returns the time until a task ends by itself.
fn left(task: &EvictionTask, now: Timestamp) -> Option<Duration> {
    let begun = task.creation_timestamp.as_ref()?.0;
    let seconds = task
        .grace_period_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let timeout = seconds.map_or(EVICTION_TIMEOUT, Duration::from_secs);
    let passed = Duration::try_from(now.duration_since(begun)).unwrap_or_default();
    Some(timeout.saturating_sub(passed))
}

fn next_look(tasks: &[EvictionTask], now: Timestamp) -> Option<Duration> {
    let timed = tasks.iter().filter(|task| task.suppress_deletion.is_none());
    timed
        .filter_map(|task| left(task, now))
        .min()
        .filter(|left| !left.is_zero())
}
