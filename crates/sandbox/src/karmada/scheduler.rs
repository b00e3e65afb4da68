//! The scheduler: one first-in-first-out queue, one worker, a cache that lags.
//!
//! Suspension is a filter where events arrive and nowhere else: a binding that is queued already is scheduled once more,
//! and its merge patch, which has no resourceVersion, overwrites what others wrote to `spec.clusters` meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::placement::{Choice, Unchosen, choose, group_in_use, is_workload};
use super::{BindingKey, Context, Rate, kinds, objects, read_binding};
use crate::api::{Object, Patch, Status, Subresource};
use crate::faults::Pace;
use crate::informer::{Change, Informer};
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{APPLIED_PLACEMENT, CLAIMED_BY};
use cutover_karmada::{Cluster, Placement, ResourceBinding, TargetCluster};

const NAME: &str = "scheduler";
/// What a binding says when its policy names no scheduler.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

pub(super) fn start(context: &Context) {
    let queue: Arc<Queue<BindingKey>> = Queue::new();
    let bindings = context.cache(kinds::BINDINGS);
    let cluster_bindings = context.cache(kinds::CLUSTER_BINDINGS);
    let clusters = context.cache(kinds::CLUSTERS);
    for cache in [&bindings, &cluster_bindings] {
        let queue = Arc::clone(&queue);
        cache.subscribe(move |change| {
            // What stops being its own stays queued if it is.
            if !change.new.is_some_and(|new| is_mine(new)) {
                return;
            }
            let resumed = !change.old.is_some_and(|old| is_mine(old));
            if resumed || change.generation_changed() {
                queue.add(BindingKey::of(change.key));
            }
        });
    }
    let (queued, namespaced, global) = (Arc::clone(&queue), bindings.clone(), cluster_bindings.clone());
    clusters.subscribe(move |change| {
        for binding in namespaced.list().iter().chain(&global.list()) {
            if is_open(binding) && concerns(change, binding) {
                queued.add(BindingKey {
                    namespace: objects::namespace(binding).map(str::to_owned),
                    name: objects::name(binding).to_owned(),
                });
            }
        }
    });
    for cache in [&clusters, &bindings, &cluster_bindings] {
        context.feed(cache, "scheduler-cache", context.latencies.cache);
    }
    let limit = Limit::new(context.latencies.scheduler_rate);
    let scheduler = Scheduler {
        context: context.clone(),
        bindings,
        cluster_bindings,
        clusters,
        limit,
    };
    context.run(NAME, &queue, scheduler);
}

/// The event filter. A binding that no policy claims any more is left as it is.
fn is_mine(binding: &Value) -> bool {
    let claimed = CLAIMED_BY
        .into_iter()
        .any(|label| objects::label(binding, label).is_some_and(|id| !id.is_empty()));
    is_open(binding) && claimed
}

/// The only place where `suspension.scheduling` is looked at.
fn is_open(binding: &Value) -> bool {
    let name = objects::text(binding, "/spec/schedulerName");
    let suspended = binding.pointer("/spec/suspension/scheduling") == Some(&json!(true));
    matches!(name, "" | DEFAULT_SCHEDULER) && !suspended
}

/// A cluster whose spec or labels change, or that begins to go, concerns the bindings whose affinity means it, as it was or
/// as it is. One that joins concerns nobody.
fn concerns(change: &Change<'_>, binding: &Value) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return false;
    };
    let leaves = !objects::is_terminating(old) && objects::is_terminating(new);
    let labels = |cluster: &Value| objects::entries(cluster, "labels");
    if !leaves && !change.generation_changed() && labels(old) == labels(new) {
        return false;
    }
    let Ok(read) = read_binding(binding) else {
        return false;
    };
    let Some(placement) = &read.spec.placement else {
        return false;
    };
    let terms = &placement.cluster_affinities;
    if !terms.is_empty() && observed_generation(&read) != objects::generation(binding) {
        // Which group is in use isn't known yet.
        return true;
    }
    let group = terms.get(group_in_use(placement, observed_affinity(&read)));
    let affinity = group
        .map(|term| &term.affinity)
        .or(placement.cluster_affinity.as_ref());
    affinity.is_none_or(|affinity| {
        [old, new]
            .into_iter()
            .filter_map(|object| Cluster::deserialize(&**object).ok())
            .any(|cluster| affinity.matches(&cluster))
    })
}

