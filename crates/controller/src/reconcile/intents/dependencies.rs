//! Looks in the target for what a workload's pods refer to.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::Value;

use super::ask::get;
use cutover_cluster::{Answer, Cluster};
use cutover_core::intent::Seen;
use cutover_core::intent::dependencies::{MOST, Presence, Reference, references};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{ResourceBinding, meta};

/// Looks for all of them at once. `templates`: the one that is there, and the one that comes along.
pub(in crate::reconcile) async fn read<'a>(
    cluster: &Cluster,
    workload: &ObjectKey,
    templates: impl IntoIterator<Item = &'a Value>,
    binding: Option<&ResourceBinding>,
    target: &ClusterName,
) -> Vec<(Reference, Presence)> {
    let Some(namespace) = workload.namespace.as_deref() else {
        return Vec::new();
    };
    let all: BTreeSet<Reference> = templates.into_iter().flat_map(references).collect();
    let follows = binding.filter(|binding| binding.spec.propagate_deps);
    let looks = all.into_iter().take(MOST).map(async |reference| {
        let presence = presence(cluster, namespace, &reference, follows, target).await;
        (reference, presence)
    });
    join_all(looks).await
}

async fn presence(
    cluster: &Cluster,
    namespace: &str,
    reference: &Reference,
    follows: Option<&ResourceBinding>,
    target: &ClusterName,
) -> Presence {
    match cluster
        .member(target)
        .exists(reference.kind, namespace, &reference.name)
        .await
        .answer
    {
        Answer::Found(()) => return Presence::There,
        Answer::NotFound => {}
        Answer::Unknown { why } => return Presence::Unknown(why),
    }
    // Its binding says whether Karmada has it, and where it goes; its content is not looked at.
    let kind = Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding");
    let name = meta::binding_name(&reference.name, reference.kind);
    let read: Seen<Option<ResourceBinding>> = get(cluster, kind, Some(namespace), &name).await;
    match read.get() {
        Ok(Some(binding)) => {
            let mut listed = binding.spec.clusters.iter();
            let goes_there = listed.any(|listed| listed.name == *target);
            let mut required_by = binding.spec.required_by.iter();
            let name = follows.and_then(|of| of.metadata.name.as_ref());
            let follows = required_by.any(|by| Some(&by.name) == name);
            if goes_there || follows {
                Presence::Comes
            } else {
                Presence::Missing
            }
        }
        Ok(None) => Presence::Missing,
        Err(why) => Presence::Unknown(why.0),
    }
}
