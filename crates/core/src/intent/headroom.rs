//! Where a workload goes: among the clusters that its policy allows and that have room, the best one; else why none would do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::placement::keeps_target;
use crate::api::{CORDON_PREFIX, Choose, Finding, Targets};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Amounts, Capacity, Cluster, Need, ResourceBinding};

/// What the clusters have, with what is promised to moves that are on their way.
#[derive(Clone, Debug)]
pub struct Headroom<'a> {
    clusters: &'a BTreeMap<ClusterName, Cluster>,
    capacities: BTreeMap<ClusterName, Capacity>,
    /// How many workloads are there.
    workloads: BTreeMap<ClusterName, usize>,
}

/// A workload that is to go somewhere.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadToPlace<'a> {
    pub binding: &'a ResourceBinding,
    pub template: &'a Value,
    pub from: &'a ClusterName,
}

impl WorkloadToPlace<'_> {
    /// Returns what it asks for; `None`: that isn't known.
    pub fn need(&self) -> Option<Need> {
        Need::of(&self.binding.spec, self.template)
    }
}

/// How good a cluster is; the smallest is the best.
type Score = (bool, usize, i128, usize);

impl<'a> Headroom<'a> {
    pub fn new<'b>(
        clusters: &'a BTreeMap<ClusterName, Cluster>,
        bindings: impl IntoIterator<Item = &'b ResourceBinding>,
    ) -> Self {
        let capacities = clusters
            .iter()
            .filter_map(|(name, cluster)| Some((name.clone(), Capacity::of(cluster)?)));
        let mut workloads: BTreeMap<ClusterName, usize> = BTreeMap::new();
        for target in bindings.into_iter().flat_map(|binding| &binding.spec.clusters) {
            *workloads.entry(target.name.clone()).or_default() += 1;
        }
        Self {
            clusters,
            capacities: capacities.collect(),
            workloads,
        }
    }

    pub fn capacity(&self, cluster: &ClusterName) -> Option<&Capacity> {
        self.capacities.get(cluster)
    }

    /// Counts a workload where it is going to be.
    pub fn promise(&mut self, candidate: WorkloadToPlace<'_>, to: &ClusterName) {
        *self.workloads.entry(to.clone()).or_default() += 1;
        let need = candidate.need();
        if let (Some(capacity), Some(need)) = (self.capacities.get_mut(to), need) {
            capacity.take(&need.total());
        }
    }

    /// Counts a workload out of where it was.
    pub fn release(&mut self, candidate: WorkloadToPlace<'_>) {
        if let Some(there) = self.workloads.get_mut(candidate.from) {
            *there = there.saturating_sub(1);
        }
        let need = candidate.need();
        if let (Some(capacity), Some(need)) = (self.capacities.get_mut(candidate.from), need) {
            capacity.free(&need.total());
        }
    }

    /// Chooses the cluster that a workload goes to.
    pub fn choose(
        &self,
        candidate: WorkloadToPlace<'_>,
        targets: &Targets,
        avoid: &BTreeSet<ClusterName>,
    ) -> Result<ClusterName, Finding> {
        let need = candidate.need();
        let mut refused = Vec::new();
        let mut best: Option<(Score, &ClusterName)> = None;
        for (name, cluster) in self.clusters {
            let meant = targets.clusters.is_empty() || targets.clusters.contains(name);
            if name == candidate.from || !meant {
                continue;
            }
            if avoid.contains(name) {
                refused.push(format!("{name}: it is being emptied, too"));
                continue;
            }
            if let Some(why) = self.refuses(candidate, name, cluster, need.as_ref()) {
                refused.push(format!("{name}: {why}"));
                continue;
            }
            let score = self.score(candidate, name, need.as_ref(), targets.choose);
            if best.as_ref().is_none_or(|(best, _)| score < *best) {
                best = Some((score, name));
            }
        }
        let unknown = targets
            .clusters
            .iter()
            .filter(|name| !self.clusters.contains_key(*name));
        refused.extend(unknown.map(|name| format!("{name}: no such cluster is joined")));
        if let Some((_, name)) = best {
            return Ok(name.clone());
        }
        let why = if refused.is_empty() {
            "there is no other cluster".to_owned()
        } else {
            refused.join("; ")
        };
        Err(Finding::new(
            "NoTarget",
            format!("no cluster takes it: {why}"),
            "let its policy allow another cluster, free capacity there, or name other clusters in spec.to.clusters",
        ))
    }

    fn refuses(
        &self,
        candidate: WorkloadToPlace<'_>,
        name: &ClusterName,
        cluster: &Cluster,
        need: Option<&Need>,
    ) -> Option<String> {
        let spec = &candidate.binding.spec;
        let resource = &spec.resource;
        if cluster.metadata.deletion_timestamp.is_some() {
            return Some("it is leaving".to_owned());
        }
        if !cluster.is_ready() {
            return Some("it is not Ready".to_owned());
        }
        if let Some(taint) = emptied(cluster) {
            return Some(format!("it is being emptied by {taint}"));
        }
        // Whatever the policy tolerates: a person has asked for nothing new there.
        if cluster.is_cordoned() {
            return Some("it is cordoned".to_owned());
        }
        if !cluster.serves(&resource.api_version, &resource.kind) {
            return Some(format!("it does not serve {}", resource.kind));
        }
        if let Some(placement) = &spec.placement {
            let mut taints = placement.untolerated(cluster);
            if let Some(taint) = taints.find(|taint| taint.effect != "PreferNoSchedule") {
                return Some(format!("its taint {} is not tolerated", taint.key));
            }
            if let Some(taint) = placement.evicted_by(cluster) {
                return Some(format!("its taint {} is tolerated for a while only", taint.key));
            }
            if let Err(finding) = keeps_target(placement, name, self.clusters, in_use(candidate.binding)) {
                return Some(finding.message);
            }
        }
        let lacking = self.capacities.get(name)?.lacks(&need?.total());
        (!lacking.is_empty()).then(|| format!("it lacks {}", lacking.join(", ")))
    }

    fn score(
        &self,
        candidate: WorkloadToPlace<'_>,
        name: &ClusterName,
        need: Option<&Need>,
        how: Choose,
    ) -> Score {
        let there = self.workloads.get(name).copied().unwrap_or_default();
        let capacity = self.capacities.get(name);
        let nothing = Need::default();
        let need = need.unwrap_or(&nothing);
        // One of which nothing is known comes after those that are known to have room.
        let is_unknown = capacity.is_none();
        match how {
            Choose::LeastLoaded => {
                let load = capacity.map_or(0, |capacity| capacity.load(&need.total()));
                (is_unknown, 0, load, there)
            }
            Choose::Scheduler => {
                let group = group(candidate.binding, name, self.clusters);
                let fits = capacity.and_then(|capacity| capacity.replicas(&need.each));
                (false, group, -fits.unwrap_or_default(), 0)
            }
        }
    }

    /// Returns the load of a cluster, in thousandths, as it is now; `None`: not known.
    pub fn load(&self, cluster: &ClusterName) -> Option<i128> {
        Some(self.capacities.get(cluster)?.load(&Amounts::new()))
    }
}

