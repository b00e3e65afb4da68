//! What a sync did, for people and for the status branch.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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
    /// Objects that are applied and not healthy, and what is missing. Known only of a sync with `wait`.
    pub ailing: BTreeMap<ObjectKey, String>,
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
    /// Its turn has not come. It does by itself when that is so which it waits for.
    Waiting(Arc<Wait>),
}

/// What an object waits for; all that wait for the same share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// For instance `Deployment shop/web: 1 of 3 replicas updated`.
    pub what: String,
    pub since: Timestamp,
    /// How long that is as it should be; `None`: as long as it takes.
    pub until: Option<Timestamp>,
    /// It takes longer than that.
    pub overdue: bool,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
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
        self.problems.is_empty() && self.objects.values().all(is_done)
    }

    /// Returns the first reason why a sync that depends on this one has to wait; `None` when it hasn't to.
    pub fn unready(&self) -> Option<String> {
        if !self.is_clean() {
            let waiting = |report: &&ObjectReport| matches!(report.result, ObjectResult::Waiting(_));
            let undone = self.objects.values().filter(|report| !is_done(report));
            let (waiting, failed): (Vec<_>, Vec<_>) = undone.partition(waiting);
            return Some(match (failed.len() + self.problems.len(), waiting.len()) {
                (0, waiting) => format!("{waiting} of its objects wait"),
                (1, _) => "it has a problem".to_owned(),
                (problems, _) => format!("it has {problems} problems"),
            });
        }
        self.ailing
            .iter()
            .next()
            .map(|(key, why)| format!("{key}: {why}"))
    }
}

fn is_done(report: &ObjectReport) -> bool {
    match &report.result {
        ObjectResult::Applied(outcome) => outcome.is_in_sync(),
        ObjectResult::HeldBack { .. } => true,
        ObjectResult::Blocked { .. } | ObjectResult::Waiting(_) => false,
    }
}
