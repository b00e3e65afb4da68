//! What can leave one of its clusters, as the scheduler would take it; and what is written for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::judge::Ground;
use crate::api::{Means, Share};
use crate::intent::effect::Effect;
use crate::intent::eviction::{put_back, take_out, undo};
use crate::intent::headroom::Headroom;
use crate::intent::moves::survey::{Candidate, name_of};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, Placement, ResourceBinding};

/// The clusters `a` to `d`, of which `d` is no place for anything by a taint.
fn clusters(more: &Value) -> BTreeMap<ClusterName, Cluster> {
    let enabled =
        json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
    ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            let region = if name == "c" { "south" } else { "north" };
            let mut cluster = json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
                "spec": {"syncMode": "Push", "region": region},
                "status": {
                    "apiEnablements": enabled,
                    "conditions": [{
                        "type": "Ready", "status": "True", "reason": "", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }],
                },
            });
            if name == "d" {
                cluster["spec"]["taints"] = json!([{"key": "away", "effect": "NoSchedule"}]);
            }
            if let Some(more) = more.get(name) {
                json_patch::merge(&mut cluster, more);
            }
            (ClusterName::new(name), serde_json::from_value(cluster).unwrap())
        })
        .collect()
}

fn binding(placement: &Value, listed: &Value, more: &Value) -> ResourceBinding {
    // As it is read back, so that both are the same.
    let placement: Placement = serde_json::from_value(placement.clone()).unwrap();
    let divided = placement.divides();
    let sum: i64 = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["replicas"].as_i64().unwrap_or_default())
        .sum();
    let replicas = if divided { sum } else { 2 };
    let mut binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": "web-deployment", "namespace": "shop", "uid": "u", "generation": 7,
            "annotations": {"policy.karmada.io/applied-placement": serde_json::to_string(&placement).unwrap()},
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": replicas, "clusters": listed, "placement": placement, "replicaRequirements": {},
        },
    });
    json_patch::merge(&mut binding, more);
    serde_json::from_value(binding).unwrap()
}

struct Case {
    placement: Value,
    listed: Value,
    binding: Value,
    clusters: Value,
    cordons: (bool, bool),
    emptied: Vec<&'static str>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            placement: json!({"clusterAffinity": {"clusterNames": ["a", "b", "c", "d"]}}),
            listed: duplicated(&["a", "b"]),
            binding: json!({}),
            clusters: json!({}),
            cordons: (true, true),
            emptied: vec!["a"],
        }
    }
}

fn duplicated(names: &[&str]) -> Value {
    shares(&names.iter().map(|name| (*name, 2)).collect::<Vec<_>>())
}

fn shares(shares: &[(&str, i64)]) -> Value {
    let target = |(name, replicas): &(&str, i64)| json!({"name": name, "replicas": replicas});
    shares.iter().map(target).collect()
}

fn divided(how: &Value) -> Value {
    let mut placement = Case::default().placement;
    placement["replicaScheduling"] = json!({"replicaSchedulingType": "Divided"});
    json_patch::merge(&mut placement["replicaScheduling"], how);
    placement
}

fn weighed(weights: &[(&str, i64)]) -> Value {
    let weight =
        |(name, weight): &(&str, i64)| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    let weights: Vec<Value> = weights.iter().map(weight).collect();
    divided(
        &json!({"replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": weights}}),
    )
}

fn dynamic() -> Value {
    divided(&json!({"replicaDivisionPreference": "Aggregated"}))
}

fn spread(mut placement: Value, constraints: &[(&str, i64, i64)]) -> Value {
    let constraint = |(field, least, most): &(&str, i64, i64)| json!({"spreadByField": field, "minGroups": least, "maxGroups": most});
    placement["spreadConstraints"] = constraints.iter().map(constraint).collect();
    placement
}

impl Case {
    fn code(&self) -> String {
        let clusters = clusters(&self.clusters);
        let binding = binding(&self.placement, &self.listed, &self.binding);
        let emptied: BTreeSet<ClusterName> =
            self.emptied.iter().map(|name| ClusterName::new(*name)).collect();
        let template = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "resources": {"requests": {"cpu": "1"}}},
        ]}}}});
        let room = Headroom::new(&clusters, &[]);
        let ground = Ground {
            clusters: &clusters,
            emptied: &emptied,
            cordons: self.cordons,
            room: Some(&room),
        };
        let candidate = Candidate {
            workload: name_of(&binding),
            means: Means::Evict,
            binding: &binding,
            template: &template,
            from: "a".into(),
        };
        ground
            .refuses(&candidate)
            .map_or_else(|why| why.code, |()| "leaves".to_owned())
    }
}

