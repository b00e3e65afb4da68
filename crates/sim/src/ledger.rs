//! What is written, by whom, from what: the judge of every run. It knows what nobody in the world knows.

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

/// What must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two copies could write at once.
    TwoWriters { first: Copy, second: Copy },
    /// A copy began without what had been written: so many writes.
    Lost { by: Copy, from: Origin, writes: u64 },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoWriters { first, second } => {
                write!(f, "{} and {} write at once", first.0, second.0)
            }
            Self::Lost { by, from, writes } => {
                write!(f, "{} began from {from:?} without {writes} writes", by.0)
            }
        }
    }
}

/// Writes are counted: a run goes on counting from where its state ends.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    running: BTreeMap<Copy, u64>,
    handles: BTreeMap<String, u64>,
    own: BTreeMap<Copy, u64>,
    highest: u64,
    /// Runs that began.
    pub runs: u32,
    /// Rounds in which nobody wrote, between the first run and now.
    pub idle: u32,
    pub violations: Vec<Violation>,
}

impl Ledger {
    pub fn start(&mut self, copy: &Copy, from: &Origin) {
        let count = match from {
            Origin::Nothing => 0,
            Origin::Handle(handle) => self.handles.get(handle).copied().unwrap_or_default(),
            Origin::Own => self.own.get(copy).copied().unwrap_or_default(),
        };
        if let Some(first) = self.running.keys().find(|other| *other != copy) {
            self.violations.push(Violation::TwoWriters {
                first: first.clone(),
                second: copy.clone(),
            });
        }
        if count < self.highest {
            self.violations.push(Violation::Lost {
                by: copy.clone(),
                from: from.clone(),
                writes: self.highest - count,
            });
            // What is lost is lost once.
            self.highest = count;
        }
        self.runs += 1;
        self.running.insert(copy.clone(), count);
    }

    /// A copy stops; what it had is in this handle, and in itself.
    pub fn stop(&mut self, copy: &Copy, handle: Option<&str>) {
        if let Some(count) = self.running.remove(copy) {
            self.own.insert(copy.clone(), count);
            if let Some(handle) = handle {
                self.handles.insert(handle.to_owned(), count);
            }
        }
    }

    /// A copy is deleted, with whatever only it had.
    pub fn gone(&mut self, copy: &Copy) {
        self.running.remove(copy);
        self.own.remove(copy);
    }

    /// Everybody who runs writes once.
    pub fn write(&mut self) {
        for count in self.running.values_mut() {
            *count += 1;
            self.highest = self.highest.max(*count);
        }
        if self.running.is_empty() && self.runs > 0 {
            self.idle += 1;
        }
    }

    pub fn is_running(&self, cluster: &ClusterName) -> bool {
        self.running.keys().any(|(name, _)| name == cluster)
    }

    pub fn writers(&self) -> Vec<&ClusterName> {
        self.running.keys().map(|(name, _)| name).collect()
    }
}
