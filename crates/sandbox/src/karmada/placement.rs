//! Which clusters a placement chooses, and how replicas are divided among them. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, ClusterAffinity, Placement, ResourceBindingSpec, Rest, TargetCluster};

/// What the scheduler decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub clusters: Vec<TargetCluster>,
    /// The group of `clusterAffinities` that was used; empty without groups.
    pub affinity: String,
}

/// Why nothing was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unchosen {
    /// No cluster passes the filters.
    NoFit(String),
    /// Some pass, and can't be chosen from.
    Refused(String),
}

/// Chooses clusters for a binding. With groups, the first one from `observed` on that gives a result is used; where none
/// does, the reason is the first one's.
pub fn choose(
    placement: &Placement,
    binding: &ResourceBindingSpec,
    observed: &str,
    clusters: &[Cluster],
) -> Result<Choice, Unchosen> {
    let terms = &placement.cluster_affinities;
    if terms.is_empty() {
        let chosen = choose_among(placement, placement.cluster_affinity.as_ref(), binding, clusters)?;
        return Ok(Choice {
            clusters: chosen,
            affinity: String::new(),
        });
    }
    let begin = group_in_use(placement, observed);
    let mut failure = None;
    for term in &terms[begin..] {
        match choose_among(placement, Some(&term.affinity), binding, clusters) {
            Ok(clusters) => {
                return Ok(Choice {
                    clusters,
                    affinity: term.affinity_name.clone(),
                });
            }
            Err(why) => drop(failure.get_or_insert(why)),
        }
    }
    Err(failure.unwrap_or_else(|| Unchosen::Refused("no affinity group".to_owned())))
}

/// Returns the index of the group with this name; the first one when there is none.
pub fn group_in_use(placement: &Placement, observed: &str) -> usize {
    let terms = &placement.cluster_affinities;
    terms
        .iter()
        .position(|term| term.affinity_name == observed)
        .unwrap_or(0)
}

fn choose_among(
    placement: &Placement,
    affinity: Option<&ClusterAffinity>,
    binding: &ResourceBindingSpec,
    clusters: &[Cluster],
) -> Result<Vec<TargetCluster>, Unchosen> {
    let mut fitting: Vec<&Cluster> = clusters
        .iter()
        .filter(|cluster| fits(placement, affinity, binding, cluster))
        .collect();
    if fitting.is_empty() {
        let why = format!("0/{} clusters are available", clusters.len());
        return Err(Unchosen::NoFit(why));
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
        && (in_use || !is_tainted(placement, cluster))
        && (in_use || cluster.serves(&resource.api_version, &resource.kind))
        && !binding
            .graceful_eviction_tasks
            .iter()
            .any(|task| task.from_cluster == name(cluster))
        && placement
            .spread_constraints
            .iter()
            .all(|constraint| has_property(cluster, &constraint.spread_by_field))
}

/// What is only preferred not to be used is used.
fn is_tainted(placement: &Placement, cluster: &Cluster) -> bool {
    let mut taints = cluster.spec.taints.iter();
    taints.any(|taint| placement.untolerated_by_scheduler(taint))
}

/// What is spread by something needs it to be said of a cluster.
fn has_property(cluster: &Cluster, field: &str) -> bool {
    match field {
        "provider" => !cluster.spec.provider.is_empty(),
        "region" => !cluster.spec.region.is_empty(),
        "zone" => !cluster.spec.zones.is_empty(),
        _ => true,
    }
}

/// Locality: where it is, it stays.
fn score(binding: &ResourceBindingSpec, cluster: &Cluster) -> i32 {
    let here = binding.clusters.iter().any(|target| target.name == name(cluster));
    if here { 100 } else { 0 }
}

/// Of more regions than are wanted it takes those that come first; Karmada weighs them.
fn spread<'a>(placement: &Placement, fitting: Vec<&'a Cluster>) -> Result<Vec<&'a Cluster>, Unchosen> {
    if placement.spread_constraints.is_empty() || placement.divides_by_static_weights() {
        return Ok(fitting);
    }
    let mut constraints = placement.spread_constraints.iter();
    if let Some(by_region) = constraints.find(|constraint| constraint.spread_by_field == "region") {
        let regions: BTreeSet<&str> = fitting
            .iter()
            .map(|cluster| cluster.spec.region.as_str())
            .collect();
        if regions.len() < usize::try_from(by_region.min_groups).unwrap_or(0) {
            let why = "the number of feasible region is less than spreadConstraint.MinGroups";
            return Err(Unchosen::Refused(why.to_owned()));
        }
    }
    let Some(constraint) = placement.cluster_constraint() else {
        let why = "just support cluster and region spread constraint";
        return Err(Unchosen::Refused(why.to_owned()));
    };
    let least = usize::try_from(constraint.min_groups).unwrap_or(0);
    if fitting.len() < least {
        let why = "the number of feasible clusters is less than spreadConstraint.MinGroups";
        return Err(Unchosen::Refused(why.to_owned()));
    }
    // No limit is a limit of none.
    let most = usize::try_from(constraint.max_groups).unwrap_or(0);
    if most == 0 {
        return Err(Unchosen::Refused("no clusters available to schedule".to_owned()));
    }
    Ok(fitting.into_iter().take(most).collect())
}

