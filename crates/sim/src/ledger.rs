//! What is written, by whom, from what: the judge of every run. It knows what nobody in the world knows.
//!
//! Every copy that runs counts its writes. A handle remembers how far its copy had come, and from which handle that copy had
//! gone on; a start goes on from the count of what it begins with. Lost is what the highest count has beyond that.

use std::collections::BTreeMap;
use std::fmt;

use cutover_karmada::name::ClusterName;

/// Which copy: its cluster, and the uid of the object there.
pub type Copy = (ClusterName, String);

/// What a run begins from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Nothing,
    Handle(String),
    /// What the same copy had when it was stopped without a handle.
    Own,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Handle(handle) => f.write_str(handle),
            Self::Own => f.write_str("its last state"),
        }
    }
}

/// Whose doing it was that a copy ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A hold, a release, a deletion that an intent asked for.
    Tool,
    /// A person, the scheduler, a controller of Karmada.
    #[default]
    Others,
    /// It failed, or what it ran on.
    Itself,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "cutover",
            Self::Others => "others",
            Self::Itself => "the workload itself",
        })
    }
}

/// What must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two copies could write at once.
    TwoWriters { first: Copy, second: Copy },
    /// A copy began without what had been written: so many writes, by whoever ended the copy that had them.
    Lost {
        by: Copy,
        from: Origin,
        writes: u64,
        charged: By,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoWriters { first, second } => {
                write!(f, "{} and {} write at once", first.0, second.0)
            }
            Self::Lost {
                by,
                from,
                writes,
                charged,
            } => write!(
                f,
                "{} began from {from} without {writes} writes: by {charged}",
                by.0
            ),
        }
    }
}

/// How far a copy had come, and what it had gone on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub writes: u64,
    pub parent: Option<String>,
}

#[derive(Clone, Debug)]
struct Run {
    writes: u64,
    parent: Option<String>,
}

/// The book of one workload.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Any number of copies may run, and none has anything to lose.
    pub stateless: bool,
    running: BTreeMap<Copy, Run>,
    handles: BTreeMap<String, State>,
    own: BTreeMap<Copy, u64>,
    highest: u64,
    ended_by: By,
    /// Runs that began.
    pub runs: u32,
    /// Rounds in which nobody wrote, between the first run and now.
    pub idle: u32,
    pub violations: Vec<Violation>,
}

impl Ledger {
    pub fn new(stateless: bool) -> Self {
        Self {
            stateless,
            ..Self::default()
        }
    }

    pub fn start(&mut self, copy: &Copy, from: &Origin) {
        let (writes, parent) = match from {
            Origin::Nothing => (0, None),
            Origin::Handle(handle) => {
                let known = self.handles.get(handle);
                (known.map_or(0, |known| known.writes), Some(handle.clone()))
            }
            Origin::Own => (self.own.get(copy).copied().unwrap_or_default(), None),
        };
        if !self.stateless {
            self.judge(copy, from, writes);
        }
        self.runs += 1;
        self.running.insert(copy.clone(), Run { writes, parent });
    }

    fn judge(&mut self, copy: &Copy, from: &Origin, writes: u64) {
        if let Some(first) = self.running.keys().find(|other| *other != copy) {
            self.violations.push(Violation::TwoWriters {
                first: first.clone(),
                second: copy.clone(),
            });
        }
        if writes < self.highest {
            self.violations.push(Violation::Lost {
                by: copy.clone(),
                from: from.clone(),
                writes: self.highest - writes,
                charged: self.ended_by,
            });
            // What is lost is lost once.
            self.highest = writes;
        }
    }

    /// A copy writes no more; what it had is in this handle, and in itself.
    pub fn end(&mut self, copy: &Copy, handle: Option<&str>, by: By) {
        let Some(run) = self.running.remove(copy) else {
            return;
        };
        self.ended_by = by;
        self.own.insert(copy.clone(), run.writes);
        if let Some(handle) = handle {
            let state = State {
                writes: run.writes,
                parent: run.parent,
            };
            self.handles.insert(handle.to_owned(), state);
        }
    }

    /// A copy has saved its state, and goes on.
    pub fn save(&mut self, copy: &Copy, handle: &str) {
        if let Some(run) = self.running.get(copy) {
            let state = State {
                writes: run.writes,
                parent: run.parent.clone(),
            };
            self.handles.insert(handle.to_owned(), state);
        }
    }

    /// A copy is deleted, with whatever only it had.
    pub fn gone(&mut self, copy: &Copy, by: By) {
        if self.running.remove(copy).is_some() || self.own.contains_key(copy) {
            self.ended_by = by;
        }
        self.own.remove(copy);
    }

    /// Everybody who runs writes once.
    pub fn write(&mut self) {
        for run in self.running.values_mut() {
            run.writes += 1;
            self.highest = self.highest.max(run.writes);
        }
        if self.running.is_empty() && self.runs > 0 {
            self.idle += 1;
        }
    }

    pub fn is_running(&self, copy: &Copy) -> bool {
        self.running.contains_key(copy)
    }

    pub fn writers(&self) -> Vec<&ClusterName> {
        self.running.keys().map(|(name, _)| name).collect()
    }

    /// Returns what is behind a handle.
    pub fn state(&self, handle: &str) -> Option<&State> {
        self.handles.get(handle)
    }
}
