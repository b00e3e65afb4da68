//! The barrier behind which the scheduler can't place a workload any more: one that it had in its queue when its scheduling was
//! suspended is scheduled once more. It has one queue and one worker, so that what was queued before a canary is done with it.

use serde_json::json;

use super::{Interrupt, Operation};
use crate::api::Finding;
use crate::intent::custody::canary_name;
use crate::intent::effect::Effect;
use crate::intent::fence;
use crate::intent::record::digest;

const UNSEEN: &str = "SchedulerUnseen";

impl Operation<'_> {
    /// All bindings have been seen suspended before the canary was made that the scheduler has reached.
    pub(super) fn past_scheduler(&mut self) -> Result<(), Interrupt> {
        let bindings = self.snapshot().bindings.get()?;
        if bindings.is_empty() {
            return Ok(());
        }
        let mut uids: Vec<&str> = bindings
            .iter()
            .filter_map(|binding| binding.metadata.uid.as_deref())
            .collect();
        uids.sort_unstable();
        let over = digest(&json!(uids));
        // One that has come since needs a canary that has come since.
        if self.journal()?.fence.over.as_ref() != Some(&over) {
            return self.renew_barrier(Some(over));
        }
        let leases = self.snapshot().leases.get()?;
        let fence = &self.journal()?.fence;
        let canary = self.snapshot().canary.get()?;
        let name = self.canary()?;
        if let Some(barrier) = &fence.barrier {
            // Another process may have read its caches before the suspension.
            if barrier.leases != *leases {
                let over = fence.over.clone();
                return self.renew_barrier(over);
            }
            return match canary {
                Some(_) => Err(Interrupt::Act(vec![Effect::DeleteCanary { name }])),
                None => Ok(()),
            };
        }
        match canary {
            Some(canary) if fence::observed(canary) => self.pass_barrier(fence::canary_of(canary)),
            Some(canary) => Err(Interrupt::Wait(format!(
                "{}: until then the scheduler may still place what it had queued",
                fence::not_reached(canary)
            ))),
            None if self.input.no_canary() => {
                self.status
                    .common
                    .findings
                    .retain(|finding| finding.code != UNSEEN);
                self.status.common.findings.push(Finding::new(
                    UNSEEN,
                    "cutover may not create a canary: the scheduler may still place what it had queued",
                    "allow it as docs/how-to/operate.md#rbac says",
                ));
                self.pass_barrier(String::new())
            }
            None => {
                let scheduler = bindings
                    .first()
                    .map(|binding| binding.spec.scheduler_name.clone());
                let listed = bindings.iter().flat_map(|binding| &binding.spec.clusters);
                let joined = self.snapshot().clusters.get()?.iter();
                let cluster = listed.map(|cluster| &cluster.name).chain(joined).next();
                let cluster = cluster.ok_or_else(|| Interrupt::Wait("a cluster to be joined".to_owned()))?;
                Err(Interrupt::Act(vec![Effect::CreateCanary {
                    name,
                    scheduler: scheduler.unwrap_or_default(),
                    cluster: cluster.to_string(),
                }]))
            }
        }
    }

    /// The next canary has a number of its own: one from before a suspension proves nothing about it.
    pub(super) fn renew_barrier(&mut self, over: Option<String>) -> Result<(), Interrupt> {
        let fence = &mut self.journal_mut()?.fence;
        fence.canary += u32::from(over.is_some());
        fence.over = over;
        fence.barrier = None;
        Err(Interrupt::Requeue)
    }

    fn pass_barrier(&mut self, canary: String) -> Result<(), Interrupt> {
        let barrier = fence::passed(canary, &self.snapshot().leases, self.input.now)?;
        self.journal_mut()?.fence.barrier = Some(barrier);
        Err(Interrupt::Requeue)
    }

    /// No canary is left behind.
    pub(super) fn remove_canary(&self) -> Result<(), Interrupt> {
        if self.journal()?.fence.canary == 0 || self.snapshot().canary.get()?.is_none() {
            return Ok(());
        }
        Err(Interrupt::Act(vec![Effect::DeleteCanary {
            name: self.canary()?,
        }]))
    }

    fn canary(&self) -> Result<String, Interrupt> {
        let number = self.journal()?.fence.canary;
        Ok(canary_name(self.input.uid, self.status.common.attempt, number))
    }
}
