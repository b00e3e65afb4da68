//! The order of changes: what others need comes first, and goes last.

use std::cmp::Ordering;

use serde_json::Value;

use super::Change;
use crate::api::GROUP;
use crate::name::Gvk;

/// On an object: an integer; within a rank, smaller ones are applied first. None is 0.
pub const WAVE_ANNOTATION: &str = "cutover.dev/wave";

/// Which kinds are applied before which.
///
/// Overrides and policies come before the templates they are about, so that no template is propagated without them;
/// intents come last, when all they speak of is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Namespace,
    Definition,
    Override,
    Policy,
    Profile,
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

pub(super) fn wave(object: &Value) -> i64 {
    object
        .get("metadata")
        .and_then(|metadata| {
            metadata
                .get("annotations")?
                .get(WAVE_ANNOTATION)?
                .as_str()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

pub(super) fn compare(a: &Change, b: &Change) -> Ordering {
    let place = |change: &Change| (Rank::of(&change.gvk), change.wave);
    let forward = || place(a).cmp(&place(b)).then_with(|| a.key.cmp(&b.key));
    match (a.is_deletion(), b.is_deletion()) {
        (false, false) => forward(),
        (true, true) => forward().reverse(),
        (a, b) => a.cmp(&b),
    }
}
