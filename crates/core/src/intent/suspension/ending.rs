//! When a suspension ends, and why; and what may come after its end.

use super::{Interrupt, Operation, Phase};
use crate::api::Ending;

impl Operation<'_> {
    /// Begins to end when it is asked for, or its time is over, or another intent was there first.
    pub(super) fn turns_back(&mut self) -> Result<(), Interrupt> {
        let ending = match self.ending() {
            Some(ending) => Some(ending),
            None => self.yields()?,
        };
        let Some(ending) = ending else {
            return Ok(());
        };
        let reason = ending.reason.clone();
        self.journal_mut()?.ending = Some(ending);
        self.enter(Phase::Resuming, vec![reason]);
        Err(Interrupt::Requeue)
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        let spec = self.input.spec;
        let ending = |reason: String, ends_as| Ending {
            reason,
            listed: false,
            ends_as,
        };
        if self.input.deleting {
            return Some(ending("it was deleted".to_owned(), Phase::Aborted));
        }
        if spec.abort {
            return Some(ending("abort was asked for".to_owned(), Phase::Aborted));
        }
        let until = spec.until.filter(|until| *until <= self.input.now)?;
        (!spec.paused).then(|| ending(format!("its time ended at {until}"), Phase::Completed))
    }

    /// Another intent that took the workload in the same moment has looked before this suspension was there, and would wait in
    /// vain for what it does to arrive. It makes room, and comes back afterwards. So it does when the workload's policy or
    /// what is asked for changes.
    fn yields(&self) -> Result<Option<Ending>, Interrupt> {
        let by_pin = self.journal()?.pin.is_some();
        let why = if let Some(claim) = self.claimed(by_pin)? {
            Some(claim)
        } else if self.journal()?.spec.asks_the_same(self.input.spec) {
            // A pin is about the workload, whoever propagates it.
            let now = self.snapshot().name.get()?.as_ref().filter(|_| !by_pin);
            let journaled = &self.journal()?.policy;
            now.filter(|now| *now != journaled)
                .map(|now| format!("{now} propagates the workload now"))
        } else {
            Some("the spec asks for something else".to_owned())
        };
        Ok(why.map(|reason| Ending {
            reason,
            listed: false,
            ends_as: Phase::Pending,
        }))
    }

    /// Returns whether the spec of a suspension that has ended asks for another one.
    pub(super) fn begins_again(&self) -> bool {
        let (spec, status) = (self.input.spec, &self.status);
        let Some(journal) = &status.journal else {
            return self.is_unseen();
        };
        let is_lifted = !spec.abort && status.phase == Phase::Aborted;
        let is_longer = spec.until.is_none_or(|until| until > self.input.now);
        !journal.spec.asks_the_same(spec) || is_lifted || (is_longer && status.phase == Phase::Completed)
    }
}
