//! Fresh reads, typed, as a machine sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::served;
use cutover_cluster::{Answer, Applied, Cluster, Mode, Read};
use cutover_core::api;
use cutover_core::error::Error;
use cutover_core::intent::{self, Seen};
use cutover_karmada::name::{ClusterName, Gvk};
use cutover_karmada::{Work, meta};

/// Returns what an object would become if sync applied this, or why it can't be applied.
pub(super) async fn rehearse(cluster: &Cluster, gvk: &Gvk, manifest: &Value) -> Result<Value, String> {
    let rehearsed = async {
        let served = served(cluster, gvk).await?;
        let writer = cluster.writer(api::SYNC_MANAGER);
        Ok::<_, Error>(writer.apply(&served, manifest, Mode::Rehearse).await?)
    };
    match rehearsed.await {
        Ok(Applied::Done(applied)) => Ok(applied),
        Ok(refused) => Err(reason(&refused)),
        Err(error) => Err(error.to_string()),
    }
}

/// Says why an apply was refused.
pub(super) fn reason(refused: &Applied) -> String {
    match refused {
        Applied::Done(_) => "it was not refused".to_owned(),
        Applied::Precondition(why) => why.clone(),
        Applied::Conflicts(conflicts) => {
            let fields: Vec<_> = conflicts
                .iter()
                .map(|conflict| format!("{} ({})", conflict.field, conflict.manager))
                .collect();
            format!("others own {}", fields.join(", "))
        }
    }
}

/// Returns every `apiVersion` under which the control plane serves a kind, or why that isn't known.
pub(super) async fn versions(cluster: &Cluster, gvk: &Gvk) -> Result<Arc<Vec<String>>, String> {
    let versions = cluster.discovery().versions(cluster, &gvk.group, &gvk.kind).await;
    versions.map_err(|error| error.to_string())
}

/// A read that took no time: what was put together here, after what it was put together from.
pub(in crate::reconcile) fn instant(cluster: &Cluster) -> intent::Read {
    let tick = cluster.tick();
    intent::Read {
        sent: tick,
        answered: tick,
    }
}

pub(in crate::reconcile) fn optional<T>(read: Read<T>) -> Seen<Option<T>> {
    let span = intent::Read {
        sent: read.sent,
        answered: read.answered,
    };
    match read.answer {
        Answer::Found(value) => Seen::known(Some(value), span),
        Answer::NotFound => Seen::known(None, span),
        Answer::Unknown { why } => Seen::unknown(why),
    }
}

pub(super) fn all<T>(read: Read<T>) -> Seen<T> {
    let span = intent::Read {
        sent: read.sent,
        answered: read.answered,
    };
    match read.answer {
        Answer::Found(value) => Seen::known(value, span),
        Answer::NotFound => Seen::unknown("a list was answered with 404"),
        Answer::Unknown { why } => Seen::unknown(why),
    }
}

/// Reads one object afresh.
pub(in crate::reconcile) async fn get<T: DeserializeOwned>(
    cluster: &Cluster,
    gvk: Gvk,
    namespace: Option<&str>,
    name: &str,
) -> Seen<Option<T>> {
    match served(cluster, &gvk).await {
        Ok(served) => optional(cluster.reader().get_as(&served, namespace, name).await),
        Err(error) => Seen::unknown(error.to_string()),
    }
}

/// Reads all objects of a kind afresh.
pub(in crate::reconcile) async fn list<T: DeserializeOwned>(
    cluster: &Cluster,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Seen<Vec<T>> {
    match served(cluster, &Gvk::new(api_version, kind)).await {
        Ok(served) => all(cluster.reader().list_as(&served, namespace, selector).await),
        Err(error) => Seen::unknown(error.to_string()),
    }
}

/// Returns Works by the cluster that they are for.
pub(super) fn by_cluster(works: &Seen<Vec<Work>>) -> Seen<BTreeMap<ClusterName, Work>> {
    map(works, |works| {
        let of = |work: &Work| {
            let namespace = work.metadata.namespace.as_deref()?;
            Some((ClusterName::new(meta::cluster_of(namespace)?), work.clone()))
        };
        works.iter().filter_map(of).collect()
    })
}

pub(in crate::reconcile) fn map<T, U>(seen: &Seen<T>, f: impl FnOnce(&T) -> U) -> Seen<U> {
    match seen {
        Seen::Known { value, read } => Seen::known(f(value), *read),
        Seen::Unknown { why } => Seen::unknown(why.clone()),
    }
}
