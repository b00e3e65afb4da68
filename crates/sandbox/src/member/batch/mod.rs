//! A simulator of operators of runs to completion, each with one pod that does the work: Kubernetes' Jobs, and what is built like them.
//!
//! What they have in common, after their sources: a suspension deletes the pods, and the status says so before they are gone; a
//! run that has ended is not suspended any more, and its pod stays; the state of a run is its own affair, here a store that every cluster reaches.
//! The annotation [`ENDS`] lets a run that is under way come to its end: `well` or `badly`; [`SUCCEEDED`] says how many completions a Job
//! has counted.

mod kinds;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

pub use self::kinds::{JOB, OTHERS, TRAININGS};
use super::frame::{Id, Life};
pub use super::kind::{COUNTER, CRON_JOB, Kind, SCALED, SERVICES};
use super::{Context, PodPhase, PodView, Timings, frame, later};
use crate::clock::seconds;

/// Lets a run come to its end.
pub const ENDS: &str = "sandbox.cutover.dev/ends";

/// How many completions a Job has counted.
pub const SUCCEEDED: &str = "sandbox.cutover.dev/succeeded";

/// How an operator of runs works.
#[derive(Debug)]
pub struct Rules {
    /// Where its spec says that it is to stop; a JSON pointer.
    suspend: &'static str,
    /// The label that tells its pods, with its name.
    label: &'static str,
    /// The pods beside the one that does the work.
    helpers: Option<Helpers>,
    status: fn(&Told) -> Value,
}

/// Pods that an operator makes and ends by itself, where it leaves the one that does the work to a Job: that one ends later.
#[derive(Debug)]
struct Helpers {
    count: u32,
    /// The label that tells which part a pod has, and its values: of the one that does the work, and of those beside it.
    role: &'static str,
    roles: [&'static str; 2],
}

/// What an operator tells in a status.
#[derive(Debug)]
struct Told {
    stage: Stage,
    /// The number of the run; 0: it never ran.
    run: u32,
    since: String,
    /// When the run began.
    began: Option<String>,
    /// How many completions were counted, if any.
    succeeded: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Suspended,
    Starting,
    Running,
    Ended { well: bool },
}

impl Told {
    fn condition(&self, kind: &str, holds: bool) -> Value {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": self.since})
    }

    /// Returns the condition that says how a run has ended; nothing before it has.
    fn end(&self, well: &str) -> Option<Value> {
        match self.stage {
            Stage::Ended { well: true } => Some(self.condition(well, true)),
            Stage::Ended { well: false } => Some(self.condition("Failed", true)),
            Stage::Suspended | Stage::Starting | Stage::Running => None,
        }
    }

    fn suspended(&self) -> Value {
        self.condition("Suspended", self.stage == Stage::Suspended)
    }

    fn suspended_or_ended(&self, well: &str) -> Vec<Value> {
        std::iter::once(self.suspended()).chain(self.end(well)).collect()
    }

    /// Returns what the status says of the Jobs of one name.
    fn replicated(&self, name: &str) -> Value {
        json!({
            "name": name, "ready": self.ready(), "active": self.active(), "failed": 0, "succeeded": 0,
            "suspended": u32::from(self.stage == Stage::Suspended),
        })
    }

    fn ready(&self) -> u32 {
        u32::from(self.stage == Stage::Running)
    }

    fn active(&self) -> u32 {
        u32::from(matches!(self.stage, Stage::Running | Stage::Starting))
    }

    fn one_of<T>(&self, suspended: T, starting: T, running: T, ended: [T; 2]) -> T {
        let [well, badly] = ended;
        match self.stage {
            Stage::Suspended => suspended,
            Stage::Starting => starting,
            Stage::Running => running,
            Stage::Ended { well: true } => well,
            Stage::Ended { well: false } => badly,
        }
    }
}

/// What an object asks of its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Run,
    Suspend,
    End { well: bool },
    Gone,
}

