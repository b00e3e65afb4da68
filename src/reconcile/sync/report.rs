//! What a sync did, for people and for the status branch.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::cluster::Outcome;
use crate::name::{Location, ObjectKey, Revision};

/// One pass of sync.
#[derive(Clone, Debug)]
pub struct SyncReport {
    pub revision: Revision,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    /// Every object that isn't simply in sync as it was.
    pub objects: BTreeMap<ObjectKey, ObjectReport>,
    /// How many objects Git has in all.
    pub desired: usize,
    /// What could not be read in Git.
    pub problems: Vec<Problem>,
    /// Objects that Git doesn't mention any more and that are still there. Nothing is deleted by itself.
    pub orphaned: Vec<ObjectKey>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    pub source: Option<Location>,
    pub result: ObjectResult,
}

/// Where an object stands after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectResult {
    Applied(Outcome),
    /// An intent takes the change along, or left it unapplied.
    HeldBack {
        by: String,
    },
    Blocked {
        reason: String,
    },
}

/// Something in Git that could not be used, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub hint: Option<String>,
    pub at: Option<Location>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl SyncReport {
    /// Returns the objects that an intent holds back, and which.
    pub fn held_back(&self) -> impl Iterator<Item = (&ObjectKey, &str)> {
        self.objects
            .iter()
            .filter_map(|(key, report)| match &report.result {
                ObjectResult::HeldBack { by } => Some((key, by.as_str())),
                _ => None,
            })
    }

    /// Returns whether the API server has all that Git wants, but for what intents hold back.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
            && self.objects.values().all(|report| match &report.result {
                ObjectResult::Applied(outcome) => outcome.is_in_sync(),
                ObjectResult::HeldBack { .. } => true,
                ObjectResult::Blocked { .. } => false,
            })
    }
}
