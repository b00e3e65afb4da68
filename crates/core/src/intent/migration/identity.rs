//! Which clusters a migration is about: one that left and joined again under the same name may be another one.

use std::collections::BTreeMap;

use super::{Interrupt, Operation, go_back};
use crate::api::Fact;
use cutover_karmada::Cluster;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Returns what the clusters are known by, for the journal.
    pub(super) fn identities<'c>(
        &self,
        clusters: impl IntoIterator<Item = &'c ClusterName>,
    ) -> Result<BTreeMap<ClusterName, String>, Interrupt> {
        let joined = self.snapshot().plane.clusters.get()?;
        let known = |name: &'c ClusterName| Some((name.clone(), identity(joined.get(name)?)));
        Ok(clusters.into_iter().filter_map(known).collect())
    }

    /// Returns whether another cluster has joined under the name of one that the journal knows.
    pub(super) fn is_replaced(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let joined = self.snapshot().plane.clusters.get()?.get(cluster).map(identity);
        let known = self.journal()?.identities.get(cluster);
        Ok(known.zip(joined).is_some_and(|(known, joined)| *known != joined))
    }

    /// Returns why what is seen in a cluster now says nothing about a copy that may still run, in one that nobody sees.
    pub(super) fn left_behind(&self, cluster: &ClusterName) -> Result<Option<String>, Interrupt> {
        if !self.is_replaced(cluster)? {
            return Ok(None);
        }
        let journal = self.journal()?;
        let may_run = if *cluster == journal.source {
            // Stopped, as it was proved to be before the hand-over, it stays so, unless it was seen to run since.
            journal.source_handle.is_empty() || self.has_run_again(cluster)
        } else {
            let back = journal.roll_back.as_ref();
            journal.target_ran
                || journal.writer.as_ref() == Some(cluster)
                || back.is_some_and(|back| back.handed_over)
        };
        Ok(may_run.then(|| {
            format!(
                "another cluster has joined as {cluster}: the copy in the old cluster may still run; if you know that it does not, \
                 confirm it ({})",
                self.offer(Fact::Stopped, cluster)
            )
        }))
    }

    /// A target that runs the workload and is another cluster than before: nobody knows what the one of before does.
    pub(super) fn target_is_the_same(&self, target: &ClusterName) -> Result<(), Interrupt> {
        match self.left_behind(target)? {
            Some(why) => Err(go_back(why)),
            None => Ok(()),
        }
    }
}

/// The object of the control plane, and the member that it is for.
fn identity(cluster: &Cluster) -> String {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    format!("{uid}/{}", cluster.spec.id)
}
