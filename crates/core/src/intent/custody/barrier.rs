//! Keeps the scheduler away from a binding, and shows that it is: one that was in its queue when its scheduling was suspended is
//! scheduled once more. The scheduler has one queue and one worker, so that whatever was queued before a canary is done when the
//! canary is reached.

use jiff::Timestamp;

use super::Due;
use crate::api::{Barrier, Fence, Guard, PinState};
use crate::intent::effect::Effect;
use crate::intent::fence::{self, Leases};
use crate::intent::seen::Seen;
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ClusterName;

/// What a wait says when a barrier proves nothing any more.
pub const BARRIER_IS_OLD: &str = "a controller of Karmada was replaced since the barrier";

/// What was read of the scheduler, and how an intent names its canaries.
#[derive(Debug)]
pub struct Scheduler<'a> {
    pub uid: &'a str,
    /// Counts the times that the intent put a pin up.
    pub attempt: u32,
    pub canary: &'a Seen<Option<ResourceBinding>>,
    pub leases: &'a Seen<Leases>,
    /// No canary may be created.
    pub no_canary: bool,
    /// The claim still lets the scheduler choose: what stands in for a canary is looked at under the next one.
    pub chooses: bool,
    pub now: Timestamp,
}

impl Scheduler<'_> {
    /// Scheduling is suspended, by this effect. `around`: a joined cluster, for the canary's policy to name.
    pub fn suspend(
        &self,
        binding: &ResourceBinding,
        around: &ClusterName,
        raise: impl FnOnce(&Fence) -> Effect,
        fence: &mut Fence,
        pin: &mut PinState,
    ) -> Result<(), Due> {
        if binding.spec.scheduling_suspended() {
            return self.renew(fence, pin);
        }
        let generation = binding.metadata.generation;
        // A canary from before a suspension proves nothing about it: each has a number of its own.
        if fence.barrier.is_some() || fence.suspending != generation {
            if fence.barrier.take().is_some() && pin.pinned {
                pin.renew();
            }
            fence.suspending = generation;
            fence.canary += 1;
            return Err(Due::Again);
        }
        // The scheduler hears of both in this order: they are of one kind.
        let canary = (!self.no_canary).then(|| self.create_canary(binding, around, fence));
        Err(Due::Act([raise(fence)].into_iter().chain(canary).collect()))
    }

    /// The scheduler is past a suspension that was seen: it has reached a canary that was created after it. Returns the effect that
    /// clears up.
    pub fn is_past(
        &self,
        binding: &ResourceBinding,
        around: &ClusterName,
        fence: &mut Fence,
    ) -> Result<Option<Effect>, Due> {
        if fence.barrier.is_some() {
            let is_there = matches!(self.canary.get(), Ok(Some(_)));
            return Ok(is_there.then(|| self.delete_canary(fence)));
        }
        let canary = match self.canary.get()? {
            None if self.no_canary && self.chooses => return Ok(None),
            None if self.no_canary && refuses(fence) => String::new(),
            None => return Err(Due::Act(vec![self.create_canary(binding, around, fence)])),
            Some(canary) if fence::observed(canary) => fence::canary_of(canary),
            Some(canary) => return Err(Due::Wait(fence::not_reached(canary))),
        };
        fence.barrier = Some(fence::passed(canary, self.leases, self.now)?);
        Err(Due::Again)
    }

    /// The scheduler goes on, and no suspension that was sent takes effect any more: each says at which generation of the binding
    /// it was decided on. As long as that generation stands one may still be on its way, and scheduling is suspended for a moment:
    /// by then it has come, or comes too late.
    pub fn resume(&self, binding: &ResourceBinding, fence: &Fence) -> Result<(), Due> {
        let effect = if binding.spec.scheduling_suspended() {
            fence::resume(binding)
        } else if fence.suspending.is_some() && fence.suspending == binding.metadata.generation {
            fence::suspend(binding)
        } else {
            return Ok(());
        };
        Err(Due::Act(vec![effect]))
    }

    /// A barrier is good for one process of each controller: after another one took over, it and the sequence are made anew; so
    /// they are when nothing stands in for a canary any more.
    pub fn renew(&self, fence: &mut Fence, pin: &mut PinState) -> Result<(), Due> {
        let Some(barrier) = &fence.barrier else {
            return Ok(());
        };
        let stands_in_no_more = barrier.canary.is_empty() && !refuses(fence);
        if barrier.leases == *self.leases.get()? && !stands_in_no_more {
            return Ok(());
        }
        fence.barrier = None;
        fence.canary += 1;
        if pin.pinned {
            pin.renew();
        }
        Err(Due::Again)
    }

    /// The barrier was passed by the processes that are at work now: another one may have read its caches before our changes.
    pub fn is_the_same(&self, barrier: Option<&Barrier>) -> Result<(), Due> {
        match barrier {
            Some(barrier) if barrier.leases == *self.leases.get()? => Ok(()),
            Some(_) => Err(Due::Wait(BARRIER_IS_OLD.to_owned())),
            None => Err(Due::Wait("no barrier has been passed".to_owned())),
        }
    }

    /// No canary is left behind.
    pub fn remove_canary(&self, fence: &Fence) -> Result<Option<Effect>, Due> {
        let there = self.canary.get()?.is_some();
        Ok(there.then(|| self.delete_canary(fence)))
    }

    /// Returns the name of the canary in force.
    pub fn canary_name(&self, fence: &Fence) -> String {
        canary_name(self.uid, self.attempt, fence.canary)
    }

    pub fn delete_canary(&self, fence: &Fence) -> Effect {
        Effect::DeleteCanary {
            name: self.canary_name(fence),
        }
    }

    fn create_canary(&self, binding: &ResourceBinding, around: &ClusterName, fence: &Fence) -> Effect {
        Effect::CreateCanary {
            name: self.canary_name(fence),
            scheduler: binding.spec.scheduler_name.clone(),
            cluster: around.to_string(),
        }
    }
}

/// Returns whether the API server itself refuses what the scheduler still has queued: it was seen to, under a claim that lists
/// the clusters.
pub fn refuses(fence: &Fence) -> bool {
    fence
        .admission
        .as_ref()
        .is_some_and(|test| test.refuses(Guard::Bindings))
}

/// Returns the name of the canary that a barrier waits for.
pub fn canary_name(uid: &str, attempt: u32, number: u32) -> String {
    let short: String = uid.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    format!("canary-{short}-{attempt}-{number}")
}
