//! A simulator of Numaflow's controller of Pipelines.
//!
//! After numaproj/numaflow@v1.8.3, pkg/reconciler/pipeline/controller.go (`reconcile`, `isLifecycleChange`, `pausePipeline`,
//! `resumePipeline`, `buildVertices`). A pause ends the sources, writes an annotation, and lets the other vertices work off what is in
//! the buffers between them; when they are empty, or the grace is over, it ends those too. What lies in the buffers then stays in the
//! cluster: the ledger has it behind a handle that no other copy knows of. The annotation [`DRAINS`] says how many seconds the
//! buffers take.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::cache::Key;
use super::frame::{Beginning, Id, Life, Told};
use super::pod_set::{self, Conditions, Labels, PodSet};
use super::savepoints::Savepoint;
use super::{Context, PodView, Timings, later};
use crate::clock::seconds;
use crate::ledger::{Group, Origin};

/// How many seconds it takes to work off what is in the buffers, once the sources have ended.
pub const DRAINS: &str = "sandbox.cutover.dev/drains-in-seconds";

/// When the pause began.
const PAUSED_AT: &str = "numaflow.numaproj.io/pause-timestamp";

/// What of an object the controller acts on.
#[derive(Debug)]
pub struct Seen {
    name: String,
    generation: i64,
    is_paused: bool,
    grace: Duration,
    sources: Vec<String>,
    others: Vec<String>,
    drains_in: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Running,
    Pausing,
    Paused,
}

impl Phase {
    fn shown(self) -> Option<&'static str> {
        match self {
            Self::New => None,
            Self::Running => Some("Running"),
            Self::Pausing => Some("Pausing"),
            Self::Paused => Some("Paused"),
        }
    }
}

/// The desired phase of the vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vertices {
    sources_run: bool,
    others_run: bool,
}

/// One Pipeline as a function of time.
#[derive(Debug, Default)]
pub struct Pipeline {
    pods: PodSet,
    daemon: PodSet,
    phase: Phase,
    /// `None` until the vertices are made.
    vertices: Option<Vertices>,
    paused_at: Option<Timestamp>,
    sources_ended_at: Option<Timestamp>,
    is_drained: bool,
    /// Something was read since the buffers were empty.
    has_backlog: bool,
    conditions: Conditions,
    status: Value,
    again: Option<Timestamp>,
    /// Where the run that writes has begun: when, and after how many writes.
    began: Option<(Timestamp, u64)>,
    /// What lies in the buffers of this cluster alone: the handle, and how many writes it stands for.
    left: Option<(String, u64)>,
}

impl Pipeline {
    fn step(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        let is_change = seen.is_paused
            || matches!(self.phase, Phase::Pausing | Phase::Paused)
            || self.paused_at.is_some();
        self.vertices.get_or_insert(Vertices {
            sources_run: !is_change,
            others_run: !is_change,
        });
        if !is_change {
            self.phase = Phase::Running;
        } else if seen.is_paused && self.phase != Phase::Paused {
            self.pause(seen, timings, now);
        } else if !seen.is_paused && self.phase != Phase::Running {
            self.resume();
        }
        self.run_vertices(seen, timings, now);
        self.tell_status(seen, now);
    }

    fn pause(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        self.phase = Phase::Pausing;
        self.again = Some(later(now, timings.reconcile_interval));
        let Some(paused_at) = self.paused_at else {
            self.vertices = Some(Vertices {
                sources_run: false,
                others_run: self.vertices.is_some_and(|vertices| vertices.others_run),
            });
            self.paused_at = Some(now);
            return;
        };
        let sources_ended = seen
            .sources
            .iter()
            .all(|source| self.pods.is_ready(source, now).is_none());
        if sources_ended {
            self.sources_ended_at.get_or_insert(now);
        }
        let is_drained = self
            .sources_ended_at
            .is_some_and(|ended| !self.has_backlog || later(ended, seen.drains_in) <= now);
        if is_drained || later(paused_at, seen.grace) < now {
            self.vertices = Some(Vertices {
                sources_run: false,
                others_run: false,
            });
            self.phase = Phase::Paused;
            self.is_drained |= is_drained;
            self.has_backlog &= !is_drained;
            self.again = None;
        }
    }

