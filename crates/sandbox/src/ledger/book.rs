//! The judgement of one workload's record, entry by entry in the order of time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Entry, Fact, Gap, Group, LostState, Origin, Overlap, Run, State, Verdict, Writer};

/// How far one run's writes are known to a state.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The run that it is of.
    run: usize,
    writes: u64,
}

/// What one run has written.
#[derive(Clone, Debug)]
struct Written {
    /// The writes that it went on from.
    base: u64,
    from: Timestamp,
    until: Option<Timestamp>,
    /// The state that it began with; `None`: from nothing, or from something that nobody here has made.
    parent: Option<Mark>,
    /// The last checkpoint that stayed when it ended, or what its HA metadata names.
    retained: Option<String>,
    /// The newest handle of all its state.
    taken: Option<String>,
    /// How many of its last writes were repeated by one that went on from its checkpoint.
    repeated: u64,
    /// How many of its writes are lost already.
    lost: u64,
}

impl Written {
    /// Returns how far it had come.
    fn reached(&self, at: Timestamp) -> u64 {
        let until = self.until.map_or(at, |until| until.min(at));
        let wrote = until.duration_since(self.from).as_millis();
        self.base + u64::try_from(wrote).unwrap_or(0)
    }

    /// Returns what it has written by itself.
    fn own(&self, at: Timestamp) -> u64 {
        self.reached(at) - self.base
    }
}

/// The sweep over one workload's entries in the order of time.
#[derive(Default)]
pub(super) struct Book {
    runs: Vec<Run>,
    /// What each of the runs has written.
    written: Vec<Written>,
    active: BTreeMap<Writer, usize>,
    /// The run of each copy that was the last.
    last: BTreeMap<Writer, usize>,
    /// What is behind each handle; a later one of the same name counts.
    handles: BTreeMap<String, Mark>,
    /// The run that wrote last to each volume.
    volumes: BTreeMap<String, usize>,
    lost: Vec<LostState>,
    overlaps: Vec<Overlap>,
    gaps: Vec<Gap>,
    idle_since: Option<(Writer, Timestamp)>,
    at_once: usize,
    stateful: bool,
}

impl Book {
    pub(super) fn add(&mut self, entry: Entry) {
        match entry.fact.clone() {
            Fact::Taken(state) => self.take(&entry.writer, state),
            Fact::Retained(state) => self.retain(&entry.writer, state),
            Fact::Reported(_) => {}
            Fact::Stopped => self.stop(&entry.writer, entry.at),
            Fact::Started {
                group,
                given,
                origin,
                writes,
                by_itself,
            } => {
                let run = Run {
                    workload: entry.workload,
                    writer: entry.writer,
                    group,
                    from: entry.at,
                    until: None,
                    handle_given: given,
                    restored_from: origin,
                };
                self.start(run, writes, by_itself);
            }
        }
    }

    fn take(&mut self, writer: &Writer, state: State) {
        let run = self.last.get(writer);
        if let Some(written) = run.and_then(|run| self.written.get_mut(*run)) {
            written.taken = Some(state.handle.clone());
        }
        self.keep(writer, state);
    }

    fn retain(&mut self, writer: &Writer, state: State) {
        let run = self.last.get(writer);
        if let Some(written) = run.and_then(|run| self.written.get_mut(*run)) {
            written.retained = Some(state.handle.clone());
        }
        self.keep(writer, state);
    }

    fn keep(&mut self, writer: &Writer, State { handle, writes }: State) {
        if let Some(run) = self.last.get(writer).copied() {
            self.handles.insert(handle, Mark { run, writes });
        }
    }

    fn start(&mut self, run: Run, writes: u64, by_itself: bool) {
        self.stop(&run.writer, run.from);
        let (index, stateful) = (self.runs.len(), run.group == Group::Stateful);
        self.stateful |= stateful;
        let parent = self.origin(&run.restored_from, run.from);
        if stateful {
            self.judge(&run, parent, by_itself);
        }
        if let Some((before, from)) = self.idle_since.take().filter(|(_, idle)| *idle < run.from) {
            self.gaps.push(Gap {
                workload: run.workload.clone(),
                before,
                from,
                after: run.writer.clone(),
                until: run.from,
            });
        }
        if let Origin::Volume(volume) = &run.restored_from {
            self.volumes.insert(volume.clone(), index);
        }
        self.active.insert(run.writer.clone(), index);
        self.last.insert(run.writer.clone(), index);
        self.written.push(Written {
            base: parent.map_or(writes, |mark| mark.writes),
            from: run.from,
            until: None,
            parent,
            retained: None,
            taken: None,
            repeated: 0,
            lost: 0,
        });
        self.at_once = self.at_once.max(self.active.len());
        self.note_overlap(&run);
        self.runs.push(run);
    }

