//! What is kept off the binding while a failover is under way: the built-in failover at once, the scheduler when it has chosen.

use serde_json::{Value, json};

use super::{Interrupt, Operation, Phase};
use crate::api::Fence;
use crate::intent::admission;
use crate::intent::custody::{Scheduler, belt};
use crate::intent::effect::{add, patch_binding, remove, test};
use crate::intent::fence;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{EvictionTask, ResourceBinding};

impl<'a> Operation<'a> {
    /// The built-in failover is off the binding, and again whenever it comes back: a held copy counts as unhealthy, and would
    /// be evicted in its turn.
    pub(super) fn failover_off(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        if !self.journal()?.fence.recorded {
            record(binding, &mut self.journal_mut()?.fence);
            return Err(Interrupt::Requeue);
        }
        match fence::failover_off_alone(binding) {
            Some(effect) => Err(Interrupt::Act(vec![effect])),
            None => Ok(()),
        }
    }

    /// Scheduling is suspended and the scheduler past it: what it had queued is done.
    pub(super) fn fence(&mut self, around: &ClusterName) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let scheduler = self.scheduler()?;
        let journal = self.journal_mut()?;
        let raise = |_: &Fence| fence::raise(binding, None);
        scheduler.suspend(binding, around, raise, &mut journal.fence, &mut journal.pin)?;
        if let Some(effect) = fence::failover_off(binding) {
            return Err(Interrupt::Act(vec![effect]));
        }
        let done = scheduler.is_past(binding, around, &mut journal.fence)?;
        self.background.extend(done);
        Ok(())
    }

    pub(super) fn scheduler(&self) -> Result<Scheduler<'a>, Interrupt> {
        let snapshot = self.around();
        Ok(Scheduler {
            uid: self.input.uid,
            attempt: self.journal()?.round,
            canary: &snapshot.plane.canary,
            leases: &snapshot.plane.leases,
            no_canary: self.input.no_canary(),
            chooses: self.status.phase == Phase::Evicted,
            now: self.input.now,
        })
    }

    /// Notes what trying the admission fence has shown.
    pub(super) fn note_admission(&mut self) {
        if let (Some(outcomes), Some(journal)) =
            (&self.input.snapshot.around.admission, &mut self.status.journal)
        {
            admission::note(&mut journal.fence.admission, outcomes, self.input.now);
        }
    }

    pub(super) fn remove_canary(&mut self) -> Result<(), Interrupt> {
        if self.around().plane.canary.get()?.is_none() {
            return Ok(());
        }
        let delete = self.scheduler()?.delete_canary(&self.journal()?.fence);
        Err(Interrupt::Act(vec![delete]))
    }

    /// The binding lists exactly these clusters, and evicts from no other than those of these tasks: one patch, for a task
    /// that goes alone takes its copy with it.
    pub(super) fn arranged(
        &self,
        clusters: &[ClusterName],
        tasks: &[Value],
        why: &'static str,
    ) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let spec = &binding.spec;
        let listed = spec.clusters.iter().map(|cluster| &cluster.name);
        let same_clusters =
            listed.clone().collect::<std::collections::BTreeSet<_>>() == clusters.iter().collect();
        let here: Vec<&ClusterName> = spec
            .graceful_eviction_tasks
            .iter()
            .map(|task| &task.from_cluster)
            .collect();
        let wanted: Vec<ClusterName> = tasks.iter().filter_map(cluster_of).collect();
        if same_clusters && here.iter().copied().eq(wanted.iter()) {
            return Ok(());
        }
        let replicas = self.journal()?.binding.replicas;
        let targets = clusters
            .iter()
            .map(|name| fence::target_cluster(name, replicas))
            .collect();
        let mut patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            test("/spec/suspension/scheduling", json!(true)),
            add("/spec/clusters", Value::Array(targets)),
        ];
        match (here.is_empty(), tasks.is_empty()) {
            (true, true) => {}
            (false, true) => patch.push(remove("/spec/gracefulEvictionTasks")),
            (_, false) => patch.push(add("/spec/gracefulEvictionTasks", Value::Array(tasks.to_vec()))),
        }
        Err(Interrupt::Act(vec![patch_binding(why, binding, patch)]))
    }

    /// Returns the tasks by which Karmada keeps old copies of earlier failovers, as they are now.
    pub(super) fn tasks_of_old_copies(&self) -> Result<Vec<Value>, Interrupt> {
        let tasks = self.binding()?.spec.graceful_eviction_tasks.iter();
        let kept = |task: &&EvictionTask| {
            let old = self.status.old_copies.get(&task.from_cluster);
            old.is_some_and(|old| old.kept)
        };
        Ok(tasks.filter(kept).map(|task| json!(task)).collect())
    }
}

/// Notes what is about to be taken off a binding, and put on it. What the policy says of the belt by itself stays.
pub(super) fn record(binding: &ResourceBinding, fence: &mut Fence) {
    fence::record(binding, fence);
    fence.belt = (!belt::is_belted(binding)).then(|| belt::belt(binding));
}

fn cluster_of(task: &Value) -> Option<ClusterName> {
    task["fromCluster"].as_str().map(ClusterName::new)
}
