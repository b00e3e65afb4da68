//! The fence around a binding: what keeps the scheduler and the built-in failover from moving a workload, and gives it back to
//! them. Whoever uses it has recorded before what is taken off; each write says what it was decided on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::custody::belt::{belted, is_belted, preserved};
use super::effect::{Effect, add, exact, patch_binding, remove, segment, test};
use super::seen::{NotKnown, Seen};
use crate::api::{Barrier, Belt, BindingId, Fence, LeaseSeen};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ResourceBinding, meta};

/// Where a placement says which taints it tolerates.
const TOLERATIONS: &str = "clusterTolerations";

/// Who holds the leases of Karmada's controllers.
pub type Leases = BTreeMap<String, LeaseSeen>;

/// Notes what is about to be taken off a binding, to be put back exactly.
pub(super) fn record(binding: &ResourceBinding, fence: &mut Fence) {
    let failover = binding.spec.failover.as_ref();
    fence.failover = failover.and_then(|failover| serde_json::to_value(failover).ok());
    fence.applied_placement = applied_placement(binding).map(str::to_owned);
    fence.recorded = true;
}

/// Returns what puts back what was taken off, where it is still as it was left; `None`: nothing is to be put back.
pub(super) fn restored(binding: &ResourceBinding, fence: &Fence) -> Option<Effect> {
    if let (Some(failover), None) = (&fence.failover, &binding.spec.failover) {
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            add("/spec/failover", failover.clone()),
        ];
        return Some(patch_binding("restore failover", binding, patch));
    }
    if let Some(belt) = &fence.belt {
        let off = Belt {
            off: true,
            ..belt.clone()
        };
        if let Some(effect) = belted(binding, &off, false) {
            return Some(effect);
        }
    }
    match (applied_placement(binding), &fence.applied_placement) {
        (Some(now), Some(before)) if now != before && is_but_for_toleration(now, before) => {
            let patch = vec![
                test(&annotation_path(), json!(now)),
                add(&annotation_path(), json!(before)),
            ];
            Some(patch_binding(
                "restore the applied placement",
                binding,
                exact(binding, patch),
            ))
        }
        _ => None,
    }
}

/// Returns which binding it is, and what it is before the first effect; `None`: it has no id yet.
pub(super) fn identify(binding: &ResourceBinding) -> Option<BindingId> {
    let labels = binding.metadata.labels.as_ref();
    let cluster_scoped = binding.metadata.namespace.is_none();
    let id = labels.and_then(|labels| labels.get(meta::binding_id_label(cluster_scoped)));
    let replicas = binding
        .spec
        .clusters
        .first()
        .map(|cluster| i64::from(cluster.replicas));
    Some(BindingId {
        name: binding.metadata.name.clone().unwrap_or_default(),
        uid: binding.metadata.uid.clone().unwrap_or_default(),
        id: id?.clone(),
        cluster_scoped,
        replicas: replicas.filter(|replicas| *replicas > 0),
        target_affinity: None,
    })
}

/// Takes failover off where nothing else is to be kept from it yet: the scheduler goes on. Sent late, when all is over and
/// failover is back, it must not take it off for good.
pub(super) fn failover_off_alone(binding: &ResourceBinding) -> Option<Effect> {
    let mut patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
    ];
    patch.extend(without_failover(binding)?);
    Some(patch_binding("take failover off", binding, patch))
}

/// Without its replicas a cluster would get none.
pub(super) fn target_cluster(name: &ClusterName, replicas: Option<i64>) -> Value {
    match replicas {
        Some(replicas) => json!({"name": name, "replicas": replicas}),
        None => json!({"name": name}),
    }
}

/// Returns the name of the group of affinities in use; empty where there are no groups.
pub(super) fn affinity_in_use(binding: &ResourceBinding) -> &str {
    let status = binding.status.as_ref();
    status.map_or("", |status| status.scheduler_observed_affinity_name.as_str())
}

/// Suspends scheduling, and nothing else.
pub(super) fn suspend(binding: &ResourceBinding) -> Effect {
    patch_binding("suspend scheduling", binding, suspended(binding))
}

fn suspended(binding: &ResourceBinding) -> Vec<Value> {
    vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
        match binding.spec.suspension {
            Some(_) => add("/spec/suspension/scheduling", json!(true)),
            None => add("/spec/suspension", json!({"scheduling": true})),
        },
    ]
}

/// Suspends scheduling and keeps failover off, in one patch: from then on nobody of Karmada's moves the workload. With a belt,
/// also whoever does so all the same deletes no copy.
pub(super) fn raise(binding: &ResourceBinding, belt: Option<&Belt>) -> Effect {
    let mut patch = suspended(binding);
    patch.extend(without_failover(binding).into_iter().flatten());
    patch.extend(with_toleration(binding).into_iter().flatten());
    let belted = belt.filter(|belt| !belt.off && !is_belted(binding));
    patch.extend(belted.map(|_| preserved()));
    patch_binding("suspend scheduling, keep failover off", binding, patch)
}