fn of(change: impl FnOnce(&mut Case)) -> String {
    let mut case = Case::default();
    change(&mut case);
    case.code()
}

fn placed(placement: Value, listed: Value) -> String {
    of(|case| (case.placement, case.listed) = (placement, listed))
}

#[test]
fn what_goes_on_elsewhere_for_certain_leaves() {
    assert_eq!(of(|_| ()), "leaves");
    let two = |placement| placed(placement, shares(&[("a", 2), ("b", 2)]));
    assert_eq!(two(dynamic()), "leaves");
    assert_eq!(two(weighed(&[("a", 1), ("b", 1)])), "leaves");
    assert_eq!(two(spread(dynamic(), &[("cluster", 1, 2)])), "leaves");
}

#[test]
fn what_is_somebody_s_business_is_left_alone() {
    let told = |spec: Value| of(|case| case.binding = json!({ "spec": spec }));
    let task = json!([{"fromCluster": "b", "reason": "TaintUntolerated", "producer": "TaintManager"}]);
    assert_eq!(told(json!({"gracefulEvictionTasks": task})), "BeingEvicted");
    assert_eq!(
        told(json!({"suspension": {"scheduling": true}})),
        "SchedulingSuspended"
    );
    for cluster in ["a", "b"] {
        let suspended = json!({"suspension": {"dispatchingOnClusters": {"clusterNames": [cluster]}}});
        assert_eq!(told(suspended), "DispatchingSuspended");
    }
    assert_eq!(told(json!({"preserveResourcesOnDeletion": true})), "Preserved");
    let required = json!([{"name": "other", "clusters": [{"name": "a"}]}]);
    assert_eq!(told(json!({"requiredBy": required})), "Required");
}

#[test]
fn it_is_not_begun_before_the_scheduler_is_done_with_what_was() {
    let other = json!({"metadata": {"annotations": {"policy.karmada.io/applied-placement": "{}"}}});
    assert_eq!(of(|case| case.binding = other), "Unsettled");
    let fewer = json!({"spec": {"replicas": 5}});
    let short = |case: &mut Case| {
        (case.placement, case.listed, case.binding) = (dynamic(), shares(&[("a", 2), ("b", 2)]), fewer);
    };
    assert_eq!(of(short), "Unsettled");
    let asked = json!({
        "spec": {"rescheduleTriggeredAt": "2026-01-02T00:00:00Z"},
        "status": {"lastScheduledTime": "2026-01-01T00:00:00Z"},
    });
    assert_eq!(of(|case| case.binding = asked), "Unsettled");
    let down = json!({"b": {"status": {"conditions": []}}});
    assert_eq!(of(|case| case.clusters = down), "Unsettled");
}

#[test]
fn something_has_to_keep_it_away_then_and_later() {
    let cordons = |cordons| of(|case| case.cordons = cordons);
    assert_eq!(cordons((false, false)), "NotKeptAway");
    assert_eq!(cordons((true, false)), "ComesBack");
    let tainted =
        |key: &str, effect: &str| json!({"a": {"spec": {"taints": [{"key": key, "effect": effect}]}}});
    let standing = |taint: Value, cordons| of(|case| (case.clusters, case.cordons) = (taint, cordons));
    assert_eq!(standing(tainted("own", "NoSchedule"), (false, false)), "leaves");
    assert_eq!(
        standing(tainted("own", "PreferNoSchedule"), (false, false)),
        "NotKeptAway"
    );
    let ours = tainted("evacuating.cutover.dev/drain", "NoSchedule");
    assert_eq!(standing(ours, (true, false)), "ComesBack");
    // What is divided comes back only when there is something to divide.
    let divided = |case: &mut Case| {
        (case.placement, case.listed) = (dynamic(), shares(&[("a", 2), ("b", 2)]));
        case.cordons = (true, false);
    };
    assert_eq!(of(divided), "leaves");
    // Nor does what has no place for one more.
    let full = |case: &mut Case| {
        case.placement = spread(Case::default().placement, &[("cluster", 1, 2)]);
        case.cordons = (true, false);
    };
    assert_eq!(of(full), "leaves");
    let tolerant = |case: &mut Case| {
        case.placement["clusterTolerations"] = json!([{"operator": "Exists"}]);
    };
    assert_eq!(of(tolerant), "NotKeptAway");
}

