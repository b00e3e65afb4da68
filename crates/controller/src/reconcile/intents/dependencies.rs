//! Looks in the target for the objects that a workload needs.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use serde_json::Value;
use tokio::time::timeout;

use super::ask::{get, map};
use super::members::{ANSWERS_WITHIN, no_answer};
use cutover_cluster::{Answer, Cluster, Lookup, Served};
use cutover_core::api::NeededObject;
use cutover_core::intent::Seen;
use cutover_core::intent::dependencies::{MOST, Presence, Reference, Selected, references};
use cutover_core::profile::{self, Profile, Site};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{ClusterResourceBinding, ResourceBinding, meta};

/// Looks for all that templates refer to at once, up to a limit. `templates`: the one that is there, and the one that comes along.
pub(in crate::reconcile) async fn named<'a>(
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
    let search = Search {
        cluster,
        namespace: Some(namespace),
        follows: follows(binding),
        target,
    };
    let looks = all.into_iter().enumerate().map(async |(index, reference)| {
        let presence = if index < MOST {
            search.presence(&reference).await
        } else {
            Presence::NotRead
        };
        (reference, presence)
    });
    join_all(looks).await
}

/// Looks for what a profile selects by labels: whether the target has all that the source has.
pub(in crate::reconcile) async fn selected(
    cluster: &Cluster,
    workload: &ObjectKey,
    profile: Option<&Profile>,
    binding: Option<&ResourceBinding>,
    source: Option<&ClusterName>,
    target: &ClusterName,
) -> Vec<Selected> {
    let Some(profile) = profile else {
        return Vec::new();
    };
    // Without a source nothing is asked: a name that no cluster has is refused.
    let source = source.cloned().unwrap_or_else(|| ClusterName::new(""));
    let in_source = profile.selected(Site::new(workload, source.as_str()));
    let in_target = profile.selected(Site::new(workload, target.as_str()));
    let search = Search {
        cluster,
        namespace: workload.namespace.as_deref(),
        follows: follows(binding),
        target,
    };
    let mut looks = Vec::new();
    for ((need, here), (_, there)) in in_source.into_iter().zip(in_target) {
        looks.push(search.selected(need, &source, here, there));
    }
    join_all(looks).await
}

/// Returns the cluster that a workload is to leave: the other one that its binding lists.
pub(in crate::reconcile) fn source<'b>(
    binding: &'b ResourceBinding,
    target: &ClusterName,
) -> Option<&'b ClusterName> {
    let mut listed = binding.spec.clusters.iter().map(|listed| &listed.name);
    listed.find(|name| *name != target)
}

/// The binding of a workload whose dependencies Karmada brings along.
fn follows(binding: Option<&ResourceBinding>) -> Option<&ResourceBinding> {
    binding.filter(|binding| binding.spec.propagate_deps)
}

type Selector = Result<String, profile::Error>;

/// What every look in the target needs.
struct Search<'a> {
    cluster: &'a Cluster,
    /// The workload's.
    namespace: Option<&'a str>,
    follows: Option<&'a ResourceBinding>,
    target: &'a ClusterName,
}

