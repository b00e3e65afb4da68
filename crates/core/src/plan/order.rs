//! The order of changes: what others need comes first, and goes last. What only stays is told at the end.

use std::cmp::Ordering;

use serde_json::Value;

use super::annotations::{self, WAVE_ANNOTATION};
use super::{Action, Change};
use crate::api::GROUP;
use cutover_base::packed::View;
use cutover_karmada::name::Gvk;

/// Which kinds are applied before which.
///
/// Profiles refer to nothing, and say of which workloads a policy must not be applied. Overrides and policies come before the templates they are about, so that no template is propagated without them;
/// intents come last, when all they speak of is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Namespace,
    Definition,
    Profile,
    Override,
    Policy,
    /// What workloads refer to: configuration, identities, storage.
    Support,
    Template,
    Intent,
}

impl Rank {
    pub fn of(gvk: &Gvk) -> Self {
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("", "Namespace") => Self::Namespace,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Definition,
            ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => Self::Override,
            ("policy.karmada.io", _) => Self::Policy,
            (GROUP, "WorkloadProfile") => Self::Profile,
            (GROUP, _) => Self::Intent,
            (
                "",
                "ConfigMap"
                | "Secret"
                | "ServiceAccount"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "LimitRange"
                | "ResourceQuota",
            )
            | ("rbac.authorization.k8s.io" | "storage.k8s.io" | "scheduling.k8s.io", _) => Self::Support,
            _ => Self::Template,
        }
    }
}

/// Where an object stands in the order: what has a smaller place is applied before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub rank: Rank,
    pub wave: i64,
}

impl Place {
    /// Returns whether what stands here waits until what stands there is healthy, when a sync waits at all.
    ///
    /// Only waves wait: what has a lower one, of the same rank or an earlier one. Intents never do: an intent may be
    /// what heals.
    pub fn waits_for(self, there: Self) -> bool {
        self.rank != Rank::Intent && there.rank <= self.rank && there.wave < self.wave
    }
}

pub(super) fn wave(object: &Value) -> i64 {
    annotations::of(object, WAVE_ANNOTATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// Returns the wave of an object that is packed.
pub fn written_wave(object: View<'_>) -> i64 {
    let annotations = || object.get("metadata")?.get("annotations");
    let wave = annotations().and_then(|all| all.get(WAVE_ANNOTATION)?.as_str()?.parse().ok());
    wave.unwrap_or(0)
}

pub(super) fn compare(a: &Change, b: &Change) -> Ordering {
    let forward = || a.place().cmp(&b.place()).then_with(|| a.key.cmp(&b.key));
    let stays = |change: &Change| matches!(change.action, Action::LeftBehind { .. });
    if stays(a) || stays(b) {
        return stays(a).cmp(&stays(b)).then_with(forward);
    }
    match (a.is_deletion(), b.is_deletion()) {
        (false, false) => forward(),
        (true, true) => forward().reverse(),
        (a, b) => a.cmp(&b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_wait_and_ranks_and_intents_do_not() {
        let at = |rank, wave| Place { rank, wave };
        let web = at(Rank::Template, 1);
        assert!(web.waits_for(at(Rank::Template, 0)));
        assert!(web.waits_for(at(Rank::Support, 0)));
        assert!(!web.waits_for(at(Rank::Template, 1)));
        // A claim of storage is bound only once its workload is there.
        assert!(!at(Rank::Template, 0).waits_for(at(Rank::Support, 0)));
        assert!(!at(Rank::Support, 1).waits_for(at(Rank::Template, 0)));
        assert!(!at(Rank::Intent, 1).waits_for(at(Rank::Template, 0)));
    }
}
