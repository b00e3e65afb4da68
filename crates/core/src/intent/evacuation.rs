//! Evacuation: everything that runs in a cluster is moved to others. The machine is that of [`super::moves`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::custody::held_by;
use super::headroom::{Headroom, WorkloadToPlace};
use super::moves::{
    Candidate, Chosen, Ground, Judged, MoveStrategy, Snapshot, Survey, judge, name_of, place,
};
use super::seen::NotKnown;
use crate::api::{
    EvacuationSpec, Finding, Means, Move, MoveState, MovesSpec, MovesStatus, Unmovable, WorkloadName,
    claim_name,
};
use cutover_karmada::Cluster;
use cutover_karmada::name::ClusterName;

/// How long it may take until Karmada counts what has arrived in a cluster as taken there.
const COUNTED: SignedDuration = SignedDuration::from_mins(1);
/// How long one that stands lets be what it had to leave.
const RETRIED: SignedDuration = SignedDuration::from_mins(5);

impl MoveStrategy for EvacuationSpec {
    const KIND: &'static str = "Evacuation";

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
        let mut findings = Vec::new();
        if self.cluster.is_some() == self.taint.is_some() {
            findings.push(Finding::new(
                "WhichCluster",
                "one of spec.cluster and spec.taint says which cluster is emptied",
                "give one of the two",
            ));
        }
        let goes_nowhere = |cluster: &ClusterName| self.moves.to.clusters == [cluster.clone()];
        if self.cluster.as_ref().is_some_and(goes_nowhere) {
            findings.push(Finding::new(
                "ToItself",
                "spec.to.clusters names only the cluster that is emptied",
                "name other clusters, or none for any that fits",
            ));
        }
        findings
    }

    fn stands(&self) -> bool {
        self.taint.is_some()
    }

    fn is_dry_run(&self) -> bool {
        false
    }

    fn needs_all(&self) -> bool {
        self.moves.unmovable == Unmovable::Wait
    }

    fn plans_once(&self) -> bool {
        false
    }

    fn cordons(&self) -> (bool, bool) {
        (self.cordon, self.cordon && self.keep_cordoned)
    }

    fn clusters(&self, snapshot: &Snapshot) -> Result<BTreeSet<ClusterName>, NotKnown> {
        let joined = snapshot.clusters.get()?;
        if let Some(cluster) = &self.cluster {
            return if joined.contains_key(cluster) {
                Ok(BTreeSet::from([cluster.clone()]))
            } else {
                Err(NotKnown(format!("no cluster {cluster} is joined")))
            };
        }
        let is_meant = |cluster: &Cluster| {
            let mut taints = cluster.spec.taints.iter();
            self.taint
                .as_ref()
                .is_some_and(|wanted| taints.any(|taint| wanted.matches(taint)))
        };
        let tainted = joined.iter().filter(|(_, cluster)| is_meant(cluster));
        Ok(tainted.map(|(name, _)| name.clone()).collect())
    }

    fn survey(&self, snapshot: &Snapshot, chosen: &Chosen<'_>, begun: &[Move]) -> Result<Survey, NotKnown> {
        let clusters = self.clusters(snapshot)?;
        let mut room = with_promises(snapshot, begun)?;
        let (mut candidates, mut stays) = (Vec::new(), Vec::new());
        for judged in judge(snapshot, chosen, &clusters)? {
            let candidate = match judged {
                Judged::Ignored => continue,
                Judged::Stays(stay) => {
                    stays.push(stay);
                    continue;
                }
                Judged::Divided(candidate) if candidate.binding.spec.clusters.len() < 2 => candidate,
                Judged::Divided(candidate) | Judged::Duplicated(candidate) => Candidate {
                    means: Means::Evict,
                    ..candidate
                },
                Judged::Movable(candidate) => candidate,
            };
            // One cluster after the other.
            let is_on_its_way = |one: &Move| one.workload == candidate.workload && one.state.is_under_way();
            if begun.iter().any(is_on_its_way) {
                continue;
            }
            match known(begun, &candidate) {
                None => candidates.push(candidate),
                Some(MoveState::Moved) => stays.push(candidate.stays(came_back())),
                Some(_) => {}
            }
        }
        let ground = Ground {
            clusters: snapshot.clusters.get()?,
            emptied: &clusters,
            cordons: self.cordons(),
            room: Some(&room),
        };
        let claims = snapshot.claims.get()?;
        candidates.retain(|candidate| {
            let why = (candidate.means == Means::Evict).then(|| {
                let claim = claims.get(&claim_name(&candidate.workload.key()));
                match claim {
                    Some(claim) => Err(Finding::new(
                        "Claimed",
                        held_by(&claim.spec.owner),
                        "cutover checks again",
                    )),
                    None => ground.refuses(candidate),
                }
            });
            match why {
                Some(Err(why)) => {
                    stays.push(candidate.stays(why));
                    false
                }
                Some(Ok(())) | None => true,
            }
        });
        chosen.sort(&mut candidates, ground.clusters, snapshot.now);
        let mut survey = place(&mut room, &candidates, &self.moves, &clusters);
        survey.stays.extend(stays);
        Ok(survey)
    }

    fn occasion(
        &self,
        snapshot: &Snapshot,
        status: &MovesStatus<Self>,
        now: Timestamp,
    ) -> Result<Option<String>, NotKnown> {
        let clusters = self.clusters(snapshot)?;
        if clusters.is_empty() {
            return Ok(None);
        }
        let Ok(chosen) = Chosen::of(&self.moves) else {
            return Ok(None);
        };
        let found = self.survey(snapshot, &chosen, &[])?;
        let listed = status.stays.iter().map(|stay| (&stay.workload, &stay.cluster));
        let blocked = status.moves.iter().filter(|one| one.blocked.is_some());
        let left: BTreeSet<(&WorkloadName, &ClusterName)> = listed
            .chain(blocked.map(|one| (&one.workload, &one.from)))
            .collect();
        let is_left = |one: &&Move| left.contains(&(&one.workload, &one.from));
        if let Some(news) = found.moves.iter().find(|one| !is_left(one)) {
            return Ok(Some(format!("{} is in {}", news.workload, news.from)));
        }
        // What stood in the way may not any more: only the round itself can tell.
        let since = status.common.steps.last().map(|step| step.started_at);
        let is_due = since.is_some_and(|since| now.duration_since(since) >= RETRIED);
        let mut again = found.moves.iter().filter(|_| is_due);
        Ok(again
            .next()
            .map(|one| format!("{} was left in {}, and is tried again", one.workload, one.from)))
    }
}

