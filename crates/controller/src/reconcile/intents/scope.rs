//! What a look depends on.

use super::observe::Part;
use cutover_core::api::{BindingId, MigrationStatus, Phase, RollBackStage};
use cutover_core::intent::migration;
use cutover_karmada::name::ClusterName;

/// Returns whether a look for one journal has shown all that a look for another one would: then what comes next is decided
/// on it as well.
pub(super) fn covers(before: &MigrationStatus, after: &MigrationStatus) -> bool {
    shows(before, after, false)
}

/// Returns what a look for one journal lacks to show all that a look for another one would, where that is little: the record in
/// Git, and the canary.
pub(super) fn lacks(before: &MigrationStatus, after: &MigrationStatus) -> Vec<Part> {
    if covers(before, after) || !shows(before, after, true) {
        return Vec::new();
    }
    let (seen, wanted) = (Scope::of(before), Scope::of(after));
    let record = (wanted.record && !seen.record).then_some(Part::Record);
    let canary = (wanted.reads_canary && !seen.reads_canary).then_some(Part::Canary);
    record.into_iter().chain(canary).collect()
}

/// `completed`: with the record and the canary, whatever was read of them.
fn shows(before: &MigrationStatus, after: &MigrationStatus, completed: bool) -> bool {
    // What has ended is asked only what of its own is left, which every look shows that reads the control plane.
    if after.phase.is_terminal() {
        return before.journal_in_force().is_some();
    }
    let (mut seen, mut wanted) = (Scope::of(before), Scope::of(after));
    wanted.record &= !seen.record && !completed;
    wanted.reads_canary &= !seen.reads_canary && !completed;
    // In the end fewer are looked at; but on the way back the policies in Git are, then for the first time.
    seen.unpinning |= wanted.unpinning && completed && after.phase != Phase::RollingBack;
    (seen.record, seen.reads_canary) = (false, false);
    match (before.phase, after.phase) {
        // It looks at the same, and at more.
        (Phase::Preflight, Phase::Hold) => return !wanted.record,
        (Phase::Verify, Phase::Cleanup) => seen.phase = None,
        // What follows is the claim, which is compared and swapped; the pin comes after another look.
        _ if hands_over(before, after) => (seen.seq, seen.writer) = (wanted.seq, wanted.writer),
        _ => {}
    }
    seen == wanted
}

/// Returns whether the way forward takes the token from the source, or gives it to the target: as planned, and not because
/// something came as a surprise.
fn hands_over(before: &MigrationStatus, after: &MigrationStatus) -> bool {
    let (Some(before), Some(journal)) = (before.journal_in_force(), after.journal_in_force()) else {
        return false;
    };
    matches!(after.phase, Phase::Capture | Phase::Handoff)
        && journal.roll_back.is_none()
        && journal.writer != before.writer
        && journal.pin.seq == before.pin.seq + 1
}

/// What of an intent's journal decides what is read, and whether it has to be read again.
#[derive(Debug, PartialEq)]
struct Scope<'a> {
    phase: Option<Phase>,
    record: bool,
    canary: Option<(u32, u32)>,
    reads_canary: bool,
    ends: Option<(&'a ClusterName, &'a ClusterName)>,
    writer: Option<&'a ClusterName>,
    /// What came as a surprise is decided on afresh: reads that an event came between don't fit together.
    seq: Option<u64>,
    back: Option<RollBackStage>,
    binding: Option<&'a BindingId>,
    pods: Option<&'a str>,
    /// Nobody looks at the other one any more.
    unpinning: bool,
}

