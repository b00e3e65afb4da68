//! Who could write, when: the oracle of one-writer.
//!
//! Simulators report each moment from which, and until which, a copy of a workload *can* write, whatever its spec or
//! its operator says. The ledger only keeps the record and judges it; it decides nothing and stops nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::name::{ClusterName, ObjectKey};

/// Where a run's state comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No state at all.
    Empty,
    /// The state behind a handle: a savepoint's path.
    Handle(String),
}

/// Whether two copies at once do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// One writer at most.
    Stateful,
    /// Any number may serve; what counts is that there is one.
    Stateless,
}

/// One copy: an object in a cluster. Several replicas of one object are one writer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    pub cluster: ClusterName,
    /// `metadata.uid` of the object in the member.
    pub uid: String,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.uid.get(..8).unwrap_or(&self.uid);
        write!(f, "{} ({short})", self.cluster)
    }
}

/// The beginning of a run.
#[derive(Clone, Debug)]
pub struct Start {
    pub workload: ObjectKey,
    pub writer: Writer,
    pub group: Group,
    pub at: Timestamp,
    /// The handle that the copy's spec named when it was started, used or not.
    pub handle_given: Option<String>,
    pub restored_from: Origin,
}

#[derive(Clone, Debug)]
enum Fact {
    Taken(String),
    Retained(String),
    Stopped,
    Started {
        group: Group,
        given: Option<String>,
        origin: Origin,
    },
}

impl Fact {
    /// Orders facts of one instant: a stop at the instant of a start is no overlap.
    fn rank(&self) -> u8 {
        match self {
            Self::Taken(_) | Self::Retained(_) => 0,
            Self::Stopped => 1,
            Self::Started { .. } => 2,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    at: Timestamp,
    workload: ObjectKey,
    writer: Writer,
    fact: Fact,
}

/// The record; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a copy can write from now on.
    pub fn writer_started(&self, start: Start) {
        self.entries().push(Entry {
            at: start.at,
            workload: start.workload,
            writer: start.writer,
            fact: Fact::Started {
                group: start.group,
                given: start.handle_given,
                origin: start.restored_from,
            },
        });
    }

    /// Records that a copy can no longer write.
    pub fn writer_stopped(&self, workload: &ObjectKey, writer: &Writer, at: Timestamp) {
        self.push(workload, writer, at, Fact::Stopped);
    }

    /// Records that a copy left its state behind a handle and said so: whoever starts next has to start from it.
    pub fn handle_taken(&self, workload: &ObjectKey, writer: &Writer, at: Timestamp, handle: &str) {
        self.push(workload, writer, at, Fact::Taken(handle.to_owned()));
    }

    /// Records that state stayed behind a handle that nobody has been told of: to start from it is in order, not to
    /// start from it too.
    pub fn handle_retained(&self, workload: &ObjectKey, writer: &Writer, at: Timestamp, handle: &str) {
        self.push(workload, writer, at, Fact::Retained(handle.to_owned()));
    }

    /// Judges everything that was recorded so far.
    pub fn verdict(&self) -> Verdict {
        let mut books: BTreeMap<ObjectKey, Book> = BTreeMap::new();
        for entry in self.timeline() {
            books.entry(entry.workload.clone()).or_default().add(&entry);
        }
        let mut verdict = Verdict::default();
        for (workload, book) in books {
            book.close(&workload, &mut verdict);
        }
        verdict
    }

    fn push(&self, workload: &ObjectKey, writer: &Writer, at: Timestamp, fact: Fact) {
        self.entries().push(Entry {
            at,
            workload: workload.clone(),
            writer: writer.clone(),
            fact,
        });
    }

    fn timeline(&self) -> Vec<Entry> {
        let mut entries = self.entries().clone();
        entries.sort_by_key(|entry| (entry.at, entry.fact.rank()));
        entries
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the record as a timeline; times are seconds since the first entry.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeline = self.timeline();
        let Some(begin) = timeline.first().map(|entry| entry.at) else {
            return writeln!(f, "nobody has written");
        };
        for entry in &timeline {
            let after = entry.at.duration_since(begin).as_secs_f64();
            write!(f, "{after:>9.3}s  {}  {}  ", entry.writer, entry.workload)?;
            match &entry.fact {
                Fact::Taken(handle) => writeln!(f, "state taken: {handle}")?,
                Fact::Retained(handle) => writeln!(f, "state retained: {handle}")?,
                Fact::Stopped => writeln!(f, "can no longer write")?,
                Fact::Started {
                    origin: Origin::Empty,
                    ..
                } => writeln!(f, "can write, from empty state")?,
                Fact::Started {
                    origin: Origin::Handle(handle),
                    ..
                } => writeln!(f, "can write, from {handle}")?,
            }
        }
        Ok(())
    }
}

/// A time during which one copy could write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub workload: ObjectKey,
    pub writer: Writer,
    pub group: Group,
    pub from: Timestamp,
    /// `None` while it still can.
    pub until: Option<Timestamp>,
    pub handle_given: Option<String>,
    pub restored_from: Origin,
}

