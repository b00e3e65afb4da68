//! Reads what starts a workload by itself: autoscalers on the control plane and in members, Kueue in members.

use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::ask::{all, optional};
use super::members::{ANSWERS_WITHIN, no_answer};
use super::served;
use cutover_cluster::{Cluster, Lookup, Read, Reader, Served};
use cutover_core::intent::Seen;
use cutover_core::intent::scalers::{Concerns, HPA, KUEUE, KUEUE_JOB_UID, SCALED_OBJECT, Scaler, of_kueue};
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

/// Reads all that is about a workload on the control plane, and in these members, of what concerns it. `gvk`: how its kind is asked for.
pub(in crate::reconcile) async fn read<'a>(
    cluster: &Cluster,
    (workload, gvk): (&ObjectKey, &Gvk),
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
        .map(|name| in_member(cluster, (workload, gvk), concerns, name));
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
    (workload, gvk): (&ObjectKey, &Gvk),
    concerns: Concerns,
    name: &ClusterName,
) -> Result<Vec<Scaler>, String> {
    let reader = cluster.member(name);
    let look = async {
        let mut found = Vec::new();
        if concerns.autoscalers {
            found.extend(autoscalers(&reader, workload, name).await?);
        }
        if concerns.kueue {
            let seen = kueue(cluster, &reader, (workload, gvk), name).await;
            found.extend(
                seen.map_err(|why| format!("whether Kueue would start the workload in {name}: {why}"))?,
            );
        }
        Ok::<_, String>(found)
    };
    timeout(ANSWERS_WITHIN, look)
        .await
        .unwrap_or_else(|_| Err(no_answer(name)))
}

/// The queues that workloads of its namespace may get, and what Kueue keeps of the copy there.
async fn kueue(
    cluster: &Cluster,
    reader: &Reader,
    (workload, gvk): (&ObjectKey, &Gvk),
    name: &ClusterName,
) -> Result<Vec<Scaler>, String> {
    let known = all(reader.look_up_all(KUEUE, &["LocalQueue", "Workload"]).await);
    let known = known.get().map_err(|why| why.0)?;
    let of = |kind: &str| known.iter().find(|served| served.gvk.kind == kind);
    let namespace = workload.namespace.as_deref();
    let queues = async {
        match of("LocalQueue") {
            Some(served) => listed(reader.list(served, namespace, None).await),
            None => Ok(Vec::new()),
        }
    };
    let managed = async {
        match of("Workload") {
            Some(served) => kept_of_copy(cluster, reader, (workload, gvk), served).await,
            None => Ok(Vec::new()),
        }
    };
    let (queues, managed) = join(queues, managed).await;
    Ok(of_kueue(workload, name, &queues?, &managed?))
}

/// What Kueue keeps of the copy: without one it keeps nothing of it.
async fn kept_of_copy(
    cluster: &Cluster,
    reader: &Reader,
    (workload, gvk): (&ObjectKey, &Gvk),
    workloads: &Served,
) -> Result<Vec<Value>, String> {
    let namespace = workload.namespace.as_deref();
    let of_copy = served(cluster, gvk).await.map_err(|error| error.to_string())?;
    let copy = optional(reader.get(&of_copy, namespace, &workload.name).await);
    let copy = copy.get().map_err(|why| why.0)?.as_ref();
    let Some(uid) = copy.and_then(|copy| copy.pointer("/metadata/uid")?.as_str()) else {
        return Ok(Vec::new());
    };
    let selector = format!("{KUEUE_JOB_UID}={uid}");
    listed(reader.list(workloads, namespace, Some(&selector)).await)
}

fn listed(read: Read<Vec<Value>>) -> Result<Vec<Value>, String> {
    let seen = all(read);
    seen.get().cloned().map_err(|why| why.0)
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
