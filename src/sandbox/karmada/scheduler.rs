//! The scheduler: one first-in-first-out queue, one worker, a cache that lags.
//!
//! Suspension is a filter where events arrive and nowhere else: a binding that is queued already is scheduled once more,
//! and its merge patch, which has no resourceVersion, overwrites what others wrote to `spec.clusters` meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::placement::{Choice, choose};
use super::{BindingKey, Context, Rate, kinds, objects, read_binding};
use crate::karmada::meta::APPLIED_PLACEMENT;
use crate::karmada::{Cluster, Placement, ResourceBinding};
use crate::sandbox::api::{Object, Patch, Status, Subresource};
use crate::sandbox::faults::Pace;
use crate::sandbox::informer::{Change, Informer};
use crate::sandbox::queue::{Controller, Queue};

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
            if let Some(new) = change.new
                && change.generation_changed()
                && is_mine(new)
            {
                queue.add(BindingKey::of(change.key));
            }
        });
    }
    let (queued, namespaced, global) = (Arc::clone(&queue), bindings.clone(), cluster_bindings.clone());
    clusters.subscribe(move |change| {
        if cluster_matters(change) {
            for binding in namespaced.list().iter().chain(&global.list()) {
                if is_mine(binding) {
                    queued.add(BindingKey {
                        namespace: objects::namespace(binding).map(str::to_owned),
                        name: objects::name(binding).to_owned(),
                    });
                }
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

/// The event filter: the only place where `suspension.scheduling` is looked at.
fn is_mine(binding: &Value) -> bool {
    let name = objects::text(binding, "/spec/schedulerName");
    let suspended = binding.pointer("/spec/suspension/scheduling") == Some(&json!(true));
    matches!(name, "" | DEFAULT_SCHEDULER) && !suspended && !objects::is_terminating(binding)
}

/// A cluster that comes, goes, or changes its spec or labels may change every placement.
fn cluster_matters(change: &Change<'_>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return true;
    };
    old["spec"] != new["spec"]
        || old["metadata"]["labels"] != new["metadata"]["labels"]
        || old.pointer("/status/apiEnablements") != new.pointer("/status/apiEnablements")
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
        let reason = why(&object, &binding, &placement);
        let choice = reason.map(|()| self.choose(&placement, &binding));
        pace.spend(self.context.latencies.schedule).await;
        match choice {
            None => self.observed(key, &object, None).await,
            Some(Ok(choice)) => {
                self.write(key, &object, &binding, &placement, &choice).await?;
                self.observed(key, &object, Some(Ok(&choice.affinity))).await
            }
            Some(Err(why)) => {
                self.observed(key, &object, Some(Err(&why))).await?;
                Err(Status::internal(why))
            }
        }?;
        Ok(None)
    }
}

/// Says whether there is anything to schedule. What isn't divided is looked at every time.
fn why(object: &Value, binding: &ResourceBinding, placement: &Placement) -> Option<()> {
    let applied: Option<Placement> =
        objects::annotation(object, APPLIED_PLACEMENT).and_then(|text| serde_json::from_str(text).ok());
    let placement_changed = applied.as_ref() != Some(placement);
    let assigned: i32 = binding.spec.clusters.iter().map(|target| target.replicas).sum();
    let divided = placement.divides() && binding.spec.replicas > 0;
    let scaled = if divided {
        assigned != binding.spec.replicas
    } else {
        binding
            .spec
            .clusters
            .iter()
            .any(|target| target.replicas != binding.spec.replicas)
    };
    let triggered = binding.spec.reschedule_triggered_at.as_ref();
    let last = binding
        .status
        .as_ref()
        .and_then(|status| status.last_scheduled_time.as_ref());
    let rescheduled = triggered.is_some_and(|triggered| last.is_none_or(|last| triggered.0 > last.0));
    (placement_changed || scaled || rescheduled || !divided).then_some(())
}

impl Scheduler {
    fn choose(&self, placement: &Placement, binding: &ResourceBinding) -> Result<Choice, String> {
        let clusters: Vec<Cluster> = self
            .clusters
            .list()
            .iter()
            .filter_map(|object| Cluster::deserialize(&**object).ok())
            .collect();
        let status = binding.status.as_ref();
        let group = status.map_or("", |status| status.scheduler_observed_affinity_name.as_str());
        let triggered = binding.spec.reschedule_triggered_at.is_some();
        let mut spec = binding.spec.clone();
        if triggered
            && status
                .and_then(|status| status.last_scheduled_time.as_ref())
                .is_some_and(|last| {
                    spec.reschedule_triggered_at
                        .as_ref()
                        .is_some_and(|triggered| triggered.0 > last.0)
                })
        {
            // A rebalance forgets where the replicas were.
            spec.clusters.iter_mut().for_each(|target| target.replicas = 0);
        }
        choose(placement, &spec, group, &clusters)
    }

    /// A merge patch of the difference to the *cached* binding, without a resourceVersion.
    async fn write(
        &self,
        key: &BindingKey,
        cached: &Object,
        binding: &ResourceBinding,
        placement: &Placement,
        choice: &Choice,
    ) -> Result<(), Status> {
        let placement = serde_json::to_string(placement).unwrap_or_default();
        let applied = objects::annotation(cached, APPLIED_PLACEMENT);
        if binding.spec.clusters == choice.clusters && applied == Some(placement.as_str()) {
            return Ok(());
        }
        self.limit.take().await;
        let patch = json!({
            "metadata": {"annotations": {APPLIED_PLACEMENT: placement}},
            "spec": {"clusters": choice.clusters},
        });
        self.patch(key, None, patch)
    }

    /// The generation that is noted as observed is that of the cached binding, before the patch.
    async fn observed(
        &self,
        key: &BindingKey,
        cached: &Object,
        result: Option<Result<&String, &String>>,
    ) -> Result<(), Status> {
        let mut status = cached.get("status").cloned().unwrap_or_else(|| json!({}));
        let now = self.context.time();
        if let Some(Err(why)) = result {
            objects::set_condition(&mut status, "Scheduled", "False", "NoClusterFit", why, &now);
        } else {
            status["schedulerObservedGeneration"] = json!(objects::generation(cached));
            let message = "Binding has been scheduled successfully.";
            objects::set_condition(&mut status, "Scheduled", "True", "Success", message, &now);
        }
        if let Some(Ok(affinity)) = result {
            if !affinity.is_empty() {
                status["schedulerObservingAffinityName"] = json!(affinity);
            }
            if status.get("lastScheduledTime").is_none()
                || cached["spec"].get("rescheduleTriggeredAt").is_some()
            {
                status["lastScheduledTime"] = now;
            }
        }
        if cached.get("status") == Some(&status) {
            return Ok(());
        }
        self.limit.take().await;
        let mut patch = json!({});
        for field in [
            "schedulerObservedGeneration",
            "schedulerObservingAffinityName",
            "lastScheduledTime",
            "conditions",
        ] {
            if let Some(value) = status.get(field) {
                patch[field] = value.clone();
            }
        }
        self.patch(key, Some(Subresource::Status), json!({"status": patch}))
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
