//! Old copies: kept until a person lets them go, or in clusters that nobody sees. One that comes back is held or removed
//! before anything else, however long that was ago.

use serde_json::json;

use super::fencing::lapse;
use super::{Interrupt, Operation, PATIENCE, question};
use crate::api::{FailoverGate, MARKER_ANNOTATION, OldCopy};
use crate::intent::effect::{add, patch_binding, test};
use crate::intent::fence;
use crate::intent::proof::{Gone, NotProved};
use cutover_karmada::meta;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// A word holds until something is seen that speaks against it; that the cluster answers again is nothing of the kind.
    pub(super) fn note_refuted(&mut self) {
        let Ok(marker) = self.marker() else { return };
        let vouched = self
            .status
            .old_copies
            .iter()
            .filter(|(_, old)| old.fenced.is_some());
        let refuted: Vec<(ClusterName, u32)> = vouched
            .filter(|(cluster, _)| matches!(self.seen_harmless(cluster, &marker), Ok(Err(NotProved::No(_)))))
            .map(|(cluster, _)| (cluster.clone(), self.answers(FailoverGate::Fenced, cluster)))
            .collect();
        for (cluster, answers) in refuted {
            if let Some(old) = self.status.old_copies.get_mut(&cluster) {
                (old.fenced, old.refuted) = (None, answers);
            }
        }
    }

    /// In every pass of the guard: what is gone is forgotten, what may go is let go, what came back is held or removed.
    pub(super) fn look_after_old_copies(&mut self) -> Result<(), Interrupt> {
        let all: Vec<(ClusterName, OldCopy)> = self.status.old_copies.clone().into_iter().collect();
        for (cluster, old) in all {
            let marker = self.marker()?;
            if self.is_replaced(&cluster, old.identity.as_ref())? {
                if self.is_vouched_for(&cluster, &old) {
                    self.status.old_copies.remove(&cluster);
                    return Err(Interrupt::Requeue);
                }
                continue;
            }
            if self.prove(&cluster, &marker, Gone::prove)?.is_ok() && !self.is_evicting(&cluster)? {
                self.status.old_copies.remove(&cluster);
                return Err(Interrupt::Requeue);
            }
            if let Some(writer) = self.journal()?.writer.clone()
                && self.runs_beside(&cluster)?
            {
                self.tell(lapse(&cluster, &writer))?;
            }
            if old.kept {
                self.purge(&cluster, &old)?;
            } else {
                self.fetch(&cluster, &old)?;
            }
        }
        Ok(())
    }

    /// What another cluster of that name has says nothing of the copy: only a person's word lets it be forgotten.
    fn is_vouched_for(&mut self, cluster: &ClusterName, old: &OldCopy) -> bool {
        let is = old.fenced.is_some() || self.approved(FailoverGate::Fenced, cluster).is_some();
        if !is {
            self.ask(FailoverGate::Fenced, cluster);
        }
        is
    }

    fn is_evicting(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let tasks = &self.binding()?.spec.graceful_eviction_tasks;
        Ok(tasks.iter().any(|task| task.from_cluster == *cluster))
    }

    /// A copy that the purge mode keeps goes when a person says so: then Karmada deletes it.
    fn purge(&mut self, cluster: &ClusterName, old: &OldCopy) -> Result<(), Interrupt> {
        if !self.input.spec.purge.confirm || !self.is_evicting(cluster)? {
            return Ok(());
        }
        let Some(by) = self.approved(FailoverGate::Purge, cluster) else {
            self.ask(FailoverGate::Purge, cluster);
            return Ok(());
        };
        if old.purged_by.is_none() {
            if let Some(old) = self.status.old_copies.get_mut(cluster) {
                old.purged_by = Some(by.clone());
            }
            for done in self
                .status
                .history
                .iter_mut()
                .filter(|done| done.attempt == old.attempt)
            {
                done.evidence
                    .push(format!("{cluster}: {by} lets the old copy be deleted"));
            }
            return Err(Interrupt::Requeue);
        }
        let binding = self.binding()?;
        let tasks = &binding.spec.graceful_eviction_tasks;
        let found = tasks
            .iter()
            .enumerate()
            .find(|(_, task)| task.from_cluster == *cluster);
        let Some((index, task)) = found.filter(|(_, task)| task.suppress_deletion != Some(false)) else {
            return Ok(());
        };
        let at = format!("/spec/gracefulEvictionTasks/{index}");
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test(&format!("{at}/fromCluster"), json!(task.from_cluster)),
            add(&format!("{at}/suppressDeletion"), json!(false)),
        ];
        Err(Interrupt::Act(vec![patch_binding(
            "let the old copy be purged",
            binding,
            patch,
        )]))
    }

    /// A copy that Karmada has forgotten (no Work of it is left) is listed again, held, so that it can be removed. The guard
    /// holds it as it holds every cluster but the writer's.
    fn fetch(&mut self, cluster: &ClusterName, old: &OldCopy) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let Some(writer) = self.journal()?.writer.clone() else {
            return Ok(());
        };
        let both = [writer.clone(), cluster.clone()];
        if let Some(since) = old.fetching_since {
            if self.carries_the_hold(cluster)? || self.input.now.duration_since(since) >= PATIENCE * 2 {
                if self.listed()? == both {
                    return Err(self.list(std::slice::from_ref(&writer), "remove the copy that came back")?);
                }
                if let Some(old) = self.status.old_copies.get_mut(cluster) {
                    old.fetching_since = None;
                }
                return Err(Interrupt::Requeue);
            }
            if self.listed()? == [writer] {
                return Err(self.list(&both, "list a copy again that came back, held")?);
            }
            return Err(Interrupt::Wait(format!(
                "{cluster}: the copy that came back to carry the hold"
            )));
        }
        if self.around().plane.works.get()?.contains_key(cluster) {
            return Ok(());
        }
        let Ok(Some(copy)) = self.copy(cluster) else {
            return Ok(());
        };
        let labels = copy.pointer("/metadata/labels");
        let is_karmadas = labels.is_some_and(|labels| labels[meta::MANAGED] == "true");
        let leaves = copy.pointer("/metadata/deletionTimestamp").is_some();
        let reason = format!("{cluster}: the copy that came back is not removed: delete it there");
        if leaves || !is_karmadas || binding.spec.scheduling_suspended() {
            return Err(Interrupt::Wait(reason));
        }
        let now = self.input.now;
        if let Some(old) = self.status.old_copies.get_mut(cluster) {
            old.fetching_since = Some(now);
        }
        Err(Interrupt::Requeue)
    }

    fn list(&self, clusters: &[ClusterName], why: &'static str) -> Result<Interrupt, Interrupt> {
        let binding = self.binding()?;
        let replicas = self.journal()?.binding.replicas;
        let targets = clusters
            .iter()
            .map(|name| fence::target_cluster(name, replicas))
            .collect();
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            add("/spec/clusters", serde_json::Value::Array(targets)),
        ];
        Ok(Interrupt::Act(vec![patch_binding(why, binding, patch)]))
    }

    fn carries_the_hold(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let Ok(Some(copy)) = self.copy(cluster) else {
            return Ok(false);
        };
        let annotations = copy.pointer("/metadata/annotations");
        let marker = annotations.and_then(|all| all.get(MARKER_ANNOTATION)?.as_str());
        let is_marked = marker == Some(self.marker()?.as_str());
        let has_work = self.around().plane.works.get()?.contains_key(cluster);
        Ok(has_work && is_marked && self.profile()?.carries_hold(copy, cluster))
    }

    /// A person answers for what can't be seen of a copy that was left earlier.
    pub(super) fn vouch_for_old(&mut self, cluster: &ClusterName, why: &str) -> Interrupt {
        let Some(by) = self.approved(FailoverGate::Fenced, cluster) else {
            let asked = format!("{why}: is it certain that no copy in {cluster} writes?");
            return question(FailoverGate::Fenced, cluster.clone(), asked);
        };
        let (attempt, now) = (self.status.common.attempt, self.input.now);
        let old = self
            .status
            .old_copies
            .entry(cluster.clone())
            .or_insert_with(|| OldCopy {
                attempt,
                since: now,
                kept: false,
                fenced: None,
                identity: None,
                marker: None,
                refuted: 0,
                purged_by: None,
                fetching_since: None,
            });
        old.fenced = Some(by);
        Interrupt::Requeue
    }
}
