//! What stands around one workload in the control plane, read afresh, for kinds that pin it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, join3};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ask::{all, by_cluster, get, list, map, optional, rehearse, versions};
use super::{Parts, leases, served};
use cutover_core::api::{self, Claim, WorkloadProfile};
use cutover_core::intent::control_plane::{Named, Overrides};
use cutover_core::intent::member::Member;
use cutover_core::intent::{self, ControlPlane, Needs, Seen};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{self as karmada, ClusterResourceBinding, ResourceBinding, Work, meta};

/// A workload, and how it is asked for.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub parts: &'a Parts,
    pub workload: &'a ObjectKey,
    pub gvk: &'a Gvk,
}

/// Reads something, if that is wanted.
pub(super) async fn only<T>(wanted: bool, read: impl Future<Output = T>) -> Option<T> {
    if wanted { Some(read.await) } else { None }
}

fn put<T>(place: &mut T, read: Option<T>) {
    if let Some(read) = read {
        *place = read;
    }
}

impl Around<'_> {
    /// Reads what is needed of the control plane: all at once, but for what depends on an answer. Each round costs every pass of
    /// every intent.
    pub(super) fn plane<'a>(&'a self, needs: Needs, named: Named<'a>) -> BoxFuture<'a, ControlPlane> {
        // So many reads at once are a large future.
        Box::pin(self.parts_of_plane(needs, named))
    }

    async fn parts_of_plane(&self, needs: Needs, named: Named<'_>) -> ControlPlane {
        let when = |part| needs.intersects(part);
        let mut plane = ControlPlane::unread("it is not needed in this phase");
        // What takes two rounds is asked first.
        let (bound, template, claim, overrides, clusters, canary, leases, profiles) = tokio::join!(
            only(when(Needs::BINDING | Needs::WORKS), self.binding_and_works(named)),
            only(when(Needs::TEMPLATE), self.template()),
            only(when(Needs::CLAIM), self.claim()),
            only(when(Needs::OVERRIDES), self.overrides()),
            only(when(Needs::CLUSTERS), self.clusters()),
            only(when(Needs::CANARY), self.canary(named.canary)),
            only(when(Needs::LEASES), leases::leases(self.parts)),
            only(when(Needs::PROFILES), self.profiles()),
        );
        if let Some(overrides) = &overrides {
            plane.pin = map(overrides, |all| ControlPlane::pin_among(all, self.workload));
        }
        let (binding, works) = bound.unzip();
        put(&mut plane.template, template);
        put(&mut plane.binding, binding);
        put(&mut plane.works, works);
        put(&mut plane.claim, claim);
        put(&mut plane.overrides, overrides);
        put(&mut plane.clusters, clusters);
        put(&mut plane.canary, canary);
        put(&mut plane.leases, leases);
        put(&mut plane.profiles, profiles);
        plane
    }

    pub(super) async fn template(&self) -> Seen<Option<Value>> {
        let (namespace, name) = (self.workload.namespace.as_deref(), &self.workload.name);
        get(&self.parts.cluster, self.gvk.clone(), namespace, name).await
    }

    /// What the live template would become if that were applied in the name of sync.
    pub(super) async fn rehearsed(&self, manifest: &Value) -> Seen<Value> {
        match rehearse(&self.parts.cluster, self.gvk, manifest).await {
            Ok(applied) => Seen::known(applied, self.instant()),
            Err(why) => Seen::unknown(format!("the template that is wanted cannot be applied: {why}")),
        }
    }

    pub(super) async fn claim(&self) -> Seen<Option<Claim>> {
        let name = api::claim_name(self.workload);
        get(
            &self.parts.cluster,
            Gvk::new(api::API_VERSION, "Claim"),
            None,
            &name,
        )
        .await
    }

    pub(super) async fn clusters(&self) -> Seen<Arc<BTreeMap<ClusterName, karmada::Cluster>>> {
        let by_name = |clusters: Vec<karmada::Cluster>| {
            let named = clusters.into_iter().map(|cluster| {
                let name = cluster.metadata.name.clone().unwrap_or_default();
                (ClusterName::new(name), cluster)
            });
            named.collect::<BTreeMap<_, _>>()
        };
        let gvk = Gvk::new("cluster.karmada.io/v1alpha1", "Cluster");
        match served(&self.parts.cluster, &gvk).await {
            Ok(served) => {
                let reader = self.parts.cluster.reader();
                let read = reader.list_together(&served, None, by_name);
                all(read.await)
            }
            Err(error) => Seen::unknown(error.to_string()),
        }
    }

    /// To a workload of cluster scope Karmada applies no policy of a namespace.
    async fn overrides(&self) -> Seen<Overrides> {
        let of = "policy.karmada.io/v1alpha1";
        let namespace = self.workload.namespace.as_deref();
        let namespaced = async {
            match namespace {
                Some(_) => self.list_together(of, "OverridePolicy", namespace).await,
                None => Seen::known(Arc::default(), self.instant()),
            }
        };
        let cluster_wide = self.list_together(of, "ClusterOverridePolicy", None);
        let versions = versions(&self.parts.cluster, self.gvk);
        match join3(cluster_wide, namespaced, versions).await {
            (
                Seen::Known {
                    value: cluster_wide,
                    read: first,
                },
                Seen::Known {
                    value: namespaced,
                    read: second,
                },
                Ok(versions),
            ) => Seen::known(
                Overrides {
                    cluster_wide,
                    namespaced,
                    versions,
                },
                if namespace.is_some() { second } else { first },
            ),
            (Seen::Unknown { why }, _, _) | (_, Seen::Unknown { why }, _) | (_, _, Err(why)) => {
                Seen::unknown(why)
            }
        }
    }

    /// The Works are found by the binding's id; they are read after the binding.
    pub(super) async fn binding_and_works(
        &self,
        named: Named<'_>,
    ) -> (Seen<Option<ResourceBinding>>, Seen<BTreeMap<ClusterName, Work>>) {
        let binding = self.binding(&named.binding(self.workload)).await;
        let works = match ControlPlane::binding_id(&binding, self.workload, named) {
            Some(id) => self.works(&id).await,
            None => Seen::unknown("the binding's id is not known"),
        };
        (binding, works)
    }

    /// Returns the Works of a binding, by its id.
    pub(super) async fn works(&self, id: &str) -> Seen<BTreeMap<ClusterName, Work>> {
        let label = meta::binding_id_label(self.workload.namespace.is_none());
        let (selector, of) = (format!("{label}={id}"), "work.karmada.io/v1alpha1");
        by_cluster(&list(&self.parts.cluster, of, "Work", None, Some(&selector)).await)
    }

    pub(super) async fn binding(&self, name: &str) -> Seen<Option<ResourceBinding>> {
        let of = "work.karmada.io/v1alpha2";
        let cluster = &self.parts.cluster;
        match self.workload.namespace.as_deref() {
            Some(namespace) => get(cluster, Gvk::new(of, "ResourceBinding"), Some(namespace), name).await,
            None => {
                let kind = Gvk::new(of, "ClusterResourceBinding");
                let binding: Seen<Option<ClusterResourceBinding>> = get(cluster, kind, None, name).await;
                map(&binding, |binding| binding.clone().map(ResourceBinding::from))
            }
        }
    }

    pub(super) async fn canary(&self, name: Option<&str>) -> Seen<Option<ResourceBinding>> {
        match name {
            Some(name) => self.parts.canaries.look(self.parts, name).await,
            None => Seen::known(None, self.instant()),
        }
    }

    async fn profiles(&self) -> Seen<Vec<WorkloadProfile>> {
        list(
            &self.parts.cluster,
            api::API_VERSION,
            "WorkloadProfile",
            None,
            None,
        )
        .await
    }

    /// The copy in one member; nothing is asked about its pods.
    pub(super) async fn copy(&self, cluster: &ClusterName) -> Member {
        let (namespace, name) = (self.workload.namespace.as_deref(), &self.workload.name);
        let object = match served(&self.parts.cluster, self.gvk).await {
            Ok(served) => {
                let reader = self.parts.cluster.member(cluster);
                optional(reader.get(&served, namespace, name).await)
            }
            Err(error) => Seen::unknown(error.to_string()),
        };
        Member {
            object,
            pods: Seen::unknown("not read"),
            nodes: Seen::unknown("not read"),
            ended: BTreeSet::new(),
            unchanged: std::time::Duration::ZERO,
            silent: false,
        }
    }

    /// What every intent asks for is asked for once.
    async fn list_together<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Seen<Arc<Vec<T>>> {
        match served(&self.parts.cluster, &Gvk::new(api_version, kind)).await {
            Ok(served) => {
                let reader = self.parts.cluster.reader();
                all(reader.list_together(&served, namespace, |all| all).await)
            }
            Err(error) => Seen::unknown(error.to_string()),
        }
    }

    /// A read that took no time: what was put together here, after what it was put together from.
    pub(super) fn instant(&self) -> intent::Read {
        super::ask::instant(&self.parts.cluster)
    }
}
