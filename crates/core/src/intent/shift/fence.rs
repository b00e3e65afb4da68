//! Keeps the scheduler from moving the workload while its replicas go over, and puts the target into the binding.

use serde_json::{Value, json};

use super::{Interrupt, Next, Operation, Phase};
use crate::api::{Barrier, Fence};
use crate::intent::custody::Scheduler;
use crate::intent::effect::{Effect, add, exactly, remove, test};
use crate::intent::{admission, fence};
use cutover_karmada::EvictionTask;
use cutover_karmada::name::ClusterName;

impl<'a> Operation<'a> {
    /// The fence first, then the pin with the numbers of the start, then the target: born under the pin, with none.
    pub(super) fn hold(&mut self) -> Result<Next, Interrupt> {
        if !self.input.has_finalizer {
            return Err(Interrupt::Act(vec![Effect::AddFinalizer]));
        }
        self.stand()?;
        let barrier = self.journal()?.fence.barrier.as_ref();
        let scheduler = if barrier.is_some_and(stands_in) {
            "what the scheduler has queued is refused"
        } else {
            "the scheduler past it"
        };
        let mut evidence = vec![format!(
            "scheduling is suspended and {scheduler}; every Work carries {}",
            self.marker()?
        )];
        let wanted = self.journal()?.wanted.clone();
        for cluster in self.clusters()? {
            let side = super::Side::Member(cluster.clone());
            if wanted.contains_key(&cluster) {
                evidence.push(self.arrived(&side)?);
            }
        }
        Ok(Next::Enter(Phase::Shifting, evidence))
    }

    /// Brings everything to what the journal says, in this order: claim, fence, pin, markers, the list of clusters, and the
    /// template's own replicas.
    pub(super) fn stand(&mut self) -> Result<(), Interrupt> {
        self.claim()?;
        self.fence()?;
        self.pin()?;
        self.markers()?;
        self.listed()?;
        self.template_replicas()
    }

    fn fence(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let mut tasks = binding.spec.graceful_eviction_tasks.iter();
        if let Some(task) = tasks.find(|task| !is_kept(task)) {
            return Err(Interrupt::Wait(format!(
                "manual intervention required: Karmada evicts the workload from {} ({}): remove the cause, such as a taint",
                task.from_cluster, task.reason
            )));
        }
        let (scheduler, around) = (self.scheduler(), self.journal()?.spec.to.clone());
        let journal = self.journal_mut()?;
        let raise = |_: &Fence| fence::suspend(binding);
        scheduler.suspend(binding, &around, raise, &mut journal.fence, &mut journal.pin)?;
        let done = scheduler.is_past(binding, &around, &mut journal.fence)?;
        self.background.extend(done);
        Ok(())
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

    /// Notes what trying the admission fence has shown.
    pub(super) fn note_admission(&mut self) {
        if let (Some(outcomes), Some(journal)) = (&self.snapshot().admission, &mut self.status.journal) {
            admission::note(&mut journal.fence.admission, outcomes, self.input.now);
        }
    }

    /// The binding lists exactly these clusters; a list that somebody else changed is put back, under the pin. So is one that Karmada
    /// has evicted and kept the copy of, which would get nothing any more.
    pub(super) fn listed(&self) -> Result<(), Interrupt> {
        let wanted = self.clusters()?;
        self.list(&wanted, "list the clusters of the shift")
    }

    pub(super) fn list(&self, wanted: &[ClusterName], why: &'static str) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let now = &binding.spec.clusters;
        let is_listed = |name: &ClusterName| now.iter().any(|cluster| cluster.name == *name);
        let no_other = now.iter().all(|cluster| wanted.contains(&cluster.name));
        let tasks = &binding.spec.graceful_eviction_tasks;
        let (undone, stay): (Vec<_>, Vec<_>) = tasks
            .iter()
            .partition(|task| is_kept(task) && wanted.contains(&task.from_cluster));
        if no_other && wanted.iter().all(is_listed) && undone.is_empty() {
            return Ok(());
        }
        let divides = binding
            .spec
            .placement
            .as_ref()
            .is_some_and(cutover_karmada::Placement::divides);
        let mut list: Vec<Value> = now
            .iter()
            .filter(|cluster| wanted.contains(&cluster.name))
            .map(|cluster| json!(cluster))
            .collect();
        // Whatever stands here, the pin says how many the cluster gets; what is divided must keep its sum.
        let added = wanted.iter().filter(|name| !is_listed(name)).map(|name| {
            let lost = self.journal().ok().filter(|_| divides);
            let lost = lost.and_then(|journal| journal.start.get(name).copied());
            match lost {
                Some(share) if divides => json!({"name": name, "replicas": share}),
                _ if divides => json!({"name": name}),
                _ => json!({"name": name, "replicas": binding.spec.replicas}),
            }
        });
        list.extend(added);
        let rehearse = wanted.len() > now.len();
        let mut patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            test("/spec/suspension/scheduling", json!(true)),
            add("/spec/clusters", Value::Array(list)),
        ];
        match (undone.is_empty(), stay.is_empty()) {
            (true, _) => {}
            (false, true) => patch.push(remove("/spec/gracefulEvictionTasks")),
            (false, false) => patch.push(add("/spec/gracefulEvictionTasks", json!(stay))),
        }
        Err(Interrupt::Act(vec![Effect::PatchBinding {
            why,
            binding: exactly(binding),
            patch,
            rehearse,
        }]))
    }

    /// The scheduler may act again, with the pin still on.
    pub(super) fn resume_scheduling(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        if !self.journal()?.fence.lowered {
            let fence = &mut self.journal_mut()?.fence;
            fence.lowered = true;
            fence.barrier = None;
            return Err(Interrupt::Requeue);
        }
        Ok(self.scheduler().resume(binding, &self.journal()?.fence)?)
    }

    /// Nothing of the barrier is left behind.
    pub(super) fn remove_canary(&mut self) -> Result<(), Interrupt> {
        let delete = self.scheduler().remove_canary(&self.journal()?.fence)?;
        self.background.extend(delete);
        Ok(())
    }
}

/// Returns whether a copy stays where it was evicted from, for as long as nobody says otherwise.
pub(super) fn is_kept(task: &EvictionTask) -> bool {
    task.suppress_deletion == Some(true)
}

/// Returns whether it is the admission fence that keeps the scheduler away, and not that it was seen past a canary.
fn stands_in(barrier: &Barrier) -> bool {
    barrier.canary.is_empty()
}
