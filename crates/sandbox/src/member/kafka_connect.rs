//! A simulator of Strimzi's operator of `KafkaConnect`.
//!
//! After strimzi/strimzi-kafka-operator@1.2.0: `KafkaConnectAssemblyOperator.java` (`createOrUpdate`), `AbstractConnectOperator.java`
//! (`reconcilePodSet`) and `AbstractOperator.java` (one reconciliation at a time; a pause). A reconciliation works on the object that it
//! began with, waits for the workers that are to be ready, not for those that end, and writes the status last: the number of replicas
//! repeats what was asked for. What comes meanwhile is looked at after it. The annotation [`FAILS`] lets reconciliations fail before the
//! workers are told anything: the status repeats the request then, too, and the next one is begun soon.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::frame::{Id, Life, Told};
use super::pod_set::{self, Conditions, Labels, PodSet};
use super::{Context, PodView, Timings, later};

/// Its operator leaves an object with it as it is.
const PAUSED: &str = "strimzi.io/pause-reconciliation";

/// Reconciliations of an object with it (`"true"`) fail.
pub const FAILS: &str = "sandbox.cutover.dev/fails";

/// What of an object the operator acts on.
#[derive(Clone, Debug)]
pub struct Seen {
    name: String,
    generation: i64,
    replicas: usize,
    is_paused: bool,
    fails: bool,
}

/// A reconciliation that is under way.
#[derive(Debug)]
struct Work {
    of: Seen,
    begun: Timestamp,
}

/// One cluster of workers as a function of time.
#[derive(Debug, Default)]
pub struct KafkaConnect {
    pods: PodSet,
    work: Option<Work>,
    /// The generation and the replicas of the last reconciliation.
    done: Option<(i64, usize)>,
    /// That reconciliation failed.
    failed: bool,
    /// The status is that of a pause.
    is_paused: bool,
    conditions: Conditions,
    again: Option<Timestamp>,
}

impl KafkaConnect {
    fn step(&mut self, seen: &Seen, timings: &Timings, now: Timestamp) {
        let is_done = !self.failed
            && self
                .done
                .is_some_and(|(generation, _)| generation == seen.generation);
        if self.work.is_none() {
            if seen.is_paused {
                self.is_paused = true;
            } else if self.is_paused || !is_done {
                self.work = Some(Work {
                    of: seen.clone(),
                    begun: now,
                });
            }
        }
        let Some(work) = &self.work else {
            return;
        };
        let (name, replicas, generation) = (&work.of.name, work.of.replicas, work.of.generation);
        let at_least = later(work.begun, timings.progress_check);
        if work.of.fails {
            self.again = Some(at_least).filter(|at| *at > now);
            if at_least <= now {
                self.ended(generation, replicas, true);
                self.again = Some(later(now, timings.retry));
            }
            return;
        }
        let workers: Vec<String> = (0..replicas).map(|n| format!("{name}-connect-{n}")).collect();
        let (ready_at, gone_at) = (later(now, timings.pod_start), later(now, timings.teardown));
        self.pods.scale(&workers, &labels(name), ready_at, gone_at);
        if self.pods.settled(now) == replicas && at_least <= now {
            self.ended(generation, replicas, false);
            self.conditions.set("Ready", true, "Reconciled", now);
            // What came meanwhile is next.
            self.again = Some(later(now, timings.progress_check));
        } else {
            self.again = Some(at_least).filter(|at| *at > now);
        }
    }

    fn ended(&mut self, generation: i64, replicas: usize, failed: bool) {
        self.done = Some((generation, replicas));
        self.failed = failed;
        self.work = None;
        self.is_paused = false;
    }
}

fn labels(name: &str) -> Labels {
    let workers = format!("{name}-connect");
    pod_set::labels([
        ("strimzi.io/cluster", name),
        ("strimzi.io/kind", "KafkaConnect"),
        ("strimzi.io/name", workers.as_str()),
    ])
}

