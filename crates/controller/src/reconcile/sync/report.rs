//! What a sync did, for people and for the status branch.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Done, PruneReport};
use cutover_cluster::Outcome;
pub use cutover_core::plan::Problem;
use cutover_core::plan::drift::DriftedField;
use cutover_karmada::name::{Location, ObjectKey, Revision};

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
    /// What this pass did.
    pub done: Done,
    /// Objects that are applied and not healthy, and what is missing. Known only of a sync with `wait`.
    pub unhealthy: BTreeMap<ObjectKey, String>,
    /// What could not be read in Git.
    pub problems: Vec<Problem>,
    /// Moves that templates ask for and that are not carried out; and committed Migrations that wait for a placement which Git has changed
    /// and which cannot be applied.
    pub requests: Vec<Problem>,
    /// Clusters that are not evacuated, and workloads that Karmada evicts too early. No commit asks for that: it is reported, and
    /// nothing is left undone.
    pub evacuations: Vec<Problem>,
    /// The folder of a sync that has nothing isn't in Git. It may come, or have gone: nothing is left undone for that.
    pub missing_folder: Option<Problem>,
    /// Objects that Git doesn't mention any more and that are still there, when the sync doesn't prune.
    pub orphaned: Vec<ObjectKey>,
    /// What became of objects that Git doesn't have any more, when it does.
    pub pruned: Option<PruneReport>,
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
    /// Somebody has changed it, and that stays until the object changes in Git.
    Drifted {
        fields: Vec<DriftedField>,
    },
    /// Somebody changes it back again and again.
    Contested {
        fields: Vec<DriftedField>,
    },
}

impl ObjectReport {
    /// Returns what stands between an object and what Git wants of it; what is held back or waits is told on its own.
    fn problem(&self, key: &ObjectKey) -> Option<Problem> {
        let (message, hint, at) = match &self.result {
            ObjectResult::HeldBack { .. } | ObjectResult::Waiting(_) | ObjectResult::Drifted { .. } => {
                return None;
            }
            ObjectResult::Contested { fields } => (
                format!(
                    "another client changes it back whenever it is corrected: {}",
                    listed(fields)
                ),
                Some(
                    "stop who changes them, or leave these fields to them: drift.ignore in cutover.yaml"
                        .to_owned(),
                ),
                None,
            ),
            ObjectResult::Blocked { reason } => (reason.clone(), None, None),
            ObjectResult::Applied(outcome) => {
                let (message, hint) = outcome.told(&key.kind)?;
                (message, hint, outcome.place().cloned())
            }
        };
        Some(Problem {
            message: format!("{key}: {message}"),
            hint,
            at: at.or_else(|| self.source.clone()),
        })
    }
}

/// Objects that wait, and what they all wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub objects: Vec<ObjectKey>,
    pub wait: Arc<Wait>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.objects.as_slice() {
            [only] => write!(f, "{only} waits for {}", self.wait)?,
            [first, rest @ ..] => write!(f, "{first} and {} more wait for {}", rest.len(), self.wait)?,
            [] => {}
        }
        Ok(())
    }
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

impl SyncReport {
    /// Returns all that is wrong: with files, with objects, with waits that take too long. What is held back isn't.
    pub fn all_problems(&self) -> Vec<Problem> {
        let objects = self
            .objects
            .iter()
            .filter_map(|(key, object)| object.problem(key));
        let waits = self.waits();
        let overdue = waits.iter().filter(|waiting| waiting.wait.overdue);
        let overdue = overdue.map(|waiting| Problem {
            message: format!("{waiting}, for longer than it should"),
            hint: Some(
                "the objects that it waits for have to become healthy, or to change in Git".to_owned(),
            ),
            at: None,
        });
        self.problems
            .iter()
            .chain(&self.requests)
            .chain(&self.evacuations)
            .chain(&self.missing_folder)
            .cloned()
            .chain(objects)
            .chain(overdue)
            .chain(self.pruned.iter().flat_map(PruneReport::problems))
            .collect()
    }

    /// Returns what waits, everything that waits for the same together.
    pub fn waits(&self) -> Vec<Waiting> {
        let mut waits: BTreeMap<&str, Waiting> = BTreeMap::new();
        for (key, object) in &self.objects {
            if let ObjectResult::Waiting(wait) = &object.result {
                let together = waits.entry(&wait.what).or_insert_with(|| Waiting {
                    objects: Vec::new(),
                    wait: Arc::clone(wait),
                });
                together.objects.push(key.clone());
            }
        }
        waits.into_values().collect()
    }

    /// Says how many objects stay that Git no longer has, because the sync doesn't prune; `None`: none is known.
    pub fn left_unpruned(&self) -> Option<String> {
        let left = match self.orphaned.as_slice() {
            [] => return None,
            [only] => format!("{only} is not in Git any more and stays"),
            [first, rest @ ..] => format!(
                "{first} and {} more objects are not in Git any more and stay",
                rest.len()
            ),
        };
        Some(format!("{left}: prune is off in cutover.yaml"))
    }

