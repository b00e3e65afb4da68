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

/// Locality: where it is, it stays.
fn score(binding: &ResourceBindingSpec, cluster: &Cluster) -> i32 {
    let here = binding.clusters.iter().any(|target| target.name == name(cluster));
    if here { 100 } else { 0 }
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
    let known: Vec<i64> = selected
        .iter()
        .map(|cluster| replicas_in(binding, cluster))
        .collect();
    let wanted = i64::from(binding.replicas);
    let shares = if divides_by_static_weights(placement) {
        let weights: Vec<i64> = selected
            .iter()
            .map(|cluster| static_weight(placement, cluster))
            .collect();
        let none_weighs = weights.iter().all(|weight| *weight == 0);
        share(
            wanted,
            &if none_weighs {
                vec![1; selected.len()]
            } else {
                weights
            },
            &known,
        )
    } else {
        let aggregated = placement.replica_scheduling.as_ref().is_some_and(|scheduling| {
            scheduling.replica_division_preference == Some(ReplicaDivision::Aggregated)
        });
        divide_steadily(wanted, &known, aggregated)
    };
    let shares = selected.iter().zip(shares).filter(|(_, share)| *share > 0);
    shares
        .map(|(cluster, share)| target(cluster, i32::try_from(share).unwrap_or(i32::MAX)))
        .collect()
}

fn replicas_in(binding: &ResourceBindingSpec, cluster: &Cluster) -> i64 {
    let known = binding
        .clusters
        .iter()
        .find(|target| target.name == name(cluster));
    known.map_or(0, |target| i64::from(target.replicas))
}

/// Moves as little as possible from what is known: only what is more or less is divided. Every member has room for all.
fn divide_steadily(wanted: i64, known: &[i64], aggregated: bool) -> Vec<i64> {
    let sum: i64 = known.iter().sum();
    if sum > wanted {
        let mut weights = known.to_vec();
        if aggregated {
            keep_largest(&mut weights, wanted);
        }
        return share(wanted, &weights, &vec![0; known.len()]);
    }
    let more = if aggregated {
        let first = known.iter().position(|replicas| *replicas > 0).unwrap_or(0);
        (0..known.len())
            .map(|index| if index == first { wanted - sum } else { 0 })
            .collect()
    } else {
        share(wanted - sum, &vec![1; known.len()], &vec![0; known.len()])
    };
    known.iter().zip(more).map(|(known, more)| known + more).collect()
}

/// Takes the largest until there is enough; the others become nothing.
fn keep_largest(weights: &mut [i64], enough: i64) {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| Reverse(weights[*index]));
    let mut sum = 0;
    for index in order {
        if sum >= enough {
            weights[index] = 0;
        }
        sum += weights[index];
    }
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

/// Divides by weights; what is left over goes one by one to the heaviest, among equals to where more was before.
fn share(replicas: i64, weights: &[i64], before: &[i64]) -> Vec<i64> {
    let sum: i64 = weights.iter().sum::<i64>().max(1);
    let mut shares: Vec<i64> = weights.iter().map(|weight| replicas * weight / sum).collect();
    let mut order: Vec<usize> = (0..weights.len()).filter(|index| weights[*index] > 0).collect();
    order.sort_by_key(|index| Reverse((weights[*index], before[*index])));
    let rest = usize::try_from(replicas - shares.iter().sum::<i64>()).unwrap_or(0);
    for index in order.into_iter().take(rest) {
        shares[index] += 1;
    }
    shares
}

fn name(cluster: &Cluster) -> ClusterName {
    ClusterName::new(cluster.metadata.name.clone().unwrap_or_default())
}
