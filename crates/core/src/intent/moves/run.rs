//! So many at a time, in their order, until nothing is left or too much has failed.

use std::time::Duration;

use super::start::count;
use super::{Interrupt, MoveStrategy, NOW_AND_THEN, Operation, Phase, SOON, listed, under_way};
use crate::api::{Means, MoveState, Unmovable};

/// How often what can't move for long is looked at.
const SELDOM: Duration = Duration::from_mins(1);

impl<A: MoveStrategy> Operation<'_, A> {
    pub(super) fn moving(&mut self) -> Result<(), Interrupt<A>> {
        self.cordon()?;
        self.children()?;
        let failed: Vec<String> = self
            .status
            .moves
            .iter()
            .filter(|one| one.state == MoveState::Failed)
            .map(|one| one.workload.to_string())
            .collect();
        if failed.len() > self.spec().moves().max_failures as usize {
            let reason = format!(
                "{} could not be moved: {}",
                count(failed.len(), "workload"),
                listed(&failed)
            );
            return Err(self.begin_to_end(reason, Phase::Failed));
        }
        let running = under_way(&self.status);
        if running >= self.spec().moves().max_parallel as usize {
            self.moves_go_on();
            return Ok(());
        }
        if let Err(stop) = self.may_go_on() {
            // What has begun is seen to its end; only then is there nothing but to wait.
            if running == 0 {
                return Err(stop);
            }
            self.moves_go_on();
            return Ok(());
        }
        self.survey()?;
        self.keep_cordons()?;
        if self.begin_next()? {
            return Err(Interrupt::Requeue);
        }
        if running > 0 {
            self.moves_go_on();
            return Ok(());
        }
        if self.movable() > 0 {
            return Err(Interrupt::Wait(format!(
                "{} still being looked at",
                count(self.movable(), "move")
            )));
        }
        self.look_again(NOW_AND_THEN);
        if failed.is_empty() {
            self.nothing_is_in_the_way()?;
        }
        self.is_done(&failed)
    }

    fn moves_go_on(&mut self) {
        let mut moves = self.status.moves.iter();
        // What others carry out is heard of.
        let own = moves.any(|one| one.means == Means::Evict && one.state.is_under_way());
        self.look_again(if own { SOON } else { SOON * 4 });
        self.status.common.waiting_for = None;
    }

    /// Takes the next one down as starting; its intent is created when that is written.
    fn begin_next(&mut self) -> Result<bool, Interrupt<A>> {
        let (now, most) = (self.input.now, self.spec().moves().max_parallel as usize);
        let mut free = most.saturating_sub(under_way(&self.status));
        let (uid, attempt, round) = (
            self.input.uid.to_owned(),
            self.status.common.attempt,
            self.journal()?.round,
        );
        let parent = self.input.name.to_owned();
        let mut begun = false;
        // What would only wait takes the place of none that can go.
        for would_wait in [false, true] {
            for one in &mut self.status.moves {
                let is_ready = one.state == MoveState::Waiting && one.checked && one.blocked.is_none();
                if free == 0 || !is_ready || one.note.is_some() != would_wait {
                    continue;
                }
                one.by = Some(super::children::name(&parent, &uid, attempt, round, one));
                (one.state, one.started_at, one.note) = (MoveState::Starting, Some(now), None);
                free -= 1;
                begun = true;
            }
        }
        Ok(begun)
    }

    fn is_done(&mut self, failed: &[String]) -> Result<(), Interrupt<A>> {
        let moved = self
            .status
            .moves
            .iter()
            .filter(|one| one.state == MoveState::Moved);
        let moved = count(moved.count() + self.forgotten() as usize, "workload");
        let later = match self.status.later {
            0 => String::new(),
            more => format!("; {more} more are left for later"),
        };
        let left = self.blocked();
        if !left.is_empty() && self.spec().moves().unmovable == Unmovable::Retry {
            // The longer that has been so, the less often it is looked at; a change of a cluster is heard of.
            self.look_again((self.waited() / 10).clamp(NOW_AND_THEN, SELDOM));
            let failed = match failed.len() {
                0 => String::new(),
                some => format!("; {some} could not be moved: {}", listed(failed)),
            };
            return Err(Interrupt::Wait(format!(
                "{moved} moved{failed}{later}; to be checked again: {}",
                listed(&left)
            )));
        }
        if self.spec().stands() && failed.is_empty() {
            self.note_known()?;
            self.enter(Phase::Watching, vec![format!("{moved} moved{later}")]);
            return Err(Interrupt::Requeue);
        }
        if !failed.is_empty() {
            let reason = format!(
                "{moved} moved; {} could not be moved: {}",
                failed.len(),
                listed(failed)
            );
            return Err(self.begin_to_end(reason, Phase::Failed));
        }
        let leaves = !left.is_empty();
        let reason = if leaves {
            format!("{moved} moved; left where they are: {}{later}", listed(&left))
        } else {
            format!("{moved} moved{later}")
        };
        Err(self.begin_to_end(reason, Phase::Completed))
    }
}
