//! A paused migration goes no further, and keeps what it has put up: fence and pin. While no copy runs, its time goes on: a
//! forgotten pause doesn't keep the workload down.

use super::{Interrupt, LATER, Operation, Phase};

impl Operation<'_> {
    /// During a pause the time limit of a phase stands still, unless no copy runs, and a condition that has to hold without a break
    /// starts again.
    /// `lapse`: something runs beside a healthy writer, which isn't to lose the token for that.
    pub(super) fn note_pause(&mut self, lapse: bool) {
        let (now, paused, phase) = (self.input.now, self.time_stands() || lapse, self.status.phase);
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        if paused {
            journal.paused_since.get_or_insert(now);
        } else if let Some(since) = journal.paused_since.take() {
            journal.phase_since = journal.phase_since.map(|began| began + now.duration_since(since));
            if phase == Phase::Verify {
                journal.healthy_since = None;
            }
        }
    }

    /// A roll back isn't paused: it is the way back to a workload that runs.
    pub(super) fn is_paused(&self) -> bool {
        self.input.spec.paused && self.status.phase != Phase::RollingBack
    }

    /// Returns whether a pause lets the time of the phase stand still.
    pub(super) fn time_stands(&self) -> bool {
        self.is_paused() && !self.is_down()
    }

    /// Returns whether the one that ran was told to stop, and nobody was seen running since.
    fn is_down(&self) -> bool {
        let journal = self.status.journal_in_force();
        let is_down =
            journal.is_some_and(|journal| journal.down_since.is_some() && journal.up_since.is_none());
        is_down
            && match self.status.phase {
                // The pin that stops it may not have been sent.
                Phase::Capture => self.stop_is_due().unwrap_or(true),
                Phase::Handoff => !self.target_is_good(),
                _ => false,
            }
    }

    /// Puts fence and pin back where somebody took them away, and watches over the stopped side. Nothing else is done.
    pub(super) fn pause(&mut self) -> Interrupt {
        self.requeue_after = Some(LATER);
        match self.keep_up() {
            Ok(()) | Err(Interrupt::Wait(_)) if self.is_down() => {
                Interrupt::Wait("paused by the spec, and the workload is not seen running".to_owned())
            }
            Ok(()) | Err(Interrupt::Wait(_)) => Interrupt::Wait("paused by the spec".to_owned()),
            Err(stop) => stop,
        }
    }

    fn keep_up(&mut self) -> Result<(), Interrupt> {
        let Some(journal) = &self.status.journal else {
            return Ok(());
        };
        let (pinned, writer) = (journal.pin.pinned, journal.writer.clone());
        // Before its first effect there is nothing to keep; once the fence comes down only the pin stays, and that alone.
        if !journal.fence.recorded || journal.fence.lowered {
            return Ok(());
        }
        // A source that was not told to stop yet is not told so now: its state would stand nowhere but in its cluster.
        let is_due = self.stop_is_due()?;
        if is_due {
            self.claim()?;
        }
        self.renew_barrier()?;
        self.fence()?;
        if pinned && is_due {
            self.token()?;
        }
        let (source, target) = self.ends()?;
        if !self.committed() && writer.as_ref() == Some(&target) {
            self.no_lapse(&source)?;
        }
        Ok(())
    }
}
