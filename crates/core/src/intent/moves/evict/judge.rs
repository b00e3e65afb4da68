//! Whether a workload that runs in several clusters can leave one of them: what the scheduler will make of its binding then,
//! where that is certain. Where it isn't, nobody finds out at the expense of a workload.

use std::collections::{BTreeMap, BTreeSet};

use super::super::survey::Candidate;
use crate::api::{CORDON_PREFIX, Finding};
use crate::intent::headroom::Headroom;
use crate::intent::placement::{divides, fits, kept_away, static_weight};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{
    Cluster, ClusterAffinity, Placement, ResourceBinding, ResourceBindingSpec, SpreadConstraint, Taint,
};

/// What it is judged by.
#[derive(Debug)]
pub struct Ground<'a> {
    pub clusters: &'a BTreeMap<ClusterName, Cluster>,
    /// All that are to be emptied: a workload has to find its place without any of them.
    pub emptied: &'a BTreeSet<ClusterName>,
    /// Whether they take nothing new meanwhile, and whether that lasts.
    pub cordons: (bool, bool),
    pub room: Option<&'a Headroom<'a>>,
}

impl Ground<'_> {
    /// Returns why a workload can't leave a cluster while others go on, if so.
    pub fn refuses(&self, candidate: &Candidate<'_>) -> Result<(), Finding> {
        let (binding, from) = (candidate.binding, &candidate.from);
        let spec = &binding.spec;
        let Some(placement) = &spec.placement else {
            return Err(unsettled("no policy says where it goes"));
        };
        quiet(binding, from)?;
        settled(binding, placement)?;
        self.stays_away(candidate, placement)?;
        self.others_are_well(spec, placement, from)?;
        let alone = BTreeSet::from([from.clone()]);
        let fit = self.certain(binding, placement, &alone)?;
        self.weights_take_nothing(spec, placement, from, &fit)?;
        let fit = self.certain(binding, placement, self.emptied)?;
        self.comes_back(candidate, placement, &fit)?;
        self.has_room(candidate, placement, &fit)
    }

    /// Something keeps the scheduler from giving it back.
    fn stays_away(&self, candidate: &Candidate<'_>, placement: &Placement) -> Result<(), Finding> {
        let from = &candidate.from;
        let Some(cluster) = self.clusters.get(from) else {
            return Err(unsettled(&format!("{from} is not joined")));
        };
        if kept_away(placement, cluster, |_| true) {
            return Ok(());
        }
        let is_cordoned = cluster.spec.taints.iter().any(is_own);
        if self.cordons.0 && !is_cordoned && placement.untolerated_by_scheduler(&own_taint()) {
            return Ok(());
        }
        let (why, hint) = if self.cordons.0 {
            (
                "its policy tolerates the taint that would keep it away",
                "take that toleration out of its policy, or the cluster",
            )
        } else {
            (
                "nothing would keep it away: Karmada's scheduler would give it back at once",
                "set cordon: true, or taint the cluster with NoSchedule",
            )
        };
        Err(Finding::new("NotKeptAway", format!("{from}: {why}"), hint))
    }

    /// The copies that go on can be seen, and Karmada takes none of them away.
    fn others_are_well(
        &self,
        spec: &ResourceBindingSpec,
        placement: &Placement,
        from: &ClusterName,
    ) -> Result<(), Finding> {
        for name in left(spec, &BTreeSet::from([from.clone()])) {
            let Some(cluster) = self.clusters.get(name) else {
                return Err(unsettled(&format!("{name}, where it runs, is not joined")));
            };
            if !cluster.is_ready() {
                return Err(unsettled(&format!("{name}, where it goes on, is not Ready")));
            }
            if let Some(taint) = placement.evicted_by(cluster) {
                let why = format!(
                    "Karmada evicts it from {name} as well, for the taint {}",
                    taint.key
                );
                return Err(unsettled(&why));
            }
            if spec.dispatching_suspended(name.as_str()) {
                return Err(Finding::new(
                    "DispatchingSuspended",
                    format!("changes for {name}, where it goes on, are suspended"),
                    "end that suspension first",
                ));
            }
        }
        Ok(())
    }

    /// Returns the clusters that the scheduler takes when some have gone, in which those that are left stay for certain.
    fn certain<'b>(
        &'b self,
        binding: &ResourceBinding,
        placement: &Placement,
        gone: &BTreeSet<ClusterName>,
    ) -> Result<Vec<&'b ClusterName>, Finding> {
        let spec = &binding.spec;
        let observed = binding
            .status
            .as_ref()
            .map_or("", |status| status.scheduler_observed_affinity_name.as_str());
        let affinity = affinity_in_use(placement, observed, spec)?;
        let fit: Vec<&ClusterName> = self
            .clusters
            .iter()
            .filter(|(name, _)| !gone.contains(*name))
            .filter(|(name, cluster)| fits(spec, placement, affinity, name, cluster))
            .map(|(name, _)| name)
            .collect();
        let left = left(spec, gone);
        if left.is_empty() {
            return Err(Finding::new(
                "SeveralClusters",
                "every cluster that it runs in is to be emptied, and it can leave one only while its other clusters keep it",
                "empty one after the other, when it has come to run elsewhere",
            ));
        }
        if let Some(lost) = left.iter().find(|name| !fit.contains(name)) {
            return Err(not_certain(&format!(
                "the scheduler would take it from {lost} as well, which its policy doesn't allow any more"
            )));
        }
        self.spread(spec, placement, &fit, &left)?;
        Ok(fit)
    }

    /// What is left satisfies the policy's groups, and nothing that is left is exchanged for something else.
    fn spread(
        &self,
        spec: &ResourceBindingSpec,
        placement: &Placement,
        fit: &[&ClusterName],
        left: &[&ClusterName],
    ) -> Result<(), Finding> {
        // These count for nothing there.
        if placement.spread_constraints.is_empty() || placement.divides_by_static_weights() {
            return Ok(());
        }
        let by = |field: &str| -> Option<&SpreadConstraint> {
            let mut constraints = placement.spread_constraints.iter();
            constraints.find(|constraint| {
                constraint.spread_by_label.is_empty() && constraint.spread_by_field == field
            })
        };
        let count = |number: i64| usize::try_from(number).unwrap_or_default();
        let Some(by_cluster) = placement.cluster_constraint() else {
            return Err(not_certain(
                "its policy spreads it, and not by cluster: which clusters the scheduler would choose is not certain",
            ));
        };
        too_few("clusters", fit.len(), count(by_cluster.min_groups))?;
        if left.len() > count(by_cluster.max_groups) {
            return Err(not_certain(
                "it runs in more clusters than its policy's maxGroups allows: the scheduler would take it from one more",
            ));
        }
        if let Some(by_region) = by("region") {
            let regions: BTreeSet<&str> = fit
                .iter()
                .filter_map(|name| Some(self.clusters.get(*name)?.spec.region.as_str()))
                .collect();
            too_few("regions", regions.len(), count(by_region.min_groups))?;
            // It takes as few regions as it may, and of these what it scores highest.
            if fit.len() > left.len() || regions.len() > count(by_region.min_groups) {
                return Err(not_certain(
                    "its policy spreads it by region, and which clusters the scheduler takes then is not certain",
                ));
            }
            return Ok(());
        }
        let divides = divides(spec, placement);
        if divides && fit.len() > count(by_cluster.max_groups) {
            return Err(not_certain(
                "there are more clusters than its policy's maxGroups allows, and the scheduler ranks them by free capacity: which ones \
                 it would choose is not certain",
            ));
        }
        Ok(())
    }

    /// Fixed weights are applied to all replicas anew: what a cluster has beyond its weight would go before it is elsewhere.
    fn weights_take_nothing(
        &self,
        spec: &ResourceBindingSpec,
        placement: &Placement,
        from: &ClusterName,
        fit: &[&ClusterName],
    ) -> Result<(), Finding> {
        if !(divides(spec, placement) && placement.divides_by_static_weights()) {
            return Ok(());
        }
        let weigh = |weight: &dyn Fn(&Cluster) -> i64| -> BTreeMap<&ClusterName, i64> {
            let weighed = fit
                .iter()
                .filter_map(|name| Some((*name, weight(self.clusters.get(*name)?))));
            weighed.filter(|(_, weight)| *weight > 0).collect()
        };
        let mut weights = weigh(&|cluster| static_weight(placement, cluster));
        if weights.is_empty() {
            weights = weigh(&|_| 1);
        }
        let (mut lost, mut freed) = (0, 0);
        for target in &spec.clusters {
            if target.name == *from {
                freed = target.replicas;
            } else {
                let least = least_share(spec.replicas, &target.name, &weights);
                lost += (target.replicas - least).max(0);
            }
        }
        if lost > freed {
            return Err(not_certain(
                "its replicas are not divided as its policy's weights say: the scheduler would take more from other \
                 clusters than it has here",
            ));
        }
        Ok(())
    }

    /// What runs wherever it may comes back as soon as it may again.
    fn comes_back(
        &self,
        candidate: &Candidate<'_>,
        placement: &Placement,
        fit: &[&ClusterName],
    ) -> Result<(), Finding> {
        let from = &candidate.from;
        if divides(&candidate.binding.spec, placement) || self.cordons.1 {
            return Ok(());
        }
        let stands = self
            .clusters
            .get(from)
            .is_some_and(|cluster| kept_away(placement, cluster, |taint| !is_own(taint)));
        // Where it is already, it stays: there is no place left for another one.
        let most = placement
            .cluster_constraint()
            .map(|constraint| usize::try_from(constraint.max_groups).unwrap_or_default());
        let by_cluster_alone = placement.spread_constraints.len() == 1;
        let is_full = by_cluster_alone && most.is_some_and(|most| fit.len() >= most);
        if stands || is_full {
            return Ok(());
        }
        Err(Finding::new(
            "ComesBack",
            format!("its policy wants it in {from}: it comes back as soon as the cordon is lifted"),
            "set keepCordoned: true, taint the cluster yourself, or take the cluster out of its policy",
        ))
    }

    /// The others have room for what it has here, as far as that is known.
    fn has_room(
        &self,
        candidate: &Candidate<'_>,
        placement: &Placement,
        fit: &[&ClusterName],
    ) -> Result<(), Finding> {
        let spec = &candidate.binding.spec;
        let Some(room) = self.room.filter(|_| divides(spec, placement)) else {
            return Ok(());
        };
        let here = spec.clusters.iter().find(|target| target.name == candidate.from);
        let wanted = i128::from(here.map_or(0, |target| target.replicas));
        let Some(need) = candidate.candidate().need() else {
            return Ok(());
        };
        let mut all = 0_i128;
        for name in fit {
            match room.capacity(name).map(|capacity| capacity.replicas(&need.each)) {
                Some(Some(more)) => all += more,
                // Of one that has no limit, or isn't known, nobody can say that it is too small.
                Some(None) | None => return Ok(()),
            }
        }
        if all >= wanted {
            return Ok(());
        }
        Err(Finding::new(
            "NoTarget",
            format!("the other clusters have capacity for {all} of the {wanted} replicas that it has here"),
            "free capacity there, or let its policy allow another cluster",
        ))
    }
}

