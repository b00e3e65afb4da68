//! The fence: keeps the scheduler and the built-in failover from moving the workload while the migration runs.

use serde_json::{Value, json};

use super::{Interrupt, Operation, go_back};
use crate::api::{Fence, Finding};
use crate::intent::binding::{PRESERVED, binding_findings};
use crate::intent::custody::Scheduler;
use crate::intent::custody::belt::belt;
use crate::intent::effect::{Effect, add, exactly, patch_binding, remove, test};
use crate::intent::fence::{affinity_in_use, failover_off, raise, record, restored, target_cluster};
use crate::intent::pin;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{EvictionTask, PurgeMode};

impl<'a> Operation<'a> {
    /// Scheduling suspended and the scheduler past it; failover off the binding. Removed again whenever it comes back.
    pub(super) fn fence(&mut self) -> Result<(), Interrupt> {
        self.record_before()?;
        let binding = self.binding()?;
        let (scheduler, around) = (self.scheduler(), self.journal()?.target.clone());
        let journal = self.journal_mut()?;
        let raise = |fence: &Fence| raise(binding, fence.belt.as_ref());
        scheduler.suspend(binding, &around, raise, &mut journal.fence, &mut journal.pin)?;
        if let Some(effect) = failover_off(binding) {
            return Err(Interrupt::Act(vec![effect]));
        }
        self.belt()?;
        self.undo_evictions()?;
        let fence = &mut self.journal_mut()?.fence;
        let done = scheduler.is_past(binding, &around, fence)?;
        self.background.extend(done);
        Ok(())
    }

    /// What Karmada evicts before it is held is Karmada's to move.
    pub(super) fn not_evicted(&self) -> Result<(), Interrupt> {
        if pin::not_blank(self.snapshot().plane.pin.get()?.as_ref()).is_some() {
            return Ok(());
        }
        match self.binding()?.spec.graceful_eviction_tasks.first() {
            Some(task) => Err(go_back(format!(
                "Karmada evicted the workload from {} before it could be held: {}",
                task.from_cluster, task.reason
            ))),
            None => Ok(()),
        }
    }

