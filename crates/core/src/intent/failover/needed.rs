//! What a cluster must have before the copy runs there, by the labels that a profile selects. It is looked for while nothing fails: a
//! failover waits for none of it, so people are told in time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Operation, Phase};
use crate::api::{FailoverPlanStatus, Finding, quoted};
use crate::intent::dependencies::{Selected, is_of_failover, is_of_failover_to};
use crate::intent::placement::fits;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, ClusterAffinity, Placement, ResourceBindingSpec};

/// What each cluster that a workload may fail over to has of the objects that its profile selects by labels.
pub type Needed = BTreeMap<ClusterName, Vec<Selected>>;

/// Returns the cluster that the workload is in, and those that it may fail over to: there it is looked for what the profile selects by
/// labels. `None`: nothing is selected, or something happens to the workload right now.
pub fn wants_needed<'s>(
    status: &'s FailoverPlanStatus,
    around: &crate::intent::Snapshot,
) -> Option<(&'s ClusterName, BTreeSet<ClusterName>)> {
    let journal = status.journal.as_ref()?;
    let writer = journal.writer.as_ref()?;
    if status.phase != Phase::Guarding || journal.profile.selected().next().is_none() {
        return None;
    }
    let binding = &around.plane.binding.get().ok()?.as_ref()?.spec;
    let listed = binding.clusters.iter().map(|listed| &listed.name);
    let stays = listed.eq([writer]) && binding.graceful_eviction_tasks.is_empty();
    // What a cluster has that shows nothing can't be compared: what was seen before is still the best that is known.
    let is_seen = matches!(around.member(writer).ok()?.object.get(), Ok(Some(_)));
    let clusters = around.plane.clusters.get().ok()?;
    (stays && is_seen).then(|| (writer, others(binding, writer, clusters)))
}

/// Returns the clusters that the scheduler may choose instead.
fn others(
    binding: &ResourceBindingSpec,
    writer: &ClusterName,
    clusters: &BTreeMap<ClusterName, Cluster>,
) -> BTreeSet<ClusterName> {
    let everywhere = Placement::default();
    let placement = binding.placement.as_ref().unwrap_or(&everywhere);
    let mut affinities: Vec<Option<&ClusterAffinity>> = Vec::new();
    affinities.extend(
        placement
            .cluster_affinities
            .iter()
            .map(|term| Some(&term.affinity)),
    );
    if affinities.is_empty() {
        affinities.push(placement.cluster_affinity.as_ref());
    }
    let takes = |name: &ClusterName, cluster: &Cluster| {
        let mut affinities = affinities.iter();
        affinities.any(|affinity| fits(binding, placement, *affinity, name, cluster))
    };
    let others = clusters
        .iter()
        .filter(|&(name, cluster)| name != writer && takes(name, cluster));
    others.map(|(name, _)| name.clone()).collect()
}

impl Operation<'_> {
    /// Says what each cluster that the workload may fail over to lacks, and where that can't be seen. Nothing waits for it.
    pub(super) fn warn_of_missing(&mut self) {
        let Some(needed) = &self.input.snapshot.needed else {
            return;
        };
        let all: Vec<(&ClusterName, &Selected)> = needed
            .iter()
            .flat_map(|(cluster, selected)| selected.iter().map(move |one| (cluster, one)))
            .collect();
        let mut news: Vec<Finding> = Vec::new();
        for (cluster, one) in &all {
            for finding in one.before_failover(cluster) {
                let message = self.without_secrets(finding.message.clone());
                news.push(Finding { message, ..finding });
            }
        }
        let stays = |known: &Finding| {
            !is_of_failover(known)
                || news.iter().any(|new| new.message == known.message)
                || all
                    .iter()
                    .any(|(cluster, one)| one.may_still_lack(cluster, known))
        };
        let findings = &mut self.status.common.findings;
        findings.retain(stays);
        news.retain(|new| findings.iter().all(|known| known.message != new.message));
        findings.append(&mut news);
    }

    /// Drops the findings from before a failover, but for what the clusters lack: who lets a copy run there has to know.
    pub(super) fn keep_only_missing(&mut self) {
        self.status.common.findings.retain(is_of_failover);
    }

    /// Returns what a question adds that lets a copy run in a cluster: what was last seen to be missing there.
    pub(super) fn lacks(&self, cluster: &ClusterName) -> String {
        let findings = self.status.common.findings.iter();
        let told: Vec<&str> = findings
            .filter(|finding| is_of_failover_to(finding, cluster))
            .map(|finding| finding.message.as_str())
            .collect();
        if told.is_empty() {
            return String::new();
        }
        // What a profile says stands in it.
        format!(" Seen before the failover: {}", quoted(&told.join("; ")))
    }
}