impl<'a> Scope<'a> {
    fn of(status: &'a MigrationStatus) -> Self {
        let journal = status.journal_in_force();
        let asks = journal.is_some_and(|journal| {
            let mut checks = journal.spec.verify.checks.iter();
            checks.any(|check| check.prometheus.is_some() || check.of.is_some())
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
            record: migration::wants_record(status),
            canary: journal.map(|journal| (status.common.attempt, journal.fence.canary)),
            reads_canary: migration::wants_canary(status),
            ends: journal.map(|journal| (&journal.source, &journal.target)),
            writer: journal.and_then(|journal| journal.writer.as_ref()),
            seq: journal.map(|journal| journal.pin.seq),
            back: journal
                .and_then(|journal| journal.roll_back.as_ref())
                .map(|back| back.stage),
            binding: journal.map(|journal| &journal.binding),
            pods: journal.and_then(|journal| journal.pods.as_deref()),
            unpinning: journal.is_some_and(|journal| journal.pin.unpinning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_core::api::{InGit, Journal, RollBack};

    /// A journal as it was first written, in a phase.
    fn at(phase: Phase) -> MigrationStatus {
        let spec = serde_json::from_value(serde_json::json!({
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "to": "west",
        }));
        let binding = BindingId {
            name: "orders-flinkdeployment".to_owned(),
            id: "1".to_owned(),
            uid: "2".to_owned(),
            cluster_scoped: false,
            replicas: Some(1),
            target_affinity: None,
        };
        let profile = cutover_core::profile::built_in().unwrap()[0].spec.clone();
        let journal = Journal::begin(&spec.unwrap(), profile, "east".into(), binding);
        let mut status = MigrationStatus {
            phase,
            journal: Some(journal),
            ..MigrationStatus::default()
        };
        status.common.attempt = 1;
        status
    }

    fn with(phase: Phase, change: impl FnOnce(&mut Journal)) -> MigrationStatus {
        let mut status = at(phase);
        status.journal.as_mut().map(change).unwrap();
        status
    }

    #[test]
    fn a_planned_hand_over_goes_on_with_the_look_that_allowed_it() {
        let capture = with(Phase::Capture, |journal| {
            (journal.pin.seq, journal.writer) = (2, None);
        });
        assert!(covers(&at(Phase::Expand), &capture));
        let given = with(Phase::Handoff, |journal| {
            (journal.pin.seq, journal.writer) = (3, Some("west".into()));
        });
        let handoff = with(Phase::Handoff, |journal| {
            (journal.pin.seq, journal.writer) = (2, None);
        });
        assert!(covers(&handoff, &given));
    }

    #[test]
    fn the_end_of_the_way_back_asks_for_a_look_at_the_policies_in_git() {
        let ends = |phase| {
            let taken_down = with(phase, |journal| journal.pin.unpinning = true);
            lacks(&at(phase), &taken_down)
        };
        assert!(!ends(Phase::Cleanup).is_empty());
        assert_eq!(ends(Phase::RollingBack), []);
    }

    #[test]
    fn a_surprise_asks_for_a_look_of_its_own() {
        let repaired = with(Phase::Expand, |journal| journal.pin.seq = 2);
        assert!(!covers(&at(Phase::Expand), &repaired));
        let taken = with(Phase::Capture, |journal| {
            (journal.pin.seq, journal.writer) = (2, None);
            journal.roll_back = Some(RollBack {
                reason: String::new(),
                from_phase: Phase::Capture,
                since: jiff::Timestamp::UNIX_EPOCH,
                ends_as: Phase::RolledBack,
                restart: true,
                handed_over: false,
                from_handle: false,
                target_captured: false,
                source_captured: false,
                own_state: false,
                stage: RollBackStage::Begun,
                heir: None,
                returns: 0,
            });
        });
        assert!(!covers(&at(Phase::Capture), &taken));
        let restored = with(Phase::Handoff, |journal| {
            (journal.pin.seq, journal.writer) = (7, Some("west".into()));
        });
        assert!(!covers(&at(Phase::Handoff), &restored));
    }

    #[test]
    fn what_was_not_read_is_read_and_what_needs_no_reading_is_not_read_again() {
        let captured = with(Phase::Capture, |journal| {
            journal.captured = Some(cutover_core::api::Capture {
                from: "east".into(),
                values: [("savepoint".to_owned(), "s3://a".to_owned())].into(),
                evidence: String::new(),
                at: jiff::Timestamp::UNIX_EPOCH,
            });
        });
        assert!(
            covers(&at(Phase::Capture), &captured),
            "its copy keeps the handle"
        );
        let asked = with(Phase::Handoff, |journal| journal.in_git = InGit::Asked);
        assert!(!covers(&at(Phase::Handoff), &asked), "the record in Git");
        assert_eq!(lacks(&at(Phase::Handoff), &asked), [Part::Record]);
        let mut ends = with(Phase::Cleanup, |journal| journal.pin.unpinning = true);
        assert!(!covers(&at(Phase::Cleanup), &ends));
        assert_eq!(lacks(&at(Phase::Cleanup), &ends)[..1], [Part::Record]);
        ends.journal.as_mut().unwrap().pin.seq = 7;
        assert_eq!(
            lacks(&at(Phase::Cleanup), &ends),
            [],
            "that asks for a look of its own"
        );
        assert!(covers(&captured, &at(Phase::Handoff)));
        assert!(covers(&at(Phase::Preflight), &at(Phase::Hold)));
        assert!(covers(&at(Phase::Cleanup), &at(Phase::Completed)));
        assert!(!covers(&MigrationStatus::default(), &at(Phase::Failed)));
        assert!(!covers(&at(Phase::Completed), &MigrationStatus::default()));
        assert!(!covers(
            &at(Phase::Verify),
            &with(Phase::Verify, |journal| journal.fence.canary = 1)
        ));
    }
}
