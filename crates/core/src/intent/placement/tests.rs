use serde_json::json;

use super::*;

fn clusters() -> BTreeMap<ClusterName, Cluster> {
    ["east", "west", "north"]
        .map(|name| {
            (
                ClusterName::from(name),
                Cluster::new(name, cutover_karmada::ClusterSpec::default()),
            )
        })
        .into()
}

fn codes(placement: serde_json::Value) -> Vec<String> {
    let placement: Placement = serde_json::from_value(placement).unwrap();
    let found = keeps_target(&placement, &"west".into(), &clusters(), "g1");
    found.err().into_iter().map(|finding| finding.code).collect()
}

/// Returns the group of affinities that keeps the target.
fn group(placement: serde_json::Value, in_use: &str) -> Option<String> {
    let placement: Placement = serde_json::from_value(placement).unwrap();
    keeps_target(&placement, &"west".into(), &clusters(), in_use).unwrap()
}

#[test]
fn the_group_in_use_is_kept_if_it_holds_the_target_else_the_first_that_does_is_named() {
    let groups = json!({"clusterAffinities": [
        {"affinityName": "g1", "clusterNames": ["east"]},
        {"affinityName": "g2", "clusterNames": ["west"]},
        {"affinityName": "g3", "clusterNames": ["west"]},
    ]});
    assert_eq!(group(groups.clone(), "g1").as_deref(), Some("g2"));
    assert_eq!(group(groups, "g3").as_deref(), Some("g3"));
    assert_eq!(
        group(json!({"clusterAffinity": {"clusterNames": ["west"]}}), ""),
        None
    );
    let both = json!({"clusterAffinities": [{"affinityName": "g1", "clusterNames": ["east", "west"]}]});
    assert_eq!(codes(both), ["Spreads"]);
}

/// The table of what was measured: who keeps the target after scheduling resumes.
#[test]
fn a_placement_passes_only_when_the_scheduler_would_keep_the_target_alone() {
    let both = json!({"clusterNames": ["east", "west"]});
    let one = json!([{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]);
    let aggregated = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let weights = json!({
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": {"clusterNames": ["east"]}, "weight": 1}]},
    });
    let evenly = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    let by_room = json!({
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    });
    let groups = json!([{"affinityName": "g1", "clusterNames": ["east"]}]);

    let none: [&str; 0] = [];
    assert_eq!(
        codes(json!({"clusterAffinity": both, "spreadConstraints": one})),
        none
    );
    assert_eq!(
        codes(json!({"clusterAffinity": both, "replicaScheduling": aggregated})),
        none
    );
    assert_eq!(
        codes(json!({"clusterAffinity": {"clusterNames": ["west"]}})),
        none
    );
    assert_eq!(codes(json!({"clusterAffinity": both})), ["Spreads"]);
    assert_eq!(
        codes(json!({"clusterAffinity": {"clusterNames": ["east"]}})),
        ["PlacementExcludesTarget"]
    );
    assert_eq!(
        codes(json!({"clusterAffinity": both, "replicaScheduling": weights, "spreadConstraints": one})),
        ["StaticWeights"]
    );
    // Without weights, all weigh the same.
    assert_eq!(
        codes(json!({"clusterAffinity": both, "replicaScheduling": evenly, "spreadConstraints": one})),
        ["StaticWeights"]
    );
    assert_eq!(
        codes(json!({"clusterAffinity": both, "replicaScheduling": by_room, "spreadConstraints": one})),
        none
    );
    assert_eq!(
        codes(json!({"clusterAffinity": both, "replicaScheduling": by_room})),
        ["Spreads"]
    );
    let region = json!([{"spreadByField": "region", "maxGroups": 1, "minGroups": 1}]);
    assert_eq!(
        codes(json!({"clusterAffinity": both, "spreadConstraints": region})),
        ["Spreads"]
    );
    assert_eq!(
        codes(json!({"clusterAffinities": groups})),
        ["PlacementExcludesTarget"]
    );
}
