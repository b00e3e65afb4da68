//! Keeps the scheduler from moving the workload while its replicas go over, and puts the target into the binding.

use serde_json::{Value, json};

use super::{Machine, Next, Phase, Stop};
use crate::api::{Barrier, Guard};
use crate::intent::effect::{Effect, add, test};
use crate::intent::migration::canary_name;
use crate::intent::{admission, fence};
use cutover_karmada::name::ClusterName;

impl Machine<'_> {
    /// The fence first, then the pin with the numbers of the start, then the target: born under the pin, with none.
    pub(super) fn hold(&mut self) -> Result<Next, Stop> {
        if !self.input.has_finalizer {
            return Err(Stop::Act(vec![Effect::AddFinalizer]));
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
    pub(super) fn stand(&mut self) -> Result<(), Stop> {
        self.claim()?;
        self.renew_barrier()?;
        self.fence()?;
        self.pin()?;
        self.markers()?;
        self.listed()?;
        self.template_replicas()
    }

    fn fence(&mut self) -> Result<(), Stop> {
        let binding = self.binding()?;
        if let Some(task) = binding.spec.graceful_eviction_tasks.first() {
            return Err(Stop::Wait(format!(
                "Karmada evicts the workload from {} ({}): a person must look",
                task.from_cluster, task.reason
            )));
        }
        if !binding.spec.scheduling_suspended() {
            let generation = binding.metadata.generation;
            let raise = fence::suspend(binding);
            let fence = &mut self.journal_mut()?.fence;
            // A canary from before a suspension proves nothing about it: each has a number of its own.
            if fence.barrier.is_some() || fence.suspending != generation {
                fence.barrier = None;
                fence.suspending = generation;
                fence.canary += 1;
                return Err(Stop::Again);
            }
            // The scheduler hears of both in this order: they are of one kind.
            let canary = (!self.does_without_canary()).then(|| self.create_canary());
            let canary = canary.transpose()?;
            return Err(Stop::Act([raise].into_iter().chain(canary).collect()));
        }
        self.barrier()
    }

    /// Waits for a canary that was created after the suspension was seen: the scheduler has one queue and one worker, so
    /// whatever was queued before it is done.
    fn barrier(&mut self) -> Result<(), Stop> {
        let canary = self.world().canary.get()?;
        if self.journal()?.fence.barrier.is_some() {
            return self.remove_canary();
        }
        match canary {
            None if self.does_without_canary() => self.pass_barrier(String::new()),
            None => Err(Stop::Act(vec![self.create_canary()?])),
            Some(canary) if fence::observed(canary) => self.pass_barrier(fence::canary_of(canary)),
            Some(canary) => Err(Stop::Wait(fence::not_reached(canary))),
        }
    }

    fn pass_barrier(&mut self, canary: String) -> Result<(), Stop> {
        let barrier = fence::passed(canary, &self.world().leases, self.input.now)?;
        self.journal_mut()?.fence.barrier = Some(barrier);
        Err(Stop::Again)
    }

    /// None may be created, and what the scheduler still has queued is refused by the API server itself.
    fn does_without_canary(&self) -> bool {
        self.input.no_canary() && self.is_refused()
    }

    /// Returns whether the API server was seen to refuse that the binding lists other clusters than the claim.
    fn is_refused(&self) -> bool {
        let journal = self.status.journal.as_ref();
        let test = journal.and_then(|journal| journal.fence.admission.as_ref());
        test.is_some_and(|test| test.refuses(Guard::Bindings))
    }

    /// Notes what trying the admission fence has shown.
    pub(super) fn note_admission(&mut self) {
        if let (Some(outcomes), Some(journal)) = (&self.world().admission, &mut self.status.journal) {
            admission::note(&mut journal.fence.admission, outcomes, self.input.now);
        }
    }

    fn create_canary(&self) -> Result<Effect, Stop> {
        Ok(Effect::CreateCanary {
            name: self.canary()?,
            scheduler: self.binding()?.spec.scheduler_name.clone(),
            cluster: self.journal()?.spec.to.to_string(),
        })
    }

    fn canary(&self) -> Result<String, Stop> {
        let number = self.journal()?.fence.canary;
        Ok(canary_name(self.input.uid, self.status.common.attempt, number))
    }

    /// A barrier is good for one process of each controller: after another one took over, it and the sequence are made anew; so
    /// they are when nothing stands in for a canary any more.
    fn renew_barrier(&mut self) -> Result<(), Stop> {
        let leases = self.world().leases.get()?;
        let is_refused = self.is_refused();
        let journal = self.journal_mut()?;
        match &journal.fence.barrier {
            Some(barrier) if barrier.leases != *leases || (stands_in(barrier) && !is_refused) => {
                journal.fence.barrier = None;
                journal.fence.canary += 1;
                if journal.pinned {
                    journal.seq += 1;
                }
                Err(Stop::Again)
            }
            _ => Ok(()),
        }
    }

    /// The binding lists exactly these clusters; a list that somebody else changed is put back, under the pin.
    pub(super) fn listed(&self) -> Result<(), Stop> {
        let wanted = self.clusters()?;
        self.list(&wanted, "list the clusters of the shift")
    }

    pub(super) fn list(&self, wanted: &[ClusterName], why: &'static str) -> Result<(), Stop> {
        let binding = self.binding()?;
        let now = &binding.spec.clusters;
        let is_listed = |name: &ClusterName| now.iter().any(|cluster| cluster.name == *name);
        let no_other = now.iter().all(|cluster| wanted.contains(&cluster.name));
        if no_other && wanted.iter().all(is_listed) {
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
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            test("/spec/suspension/scheduling", json!(true)),
            add("/spec/clusters", Value::Array(list)),
        ];
        Err(Stop::Act(vec![Effect::PatchBinding {
            why,
            binding: fence::exactly(binding),
            patch,
            rehearse,
        }]))
    }

    /// The scheduler may act again, with the pin still on.
    pub(super) fn resume_scheduling(&mut self) -> Result<(), Stop> {
        let binding = self.binding()?;
        if !self.journal()?.fence.lowered {
            let fence = &mut self.journal_mut()?.fence;
            fence.lowered = true;
            fence.barrier = None;
            return Err(Stop::Again);
        }
        if !binding.spec.scheduling_suspended() {
            return Ok(());
        }
        Err(Stop::Act(vec![fence::resume(binding)]))
    }

    /// Nothing of the barrier is left behind.
    pub(super) fn remove_canary(&mut self) -> Result<(), Stop> {
        if self.world().canary.get()?.is_some() {
            let delete = self.delete_canary()?;
            self.beside.push(delete);
        }
        Ok(())
    }

    pub(super) fn delete_canary(&self) -> Result<Effect, Stop> {
        Ok(Effect::DeleteCanary { name: self.canary()? })
    }
}

/// Returns whether it is the admission fence that keeps the scheduler away, and not that it was seen past a canary.
fn stands_in(barrier: &Barrier) -> bool {
    barrier.canary.is_empty()
}
