//! What a pass says of itself in the status.

use super::bound::counted;
use super::{Aim, Effect, Machine, Phase};
use crate::api::{MoveState, Progress, Tally};

impl<A: Aim> Machine<'_, A> {
    /// What is about to be sent stands in the journal first; the rest is for people.
    pub(super) fn note(&mut self, effects: &[Effect]) {
        let ended = self.status.phase.is_terminal();
        let changed = match &mut self.status.journal {
            Some(journal) => {
                journal.planned = effects
                    .iter()
                    .filter(|_| !ended)
                    .map(ToString::to_string)
                    .collect();
                !ended && journal.spec.bare() != self.input.spec.bare()
            }
            None => false,
        };
        let now = self.input.now;
        let phase = self.status.phase;
        let standing = self.status.standing();
        let common = &mut self.status.common;
        common.say(
            standing,
            phase.name(),
            &[("Completed", phase == Phase::Completed)],
            now,
        );
        common.say_ignored(
            changed,
            "the spec was changed while moves are under way; the change is not obeyed",
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
