//! Reads what checks are about beside the copy of the workload: objects of the same namespace in the same cluster.

use std::collections::BTreeSet;

use futures::future::join_all;

use super::ask::optional;
use super::served;
use cutover_cluster::Cluster;
use cutover_core::api::{Check, WorkloadRef};
use cutover_core::intent::Seen;
use cutover_core::intent::check::{Others, other};
use cutover_karmada::name::ClusterName;

/// Reads all that checks ask for in some clusters, at once.
pub(super) async fn read<'a>(
    cluster: &Cluster,
    namespace: Option<&str>,
    members: impl IntoIterator<Item = &'a ClusterName>,
    checks: &[Check],
) -> Others {
    let asked: Vec<&WorkloadRef> = checks.iter().filter_map(|check| check.of.as_ref()).collect();
    let pairs: BTreeSet<_> = members
        .into_iter()
        .flat_map(|member| asked.iter().map(move |of| other(member, of)))
        .collect();
    let reads = pairs.into_iter().map(async |key| {
        let (member, gvk, name) = &key;
        let object = match served(cluster, gvk).await {
            Ok(served) => optional(cluster.member(member).get(&served, namespace, name).await),
            Err(error) => Seen::unknown(error.to_string()),
        };
        (key, object)
    });
    join_all(reads).await.into_iter().collect()
}