impl Order {
    fn of(object: &DynamicObject, rules: &Rules) -> Self {
        let is_suspended = object.data.pointer(rules.suspend) == Some(&Value::Bool(true));
        match object.annotations().get(ENDS).map(String::as_str) {
            _ if is_suspended => Self::Suspend,
            Some("well") => Self::End { well: true },
            Some("badly") => Self::End { well: false },
            _ => Self::Run,
        }
    }
}

/// One object's run as a function of time.
#[derive(Debug)]
pub struct Run {
    stage: Stage,
    since: Timestamp,
    count: u32,
    began: Option<Timestamp>,
    pod: Option<Pod>,
    succeeded: Option<u32>,
}

/// The pod that does the work, and those beside it.
#[derive(Clone, Copy, Debug)]
struct Pod {
    ready_at: Timestamp,
    gone_at: Option<Timestamp>,
    helpers_gone_at: Option<Timestamp>,
    /// How its container has ended.
    ended: Option<bool>,
}

impl Run {
    fn step(&mut self, order: Order, rules: &Rules, timings: &Timings, now: Timestamp) {
        self.pod = self.pod.filter(|pod| pod.gone_at.is_none_or(|gone| gone > now));
        let before = self.stage;
        let is_ready = self
            .pod
            .is_some_and(|pod| pod.gone_at.is_none() && pod.ready_at <= now);
        self.stage = match (order, before) {
            (Order::Gone | Order::Suspend, Stage::Suspended) | (Order::Gone, _) => Stage::Suspended,
            (_, Stage::Ended { well }) | (Order::End { well }, Stage::Running) => Stage::Ended { well },
            (Order::Suspend, _) => Stage::Suspended,
            (Order::Run | Order::End { .. }, _) if is_ready => Stage::Running,
            (Order::Run | Order::End { .. }, _) => Stage::Starting,
        };
        let has_pod = matches!(self.stage, Stage::Starting | Stage::Running);
        let soon = later(now, timings.teardown);
        match (&mut self.pod, self.stage) {
            (Some(pod), Stage::Ended { well }) => {
                pod.ended = Some(well);
                pod.helpers_gone_at.get_or_insert(soon);
            }
            (Some(pod), _) if !has_pod => {
                let by_a_job = rules.helpers.is_some();
                let at = if by_a_job {
                    later(soon, timings.teardown)
                } else {
                    soon
                };
                pod.gone_at.get_or_insert(at);
                pod.helpers_gone_at.get_or_insert(soon);
            }
            (None, _) if has_pod => {
                self.count += 1;
                self.began = Some(now);
                self.pod = Some(Pod {
                    ready_at: later(now, timings.pod_start),
                    gone_at: None,
                    helpers_gone_at: None,
                    ended: None,
                });
            }
            // The old pod has to be gone before another one of that name is made.
            (Some(_) | None, _) => {}
        }
        if before != self.stage || self.since == Timestamp::UNIX_EPOCH {
            self.since = now;
        }
    }

    fn told(&self, now: Timestamp) -> Told {
        let since = if self.since == Timestamp::UNIX_EPOCH {
            now
        } else {
            self.since
        };
        Told {
            stage: self.stage,
            run: self.count,
            since: seconds(since),
            began: self.began.map(seconds),
            succeeded: self.succeeded,
        }
    }
}

impl Life for Run {
    type Operator = &'static Rules;
    type Seen = DynamicObject;

    fn see(object: DynamicObject) -> DynamicObject {
        object
    }

    fn begin(_: &DynamicObject) -> Self {
        Self {
            stage: Stage::Suspended,
            since: Timestamp::UNIX_EPOCH,
            count: 0,
            began: None,
            pod: None,
            succeeded: None,
        }
    }

    fn advance(
        &mut self,
        rules: &mut &'static Rules,
        seen: Option<&DynamicObject>,
        context: &Context,
        now: Timestamp,
    ) {
        let rules: &Rules = rules;
        let order = seen.map_or(Order::Gone, |object| Order::of(object, rules));
        let succeeded = seen.and_then(|object| object.annotations().get(SUCCEEDED)?.parse().ok());
        self.succeeded = succeeded.or(self.succeeded);
        self.step(order, rules, &context.timings, now);
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        let changes = self
            .pod
            .iter()
            .flat_map(|pod| [Some(pod.ready_at), pod.gone_at, pod.helpers_gone_at]);
        let ahead = changes.flatten().filter(|at| *at > now);
        ahead.min().unwrap_or(Timestamp::MAX)
    }