fn came_back() -> Finding {
    Finding::new(
        "CameBack",
        "it was moved, and is here again",
        "cordon the cluster, and see who moves it back: its policy, or a person",
    )
}

/// Returns what is known of a move of that workload out of that cluster.
pub(super) fn known(begun: &[Move], candidate: &Candidate<'_>) -> Option<MoveState> {
    let mut begun = begun.iter();
    begun
        .find(|one| one.workload == candidate.workload && one.from == candidate.from)
        .map(|one| one.state)
}

/// Returns the room that the clusters have, when what is on its way has arrived and is counted.
pub(super) fn with_promises<'a>(snapshot: &'a Snapshot, begun: &[Move]) -> Result<Headroom<'a>, NotKnown> {
    let bindings = snapshot.bindings.get()?;
    let templates = snapshot.templates.get()?;
    let mut room = Headroom::new(snapshot.clusters.get()?, bindings);
    let by_name: BTreeMap<WorkloadName, usize> = bindings
        .iter()
        .enumerate()
        .map(|(index, binding)| (name_of(binding), index))
        .collect();
    let not_counted_yet = |one: &&Move| {
        let lately = |at: Timestamp| snapshot.now.duration_since(at) < COUNTED;
        one.state.is_under_way() || (one.state == MoveState::Moved && one.finished_at.is_some_and(lately))
    };
    for one in begun.iter().filter(not_counted_yet) {
        let binding = by_name.get(&one.workload).map(|index| &bindings[*index]);
        let template = templates.get(&one.workload.key());
        if let (Some(binding), Some(template), Some(to)) = (binding, template, &one.to) {
            let candidate = WorkloadToPlace {
                binding,
                template,
                from: &one.from,
            };
            room.promise(candidate, to);
        }
    }
    Ok(room)
}
