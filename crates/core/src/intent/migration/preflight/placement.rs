//! Whether a placement keeps the workload where a migration brings it.

use std::collections::BTreeMap;

use crate::api::Finding;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{AffinityTerm, Cluster, ClusterAffinity, Placement};

/// Whether the placement keeps the workload in the target, and only there, once the scheduler may act again; and with
/// which group of affinities, where it has groups.
///
/// The scheduler begins with the group that it used last: named before it may act again, it stays with that one.
pub(in crate::intent) fn keeps_target(
    placement: &Placement,
    to: &ClusterName,
    clusters: &BTreeMap<ClusterName, Cluster>,
    in_use: &str,
) -> Result<Option<String>, Finding> {
    if let Some(finding) = tainted(placement, to, clusters) {
        return Err(finding);
    }
    if placement.cluster_affinities.is_empty() {
        affinity_keeps(placement, placement.cluster_affinity.as_ref(), to, clusters)?;
        return Ok(None);
    }
    let holds = |term: &&AffinityTerm| {
        clusters
            .get(to)
            .is_some_and(|cluster| term.affinity.matches(cluster))
    };
    let terms = || placement.cluster_affinities.iter().filter(holds);
    let term = terms()
        .find(|term| term.affinity_name == in_use)
        .or_else(|| terms().next());
    let Some(term) = term else {
        return Err(Finding::new(
            "PlacementExcludesTarget",
            format!("none of the policy's clusterAffinities holds {to}"),
            format!("add {to} to one of them: in the same push, if you like"),
        ));
    };
    affinity_keeps(placement, Some(&term.affinity), to, clusters)?;
    Ok(Some(term.affinity_name.clone()))
}

/// Returns what to say of a cluster that Karmada evicts the workload from. A cluster that only takes nothing new (`NoSchedule`)
/// takes what is listed there by hand, and keeps it.
pub(in crate::intent::migration) fn tainted(
    placement: &Placement,
    to: &ClusterName,
    clusters: &BTreeMap<ClusterName, Cluster>,
) -> Option<Finding> {
    let taint = clusters
        .get(to)
        .and_then(|cluster| placement.evicted_by(cluster))?;
    Some(Finding::new(
        "Tainted",
        format!(
            "{to} has the taint {}:NoExecute, for which Karmada would evict the workload",
            taint.key
        ),
        "take the taint away, or have the policy tolerate it without a limit of time",
    ))
}

fn affinity_keeps(
    placement: &Placement,
    affinity: Option<&ClusterAffinity>,
    to: &ClusterName,
    clusters: &BTreeMap<ClusterName, Cluster>,
) -> Result<(), Finding> {
    let fits = |cluster: &&Cluster| affinity.is_none_or(|affinity| affinity.matches(cluster));
    if !clusters.get(to).iter().any(fits) {
        return Err(Finding::new(
            "PlacementExcludesTarget",
            format!("the policy's placement does not hold {to}: the scheduler would move the workload back"),
            format!("add {to} to the policy's clusterAffinity: in the same push, if you like"),
        ));
    }
    if placement.divides_by_static_weights() {
        return Err(Finding::new(
            "StaticWeights",
            "the policy divides replicas by static weights: the next scale would spread the workload over all of them",
            "use replicaDivisionPreference: Aggregated",
        ));
    }
    let one_group = placement
        .cluster_constraint()
        .is_some_and(|constraint| constraint.max_groups == 1);
    let candidates = clusters.values().filter(fits).count();
    if !placement.aggregates() && !one_group && candidates > 1 {
        return Err(Finding::new(
            "Spreads",
            "the policy spreads the workload over every cluster that fits: both would run it",
            "add spreadConstraints: [{spreadByField: cluster, maxGroups: 1}] to the policy",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
