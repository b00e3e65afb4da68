//! When Karmada takes a workload out of a cluster by itself, and which workload therefore leaves first.

use jiff::{SignedDuration, Timestamp};

use cutover_karmada::name::ObjectKey;
use cutover_karmada::{Cluster, Placement, ResourceBinding, Taint};

/// When Karmada takes a workload out of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaintEviction {
    pub left: SignedDuration,
    /// `None`: at once.
    pub at: Option<Timestamp>,
    pub why: String,
}

/// The place of a workload among those of its sort that leave a cluster.
pub(super) type Turn = (bool, SignedDuration, ObjectKey);

/// Returns when a workload leaves a cluster: before all that Karmada evicts later, or never.
pub(super) fn turn(eviction: Option<&TaintEviction>, workload: ObjectKey) -> Turn {
    let left = eviction.map(|eviction| eviction.left);
    (left.is_none(), left.unwrap_or(SignedDuration::ZERO), workload)
}

/// Returns when Karmada takes what is placed like this out of a cluster, as its taint manager decides; `None`: it doesn't.
pub(super) fn eviction(placement: &Placement, cluster: &Cluster, now: Timestamp) -> Option<TaintEviction> {
    let at_once = |why: String| TaintEviction {
        left: SignedDuration::ZERO,
        at: None,
        why,
    };
    // Its execution space goes first, with every Work in it, whatever is tolerated.
    if let Some(deletion) = deletion(cluster) {
        return Some(at_once(deletion));
    }
    let each = no_execute(cluster).filter_map(|taint| {
        let Some(toleration) = placement.toleration_of(taint) else {
            return Some(at_once(described(taint)));
        };
        let tolerated = SignedDuration::from_secs(toleration.toleration_seconds?);
        let since = taint.time_added.as_ref().map_or(now, |added| added.0);
        let left = tolerated.saturating_sub(now.duration_since(since));
        Some(TaintEviction {
            left: left.max(SignedDuration::ZERO),
            at: since.checked_add(tolerated).ok(),
            why: described(taint),
        })
    });
    each.min_by_key(|eviction| eviction.left)
}

/// The same of the workload of a binding. What it tolerates is read only where that matters.
pub(super) fn eviction_of(
    binding: &ResourceBinding,
    cluster: &Cluster,
    now: Timestamp,
) -> Option<TaintEviction> {
    let evicts = deletion(cluster).is_some() || no_execute(cluster).next().is_some();
    evicts
        .then(|| eviction(&binding.placement_for_taints(), cluster, now))
        .flatten()
}

fn no_execute(cluster: &Cluster) -> impl Iterator<Item = &Taint> {
    let taints = cluster.spec.taints.iter();
    taints.filter(|taint| taint.effect == "NoExecute")
}

/// Returns the deletion of a cluster, for people, if it is being deleted.
pub(super) fn deletion(cluster: &Cluster) -> Option<String> {
    let at = cluster.metadata.deletion_timestamp.as_ref()?;
    Some(format!("its deletion at {}", at.0))
}

pub(super) fn described(taint: &Taint) -> String {
    let Taint {
        key, value, effect, ..
    } = taint;
    if value.is_empty() {
        format!("the taint {key}:{effect}")
    } else {
        format!("the taint {key}={value}:{effect}")
    }
}