/// A time during which more than one copy of a stateful workload could write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub workload: ObjectKey,
    pub who: Vec<Writer>,
    pub from: Timestamp,
    /// `None` while it lasts.
    pub until: Option<Timestamp>,
}

/// A run that started without the newest state of its workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostState {
    pub workload: ObjectKey,
    pub writer: Writer,
    pub at: Timestamp,
    pub restored_from: Origin,
    /// The handle that it should have started from; `None` when no handle was ever taken of what ran before.
    pub newest: Option<String>,
}

/// A time between two runs in which no copy of a workload could work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub workload: ObjectKey,
    pub from: Timestamp,
    pub until: Timestamp,
}

impl Gap {
    pub fn duration(&self) -> SignedDuration {
        self.until.duration_since(self.from)
    }
}

/// What the record says. Overlaps and lost state are counted for stateful workloads only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The largest number of copies of one stateful workload that could write at the same time.
    pub max_writers_at_once: usize,
    pub overlaps: Vec<Overlap>,
    pub lost_state: Vec<LostState>,
    /// All runs, by workload, then in the order of their beginnings.
    pub runs: Vec<Run>,
    /// All gaps, stateless workloads included.
    pub gaps: Vec<Gap>,
    /// The largest number of clusters that ran one stateless workload at the same time.
    pub max_stateless_at_once: usize,
}

impl Verdict {
    /// Returns whether nobody wrote beside another and nobody started from old state.
    pub fn is_clean(&self) -> bool {
        self.overlaps.is_empty() && self.lost_state.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "writers at once: {}", self.max_writers_at_once)?;
        for overlap in &self.overlaps {
            let who: Vec<_> = overlap.who.iter().map(ToString::to_string).collect();
            write!(
                f,
                "two writers of {}: {} from {}",
                overlap.workload,
                who.join(", "),
                overlap.from
            )?;
            match overlap.until {
                Some(until) => writeln!(f, " to {until}")?,
                None => writeln!(f, ", still")?,
            }
        }
        for lost in &self.lost_state {
            let newest = lost.newest.as_deref().unwrap_or("a state never taken");
            let origin = match &lost.restored_from {
                Origin::Empty => "empty state",
                Origin::Handle(handle) => handle,
            };
            writeln!(
                f,
                "lost state of {}: {} started from {origin}, not from {newest}",
                lost.workload, lost.writer
            )?;
        }
        Ok(())
    }
}

/// The sweep over one workload's entries in the order of time.
#[derive(Default)]
struct Book {
    runs: Vec<Run>,
    active: BTreeMap<Writer, usize>,
    /// Handles in the order of their making; a later one of the same name counts.
    handles: Vec<String>,
    /// Which of them is the newest that must not be left behind.
    newest: Option<usize>,
    lost: Vec<(Writer, Timestamp, Origin, Option<String>)>,
    overlaps: Vec<(BTreeSet<Writer>, Timestamp, Option<Timestamp>)>,
    gaps: Vec<(Timestamp, Timestamp)>,
    idle_since: Option<Timestamp>,
    at_once: usize,
    stateful: bool,
}