/// What counts no replicas goes to all of them, and so does what is duplicated; but nobody is given none.
fn divide(placement: &Placement, binding: &ResourceBindingSpec, selected: &[&Cluster]) -> Vec<TargetCluster> {
    if !is_workload(binding) {
        return selected.iter().map(|cluster| target(cluster, 0)).collect();
    }
    let shares = if !placement.divides() {
        let all = selected.iter().map(|cluster| target(cluster, binding.replicas));
        all.collect()
    } else if placement.divides_by_static_weights() {
        divide_by_static_weights(placement, binding, selected)
    } else {
        divide_steadily(placement, binding, selected)
    };
    shares.into_iter().filter(|share| share.replicas > 0).collect()
}

/// Tells whether replicas are counted.
pub fn is_workload(binding: &ResourceBindingSpec) -> bool {
    let required = binding.rest.get("replicaRequirements");
    binding.replicas > 0 || required.is_some_and(|required| !required.is_null())
}

fn target(cluster: &Cluster, replicas: i32) -> TargetCluster {
    TargetCluster {
        name: name(cluster),
        replicas,
        rest: Rest::new(),
    }
}

fn divide_by_static_weights(
    placement: &Placement,
    binding: &ResourceBindingSpec,
    selected: &[&Cluster],
) -> Vec<TargetCluster> {
    let weigh = |weight: &dyn Fn(&Cluster) -> i64| -> Vec<(ClusterName, i64)> {
        let weighed = selected.iter().map(|cluster| (name(cluster), weight(cluster)));
        weighed.filter(|(_, weight)| *weight > 0).collect()
    };
    let mut weights = weigh(&|cluster| static_weight(placement, cluster));
    if weights.is_empty() {
        weights = weigh(&|_| 1);
    }
    seats(binding.replicas, &weights, binding)
}

/// Moves as little as possible: only what is more or less is divided. Every member has room for all.
fn divide_steadily(
    placement: &Placement,
    binding: &ResourceBindingSpec,
    selected: &[&Cluster],
) -> Vec<TargetCluster> {
    let is_selected = |target: &&TargetCluster| selected.iter().any(|cluster| name(cluster) == target.name);
    let scheduled: Vec<TargetCluster> = binding.clusters.iter().filter(is_selected).cloned().collect();
    let assigned: i32 = scheduled.iter().map(|target| target.replicas).sum();
    if assigned == binding.replicas {
        return scheduled;
    }
    let aggregated = placement.aggregates();
    if assigned > binding.replicas {
        let mut weights = scheduled;
        weights.sort_by_key(|target| Reverse(target.replicas));
        if aggregated {
            enough(&mut weights, binding.replicas);
        }
        let weights: Vec<_> = weights
            .into_iter()
            .map(|target| (target.name, i64::from(target.replicas)))
            .collect();
        return seats(binding.replicas, &weights, binding);
    }
    let mut available: Vec<ClusterName> = selected.iter().map(|cluster| name(cluster)).collect();
    if aggregated {
        let in_use = |name: &ClusterName| {
            scheduled
                .iter()
                .any(|target| target.name == *name && target.replicas > 0)
        };
        available.sort_by_key(|name| !in_use(name));
        available.truncate(1);
    }
    let weights: Vec<_> = available.into_iter().map(|name| (name, 1)).collect();
    let mut merged = seats(binding.replicas - assigned, &weights, binding);
    for known in scheduled {
        match merged.iter_mut().find(|target| target.name == known.name) {
            Some(target) => target.replicas += known.replicas,
            None => merged.push(known),
        }
    }
    merged
}

