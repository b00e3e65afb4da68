//! Rebalance: workloads are spread anew. What has replicas to divide and no state, Karmada's scheduler divides anew; the others
//! are moved one by one from where most is asked for, as long as that makes the load more even.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::evacuation::{known, with_promises};
use super::headroom::{Headroom, emptied};
use super::moves::{Candidate, Chosen, Judged, MoveStrategy, Snapshot, Survey, judge};
use super::seen::NotKnown;
use crate::api::{Finding, Means, Move, MovesSpec, MovesStatus, Occasion, RebalanceSpec, claim_name};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ClusterName;

/// How many workloads are moved by Migrations in one round.
const MOST: usize = 200;
/// How long capacity that is still lacking is no news.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

impl MoveStrategy for RebalanceSpec {
    const KIND: &'static str = "Rebalance";

    fn moves(&self) -> &MovesSpec {
        &self.moves
    }

    fn bare(&self) -> Self {
        Self {
            moves: self.moves.bare(),
            ..self.clone()
        }
    }

    fn refused(&self) -> Vec<Finding> {
        if self.moves.to.clusters.len() == 1 {
            return vec![Finding::new(
                "OneCluster",
                "spec.to.clusters names one cluster, and there is nothing to balance",
                "name several, or none for all",
            )];
        }
        Vec::new()
    }

    fn stands(&self) -> bool {
        !self.when.is_empty()
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    fn needs_all(&self) -> bool {
        false
    }

    /// Loads are told late: whoever looked at them between two moves would move too much.
    fn plans_once(&self) -> bool {
        true
    }

    fn cordons(&self) -> (bool, bool) {
        (false, false)
    }

    /// Those that take part.
    fn clusters(&self, snapshot: &Snapshot) -> Result<BTreeSet<ClusterName>, NotKnown> {
        let joined = snapshot.clusters.get()?;
        let named = &self.moves.to.clusters;
        let takes_part = |name: &ClusterName| named.is_empty() || named.contains(name);
        let ready = joined
            .iter()
            .filter(|(_, cluster)| cluster.is_ready() && emptied(cluster).is_none());
        Ok(ready.map(|(name, _)| name.clone()).filter(takes_part).collect())
    }

    fn survey(&self, snapshot: &Snapshot, chosen: &Chosen<'_>, begun: &[Move]) -> Result<Survey, NotKnown> {
        let clusters = self.clusters(snapshot)?;
        let mut room = with_promises(snapshot, begun)?;
        let claims = snapshot.claims.get()?;
        let mut survey = Survey::default();
        let mut movable = Vec::new();
        for judged in judge(snapshot, chosen, &clusters)? {
            let candidate = match judged {
                Judged::Ignored | Judged::Stays(_) | Judged::Duplicated(_) => continue,
                Judged::Divided(candidate) | Judged::Movable(candidate)
                    if known(begun, &candidate).is_some() =>
                {
                    continue;
                }
                Judged::Divided(candidate) => {
                    match held(
                        claims.contains_key(&claim_name(&candidate.workload.key())),
                        candidate.binding,
                    ) {
                        Some(why) => survey.stays.push(candidate.stays(why)),
                        None => survey.moves.push(Move {
                            means: Means::Reschedule,
                            checked: true,
                            ..candidate.to(None)
                        }),
                    }
                    continue;
                }
                Judged::Movable(candidate) => candidate,
            };
            movable.push(candidate);
        }
        chosen.sort(&mut movable, snapshot.clusters.get()?, snapshot.now);
        let unknown: Vec<&str> = clusters
            .iter()
            .filter(|name| room.capacity(name).is_none())
            .map(ClusterName::as_str)
            .collect();
        if !movable.is_empty() && !unknown.is_empty() {
            survey.findings.push(Finding::new(
                "CapacityUnknown",
                format!(
                    "the capacity and the use of {} are not known: nothing is moved there or away for balance",
                    unknown.join(", ")
                ),
                "Karmada reports them in status.resourceSummary of the cluster",
            ));
        }
        survey.moves.extend(self.level(&mut room, movable, &clusters));
        survey.moves.sort_by_key(|one| one.means != Means::Reschedule);
        Ok(survey)
    }

    fn occasion(
        &self,
        snapshot: &Snapshot,
        status: &MovesStatus<Self>,
        now: Timestamp,
    ) -> Result<Option<String>, NotKnown> {
        let joined = snapshot.clusters.get()?;
        let known = status.journal.as_ref().map_or(&[][..], |journal| &journal.known);
        for occasion in &self.when {
            let because = match occasion {
                Occasion::ClusterJoined => {
                    let mut new = joined.iter();
                    new.find(|(name, cluster)| !known.contains(name) && cluster.is_ready())
                        .map(|(name, _)| format!("{name} has joined"))
                }
                Occasion::ClusterLeft => {
                    let mut gone = known.iter();
                    gone.find(|name| !joined.contains_key(*name))
                        .map(|name| format!("{name} has left"))
                }
                Occasion::CapacityLacking => self.lacking(snapshot, status, now)?,
            };
            if because.is_some() {
                return Ok(because);
            }
        }
        Ok(None)
    }
}

impl RebalanceSpec {
    /// Moves from the cluster of which most is asked for, as long as the two that are concerned come nearer to each other.
    fn level(
        &self,
        room: &mut Headroom<'_>,
        mut movable: Vec<Candidate<'_>>,
        clusters: &BTreeSet<ClusterName>,
    ) -> Vec<Move> {
        let tolerance = i128::from(self.tolerance) * 10;
        let mut moves = Vec::new();
        let mut done: BTreeSet<ClusterName> = BTreeSet::new();
        while moves.len() < MOST {
            let busiest = clusters
                .iter()
                .filter(|name| !done.contains(*name))
                .filter_map(|name| Some((room.load(name)?, name)))
                .max();
            let Some((load, from)) = busiest else { break };
            let best = movable
                .iter()
                .enumerate()
                .filter(|(_, candidate)| candidate.from == *from)
                .filter_map(|(index, candidate)| {
                    let (to, level) = self.better(room, candidate, load, tolerance)?;
                    Some((level, index, to))
                })
                .min();
            let Some((_, index, to)) = best else {
                done.insert(from.clone());
                continue;
            };
            let candidate = movable.remove(index);
            room.release(candidate.candidate());
            room.promise(candidate.candidate(), &to);
            moves.push(candidate.to(Some(to)));
        }
        moves
    }

