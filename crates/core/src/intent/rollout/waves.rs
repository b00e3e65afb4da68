//! In which order clusters are released.

use std::collections::BTreeMap;

use crate::api::{ROLLOUT_WAVE_ANNOTATION, RolloutStrategy, TimeSpan, Wave};
use cutover_karmada::Cluster;
use cutover_karmada::name::ClusterName;

/// Returns the waves in which the clusters of a workload are released: each of them once, none of them empty.
pub fn waves(
    strategy: &RolloutStrategy,
    listed: &[ClusterName],
    clusters: &BTreeMap<ClusterName, Cluster>,
) -> Vec<Wave> {
    let mut left: Vec<ClusterName> = listed.to_vec();
    left.sort();
    left.dedup();
    let mut waves = Vec::new();
    let mut take = |names: &[ClusterName], soak: &Option<TimeSpan>| {
        let taken: Vec<ClusterName> = names.iter().filter(|name| left.contains(name)).cloned().collect();
        left.retain(|name| !taken.contains(name));
        if !taken.is_empty() {
            waves.push(Wave {
                clusters: taken,
                soak: soak.clone(),
            });
        }
    };
    for name in &strategy.order {
        take(std::slice::from_ref(name), &None);
    }
    for wave in &strategy.waves {
        take(&wave.clusters, &wave.soak);
    }
    let mut annotated: BTreeMap<i64, Vec<ClusterName>> = BTreeMap::new();
    let mut others = Vec::new();
    for name in left {
        match clusters.get(&name).and_then(number) {
            Some(number) => annotated.entry(number).or_default().push(name),
            None => others.push(vec![name]),
        }
    }
    let rest = annotated.into_values().chain(others);
    waves.extend(rest.map(|clusters| Wave { clusters, soak: None }));
    waves
}

fn number(cluster: &Cluster) -> Option<i64> {
    let annotations = cluster.metadata.annotations.as_ref()?;
    annotations.get(ROLLOUT_WAVE_ANNOTATION)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_karmada::ClusterSpec;

    fn said(strategy: &serde_json::Value, annotated: &[(&str, &str)]) -> String {
        let strategy: RolloutStrategy = serde_json::from_value(strategy.clone()).unwrap();
        let listed = ["west", "east", "north", "south"].map(ClusterName::from);
        let mut clusters = BTreeMap::new();
        for (name, number) in annotated {
            let mut cluster = Cluster::new(name, ClusterSpec::default());
            let annotation = (ROLLOUT_WAVE_ANNOTATION.to_owned(), (*number).to_owned());
            cluster.metadata.annotations = Some(BTreeMap::from([annotation]));
            clusters.insert(ClusterName::from(*name), cluster);
        }
        let waves = waves(&strategy, &listed, &clusters);
        let names = waves.iter().map(|wave| {
            let names: Vec<&str> = wave.clusters.iter().map(ClusterName::as_str).collect();
            names.join("+")
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_named_goes_first_then_by_annotation_then_by_name() {
        let none = serde_json::json!({});
        assert_eq!(said(&none, &[]), "east north south west");
        assert_eq!(
            said(
                &none,
                &[("west", "1"), ("north", "1"), ("south", "-2"), ("east", "soon")]
            ),
            "south north+west east"
        );
        let order = serde_json::json!({"order": ["west", "mars", "east"]});
        assert_eq!(said(&order, &[("south", "7")]), "west east south north");
        let waves =
            serde_json::json!({"waves": [{"clusters": ["north"]}, {"clusters": ["west", "north", "east"]}]});
        assert_eq!(said(&waves, &[]), "north west+east south");
    }
}
