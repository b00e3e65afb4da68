//! What has begun comes to its end, what was put up is taken down; and what happens after that.

use super::{Aim, Machine, Phase, SOON, Stop, under_way};
use crate::api::{Means, MoveState, MovesStatus};
use crate::intent::effect::Effect;

impl<A: Aim> Machine<'_, A> {
    pub(super) fn ending(&mut self) -> Result<(), Stop> {
        let Some(ending) = self.journal()?.ending.clone() else {
            return Err(Stop::Wait("why it ends is missing from the status".to_owned()));
        };
        // What was never created needs no end.
        let present = self.world().migrations.get()?;
        let rebalancers = self.world().rebalancers.get()?;
        let never = |one: &crate::api::Move| {
            let name = one.by.clone().unwrap_or_default();
            let namespace = one.workload.namespace.clone().unwrap_or_default();
            one.state == MoveState::Starting
                && one.means != Means::Evict
                && !present.contains_key(&(namespace, name.clone()))
                && !rebalancers.contains_key(&name)
        };
        let mut dropped = false;
        for one in &mut self.status.moves {
            if never(one) {
                (one.state, one.started_at, one.by) = (MoveState::Waiting, None, None);
                dropped = true;
            }
        }
        if dropped {
            return Err(Stop::Again);
        }
        self.end_children(ending.turns_back.then_some(ending.reason.as_str()))?;
        let running = under_way(&self.status);
        if running > 0 {
            self.look_again(SOON * 4);
            return Err(Stop::Wait(format!(
                "{running} moves come to their end: {}",
                ending.reason
            )));
        }
        if !self.keeps_cordon(&ending) {
            self.lift_cordons(|_| true)?;
        }
        self.end(ending.ends_as, vec![ending.reason]);
        Err(Stop::Again)
    }

    /// The cordon lasts, where that is asked for, until a person takes the intent away.
    fn keeps_cordon(&self, ending: &crate::api::MovesEnding) -> bool {
        let (_, keeps) = self.spec().cordons();
        keeps && ending.ends_as != Phase::Aborted && !self.input.deleting
    }

    /// Nothing more is done; a spec that asks for something else is a new attempt.
    pub(super) fn after_the_end(&mut self) -> Result<(), Stop> {
        self.recheck = None;
        let spec = self.input.spec;
        let lifted = !spec.moves().abort && self.status.phase == Phase::Aborted;
        let asked_anew = match &self.status.journal {
            Some(journal) => journal.spec.bare() != spec.bare() || lifted,
            None => self.status.common.observed_generation != self.input.generation,
        };
        if asked_anew || self.input.deleting {
            let cordoned = self.status.journal.as_ref();
            if cordoned.is_some_and(|journal| !journal.cordoned.is_empty()) {
                self.look_again(SOON);
                self.lift_cordons(|_| true)?;
            }
        }
        if asked_anew && !self.input.deleting {
            let attempt = self.status.common.attempt;
            self.status = MovesStatus::default();
            self.status.common.attempt = attempt;
            return Err(Stop::Again);
        }
        let keeps = self
            .status
            .journal
            .as_ref()
            .is_some_and(|journal| !journal.cordoned.is_empty());
        if self.input.has_finalizer && !keeps {
            return Err(Stop::Act(vec![Effect::RemoveFinalizer]));
        }
        Ok(())
    }
}
