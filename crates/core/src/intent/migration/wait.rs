//! What a migration says while it doesn't go on: who or what it waits for, since when, until when, and what happens then.

use std::time::Duration;

use jiff::Timestamp;

use super::{LATER, Machine, OnFailure, Phase, SELDOM, SOON, limit};
use crate::api::{Offer, WaitCode, WaitingFor};

/// A time that comes is waited for at least as long, because clocks are coarse.
const BRIEF: Duration = Duration::from_millis(10);

impl Machine<'_> {
    pub(super) fn wait(&mut self, reason: String) {
        let code = if self.is_paused() {
            WaitCode::Pause
        } else {
            WaitCode::Evidence
        };
        self.wait_for(code, reason);
    }

    pub(super) fn wait_for(&mut self, code: WaitCode, reason: String) {
        let now = self.input.now;
        let since = match &self.status.waiting_for {
            Some(wait) if wait.reason == reason => wait.since,
            _ => now,
        };
        let (until, then) = self.end_of_wait().unzip();
        if self.recheck == Some(SOON) {
            let soon = self.patience(code, since);
            self.recheck = Some(until.map_or(soon, |until| soon.min(self.left(until))));
        }
        self.status.waiting_for = Some(WaitingFor {
            code,
            offers: self.offers_in(&reason),
            reason,
            approval: None,
            since,
            until,
            then: then.map(str::to_owned),
        });
    }

    /// Of what this pass offers, what a sentence says, in its order.
    fn offers_in(&self, sentence: &str) -> Vec<Offer> {
        let offers = self.offers.borrow();
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
        let attempt = self.status.attempt;
        self.wait_for(
            WaitCode::Approval,
            format!("approval of {phase} for attempt {attempt}"),
        );
        if let Some(wait) = &mut self.status.waiting_for {
            wait.approval = Some(phase);
        }
    }

    /// News wake a migration; this is for what nobody tells. The longer something takes, the longer it may go unnoticed.
    fn patience(&self, code: WaitCode, since: Timestamp) -> Duration {
        let age = Duration::try_from(self.input.now.duration_since(since)).unwrap_or_default();
        let longest = if code.is_for_a_person() || self.status.journal.is_none() {
            SELDOM
        } else {
            LATER
        };
        (age / 10).clamp(SOON, longest)
    }

    pub(super) fn left(&self, until: Timestamp) -> Duration {
        Duration::try_from(until.duration_since(self.input.now))
            .unwrap_or_default()
            .max(BRIEF)
    }

    /// Returns when a wait ends whatever is observed, and what happens then.
    fn end_of_wait(&self) -> Option<(Timestamp, &'static str)> {
        if self.committed() || self.status.phase == Phase::RollingBack {
            return None;
        }
        let late = self.status.journal.as_ref().and_then(|journal| {
            let limit = limit(self.status.phase, &journal.spec).filter(|_| !self.is_paused())?;
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
            && !approvals.any(|approval| approval.phase == phase && approval.attempt == self.status.attempt)
    }
}
