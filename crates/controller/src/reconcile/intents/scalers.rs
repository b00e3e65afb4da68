//! Reads what starts a workload by itself: autoscalers on the control plane and in members, Kueue in members.

use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::Value;
use tokio::time::Instant;

use super::ask::all;
use cutover_cluster::{Cluster, Lookup, Read, Reader};
use cutover_core::intent::Seen;
use cutover_core::intent::scalers::{Concerns, HPA, KUEUE, SCALED_OBJECT, Scaler, of_kueue};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// What the control plane may serve: to scale the template, or to be propagated.
const HERE: [(&str, &str); 4] = [
    HPA,
    SCALED_OBJECT,
    ("autoscaling.karmada.io/v1alpha1", "FederatedHPA"),
    ("autoscaling.karmada.io/v1alpha1", "CronFederatedHPA"),
];

/// How often it is looked anew while something is under way.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// What was seen last, and when.
#[derive(Debug, Default)]
pub(super) struct Known(Option<(Instant, Seen<Vec<Scaler>>)>);

impl Known {
    /// Returns what was seen, where that is not longer ago.
    pub(super) fn within(&self, limit: Duration) -> Option<Seen<Vec<Scaler>>> {
        let (at, seen) = self.0.as_ref()?;
        (at.elapsed() < limit).then(|| seen.clone())
    }

    /// Keeps what a look of now has shown; one that showed nothing is made again.
    pub(super) fn keep(&mut self, seen: &Seen<Vec<Scaler>>) {
        self.0 = seen.get().is_ok().then(|| (Instant::now(), seen.clone()));
    }
}

/// Reads all that is about a workload on the control plane, and in these members, of what concerns it.
pub(in crate::reconcile) async fn read<'a>(
    cluster: &Cluster,
    workload: &ObjectKey,
    concerns: Concerns,
    members: impl IntoIterator<Item = &'a ClusterName>,
) -> Seen<Vec<Scaler>> {
    let here = async {
        let mut found = Vec::new();
        for (api_version, kind) in HERE.into_iter().filter(|_| concerns.autoscalers) {
            match cluster.lookup(&Gvk::new(api_version, kind)).await {
                Ok(Lookup::NotServed) => {}
                Ok(Lookup::Served(served)) => {
                    let namespace = workload.namespace.as_deref();
                    let read = cluster.reader().list(&served, namespace, None).await;
                    found.extend(about(kind, workload, None, read)?);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(found)
    };
    let there = members
        .into_iter()
        .map(|name| in_member(cluster, workload, concerns, name));
    let (here, there) = join(here, join_all(there)).await;
    let found: Result<Vec<Vec<Scaler>>, String> = std::iter::once(here).chain(there).collect();
    let now = super::ask::instant(cluster);
    match found {
        Ok(found) => Seen::known(found.concat(), now),
        Err(why) => Seen::unknown(why),
    }
}

async fn in_member(
    cluster: &Cluster,
    workload: &ObjectKey,
    concerns: Concerns,
    name: &ClusterName,
) -> Result<Vec<Scaler>, String> {
    let reader = cluster.member(name);
    let mut found = Vec::new();
    if concerns.autoscalers {
        found.extend(autoscalers(&reader, workload, name).await?);
    }
    if concerns.kueue {
        found.extend(kueue(&reader, workload, name).await?);
    }
    Ok(found)
}

/// The queues that workloads of its namespace may get, and what Kueue manages there.
async fn kueue(reader: &Reader, workload: &ObjectKey, name: &ClusterName) -> Result<Vec<Scaler>, String> {
    let list = |kind| reader.list_of_group(KUEUE, kind, workload.namespace.as_deref());
    let (queues, managed) = join(list("LocalQueue"), list("Workload")).await;
    let (queues, managed) = (all(queues), all(managed));
    let unknown = |why: String| format!("whether Kueue would start the workload in {name}: {why}");
    let queues = queues.get().map_err(|why| unknown(why.0))?;
    let managed = managed.get().map_err(|why| unknown(why.0))?;
    Ok(of_kueue(workload, name, queues, managed))
}

async fn autoscalers(
    reader: &Reader,
    workload: &ObjectKey,
    name: &ClusterName,
) -> Result<Vec<Scaler>, String> {
    let namespace = workload.namespace.as_deref();
    let (hpas, scaled_objects) = join(reader.autoscalers(namespace), reader.scaled_objects(namespace)).await;
    let events = |why: String| format!("whether something scales the workload in {name}: {why}");
    let mut found = about(HPA.1, workload, Some(name), hpas).map_err(events)?;
    found.extend(about(SCALED_OBJECT.1, workload, Some(name), scaled_objects).map_err(events)?);
    Ok(found)
}

/// Returns those of a list that are about the workload.
fn about(
    kind: &str,
    workload: &ObjectKey,
    cluster: Option<&ClusterName>,
    read: Read<Vec<Value>>,
) -> Result<Vec<Scaler>, String> {
    let listed = all(read);
    let scalers = listed.get().map_err(|why| why.0)?.iter();
    Ok(scalers
        .filter_map(|scaler| Scaler::of(kind, scaler, workload, cluster))
        .collect())
}
