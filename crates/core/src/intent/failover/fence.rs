//! What is kept off the binding while a failover is under way: the built-in failover at once, the scheduler when it has chosen.

use serde_json::{Value, json};

use super::{Machine, Phase, Stop};
use crate::api::Guard;
use crate::intent::admission;
use crate::intent::effect::{Effect, add, remove, test};
use crate::intent::fence;
use crate::intent::migration::canary_name;
use cutover_karmada::EvictionTask;
use cutover_karmada::name::ClusterName;

impl Machine<'_> {
    /// The built-in failover is off the binding, and again whenever it comes back: a held copy counts as unhealthy, and would
    /// be evicted in its turn.
    pub(super) fn failover_off(&mut self) -> Result<(), Stop> {
        let binding = self.binding()?;
        if !self.journal()?.fence.recorded {
            let fence = &mut self.journal_mut()?.fence;
            fence::record(binding, fence);
            return Err(Stop::Again);
        }
        match fence::failover_off_alone(binding) {
            Some(effect) => Err(Stop::Act(vec![effect])),
            None => Ok(()),
        }
    }

    /// Scheduling is suspended and the scheduler past it: what it had queued is done.
    pub(super) fn fence(&mut self, around: &ClusterName) -> Result<(), Stop> {
        let binding = self.binding()?;
        if !binding.spec.scheduling_suspended() {
            let generation = binding.metadata.generation;
            let fence = &mut self.journal_mut()?.fence;
            // A canary from before a suspension proves nothing about it: each has a number of its own.
            if fence.barrier.is_some() || fence.suspending != generation {
                fence.barrier = None;
                fence.suspending = generation;
                fence.canary += 1;
                return Err(Stop::Again);
            }
            let canary = (!self.input.no_canary()).then(|| self.create_canary(around));
            let canary = canary.transpose()?;
            let raise = fence::raise(binding, None);
            return Err(Stop::Act([raise].into_iter().chain(canary).collect()));
        }
        if let Some(effect) = fence::failover_off(binding) {
            return Err(Stop::Act(vec![effect]));
        }
        self.barrier(around)
    }

    fn barrier(&mut self, around: &ClusterName) -> Result<(), Stop> {
        let name = self.canary()?;
        let canary = self.world().canary.get()?;
        if let Some(barrier) = &self.journal()?.fence.barrier {
            let fence_is_gone = barrier.canary.is_empty() && !self.is_refused();
            if fence_is_gone || self.same_controllers().is_err() {
                // Another process took over, or nothing stands in any more: barrier and sequence are made anew.
                self.world().leases.get()?;
                let journal = self.journal_mut()?;
                journal.fence.barrier = None;
                journal.fence.canary += 1;
                journal.seq += 1;
                return Err(Stop::Again);
            }
            if canary.is_some() {
                self.beside.push(Effect::DeleteCanary { name });
            }
            return Ok(());
        }
        match canary {
            // The claim still lets the scheduler choose: what stands in for a canary is looked at under the next one.
            None if self.input.no_canary() && self.status.phase == Phase::Evicted => Ok(()),
            None if self.input.no_canary() && self.is_refused() => self.pass_barrier(String::new()),
            None => Err(Stop::Act(vec![self.create_canary(around)?])),
            Some(canary) if fence::observed(canary) => self.pass_barrier(fence::canary_of(canary)),
            Some(canary) => Err(Stop::Wait(fence::not_reached(canary))),
        }
    }

    fn pass_barrier(&mut self, canary: String) -> Result<(), Stop> {
        let barrier = fence::passed(canary, &self.world().leases, self.input.now)?;
        self.journal_mut()?.fence.barrier = Some(barrier);
        Err(Stop::Again)
    }

    /// Returns whether the API server itself refuses what the scheduler still has queued: it was seen to, under a claim that
    /// lists the clusters.
    fn is_refused(&self) -> bool {
        let journal = self.status.journal.as_ref();
        let test = journal.and_then(|journal| journal.fence.admission.as_ref());
        test.is_some_and(|test| test.refuses(Guard::Bindings))
    }

    /// Notes what trying the admission fence has shown.
    pub(super) fn note_admission(&mut self) {
        if let (Some(outcomes), Some(journal)) =
            (&self.input.world.around.admission, &mut self.status.journal)
        {
            admission::note(&mut journal.fence.admission, outcomes, self.input.now);
        }
    }

    fn create_canary(&self, around: &ClusterName) -> Result<Effect, Stop> {
        Ok(Effect::CreateCanary {
            name: self.canary()?,
            scheduler: self.binding()?.spec.scheduler_name.clone(),
            cluster: around.to_string(),
        })
    }

    fn canary(&self) -> Result<String, Stop> {
        let journal = self.journal()?;
        Ok(canary_name(self.input.uid, journal.round, journal.fence.canary))
    }

    pub(super) fn remove_canary(&mut self) -> Result<(), Stop> {
        if self.world().canary.get()?.is_some() {
            let name = self.canary()?;
            return Err(Stop::Act(vec![Effect::DeleteCanary { name }]));
        }
        Ok(())
    }

    /// A barrier is good for one process of each controller: a new one may have read its caches before our changes.
    pub(super) fn same_controllers(&self) -> Result<(), Stop> {
        let leases = self.world().leases.get()?;
        match self.journal()?.fence.barrier.as_ref() {
            Some(barrier) if barrier.leases == *leases => Ok(()),
            Some(_) => Err(Stop::Wait(
                "a controller of Karmada was replaced since the barrier".to_owned(),
            )),
            None => Err(Stop::Wait("no barrier has been passed".to_owned())),
        }
    }

    /// The binding lists exactly these clusters, and evicts from no other than those of these tasks: one patch, for a task
    /// that goes alone takes its copy with it.
    pub(super) fn arranged(
        &self,
        clusters: &[ClusterName],
        tasks: &[Value],
        why: &'static str,
    ) -> Result<(), Stop> {
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
        Err(Stop::Act(vec![fence::patch_binding(why, binding, patch)]))
    }

    /// Returns the tasks by which Karmada keeps old copies of earlier failovers, as they are now.
    pub(super) fn tasks_of_old_copies(&self) -> Result<Vec<Value>, Stop> {
        let tasks = self.binding()?.spec.graceful_eviction_tasks.iter();
        let kept = |task: &&EvictionTask| {
            let old = self.status.old_copies.get(&task.from_cluster);
            old.is_some_and(|old| old.kept)
        };
        Ok(tasks.filter(kept).map(|task| json!(task)).collect())
    }
}

fn cluster_of(task: &Value) -> Option<ClusterName> {
    task["fromCluster"].as_str().map(ClusterName::new)
}
