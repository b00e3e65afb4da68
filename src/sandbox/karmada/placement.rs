//! Which clusters a placement chooses, and how replicas are divided among them. Pure.

use std::cmp::Reverse;

use crate::karmada::{
    Cluster, ClusterAffinity, Placement, ReplicaDivision, ReplicaSchedulingType, ResourceBindingSpec,
    TargetCluster,
};
use crate::name::ClusterName;

/// What the scheduler decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub clusters: Vec<TargetCluster>,
    /// The group of `clusterAffinities` that was used; empty without groups.
    pub affinity: String,
}

/// Chooses clusters for a binding. With groups, the first one from `observed` on that gives a result is used.
pub fn choose(
    placement: &Placement,
    binding: &ResourceBindingSpec,
    observed: &str,
    clusters: &[Cluster],
) -> Result<Choice, String> {
    let terms = &placement.cluster_affinities;
    if terms.is_empty() {
        let chosen = choose_among(placement, placement.cluster_affinity.as_ref(), binding, clusters)?;
        return Ok(Choice {
            clusters: chosen,
            affinity: String::new(),
        });
    }
    let begin = terms
        .iter()
        .position(|term| term.affinity_name == observed)
        .unwrap_or(0);
    let mut failure = "no affinity group".to_owned();
    for term in &terms[begin..] {
        match choose_among(placement, Some(&term.affinity), binding, clusters) {
            Ok(clusters) => {
                return Ok(Choice {
                    clusters,
                    affinity: term.affinity_name.clone(),
                });
            }
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

fn choose_among(
    placement: &Placement,
    affinity: Option<&ClusterAffinity>,
    binding: &ResourceBindingSpec,
    clusters: &[Cluster],
) -> Result<Vec<TargetCluster>, String> {
    let mut fitting: Vec<&Cluster> = clusters
        .iter()
        .filter(|cluster| fits(placement, affinity, binding, cluster))
        .collect();
    if fitting.is_empty() {
        return Err(format!("0/{} clusters are available", clusters.len()));
    }
    fitting.sort_by_key(|cluster| (Reverse(score(binding, cluster)), name(cluster)));
    let selected = spread(placement, fitting)?;
    Ok(divide(placement, binding, &selected))
}

/// The filters: a cluster that is in use already is not thrown out for its taints or for an API it lost.
fn fits(
    placement: &Placement,
    affinity: Option<&ClusterAffinity>,
    binding: &ResourceBindingSpec,
    cluster: &Cluster,
) -> bool {
    let in_use = binding.clusters.iter().any(|target| target.name == name(cluster));
    let resource = &binding.resource;
    cluster.metadata.deletion_timestamp.is_none()
        && affinity.is_none_or(|affinity| affinity.matches(cluster))
        && (in_use || placement.untolerated(cluster).next().is_none())
        && (in_use || cluster.serves(&resource.api_version, &resource.kind))
        && !binding
            .graceful_eviction_tasks
            .iter()
            .any(|task| task.from_cluster == name(cluster))
}

/// Locality: what has replicas stays where they are.
fn score(binding: &ResourceBindingSpec, cluster: &Cluster) -> i32 {
    let assigned: i32 = binding.clusters.iter().map(|target| target.replicas).sum();
    let here = binding.clusters.iter().any(|target| target.name == name(cluster));
    if assigned > 0 && here { 100 } else { 0 }
}

fn spread<'a>(placement: &Placement, fitting: Vec<&'a Cluster>) -> Result<Vec<&'a Cluster>, String> {
    let constraint = placement.spread_constraints.iter().find(|constraint| {
        constraint.spread_by_label.is_empty() && matches!(constraint.spread_by_field.as_str(), "" | "cluster")
    });
    let Some(constraint) = constraint.filter(|_| !divides_by_static_weights(placement)) else {
        return Ok(fitting);
    };
    let least = usize::try_from(constraint.min_groups).unwrap_or(0);
    if fitting.len() < least {
        return Err(format!(
            "the number of feasible clusters is less than spreadConstraint.MinGroups ({least})"
        ));
    }
    let most = usize::try_from(constraint.max_groups)
        .ok()
        .filter(|most| *most > 0)
        .unwrap_or(fitting.len());
    Ok(fitting.into_iter().take(most).collect())
}

fn divides_by_static_weights(placement: &Placement) -> bool {
    placement.divides()
        && placement.replica_scheduling.as_ref().is_some_and(|scheduling| {
            scheduling.replica_division_preference != Some(ReplicaDivision::Aggregated)
                && scheduling
                    .weight_preference
                    .as_ref()
                    .is_none_or(|weights| weights.dynamic_weight.is_empty())
        })
}

fn divide(placement: &Placement, binding: &ResourceBindingSpec, selected: &[&Cluster]) -> Vec<TargetCluster> {
    let target = |cluster: &Cluster, replicas| TargetCluster {
        name: name(cluster),
        replicas,
    };
    let divided = binding.replicas > 0
        && placement
            .replica_scheduling
            .as_ref()
            .is_some_and(|scheduling| scheduling.replica_scheduling_type == ReplicaSchedulingType::Divided);
    if !divided {
        return selected
            .iter()
            .map(|cluster| target(cluster, binding.replicas))
            .collect();
    }
    if divides_by_static_weights(placement) {
        let weights: Vec<i64> = selected
            .iter()
            .map(|cluster| static_weight(placement, cluster))
            .collect();
        return share(binding.replicas, selected, &weights);
    }
    // Where everything is where it was and as much as it was, nothing moves.
    let kept: Vec<TargetCluster> = binding
        .clusters
        .iter()
        .filter(|known| selected.iter().any(|cluster| name(cluster) == known.name))
        .cloned()
        .collect();
    if kept.iter().map(|known| known.replicas).sum::<i32>() == binding.replicas {
        return kept;
    }
    let aggregated = placement.replica_scheduling.as_ref().is_some_and(|scheduling| {
        scheduling.replica_division_preference == Some(ReplicaDivision::Aggregated)
    });
    if aggregated {
        // Every member has room: the first takes all, and those in use come first.
        let first = selected
            .iter()
            .find(|cluster| kept.iter().any(|known| known.name == name(cluster)));
        let first = first.or_else(|| selected.first());
        return first
            .map(|cluster| target(cluster, binding.replicas))
            .into_iter()
            .collect();
    }
    share(binding.replicas, selected, &vec![1; selected.len()])
}

fn static_weight(placement: &Placement, cluster: &Cluster) -> i64 {
    let weights = placement
        .replica_scheduling
        .as_ref()
        .and_then(|scheduling| scheduling.weight_preference.as_ref());
    match weights {
        None => 1,
        Some(weights) => weights
            .static_weight_list
            .iter()
            .filter(|weight| weight.target_cluster.matches(cluster))
            .map(|weight| weight.weight)
            .max()
            .unwrap_or(0),
    }
}

/// Divides by weights; what is left over goes one by one to the heaviest.
fn share(replicas: i32, selected: &[&Cluster], weights: &[i64]) -> Vec<TargetCluster> {
    let sum: i64 = weights.iter().sum();
    if sum == 0 {
        return share(replicas, selected, &vec![1; selected.len()]);
    }
    let mut shares: Vec<(i64, i64, &Cluster)> = selected
        .iter()
        .zip(weights)
        .map(|(cluster, weight)| (i64::from(replicas) * weight / sum, *weight, *cluster))
        .collect();
    let mut rest = i64::from(replicas) - shares.iter().map(|(share, ..)| share).sum::<i64>();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|index| Reverse(shares[*index].1));
    for index in order.into_iter().cycle().take(shares.len() * 2) {
        if rest > 0 && shares[index].1 > 0 {
            shares[index].0 += 1;
            rest -= 1;
        }
    }
    shares
        .into_iter()
        .filter(|(share, ..)| *share > 0)
        .map(|(share, _, cluster)| TargetCluster {
            name: name(cluster),
            replicas: i32::try_from(share).unwrap_or(i32::MAX),
        })
        .collect()
}

fn name(cluster: &Cluster) -> ClusterName {
    ClusterName::new(cluster.metadata.name.clone().unwrap_or_default())
}
