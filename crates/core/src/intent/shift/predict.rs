//! What the scheduler will make of a binding once it may act again, where that is certain. Where it isn't, nobody finds out
//! at the expense of a workload.

use std::collections::BTreeMap;

use serde_json::json;

use crate::intent::record;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, ClusterAffinity, Placement, ResourceBindingSpec};

/// What the scheduler decided on when it looked last.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// The digest of the placement.
    pub placement: &'a str,
    pub replicas: u32,
    pub listed: &'a [ClusterName],
}

/// Returns the replicas that each cluster will have; an error says why that can't be told.
pub fn predicted(
    binding: &ResourceBindingSpec,
    clusters: &BTreeMap<ClusterName, Cluster>,
    before: Before<'_>,
) -> Result<BTreeMap<ClusterName, u32>, String> {
    let Some(placement) = &binding.placement else {
        return Err("no policy says where the workload goes".to_owned());
    };
    let replicas = u32::try_from(binding.replicas).unwrap_or_default();
    let names: Vec<&ClusterName> = binding.clusters.iter().map(|cluster| &cluster.name).collect();
    let evicted = names
        .iter()
        .filter_map(|name| clusters.get(*name))
        .find_map(|cluster| placement.evicted_by(cluster).map(|taint| (cluster, taint)));
    if let Some((cluster, taint)) = evicted {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        return Err(format!(
            "{name} has the taint {}, for which Karmada evicts",
            taint.key
        ));
    }
    let as_before = placement_digest(Some(placement)) == before.placement
        && replicas == before.replicas
        && names.len() == before.listed.len()
        && before.listed.iter().all(|name| names.contains(&name))
        && (!placement.divides()
            || binding
                .clusters
                .iter()
                .map(|cluster| cluster.replicas)
                .sum::<i32>()
                == binding.replicas);
    if as_before {
        // It has decided this already, and looks at it no more.
        let share = |cluster: &cutover_karmada::TargetCluster| {
            let divided = u32::try_from(cluster.replicas).unwrap_or_default();
            let share = if placement.divides() { divided } else { replicas };
            (cluster.name.clone(), share)
        };
        return Ok(binding.clusters.iter().map(share).collect());
    }
    if !placement.cluster_affinities.is_empty() {
        return Err(
            "the policy has groups of affinities, and which one the scheduler takes is not certain"
                .to_owned(),
        );
    }
    let fitting = fitting(placement, clusters, &names);
    if placement.divides_by_static_weights() {
        return weighed(placement, &fitting, clusters, replicas);
    }
    if placement.divides() || !placement.spread_constraints.is_empty() {
        return match fitting.as_slice() {
            [only] => Ok(BTreeMap::from([((*only).clone(), replicas)])),
            several => Err(format!(
                "which of {} clusters the scheduler takes is not certain",
                several.len()
            )),
        };
    }
    Ok(fitting.into_iter().map(|name| (name.clone(), replicas)).collect())
}

/// Returns what a placement says, as a digest.
pub(super) fn placement_digest(placement: Option<&Placement>) -> String {
    record::digest(&json!(placement))
}

/// Returns the clusters that the scheduler may take; a taint against what is new counts for nothing where it is already.
fn fitting<'a>(
    placement: &Placement,
    clusters: &'a BTreeMap<ClusterName, Cluster>,
    listed: &[&ClusterName],
) -> Vec<&'a ClusterName> {
    let affinity = placement.cluster_affinity.as_ref();
    let fits = |(name, cluster): &(&ClusterName, &Cluster)| {
        let tainted = placement.untolerated(cluster).next().is_some();
        affinity.is_none_or(|affinity| affinity.matches(cluster)) && (!tainted || listed.contains(name))
    };
    clusters.iter().filter(fits).map(|(name, _)| name).collect()
}

