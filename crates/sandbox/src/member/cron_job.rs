//! A simulator of the controller of `CronJob`s, and of the Jobs that it creates, as far as they show: in its status, and by their pods.
//!
//! After Kubernetes 1.36, pkg/controller/cronjob (syncCronJob, mostRecentScheduleTime): the last tick that is due is run if it is younger than
//! `startingDeadlineSeconds` and than the last one that was run, or, where none was, than the object. A suspension lets no further one
//! begin, ends none, and writes nothing into the status. Pods that have ended stay. Of schedules it knows `* * * * *` and `*/N * * * *`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::frame::{Id, Life, Told};
use super::{Context, PodPhase, PodView, later};
use crate::clock::seconds;

/// An annotation of a `CronJob`: for how many seconds each of its Jobs runs.
pub const RUNS_FOR: &str = "sandbox.cutover.dev/runs-for";

const MINUTE: i64 = 60;

/// What of an object the controller acts on.
#[derive(Clone, Debug)]
pub struct Seen {
    name: String,
    created: Timestamp,
    is_suspended: bool,
    /// In seconds; nothing: it never comes due.
    every: Option<i64>,
    deadline: Option<i64>,
    runs_for: SignedDuration,
    labels: BTreeMap<String, String>,
}

impl Seen {
    /// Returns the tick that is due, if any.
    fn due(&self, last: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let every = self.every.filter(|_| !self.is_suspended)?;
        let tick = Timestamp::from_second(now.as_second() - now.as_second().rem_euclid(every)).ok()?;
        let since = last.unwrap_or(self.created);
        let deadline = self.deadline.map(SignedDuration::from_secs);
        let earliest = deadline.and_then(|deadline| now.checked_sub(deadline).ok());
        (tick > earliest.map_or(since, |earliest| earliest.max(since))).then_some(tick)
    }
}

/// Returns the seconds between two ticks of a schedule.
fn every(schedule: &str) -> Option<i64> {
    let minutes = match schedule.strip_suffix(" * * * *")? {
        "*" => 1,
        every => every.strip_prefix("*/")?.parse().ok()?,
    };
    (minutes > 0).then_some(minutes * MINUTE)
}

#[derive(Debug)]
struct Job {
    tick: Timestamp,
    ready_at: Timestamp,
    ends_at: Timestamp,
    gone_at: Option<Timestamp>,
}

impl Job {
    fn runs(&self, now: Timestamp) -> bool {
        self.ready_at <= now && self.ends_at > now
    }
}

/// One `CronJob` as a function of time.
#[derive(Debug)]
pub struct CronJob {
    seen: Seen,
    last: Option<Timestamp>,
    jobs: Vec<Job>,
}

impl CronJob {
    fn name(&self, job: &Job) -> String {
        format!("{}-{}", self.seen.name, job.tick.as_second() / MINUTE)
    }
}

impl Life for CronJob {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        let spec = &object.data["spec"];
        let labels = spec.pointer("/jobTemplate/spec/template/metadata/labels");
        let runs_for = object
            .annotations()
            .get(RUNS_FOR)
            .and_then(|text| text.parse().ok());
        Seen {
            name: object.name_any(),
            created: object
                .creation_timestamp()
                .map_or(Timestamp::UNIX_EPOCH, |at| at.0),
            is_suspended: spec["suspend"] == true,
            every: spec["schedule"].as_str().and_then(every),
            deadline: spec["startingDeadlineSeconds"].as_i64(),
            runs_for: SignedDuration::from_secs(runs_for.unwrap_or(10)),
            labels: serde_json::from_value(labels.cloned().unwrap_or_default()).unwrap_or_default(),
        }
    }

    fn begin(seen: &Seen) -> Self {
        Self {
            seen: seen.clone(),
            last: None,
            jobs: Vec::new(),
        }
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.jobs.retain(|job| job.gone_at.is_none_or(|gone| gone > now));
        let Some(seen) = seen else {
            // Its Jobs go with it.
            let soon = later(now, context.timings.teardown);
            for job in &mut self.jobs {
                job.gone_at.get_or_insert(soon);
            }
            return;
        };
        self.seen = seen.clone();
        if let Some(tick) = self.seen.due(self.last, now) {
            let ready_at = later(now, context.timings.pod_start);
            self.last = Some(tick);
            self.jobs.push(Job {
                tick,
                ready_at,
                ends_at: ready_at.checked_add(self.seen.runs_for).unwrap_or(Timestamp::MAX),
                gone_at: None,
            });
        }
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        let jobs = self.jobs.iter();
        let jobs = jobs.flat_map(|job| [Some(job.ready_at), Some(job.ends_at), job.gone_at]);
        let every = self.seen.every.filter(|_| !self.seen.is_suspended);
        let tick = every.and_then(|every| {
            Timestamp::from_second(now.as_second() - now.as_second().rem_euclid(every) + every).ok()
        });
        let ahead = jobs.chain([tick]).flatten().filter(|at| *at > now);
        ahead.min().unwrap_or(Timestamp::MAX)
    }

    fn is_over(&self) -> bool {
        self.jobs.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.jobs.iter().any(|job| job.runs(now))
    }

    fn pods(&self, (): &(), ((namespace, _), uid): &Id, now: Timestamp) -> Vec<PodView> {
        let view = |job: &Job| PodView {
            restarts: 0,
            namespace: namespace.clone(),
            name: format!("{}-{}", self.name(job), uid.get(..5).unwrap_or(uid)),
            labels: self.seen.labels.clone().into_iter().collect(),
            container: "main".to_owned(),
            image: "simulated".to_owned(),
            phase: match () {
                () if job.runs(now) => PodPhase::Running,
                () if job.ends_at <= now => PodPhase::Ended { well: true },
                () => PodPhase::starting(),
            },
        };
        self.jobs.iter().map(view).collect()
    }

    fn tell(&mut self, (): &(), now: Timestamp) -> Told {
        let active = self.jobs.iter().filter(|job| job.ends_at > now);
        let active: Vec<Value> = active
            .map(|job| json!({"apiVersion": "batch/v1", "kind": "Job", "name": self.name(job)}))
            .collect();
        let ended = self.jobs.iter().filter(|job| job.ends_at <= now);
        Told::status(json!({
            "active": (!active.is_empty()).then_some(active),
            "lastScheduleTime": self.last.map(seconds),
            "lastSuccessfulTime": ended.map(|job| job.ends_at).max().map(seconds),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seen(deadline: Option<i64>) -> Seen {
        Seen {
            name: "report".to_owned(),
            created: at(30),
            is_suspended: false,
            every: every("* * * * *"),
            deadline,
            runs_for: SignedDuration::from_secs(10),
            labels: BTreeMap::new(),
        }
    }

    #[test]
    fn the_last_tick_that_is_due_is_run_once() {
        let report = seen(None);
        assert_eq!(report.due(None, at(59)), None, "none since it was created");
        assert_eq!(report.due(None, at(60)), Some(at(60)));
        assert_eq!(report.due(Some(at(60)), at(90)), None);
        assert_eq!(report.due(Some(at(60)), at(3700)), Some(at(3660)));
    }

    #[test]
    fn a_tick_that_is_older_than_the_deadline_is_left_out() {
        let five = Seen {
            every: every("*/5 * * * *"),
            ..seen(Some(60))
        };
        assert_eq!(five.due(None, at(359)), Some(at(300)));
        assert_eq!(five.due(None, at(360)), None);
        let suspended = Seen {
            is_suspended: true,
            ..five
        };
        assert_eq!(suspended.due(None, at(310)), None);
    }
}
