//! Simulators of what is held by its replicas, besides Deployments: `StatefulSet`, and the `Rollout` of Argo Rollouts.
//!
//! - After Kubernetes, `pkg/controller/statefulset/stateful_set_control.go` (`updateStatefulSet`, `computeReplicaStatus`), with pods in
//!   order: one comes when all before it are ready, and the last one goes first, each when the one after it is gone. Pods that end are
//!   counted until they are gone.
//! - After argoproj/argo-rollouts@v1.9.1, rollout/sync.go (`calculateBaseStatus`, `persistRolloutStatus`): pods that end are no longer
//!   counted, so that the status says none while they still do their work. `observedGeneration` is text.
//!
//! Neither has a template that changes, or volumes.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::cache::Key;
use super::frame::{Beginning, Id, Life, Told};
use super::pod_set::{Labels, PodSet};
use super::{Context, PodView, later};
use crate::ledger::{Group, Origin};

/// What of a spec the controllers act on.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    name: String,
    generation: i64,
    replicas: usize,
    labels: Labels,
}

impl Seen {
    fn of(object: &DynamicObject) -> Self {
        let replicas = object.data.pointer("/spec/replicas").and_then(Value::as_u64);
        let replicas = replicas.and_then(|n| usize::try_from(n).ok());
        let labels = object.data.pointer("/spec/template/metadata/labels");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        Self {
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            replicas: replicas.unwrap_or(1),
            labels: labels
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
        }
    }

    /// Returns what is left to do for one that is gone.
    fn ended(&self) -> Self {
        Self {
            replicas: 0,
            ..self.clone()
        }
    }

    fn pod(&self, ordinal: usize) -> String {
        format!("{}-{ordinal}", self.name)
    }
}

/// Null takes a number away that is zero, as the controllers omit it.
fn some(count: usize) -> Value {
    if count == 0 { Value::Null } else { json!(count) }
}

/// One `StatefulSet` as a function of time.
#[derive(Debug, Default)]
pub struct StatefulSet {
    seen: Seen,
    pods: PodSet,
}

impl Life for StatefulSet {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        Seen::of(&object)
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.seen = seen.cloned().unwrap_or_else(|| self.seen.ended());
        self.pods.settle(now);
        let (there, wanted) = (self.pods.len(), self.seen.replicas);
        if there > wanted {
            let last = self.seen.pod(there - 1);
            let gone_at = later(now, context.timings.teardown);
            self.pods.end(gone_at, |name| name == last);
        } else if there < wanted && self.pods.settled(now) == there {
            let ready_at = later(now, context.timings.pod_start);
            self.pods
                .make(&self.seen.pod(there), self.seen.labels.clone(), ready_at);
        }
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        self.pods.next_change(now)
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

    fn tell(&mut self, (): &(), now: Timestamp) -> Told {
        let (there, ready) = (self.pods.len(), self.pods.ready(now));
        let revision = format!("{}-1", self.seen.name);
        Told::status(json!({
            "observedGeneration": self.seen.generation, "replicas": there, "readyReplicas": some(ready),
            "availableReplicas": ready, "currentReplicas": some(there), "updatedReplicas": some(there),
            "currentRevision": revision, "updateRevision": revision, "collisionCount": 0,
        }))
    }
}

/// One Rollout of Argo Rollouts as a function of time.
#[derive(Debug, Default)]
pub struct Rollout {
    seen: Seen,
    pods: PodSet,
}

impl Life for Rollout {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        Seen::of(&object)
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.seen = seen.cloned().unwrap_or_else(|| self.seen.ended());
        self.pods.settle(now);
        let names: Vec<String> = (0..self.seen.replicas).map(|n| self.seen.pod(n)).collect();
        let ready_at = later(now, context.timings.pod_start);
        let gone_at = later(now, context.timings.teardown);
        self.pods.scale(&names, &self.seen.labels, ready_at, gone_at);
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        self.pods.next_change(now)
    }

    fn is_over(&self) -> bool {
        self.pods.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.pods.ready(now) > 0
    }

    fn beginning(&mut self, _: &Context, _: &Key, _: Timestamp) -> Beginning {
        Beginning {
            group: Group::Stateless,
            from: Origin::Empty,
            writes: 0,
        }
    }

    fn pods(&self, (): &(), id: &Id, now: Timestamp) -> Vec<PodView> {
        self.pods.views(id, now)
    }

    fn tell(&mut self, (): &(), now: Timestamp) -> Told {
        let (wanted, ready) = (self.seen.replicas, self.pods.settled(now));
        let phase = if ready == wanted { "Healthy" } else { "Progressing" };
        Told::status(json!({
            "observedGeneration": self.seen.generation.to_string(), "phase": phase,
            "replicas": some(wanted), "updatedReplicas": some(wanted),
            "readyReplicas": some(ready), "availableReplicas": some(ready),
            "currentPodHash": "1", "stableRS": "1",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn numbers_that_are_zero_are_left_out() {
        assert_eq!(some(0), Value::Null);
        assert_eq!(some(2), json!(2));
    }

    #[test]
    fn a_rollout_shows_no_replicas_while_its_pods_end() {
        let mut rollout = Rollout::default();
        let names = ["web-0".to_owned()];
        rollout.pods.scale(&names, &Labels::new(), at(100), at(200));
        rollout.pods.scale(&[], &Labels::new(), at(100), at(400));
        let status = rollout.tell(&(), at(300)).status;
        assert_eq!(status["replicas"], Value::Null);
        assert!(rollout.can_write(at(300)));
    }
}
