//! What a migration says while it doesn't go on: who or what it waits for, since when, until when, and what happens then.

use jiff::Timestamp;

use super::{OnFailure, Operation, Phase, Wait, limit};
use crate::api::{Offer, WaitCode};

impl Operation<'_> {
    /// Of what this pass offers, what a sentence says, in its order.
    pub(super) fn offers_in(&self, sentence: &str) -> Vec<Offer> {
        let offers = self.scratch.offers.borrow();
        // In brackets, so that no name is taken for the beginning of another.
        let place = |offer: &Offer| {
            let ends = [")", ";"].map(|end| sentence.find(&format!("{offer}{end}")));
            Some((ends.into_iter().flatten().min()?, offer.clone()))
        };
        let mut said: Vec<_> = offers.iter().filter_map(place).collect();
        said.sort_by_key(|(at, _)| *at);
        said.into_iter().map(|(_, offer)| offer).collect()
    }

    pub(super) fn wait_for_approval(&mut self, phase: Phase) {
        let attempt = self.status.common.attempt;
        let reason = format!("approval of {phase} for attempt {attempt}");
        self.wait(Wait::new(WaitCode::Approval, reason));
        if let Some(wait) = &mut self.status.common.waiting_for {
            wait.approval = Some(phase);
        }
    }

    /// Returns when a wait ends whatever is observed, and what happens then.
    pub(super) fn end_of_wait(&self) -> Option<(Timestamp, &'static str)> {
        if self.committed() || self.status.phase == Phase::RollingBack {
            return None;
        }
        let late = self.status.journal.as_ref().and_then(|journal| {
            let limit = limit(self.status.phase, &journal.spec).filter(|_| !self.time_stands())?;
            let then = match journal.spec.on_failure {
                OnFailure::RollBack => "roll back",
                OnFailure::Hold => "stay as it is, until a person asks for abort",
            };
            journal.phase_since.map(|since| (since + limit, then))
        });
        let deadline = self.input.spec.deadline.map(|deadline| (deadline, "roll back"));
        // One that has passed without an effect ends nothing.
        let ends = late.into_iter().chain(deadline);
        ends.filter(|(until, _)| *until > self.input.now).min()
    }

    pub(super) fn is_gated(&self, phase: Phase) -> bool {
        let gate = self
            .status
            .journal
            .as_ref()
            .and_then(|journal| journal.spec.approval.as_ref());
        let mut approvals = self.input.spec.approvals.iter();
        gate.is_some_and(|gate| gate.before.contains(&phase))
            && !approvals
                .any(|approval| approval.phase == phase && approval.attempt == self.status.common.attempt)
    }
}
