//! What a binding says, whatever is done with its workload.

use crate::api::Finding;
use cutover_karmada::{ResourceBinding, ResourceBindingSpec, meta};

/// The code of the finding that a policy keeps what leaves its clusters.
pub(super) const PRESERVED: &str = "PreserveResources";

/// Returns what a binding says that stands in the way of a move.
pub(super) fn binding_findings(binding: &ResourceBindingSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !binding.graceful_eviction_tasks.is_empty() {
        findings.push(Finding::new(
            "EvictionRunning",
            "Karmada is evicting the workload from a cluster",
            "wait until the eviction has ended",
        ));
    }
    if !binding.required_by.is_empty() {
        findings.push(Finding::new(
            "Required",
            "another workload keeps this one in its clusters as a dependency",
            "move the workload that depends on it",
        ));
    }
    if binding.scheduling_suspended() {
        findings.push(Finding::new(
            "SchedulingSuspended",
            "another client has suspended the scheduling of this workload",
            "end that suspension first: it would be lifted at the end of the migration",
        ));
    }
    let dispatch = binding.suspension.as_ref().map(|suspension| &suspension.dispatch);
    if dispatch.is_some_and(|dispatch| {
        dispatch.dispatching == Some(true) || dispatch.dispatching_on_clusters.is_some()
    }) {
        findings.push(Finding::new(
            "DispatchingSuspended",
            "another client has suspended the dispatching of this workload",
            "end that suspension first: no pin would reach the members",
        ));
    }
    if binding.preserve_resources_on_deletion == Some(true) {
        findings.push(preserved());
    }
    findings
}

/// Returns that a policy keeps what leaves its clusters.
pub(super) fn preserved() -> Finding {
    Finding::new(
        PRESERVED,
        "preserveResourcesOnDeletion would leave the source's copy running, unmanaged",
        "remove preserveResourcesOnDeletion from the policy for the duration of the move",
    )
}

/// A binding that no policy claims any more is none of the scheduler's.
pub(super) fn is_scheduled(binding: &ResourceBinding) -> bool {
    let labels = binding.metadata.labels.iter().flatten();
    labels
        .into_iter()
        .any(|(label, value)| meta::CLAIMED_BY.contains(&label.as_str()) && !value.is_empty())
}