/// Returns the intent that empties a cluster, by the taint that it puts there.
pub fn emptied(cluster: &Cluster) -> Option<&str> {
    let mut taints = cluster.spec.taints.iter();
    taints.find_map(|taint| taint.key.strip_prefix(CORDON_PREFIX))
}

fn in_use(binding: &ResourceBinding) -> &str {
    let status = binding.status.as_ref();
    status.map_or("", |status| status.scheduler_observed_affinity_name.as_str())
}

/// Returns which of the groups of affinities holds a cluster first.
fn group(binding: &ResourceBinding, name: &ClusterName, clusters: &BTreeMap<ClusterName, Cluster>) -> usize {
    let terms = binding
        .spec
        .placement
        .iter()
        .flat_map(|placement| &placement.cluster_affinities);
    let Some(cluster) = clusters.get(name) else {
        return usize::MAX;
    };
    let mut terms = terms.enumerate();
    terms
        .find(|(_, term)| term.affinity.matches(cluster))
        .map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, taints: Value) -> (ClusterName, Cluster) {
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name}, "spec": {"syncMode": "Push", "taints": taints},
            "status": {
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "r", "message": "m",
                    "lastTransitionTime": "2030-01-01T00:00:00Z",
                }],
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            },
        });
        (ClusterName::new(name), serde_json::from_value(cluster).unwrap())
    }

    #[test]
    fn a_cordoned_cluster_is_not_chosen_whatever_its_policy_tolerates() {
        let cordon = json!([{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]);
        let binding: ResourceBinding = serde_json::from_value(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web-deployment", "namespace": "shop"},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "clusters": [{"name": "east"}],
                "placement": {
                    "clusterTolerations": [{"operator": "Exists"}],
                    "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
                },
            },
        }))
        .unwrap();
        let (template, from) = (json!({}), ClusterName::new("east"));
        let candidate = WorkloadToPlace {
            binding: &binding,
            template: &template,
            from: &from,
        };
        let chosen = |west: &Value| {
            let clusters = BTreeMap::from([cluster("east", json!([])), cluster("west", west.clone())]);
            let room = Headroom::new(&clusters, &[]);
            room.choose(candidate, &Targets::default(), &BTreeSet::new())
                .map_err(|finding| finding.message)
        };
        assert_eq!(chosen(&json!([])), Ok(ClusterName::new("west")));
        assert_eq!(
            chosen(&cordon),
            Err("no cluster takes it: west: it is cordoned".to_owned())
        );
    }
}
