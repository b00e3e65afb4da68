//! The journal lives in the API server that it is about. Restored from a snapshot, both go back; the members don't, and carry
//! markers that the journal doesn't know.

use super::{Interrupt, Next, Operation, Phase, RollBackStage};
use crate::api::{ENDED_FORMAT, Finding, MARKER_ANNOTATION};
use crate::intent::custody::LAPSE;
use crate::intent::pin;
use cutover_karmada::name::ClusterName;

pub(super) const CODE: &str = "JournalWentBack";
const LOST: &str = "JournalLost";

impl Operation<'_> {
    /// Stops a migration whose journal went back until a person asks for the way back: what it decided, and what was written
    /// to the members, since then, nobody knows. Past the commit point, and on the way back, it only has to go on under a
    /// sequence that nobody has seen.
    pub(super) fn detect_restore(&mut self) -> Option<Result<Next, Interrupt>> {
        let rolling_back = self.status.phase == Phase::RollingBack;
        if let Some((seen, by)) = self.high_water_mark() {
            self.take_up(seen, &by);
            return Some(Ok(Next::Requeue));
        }
        let is_known = self
            .status
            .common
            .findings
            .iter()
            .any(|finding| finding.code == CODE);
        let touched = self.status.journal_in_force().is_some();
        if !is_known || rolling_back || self.committed() {
            return None;
        }
        let asked = self.input.deleting || self.input.spec.abort;
        if asked && touched {
            let reason = format!("{LAPSE}: the API server was restored from an older state");
            self.begin_roll_back(reason, Phase::Aborted);
            // As far as the journal knows it was not; but the journal has forgotten something.
            if let Some(back) = self
                .status
                .journal
                .as_mut()
                .and_then(|journal| journal.roll_back.as_mut())
            {
                back.handed_over = true;
            }
            return Some(Ok(Next::Requeue));
        }
        if asked {
            return None;
        }
        Some(Err(Interrupt::Wait(
            "manual intervention required: the API server was restored from an older state: find out where the workload runs, and \
             from which state; then abort it (cutover abort), which holds every copy and rolls back"
                .to_owned(),
        )))
    }

    /// Puts the journal to the attempt and sequence that a member has seen.
    fn take_up(&mut self, (attempt, seq): (u32, u64), by: &ClusterName) {
        let rolling_back = self.status.phase == Phase::RollingBack;
        let known = (
            self.status.common.attempt,
            self.status
                .journal_in_force()
                .map_or(0, |journal| journal.pin.seq),
        );
        self.note_went_back(known, (attempt, seq), by);
        self.status.common.attempt = attempt;
        if let Some(journal) = &mut self.status.journal {
            journal.pin.seq = seq;
            if rolling_back || journal.committed {
                journal.pin.renew();
            }
            // Who was let run meanwhile isn't known: everybody is held again.
            if let Some(back) = journal
                .roll_back
                .as_mut()
                .filter(|_| rolling_back && journal.pin.pinned)
            {
                journal.writer = None;
                journal.suspended = vec![journal.source.clone(), journal.target.clone()];
                back.restart = true;
                back.handed_over = true;
                back.source_captured = false;
                back.stage = RollBackStage::Taken;
            }
        }
    }

    /// Something was begun, and nobody knows how far: the journal was taken out of the status.
    pub(super) fn journal_is_lost(&self) -> bool {
        let begun = !matches!(self.status.phase, Phase::Pending | Phase::Preflight);
        begun && !self.status.phase.is_terminal() && self.status.journal.is_none()
    }

    /// Nothing is sent, and nothing is taken down: what stands holds every copy that it held.
    pub(super) fn without_journal(&mut self) -> Interrupt {
        let lost = Finding::new(
            LOST,
            format!("the journal is gone from the status in {}", self.status.phase),
            "put status.journal back from the record on the status branch, or look at the workload and then take the finalizer \
             off the intent: pin and claim go by themselves where that is safe",
        );
        self.raise(lost);
        Interrupt::Wait("the journal to be put back into the status: until then nothing is sent".to_owned())
    }

    /// Returns whether one that has ended has lost its journal since: it has moved the workload perhaps, and for which spec isn't
    /// known.
    pub(super) fn lost_journal_at_end(&self) -> bool {
        self.status.journal.is_none() && self.status.common.format == ENDED_FORMAT
    }

    /// Says that a change of its spec comes to nothing.
    pub(super) fn note_unheard(&mut self) {
        if self.lost_journal_at_end() && self.is_unseen() && !self.input.deleting {
            self.raise(Finding::new(
                LOST,
                "its journal is lost, and with it what was asked for: the change of its spec is not carried out",
                "where a file asks for it, rename the file and the intent in it to ask again; else ask again as it was set off",
            ));
        }
    }

    /// Returns the attempt and sequence that a member has seen, where they are later than the journal's, and which member.
    fn high_water_mark(&self) -> Option<((u32, u64), ClusterName)> {
        let known = (
            self.status.common.attempt,
            self.status.journal.as_ref().map_or(0, |journal| journal.pin.seq),
        );
        let members = self.input.snapshot.members.iter();
        let seen = members.filter_map(|(cluster, member)| {
            let object = member.object.get().ok()?.as_ref()?;
            let marker = object.pointer("/metadata/annotations")?.get(MARKER_ANNOTATION)?;
            Some((pin::sequence(marker.as_str()?, self.input.uid)?, cluster.clone()))
        });
        seen.max().filter(|(seen, _)| *seen > known)
    }

    fn note_went_back(&mut self, known: (u32, u64), seen: (u32, u64), by: &ClusterName) {
        self.status.common.findings.retain(|finding| finding.code != CODE);
        self.status.common.findings.push(Finding::new(
            CODE,
            format!(
                "{by} has seen sequence {} of attempt {}, and the journal was at {} of {}: the API server was restored from \
                 an older state",
                seen.1, seen.0, known.1, known.0
            ),
            "check where the workload runs, and from which state",
        ));
    }
}
