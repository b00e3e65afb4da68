//! Whose turn it is: changes of so many workloads may be under way at once. A turn stands in the journal before its Rollout is
//! told, and is another one's only after that Rollout was seen without it: so no two passes, and no two replicas, count
//! differently.

use std::collections::{BTreeMap, BTreeSet};

use super::is_ending;
use crate::api::{Rollout, RolloutTurn as Turn, WaitCode};

/// Turns, by the name of the Rollout.
pub(super) type Turns = BTreeMap<String, Turn>;

/// A workload that the policy is in charge of.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub name: String,
    pub child: Option<&'a Rollout>,
    /// A change of its template waits.
    pub waits: bool,
}

/// What comes of one pass.
#[derive(Debug)]
pub(super) struct HandedOut {
    pub turns: Turns,
    /// How many wait, also for their Rollout to be seen.
    pub queued: usize,
    /// Whose Rollouts are to be made. They begin nothing before they have been seen, and have got a turn.
    pub create: BTreeSet<String>,
}

/// Returns the turns as they are from now on.
pub(super) fn hand_out(
    most: u32,
    before: &Turns,
    candidates: &[Candidate<'_>],
    children: &BTreeMap<&str, &Rollout>,
) -> HandedOut {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut turns = before.clone();
    turns.retain(|name, turn| match (children.get(name.as_str()), turn) {
        (Some(child), Turn::TakenBack) => !child.spec.queued,
        (Some(_), Turn::Given) => true,
        (None, _) => false,
    });
    // One that began before its turn could be taken back has it, and so has one of before there were turns.
    let under_way = children.iter().filter(|(_, child)| is_under_way(child));
    turns.extend(under_way.map(|(name, _)| ((*name).to_owned(), Turn::Given)));

    let mut wanting: Vec<&Candidate<'_>> = candidates
        .iter()
        .filter(|one| !turns.contains_key(&one.name) && one.wants_a_turn())
        .collect();
    wanting.sort_by_key(|one| (one.child.and_then(waiting_since), one.name.clone()));
    let unborn = candidates.iter().filter(|one| one.child.is_none() && one.waits);
    let free = most.saturating_sub(turns.len());
    let room = free.saturating_sub(wanting.len());
    let create: BTreeSet<String> = unborn.clone().take(room).map(|one| one.name.clone()).collect();
    let waiting = wanting.len().saturating_sub(free);
    let unborn = unborn.count();
    // Nobody's turn is taken back for those for whom there is room.
    let short = waiting + unborn.saturating_sub(room);
    let surplus = turns.len().saturating_sub(most);
    turns.extend(
        wanting
            .iter()
            .take(free)
            .map(|one| (one.name.clone(), Turn::Given)),
    );

    let already = turns.values().filter(|turn| **turn == Turn::TakenBack).count();
    let idle = turns.iter_mut().filter(|(name, turn)| {
        **turn == Turn::Given && children.get(name.as_str()).is_some_and(|child| is_idle(child))
    });
    for (_, turn) in idle.take(short.max(surplus).saturating_sub(already)) {
        *turn = Turn::TakenBack;
    }
    HandedOut {
        turns,
        queued: waiting + unborn,
        create,
    }
}

impl Candidate<'_> {
    fn wants_a_turn(&self) -> bool {
        self.child
            .is_some_and(|child| !is_ending(child) && waits_for_its_turn(child))
    }
}

pub(super) fn waits_for_its_turn(child: &Rollout) -> bool {
    let status = child.status.as_ref();
    let wait = status.and_then(|status| status.common.waiting_for.as_ref());
    !is_under_way(child) && wait.is_some_and(|wait| wait.code == WaitCode::Turn)
}

fn waiting_since(child: &Rollout) -> Option<jiff::Timestamp> {
    let wait = child.status.as_ref()?.common.waiting_for.as_ref()?;
    Some(wait.since)
}

fn is_under_way(child: &Rollout) -> bool {
    let phase = child.status.as_ref().map(|status| status.phase);
    phase.is_some_and(|phase| !phase.is_at_rest())
}

