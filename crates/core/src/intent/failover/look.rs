//! What the phases look things up with: the journal, the world as it was read, proofs about one member.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Interrupt, Operation};
use crate::api::{Finding, Flight};
use crate::intent::member::Member;
use crate::intent::pin;
use crate::intent::proof::{Facts, NotProved};
use crate::profile::Profile;
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, ResourceBinding};

impl<'a> Operation<'a> {
    /// Returns the workload and what stands around it.
    pub(super) fn around(&self) -> &'a crate::intent::Snapshot {
        &self.input.snapshot.around
    }

    pub(super) fn workload(&self) -> &'a ObjectKey {
        &self.around().workload
    }

    pub(super) fn flight(&self) -> Result<&Flight, Interrupt> {
        self.journal()?.flight.as_ref().ok_or(Interrupt::Requeue)
    }

    pub(super) fn flight_mut(&mut self) -> Result<&mut Flight, Interrupt> {
        self.journal_mut()?.flight.as_mut().ok_or(Interrupt::Requeue)
    }

    pub(super) fn profile(&self) -> Result<Profile, Interrupt> {
        Ok(Profile::compile("journal", &self.journal()?.profile)?)
    }

    pub(super) fn marker(&self) -> Result<String, Interrupt> {
        let journal = self.journal()?;
        Ok(pin::marker(self.input.uid, journal.round, journal.pin.seq))
    }

    /// Returns the binding that the journal names: the same object, still there.
    pub(super) fn binding(&self) -> Result<&'a ResourceBinding, Interrupt> {
        let journal = self.journal()?;
        match self.around().plane.binding.get()? {
            Some(binding) if binding.metadata.uid.as_deref() == Some(&journal.binding.uid) => Ok(binding),
            Some(_) => Err(Interrupt::Wait("the binding was deleted and recreated".to_owned())),
            None => Err(Interrupt::Wait(
                "the binding is gone: Karmada recreates it when the template is changed, if only by an annotation"
                    .to_owned(),
            )),
        }
    }

    /// Returns the clusters that the binding lists.
    pub(super) fn listed(&self) -> Result<Vec<ClusterName>, Interrupt> {
        let clusters = &self.binding()?.spec.clusters;
        Ok(clusters.iter().map(|cluster| cluster.name.clone()).collect())
    }

    /// Returns every cluster that may have, or get, a copy of the workload.
    pub(super) fn involved(&self) -> Result<BTreeSet<ClusterName>, Interrupt> {
        let spec = &self.binding()?.spec;
        let listed = spec.synced_clusters().into_iter().map(|cluster| cluster.name);
        let evicted = spec
            .graceful_eviction_tasks
            .iter()
            .map(|task| task.from_cluster.clone());
        let works = self.around().plane.works.get()?.keys().cloned();
        let old = self.status.old_copies.keys().cloned();
        let left = self.flight().map(|flight| flight.from.clone()).ok();
        Ok(listed
            .chain(evicted)
            .chain(works)
            .chain(old)
            .chain(left)
            .collect())
    }

    /// Runs a proof on what was read of one member.
    pub(super) fn prove<T>(
        &self,
        cluster: &ClusterName,
        marker: &str,
        proof: impl FnOnce(&Facts<'_>) -> Result<T, NotProved>,
    ) -> Result<Result<T, NotProved>, Interrupt> {
        let profile = self.profile()?;
        let facts = Facts {
            cluster,
            member: self.around().member(cluster)?,
            works: self.around().plane.works.get()?,
            marker,
            profile: &profile,
            nodes: self.journal()?.nodes.get(cluster),
            offered: None,
        };
        Ok(proof(&facts))
    }

    /// Returns the copy in a cluster; an error when nobody can see whether there is one.
    pub(super) fn copy(&self, cluster: &ClusterName) -> Result<Option<&'a Value>, Interrupt> {
        Ok(self.around().member(cluster)?.object.get()?.as_ref())
    }

    /// Returns what a cluster is known by: one that left and joined again under the same name is another one.
    pub(super) fn identity(&self, cluster: &ClusterName) -> Result<Option<String>, Interrupt> {
        let joined = self.around().plane.clusters.get()?;
        Ok(joined.get(cluster).map(identity))
    }

    /// Returns whether another cluster has joined under the name of one that is meant.
    pub(super) fn is_replaced(
        &self,
        cluster: &ClusterName,
        known: Option<&String>,
    ) -> Result<bool, Interrupt> {
        let now = self.identity(cluster)?;
        Ok(known.zip(now).is_some_and(|(known, now)| *known != now))
    }

    /// Pods that vanish from a lost node may still run: remembers where those of the run that goes on were seen, until their
    /// node says itself that none is left.
    pub(super) fn note_nodes(&mut self) {
        let profile = self.profile().ok();
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        for (cluster, member) in &self.input.snapshot.around.members {
            let Ok(pods) = member.pods.get() else { continue };
            let here: BTreeSet<String> = pods.iter().filter_map(|pod| pod.node.clone()).collect();
            let run = profile.as_ref().and_then(|profile| run_of(profile, member));
            let known = journal.nodes.remove(cluster).unwrap_or_default();
            let is_another = run.as_ref().is_some_and(|run| {
                let before = journal.runs.get(cluster);
                before.is_some_and(|before| before != run)
            });
            if let Some(run) = run {
                journal.runs.insert(cluster.clone(), run);
            }
            let ready = member.nodes.get().cloned().unwrap_or_default();
            let in_doubt = |node: &String| !is_another && ready.get(node) != Some(&true);
            let nodes: BTreeSet<String> = known.into_iter().filter(in_doubt).chain(here).collect();
            if !nodes.is_empty() {
                journal.nodes.insert(cluster.clone(), nodes);
            }
        }
    }

    /// Tells people of something, once.
    pub(super) fn tell(&mut self, mut finding: Finding) -> Result<(), Interrupt> {
        finding.message = self.without_secrets(finding.message);
        let known = &mut self.status.common.findings;
        if known
            .iter()
            .any(|known| known.code == finding.code && known.message == finding.message)
        {
            return Ok(());
        }
        known.push(finding);
        Err(Interrupt::Requeue)
    }

    pub(super) fn untell(&mut self, code: &str) {
        self.status.common.findings.retain(|finding| finding.code != code);
    }
}

/// Returns what tells a run of a copy that is well from the one before it, where the profile can tell.
fn run_of(profile: &Profile, member: &Member) -> Option<String> {
    let copy = member.object.get().ok()?.as_ref()?;
    let is_well = profile.observed(copy).ok()? && profile.healthy(copy).ok()?;
    let run = profile.run_id(copy).ok()??;
    is_well.then(|| format!("{}/{run}", uid(copy)))
}

/// The object of the control plane, and the member that it is for.
fn identity(cluster: &Cluster) -> String {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    format!("{uid}/{}", cluster.spec.id)
}

/// Returns the uid of an object.
pub(super) fn uid(object: &Value) -> String {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.unwrap_or_default().to_owned()
}