    /// Returns where a workload is better off, and the higher load of the two clusters then.
    fn better(
        &self,
        room: &Headroom<'_>,
        candidate: &Candidate<'_>,
        load: i128,
        tolerance: i128,
    ) -> Option<(ClusterName, i128)> {
        // What it asks for must be known: else nothing shows that anything is won.
        candidate.candidate().need()?;
        let to = room
            .choose(candidate.candidate(), &self.moves.to, &BTreeSet::new())
            .ok()?;
        if load - room.load(&to)? <= tolerance {
            return None;
        }
        let mut then = room.clone();
        then.release(candidate.candidate());
        then.promise(candidate.candidate(), &to);
        let level = then.load(&candidate.from)?.max(then.load(&to)?);
        (level < load).then_some((to, level))
    }

    fn lacking(
        &self,
        snapshot: &Snapshot,
        status: &MovesStatus<Self>,
        now: Timestamp,
    ) -> Result<Option<String>, NotKnown> {
        let since = status.common.steps.last().map(|step| step.started_at);
        let lately = since.is_some_and(|since| now.duration_since(since) < PATIENCE);
        let was_round = status.journal.as_ref().is_some_and(|journal| journal.round > 0);
        if lately && was_round {
            return Ok(None);
        }
        let unscheduled = snapshot.bindings.get()?.iter().find(|binding| {
            let conditions = binding.status.iter().flat_map(|status| &status.conditions);
            let mut scheduled = conditions.filter(|condition| condition.type_ == "Scheduled");
            scheduled.any(|condition| condition.status == "False")
        });
        if let Some(binding) = unscheduled {
            let name = super::moves::name_of(binding);
            return Ok(Some(format!("{name} can't be scheduled")));
        }
        let room = with_promises(snapshot, &[])?;
        let mut clusters = self.clusters(snapshot)?.into_iter();
        let full = clusters.find(|name| room.load(name).is_some_and(|load| load > 1000));
        Ok(full.map(|name| format!("the requests in {name} exceed its capacity")))
    }
}

/// Karmada would call it a success, and do it when nobody expects it any more.
fn held(is_claimed: bool, binding: &ResourceBinding) -> Option<Finding> {
    if is_claimed {
        return Some(Finding::new(
            "Claimed",
            "another intent has claimed it",
            "cutover checks again",
        ));
    }
    binding.spec.scheduling_suspended().then(|| {
        let hint = "end that suspension first";
        Finding::new(
            "SchedulingSuspended",
            "another client has suspended its scheduling",
            hint,
        )
    })
}