/// It has looked at its turn, and has nothing to begin.
fn is_idle(child: &Rollout) -> bool {
    let looked = child
        .status
        .as_ref()
        .map(|status| status.common.observed_generation);
    !is_under_way(child) && !is_ending(child) && !child.spec.queued && looked == child.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{RolloutPhase, RolloutPolicySpec, WorkloadRef};

    /// A Rollout as the API server has it, and each version that it had: a cache shows any of them, and never an older one than
    /// it showed before.
    #[derive(Default)]
    struct Child {
        versions: Vec<Rollout>,
        cached: usize,
        /// What Git wants and the control plane doesn't have.
        change: bool,
    }

    impl Child {
        fn now(&self) -> Option<&Rollout> {
            self.versions.last()
        }

        fn seen(&self) -> Option<&Rollout> {
            self.cached.checked_sub(1).and_then(|at| self.versions.get(at))
        }

        fn is_under_way(&self) -> bool {
            self.now().is_some_and(is_under_way)
        }

        /// Its own worker looks at it afresh, and writes by compare-and-swap.
        fn acts(&mut self) {
            let Some(mut next) = self.now().cloned() else {
                return;
            };
            let mut status = next.status.take().unwrap_or_default();
            status.common.observed_generation = next.metadata.generation.unwrap_or_default();
            status.common.waiting_for = None;
            if !status.phase.is_at_rest() {
                (status.phase, self.change) = (RolloutPhase::Completed, false);
            } else if self.change && next.spec.queued {
                status.phase = RolloutPhase::Pending;
                let now = jiff::Timestamp::UNIX_EPOCH;
                status.common.wait(WaitCode::Turn, String::new(), now);
            } else if self.change {
                status.phase = RolloutPhase::Rolling;
            }
            next.status = Some(status);
            self.versions.push(next);
        }

        /// The policy says something to it, as long as it is as the cache had it.
        fn is_told(&mut self, queued: bool) {
            let unchanged = self.cached == self.versions.len();
            let Some(seen) = self.seen().filter(|seen| unchanged && seen.spec.queued != queued) else {
                return;
            };
            let mut next = seen.clone();
            next.spec.queued = queued;
            next.metadata.generation = next.metadata.generation.map(|generation| generation + 1);
            self.versions.push(next);
        }
    }

    struct Model {
        most: u32,
        turns: Turns,
        children: BTreeMap<String, Child>,
    }

    impl Model {
        fn of(most: u32, workloads: usize) -> Self {
            let children = (0..workloads).map(|number| (format!("w{number}"), Child::default()));
            Self {
                most,
                turns: Turns::new(),
                children: children.collect(),
            }
        }

        fn pass(&mut self, is_killed: bool) {
            let seen: BTreeMap<&str, &Rollout> = self
                .children
                .iter()
                .filter_map(|(name, child)| Some((name.as_str(), child.seen()?)))
                .collect();
            let candidates: Vec<_> = self
                .children
                .iter()
                .map(|(name, child)| Candidate {
                    name: name.clone(),
                    child: child.seen(),
                    waits: child.change,
                })
                .collect();
            let handed_out = hand_out(self.most, &self.turns, &candidates, &seen);
            self.turns = handed_out.turns;
            if is_killed {
                return;
            }
            for (name, child) in &mut self.children {
                let given = self.turns.get(name) == Some(&Turn::Given);
                if child.versions.is_empty() && handed_out.create.contains(name) {
                    child.versions.push(created(name));
                }
                child.is_told(!given);
            }
        }

        fn under_way(&self) -> usize {
            self.children
                .values()
                .filter(|child| child.is_under_way())
                .count()
        }
    }

    fn created(name: &str) -> Rollout {
        let spec: RolloutPolicySpec = serde_json::from_value(json!({"select": []})).unwrap();
        let workload = WorkloadRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
        };
        let mut rollout = Rollout::new(name, super::super::wanted(&spec, &workload, true));
        rollout.metadata.generation = Some(1);
        rollout
    }

    /// Whatever the caches show late and wherever it is killed.
    #[test]
    fn never_more_are_under_way_than_may_be_and_everybody_has_a_turn() {
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (most, workloads) = (random.u32(1..4), random.usize(1..8));
            let mut model = Model::of(most, workloads);
            for _ in 0..400 {
                let name = format!("w{}", random.usize(0..workloads));
                let child = model.children.get_mut(&name).unwrap();
                match random.u8(0..8) {
                    0 => child.change = true,
                    1..=2 => child.acts(),
                    3..=5 => child.cached = random.usize(child.cached..=child.versions.len()),
                    6 => model.pass(false),
                    _ => model.pass(random.bool()),
                }
                assert!(model.under_way() <= most as usize, "seed {seed}");
            }
            for _ in 0..workloads * 12 {
                model.pass(false);
                for child in model.children.values_mut() {
                    child.cached = child.versions.len();
                    child.acts();
                    child.cached = child.versions.len();
                }
                assert!(model.under_way() <= most as usize, "seed {seed}");
            }
            let left: Vec<_> = model.children.iter().filter(|(_, child)| child.change).collect();
            assert_eq!(left.len(), 0, "seed {seed}: {:?}", model.turns);
        }
    }

    #[test]
    fn what_nobody_waits_for_is_left_where_it_is() {
        let mut model = Model::of(1, 2);
        let settle = |model: &mut Model| {
            for _ in 0..8 {
                model.pass(false);
                for child in model.children.values_mut() {
                    child.cached = child.versions.len();
                    if child.change {
                        child.acts();
                    }
                    child.cached = child.versions.len();
                }
            }
        };
        model.children.get_mut("w0").unwrap().change = true;
        settle(&mut model);
        let known = model.children["w0"].versions.len();
        settle(&mut model);
        assert_eq!(
            model.children["w0"].versions.len(),
            known,
            "at rest nothing is written"
        );
        assert_eq!(model.turns.get("w0"), Some(&Turn::Given));
        model.children.get_mut("w1").unwrap().change = true;
        settle(&mut model);
        assert_eq!(model.turns.get("w1"), Some(&Turn::Given));
        assert!(model.children["w0"].now().unwrap().spec.queued);
    }
}