    fn note_overlap(&mut self, run: &Run) {
        if self.active.len() < 2 {
            return;
        }
        match self.overlaps.last_mut() {
            Some(overlap) if overlap.until.is_none() => {
                overlap.who.push(run.writer.clone());
                overlap.who.sort();
                overlap.who.dedup();
            }
            _ => self.overlaps.push(Overlap {
                workload: run.workload.clone(),
                who: self.active.keys().cloned().collect(),
                from: run.from,
                until: None,
                lost: 0,
            }),
        }
    }

    fn origin(&self, origin: &Origin, at: Timestamp) -> Option<Mark> {
        match origin {
            Origin::Empty => None,
            Origin::Handle(handle) => self.handles.get(handle).copied(),
            Origin::Volume(volume) => {
                let run = *self.volumes.get(volume)?;
                let writes = self.written.get(run)?.reached(at);
                Some(Mark { run, writes })
            }
        }
    }

    /// Counts what a run knows nothing of when it begins, and what was not lost before.
    fn judge(&mut self, run: &Run, parent: Option<Mark>, by_itself: bool) {
        let known = self.known(parent);
        let (mut writes, mut of, mut newest) = (0, BTreeSet::new(), None);
        for (index, written) in self.written.iter_mut().enumerate() {
            let own = written.own(run.from);
            let kept = known
                .get(&index)
                .map_or(0, |known| known.saturating_sub(written.base).min(own));
            // A job goes back to its last checkpoint by itself, and repeats what it had done since.
            let repeats = written.until.is_some()
                && matches!(&run.restored_from, Origin::Handle(handle) if Some(handle) == written.retained.as_ref());
            if repeats {
                written.repeated = own - kept;
            }
            let missing = (own - kept).saturating_sub(written.repeated);
            let lost = missing.saturating_sub(written.lost);
            written.lost = missing;
            if lost == 0 {
                continue;
            }
            writes += lost;
            of.extend(self.runs.get(index).map(|run| run.writer.clone()));
            newest.clone_from(&written.taken);
        }
        if writes > 0 {
            self.lost.push(LostState {
                workload: run.workload.clone(),
                writer: run.writer.clone(),
                at: run.from,
                restored_from: run.restored_from.clone(),
                newest,
                writes,
                of: of.into_iter().collect(),
                by_itself,
            });
        }
    }

    /// Returns how far the writes of each run are known to a state: those of the run that left it, and of all that this one
    /// goes back to.
    fn known(&self, state: Option<Mark>) -> BTreeMap<usize, u64> {
        let mut known = BTreeMap::new();
        let mut next = state;
        while let Some(mark) = next {
            let Some(written) = self.written.get(mark.run) else {
                break;
            };
            known.insert(mark.run, mark.writes);
            // Its own checkpoints are behind what it began with only where it has none yet.
            next = written.parent.map(|parent| Mark {
                writes: parent.writes.min(mark.writes),
                ..parent
            });
        }
        known
    }

    fn stop(&mut self, writer: &Writer, at: Timestamp) {
        let Some(index) = self.active.remove(writer) else {
            return;
        };
        if let Some(run) = self.runs.get_mut(index) {
            run.until = Some(at);
        }
        if let Some(written) = self.written.get_mut(index) {
            written.until = Some(at);
        }
        self.lose_beside(index, at);
        if self.active.len() == 1
            && let Some(overlap) = self.overlaps.last_mut().filter(|it| it.until.is_none())
        {
            overlap.until = Some(at);
        }
        if self.active.is_empty() {
            self.idle_since = Some((writer.clone(), at));
        }
    }

    /// What a run has written while others ran that know nothing of it goes with it, when it stops before them.
    fn lose_beside(&mut self, index: usize, at: Timestamp) {
        let mut kept: Option<u64> = None;
        for other in self.active.values() {
            let parent = self.written.get(*other).and_then(|written| written.parent);
            let known = self.known(parent).get(&index).copied().unwrap_or(0);
            kept = kept.max(Some(known));
        }
        let (Some(kept), Some(written)) = (kept, self.written.get_mut(index)) else {
            return;
        };
        let missing = written.own(at).saturating_sub(kept.saturating_sub(written.base));
        let lost = missing.saturating_sub(written.lost);
        written.lost = written.lost.max(missing);
        if let Some(overlap) = self.overlaps.last_mut().filter(|it| it.until.is_none()) {
            overlap.lost += lost;
        }
    }

    pub(super) fn close(self, verdict: &mut Verdict) {
        if self.stateful {
            verdict.max_writers_at_once = verdict.max_writers_at_once.max(self.at_once);
            verdict.overlaps.extend(self.overlaps);
        } else {
            verdict.max_stateless_at_once = verdict.max_stateless_at_once.max(self.at_once);
        }
        verdict.lost_state.extend(self.lost);
        verdict.gaps.extend(self.gaps);
        verdict.runs.extend(self.runs);
    }
}