    /// Karmada computes no Work for a cluster that it evicts, and none for any while a purged one is still there: no pin would
    /// arrive. What it began is undone under the pin, in one patch: a task that goes alone takes its copy with it.
    fn undo_evictions(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let tasks = &binding.spec.graceful_eviction_tasks;
        if tasks.is_empty() || pin::not_blank(self.snapshot().plane.pin.get()?.as_ref()).is_none() {
            return Ok(());
        }
        // The state that Karmada preserved stands nowhere else.
        let told: Vec<Finding> = tasks.iter().map(evicted).collect();
        if let Some(news) = told
            .into_iter()
            .find(|told| !self.status.common.findings.contains(told))
        {
            self.status.common.findings.push(news);
            return Err(Interrupt::Requeue);
        }
        let journal = self.journal()?;
        if let Some(task) = tasks.iter().find(|task| self.is_purged(task)) {
            return Err(go_back(format!(
                "Karmada deletes the copy in {}: {}",
                task.from_cluster, task.reason
            )));
        }
        // What comes back is held, once nobody has the token: the pin says so first.
        if journal.writer.is_none() && self.stop_is_due()? {
            self.pin()?;
        }
        let (binding, journal, works) = (
            self.binding()?,
            self.journal()?,
            self.snapshot().plane.works.get()?,
        );
        let tasks = &binding.spec.graceful_eviction_tasks;
        let mut listed: Vec<Value> = binding
            .spec
            .clusters
            .iter()
            .map(|cluster| json!(cluster))
            .collect();
        for task in tasks {
            let name = &task.from_cluster;
            let is_listed = binding.spec.clusters.iter().any(|cluster| cluster.name == *name);
            // One whose Work goes is born anew: not before the pin is seen to be in force (`listed`).
            let stands = works
                .get(name)
                .is_some_and(|work| work.metadata.deletion_timestamp.is_none());
            if !is_listed && stands && !purges_at_once(task) && journal.clusters.contains(name) {
                listed.push(target_cluster(name, journal.binding.replicas));
            }
        }
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            add("/spec/clusters", Value::Array(listed)),
            remove("/spec/gracefulEvictionTasks"),
        ];
        Err(Interrupt::Act(vec![patch_binding(
            "undo the eviction",
            binding,
            patch,
        )]))
    }

    /// Whether a task deletes the copy that has the token, with state that nobody has saved: listed again under the token, it
    /// would come back and run from nothing.
    fn is_purged(&self, task: &EvictionTask) -> bool {
        let Some(journal) = self.status.journal_in_force() else {
            return false;
        };
        let has_token = journal.writer.as_ref() == Some(&task.from_cluster);
        has_token
            && journal.profile.stateful
            && task.from_cluster == journal.source
            && journal.roll_back.is_none()
            && purges_at_once(task)
    }

    /// What is taken off the binding stands in the journal first, to be put back exactly.
    fn record_before(&mut self) -> Result<(), Interrupt> {
        if self.journal()?.fence.recorded {
            return Ok(());
        }
        let binding = self.binding()?;
        // Since Preflight looked, perhaps: what would be the policy's own must not be taken for the tool's.
        let belted = binding_findings(&binding.spec)
            .into_iter()
            .find(|finding| finding.code == PRESERVED);
        if let Some(finding) = belted {
            return Err(go_back(finding.message));
        }
        let generation = binding.metadata.generation;
        let stateful = self.journal()?.profile.stateful;
        let fence = &mut self.journal_mut()?.fence;
        record(binding, fence);
        fence.belt = stateful.then(|| belt(binding));
        fence.suspending = generation;
        Err(Interrupt::Requeue)
    }

    pub(super) fn scheduler(&self) -> Scheduler<'a> {
        let snapshot = self.snapshot();
        Scheduler {
            uid: self.input.uid,
            attempt: self.status.common.attempt,
            canary: &snapshot.plane.canary,
            leases: &snapshot.plane.leases,
            no_canary: self.input.no_canary(),
            chooses: false,
            now: self.input.now,
        }
    }

    /// Returns the name of the canary in force.
    pub(super) fn canary(&self) -> Result<String, Interrupt> {
        Ok(self.scheduler().canary_name(&self.journal()?.fence))
    }

    pub(super) fn same_controllers(&self) -> Result<(), Interrupt> {
        let barrier = self.journal()?.fence.barrier.as_ref();
        Ok(self.scheduler().is_the_same(barrier)?)
    }

    /// After another process took over, the barrier and the current sequence are made anew.
    pub(super) fn renew_barrier(&mut self) -> Result<(), Interrupt> {
        let scheduler = self.scheduler();
        let journal = self.journal_mut()?;
        Ok(scheduler.renew(&mut journal.fence, &mut journal.pin)?)
    }

    /// The binding lists exactly these clusters; a list that somebody else changed is put back, under the pin.
    pub(super) fn listed(&mut self, clusters: &[ClusterName], why: &'static str) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let mut wanted = Vec::new();
        let mut added = Vec::new();
        for name in clusters {
            if binding.spec.clusters.iter().any(|cluster| cluster.name == *name) {
                wanted.push(name);
            } else if !self.is_done_without(name)? {
                wanted.push(name);
                added.push(name.clone());
            }
        }
        self.note_strays(clusters)?;
        if !added.is_empty() {
            self.may_list(&added)?;
        }
        let now: Vec<_> = binding
            .spec
            .clusters
            .iter()
            .map(|cluster| &cluster.name)
            .collect();
        if now == wanted {
            return Ok(());
        }
        let replicas = self.journal()?.binding.replicas;
        let rehearse = wanted.len() > now.len();
        let wanted: Vec<Value> = wanted
            .into_iter()
            .map(|name| target_cluster(name, replicas))
            .collect();
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            test("/spec/suspension/scheduling", json!(true)),
            add("/spec/clusters", Value::Array(wanted)),
        ];
        Err(Interrupt::Act(vec![Effect::PatchBinding {
            why,
            binding: exactly(binding),
            patch,
            rehearse,
        }]))
    }

    /// Puts back what the fence took off, where it is still as the fence left it.
    pub(super) fn lower(&mut self) -> Result<(), Interrupt> {
        let fence = &self.journal()?.fence;
        if !fence.lowered {
            self.journal_mut()?.fence.lowered = true;
            return Err(Interrupt::Requeue);
        }
        match restored(self.binding()?, fence) {
            Some(effect) => Err(Interrupt::Act(vec![effect])),
            None => Ok(()),
        }
    }

    /// Of several groups of affinities the scheduler begins with the one that it used last: it is told which that is.
    pub(super) fn name_affinity(&self, keep: &ClusterName) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let Some(group) = &journal.binding.target_affinity else {
            return Ok(());
        };
        let binding = self.binding()?;
        let in_use = affinity_in_use(binding);
        // Once the scheduler may act, what it says is its own.
        if *keep != journal.target || in_use == group || !binding.spec.scheduling_suspended() {
            return Ok(());
        }
        let path = "/status/schedulerObservingAffinityName";
        let patch = vec![test(path, json!(in_use)), add(path, json!(group))];
        Err(Interrupt::Act(vec![Effect::PatchBindingStatus {
            why: "name the group of affinities to begin with",
            binding: exactly(binding),
            patch,
        }]))
    }

    /// Lets the scheduler go on, with the pin still on.
    pub(super) fn resume_scheduling(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        if !self.journal()?.fence.resumed {
            self.journal_mut()?.fence.resumed = true;
            return Err(Interrupt::Requeue);
        }
        Ok(self.scheduler().resume(binding, &self.journal()?.fence)?)
    }
}

fn purges_at_once(task: &EvictionTask) -> bool {
    matches!(
        task.purge_mode,
        Some(PurgeMode::Directly | PurgeMode::Immediately)
    )
}

fn evicted(task: &EvictionTask) -> Finding {
    let EvictionTask {
        from_cluster,
        reason,
        producer,
        preserved_label_state,
        ..
    } = task;
    let mode = task.purge_mode.map_or_else(|| json!("unset"), |mode| json!(mode));
    let mode = mode.as_str().unwrap_or_default().to_owned();
    let state: Vec<String> = preserved_label_state
        .iter()
        .map(|(label, value)| format!("{label}={value}"))
        .collect();
    let state = if state.is_empty() {
        String::new()
    } else {
        format!("; it had preserved {}", state.join(", "))
    };
    Finding::new(
        "Evicted",
        format!(
            "Karmada began to evict the workload from {from_cluster} ({reason} by {producer}, purge mode {mode}): undone{state}"
        ),
        "find the cause: the health of the workload there, or the taints of the cluster",
    )
}
