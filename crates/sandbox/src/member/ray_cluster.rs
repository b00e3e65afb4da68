//! A simulator of `KubeRay`'s operator of `RayCluster`s.
//!
//! After ray-project/kuberay@v1.7.0, ray-operator/controllers/ray: `raycluster_controller.go` (`reconcilePods`, `calculateStatus`),
//! `utils/util.go` (`FindRayClusterSuspendStatus`) and `utils/consistency.go` (`InconsistentRayClusterStatus`). Each step of a
//! suspension is a condition that is written before the operator acts on it, and one that has begun goes on to its end. The state
//! follows only when all pods are there, or none. A status that would differ in its `observedGeneration` alone is not written.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::frame::{Id, Life, Told};
use super::pod_set::{self, Conditions, Labels, PodSet};
use super::{Context, PodView, Timings, later};

const SUSPENDING: &str = "RayClusterSuspending";
const SUSPENDED: &str = "RayClusterSuspended";
const PROVISIONED: &str = "RayClusterProvisioned";

/// What of a spec the operator acts on.
#[derive(Debug)]
pub struct Seen {
    name: String,
    generation: i64,
    suspend: Option<bool>,
    workers: usize,
}

/// How far a suspension is, by its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspension {
    No,
    Begun,
    Done,
}

/// One `RayCluster` as a function of time.
#[derive(Debug, Default)]
pub struct RayCluster {
    pods: PodSet,
    conditions: Conditions,
    state: Option<&'static str>,
    /// What the status shows, without its generation.
    shown: Value,
    observed: i64,
    again: Option<Timestamp>,
}

impl RayCluster {
    fn suspension(&self) -> Suspension {
        if self.conditions.holds(SUSPENDING) {
            Suspension::Begun
        } else if self.conditions.holds(SUSPENDED) {
            Suspension::Done
        } else {
            Suspension::No
        }
    }

    fn reconcile_pods(&mut self, seen: &Seen, asked: Suspension, timings: &Timings, now: Timestamp) {
        match asked {
            Suspension::Begun => self.pods.end(later(now, timings.teardown), |_| true),
            Suspension::No if seen.suspend != Some(true) => {
                let ready_at = later(now, timings.pod_start);
                let workers = (0..seen.workers).map(|n| format!("{}-worker-{n}", seen.name));
                for name in std::iter::once(head(&seen.name)).chain(workers) {
                    self.pods.make(&name, labels(&seen.name), ready_at);
                }
            }
            Suspension::No | Suspension::Done => {}
        }
    }

    fn calculate_status(&mut self, seen: &Seen, asked: Suspension, now: Timestamp) {
        let (all, ready) = (self.pods.len(), self.pods.ready(now));
        if all == seen.workers + 1 && ready == all {
            self.state = Some("ready");
        }
        let conditions = &mut self.conditions;
        match self.pods.is_ready(&head(&seen.name), now) {
            Some(true) => conditions.set("HeadPodReady", true, "HeadPodRunningAndReady", now),
            Some(false) => conditions.set("HeadPodReady", false, "ContainersNotReady", now),
            None => conditions.set("HeadPodReady", false, "HeadPodNotFound", now),
        }
        if !conditions.holds(PROVISIONED) && asked != Suspension::Done {
            let (holds, reason) = if all > 0 && ready == all {
                (true, "AllPodRunningAndReadyFirstTime")
            } else {
                (false, "RayClusterPodsProvisioning")
            };
            conditions.set(PROVISIONED, holds, reason, now);
        }
        match asked {
            Suspension::Begun if all == 0 => {
                conditions.set(PROVISIONED, false, "RayClusterPodsProvisioning", now);
                conditions.set(SUSPENDING, false, SUSPENDING, now);
                conditions.set(SUSPENDED, true, SUSPENDED, now);
            }
            // Without the field it stays suspended.
            Suspension::Done if seen.suspend == Some(false) => {
                conditions.set(SUSPENDED, false, SUSPENDED, now);
            }
            Suspension::Begun | Suspension::Done => {}
            Suspension::No => {
                conditions.set(SUSPENDED, false, SUSPENDED, now);
                conditions.set(SUSPENDING, seen.suspend == Some(true), SUSPENDING, now);
            }
        }
        if seen.suspend == Some(true) && all == 0 {
            self.state = Some("suspended");
        }
    }