    /// Takes the annotation away before anything else.
    fn resume(&mut self) {
        self.paused_at = None;
        self.sources_ended_at = None;
        self.vertices = Some(Vertices {
            sources_run: true,
            others_run: true,
        });
        self.is_drained = false;
        self.phase = Phase::Running;
    }

    fn run_vertices(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        let ready_at = later(now, timings.pod_start);
        let daemon = labels(&seen.name, "daemon", "daemon");
        self.daemon
            .make(&format!("{}-daemon", seen.name), daemon, ready_at);
        let Some(vertices) = self.vertices else {
            return;
        };
        let gone_at = later(now, timings.teardown);
        for (names, run) in [
            (&seen.sources, vertices.sources_run),
            (&seen.others, vertices.others_run),
        ] {
            for name in names {
                if run {
                    self.pods.make(name, labels(&seen.name, "vertex", name), ready_at);
                } else {
                    self.pods.end(gone_at, |pod| pod == name);
                }
            }
        }
        let reads = |source: &String| self.pods.is_ready(source, now) == Some(true);
        self.has_backlog |= seen.sources.iter().any(reads);
    }

    fn tell_status(&mut self, seen: &Seen, now: Timestamp) {
        let healthy = ["Configured", "Deployed", "DaemonServiceHealthy"];
        for kind in healthy {
            self.conditions.set(kind, true, "Successful", now);
        }
        self.conditions
            .set("SideInputsManagersHealthy", true, "NoSideInputs", now);
        let vertices = [&seen.sources, &seen.others].into_iter().flatten();
        let all_ready = vertices
            .map(|name| self.pods.is_ready(name, now))
            .all(|ready| ready != Some(false));
        let reason = if all_ready { "Successful" } else { "Progressing" };
        self.conditions.set("VerticesHealthy", all_ready, reason, now);
        self.status = json!({
            "observedGeneration": seen.generation, "phase": self.phase.shown(),
            "drainedOnPause": self.is_drained.then_some(true), "conditions": self.conditions.shown(),
        });
    }

    /// The place in the sources up to which all is done, wherever it was done.
    fn source(key: &Key) -> String {
        format!("numaflow/{}/{}", key.0, key.1)
    }
}

fn labels(name: &str, component: &str, vertex: &str) -> Labels {
    pod_set::labels([
        ("numaflow.numaproj.io/pipeline-name", name),
        ("numaflow.numaproj.io/vertex-name", vertex),
        ("app.kubernetes.io/component", component),
        ("app.kubernetes.io/part-of", "numaflow"),
    ])
}

impl Life for Pipeline {
    type Operator = ();
    type Seen = Seen;
    const ANNOTATION: Option<&'static str> = Some(PAUSED_AT);

    fn see(object: DynamicObject) -> Seen {
        let spec = |pointer: &str| object.data.pointer(pointer);
        let phase = spec("/spec/lifecycle/desiredPhase").and_then(Value::as_str);
        let grace = spec("/spec/lifecycle/pauseGracePeriodSeconds").and_then(Value::as_u64);
        let drains = object.annotations().get(DRAINS);
        let drains = drains.and_then(|text| text.parse().ok()).unwrap_or(0);
        let name = object.name_any();
        let (mut sources, mut others) = (Vec::new(), Vec::new());
        let vertices = spec("/spec/vertices").and_then(Value::as_array);
        for vertex in vertices.into_iter().flatten() {
            let part = vertex.get("name").and_then(Value::as_str).unwrap_or("vertex");
            let full = format!("{name}-{part}");
            if vertex.get("source").is_some() {
                sources.push(full);
            } else {
                others.push(full);
            }
        }
        Seen {
            generation: object.metadata.generation.unwrap_or_default(),
            is_paused: phase == Some("Paused"),
            grace: Duration::from_secs(grace.unwrap_or(30)),
            sources,
            others,
            drains_in: Duration::from_secs(drains),
            name,
        }
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.pods.settle(now);
        self.daemon.settle(now);
        self.again = None;
        if let Some(seen) = seen {
            self.step(seen, &context.timings, now);
            return;
        }
        let gone_at = later(now, context.timings.teardown);
        self.pods.end(gone_at, |_| true);
        self.daemon.end(gone_at, |_| true);
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        let pods = self.pods.next_change(now).min(self.daemon.next_change(now));
        self.again.map_or(pods, |again| again.min(pods))
    }

