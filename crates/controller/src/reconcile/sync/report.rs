//! What a sync did, for people and for the status branch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use cutover_cluster::Outcome;
pub use cutover_core::plan::Problem;
use cutover_core::plan::drift::DriftedField;
use cutover_core::plan::{Pruning, Stop};
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

/// How many objects passes wrote and deleted, and how many they left as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Created.
    pub applied: usize,
    /// Written to objects that were there.
    pub changed: usize,
    pub deleted: usize,
    /// In sync already.
    pub unchanged: usize,
}

impl Done {
    /// Counts what became of the objects of one pass. `desired`: how many Git has in all.
    pub(super) fn of(objects: &BTreeMap<ObjectKey, ObjectReport>, desired: usize, deleted: usize) -> Self {
        let count = |is: fn(&ObjectResult) -> bool| objects.values().filter(|one| is(&one.result)).count();
        let applied = count(|result| matches!(result, ObjectResult::Applied(Outcome::Created)));
        let changed = count(|result| matches!(result, ObjectResult::Applied(Outcome::Configured)));
        let undone =
            count(|result| !matches!(result, ObjectResult::Applied(outcome) if outcome.is_in_sync()));
        Self {
            applied,
            changed,
            deleted,
            unchanged: desired.saturating_sub(applied + changed + undone),
        }
    }

    /// Returns whether anything was written.
    pub const fn is_something(&self) -> bool {
        self.applied + self.changed + self.deleted > 0
    }

    /// Returns what this pass and a later one did together.
    #[must_use]
    pub const fn and_then(self, later: Self) -> Self {
        let (applied, changed) = (self.applied + later.applied, self.changed + later.changed);
        let in_sync = later.unchanged + later.applied + later.changed;
        Self {
            applied,
            changed,
            deleted: self.deleted + later.deleted,
            unchanged: in_sync.saturating_sub(applied + changed),
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "applied {}, changed {}, deleted {}, {} unchanged",
            grouped(self.applied),
            grouped(self.changed),
            grouped(self.deleted),
            grouped(self.unchanged)
        )
    }
}

/// Returns a number with its thousands apart: `4,034`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What pruning came to in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Since this revision came.
    pub deleted: BTreeSet<ObjectKey>,
    /// What is being deleted, and what it waits for.
    pub leaving: BTreeMap<ObjectKey, String>,
    /// What Git no longer has and stays, and why.
    pub kept: BTreeMap<ObjectKey, String>,
    /// What an intent holds, and which.
    pub held_back: BTreeMap<ObjectKey, String>,
    /// What can't be deleted, and why.
    pub blocked: BTreeMap<ObjectKey, String>,
    /// What is still to be deleted.
    pub waiting: BTreeSet<ObjectKey>,
    /// Why nothing is deleted.
    pub stop: Option<Stop>,
    /// Why only intents are deleted for now.
    pub pause: Option<String>,
}

impl PruneReport {
    /// Returns whether nothing is left that ought to go, but for what intents hold and what is protected.
    pub fn is_clean(&self) -> bool {
        self.blocked.is_empty() && self.waiting.is_empty() && self.stop.is_none()
    }

    /// Returns what stands in the way of deletions.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        let blocked = self.blocked.iter().map(|(key, why)| Problem {
            message: format!("{key} is not in Git any more and stays: {why}"),
            hint: None,
            at: None,
        });
        let stop = self.stop.iter().map(|stop| Problem {
            message: match self.waiting.first() {
                Some(only) if self.waiting.len() == 1 => format!("{only} is not in Git any more; {stop}"),
                Some(first) => format!(
                    "{} objects are not in Git any more, {first} among them; {stop}",
                    self.waiting.len()
                ),
                None => stop.to_string(),
            },
            hint: stop.hint(),
            at: None,
        });
        stop.chain(blocked)
    }

    /// Returns how many objects that are not in Git any more are still to be deleted, or to be gone.
    pub fn pending(&self) -> usize {
        self.leaving.len() + self.waiting.len()
    }

    /// Returns what is not in Git any more and stays for now, and why.
    pub fn staying(&self) -> impl Iterator<Item = (&ObjectKey, String)> {
        let kept = self.kept.iter().map(|(key, why)| (key, why.clone()));
        let leaving = self.leaving.iter();
        let leaving = leaving.map(|(key, why)| (key, format!("it is being deleted and {why}")));
        let paused = self
            .pause
            .iter()
            .flat_map(|why| self.waiting.iter().map(move |key| (key, why.clone())));
        kept.chain(leaving).chain(paused)
    }

    pub(super) fn update(&mut self, pruning: &Pruning) {
        self.leaving.clone_from(&pruning.leaving);
        self.kept.clone_from(&pruning.kept);
        self.held_back.clone_from(&pruning.held_back);
        self.blocked.clone_from(&pruning.blocked);
        self.waiting = pruning.doomed.iter().map(|doomed| doomed.key.clone()).collect();
        self.stop = pruning.stop.clone().filter(|_| !pruning.doomed.is_empty());
        self.pause = pruning.pause.clone().filter(|_| self.stop.is_none());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told_in_numbers_that_can_be_read() {
        let done = Done {
            applied: 3,
            changed: 2,
            deleted: 1,
            unchanged: 1_234_567,
        };
        assert_eq!(
            done.to_string(),
            "applied 3, changed 2, deleted 1, 1,234,567 unchanged"
        );
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(4034), "4,034");
    }

    #[test]
    fn what_a_pass_wrote_is_no_less_done_because_the_next_one_had_nothing_to_do() {
        let first = Done {
            applied: 5,
            ..Done::default()
        };
        let second = Done {
            unchanged: 5,
            ..Done::default()
        };
        assert_eq!(first.and_then(second), first);
        assert!(!second.is_something());
    }

    #[test]
    fn what_waits_for_its_finalizers_and_what_waits_for_its_turn_is_still_to_go() {
        let key = |name: &str| ObjectKey {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let report = PruneReport {
            deleted: BTreeSet::from([key("gone"), key("leaving")]),
            leaving: BTreeMap::from([(key("leaving"), "waits for the finalizer x".to_owned())]),
            kept: BTreeMap::from([(key("kept"), "it is protected".to_owned())]),
            waiting: BTreeSet::from([key("later")]),
            ..PruneReport::default()
        };
        assert_eq!(report.pending(), 2);
        assert_eq!(PruneReport::default().pending(), 0);
    }
}
