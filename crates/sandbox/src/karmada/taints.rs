//! The taint manager: a cluster with a `NoExecute` taint loses the workloads that don't tolerate it.
//!
//! What a workload tolerates it reads from one annotation of the binding, the placement that the scheduler last used.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::failover::{evict, preserved_state, task_of};
use super::{BindingKey, Manager, objects, read_binding};
use crate::api::{Object, Status};
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::APPLIED_PLACEMENT;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, Placement, PurgeMode, ResourceBinding, Taint};

const NAME: &str = "taint-manager";

pub(super) fn start(manager: &Manager) {
    if !manager.context.features.no_execute_eviction {
        return;
    }
    let queue: Arc<Queue<Key>> = Queue::new();
    let clusters = (Arc::clone(&queue), manager.clone());
    manager.clusters.subscribe(move |change| {
        let (queue, manager) = &clusters;
        if change.new.is_some_and(|cluster| has_no_execute(cluster)) {
            for (key, _) in bindings_on(manager, &change.key.name) {
                queue.add(key);
            }
        }
    });
    for cache in [&manager.bindings, &manager.cluster_bindings] {
        let (queue, manager) = (Arc::clone(&queue), manager.clone());
        cache.subscribe(move |change| {
            // A workload that comes to a tainted cluster is looked at too.
            let Some(binding) = change.new.filter(|_| change.generation_changed()) else {
                return;
            };
            for cluster in clusters_of(binding) {
                if manager
                    .clusters
                    .get(None, &cluster)
                    .is_some_and(|cluster| has_no_execute(&cluster))
                {
                    queue.add(Key {
                        cluster,
                        binding: BindingKey::of(change.key),
                    });
                }
            }
        });
    }
    manager.context.run(
        NAME,
        &queue,
        TaintManager {
            manager: manager.clone(),
        },
    );
}

/// One workload in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cluster: String,
    binding: BindingKey,
}

fn has_no_execute(cluster: &Value) -> bool {
    let taints = cluster.pointer("/spec/taints").and_then(Value::as_array);
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["effect"] == "NoExecute")
}

fn clusters_of(binding: &Value) -> Vec<String> {
    let clusters = binding.pointer("/spec/clusters").and_then(Value::as_array);
    clusters
        .into_iter()
        .flatten()
        .map(|cluster| objects::text(cluster, "/name").to_owned())
        .collect()
}

fn bindings_on(manager: &Manager, cluster: &str) -> Vec<(Key, Object)> {
    let bindings = manager
        .bindings
        .list()
        .into_iter()
        .chain(manager.cluster_bindings.list());
    bindings
        .filter(|binding| clusters_of(binding).iter().any(|name| name == cluster))
        .map(|object| {
            let namespace = objects::namespace(&object).map(str::to_owned);
            let binding = BindingKey {
                namespace,
                name: objects::name(&object).to_owned(),
            };
            (
                Key {
                    cluster: cluster.to_owned(),
                    binding,
                },
                object,
            )
        })
        .collect()
}

struct TaintManager {
    manager: Manager,
}

impl Controller for TaintManager {
    type Key = Key;

    async fn reconcile(&self, key: &Key, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.spend(self.manager.context.latencies.evict).await;
        let Some(object) = self.manager.binding(&key.binding) else {
            return Ok(None);
        };
        if objects::is_terminating(&object) || !clusters_of(&object).contains(&key.cluster) {
            return Ok(None);
        }
        let Some(cluster) = self.manager.clusters.get(None, &key.cluster) else {
            return Ok(None);
        };
        let cluster = Cluster::deserialize(&*cluster).map_err(|error| Status::internal(error.to_string()))?;
        let text = objects::annotation(&object, APPLIED_PLACEMENT)
            .ok_or_else(|| Status::internal("the applied placement can not be empty"))?;
        let placement: Placement =
            serde_json::from_str(text).map_err(|error| Status::internal(error.to_string()))?;
        match self.tolerated(&cluster, &placement) {
            Tolerated::For(left) => Ok(Some(left)),
            Tolerated::Always => Ok(None),
            Tolerated::No => {
                let binding = read_binding(&object)?;
                self.evict(key, &object, &binding)?;
                Ok(None)
            }
        }
    }
}

enum Tolerated {
    No,
    For(Duration),
    Always,
}

impl TaintManager {
    fn tolerated(&self, cluster: &Cluster, placement: &Placement) -> Tolerated {
        let mut least: Option<Duration> = None;
        for taint in cluster
            .spec
            .taints
            .iter()
            .filter(|taint| taint.effect == "NoExecute")
        {
            let Some(toleration) = placement
                .cluster_tolerations
                .iter()
                .find(|toleration| toleration.tolerates(taint))
            else {
                return Tolerated::No;
            };
            if let Some(seconds) = toleration.toleration_seconds {
                let left = self.left(taint, seconds);
                least = Some(least.map_or(left, |least| least.min(left)));
            }
        }
        match least {
            None => Tolerated::Always,
            Some(left) if left.is_zero() => Tolerated::No,
            Some(left) => Tolerated::For(left),
        }
    }

    /// Returns how long a taint is still tolerated.
    fn left(&self, taint: &Taint, seconds: i64) -> Duration {
        let toleration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let passed = taint
            .time_added
            .as_ref()
            .map(|added| self.manager.context.clock.now().duration_since(added.0));
        let passed = passed
            .and_then(|passed| Duration::try_from(passed).ok())
            .unwrap_or_default();
        toleration.saturating_sub(passed)
    }

    fn evict(&self, key: &Key, object: &Object, binding: &ResourceBinding) -> Result<(), Status> {
        let failover = binding
            .spec
            .failover
            .as_ref()
            .and_then(|failover| failover.cluster.as_ref());
        let cluster = ClusterName::new(&*key.cluster);
        let mut task = task_of(&binding.spec, &cluster, "TaintUntolerated", "TaintManager");
        task.purge_mode = Some(failover.map_or(PurgeMode::Gracefully, |failover| failover.purge_mode));
        if self.manager.context.features.state_injection
            && let Some(preservation) = failover
                .and_then(|failover| failover.state_preservation.as_ref())
                .filter(|preservation| !preservation.rules.is_empty())
        {
            let statuses = binding
                .status
                .as_ref()
                .map_or(&[][..], |status| &status.aggregated_status);
            task.preserved_label_state = preserved_state(preservation, statuses, &key.cluster)?;
        }
        let mut changed = (**object).clone();
        evict(&mut changed, &binding.spec, &task)?;
        self.manager
            .context
            .put(key.binding.resource(), changed)
            .map(drop)
    }
}