fn observed_affinity(binding: &ResourceBinding) -> &str {
    let status = binding.status.as_ref();
    status.map_or("", |status| status.scheduler_observed_affinity_name.as_str())
}

fn observed_generation(binding: &ResourceBinding) -> i64 {
    let status = binding.status.as_ref();
    status.map_or(0, |status| status.scheduler_observed_generation)
}

struct Scheduler {
    context: Context,
    bindings: Informer,
    cluster_bindings: Informer,
    clusters: Informer,
    limit: Limit,
}

impl Controller for Scheduler {
    type Key = BindingKey;

    async fn reconcile(&self, key: &BindingKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        let cache = if key.namespace.is_some() {
            &self.bindings
        } else {
            &self.cluster_bindings
        };
        let Some(object) = cache.get(key.namespace.as_deref(), &key.name) else {
            return Ok(None);
        };
        let binding = read_binding(&object)?;
        if binding.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let Some(placement) = binding.spec.placement.clone() else {
            return Ok(None);
        };
        // What is decided is decided on what the cache says now; it is written when the work is done.
        let clusters = self.known_clusters();
        let choice = needs_scheduling(&object, &binding, &placement, &clusters)
            .then(|| choose_for(&placement, &binding, &clusters));
        pace.spend(self.context.latencies.schedule).await;
        match choice {
            None => self.observed(key, &object).await?,
            Some(Ok(choice)) => {
                self.write(key, &object, &binding, &placement, &choice.clusters)
                    .await?;
                self.scheduled(key, &object, &choice.affinity).await?;
            }
            // Where nothing fits, what was there goes; and it is not tried again until something changes.
            Some(Err(Unchosen::NoFit(why))) => {
                self.write(key, &object, &binding, &placement, &[]).await?;
                self.unscheduled(key, &object, "NoClusterFit", &why).await?;
            }
            // What was there stays, and it is tried again and again.
            Some(Err(Unchosen::Refused(why))) => {
                self.unscheduled(key, &object, "SchedulerError", &why).await?;
                return Err(Status::internal(why));
            }
        }
        Ok(None)
    }
}

/// Says whether there is anything to schedule. What isn't divided is looked at every time.
fn needs_scheduling(
    object: &Value,
    binding: &ResourceBinding,
    placement: &Placement,
    clusters: &[Cluster],
) -> bool {
    let spec = &binding.spec;
    let assigned: i32 = spec.clusters.iter().map(|target| target.replicas).sum();
    let leaving = |target: &TargetCluster| {
        clusters.iter().any(|cluster| {
            cluster.metadata.name.as_deref() == Some(target.name.as_str())
                && cluster.metadata.deletion_timestamp.is_some()
        })
    };
    placement_changed(object, placement, observed_affinity(binding))
        || !placement.divides()
        || assigned != spec.replicas
        || is_triggered(binding)
        || !is_workload(spec)
        || spec.clusters.iter().any(leaving)
}

/// A change of the groups counts only where it touches the group in use.
fn placement_changed(object: &Value, placement: &Placement, observed: &str) -> bool {
    let Some(text) = objects::annotation(object, APPLIED_PLACEMENT).filter(|text| !text.is_empty()) else {
        return true;
    };
    // What can't be read counts as unchanged.
    let Ok(applied) = serde_json::from_str::<Placement>(text) else {
        return false;
    };
    let same = applied.cluster_affinity == placement.cluster_affinity
        && applied.cluster_tolerations == placement.cluster_tolerations
        && applied.spread_constraints == placement.spread_constraints
        && applied.replica_scheduling == placement.replica_scheduling;
    if !same || applied == *placement {
        return !same;
    }
    let group = |placement: &Placement| {
        let terms = &placement.cluster_affinities;
        terms.iter().find(|term| term.affinity_name == observed).cloned()
    };
    let (before, now) = (group(&applied), group(placement));
    before.is_none() || before != now
}

/// Somebody asked for it after the last time that it was scheduled; what never was waits for its first time.
fn is_triggered(binding: &ResourceBinding) -> bool {
    let last = binding
        .status
        .as_ref()
        .and_then(|status| status.last_scheduled_time.as_ref());
    let triggered = binding.spec.reschedule_triggered_at.as_ref();
    triggered.is_some_and(|triggered| last.is_some_and(|last| triggered.0 > last.0))
}

