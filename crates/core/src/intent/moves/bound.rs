//! A status stays of a size that an API server takes, however many workloads there are: so many moves are listed at a time, the
//! rest is counted. What is done makes room for what comes next.

use std::collections::BTreeSet;

use super::{MoveStrategy, Operation};
use crate::api::{Move, MoveState, Stay};

/// How many moves are listed that wait for their turn; as many are that are over, and that can't be moved.
pub const LISTED: usize = 300;
/// How many are where nothing begins before all have been looked at.
pub const AT_ONCE: usize = 1500;

/// Returns how many of a list are too many for a status.
fn beyond(length: usize) -> usize {
    length.saturating_sub(LISTED)
}

impl<A: MoveStrategy> Operation<'_, A> {
    /// Takes the oldest of those that have moved off the list. One that comes back later is moved again.
    pub(super) fn forget(&mut self, begun: &mut Vec<Move>) {
        let over = begun.iter().filter(|one| one.state.is_over()).count();
        let mut moved: Vec<_> = begun
            .iter()
            .filter(|one| one.state == MoveState::Moved)
            .map(|one| (one.finished_at, one.workload.clone()))
            .collect();
        moved.sort();
        moved.truncate(beyond(over));
        if let Some(journal) = &mut self.status.journal
            && !moved.is_empty()
        {
            journal.forgotten = journal.forgotten.saturating_add(counted(moved.len()));
            begun.retain(|one| {
                let of = (one.finished_at, one.workload.clone());
                one.state != MoveState::Moved || moved.binary_search(&of).is_err()
            });
        }
    }

    /// Lists the first of what there is to do, and counts the rest. What is known not to be movable takes nobody's place, as long as
    /// that isn't too much itself.
    pub(super) fn list_first(&mut self, found: Vec<Move>) -> Vec<Move> {
        let waiting = self.status.moves.iter();
        let blocked: BTreeSet<_> = waiting
            .filter(|one| one.state == MoveState::Waiting && one.blocked.is_some())
            .map(|one| (one.workload.clone(), one.from.clone()))
            .collect();
        let mut free = match blocked.len() {
            _ if self.spec().needs_all() => AT_ONCE,
            known if known >= LISTED => 0,
            _ => LISTED,
        };
        let all = found.len();
        let is_listed = |one: &Move| {
            let known = blocked.contains(&(one.workload.clone(), one.from.clone()));
            let has_place = known || free > 0;
            free = free.saturating_sub(usize::from(!known));
            has_place
        };
        let listed: Vec<Move> = found.into_iter().filter(is_listed).collect();
        self.status.later = counted(all - listed.len());
        listed
    }

    /// Names the first of those that stay, and counts the rest.
    pub(super) fn name_first(&mut self, stays: &mut Vec<Stay>) {
        self.status.more_stays = counted(beyond(stays.len()));
        stays.truncate(LISTED);
    }

    /// Returns how many moves of this round are over and off the list.
    pub(super) fn forgotten(&self) -> u32 {
        self.status
            .journal
            .as_ref()
            .map_or(0, |journal| journal.forgotten)
    }
}

pub(super) fn counted(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