/// The generation stands for the clusters as well: the list itself may be spelled otherwise.
pub(super) fn resume(binding: &ResourceBinding) -> Effect {
    let patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
        remove("/spec/suspension/scheduling"),
    ];
    patch_binding("resume scheduling", binding, patch)
}

/// Takes failover off again where somebody brought it back while scheduling was suspended.
pub(super) fn failover_off(binding: &ResourceBinding) -> Option<Effect> {
    let operations = without_failover(binding);
    let why = match operations {
        Some(_) => "take failover off",
        None => "keep cluster failover off",
    };
    // Sent late, when all is over and somebody else has suspended scheduling, it must not take failover off for good.
    let mut patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
        test("/spec/suspension/scheduling", json!(true)),
    ];
    patch.extend(operations.or_else(|| with_toleration(binding))?);
    Some(patch_binding(why, binding, patch))
}

/// The detector puts `spec.failover` back after template and policy changes; it goes again before its timer can act.
fn without_failover(binding: &ResourceBinding) -> Option<Vec<Value>> {
    let failover = serde_json::to_value(binding.spec.failover.as_ref()?).ok()?;
    Some(vec![test("/spec/failover", failover), remove("/spec/failover")])
}

/// The taint manager reads only the annotation, so a toleration there keeps it away. It goes by the first toleration that matches a
/// taint: behind one of the policy with a limit of time it would do nothing.
fn with_toleration(binding: &ResourceBinding) -> Option<Vec<Value>> {
    let now = applied_placement(binding)?;
    let mut placement = parsed(now)?;
    let tolerations = placement
        .as_object_mut()?
        .entry(TOLERATIONS)
        .or_insert_with(|| json!([]))
        .as_array_mut()?;
    if tolerations.first() == Some(&everything()) {
        return None;
    }
    tolerations.insert(0, everything());
    Some(vec![
        test(&annotation_path(), json!(now)),
        add(&annotation_path(), json!(placement.to_string())),
    ])
}

fn everything() -> Value {
    json!({"operator": "Exists"})
}

/// Returns whether a placement is what another one was before it was made to tolerate everything; earlier versions put that last.
fn is_but_for_toleration(now: &str, before: &str) -> bool {
    let Some(before) = parsed(before) else {
        return false;
    };
    let without = |strip: fn(&mut Vec<Value>)| {
        let mut placement = parsed(now)?;
        let fields = placement.as_object_mut()?;
        let tolerations = fields.get_mut(TOLERATIONS)?.as_array_mut()?;
        strip(tolerations);
        if tolerations.is_empty() {
            fields.remove(TOLERATIONS);
        }
        Some(placement)
    };
    let first = without(|all| {
        if all.first() == Some(&everything()) {
            all.remove(0);
        }
    });
    let every = || without(|all| all.retain(|one| *one != everything()));
    first.as_ref() == Some(&before) || every().as_ref() == Some(&before)
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn annotation_path() -> String {
    format!("/metadata/annotations/{}", segment(meta::APPLIED_PLACEMENT))
}

pub(super) fn applied_placement(binding: &ResourceBinding) -> Option<&str> {
    binding
        .metadata
        .annotations
        .as_ref()?
        .get(meta::APPLIED_PLACEMENT)
        .map(String::as_str)
}

/// Returns the generation of a binding that the scheduler has handled last; 0: none yet.
pub(super) fn observed_generation(binding: &ResourceBinding) -> i64 {
    let status = binding.status.as_ref();
    status.map_or(0, |status| status.scheduler_observed_generation)
}

/// Returns whether the scheduler has handled a binding at all.
pub fn observed(binding: &ResourceBinding) -> bool {
    observed_generation(binding) > 0
}

/// Returns the name of the canary that a binding is of, which another intent may have made.
pub(super) fn canary_of(binding: &ResourceBinding) -> String {
    binding.spec.resource.name.clone()
}

/// Says what a barrier waits for.
pub(super) fn not_reached(canary: &ResourceBinding) -> String {
    format!("the scheduler has not reached canary {} yet", canary_of(canary))
}

/// Returns the barrier that is passed now. It is good for the controllers that are at work. `canary`: empty where the admission
/// fence stands in for one.
pub(super) fn passed(canary: String, leases: &Seen<Leases>, now: Timestamp) -> Result<Barrier, NotKnown> {
    Ok(Barrier {
        canary,
        passed_at: now,
        leases: leases.get()?.clone(),
    })
}