fn weighed(
    placement: &Placement,
    fitting: &[&ClusterName],
    clusters: &BTreeMap<ClusterName, Cluster>,
    replicas: u32,
) -> Result<BTreeMap<ClusterName, u32>, String> {
    let weights = placement
        .replica_scheduling
        .as_ref()
        .and_then(|scheduling| scheduling.weight_preference.as_ref())
        .map_or(&[][..], |weights| weights.static_weight_list.as_slice());
    let has_weight = |affinity: &ClusterAffinity, name: &ClusterName| {
        clusters
            .get(name)
            .is_some_and(|cluster| affinity.matches(cluster))
    };
    let taken: Vec<&ClusterName> = fitting
        .iter()
        .copied()
        .filter(|name| weights.is_empty() || weights.iter().any(|one| has_weight(&one.target_cluster, name)))
        .collect();
    match taken.as_slice() {
        [only] => Ok(BTreeMap::from([((*only).clone(), replicas)])),
        [] => Err("the policy's weights are about no cluster".to_owned()),
        _ => Err("the policy divides the replicas by weights among several clusters".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn clusters(tainted: &[&str]) -> BTreeMap<ClusterName, Cluster> {
        ["blue", "green", "red"]
            .into_iter()
            .map(|name| {
                let taints = if tainted.contains(&name) {
                    json!([{"key": "away", "effect": "NoSchedule"}])
                } else {
                    json!([])
                };
                let cluster = json!({
                    "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                    "spec": {"id": name, "syncMode": "Push", "taints": taints},
                });
                (ClusterName::new(name), serde_json::from_value(cluster).unwrap())
            })
            .collect()
    }

    fn told(placement: Value, listed: Value, tainted: &[&str]) -> String {
        let binding: ResourceBindingSpec = serde_json::from_value(json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "replicas": 4, "placement": placement, "clusters": listed,
        }))
        .unwrap();
        let digest = placement_digest(
            serde_json::from_value::<Option<Placement>>(
                json!({"clusterAffinity": {"clusterNames": ["blue"]}}),
            )
            .unwrap()
            .as_ref(),
        );
        let listed = [ClusterName::new("blue")];
        let before = Before {
            placement: &digest,
            replicas: 4,
            listed: &listed,
        };
        match predicted(&binding, &clusters(tainted), before) {
            Ok(shares) => shares
                .iter()
                .map(|(name, share)| format!("{name}={share}"))
                .collect::<Vec<_>>()
                .join(" "),
            Err(why) => format!("not certain: {why}"),
        }
    }

    fn affinity(names: &[&str]) -> Value {
        json!({"clusterNames": names})
    }

    #[test]
    fn what_the_scheduler_has_decided_already_stays() {
        let was = json!({"clusterAffinity": affinity(&["blue"])});
        assert_eq!(
            told(was.clone(), json!([{"name": "blue", "replicas": 4}]), &[]),
            "blue=4"
        );
        let both = json!([{"name": "blue", "replicas": 4}, {"name": "green", "replicas": 4}]);
        assert_eq!(told(was, both, &[]), "blue=4");
    }

    #[test]
    fn what_is_duplicated_goes_to_every_cluster_that_fits() {
        let both = json!([{"name": "blue", "replicas": 4}, {"name": "green", "replicas": 4}]);
        let wide = json!({"clusterAffinity": affinity(&["green", "red"])});
        assert_eq!(told(wide.clone(), both.clone(), &[]), "green=4 red=4");
        assert_eq!(told(wide, both, &["green", "red"]), "green=4");
    }

    #[test]
    fn what_is_divided_is_certain_only_for_one_cluster() {
        let both = json!([{"name": "blue", "replicas": 4}, {"name": "green"}]);
        let divided = |names: &[&str], more: Value| {
            let mut scheduling = json!({"replicaSchedulingType": "Divided"});
            scheduling
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({"clusterAffinity": affinity(names), "replicaScheduling": scheduling})
        };
        let weight = |name: &str| json!({"targetCluster": affinity(&[name]), "weight": 1});
        let weights = |all: &[&str]| {
            let all: Vec<Value> = all.iter().map(|name| weight(name)).collect();
            json!({"replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": all}})
        };
        let aggregated = json!({"replicaDivisionPreference": "Aggregated"});
        assert_eq!(
            told(divided(&["green"], aggregated.clone()), both.clone(), &[]),
            "green=4"
        );
        assert!(told(divided(&["blue", "green"], aggregated), both.clone(), &[]).starts_with("not certain"));
        assert_eq!(
            told(
                divided(&["blue", "green"], weights(&["green"])),
                both.clone(),
                &[]
            ),
            "green=4"
        );
        assert!(
            told(
                divided(&["blue", "green"], weights(&["green", "blue"])),
                both,
                &[]
            )
            .starts_with("not certain")
        );
    }
}
