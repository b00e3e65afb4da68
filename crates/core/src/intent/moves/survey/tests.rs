//! In which order the workloads move that can.

use serde_json::json;

use super::*;
use crate::api::Rank;

/// Tolerates a taint for so long; `null`: for ever.
fn binding(name: &str, seconds: &Value) -> ResourceBinding {
    let tolerations =
        |seconds: &Value| json!([{"key": "maintenance", "operator": "Exists", "tolerationSeconds": seconds}]);
    let applied = json!({"clusterTolerations": tolerations(seconds)}).to_string();
    serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": name, "namespace": "shop", "annotations": {"policy.karmada.io/applied-placement": applied},
        },
        "spec": {
            "resource": {
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop", "name": name,
            },
            "clusters": [{"name": "east"}],
            // The taint manager does not read this one.
            "placement": {"clusterTolerations": tolerations(&json!(1))},
        },
    }))
    .unwrap()
}

fn cluster(name: &str, taints: &Value) -> (ClusterName, Cluster) {
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push", "taints": taints},
    });
    (ClusterName::new(name), serde_json::from_value(cluster).unwrap())
}

/// Returns the names of some workloads in the order in which they leave `east`.
fn order(taints: &Value) -> Vec<String> {
    let spec = MovesSpec {
        order: vec![Rank {
            label_selector: "tier=critical".to_owned(),
        }],
        ..MovesSpec::default()
    };
    let chosen = Chosen::of(&spec).unwrap();
    let workloads = [
        ("critical", Means::StopFirst, json!(null)),
        ("first", Means::StopFirst, json!(null)),
        ("hour", Means::StopFirst, json!(3600)),
        ("minute", Means::StopFirst, json!(60)),
        ("never", Means::StopFirst, json!(null)),
        ("over", Means::StopFirst, json!(3)),
        ("web", Means::StartFirst, json!(3)),
    ];
    let all: Vec<_> = workloads
        .iter()
        .map(|(name, means, seconds)| {
            let tier = if *name == "critical" { "critical" } else { "other" };
            (
                binding(name, seconds),
                *means,
                json!({"metadata": {"labels": {"tier": tier}}}),
            )
        })
        .collect();
    let mut candidates: Vec<Candidate<'_>> = all
        .iter()
        .map(|(binding, means, template)| Candidate {
            workload: name_of(binding),
            means: *means,
            binding,
            template,
            from: ClusterName::new("east"),
        })
        .collect();
    let clusters = BTreeMap::from([cluster("east", taints), cluster("west", &json!([]))]);
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    chosen.sort(&mut candidates, &clusters, now);
    candidates.into_iter().map(|one| one.workload.name).collect()
}

#[test]
fn of_what_has_state_goes_first_what_karmada_evicts_first() {
    let by_name = ["critical", "first", "hour", "minute", "never", "over", "web"];
    assert_eq!(order(&json!([])), by_name);
    assert_eq!(
        order(&json!([{"key": "maintenance", "effect": "NoSchedule"}])),
        by_name
    );
    let taint = json!([{"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:00Z"}]);
    assert_eq!(
        order(&taint),
        ["critical", "over", "minute", "hour", "first", "never", "web"]
    );
}
