//! Who could write, when, and what became of it: the oracle of one-writer and no-lost-state.
//!
//! Simulators report each moment from which, and until which, a copy of a workload *can* write, whatever its spec or
//! its operator says. A copy that can write does so once in a millisecond, so that what it has written follows from the
//! times alone. State that it leaves behind a handle remembers how far it had come, and who had written so far; a start
//! goes on from there, and what others wrote beyond it is lost. The ledger only keeps the record and judges it; it decides
//! nothing and stops nobody.

mod book;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use self::book::Book;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// Where a run's state comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No state at all.
    Empty,
    /// The state behind a handle: a savepoint's path.
    Handle(String),
    /// What is on a volume, which stays where it is.
    Volume(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty state"),
            Self::Handle(handle) => f.write_str(handle),
            Self::Volume(volume) => write!(f, "volume {volume}"),
        }
    }
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
    /// How many writes that state stands for, where the ledger doesn't know where it comes from.
    pub writes: u64,
    /// Its process was restarted, and nobody had changed or deleted anything: what it doesn't go on from is a loss of the
    /// workload's own making.
    pub by_itself: bool,
}

#[derive(Clone, Debug)]
enum Fact {
    Taken(State),
    Retained(State),
    Reported(String),
    Stopped,
    Started {
        group: Group,
        given: Option<String>,
        origin: Origin,
        writes: u64,
        by_itself: bool,
    },
}

/// State behind a handle, and how many writes it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    handle: String,
    writes: u64,
}

impl Fact {
    /// Orders facts of one instant: a stop at the instant of a start is no overlap.
    fn rank(&self) -> u8 {
        match self {
            Self::Taken(_) | Self::Retained(_) | Self::Reported(_) => 0,
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
                writes: start.writes,
                by_itself: start.by_itself,
            },
        });
    }

    /// Records that a copy can no longer write.
    pub fn writer_stopped(&self, workload: &ObjectKey, writer: &Writer, at: Timestamp) {
        self.push(workload, writer, at, Fact::Stopped);
    }

    /// Records that a copy left all its state behind a handle and said so: it stands for so many writes.
    pub fn handle_taken(
        &self,
        workload: &ObjectKey,
        writer: &Writer,
        at: Timestamp,
        handle: &str,
        writes: u64,
    ) {
        let handle = handle.to_owned();
        self.push(workload, writer, at, Fact::Taken(State { handle, writes }));
    }

    /// Records that the state of a while ago stayed behind a handle: a checkpoint, from which a job repeats by itself what it
    /// had done since then.
    pub fn handle_retained(
        &self,
        workload: &ObjectKey,
        writer: &Writer,
        at: Timestamp,
        handle: &str,
        writes: u64,
    ) {
        let handle = handle.to_owned();
        self.push(workload, writer, at, Fact::Retained(State { handle, writes }));
    }

    /// Records that a copy's status names a handle from now on, its own or the one that it was given.
    pub fn handle_told(&self, workload: &ObjectKey, writer: &Writer, at: Timestamp, handle: &str) {
        self.push(workload, writer, at, Fact::Reported(handle.to_owned()));
    }

    /// Judges everything that was recorded so far.
    pub fn verdict(&self) -> Verdict {
        let mut books: BTreeMap<ObjectKey, Book> = BTreeMap::new();
        for entry in self.timeline() {
            books.entry(entry.workload.clone()).or_default().add(entry);
        }
        let mut verdict = Verdict::default();
        for book in books.into_values() {
            book.close(&mut verdict);
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
                Fact::Taken(state) => writeln!(f, "state taken: {} ({} writes)", state.handle, state.writes)?,
                Fact::Retained(state) => {
                    writeln!(f, "state retained: {} ({} writes)", state.handle, state.writes)?;
                }
                Fact::Reported(handle) => writeln!(f, "state told: {handle}")?,
                Fact::Stopped => writeln!(f, "can no longer write")?,
                Fact::Started { origin, .. } => writeln!(f, "can write, from {origin}")?,
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
    /// What was written by copies that stopped while one went on that knows nothing of it.
    pub lost: u64,
}

/// A run that started without the newest state of its workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostState {
    pub workload: ObjectKey,
    pub writer: Writer,
    pub at: Timestamp,
    pub restored_from: Origin,
    /// The newest handle of what was lost; `None` when it never left its state behind one, checkpoints aside.
    pub newest: Option<String>,
    /// How many writes it knows nothing of, that were not lost before.
    pub writes: u64,
    /// Who had made them.
    pub of: Vec<Writer>,
    /// The workload's own doing: its process was restarted, and goes back to an older state.
    pub by_itself: bool,
}

/// A time between two runs in which no copy of a workload could work: from the last write of one to the first of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub workload: ObjectKey,
    /// Who wrote last before it.
    pub before: Writer,
    pub from: Timestamp,
    /// Who wrote first after it.
    pub after: Writer,
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

    /// Returns for how long no copy of a workload could write, between the first run and the last.
    pub fn downtime(&self, workload: &ObjectKey) -> SignedDuration {
        let gaps = self.gaps.iter().filter(|gap| gap.workload == *workload);
        gaps.map(Gap::duration).sum()
    }

    /// Keeps what is about some of the workloads.
    #[must_use]
    pub fn about(mut self, is_meant: impl Fn(&ObjectKey) -> bool) -> Self {
        self.overlaps.retain(|overlap| is_meant(&overlap.workload));
        self.lost_state.retain(|lost| is_meant(&lost.workload));
        self.runs.retain(|run| is_meant(&run.workload));
        self.gaps.retain(|gap| is_meant(&gap.workload));
        let stateful = self.runs.iter().any(|run| run.group == Group::Stateful);
        let at_once = self.overlaps.iter().map(|overlap| overlap.who.len()).max();
        self.max_writers_at_once = at_once.unwrap_or(usize::from(stateful));
        self
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
            let of: Vec<_> = lost.of.iter().map(ToString::to_string).collect();
            let how = if lost.by_itself {
                ", restarted by itself"
            } else {
                ""
            };
            writeln!(
                f,
                "lost state of {}: {} started from {}, not from {newest}: {} writes of {}{how}",
                lost.workload,
                lost.writer,
                lost.restored_from,
                lost.writes,
                of.join(", ")
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