/// Returns the clusters that a binding lists, without some.
fn left<'a>(spec: &'a ResourceBindingSpec, gone: &BTreeSet<ClusterName>) -> Vec<&'a ClusterName> {
    let names = spec.clusters.iter().map(|target| &target.name);
    names.filter(|name| !gone.contains(*name)).collect()
}

/// Nobody else is at work on it, and it goes when Karmada is told so.
fn quiet(binding: &ResourceBinding, from: &ClusterName) -> Result<(), Finding> {
    let spec = &binding.spec;
    if let Some(task) = spec.graceful_eviction_tasks.first() {
        return Err(Finding::new(
            "BeingEvicted",
            format!("{} is evicting it from {}", task.producer, task.from_cluster),
            "cutover checks again",
        ));
    }
    if spec.scheduling_suspended() {
        return Err(Finding::new(
            "SchedulingSuspended",
            "its scheduling is suspended: its replicas would not be divided among the others",
            "end that suspension first",
        ));
    }
    if spec.dispatching_suspended(from.as_str()) {
        return Err(Finding::new(
            "DispatchingSuspended",
            format!("changes for {from} are suspended"),
            "end that suspension first",
        ));
    }
    if spec.preserve_resources_on_deletion == Some(true) {
        return Err(Finding::new(
            "Preserved",
            "its policy has preserveResourcesOnDeletion: the copy would stay, and run on",
            "take that out of its policy",
        ));
    }
    let required = spec.required_by.iter();
    let mut required = required.filter(|by| by.clusters.iter().any(|target| target.name == *from));
    if let Some(by) = required.next() {
        return Err(Finding::new(
            "Required",
            format!("{} needs it in {from}, and it follows that workload", by.name),
            "it leaves when that workload has left",
        ));
    }
    Ok(())
}