    fn is_over(&self) -> bool {
        self.pod.is_none()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.pod
            .is_some_and(|pod| pod.ready_at <= now && pod.ended.is_none())
    }

    fn pods(&self, rules: &&'static Rules, ((namespace, name), uid): &Id, now: Timestamp) -> Vec<PodView> {
        let Some(pod) = self.pod else {
            return Vec::new();
        };
        let alive = if pod.ready_at <= now {
            PodPhase::Running
        } else {
            PodPhase::starting()
        };
        let own = format!("{name}-{}-{}", uid.get(..5).unwrap_or(uid), self.count);
        let view = |pod_name: String, part: usize, phase: PodPhase| {
            let role = rules.helpers.as_ref();
            let role = role.and_then(|helpers| Some((helpers.role, *helpers.roles.get(part)?)));
            let labels = [Some((rules.label, name.as_str())), role];
            PodView {
                restarts: 0,
                namespace: namespace.clone(),
                name: pod_name,
                labels: labels
                    .into_iter()
                    .flatten()
                    .map(|(label, value)| (label.to_owned(), value.to_owned()))
                    .collect(),
                container: "main".to_owned(),
                image: "run".to_owned(),
                phase,
            }
        };
        let main = pod
            .ended
            .map_or_else(|| alive.clone(), |well| PodPhase::Ended { well });
        let helpers = rules.helpers.as_ref().map_or(0, |helpers| helpers.count);
        let stay = pod.helpers_gone_at.is_none_or(|gone| gone > now);
        let beside = (0..helpers)
            .filter(|_| stay)
            .map(|n| view(format!("{own}-{n}"), 1, alive.clone()));
        std::iter::once(view(own.clone(), 0, main))
            .chain(beside)
            .collect()
    }

    fn tell(&mut self, rules: &&'static Rules, now: Timestamp) -> frame::Told {
        frame::Told::status((rules.status)(&self.told(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Operated;
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    /// Returns how many of the pods do their work, by the value of a label.
    fn at_work(run: &Run, rules: &'static Rules, millis: i64, part: &str) -> usize {
        let id = (("shop".to_owned(), "train".to_owned()), "uid".to_owned());
        let is_meant = |pod: &PodView| pod.labels.iter().any(|(_, value)| value == part);
        let pods = run.pods(&rules, &id, at(millis)).into_iter();
        pods.filter(|pod| is_meant(pod) && pod.phase == PodPhase::Running)
            .count()
    }

    #[test]
    fn the_launcher_of_an_mpi_job_outlives_its_workers() {
        let all: &'static [Kind] = &OTHERS;
        let kind = all.iter().find(|kind| kind.kind == "MPIJob").unwrap();
        let Operated::Run(rules) = &kind.operated else {
            panic!("{kind:?}");
        };
        let mut run = Run::begin(&DynamicObject::new("train", &kind.resource()));
        let step = |run: &mut Run, order: Order, millis: i64| {
            run.step(order, rules, &Timings::default(), at(millis));
            (rules.status)(&run.told(at(millis)))
        };
        step(&mut run, Order::Run, 0);
        step(&mut run, Order::Run, 100);
        assert_eq!(at_work(&run, rules, 100, "worker"), 2);
        let status = step(&mut run, Order::Suspend, 200);
        assert_eq!(status["conditions"][1]["status"], "True", "{status}");
        assert!(run.can_write(at(200)) && status["startTime"].is_string());
        step(&mut run, Order::Suspend, 450);
        let left = ["launcher", "worker"].map(|part| at_work(&run, rules, 450, part));
        assert_eq!(left, [1, 0]);
        step(&mut run, Order::Suspend, 600);
        assert!(run.is_over());
    }
}
