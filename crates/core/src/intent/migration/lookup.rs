//! What the phases look things up with: the journal, the world as it was read, proofs about one member.

use std::collections::{BTreeMap, BTreeSet};

use super::{Interrupt, Operation};
use crate::api::{InGit, MigrationStatus, WorkloadProfileSpec};
use crate::intent::effect::Effect;
use crate::intent::pin;
use crate::intent::proof::{Facts, NotProved, Suspended};
use crate::intent::record::Record;
use crate::profile::Profile;
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// A run that has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// It has done its work.
    pub well: bool,
}

impl<'a> Operation<'a> {
    pub(super) fn workload(&self) -> &'a ObjectKey {
        &self.snapshot().workload
    }

    pub(super) fn profile(&self) -> Result<Profile, Interrupt> {
        let spec: &WorkloadProfileSpec = &self.journal()?.profile;
        Ok(Profile::compile("journal", spec)?)
    }

    pub(super) fn marker(&self) -> Result<String, Interrupt> {
        Ok(pin::marker(
            self.input.uid,
            self.status.common.attempt,
            self.journal()?.pin.seq,
        ))
    }

    /// Returns the binding that the journal names: the same object, still there.
    pub(super) fn binding(&self) -> Result<&'a ResourceBinding, Interrupt> {
        let journal = self.journal()?;
        match self.snapshot().plane.binding.get()? {
            Some(binding) if binding.metadata.uid.as_deref() == Some(&journal.binding.uid) => Ok(binding),
            Some(_) => Err(Interrupt::Wait(
                "the binding that Karmada has recreated to be taken over".to_owned(),
            )),
            None => Err(Interrupt::Wait(
                "Karmada to recreate the binding, which was deleted".to_owned(),
            )),
        }
    }

    /// Returns the uid of the copy in a cluster, if there is one.
    pub(super) fn uid_in(&self, cluster: &ClusterName) -> Result<Option<String>, Interrupt> {
        let object = self.snapshot().member(cluster)?.object.get()?.as_ref();
        let uid = object.and_then(|object| object.pointer("/metadata/uid")?.as_str());
        Ok(uid.map(str::to_owned))
    }

    /// Returns whether the source's copy is the one that the migration began with, and stays.
    pub(super) fn source_is_intact(&self) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        let object = self.snapshot().member(&journal.source)?.object.get()?.as_ref();
        let stays = object.is_some_and(|object| object.pointer("/metadata/deletionTimestamp").is_none());
        // A journal of an earlier release doesn't know.
        let is_same = journal.source_uid.is_none() || self.uid_in(&journal.source)? == journal.source_uid;
        Ok(stays && is_same && !self.is_replaced(&journal.source)?)
    }

    /// Returns every cluster that may have, or get, a copy of the workload.
    pub(super) fn involved(&self) -> Result<BTreeSet<ClusterName>, Interrupt> {
        let binding = self.binding()?;
        let listed = binding
            .spec
            .synced_clusters()
            .into_iter()
            .map(|cluster| cluster.name);
        let evicted = binding
            .spec
            .graceful_eviction_tasks
            .iter()
            .map(|task| task.from_cluster.clone());
        let works = self.snapshot().plane.works.get()?.keys().cloned();
        // A copy that Karmada has let go has neither, and runs on.
        let journal = self.journal()?;
        let mut left = Vec::new();
        for name in journal
            .identities
            .keys()
            .chain([&journal.source, &journal.target])
        {
            let copy = self
                .snapshot()
                .member(name)
                .and_then(|member| member.object.get());
            let counts = match copy {
                Ok(Some(copy)) => !self.is_foreign(name, copy)?,
                Ok(None) => false,
                Err(_) => journal.clusters.contains(name),
            };
            left.extend(counts.then_some(name));
        }
        Ok(listed
            .chain(evicted)
            .chain(works)
            .chain(left.into_iter().cloned())
            .collect())
    }

    /// Returns how a run to completion has ended in a cluster, if it has. Which pin its copy carries doesn't matter: what has ended
    /// stays so.
    pub(super) fn ended_in(&self, cluster: &ClusterName) -> Result<Option<Ended>, Interrupt> {
        let Some(copy) = self.snapshot().member(cluster)?.object.get()?.as_ref() else {
            return Ok(None);
        };
        let profile = self.profile()?;
        if !profile.observed(copy)? || !profile.finished(copy)? {
            return Ok(None);
        }
        let well = !profile.failed(copy)?;
        Ok(Some(Ended { well }))
    }

    /// Runs a proof on what was read of one member.
    pub(super) fn prove<T>(
        &self,
        cluster: &ClusterName,
        proof: impl FnOnce(&Facts<'_>) -> Result<T, NotProved>,
    ) -> Result<Result<T, NotProved>, Interrupt> {
        let profile = self.profile()?;
        let marker = self.marker()?;
        let facts = Facts {
            cluster,
            member: self.snapshot().member(cluster)?,
            works: self.snapshot().plane.works.get()?,
            marker: &marker,
            profile: &profile,
            nodes: self.journal()?.nodes.get(cluster),
            offered: self.journal()?.offered.get(cluster),
        };
        Ok(proof(&facts))
    }

    /// Waits until Git has the state of this attempt: what a rebuilt control plane would start from.
    pub(super) fn recorded(
        &self,
        status: impl FnOnce() -> MigrationStatus,
        there: impl FnOnce(&Record) -> bool,
    ) -> Result<(), Interrupt> {
        if self.own_record()?.is_some_and(there) {
            return Ok(());
        }
        let spec = self.journal()?.spec.as_ref().clone();
        let record = Record::new(self.input.uid, spec, status());
        Err(Interrupt::Act(vec![Effect::PushRecord(Box::new(record))]))
    }

    /// Returns what Git has of this attempt of this intent.
    fn own_record(&self) -> Result<Option<&Record>, Interrupt> {
        let record = self.snapshot().record.get()?.as_ref();
        let is_own = |record: &&Record| {
            record.uid.as_deref() == Some(self.input.uid)
                && record.status.common.attempt == self.status.common.attempt
        };
        Ok(record.filter(is_own))
    }

    /// Git has the handle that goes with the token.
    pub(super) fn handle_recorded(&self) -> Result<(), Interrupt> {
        let captured = self.journal()?.captured.as_ref().map(|captured| &captured.values);
        self.recorded(|| self.status.clone(), |record| handle_of(record) == captured)
    }

    /// Returns the handle that Git has of this attempt.
    pub(super) fn recorded_handle(&self) -> Result<Option<&BTreeMap<String, String>>, Interrupt> {
        Ok(self.own_record()?.and_then(handle_of))
    }

    /// Git is seen to have the handle, or gets it. It is looked up from the next look on, and not before: a Git host may be slow.
    pub(super) fn handle_in_git(&mut self) -> Result<(), Interrupt> {
        let in_git = match self.journal()?.in_git {
            _ if self.journal()?.captured.is_none() => return Ok(()),
            InGit::Handle => return Ok(()),
            InGit::Asked => {
                self.handle_recorded()?;
                InGit::Handle
            }
            InGit::Nothing | InGit::Opening => InGit::Asked,
        };
        self.journal_mut()?.in_git = in_git;
        Err(Interrupt::Requeue)
    }

    /// With a copy goes the handle that it has left.
    pub(super) fn left_is_in_git(&mut self, cluster: &ClusterName) -> Result<(), Interrupt> {
        let captured = self.journal()?.captured.as_ref();
        if captured.is_some_and(|captured| captured.from == *cluster) {
            self.handle_in_git()?;
        }
        Ok(())
    }

    /// A cluster's stopped copy shows the handle that the journal has, and keeps it for as long as it isn't let run.
    /// `marker`: of the pin in force.
    pub(super) fn copy_has_handle(
        &self,
        cluster: &ClusterName,
        marker: &str,
    ) -> Result<Result<(), NotProved>, Interrupt> {
        let journal = self.journal()?;
        if !journal.handle_stays() {
            return Ok(Err(NotProved::Unknown(format!(
                "{cluster} doesn't keep its handle"
            ))));
        }
        let suspended = match self.prove(cluster, |facts| Suspended::prove(&Facts { marker, ..*facts }))? {
            Ok(suspended) => suspended,
            Err(why) => return Ok(Err(NotProved::Unknown(why.to_string()))),
        };
        Ok(
            match suspended.capture(&self.profile()?, &BTreeMap::new(), self.input.now) {
                Ok(left) if self.captured()? == Some(&left.values) => Ok(()),
                Ok(_) => Err(NotProved::No(format!("{cluster} shows another one"))),
                Err(why) => Err(NotProved::Unknown(why.to_string())),
            },
        )
    }

    /// The variables of profile patches: the handle that goes with the token.
    pub(super) fn captured(&self) -> Result<Option<&BTreeMap<String, String>>, Interrupt> {
        Ok(self.journal()?.captured.as_ref().map(|captured| &captured.values))
    }
}

fn handle_of(record: &Record) -> Option<&BTreeMap<String, String>> {
    let captured = record.status.journal.as_ref()?.captured.as_ref();
    captured.map(|captured| &captured.values)
}