/// Keeps as many of the first as are enough.
fn enough(targets: &mut Vec<TargetCluster>, replicas: i32) {
    let mut sum = 0;
    let last = targets.iter().position(|target| {
        sum += target.replicas;
        sum >= replicas
    });
    targets.truncate(last.map_or(targets.len(), |last| last + 1));
}

/// Divides by weights as Webster did: the next replica goes where the weight is largest for what is there already. Among
/// equals to fewer replicas, then by name: upwards or downwards, which the template's uid decides.
fn seats(replicas: i32, weights: &[(ClusterName, i64)], binding: &ResourceBindingSpec) -> Vec<TargetCluster> {
    let downwards = descends(&binding.resource.uid);
    let mut parties: Vec<(TargetCluster, i64)> = weights
        .iter()
        .map(|(name, weight)| {
            (
                TargetCluster {
                    name: name.clone(),
                    replicas: 0,
                    rest: Rest::new(),
                },
                *weight,
            )
        })
        .collect();
    parties.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    for _ in 0..replicas {
        let wins = |(a, a_weight): &(TargetCluster, i64), (b, b_weight): &(TargetCluster, i64)| {
            let (left, right) = (
                a_weight * (2 * i64::from(b.replicas) + 1),
                b_weight * (2 * i64::from(a.replicas) + 1),
            );
            let by_name = if downwards {
                a.name.cmp(&b.name)
            } else {
                b.name.cmp(&a.name)
            };
            left.cmp(&right).then(b.replicas.cmp(&a.replicas)).then(by_name)
        };
        if let Some((next, _)) = parties.iter_mut().max_by(|a, b| wins(a, b)) {
            next.replicas += 1;
        }
    }
    parties.into_iter().map(|(target, _)| target).collect()
}

