//! The namespaces that objects need and that no file defines: created when a sync says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::placed::Placed;
use cutover_cluster::{self as cluster, Cluster, KindState, Observer};
use cutover_core::manifest::Entry;
use cutover_karmada::name::ObjectKey;

pub(super) const KIND: &str = "Namespace";

/// Returns the namespaces of objects that neither Git nor the API server has. One that isn't known to be missing isn't.
pub(super) fn missing<'a>(
    objects: impl IntoIterator<Item = &'a Arc<Entry>>,
    placed: &Placed,
    observer: &Observer,
) -> BTreeSet<String> {
    if !matches!(observer.state("", KIND), Some(KindState::Synced { .. })) {
        return BTreeSet::new();
    }
    let needed: BTreeSet<&String> = objects
        .into_iter()
        .filter_map(|entry| entry.key.namespace.as_ref())
        .collect();
    needed
        .into_iter()
        .filter(|name| {
            let key = key(name);
            !placed.may_want(&key) && !observer.contains(&key)
        })
        .cloned()
        .collect()
}

/// Creates namespaces; returns those that could not be, and why.
pub(super) async fn create(
    cluster: &Cluster,
    observer: &Observer,
    names: BTreeSet<String>,
) -> BTreeMap<String, cluster::Error> {
    let mut failed = BTreeMap::new();
    for name in names {
        match cluster::create_namespace(cluster, observer, &name).await {
            Ok(()) => tracing::info!(namespace = name, "created a namespace that objects need"),
            Err(error) => {
                failed.insert(name, error);
            }
        }
    }
    failed
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: KIND.to_owned(),
        namespace: None,
        name: name.to_owned(),
    }
}