    /// Returns the status without its generation.
    fn status(&self, seen: &Seen, now: Timestamp) -> Value {
        let workers = self.pods.ready(now).saturating_sub(1);
        json!({
            "state": self.state, "desiredWorkerReplicas": seen.workers, "readyWorkerReplicas": workers,
            "availableWorkerReplicas": workers, "conditions": self.conditions.shown(),
        })
    }
}

fn head(name: &str) -> String {
    format!("{name}-head")
}

fn labels(name: &str) -> Labels {
    pod_set::labels([("ray.io/cluster", name)])
}

impl Life for RayCluster {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        let spec = |pointer: &str| object.data.pointer(pointer);
        let groups = spec("/spec/workerGroupSpecs").and_then(Value::as_array);
        let replicas = |group: &Value| group.get("replicas").and_then(Value::as_u64).unwrap_or(0);
        let workers: u64 = groups.into_iter().flatten().map(replicas).sum();
        Seen {
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            suspend: spec("/spec/suspend").and_then(Value::as_bool),
            workers: usize::try_from(workers).unwrap_or(0),
        }
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.pods.settle(now);
        self.again = None;
        let Some(seen) = seen else {
            // The garbage collector ends what it owned.
            self.pods.end(later(now, context.timings.teardown), |_| true);
            return;
        };
        let asked = self.suspension();
        self.reconcile_pods(seen, asked, &context.timings, now);
        self.calculate_status(seen, asked, now);
        let fresh = self.status(seen, now);
        if fresh != self.shown {
            self.shown = fresh;
            self.observed = seen.generation;
            self.again = Some(later(now, context.timings.progress_check));
        }
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        let pods = self.pods.next_change(now);
        self.again.map_or(pods, |again| again.min(pods))
    }

    fn is_over(&self) -> bool {
        self.pods.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.pods.ready(now) > 0
    }

    fn pods(&self, (): &(), id: &Id, now: Timestamp) -> Vec<PodView> {
        self.pods.views(id, now)
    }

    fn tell(&mut self, (): &(), _: Timestamp) -> Told {
        let mut status = self.shown.clone();
        if let Some(fields) = status.as_object_mut() {
            fields.insert("observedGeneration".to_owned(), json!(self.observed));
        }
        Told::status(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn seen(generation: i64, suspend: Option<bool>) -> Seen {
        Seen {
            name: "lab".to_owned(),
            generation,
            suspend,
            workers: 1,
        }
    }

    /// Works on an object for a second, and returns the status it ends with.
    fn work(cluster: &mut RayCluster, seen: &Seen, from: i64) -> Value {
        let timings = Timings::default();
        for millis in (from..from + 1000).step_by(10) {
            cluster.pods.settle(at(millis));
            let asked = cluster.suspension();
            cluster.reconcile_pods(seen, asked, &timings, at(millis));
            cluster.calculate_status(seen, asked, at(millis));
        }
        cluster.status(seen, at(from + 1000))
    }

    #[test]
    fn a_suspension_ends_with_no_pods_and_a_resumption_needs_the_field() {
        let mut cluster = RayCluster::default();
        assert_eq!(work(&mut cluster, &seen(1, None), 0)["state"], "ready");
        assert_eq!(
            work(&mut cluster, &seen(2, Some(true)), 1000)["state"],
            "suspended"
        );
        assert!(cluster.pods.is_empty() && cluster.suspension() == Suspension::Done);
        work(&mut cluster, &seen(3, None), 2000);
        assert!(cluster.pods.is_empty(), "without the field it stays suspended");
        assert_eq!(work(&mut cluster, &seen(4, Some(false)), 3000)["state"], "ready");
    }

    #[test]
    fn a_resumed_one_says_suspended_until_its_pods_are_there() {
        let mut cluster = RayCluster::default();
        work(&mut cluster, &seen(1, Some(true)), 0);
        let resumed = seen(2, Some(false));
        cluster.calculate_status(&resumed, Suspension::Done, at(1000));
        cluster.reconcile_pods(&resumed, cluster.suspension(), &Timings::default(), at(1000));
        cluster.calculate_status(&resumed, Suspension::No, at(1000));
        assert_eq!(cluster.state, Some("suspended"));
        assert!(!cluster.conditions.holds(SUSPENDED) && !cluster.pods.is_empty());
    }
}
