//! What a pass says of itself in the status.

use super::bound::counted;
use super::{MoveStrategy, Operation, Phase};
use crate::api::{MoveState, Tally};

impl<A: MoveStrategy> Operation<'_, A> {
    pub(super) fn close(&mut self) {
        let (phase, now) = (self.status.phase, self.input.now);
        let is_changed = self
            .status
            .journal
            .as_ref()
            .is_some_and(|journal| !phase.is_terminal() && journal.spec.bare() != self.input.spec.bare());
        self.say(&[("Completed", phase == Phase::Completed)]);
        self.status.common.say_ignored(
            is_changed,
            "the spec was changed while moves are under way; the change has no effect",
            now,
        );
        self.status.progress = self.tally();
    }

    fn tally(&self) -> Option<Tally> {
        let (moves, forgotten) = (&self.status.moves, self.forgotten());
        let count =
            |which: &dyn Fn(MoveState) -> bool| counted(moves.iter().filter(|one| which(one.state)).count());
        (!moves.is_empty()).then(|| Tally {
            done: count(&|state| state == MoveState::Moved).saturating_add(forgotten),
            of: [forgotten, self.status.later]
                .into_iter()
                .fold(count(&|_| true), u32::saturating_add),
            moving: count(&MoveState::is_under_way),
            failed: count(&|state| state == MoveState::Failed),
        })
    }
}
