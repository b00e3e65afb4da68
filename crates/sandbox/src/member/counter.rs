//! A simulator of *tally*, the operator that there isn't, whose `Counter` stands in docs/how-to/teach-your-operator.md.
//!
//! As that page has it: one pod counts. `Paused` repeats the request while the pod still counts; a checkpoint, where one is asked for, is
//! the last thing that it writes. A Counter that is let run goes on from its own checkpoint, else from `spec.restoreFrom`.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::cache::Key;
use super::frame::{Beginning, Id, Life, Told};
use super::pod_set::{PodSet, labels};
use super::savepoints::Savepoint;
use super::{Context, PodView, later};
use crate::clock::seconds;
use crate::ledger::{Group, Origin};

/// What of a spec the operator acts on.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    name: String,
    generation: i64,
    is_paused: bool,
    leaves_checkpoint: bool,
    store: String,
    restore_from: Option<String>,
}

#[derive(Debug)]
struct Checkpoint {
    url: String,
    generation: i64,
}

/// One Counter as a function of time.
#[derive(Debug, Default)]
pub struct Counter {
    seen: Seen,
    pods: PodSet,
    /// Since when it counts, and from which number.
    counts: Option<(Timestamp, u64)>,
    started_at: Option<Timestamp>,
    checkpoint: Option<Checkpoint>,
}

impl Life for Counter {
    type Operator = ();
    type Seen = Seen;

    fn see(object: DynamicObject) -> Seen {
        let spec = |field: &str| object.data["spec"][field].clone();
        let text = |field: &str| spec(field).as_str().map(str::to_owned);
        Seen {
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            is_paused: spec("paused") == true,
            leaves_checkpoint: spec("checkpointOnPause") == true,
            store: text("store").unwrap_or_default(),
            restore_from: text("restoreFrom"),
        }
    }

    fn begin(_: &Seen) -> Self {
        Self::default()
    }

    fn advance(&mut self, (): &mut (), seen: Option<&Seen>, context: &Context, now: Timestamp) {
        match seen {
            Some(seen) => self.seen = seen.clone(),
            None => (self.seen.is_paused, self.seen.leaves_checkpoint) = (true, false),
        }
        self.pods.settle(now);
        if self.seen.is_paused {
            self.pods.end(later(now, context.timings.teardown), |_| true);
        } else {
            let labels = labels([("tally.example.org/counter", self.seen.name.as_str())]);
            let ready_at = later(now, context.timings.pod_start);
            self.pods.make(&self.seen.name, labels, ready_at);
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

    fn beginning(&mut self, context: &Context, _: &Key, now: Timestamp) -> Beginning {
        let own = self.checkpoint.as_ref().map(|checkpoint| checkpoint.url.clone());
        let handle = own.or_else(|| self.seen.restore_from.clone());
        let count = handle.as_ref().and_then(|url| context.savepoints.get(url));
        let writes = count.map_or(0, |count| count.records);
        self.counts = Some((now, writes));
        self.started_at = Some(now);
        Beginning {
            group: Group::Stateful,
            from: handle.map_or(Origin::Empty, Origin::Handle),
            writes,
        }
    }

    fn ending(&mut self, context: &Context, (_, name): &Key, now: Timestamp) -> Option<(String, u64)> {
        let (since, before) = self.counts.take()?;
        if !self.seen.leaves_checkpoint {
            return None;
        }
        let count = before + u64::try_from(now.duration_since(since).as_millis()).unwrap_or(0);
        let url = format!("{}/chk-{count}", self.seen.store);
        let state = Savepoint {
            job_id: name.clone(),
            records: count,
            taken_at: now,
        };
        context.savepoints.put(&url, state);
        self.checkpoint = Some(Checkpoint {
            url: url.clone(),
            generation: self.seen.generation,
        });
        Some((url, count))
    }

    fn pods(&self, (): &(), id: &Id, now: Timestamp) -> Vec<PodView> {
        self.pods.views(id, now)
    }

    fn tell(&mut self, (): &(), now: Timestamp) -> Told {
        let phase = match (self.seen.is_paused, self.pods.settled(now) > 0) {
            (true, _) => "Paused",
            (false, true) => "Counting",
            (false, false) => "Starting",
        };
        let checkpoint = self.checkpoint.as_ref().map_or(
            Value::Null,
            |checkpoint| json!({"url": checkpoint.url, "generation": checkpoint.generation}),
        );
        Told::status(json!({
            "observedGeneration": self.seen.generation, "phase": phase, "startedAt": self.started_at.map(seconds),
            "checkpoint": checkpoint,
        }))
    }
}
