//! A simulator of Numaflow's controller of `MonoVertex`.
//!
//! After numaproj/numaflow@v1.8.3, pkg/reconciler/monovertex/controller.go (`reconcile`, `orchestratePods`, `cleanUpPodsFromTo`): its
//! pods are told to end, and in the same pass the status says that it is paused, without replicas. The daemon runs on.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::frame::{Id, Life, Told};
use super::pod_set::{self, Conditions, Labels, PodSet};
use super::{Context, PodView, Timings, later};

/// What of a spec the controller acts on.
#[derive(Debug)]
pub struct Seen {
    name: String,
    generation: i64,
    is_paused: bool,
    replicas: usize,
}

/// One `MonoVertex` as a function of time.
#[derive(Debug, Default)]
pub struct MonoVertex {
    pods: PodSet,
    daemon: PodSet,
    conditions: Conditions,
    status: Value,
}

impl MonoVertex {
    fn step(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        let (name, ready_at) = (&seen.name, later(now, timings.pod_start));
        let daemon = labels(name, "mono-vertex-daemon");
        self.daemon.make(&format!("{name}-mv-daemon"), daemon, ready_at);
        let desired = if seen.is_paused { 0 } else { seen.replicas };
        let pods: Vec<String> = (0..desired).map(|n| format!("{name}-mv-{n}")).collect();
        let gone_at = later(now, timings.teardown);
        self.pods
            .scale(&pods, &labels(name, "mono-vertex"), ready_at, gone_at);
        let all_ready = self.pods.settled(now) == desired;
        self.conditions.set("Deployed", true, "Successful", now);
        self.conditions.set("DaemonHealthy", true, "Successful", now);
        let reason = if all_ready { "Running" } else { "Progressing" };
        self.conditions.set("PodsHealthy", all_ready, reason, now);
        self.status = json!({
            "observedGeneration": seen.generation, "phase": if seen.is_paused { "Paused" } else { "Running" },
            "replicas": desired, "desiredReplicas": desired, "conditions": self.conditions.shown(),
        });
    }
}

fn labels(name: &str, component: &str) -> Labels {
    pod_set::labels([
        ("numaflow.numaproj.io/mono-vertex-name", name),
        ("app.kubernetes.io/component", component),
        ("app.kubernetes.io/part-of", "numaflow"),
    ])
}

impl Life for MonoVertex {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        let spec = |pointer: &str| object.data.pointer(pointer);
        let phase = spec("/spec/lifecycle/desiredPhase").and_then(Value::as_str);
        let least = spec("/spec/scale/min").and_then(Value::as_u64);
        let least = least.and_then(|n| usize::try_from(n).ok());
        Seen {
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            is_paused: phase == Some("Paused"),
            replicas: least.unwrap_or(1),
        }
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.pods.settle(now);
        self.daemon.settle(now);
        if let Some(seen) = seen {
            self.step(seen, &context.timings, now);
            return;
        }
        let gone_at = later(now, context.timings.teardown);
        self.pods.end(gone_at, |_| true);
        self.daemon.end(gone_at, |_| true);
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        self.pods.next_change(now).min(self.daemon.next_change(now))
    }

    fn is_over(&self) -> bool {
        self.pods.is_empty() && self.daemon.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.pods.ready(now) > 0
    }

    fn pods(&self, (): &(), id: &Id, now: Timestamp) -> Vec<PodView> {
        let mut pods = self.pods.views(id, now);
        pods.extend(self.daemon.views(id, now));
        pods
    }

    fn tell(&mut self, (): &(), _: Timestamp) -> Told {
        Told::status(self.status.clone())
    }
}