impl Search<'_> {
    async fn presence(&self, reference: &Reference) -> Presence {
        if !reference.is_name() {
            return Presence::Unknown("no object can have that name".to_owned());
        }
        let served = match self.served(&reference.gvk).await {
            Ok(Some(served)) => served,
            // What is not served there can't be there, nor come.
            Ok(None) => return Presence::Missing,
            Err(why) => return Presence::Unknown(why),
        };
        let namespace = self.namespace.filter(|_| served.namespaced);
        match self
            .cluster
            .member(self.target)
            .exists(&served, namespace, &reference.name)
            .await
            .answer
        {
            Answer::Found(()) => Presence::There,
            Answer::NotFound => self.brought(reference, namespace).await,
            Answer::Unknown { why } => Presence::Unknown(why),
        }
    }

    /// Returns how a kind is served. The control plane need not have the kinds of an operator in the members.
    async fn served(&self, gvk: &Gvk) -> Result<Option<Served>, String> {
        match self.cluster.lookup(gvk).await {
            Ok(Lookup::Served(served)) => return Ok(Some(served)),
            Ok(Lookup::NotServed) => {}
            Err(error) => return Err(error.to_string()),
        }
        let found = self.cluster.member(self.target).look_up_in_any_version(gvk).await;
        match found.answer {
            Answer::Found(served) => Ok(served),
            Answer::NotFound => Err("a list of kinds was answered with 404".to_owned()),
            Answer::Unknown { why } => Err(why),
        }
    }

    /// Returns whether Karmada brings what the target doesn't have. Its binding says whether Karmada has it, and where it goes; its content
    /// is not looked at.
    async fn brought(&self, reference: &Reference, namespace: Option<&str>) -> Presence {
        let kind = meta::scoped_kind("ResourceBinding", namespace.is_none());
        let kind = Gvk::new("work.karmada.io/v1alpha2", &kind);
        let name = meta::binding_name(&reference.name, &reference.gvk.kind);
        let read: Seen<Option<ResourceBinding>> = if namespace.is_some() {
            get(self.cluster, kind, namespace, &name).await
        } else {
            let read: Seen<Option<ClusterResourceBinding>> = get(self.cluster, kind, None, &name).await;
            map(&read, |binding| binding.clone().map(ResourceBinding::from))
        };
        match read.get() {
            Ok(Some(binding)) => {
                let mut listed = binding.spec.clusters.iter();
                let goes_there = listed.any(|listed| listed.name == *self.target);
                let mut required_by = binding.spec.required_by.iter();
                let name = self.follows.and_then(|of| of.metadata.name.as_ref());
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

    async fn selected(
        &self,
        need: &NeededObject,
        source: &ClusterName,
        here: Selector,
        there: Selector,
    ) -> Selected {
        let gvk = need.gvk();
        let selector = need.label_selector.clone().unwrap_or_default();
        Selected {
            selector: here.clone().unwrap_or(selector),
            source: source.clone(),
            otherwise: need.message.clone(),
            seen: self.compared(&gvk, source, here, there).await,
            gvk,
        }
    }

    async fn compared(
        &self,
        gvk: &Gvk,
        source: &ClusterName,
        here: Selector,
        there: Selector,
    ) -> Result<BTreeMap<String, Presence>, String> {
        let (here, there) = join(self.names(source, gvk, here), self.names(self.target, gvk, there)).await;
        let (here, there) = (here?, there?);
        let missing: Vec<Reference> = here
            .difference(&there)
            .map(|name| Reference {
                gvk: gvk.clone(),
                name: name.clone(),
            })
            .collect();
        let mut seen: BTreeMap<String, Presence> = here
            .intersection(&there)
            .map(|name| (name.clone(), Presence::There))
            .collect();
        let brought = missing.into_iter().enumerate().map(async |(index, reference)| {
            // Of very many it is enough to know that the target does not have them.
            let presence = if index < MOST {
                self.brought(&reference, self.namespace).await
            } else {
                Presence::Missing
            };
            (reference.name, presence)
        });
        seen.extend(join_all(brought).await);
        Ok(seen)
    }

    /// Returns the names of those that a cluster has, and keeps.
    async fn names(
        &self,
        cluster: &ClusterName,
        gvk: &Gvk,
        selector: Selector,
    ) -> Result<BTreeSet<String>, String> {
        let selector = selector.map_err(|error| error.to_string())?;
        let reader = self.cluster.member(cluster);
        let read = reader.list_in_any_version(gvk, self.namespace, &selector);
        let Ok(read) = timeout(ANSWERS_WITHIN, read).await else {
            return Err(no_answer(cluster));
        };
        match read.answer {
            Answer::Found(objects) => {
                let stay = objects
                    .iter()
                    .filter(|object| object.pointer("/metadata/deletionTimestamp").is_none());
                let names = stay.filter_map(|object| object["metadata"]["name"].as_str());
                Ok(names.map(str::to_owned).collect())
            }
            Answer::NotFound => Err("a list was answered with 404".to_owned()),
            Answer::Unknown { why } => Err(why),
        }
    }
}