impl Book {
    fn add(&mut self, entry: &Entry) {
        match &entry.fact {
            Fact::Taken(handle) => {
                let known = self.handles.iter().rposition(|known| known == handle);
                let order = known.unwrap_or(self.handles.len());
                if known.is_none() {
                    self.handles.push(handle.clone());
                }
                self.newest = self.newest.max(Some(order));
            }
            Fact::Retained(handle) => self.handles.push(handle.clone()),
            Fact::Stopped => self.stop(&entry.writer, entry.at),
            Fact::Started { group, given, origin } => {
                self.start(entry, *group, given.clone(), origin.clone());
            }
        }
    }

    fn start(&mut self, entry: &Entry, group: Group, given: Option<String>, origin: Origin) {
        self.stop(&entry.writer, entry.at);
        self.stateful |= group == Group::Stateful;
        let order = match &origin {
            Origin::Empty => None,
            Origin::Handle(handle) => self.handles.iter().rposition(|known| known == handle),
        };
        let in_line = match &origin {
            Origin::Empty => self.runs.is_empty() && self.newest.is_none(),
            Origin::Handle(_) => order >= self.newest,
        };
        if group == Group::Stateful && !in_line {
            let newest = self.newest.and_then(|index| self.handles.get(index)).cloned();
            self.lost
                .push((entry.writer.clone(), entry.at, origin.clone(), newest));
        }
        self.newest = self.newest.max(order);
        if let Some(idle) = self.idle_since.take().filter(|idle| *idle < entry.at) {
            self.gaps.push((idle, entry.at));
        }
        self.active.insert(entry.writer.clone(), self.runs.len());
        self.runs.push(Run {
            workload: entry.workload.clone(),
            writer: entry.writer.clone(),
            group,
            from: entry.at,
            until: None,
            handle_given: given,
            restored_from: origin,
        });
        self.at_once = self.at_once.max(self.active.len());
        if self.active.len() < 2 {
            return;
        }
        match self.overlaps.last_mut() {
            Some((who, _, None)) => {
                who.insert(entry.writer.clone());
            }
            _ => self
                .overlaps
                .push((self.active.keys().cloned().collect(), entry.at, None)),
        }
    }

    fn stop(&mut self, writer: &Writer, at: Timestamp) {
        let Some(run) = self
            .active
            .remove(writer)
            .and_then(|index| self.runs.get_mut(index))
        else {
            return;
        };
        run.until = Some(at);
        if self.active.len() == 1
            && let Some((_, _, until @ None)) = self.overlaps.last_mut()
        {
            *until = Some(at);
        }
        if self.active.is_empty() {
            self.idle_since = Some(at);
        }
    }

