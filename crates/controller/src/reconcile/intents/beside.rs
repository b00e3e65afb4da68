//! Reads what may show a newer state of a copy than the copy itself: objects that a profile's `lastKnown` names.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::Parts;
use super::ask::all;
use super::members::{ANSWERS_WITHIN, no_answer};
use cutover_core::api::WorkloadProfileSpec;
use cutover_core::intent::Seen;
use cutover_core::intent::failover::Beside;
use cutover_core::profile::{Profile, Site};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// How often it is looked again. A plan looks at the copy far more often, but savepoints are minutes apart.
const AGAIN: Duration = Duration::from_mins(1);

/// What was seen last, in which cluster and when.
#[derive(Debug, Default)]
pub(super) struct Known(Option<(Instant, ClusterName, Beside)>);

impl Known {
    /// Returns what there is beside a copy: what was seen not long ago, or what a look of now shows. One that showed nothing is made
    /// again the next time.
    pub(super) async fn look(
        &mut self,
        parts: &Parts,
        profile: &WorkloadProfileSpec,
        workload: &ObjectKey,
        cluster: &ClusterName,
    ) -> Beside {
        if let Some((at, known, beside)) = &self.0
            && known == cluster
            && at.elapsed() < AGAIN
        {
            return beside.clone();
        }
        let beside = read(parts, profile, workload, cluster).await;
        let is_known = beside.values().all(|objects| objects.get().is_ok());
        self.0 = is_known.then(|| (Instant::now(), cluster.clone(), beside.clone()));
        beside
    }
}

async fn read(
    parts: &Parts,
    profile: &WorkloadProfileSpec,
    workload: &ObjectKey,
    cluster: &ClusterName,
) -> Beside {
    // Most profiles name none.
    if profile.last_known.iter().all(|rule| rule.from.is_none()) {
        return Beside::new();
    }
    let Ok(profile) = Profile::compile("in force", profile) else {
        return Beside::new();
    };
    let (reader, namespace) = (parts.cluster.member(cluster), workload.namespace.as_deref());
    let rules = profile.beside(Site::new(workload, cluster.as_str()));
    let reads = rules.into_iter().map(|(rule, gvk, selector)| {
        let reader = &reader;
        async move {
            let selector = match selector {
                Ok(selector) => selector,
                Err(error) => return (rule, Seen::unknown(error.to_string())),
            };
            let read = reader.list_where_served(&gvk, namespace, &selector);
            let read = timeout(ANSWERS_WITHIN, read).await;
            (rule, read.map_or_else(|_| Seen::unknown(no_answer(cluster)), all))
        }
    });
    join_all(reads).await.into_iter().collect()
}