fn descends(uid: &str) -> bool {
    let hash = uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    !uid.is_empty() && hash & 1 == 1
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

fn name(cluster: &Cluster) -> ClusterName {
    ClusterName::new(cluster.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn clusters(names: &[&str]) -> Vec<Cluster> {
        let enabled = json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
        names
            .iter()
            .map(|name| {
                let cluster = json!({
                    "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                    "spec": {"syncMode": "Push"}, "status": {"apiEnablements": enabled},
                });
                serde_json::from_value(cluster).unwrap()
            })
            .collect()
    }

    fn binding(replicas: i32, listed: &Value) -> ResourceBindingSpec {
        let binding = json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"},
            "replicas": replicas, "clusters": listed, "replicaRequirements": {},
        });
        serde_json::from_value(binding).unwrap()
    }

    fn chosen(placement: Value, binding: &ResourceBindingSpec) -> Result<Vec<(String, i32)>, Unchosen> {
        let placement: Placement = serde_json::from_value(placement).unwrap();
        let choice = choose(&placement, binding, "", &clusters(&["a", "b", "c"]))?;
        let chosen = choice.clusters.into_iter();
        Ok(chosen
            .map(|target| (target.name.to_string(), target.replicas))
            .collect())
    }

    fn weighed(weights: &[(&str, i64)], replicas: i32) -> Vec<i32> {
        let weights: Vec<_> = weights
            .iter()
            .map(|(name, weight)| (ClusterName::new(*name), *weight))
            .collect();
        let seats = seats(replicas, &weights, &binding(replicas, &json!([])));
        seats.into_iter().map(|target| target.replicas).collect()
    }

    /// The first two stand in Karmada's source.
    #[test]
    fn weights_divide_as_webster_did() {
        assert_eq!(weighed(&[("a", 1), ("b", 2)], 9), [3, 6]);
        assert_eq!(weighed(&[("a", 1), ("b", 3)], 9), [2, 7]);
        assert_eq!(weighed(&[("a", 2), ("b", 2), ("c", 1)], 4), [2, 1, 1]);
        assert_eq!(weighed(&[("b", 1), ("a", 1)], 1), [1, 0]);
    }

    fn aggregated() -> Value {
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}})
    }

    #[test]
    fn where_as_much_is_there_as_is_wanted_the_order_stays() {
        let listed = json!([{"name": "c", "replicas": 1}, {"name": "a", "replicas": 1}]);
        let same = [("c".to_owned(), 1), ("a".to_owned(), 1)];
        assert_eq!(chosen(aggregated(), &binding(2, &listed)).unwrap(), same);
    }

    #[test]
    fn what_is_aggregated_grows_where_it_is_and_shrinks_to_the_largest() {
        let listed = json!([{"name": "c", "replicas": 2}, {"name": "b", "replicas": 1}]);
        let grown = [("b".to_owned(), 4), ("c".to_owned(), 2)];
        assert_eq!(chosen(aggregated(), &binding(6, &listed)).unwrap(), grown);
        assert_eq!(
            chosen(aggregated(), &binding(2, &listed)).unwrap(),
            [("c".to_owned(), 2)]
        );
    }

    #[test]
    fn nobody_is_given_no_replicas() {
        let listed = json!([{"name": "a", "replicas": 2}]);
        assert_eq!(chosen(json!({}), &binding(0, &listed)).unwrap(), []);
        assert_eq!(chosen(aggregated(), &binding(0, &listed)).unwrap(), []);
    }

    #[test]
    fn what_counts_no_replicas_goes_to_all() {
        let mut map = binding(0, &json!([]));
        map.rest.clear();
        let all = ["a", "b", "c"].map(|name| (name.to_owned(), 0));
        assert_eq!(chosen(json!({}), &map).unwrap(), all);
        assert_eq!(chosen(aggregated(), &map).unwrap(), all);
    }

    fn placed(
        placement: Value,
        binding: &ResourceBindingSpec,
        change: Value,
    ) -> Result<Vec<String>, Unchosen> {
        let placement: Placement = serde_json::from_value(placement).unwrap();
        let mut clusters = clusters(&["a", "b", "c"]);
        for (cluster, change) in clusters.iter_mut().zip(change.as_array().unwrap()) {
            let mut object = serde_json::to_value(&*cluster).unwrap();
            json_patch::merge(&mut object["spec"], change);
            *cluster = serde_json::from_value(object).unwrap();
        }
        let choice = choose(&placement, binding, "", &clusters)?;
        Ok(choice
            .clusters
            .into_iter()
            .map(|target| target.name.to_string())
            .collect())
    }

    #[test]
    fn a_taint_keeps_new_things_away_unless_it_is_only_a_preference() {
        let taint = |effect: &str| json!({"taints": [{"key": "x", "effect": effect}]});
        let tainted = json!([taint("NoSchedule"), taint("PreferNoSchedule"), taint("NoExecute")]);
        let of = |listed: Value| placed(json!({}), &binding(1, &listed), tainted.clone()).unwrap();
        assert_eq!(of(json!([])), ["b"]);
        assert_eq!(of(json!([{"name": "c", "replicas": 1}])), ["c", "b"]);
    }

    #[test]
    fn what_is_evicted_from_a_cluster_is_not_given_back_to_it() {
        let mut leaving = binding(2, &json!([{"name": "b", "replicas": 1}]));
        let task = json!([{"fromCluster": "a", "reason": "x", "producer": "y"}]);
        leaving.graceful_eviction_tasks = serde_json::from_value(task).unwrap();
        let left = [("b".to_owned(), 2)];
        assert_eq!(chosen(aggregated(), &leaving).unwrap(), left);
    }

    #[test]
    fn too_few_regions_are_refused_and_a_cluster_without_one_does_not_fit() {
        let by_region = |least: i32| {
            json!({"spreadConstraints": [
                {"spreadByField": "region", "minGroups": least, "maxGroups": 3},
                {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 3},
            ]})
        };
        let regions = json!([{"region": "south"}, {"region": "north"}, {}]);
        let of = |least: i32| placed(by_region(least), &binding(1, &json!([])), regions.clone());
        assert_eq!(of(2).unwrap(), ["a", "b"]);
        assert!(matches!(of(3), Err(Unchosen::Refused(_))));
        let by_zone =
            json!({"spreadConstraints": [{"spreadByField": "zone", "minGroups": 1, "maxGroups": 3}]});
        let zones = json!([{"zones": ["z"]}, {}, {}]);
        let refused = placed(by_zone, &binding(1, &json!([])), zones);
        assert!(matches!(refused, Err(Unchosen::Refused(_))));
    }

    #[test]
    fn it_is_one_thing_that_none_fits_and_another_that_too_few_do() {
        let job = binding(2, &json!([]));
        let nowhere = json!({"clusterAffinity": {"clusterNames": ["nowhere"]}});
        assert!(matches!(chosen(nowhere, &job), Err(Unchosen::NoFit(_))));
        let spread = |least: i32, most: i32| json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": least, "maxGroups": most}]});
        assert!(matches!(chosen(spread(4, 4), &job), Err(Unchosen::Refused(_))));
        assert!(matches!(chosen(spread(1, 0), &job), Err(Unchosen::Refused(_))));
        assert_eq!(chosen(spread(1, 2), &job).unwrap().len(), 2);
    }
}
