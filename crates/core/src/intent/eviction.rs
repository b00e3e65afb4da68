//! What takes a cluster out of a binding, and puts it back: each patch says what the binding must still be like.

use serde_json::{Value, json};

use super::effect::{Effect, Exactly, add, exactly, patch_binding, remove, segment, test};
use super::fence::target_cluster;
use crate::api::{EVICTING_ANNOTATION, EVICTION_PRODUCER, Share};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{EvictionTask, ResourceBinding, TargetCluster};

const CLUSTERS: &str = "/spec/clusters";
pub(super) const TASKS: &str = "/spec/gracefulEvictionTasks";
/// Karmada keeps it in a label-like form.
const REASON: &str = "Evacuation";

/// Returns the task by which a move takes the workload out of a cluster, and its place among all.
pub(super) fn own_task<'a>(
    binding: &'a ResourceBinding,
    from: &ClusterName,
    mark: &str,
) -> Option<(usize, &'a EvictionTask)> {
    let mut tasks = binding.spec.graceful_eviction_tasks.iter().enumerate();
    tasks.find(|(_, task)| {
        task.from_cluster == *from && task.producer == EVICTION_PRODUCER && task.message == mark
    })
}

pub(super) fn lists(binding: &ResourceBinding, cluster: &ClusterName) -> bool {
    binding.spec.clusters.iter().any(|target| target.name == *cluster)
}

/// Returns the move that a binding is marked with.
pub(super) fn mark(binding: &ResourceBinding) -> Option<&str> {
    let annotations = binding.metadata.annotations.as_ref()?;
    annotations.get(EVICTING_ANNOTATION).map(String::as_str)
}

/// Says on the binding which move is at work on it.
pub(super) fn put_mark(binding: &ResourceBinding, mark: &str) -> Effect {
    let patch = if binding.metadata.annotations.is_some() {
        add(&mark_path(), json!(mark))
    } else {
        add("/metadata/annotations", json!({EVICTING_ANNOTATION: mark}))
    };
    // That there is none can't be tested: nothing at all may have changed.
    let binding = Exactly {
        resource_version: binding.metadata.resource_version.clone(),
        ..exactly(binding)
    };
    Effect::PatchBinding {
        why: "mark what is taken out of a cluster",
        binding,
        patch: vec![patch],
        rehearse: false,
    }
}

pub(super) fn take_mark_off(binding: &ResourceBinding, mark: &str) -> Effect {
    patch_binding(
        "take the mark off",
        binding,
        vec![test(&mark_path(), json!(mark)), remove(&mark_path())],
    )
}

/// Takes a cluster out of the list, and leaves its copy to whoever confirms that it may go: as Karmada does it itself.
pub(super) fn take_out(binding: &ResourceBinding, from: &ClusterName, mark: &str) -> Effect {
    let (leaves, stays): (Vec<&TargetCluster>, Vec<&TargetCluster>) = binding
        .spec
        .clusters
        .iter()
        .partition(|target| target.name == *from);
    let mut task = json!({
        "fromCluster": from, "purgeMode": "Gracefully", "reason": REASON, "message": mark,
        "producer": EVICTION_PRODUCER, "suppressDeletion": true,
    });
    if let Some(replicas) = leaves
        .first()
        .map(|target| target.replicas)
        .filter(|replicas| *replicas > 0)
    {
        task["replicas"] = json!(replicas);
    }
    let patch = vec![
        same(binding),
        test(&mark_path(), json!(mark)),
        test(CLUSTERS, json!(binding.spec.clusters)),
        add(CLUSTERS, json!(stays)),
        // There was none: the generation says so.
        add(TASKS, json!([task])),
    ];
    patch_binding("take a cluster out, and keep its copy", binding, patch)
}

/// Puts the cluster into the list again, and takes the task away, if it is there.
pub(super) fn put_back(
    binding: &ResourceBinding,
    from: &ClusterName,
    mark: &str,
    before: &[Share],
) -> Effect {
    put(binding, from, mark, restored(binding, from, before))
}

fn put(binding: &ResourceBinding, from: &ClusterName, mark: &str, clusters: Vec<Value>) -> Effect {
    let mut patch = vec![same(binding), add(CLUSTERS, Value::Array(clusters))];
    if let Some((index, _)) = own_task(binding, from, mark) {
        patch.push(test(&format!("{TASKS}/{index}/message"), json!(mark)));
        let only = binding.spec.graceful_eviction_tasks.len() == 1;
        patch.push(remove(&if only {
            TASKS.to_owned()
        } else {
            format!("{TASKS}/{index}")
        }));
    }
    patch_binding("put the cluster back", binding, patch)
}

/// Returns the list as it was, where nobody but the scheduler, for this move, has changed it: then it finds nothing to do. Else
/// the cluster as it was joins those that are listed now, and the scheduler sees to the rest.
fn restored(binding: &ResourceBinding, from: &ClusterName, before: &[Share]) -> Vec<Value> {
    let is_there = |share: &Share| share.cluster == *from || lists(binding, &share.cluster);
    if before.iter().all(is_there) {
        return before.iter().map(target).collect();
    }
    let own = before.iter().find(|share| share.cluster == *from);
    joined(binding, from, own.map_or(0, |share| share.replicas))
}

/// Returns what is listed, with a cluster that is to be there again.
fn joined(binding: &ResourceBinding, from: &ClusterName, replicas: i32) -> Vec<Value> {
    let listed = binding.spec.clusters.iter().filter(|one| one.name != *from);
    let back = Share {
        cluster: from.clone(),
        replicas,
    };
    listed.map(|one| json!(one)).chain([target(&back)]).collect()
}

fn target(share: &Share) -> Value {
    target_cluster(
        &share.cluster,
        Some(i64::from(share.replicas)).filter(|replicas| *replicas != 0),
    )
}

/// Nobody has changed the spec of the binding since it was read.
pub(super) fn same(binding: &ResourceBinding) -> Value {
    test("/metadata/generation", json!(binding.metadata.generation))
}

fn mark_path() -> String {
    format!("/metadata/annotations/{}", segment(EVICTING_ANNOTATION))
}

/// Puts back what an intent took out of a cluster that is gone without having come to an end. Where it was before, only its
/// task says.
pub(super) fn undo(binding: &ResourceBinding, owner_uid: &str) -> Option<Effect> {
    let is_own = |mark: &str| mark.rsplit_once('/').is_some_and(|(_, uid)| uid == owner_uid);
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    let own = tasks.find(|task| task.producer == EVICTION_PRODUCER && is_own(&task.message));
    match own {
        Some(task) if task.suppress_deletion != Some(false) => {
            let (from, replicas) = (&task.from_cluster, task.replicas.unwrap_or_default());
            Some(put(binding, from, &task.message, joined(binding, from, replicas)))
        }
        _ => mark(binding)
            .filter(|mark| is_own(mark))
            .map(|mark| take_mark_off(binding, mark)),
    }
}