    fn is_over(&self) -> bool {
        self.pods.is_empty() && self.daemon.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.pods.ready(now) > 0
    }

    fn beginning(&mut self, context: &Context, key: &Key, now: Timestamp) -> Beginning {
        let done = context.savepoints.get(&Self::source(key));
        let done = done.map(|done| (done.job_id, done.records));
        let (from, writes) = match self.left.take().or(done) {
            Some((handle, writes)) => (Origin::Handle(handle), writes),
            None => (Origin::Empty, 0),
        };
        self.began = Some((now, writes));
        Beginning {
            group: Group::Stateful,
            from,
            writes,
        }
    }

    fn ending(&mut self, context: &Context, key: &Key, now: Timestamp) -> Option<(String, u64)> {
        let (began, before) = self.began.take()?;
        let wrote = u64::try_from(now.duration_since(began).as_millis()).unwrap_or(0);
        let writes = before + wrote;
        let cluster = context.cluster.as_str();
        let handle = format!("{} by {cluster} at {now}", Self::source(key));
        if self.has_backlog {
            let handle = format!("buffers of {handle}");
            self.left = Some((handle.clone(), writes));
            return Some((handle, writes));
        }
        let done = Savepoint {
            job_id: handle.clone(),
            records: writes,
            taken_at: now,
        };
        context.savepoints.put(&Self::source(key), done);
        Some((handle, writes))
    }

    fn pods(&self, (): &(), id: &Id, now: Timestamp) -> Vec<PodView> {
        let mut pods = self.pods.views(id, now);
        pods.extend(self.daemon.views(id, now));
        pods
    }

    fn tell(&mut self, (): &(), _: Timestamp) -> Told {
        Told {
            status: self.status.clone(),
            annotation: self.paused_at.map(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn seen(is_paused: bool, grace: u64, drains_in: u64) -> Seen {
        Seen {
            name: "copy".to_owned(),
            generation: 1,
            is_paused,
            grace: Duration::from_secs(grace),
            sources: vec!["copy-in".to_owned()],
            others: vec!["copy-out".to_owned()],
            drains_in: Duration::from_secs(drains_in),
        }
    }

    /// Works on an object, and returns its phase, whether it is drained, and how many of its vertices run.
    fn work(pipeline: &mut Pipeline, seen: &Seen, from: i64, until: i64) -> (Phase, bool, usize) {
        for millis in (from..until).step_by(50) {
            pipeline.pods.settle(at(millis));
            pipeline.step(seen, &Timings::default(), at(millis));
        }
        (
            pipeline.phase,
            pipeline.is_drained,
            pipeline.pods.ready(at(until)),
        )
    }

    #[test]
    fn a_pause_lets_the_others_work_off_what_the_sources_have_read() {
        let mut pipeline = Pipeline::default();
        let running = work(&mut pipeline, &seen(false, 30, 2), 0, 1000);
        assert_eq!(running, (Phase::Running, false, 2));
        let pausing = work(&mut pipeline, &seen(true, 30, 2), 1000, 2500);
        assert_eq!(pausing, (Phase::Pausing, false, 1));
        let paused = work(&mut pipeline, &seen(true, 30, 2), 2500, 4500);
        assert_eq!(paused, (Phase::Paused, true, 0));
        let resumed = work(&mut pipeline, &seen(false, 30, 2), 4500, 5500);
        assert_eq!(resumed, (Phase::Running, false, 2));
        assert_eq!(pipeline.paused_at, None);
    }

    #[test]
    fn a_pause_whose_grace_is_over_leaves_what_is_in_the_buffers() {
        let mut pipeline = Pipeline::default();
        work(&mut pipeline, &seen(false, 1, 60), 0, 1000);
        let paused = work(&mut pipeline, &seen(true, 1, 60), 1000, 4000);
        assert_eq!(paused, (Phase::Paused, false, 0));
        assert!(pipeline.has_backlog);
    }

    #[test]
    fn one_that_is_born_paused_has_nothing_to_drain() {
        let mut pipeline = Pipeline::default();
        let paused = work(&mut pipeline, &seen(true, 30, 60), 0, 1000);
        assert_eq!(paused, (Phase::Paused, true, 0));
    }
}
