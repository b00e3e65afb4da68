//! What passes did, for the log and for whoever runs once: numbers, and each correction of drift by name.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;

use super::{ObjectReport, ObjectResult, Sync, SyncReport};
use cutover_cluster::{Outcome, Write};
use cutover_core::plan::drift::DriftedField;
use cutover_core::units::duration;
use cutover_karmada::name::ObjectKey;

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

impl Sync {
    /// Returns what the passes of this sync have done so far.
    pub const fn total(&self) -> Done {
        self.total
    }

    /// Returns how many objects were deleted since the revision came.
    pub(super) fn deleted_so_far(&self) -> usize {
        self.pruner.as_ref().map_or(0, |pruner| pruner.deleted.len())
    }

    /// Logs what a pass did; nothing where it did nothing.
    pub(super) fn log_done(&self, report: &SyncReport) {
        let done = report.done;
        if !done.is_something() {
            return;
        }
        let took: SignedDuration = report.finished_at.duration_since(report.started_at);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or_default();
        tracing::info!(
            applied = done.applied,
            changed = done.changed,
            deleted = done.deleted,
            unchanged = done.unchanged,
            took_ms,
            sync = self.name(),
            revision = %report.revision,
            "{done} in {} at {}",
            duration(took),
            report.revision.short()
        );
    }

    /// Returns which of these writes put right what Git has not changed since it was in sync, and what is put right.
    pub(super) fn corrections(&self, writes: &[Write]) -> BTreeMap<ObjectKey, Vec<DriftedField>> {
        let last = self.reports.borrow().clone();
        let last = last.filter(|last| Some(&last.revision) == self.source.revision.as_ref());
        let Some(last) = last else {
            return BTreeMap::new();
        };
        let keys = writes.iter().map(|write| &write.entry.key);
        keys.filter(|key| last.was_in_sync(key))
            .map(|key| (key.clone(), self.decider().drift(key)))
            .collect()
    }

    /// Logs that drift was corrected: of which object, which fields, and who had changed them.
    pub(super) fn log_correction(&self, key: &ObjectKey, outcome: &Outcome, fields: &[DriftedField]) {
        let sync = self.name();
        match outcome {
            Outcome::Created => tracing::info!(object = %key, sync, "created again: it was gone"),
            Outcome::Configured => {
                let names: Vec<&str> = fields.iter().map(|field| field.field.as_str()).collect();
                let by = managers(fields);
                tracing::info!(object = %key, fields = names.join(", "), by = by.as_deref(), sync, "corrected drift");
            }
            _ => {}
        }
    }

    fn name(&self) -> Option<&str> {
        self.source.selection.own().map(|own| own.name.as_str())
    }
}

/// Returns who changed these fields, each once; `None` where nobody owns one.
fn managers(fields: &[DriftedField]) -> Option<String> {
    let mut managers: Vec<&str> = fields
        .iter()
        .filter_map(|field| field.manager.as_deref())
        .collect();
    managers.sort_unstable();
    managers.dedup();
    (!managers.is_empty()).then(|| managers.join(", "))
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
    fn each_manager_is_named_once() {
        let field = |manager: Option<&str>| DriftedField {
            field: ".spec".to_owned(),
            manager: manager.map(str::to_owned),
        };
        let by = |all: &[Option<&str>]| managers(&all.iter().map(|one| field(*one)).collect::<Vec<_>>());
        assert_eq!(
            by(&[Some("kubectl-edit"), Some("helm"), Some("kubectl-edit")]).as_deref(),
            Some("helm, kubectl-edit")
        );
        assert_eq!(by(&[None]), None);
    }
}