/// The scheduler has nothing to do with it as it is: what it does next is for what is changed.
fn settled(binding: &ResourceBinding, placement: &Placement) -> Result<(), Finding> {
    let spec = &binding.spec;
    if binding.applied_placement().as_ref() != Some(placement) {
        return Err(unsettled(
            "Karmada's scheduler has yet to look at what its policy says",
        ));
    }
    let last = binding
        .status
        .as_ref()
        .and_then(|status| status.last_scheduled_time.as_ref());
    if let (Some(triggered), Some(last)) = (&spec.reschedule_triggered_at, last)
        && triggered.0 > last.0
    {
        return Err(unsettled("another client has asked Karmada to reschedule it"));
    }
    let assigned: i32 = spec.clusters.iter().map(|target| target.replicas).sum();
    if divides(spec, placement) && assigned != spec.replicas {
        return Err(unsettled(&format!(
            "{assigned} of its {} replicas are divided among clusters",
            spec.replicas
        )));
    }
    Ok(())
}

/// Returns the affinity that the scheduler goes by. What has several groups may fall through to the next.
fn affinity_in_use<'a>(
    placement: &'a Placement,
    observed: &str,
    spec: &ResourceBindingSpec,
) -> Result<Option<&'a ClusterAffinity>, Finding> {
    let terms = &placement.cluster_affinities;
    if terms.is_empty() {
        return Ok(placement.cluster_affinity.as_ref());
    }
    let index = terms.iter().position(|term| term.affinity_name == observed);
    let Some(index) = index else {
        return Err(unsettled(
            "which group of its policy's affinities is in use is not known",
        ));
    };
    let term = &terms[index];
    // One that lacks room gives up all of its clusters for those of the next one.
    let by_room = divides(spec, placement) && !placement.divides_by_static_weights();
    if !term.overflow_affinities.is_empty() || (by_room && index + 1 < terms.len()) {
        return Err(not_certain(
            "its policy has groups of affinities, and whether the scheduler stays with the one in use is not certain",
        ));
    }
    Ok(Some(&term.affinity))
}