#[test]
fn too_few_groups_are_told_before_the_scheduler_says_so() {
    let plain = Case::default().placement;
    let by = |constraints: &[(&str, i64, i64)], listed: &[&str]| {
        placed(spread(plain.clone(), constraints), duplicated(listed))
    };
    assert_eq!(by(&[("cluster", 2, 3)], &["a", "b"]), "leaves");
    assert_eq!(by(&[("cluster", 3, 3)], &["a", "b", "c"]), "TooFewClusters");
    // Already in more than it may.
    assert_eq!(by(&[("cluster", 1, 1)], &["a", "b", "c"]), "NotCertain");
    let regions = [("region", 2, 2), ("cluster", 2, 3)];
    assert_eq!(by(&regions, &["a", "b", "c"]), "leaves");
    // With others to choose from, which ones it takes is not certain.
    assert_eq!(by(&regions, &["a", "c"]), "NotCertain");
    let only_south = placed(spread(plain.clone(), &regions), duplicated(&["a", "c"]));
    assert_eq!(only_south, "NotCertain");
    assert_eq!(by(&[("zone", 1, 1)], &["a", "b"]), "NotCertain");
    // Static weights ignore them.
    let weighed = spread(weighed(&[("a", 1), ("b", 1)]), &[("cluster", 2, 2)]);
    assert_eq!(placed(weighed, shares(&[("a", 2), ("b", 2)])), "leaves");
    // What goes by room may exchange one for another.
    let by_room = spread(dynamic(), &[("cluster", 1, 1)]);
    assert_eq!(placed(by_room, shares(&[("a", 2), ("b", 2)])), "NotCertain");
}

#[test]
fn what_the_scheduler_would_take_elsewhere_too_does_not_leave() {
    let moved = json!({"clusterAffinity": {"clusterNames": ["a", "c"]}});
    assert_eq!(placed(moved, duplicated(&["a", "b"])), "NotCertain");
    let executed = json!({"b": {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}});
    assert_eq!(of(|case| case.clusters = executed), "Unsettled");
    // Weights that are not in force would be.
    let weights = weighed(&[("a", 1), ("b", 1), ("c", 1)]);
    assert_eq!(
        placed(weights.clone(), shares(&[("a", 1), ("b", 5), ("c", 0)])),
        "NotCertain"
    );
    assert_eq!(placed(weights, shares(&[("a", 2), ("b", 2), ("c", 2)])), "leaves");
    let groups = |second: &str, how: Value| {
        let mut placement = how;
        placement.as_object_mut().unwrap().remove("clusterAffinity");
        placement["clusterAffinities"] = json!([
            {"affinityName": "first", "clusterNames": ["a", "b"]}, {"affinityName": "second", "clusterNames": [second]},
        ]);
        of(|case| {
            (case.placement, case.listed) = (placement, shares(&[("a", 2), ("b", 2)]));
            case.binding = json!({"status": {"schedulerObservingAffinityName": "first"}});
        })
    };
    assert_eq!(groups("c", dynamic()), "NotCertain");
    assert_eq!(groups("c", Case::default().placement), "leaves");
}

#[test]
fn without_all_that_are_emptied_something_must_be_left() {
    assert_eq!(of(|case| case.emptied = vec!["a", "b"]), "SeveralClusters");
    let three = |case: &mut Case| {
        (case.emptied, case.listed) = (vec!["a", "b"], duplicated(&["a", "b", "c"]));
    };
    assert_eq!(of(three), "leaves");
}

#[test]
fn what_is_divided_needs_room_as_far_as_that_is_known() {
    let with = |cpu: &str| {
        let summary =
            |cpu: &str| json!({"status": {"resourceSummary": {"allocatable": {"cpu": cpu, "pods": "100"}}}});
        let case = |case: &mut Case| {
            (case.placement, case.listed) = (dynamic(), shares(&[("a", 4), ("b", 2)]));
            case.clusters = json!({"b": summary(cpu), "c": summary("1")});
        };
        of(case)
    };
    assert_eq!(with("2"), "NoTarget");
    assert_eq!(with("3"), "leaves");
}

fn patch_of(effect: Effect) -> Vec<Value> {
    match effect {
        Effect::PatchBinding { patch, .. } => patch,
        other => panic!("{other}"),
    }
}

/// Returns the binding as a patch leaves it; `None`: one of its tests fails.
fn patched(binding: &ResourceBinding, effect: Effect) -> Option<ResourceBinding> {
    let patch: json_patch::Patch = serde_json::from_value(Value::Array(patch_of(effect))).unwrap();
    let mut object = serde_json::to_value(binding).unwrap();
    json_patch::patch(&mut object, &patch).ok()?;
    Some(serde_json::from_value(object).unwrap())
}

fn marked() -> ResourceBinding {
    let mark = json!({"metadata": {"annotations": {"cutover.dev/evicting": "m/uid"}}});
    binding(&dynamic(), &shares(&[("a", 2), ("b", 3)]), &mark)
}

