//! What has begun comes to its end, what was put up is taken down; and what happens after that.

use super::{Interrupt, MoveStrategy, Operation, Phase, SOON, under_way};
use crate::api::{Means, MoveState};

impl<A: MoveStrategy> Operation<'_, A> {
    pub(super) fn ending(&mut self) -> Result<(), Interrupt<A>> {
        let Some(ending) = self.journal()?.ending.clone() else {
            return Err(Interrupt::Wait(
                "why it ends is missing from the status".to_owned(),
            ));
        };
        // What was never created needs no end.
        let present = self.snapshot().migrations.get()?;
        let rebalancers = self.snapshot().rebalancers.get()?;
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
            return Err(Interrupt::Requeue);
        }
        self.end_children(ending.turns_back.then_some(ending.reason.as_str()))?;
        let running = under_way(&self.status);
        if running > 0 {
            self.look_again(SOON * 4);
            return Err(Interrupt::Wait(format!(
                "{running} moves to end: {}",
                ending.reason
            )));
        }
        if !self.keeps_cordon(&ending) {
            self.lift_cordons(|_| true)?;
        }
        self.end(ending.ends_as, vec![ending.reason]);
        Err(Interrupt::Requeue)
    }

    /// The cordon lasts, where that is asked for, until a person takes the intent away.
    fn keeps_cordon(&self, ending: &crate::api::MovesEnding) -> bool {
        let (_, keeps) = self.spec().cordons();
        keeps && ending.ends_as != Phase::Aborted && !self.input.deleting
    }
}