fn is_own(taint: &Taint) -> bool {
    taint.key.starts_with(CORDON_PREFIX)
}

/// The cordon, before it is put up.
fn own_taint() -> Taint {
    Taint {
        key: CORDON_PREFIX.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

/// Returns how many replicas a cluster has at least when they are divided by Webster's method, whoever wins where two are
/// equal.
pub(super) fn least_share(replicas: i32, name: &ClusterName, weights: &BTreeMap<&ClusterName, i64>) -> i32 {
    let Some(own) = weights.get(name) else { return 0 };
    let seats = i64::from(replicas.max(0));
    // The seat `n` (from 1 on) of a party with weight `w` is worth w / (2n - 1).
    let gets = |seat: i64| {
        let ahead: i64 = weights
            .iter()
            .filter(|(other, _)| **other != name)
            // Of each other one the seats that are worth as much or more.
            .map(|(_, weight)| (weight * (2 * seat - 1) / own + 1) / 2)
            .sum();
        seat + ahead <= seats
    };
    let least = (1..=seats).take_while(|seat| gets(*seat)).count();
    i32::try_from(least).unwrap_or(i32::MAX)
}

fn too_few(what: &str, there: usize, wanted: usize) -> Result<(), Finding> {
    if there >= wanted {
        return Ok(());
    }
    Err(Finding::new(
        "TooFewClusters",
        format!(
            "its policy wants {wanted} {what}, and {there} would be left: Karmada would schedule nothing"
        ),
        "have its policy allow another cluster, or ask for fewer (minGroups)",
    ))
}

fn not_certain(why: &str) -> Finding {
    Finding::new(
        "NotCertain",
        why,
        "remove the cluster from its policy by hand, and check what Karmada does",
    )
}

fn unsettled(why: &str) -> Finding {
    Finding::new("Unsettled", why, "cutover checks again")
}
