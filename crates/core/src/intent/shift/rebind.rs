//! A binding that was deleted and made anew. Karmada deleted the copies with it, and makes them anew under the pin, which
//! stands all the while: what it says of the replicas holds whatever the binding lists.

use super::{Interrupt, Operation};
use crate::api::{Fence, Finding};
use crate::intent::fence::identify;

impl Operation<'_> {
    /// The shift goes on with the binding that there is now, where that is about the same workload, and nothing of the one before
    /// runs on. Other clusters that it lists are taken out, as ever: by the pin they have no replicas.
    pub(super) fn adopt_recreated_binding(&mut self) -> Result<(), Interrupt> {
        let Some(journal) = self
            .status
            .journal
            .as_ref()
            .filter(|journal| !journal.pin.unpinning)
        else {
            return Ok(());
        };
        let (Ok(Some(binding)), Ok(Some(template))) = (
            self.snapshot().plane.binding.get(),
            self.snapshot().plane.template.get(),
        ) else {
            return Ok(());
        };
        if binding.metadata.uid.as_deref() == Some(&journal.binding.uid) {
            return Ok(());
        }
        if template["metadata"]["uid"] != journal.template_uid.as_str() {
            return Err(Interrupt::Wait(
                "manual intervention required: the workload was deleted and recreated: delete the ReplicaShift and take its finalizer \
                 off; its pin and its claim go by themselves where that is safe"
                    .to_owned(),
            ));
        }
        let Some(id) = identify(binding) else {
            return Err(Interrupt::Wait(
                "Karmada has not marked the binding that was recreated yet".to_owned(),
            ));
        };
        self.nothing_stays()?;
        let journal = self.journal_mut()?;
        journal.binding = id;
        journal.pin.renew();
        journal.fence = Fence {
            canary: journal.fence.canary,
            ..Fence::default()
        };
        let finding = Finding::new(
            "MadeAnew",
            "the binding was deleted and recreated, and the copies with it: until those were ready again, fewer replicas than the floor \
             were ready",
            "find out who deleted it; the shift goes on with the replicas that its pin says",
        );
        let findings = &mut self.status.common.findings;
        findings.retain(|found| found.code != finding.code);
        findings.push(finding);
        Err(Interrupt::Requeue)
    }

    /// A Work of the binding that was deleted keeps its copy as it is, and no pin reaches it any more.
    fn nothing_stays(&self) -> Result<(), Interrupt> {
        let mut works = self.snapshot().plane.works.get()?.iter();
        match works.find(|(_, work)| work.metadata.deletion_timestamp.is_none()) {
            Some((cluster, work)) => Err(Interrupt::Wait(format!(
                "the binding was deleted and recreated; the Work {} of the old binding, of {cluster}, to be removed: if Karmada leaves \
                 it, a person must delete it",
                work.metadata.name.as_deref().unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }
}
