//! What the gate says of workloads that would start elsewhere and whose kinds cannot be moved with their state: no Migration carries it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fate, Ground, Loss, Refusal};
use crate::profile::{self, Immovable};
use cutover_karmada::name::{GroupKind, Gvk};

impl Loss {
    /// Returns what the write would do, with the reason why no Migration carries the state. `known`: of its kind, if that cannot be
    /// moved.
    pub(crate) fn describe(&self, known: Option<&Immovable>) -> String {
        match known.filter(|_| self.starts_elsewhere()) {
            Some(known) => format!("{self}; {}", known.message(&self.workload.kind)),
            None => self.to_string(),
        }
    }

    /// Returns what a person can do so that nothing is lost. `known`: of its kind, if that cannot be moved.
    pub(crate) fn way_out_with(&self, known: Option<&Immovable>) -> Option<String> {
        match known.filter(|_| self.starts_elsewhere()) {
            Some(known) => Some(known.hint()),
            None => self.way_out(),
        }
    }

    fn starts_elsewhere(&self) -> bool {
        matches!(&self.fate, Fate::Moves { starts, .. } if !starts.is_empty())
    }

    fn kind(&self) -> GroupKind {
        GroupKind::new(&self.workload.group, &self.workload.kind)
    }
}

impl Refusal {
    /// Returns why a workload that would start elsewhere cannot be moved with its state, if it cannot.
    pub(crate) fn immovable(&self, loss: &Loss) -> Option<&'static Immovable> {
        self.immovable.get(&loss.kind()).copied()
    }

    /// Returns what a person can do about the first loss. What accepts the write accepts every loss: where a Migration carries the state of
    /// some of the workloads and not of all, those are moved first.
    pub(super) fn way_out(&self) -> Option<String> {
        let is_stuck = |loss: &&Loss| self.immovable(loss).is_some();
        let stuck = self.losses.iter().find(is_stuck);
        let mut moves = self
            .losses
            .iter()
            .filter(|loss| loss.is_move() && !is_stuck(loss));
        let first = stuck.or_else(|| self.losses.first())?;
        let way = first.way_out_with(self.immovable(first));
        let Some(moved) = stuck.and_then(|_| moves.next()) else {
            return way;
        };
        let how = moved.way_out()?;
        let more = match moves.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let rest = way.map_or_else(String::new, |way| format!("; {}: {way}", first.workload));
        Some(format!(
            "move {}{more} first ({how}), then push again{rest}",
            moved.workload
        ))
    }
}

impl Ground {
    /// Returns why the kinds of workloads that would start elsewhere cannot be moved, of those that cannot.
    pub(super) fn immovable(&self, losses: &[Loss]) -> BTreeMap<GroupKind, &'static Immovable> {
        let moved = losses.iter().filter(|loss| loss.starts_elsewhere());
        let kinds: BTreeSet<GroupKind> = moved.map(Loss::kind).collect();
        let known = |kind: GroupKind| {
            let gvk = Gvk {
                group: kind.group.clone(),
                version: String::new(),
                kind: kind.kind.clone(),
            };
            let known = profile::immovable(self.knowledge.to_be(), &gvk).ok().flatten()?;
            Some((kind, known))
        };
        kinds.into_iter().filter_map(known).collect()
    }
}