    /// Returns what somebody has changed and isn't corrected: the fields, and who.
    pub fn drifted(&self) -> impl Iterator<Item = (&ObjectKey, String)> {
        self.objects
            .iter()
            .filter_map(|(key, report)| match &report.result {
                ObjectResult::Drifted { fields } => Some((key, listed(fields))),
                _ => None,
            })
    }

    /// Returns the objects that an intent holds back, and which; those that are to be deleted, too.
    pub fn held_back(&self) -> impl Iterator<Item = (&ObjectKey, &str)> {
        self.objects
            .iter()
            .filter_map(|(key, report)| match &report.result {
                ObjectResult::HeldBack { by } => Some((key, by.as_str())),
                _ => None,
            })
            .chain(
                self.pruned
                    .iter()
                    .flat_map(|pruned| &pruned.held_back)
                    .map(|(key, by)| (key, by.as_str())),
            )
    }

    /// Returns whether the API server has all that Git wants and nothing that is to go, but for what intents hold back.
    pub fn is_clean(&self) -> bool {
        self.is_applied()
            && self.requests.is_empty()
            && self.pruned.as_ref().is_none_or(PruneReport::is_clean)
    }

    fn is_applied(&self) -> bool {
        self.problems.is_empty() && self.objects.values().all(is_done)
    }

    /// Returns whether an object was as Git wanted it after this pass.
    pub(super) fn was_in_sync(&self, key: &ObjectKey) -> bool {
        let report = self.objects.get(key);
        report.is_none_or(
            |report| matches!(&report.result, ObjectResult::Applied(outcome) if outcome.is_in_sync()),
        )
    }

    /// Returns why it isn't clean: how much of what, an object each by name. Nothing where it is.
    pub fn undone(&self) -> Vec<String> {
        let mut kinds: BTreeMap<&'static str, Vec<&ObjectKey>> = BTreeMap::new();
        for (key, report) in self.objects.iter().filter(|(_, report)| !is_done(report)) {
            kinds.entry(undone(&report.result)).or_default().push(key);
        }
        if let Some(pruned) = &self.pruned {
            let (stays, waits) = (
                "not in Git any more and cannot be deleted",
                "waiting for deletion",
            );
            kinds.entry(stays).or_default().extend(pruned.blocked.keys());
            let waiting = pruned.waiting.iter();
            let waiting = waiting.filter(|_| !pruned.is_clean());
            kinds.entry(waits).or_default().extend(waiting);
        }
        let files = match self.problems.len() {
            0 => None,
            1 => Some("1 problem in the files".to_owned()),
            several => Some(format!("{several} problems in the files")),
        };
        let objects = kinds
            .into_iter()
            .filter_map(|(what, keys)| match keys.as_slice() {
                [] => None,
                [only] => Some(format!("{only} {what}")),
                [first, rest @ ..] => Some(format!("{first} and {} more {what}", rest.len())),
            });
        let requests = self.requests.iter().map(|refused| refused.message.clone());
        files.into_iter().chain(requests).chain(objects).collect()
    }

    /// Returns the first reason why a sync that depends on this one has to wait; `None` when it hasn't to.
    pub fn unready(&self) -> Option<String> {
        if !self.is_applied() {
            let waiting = |report: &&ObjectReport| matches!(report.result, ObjectResult::Waiting(_));
            let undone = self.objects.values().filter(|report| !is_done(report));
            let (waiting, failed): (Vec<_>, Vec<_>) = undone.partition(waiting);
            return Some(match (failed.len() + self.problems.len(), waiting.len()) {
                (0, waiting) => format!("{waiting} of its objects wait"),
                (1, _) => "it has a problem".to_owned(),
                (problems, _) => format!("it has {problems} problems"),
            });
        }
        self.unhealthy
            .iter()
            .next()
            .map(|(key, why)| format!("{key}: {why}"))
    }
}

fn listed(fields: &[DriftedField]) -> String {
    let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
    fields.join(", ")
}

/// Returns in a few words why an object isn't as Git wants it.
const fn undone(result: &ObjectResult) -> &'static str {
    match result {
        ObjectResult::Applied(Outcome::NotServed) => "of a kind that is not served",
        ObjectResult::Applied(Outcome::Recreating { .. }) => "waiting for the deletion of the old object",
        ObjectResult::Applied(_) => "refused",
        ObjectResult::Blocked { .. } => "blocked",
        ObjectResult::Waiting(_) => "waiting",
        ObjectResult::Contested { .. } => "changed back by another client",
        ObjectResult::HeldBack { .. } => "held back",
        ObjectResult::Drifted { .. } => "drifted",
    }
}

fn is_done(report: &ObjectReport) -> bool {
    match &report.result {
        ObjectResult::Applied(outcome) => outcome.is_in_sync(),
        ObjectResult::HeldBack { .. } | ObjectResult::Drifted { .. } => true,
        ObjectResult::Blocked { .. } | ObjectResult::Waiting(_) | ObjectResult::Contested { .. } => false,
    }
}