    fn close(self, workload: &ObjectKey, verdict: &mut Verdict) {
        if self.stateful {
            verdict.max_writers_at_once = verdict.max_writers_at_once.max(self.at_once);
            verdict
                .overlaps
                .extend(self.overlaps.into_iter().map(|(who, from, until)| Overlap {
                    workload: workload.clone(),
                    who: who.into_iter().collect(),
                    from,
                    until,
                }));
        } else {
            verdict.max_stateless_at_once = verdict.max_stateless_at_once.max(self.at_once);
        }
        verdict
            .lost_state
            .extend(
                self.lost
                    .into_iter()
                    .map(|(writer, at, restored_from, newest)| LostState {
                        workload: workload.clone(),
                        writer,
                        at,
                        restored_from,
                        newest,
                    }),
            );
        verdict
            .gaps
            .extend(self.gaps.into_iter().map(|(from, until)| Gap {
                workload: workload.clone(),
                from,
                until,
            }));
        verdict.runs.extend(self.runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> ObjectKey {
        ObjectKey {
            group: "flink.apache.org".into(),
            kind: "FlinkDeployment".into(),
            namespace: Some("streaming".into()),
            name: "orders".into(),
        }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn writer(cluster: &str) -> Writer {
        Writer {
            cluster: cluster.into(),
            uid: format!("{cluster}-uid"),
        }
    }

    fn start(ledger: &Ledger, cluster: &str, millis: i64, group: Group, origin: Origin) {
        ledger.writer_started(Start {
            workload: orders(),
            writer: writer(cluster),
            group,
            at: at(millis),
            handle_given: None,
            restored_from: origin,
        });
    }

    fn handle(name: &str) -> Origin {
        Origin::Handle(name.into())
    }

    #[test]
    fn a_migration_with_state_is_clean_and_its_downtime_is_the_gap() {
        let ledger = Ledger::new();
        start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
        ledger.handle_taken(&orders(), &writer("east"), at(500), "s1");
        ledger.writer_stopped(&orders(), &writer("east"), at(500));
        start(&ledger, "west", 900, Group::Stateful, handle("s1"));
        let verdict = ledger.verdict();
        assert!(verdict.is_clean(), "{verdict}");
        assert_eq!(verdict.max_writers_at_once, 1);
        assert_eq!(verdict.gaps[0].duration(), SignedDuration::from_millis(400));
        assert_eq!(verdict.runs[1].until, None);
    }

    #[test]
    fn two_that_can_write_at_once_are_an_overlap_even_when_reported_out_of_order() {
        let ledger = Ledger::new();
        start(&ledger, "west", 300, Group::Stateful, handle("s1"));
        ledger.writer_stopped(&orders(), &writer("east"), at(450));
        start(&ledger, "east", 0, Group::Stateful, handle("s1"));
        let verdict = ledger.verdict();
        assert_eq!(verdict.max_writers_at_once, 2);
        let overlap = &verdict.overlaps[0];
        assert_eq!((overlap.from, overlap.until), (at(300), Some(at(450))));
        assert_eq!(overlap.who, [writer("east"), writer("west")]);
    }

    #[test]
    fn a_stop_at_the_instant_of_a_start_is_no_overlap() {
        let ledger = Ledger::new();
        start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
        start(&ledger, "west", 10, Group::Stateful, handle("s1"));
        ledger.writer_stopped(&orders(), &writer("east"), at(10));
        assert_eq!(ledger.verdict().overlaps, []);
    }

    #[test]
    fn starting_empty_after_somebody_ran_loses_state() {
        let ledger = Ledger::new();
        start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
        ledger.writer_stopped(&orders(), &writer("east"), at(5));
        start(&ledger, "west", 10, Group::Stateful, Origin::Empty);
        let lost = ledger.verdict().lost_state;
        assert_eq!(lost.len(), 1);
        assert_eq!(
            (lost[0].writer.clone(), lost[0].newest.clone()),
            (writer("west"), None)
        );
    }

    #[test]
    fn starting_from_an_older_handle_loses_state() {
        let ledger = Ledger::new();
        start(&ledger, "east", 0, Group::Stateful, handle("from elsewhere"));
        for (millis, name) in [(5, "s1"), (6, "s2")] {
            ledger.handle_taken(&orders(), &writer("east"), at(millis), name);
        }
        ledger.writer_stopped(&orders(), &writer("east"), at(7));
        start(&ledger, "west", 10, Group::Stateful, handle("s1"));
        assert_eq!(ledger.verdict().lost_state[0].newest.as_deref(), Some("s2"));
    }

    #[test]
    fn a_retained_checkpoint_may_be_used_and_may_be_left() {
        for from in ["s1", "chk-3"] {
            let ledger = Ledger::new();
            start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
            ledger.handle_taken(&orders(), &writer("east"), at(5), "s1");
            ledger.handle_retained(&orders(), &writer("east"), at(6), "chk-3");
            ledger.writer_stopped(&orders(), &writer("east"), at(7));
            start(&ledger, "west", 10, Group::Stateful, handle(from));
            assert!(ledger.verdict().is_clean());
        }
    }

    #[test]
    fn stateless_copies_may_run_side_by_side() {
        let ledger = Ledger::new();
        start(&ledger, "east", 0, Group::Stateless, Origin::Empty);
        start(&ledger, "west", 5, Group::Stateless, Origin::Empty);
        let verdict = ledger.verdict();
        assert!(verdict.is_clean());
        assert_eq!(
            (verdict.max_writers_at_once, verdict.max_stateless_at_once),
            (0, 2)
        );
    }

    #[test]
    fn the_timeline_reads_in_the_order_of_time() {
        let ledger = Ledger::new();
        start(&ledger, "west", 900, Group::Stateful, handle("s1"));
        start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
        let timeline = ledger.to_string();
        let lines: Vec<_> = timeline.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "0.000s  east (east-uid)  FlinkDeployment streaming/orders  can write, from empty state",
                "0.900s  west (west-uid)  FlinkDeployment streaming/orders  can write, from s1",
            ]
        );
    }
}
