//! Looks in the target for the objects that a workload refers to.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::Value;

use super::ask::get;
use super::served;
use cutover_cluster::{Answer, Cluster};
use cutover_core::intent::Seen;
use cutover_core::intent::dependencies::{MOST, Presence, Reference, references};
use cutover_core::profile::Profile;
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{ResourceBinding, meta};

/// Looks for all of them at once, up to a limit. `templates`: the one that is there, and the one that comes along.
pub(in crate::reconcile) async fn read<'a>(
    cluster: &Cluster,
    workload: &ObjectKey,
    templates: impl IntoIterator<Item = &'a Value>,
    profile: Option<&Profile>,
    binding: Option<&ResourceBinding>,
    target: &ClusterName,
) -> Vec<(Reference, Presence)> {
    let Some(namespace) = workload.namespace.as_deref() else {
        return Vec::new();
    };
    let templates = templates.into_iter();
    let all: BTreeSet<Reference> = templates
        .flat_map(|template| references(template, profile))
        .collect();
    let follows = binding.filter(|binding| binding.spec.propagate_deps);
    let looks = all.into_iter().enumerate().map(async |(index, reference)| {
        let presence = if index < MOST {
            presence(cluster, namespace, &reference, follows, target).await
        } else {
            Presence::NotRead
        };
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
    if !reference.is_name() {
        return Presence::Unknown("no object can have that name".to_owned());
    }
    let served = match served(cluster, &reference.gvk).await {
        Ok(served) if served.namespaced => served,
        Ok(_) => return Presence::Unknown(format!("{} is no kind of a namespace", reference.gvk)),
        Err(error) => return Presence::Unknown(error.to_string()),
    };
    match cluster
        .member(target)
        .exists(&served, Some(namespace), &reference.name)
        .await
        .answer
    {
        Answer::Found(()) => return Presence::There,
        Answer::NotFound => {}
        Answer::Unknown { why } => return Presence::Unknown(why),
    }
    // Its binding says whether Karmada has it, and where it goes; its content is not looked at.
    let kind = Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding");
    let name = meta::binding_name(&reference.name, &reference.gvk.kind);
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