fn before() -> Vec<Share> {
    let share = |(cluster, replicas): (&str, i32)| Share {
        cluster: cluster.into(),
        replicas,
    };
    [("a", 2), ("b", 3)].map(share).into()
}

#[test]
fn what_is_taken_out_is_put_back_as_it_was() {
    let whole = marked();
    let out = patched(&whole, take_out(&whole, &"a".into(), "m/uid")).unwrap();
    let listed: Vec<_> = out
        .spec
        .clusters
        .iter()
        .map(|target| target.name.as_str())
        .collect();
    assert_eq!(listed, ["b"]);
    let task = &out.spec.graceful_eviction_tasks[0];
    assert_eq!((task.suppress_deletion, task.replicas), (Some(true), Some(2)));
    // The scheduler has divided anew meanwhile.
    let mut scheduled = out.clone();
    scheduled.spec.clusters[0].replicas = 5;
    let back = patched(&scheduled, put_back(&scheduled, &"a".into(), "m/uid", &before())).unwrap();
    assert_eq!(back.spec.clusters, whole.spec.clusters);
    assert_eq!(back.spec.graceful_eviction_tasks, []);
    // One that is gone meanwhile is not brought back, and nothing is taken from those that came.
    scheduled.spec.clusters[0].name = "c".into();
    let back = patched(&scheduled, put_back(&scheduled, &"a".into(), "m/uid", &before())).unwrap();
    let listed: Vec<_> = back
        .spec
        .clusters
        .iter()
        .map(|target| (target.name.as_str(), target.replicas))
        .collect();
    assert_eq!(listed, [("c", 5), ("a", 2)]);
}

#[test]
fn a_binding_that_is_not_as_it_was_read_is_not_taken_from() {
    let whole = marked();
    let change = |change: &dyn Fn(&mut ResourceBinding)| {
        let mut other = whole.clone();
        change(&mut other);
        patched(&other, take_out(&whole, &"a".into(), "m/uid"))
    };
    assert!(change(&|_| ()).is_some());
    assert!(change(&|other| other.metadata.generation = Some(8)).is_none());
    assert!(change(&|other| other.spec.clusters[1].replicas = 4).is_none());
    let unmarked = |other: &mut ResourceBinding| {
        other
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .remove("cutover.dev/evicting");
    };
    assert!(change(&unmarked).is_none());
}

#[test]
fn what_an_intent_left_that_is_gone_is_undone_by_its_task_alone() {
    let whole = marked();
    let out = patched(&whole, take_out(&whole, &"a".into(), "m/uid")).unwrap();
    assert!(undo(&out, "another").is_none());
    let back = patched(&out, undo(&out, "uid").unwrap()).unwrap();
    assert_eq!(back.spec.clusters.len(), 2);
    let clean = patched(&back, undo(&back, "uid").unwrap()).unwrap();
    assert!(undo(&clean, "uid").is_none());
}

mod webster {
    use proptest::prelude::*;

    use super::*;
    use crate::intent::moves::evict::judge::least_share;

    /// As it stands in Karmada's source: seat by seat to the highest quotient; `first`: who wins where two are equal.
    fn seats(replicas: i32, weights: &[i64], first: bool) -> Vec<i32> {
        let mut seats = vec![0_i32; weights.len()];
        for _ in 0..replicas {
            let worth = |index: usize| (weights[index], 2 * i64::from(seats[index]) + 1);
            let best = (0..weights.len())
                .reduce(|best, next| {
                    let ((w, d), (x, e)) = (worth(best), worth(next));
                    match (w * e).cmp(&(x * d)).then(seats[next].cmp(&seats[best])) {
                        std::cmp::Ordering::Less => next,
                        std::cmp::Ordering::Equal if !first => next,
                        _ => best,
                    }
                })
                .unwrap();
            seats[best] += 1;
        }
        seats
    }

    proptest! {
        #[test]
        fn nobody_gets_less_than_the_least_share(
            weights in prop::collection::vec(1..9_i64, 1..5), replicas in 0..30_i32, first in any::<bool>(),
        ) {
            let names: Vec<ClusterName> = (0..weights.len()).map(|index| ClusterName::new(format!("c{index}"))).collect();
            let by_name: BTreeMap<&ClusterName, i64> = names.iter().zip(weights.iter().copied()).collect();
            let real = seats(replicas, &weights, first);
            let mut all = 0;
            for (name, seats) in names.iter().zip(real) {
                let least = least_share(replicas, name, &by_name);
                prop_assert!(least <= seats, "{least} of {seats}");
                all += seats - least;
            }
            // It is off only where two are worth the same.
            prop_assert!(all < i32::try_from(weights.len()).unwrap());
        }
    }
}
