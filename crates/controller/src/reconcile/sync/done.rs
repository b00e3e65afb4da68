//! What passes did, for the log and for whoever runs once: numbers, and each correction of drift by name.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::{Done, Sync, SyncReport};
use cutover_cluster::{Outcome, Write};
use cutover_core::plan::drift::DriftedField;
use cutover_core::units::duration;
use cutover_karmada::name::ObjectKey;

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
