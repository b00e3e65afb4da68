//! What is wrong with what a shift asks for, by itself.

use crate::api::{Finding, ReplicaShiftSpec, WorkloadProfileSpec};

/// A workload with state runs in one cluster: that is refused before anything is touched.
pub(crate) fn two_writers(spec: &ReplicaShiftSpec, profile: &WorkloadProfileSpec) -> Option<Finding> {
    profile.stateful.then(|| {
        Finding::new(
            "Stateful",
            format!(
                "a {} has state: a second copy would lose or fork it",
                spec.workload.kind
            ),
            "move it whole, with its state: cutover migrate",
        )
    })
}

/// Returns what a spec asks for that can't be, whatever the clusters are.
pub fn validate(spec: &ReplicaShiftSpec) -> Vec<Finding> {
    let mut found = Vec::new();
    if spec.from.cluster.as_ref() == Some(&spec.to) {
        found.push(Finding::new(
            "SameCluster",
            format!("the replicas are to go from {0} to {0}", spec.to),
            "fix spec.from or spec.to",
        ));
    }
    if spec.from.cluster.is_some() == spec.from.control_plane {
        found.push(Finding::new(
            "NoSource",
            "spec.from names neither a cluster nor the control plane, or both",
            "from: {cluster: NAME}, or from: {controlPlane: true}",
        ));
    }
    if spec.step.is_some() && !spec.percentages.is_empty() {
        found.push(Finding::new(
            "StepAndPercentages",
            "spec.step and spec.percentages are both given",
            "give one of them",
        ));
    }
    if !spec.percentages.is_sorted_by(|one, next| one < next) {
        found.push(Finding::new(
            "PercentagesNotAscending",
            "spec.percentages don't ascend",
            "for instance [10, 50, 100]",
        ));
    }
    found
}
