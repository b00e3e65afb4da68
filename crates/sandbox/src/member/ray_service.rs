//! A simulator of `KubeRay`'s operator of `RayService`s, and of the `RayCluster`s that it makes for them.
//!
//! After ray-project/kuberay@v1.7.0, ray-operator/controllers/ray/rayservice_controller.go (`handleSuspend`,
//! `deleteRayServiceOwnedResources`, `shouldPrepareNewCluster`, `reconcilePromotionAndServingStatus`, `cleanUpRayClusterInstance`).
//! Another `rayClusterConfig` is another `RayCluster` beside the one that serves, which goes a while after the new one serves. Suspended is
//! written when the `RayCluster` objects are gone: their pods are collected after that. Of all this no object is made but the pods.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::cache::Key;
use super::frame::{Beginning, Id, Life, Told};
use super::pod_set::{Conditions, Labels, PodSet};
use super::{Context, PodView, Timings, later};
use crate::ledger::{Group, Origin};

const SUSPENDING: &str = "Suspending";
const SUSPENDED: &str = "Suspended";
const READY: &str = "Ready";
const UPGRADE: &str = "UpgradeInProgress";

/// What of a spec the operator acts on.
#[derive(Debug)]
pub struct Seen {
    name: String,
    generation: i64,
    suspend: bool,
    /// Tells configurations apart.
    config: String,
    /// The labels of the template of each pod: of the head, then of the workers.
    pods: Vec<Labels>,
    /// How long a `RayCluster` stays when another one serves.
    deletion_delay: Duration,
}

/// A `RayCluster` of the service.
#[derive(Debug)]
struct Cluster {
    name: String,
    config: String,
    /// Whether its object is there; its pods go later.
    exists: bool,
    /// When it is deleted, since another one serves.
    leaves_at: Option<Timestamp>,
    pods: PodSet,
}

/// One `RayService` as a function of time.
#[derive(Debug, Default)]
pub struct RayService {
    clusters: Vec<Cluster>,
    made: u32,
    active: String,
    pending: String,
    endpoints: usize,
    conditions: Conditions,
    observed: i64,
    shown: Value,
    again: Option<Timestamp>,
}