fn choose_for(
    placement: &Placement,
    binding: &ResourceBinding,
    clusters: &[Cluster],
) -> Result<Choice, Unchosen> {
    let mut spec = binding.spec.clone();
    if is_triggered(binding) {
        // A rebalance forgets where the replicas were.
        spec.clusters.iter_mut().for_each(|target| target.replicas = 0);
    }
    choose(placement, &spec, observed_affinity(binding), clusters)
}

impl Scheduler {
    fn known_clusters(&self) -> Vec<Cluster> {
        let clusters = self.clusters.list();
        clusters
            .iter()
            .filter_map(|object| Cluster::deserialize(&**object).ok())
            .collect()
    }

    /// A merge patch of the difference to the *cached* binding, without a resourceVersion: what the cache already shows is
    /// not written, whatever others wrote meanwhile.
    async fn write(
        &self,
        key: &BindingKey,
        cached: &Object,
        binding: &ResourceBinding,
        placement: &Placement,
        clusters: &[TargetCluster],
    ) -> Result<(), Status> {
        let mut patch = json!({});
        let placement = serde_json::to_string(placement).unwrap_or_default();
        if objects::annotation(cached, APPLIED_PLACEMENT) != Some(&placement) {
            patch["metadata"] = json!({"annotations": {APPLIED_PLACEMENT: placement}});
        }
        if binding.spec.clusters != clusters {
            let listed = (!clusters.is_empty()).then_some(clusters);
            patch["spec"] = json!({"clusters": listed});
        }
        if patch == json!({}) {
            return Ok(());
        }
        self.limit.take().await;
        self.patch(key, None, patch)
    }

    /// The generation that is noted as observed is that of the cached binding, before the patch.
    async fn scheduled(&self, key: &BindingKey, cached: &Object, affinity: &str) -> Result<(), Status> {
        let mut status = status_of(cached);
        let now = self.context.time();
        let message = "Binding has been scheduled successfully.";
        objects::set_condition(&mut status, "Scheduled", "True", "Success", message, &now);
        status["schedulerObservedGeneration"] = json!(objects::generation(cached));
        status["lastScheduledTime"] = now;
        if !affinity.is_empty() {
            status["schedulerObservingAffinityName"] = json!(affinity);
        }
        self.write_status(key, cached, status).await
    }

    async fn unscheduled(
        &self,
        key: &BindingKey,
        cached: &Object,
        reason: &str,
        why: &str,
    ) -> Result<(), Status> {
        let mut status = status_of(cached);
        let now = self.context.time();
        objects::set_condition(&mut status, "Scheduled", "False", reason, why, &now);
        self.write_status(key, cached, status).await
    }

    /// There was nothing to schedule.
    async fn observed(&self, key: &BindingKey, cached: &Object) -> Result<(), Status> {
        let mut status = status_of(cached);
        status["schedulerObservedGeneration"] = json!(objects::generation(cached));
        self.write_status(key, cached, status).await
    }

    async fn write_status(&self, key: &BindingKey, cached: &Object, mut status: Value) -> Result<(), Status> {
        let known = status_of(cached);
        objects::fields(&mut status).retain(|field, value| known.get(field) != Some(value));
        if status == json!({}) {
            return Ok(());
        }
        self.limit.take().await;
        self.patch(key, Some(Subresource::Status), json!({"status": status}))
    }

    fn patch(&self, key: &BindingKey, part: Option<Subresource>, patch: Value) -> Result<(), Status> {
        let (server, writer) = (&self.context.control, self.context.writer());
        let patched = server.patch(
            key.resource(),
            key.namespace.as_deref(),
            &key.name,
            part,
            &Patch::Merge(patch),
            &writer,
        );
        match patched {
            // Gone meanwhile: its deletion is an event of its own.
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
            Ok(_) => Ok(()),
        }
    }
}

fn status_of(binding: &Value) -> Value {
    binding.get("status").cloned().unwrap_or_else(|| json!({}))
}

/// The client's limit of requests: what makes a backlog last.
struct Limit {
    rate: Rate,
    state: Mutex<(f64, Instant)>,
}

impl Limit {
    fn new(rate: Rate) -> Self {
        Self {
            rate,
            state: Mutex::new((f64::from(rate.burst), Instant::now())),
        }
    }

    async fn take(&self) {
        let wait = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let refilled =
                state.0 + now.duration_since(state.1).as_secs_f64() * f64::from(self.rate.per_second);
            *state = (refilled.min(f64::from(self.rate.burst)) - 1.0, now);
            (-state.0).max(0.0) / f64::from(self.rate.per_second)
        };
        if wait > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(wait)).await;
        }
    }
}