impl Life for KafkaConnect {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        let has = |name: &str| {
            object
                .annotations()
                .get(name)
                .is_some_and(|value| value == "true")
        };
        let replicas = object.data.pointer("/spec/replicas").and_then(Value::as_u64);
        Seen {
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            replicas: replicas.and_then(|n| usize::try_from(n).ok()).unwrap_or(3),
            is_paused: has(PAUSED),
            fails: has(FAILS),
        }
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        self.pods.settle(now);
        self.again = None;
        match seen {
            Some(seen) => self.step(seen, &context.timings, now),
            None => self.pods.end(later(now, context.timings.teardown), |_| true),
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
        if self.is_paused {
            // A fresh status, with the generation of the one before: its number of replicas says nothing.
            let generation = self.done.map_or(0, |(generation, _)| generation);
            let condition = json!({"type": "ReconciliationPaused", "status": "True"});
            return Told::status(json!({
                "observedGeneration": generation, "replicas": 0, "conditions": [condition],
            }));
        }
        // Until its first reconciliation has ended, nothing is told.
        Told::status(self.done.map_or_else(
            || json!({}),
            |(generation, replicas)| {
                let conditions = if self.failed {
                    json!([{
                        "type": "NotReady", "status": "True", "reason": "ReconciliationException",
                        "message": "the reconciliation failed",
                    }])
                } else {
                    self.conditions.shown()
                };
                json!({"observedGeneration": generation, "replicas": replicas, "conditions": conditions})
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn seen(generation: i64, replicas: usize) -> Seen {
        Seen {
            name: "hub".to_owned(),
            generation,
            replicas,
            is_paused: false,
            fails: false,
        }
    }

    fn work(connect: &mut KafkaConnect, seen: &Seen, from: i64, until: i64) {
        for millis in (from..until).step_by(10) {
            connect.pods.settle(at(millis));
            connect.step(seen, &Timings::default(), at(millis));
        }
    }

    #[test]
    fn it_says_no_replicas_while_its_workers_end() {
        let mut connect = KafkaConnect::default();
        work(&mut connect, &seen(1, 2), 0, 1000);
        assert_eq!((connect.done, connect.pods.len()), (Some((1, 2)), 2));
        work(&mut connect, &seen(2, 0), 1000, 1100);
        assert_eq!((connect.done, connect.pods.len()), (Some((2, 0)), 2));
        work(&mut connect, &seen(2, 0), 1100, 1300);
        assert!(connect.pods.is_empty());
    }

    #[test]
    fn a_stop_waits_for_the_reconciliation_that_is_under_way() {
        let mut connect = KafkaConnect::default();
        work(&mut connect, &seen(1, 1), 0, 50);
        work(&mut connect, &seen(2, 0), 50, 110);
        assert_eq!((connect.done, connect.can_write(at(100))), (Some((1, 1)), true));
        work(&mut connect, &seen(2, 0), 110, 500);
        assert_eq!(connect.done, Some((2, 0)));
    }

    #[test]
    fn a_paused_one_is_left_as_it_is_and_shows_no_replicas() {
        let mut connect = KafkaConnect::default();
        work(&mut connect, &seen(1, 1), 0, 1000);
        let paused = Seen {
            is_paused: true,
            ..seen(2, 0)
        };
        work(&mut connect, &paused, 1000, 2000);
        assert_eq!((connect.done, connect.pods.len()), (Some((1, 1)), 1));
        let status = connect.tell(&(), at(2000)).status;
        assert_eq!(
            (&status["observedGeneration"], &status["replicas"]),
            (&json!(1), &json!(0))
        );
        work(&mut connect, &seen(2, 0), 2000, 3000);
        assert!(connect.pods.is_empty() && !connect.is_paused);
    }

    #[test]
    fn one_that_fails_to_stop_shows_no_replicas_and_keeps_its_workers() {
        let mut connect = KafkaConnect::default();
        work(&mut connect, &seen(1, 2), 0, 1000);
        let fails = Seen {
            fails: true,
            ..seen(2, 0)
        };
        work(&mut connect, &fails, 1000, 2000);
        assert_eq!(connect.pods.settled(at(2000)), 2);
        let status = connect.tell(&(), at(2000)).status;
        assert_eq!(
            (&status["observedGeneration"], &status["replicas"]),
            (&json!(2), &json!(0))
        );
        assert_eq!(status["conditions"][0]["type"], "NotReady");
        work(&mut connect, &seen(2, 0), 2000, 3000);
        assert!(connect.pods.is_empty());
        assert_eq!(
            connect.tell(&(), at(3000)).status["conditions"][0]["type"],
            "Ready"
        );
    }
}