impl RayService {
    fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.clusters.iter().find(|one| one.exists && one.name == name)
    }

    /// What the operator of `RayCluster`s does, and the garbage collector.
    fn run_clusters(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        let ready_at = later(now, timings.pod_start);
        for cluster in &mut self.clusters {
            cluster.pods.settle(now);
            if !cluster.exists {
                cluster.pods.end(later(now, timings.teardown), |_| true);
                continue;
            }
            for (n, labels) in seen.pods.iter().enumerate() {
                let mut labels = labels.clone();
                labels.insert("ray.io/cluster".to_owned(), cluster.name.clone());
                let name = format!("{}-{n}", cluster.name);
                cluster.pods.make(&name, labels, ready_at);
            }
        }
        self.clusters
            .retain(|cluster| cluster.exists || !cluster.pods.is_empty());
    }

    /// Deletes `RayCluster`s that neither serve nor are about to, when it is time.
    fn clean_up(&mut self, seen: &Seen, now: Timestamp) {
        for cluster in &mut self.clusters {
            if cluster.name == self.active || cluster.name == self.pending {
                continue;
            }
            let leaves_at = *cluster
                .leaves_at
                .get_or_insert_with(|| later(now, seen.deletion_delay));
            cluster.exists &= leaves_at > now;
        }
    }

    /// Returns whether a suspension is all that there is to do.
    fn handle_suspend(&mut self, seen: &Seen, now: Timestamp) -> bool {
        let conditions = &mut self.conditions;
        if conditions.holds(SUSPENDED) {
            if seen.suspend {
                return true;
            }
            self.observed = seen.generation;
            conditions.set(SUSPENDED, false, "Resumed", now);
            conditions.set(READY, false, "Initializing", now);
            conditions.set(UPGRADE, false, "Initializing", now);
            return false;
        }
        if !conditions.holds(SUSPENDING) {
            if !seen.suspend {
                return false;
            }
            // What was served by is forgotten before anything is deleted.
            self.observed = seen.generation;
            conditions.set(SUSPENDING, true, "SuspendRequested", now);
            conditions.set(READY, false, "SuspendInProgress", now);
            conditions.set(UPGRADE, false, "SuspendInProgress", now);
            self.active.clear();
            self.pending.clear();
            self.endpoints = 0;
            return true;
        }
        // Once it has begun, it goes on to its end whatever the spec says.
        let mut all_deleted = true;
        for cluster in &mut self.clusters {
            all_deleted &= !cluster.exists;
            cluster.exists = false;
        }
        if all_deleted {
            conditions.set(SUSPENDING, false, "SuspendComplete", now);
            conditions.set(SUSPENDED, true, "SuspendComplete", now);
            conditions.set(READY, false, "SuspendComplete", now);
            conditions.set(UPGRADE, false, "SuspendComplete", now);
        } else {
            conditions.set(SUSPENDING, true, "SuspendInProgress", now);
        }
        true
    }

    fn serve(&mut self, seen: &Seen, now: Timestamp) {
        self.observed = seen.generation;
        let all_ready = |cluster: &Cluster| cluster.pods.ready(now) == seen.pods.len();
        if self.cluster(&self.pending).is_some_and(all_ready) {
            self.active = std::mem::take(&mut self.pending);
        }
        let latest = self.cluster(&self.pending).or_else(|| self.cluster(&self.active));
        if latest.is_none_or(|latest| latest.config != seen.config) {
            self.made += 1;
            self.pending = format!("{}-{}", seen.name, self.made);
            self.clusters.push(Cluster {
                name: self.pending.clone(),
                config: seen.config.clone(),
                exists: true,
                leaves_at: None,
                pods: PodSet::default(),
            });
        }
        let active = self.cluster(&self.active);
        self.endpoints = active.map_or(0, |active| active.pods.ready(now));
        if self.endpoints > 0 {
            self.conditions.set(READY, true, "NonZeroServeEndpoints", now);
        } else if self.conditions.holds(READY) {
            self.conditions.set(READY, false, "ZeroServeEndpoints", now);
        } else {
            self.conditions.set(READY, false, "Initializing", now);
        }
        let (upgrades, reason) = match (self.active.is_empty(), self.pending.is_empty()) {
            (true, _) => (false, "Initializing"),
            (false, true) => (false, "NoPendingCluster"),
            (false, false) => (true, "BothActivePendingClustersExist"),
        };
        self.conditions.set(UPGRADE, upgrades, reason, now);
    }

    fn status(&self) -> Value {
        let is_ready = self.conditions.holds(READY);
        json!({
            "observedGeneration": self.observed, "serviceStatus": if is_ready { "Running" } else { "" },
            "numServeEndpoints": self.endpoints, "conditions": self.conditions.shown(),
            "activeServiceStatus": {"rayClusterName": self.active},
            "pendingServiceStatus": {"rayClusterName": self.pending},
        })
    }

    fn step(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        self.run_clusters(seen, timings, now);
        self.clean_up(seen, now);
        if !self.handle_suspend(seen, now) {
            self.serve(seen, now);
        }
        let fresh = self.status();
        if fresh != self.shown {
            self.shown = fresh;
            self.again = Some(later(now, timings.progress_check));
        }
    }
}

