//! What a look depends on.

use super::wanted;
use crate::api::{BindingId, MigrationStatus, Phase, RollBackStage};
use crate::name::ClusterName;

/// What of an intent's journal decides what is read, and whether it has to be read again.
#[derive(Debug, PartialEq)]
pub(super) struct Scope<'a> {
    phase: Option<Phase>,
    record: bool,
    canary: Option<(u32, u32)>,
    ends: Option<(&'a ClusterName, &'a ClusterName)>,
    writer: Option<&'a ClusterName>,
    /// What came as a surprise is decided on afresh: reads that an event came between don't fit together.
    seq: Option<u64>,
    back: Option<RollBackStage>,
    binding: Option<&'a BindingId>,
    pods: Option<&'a str>,
}

impl<'a> Scope<'a> {
    pub(super) fn of(status: &'a MigrationStatus) -> Self {
        let journal = status.journal_in_force();
        let asks = journal.is_some_and(|journal| {
            let mut checks = journal.spec.verify.checks.iter();
            checks.any(|check| check.prometheus.is_some())
        });
        let alike = match status.phase {
            Phase::Hold
            | Phase::Expand
            | Phase::Capture
            | Phase::Handoff
            | Phase::Cleanup
            | Phase::RollingBack => true,
            Phase::Verify => !asks,
            _ => false,
        };
        Self {
            phase: (!alike).then_some(status.phase),
            record: wanted::wants_record(status),
            canary: journal.map(|journal| (status.attempt, journal.fence.canary)),
            ends: journal.map(|journal| (&journal.source, &journal.target)),
            writer: journal.and_then(|journal| journal.writer.as_ref()),
            seq: journal.map(|journal| journal.seq),
            back: journal
                .and_then(|journal| journal.roll_back.as_ref())
                .map(|back| back.stage),
            binding: journal.map(|journal| &journal.binding),
            pods: journal.and_then(|journal| journal.pods.as_deref()),
        }
    }
}
