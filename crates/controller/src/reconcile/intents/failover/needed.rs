//! Looks, seldom, whether the clusters that a guarded workload may fail over to have what its profile selects by labels.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::super::{Parts, dependencies};
use cutover_core::api::FailoverPlanStatus;
use cutover_core::intent::Snapshot;
use cutover_core::intent::failover::{self, Needed};
use cutover_core::profile::Profile;
use cutover_karmada::name::ClusterName;

/// How often it is looked again: it takes two lists for each of the clusters, and nothing is decided by it.
const AGAIN: Duration = Duration::from_mins(5);

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Known(Option<Comparison>);

#[derive(Debug)]
struct Comparison {
    at: Instant,
    writer: ClusterName,
    others: BTreeSet<ClusterName>,
    seen: Needed,
}

impl Known {
    /// Returns what was seen not long ago, or what a look of now shows; `None` where nothing is to be looked for.
    pub(super) async fn look(
        &mut self,
        parts: &Parts,
        status: &FailoverPlanStatus,
        around: &Snapshot,
    ) -> Option<Needed> {
        let (writer, others) = failover::wants_needed(status, around)?;
        if let Some(seen) = self.recent(writer, &others) {
            return Some(seen.clone());
        }
        let profile = Profile::compile("in force", &status.journal.as_ref()?.profile).ok()?;
        let binding = around.plane.binding.get().ok()?.as_ref();
        let (cluster, workload, profile) = (&parts.cluster, &around.workload, Some(&profile));
        let looks = others.clone().into_iter().map(|other| async move {
            let seen =
                dependencies::selected(cluster, workload, profile, binding, Some(writer), &other).await;
            (other, seen)
        });
        let seen: Needed = join_all(looks).await.into_iter().collect();
        self.0 = Some(Comparison {
            at: Instant::now(),
            writer: writer.clone(),
            others,
            seen: seen.clone(),
        });
        Some(seen)
    }

    fn recent(&self, writer: &ClusterName, others: &BTreeSet<ClusterName>) -> Option<&Needed> {
        let last = self.0.as_ref()?;
        let is_same = last.writer == *writer && last.others == *others;
        (is_same && last.at.elapsed() < AGAIN).then_some(&last.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_look_counts_for_a_while_and_for_the_same_clusters_alone() {
        let [east, west, north] = ["east", "west", "north"].map(ClusterName::from);
        let others = BTreeSet::from([west.clone()]);
        let known = Known(Some(Comparison {
            at: Instant::now(),
            writer: east.clone(),
            others: others.clone(),
            seen: Needed::new(),
        }));
        assert!(known.recent(&east, &others).is_some());
        assert!(known.recent(&north, &others).is_none());
        assert!(known.recent(&east, &BTreeSet::from([west, north])).is_none());
        tokio::time::advance(AGAIN).await;
        assert!(known.recent(&east, &others).is_none());
    }
}
