//! What a placement makes of a workload: whether it keeps it where it is brought, and which clusters it takes.

use std::collections::BTreeMap;

use crate::api::{Common, ConditionStatus, Finding};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{
    AffinityTerm, Cluster, ClusterAffinity, Placement, ResourceBindingSpec, SpreadConstraint, Taint,
};

/// The condition that holds while a Migration waits for a placement that keeps the workload where it is: nothing else is left to be done.
///
/// It is no code, and no field, of the wait: where the CRDs are older, the API server refuses a status with one that they don't have.
pub(super) const AWAITS_PLACEMENT: &str = "AwaitsPlacement";

/// What such a wait says after the name of the cluster. The version before goes by these words and writes no condition: they stay as
/// long as versions may take turns with it.
pub(super) const AWAITED_IN_WORDS: &str = " to be kept once scheduling is resumed";

/// Returns whether a Migration only waits for a placement that keeps the workload where it is.
pub(super) fn is_awaited(status: &Common) -> bool {
    let Some(wait) = &status.waiting_for else {
        return false;
    };
    let mut conditions = status.conditions.iter();
    match conditions.find(|condition| condition.type_ == AWAITS_PLACEMENT) {
        // The version before leaves it as it was, whatever it waits for by then.
        Some(condition) => condition.status == ConditionStatus::True && condition.message == wait.reason,
        None => wait.reason.contains(AWAITED_IN_WORDS),
    }
}

/// Whether the placement keeps the workload in the target, and only there, once the scheduler may act again; and with
/// which group of affinities, where it has groups.
///
/// The scheduler begins with the group that it used last: named before it may act again, it stays with that one.
pub(super) fn keeps_target(
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
            format!("none of the placement's clusterAffinities holds {to}"),
            format!("add {to} to one of them: in the same push, if you like"),
        ));
    };
    affinity_keeps(placement, Some(&term.affinity), to, clusters)?;
    Ok(Some(term.affinity_name.clone()))
}

/// Returns what to say of a cluster that Karmada evicts the workload from. A cluster that only takes nothing new (`NoSchedule`)
/// takes what is listed there by hand, and keeps it.
pub(super) fn tainted(
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
            format!("the placement does not hold {to}: the scheduler would move the workload back"),
            format!("add {to} to the policy's clusterAffinity: in the same push, if you like"),
        ));
    }
    if placement.divides_by_static_weights() {
        return Err(Finding::new(
            "StaticWeights",
            "the placement divides replicas by static weights: the next scale would spread the workload over all of them",
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
            "the placement spreads the workload over every cluster that fits: both would run it",
            "add spreadConstraints: [{spreadByField: cluster, maxGroups: 1}] to the policy",
        ));
    }
    Ok(())
}

/// Returns whether the scheduler's filters let a cluster pass. Where it is already, neither taints nor kinds count.
pub(super) fn fits(
    spec: &ResourceBindingSpec,
    placement: &Placement,
    affinity: Option<&ClusterAffinity>,
    name: &ClusterName,
    cluster: &Cluster,
) -> bool {
    let listed = spec.clusters.iter().any(|target| target.name == *name);
    let (resource, of) = (&spec.resource, &cluster.spec);
    let has_property = |constraint: &SpreadConstraint| match constraint.spread_by_field.as_str() {
        "provider" => !of.provider.is_empty(),
        "region" => !of.region.is_empty(),
        "zone" => !of.zones.is_empty(),
        _ => true,
    };
    cluster.metadata.deletion_timestamp.is_none()
        && affinity.is_none_or(|affinity| affinity.matches(cluster))
        && (listed
            || (!kept_away(placement, cluster, |_| true)
                && cluster.serves(&resource.api_version, &resource.kind)))
        && placement.spread_constraints.iter().all(has_property)
}

/// Returns whether a taint keeps what isn't there yet from being scheduled to a cluster.
pub(super) fn kept_away(placement: &Placement, cluster: &Cluster, which: impl Fn(&Taint) -> bool) -> bool {
    let mut taints = cluster.spec.taints.iter();
    taints.any(|taint| which(taint) && placement.untolerated_by_scheduler(taint))
}

/// Returns whether its replicas are divided; what counts none goes to every cluster, whatever its policy says.
pub(super) fn divides(spec: &ResourceBindingSpec, placement: &Placement) -> bool {
    let required = spec.rest.get("replicaRequirements");
    let counts = spec.replicas > 0 || required.is_some_and(|required| !required.is_null());
    placement.divides() && counts
}

/// Returns by which weight a cluster gets replicas that are divided by static weights; one that no rule is about gets none.
pub(super) fn static_weight(placement: &Placement, cluster: &Cluster) -> i64 {
    let weights = placement
        .replica_scheduling
        .as_ref()
        .and_then(|scheduling| scheduling.weight_preference.as_ref());
    let Some(weights) = weights else { return 1 };
    let matching = weights
        .static_weight_list
        .iter()
        .filter(|weight| weight.target_cluster.matches(cluster));
    matching.map(|weight| weight.weight).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