/// Returns the labels of the pods that a template stands for.
fn labels(group: &Value) -> Labels {
    let labels = group
        .pointer("/template/metadata/labels")
        .and_then(Value::as_object);
    let entries = labels.into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

impl Life for RayService {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        let spec = |pointer: &str| object.data.pointer(pointer);
        let config = spec("/spec/rayClusterConfig").unwrap_or(&Value::Null);
        let mut pods = vec![labels(config.get("headGroupSpec").unwrap_or(&Value::Null))];
        let groups = config.get("workerGroupSpecs").and_then(Value::as_array);
        for group in groups.into_iter().flatten() {
            let replicas = group.get("replicas").and_then(Value::as_u64).unwrap_or(0);
            for _ in 0..replicas {
                pods.push(labels(group));
            }
        }
        let delay = spec("/spec/rayClusterDeletionDelaySeconds").and_then(Value::as_u64);
        Seen {
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            suspend: spec("/spec/suspend") == Some(&Value::Bool(true)),
            config: config.to_string(),
            pods,
            deletion_delay: Duration::from_secs(delay.unwrap_or(60)),
        }
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.again = None;
        if let Some(seen) = seen {
            self.step(seen, &context.timings, now);
            return;
        }
        for cluster in &mut self.clusters {
            cluster.pods.settle(now);
            cluster.pods.end(later(now, context.timings.teardown), |_| true);
        }
        self.clusters.retain(|cluster| !cluster.pods.is_empty());
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        let clusters = self.clusters.iter();
        let changes = clusters.flat_map(|cluster| [Some(cluster.pods.next_change(now)), cluster.leaves_at]);
        let ahead = changes.chain([self.again]).flatten().filter(|at| *at > now);
        ahead.min().unwrap_or(Timestamp::MAX)
    }

    fn is_over(&self) -> bool {
        self.clusters.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.clusters.iter().any(|cluster| cluster.pods.ready(now) > 0)
    }

    fn beginning(&mut self, _: &Context, _: &Key, _: Timestamp) -> Beginning {
        Beginning {
            group: Group::Stateless,
            from: Origin::Empty,
            writes: 0,
        }
    }

    fn pods(&self, (): &(), id: &Id, now: Timestamp) -> Vec<PodView> {
        let clusters = self.clusters.iter();
        clusters.flat_map(|cluster| cluster.pods.views(id, now)).collect()
    }

    fn tell(&mut self, (): &(), _: Timestamp) -> Told {
        Told::status(self.shown.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn seen(suspend: bool, config: &str) -> Seen {
        Seen {
            name: "shop".to_owned(),
            generation: 1,
            suspend,
            config: config.to_owned(),
            pods: vec![Labels::new()],
            deletion_delay: Duration::from_mins(1),
        }
    }

    fn work(service: &mut RayService, seen: &Seen, from: i64, until: i64) {
        for millis in (from..until).step_by(10) {
            service.step(seen, &Timings::default(), at(millis));
        }
    }

    #[test]
    fn an_upgrade_keeps_two_clusters_and_a_suspension_ends_both() {
        let mut service = RayService::default();
        work(&mut service, &seen(false, "one"), 0, 1000);
        work(&mut service, &seen(false, "two"), 1000, 2000);
        assert_eq!((service.clusters.len(), service.active.as_str()), (2, "shop-2"));
        work(&mut service, &seen(true, "two"), 2000, 3000);
        assert!(service.clusters.is_empty() && service.conditions.holds(SUSPENDED));
    }

    #[test]
    fn it_says_suspended_while_its_pods_end_and_goes_on_to_the_end_once_it_has_begun() {
        let mut service = RayService::default();
        work(&mut service, &seen(false, "one"), 0, 1000);
        work(&mut service, &seen(true, "one"), 1000, 1040);
        assert!(service.conditions.holds(SUSPENDED) && service.can_write(at(1040)));
        let mut service = RayService::default();
        work(&mut service, &seen(false, "one"), 0, 1000);
        service.step(&seen(true, "one"), &Timings::default(), at(1000));
        service.step(&seen(false, "one"), &Timings::default(), at(1010));
        assert!(service.clusters.iter().all(|cluster| !cluster.exists));
    }
}
