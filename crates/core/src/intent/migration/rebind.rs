//! A binding that was deleted and recreated. Karmada deletes the Works with it; the copies stay where the belt was on, and are
//! deleted where it wasn't. The pin stands all the while, so that whatever is created is held, but where the token is.

use super::{Machine, Stop};
use crate::api::{BindingId, Fence, Finding};
use crate::intent::fence::identify;
use cutover_karmada::name::ClusterName;

impl Machine<'_> {
    /// The migration goes on with the binding that there is now, once no Work of the one before is left: such a Work keeps its
    /// copy as it is, and no pin reaches it any more. What became of the copies is looked at as ever.
    pub(super) fn rebind(&mut self) -> Result<(), Stop> {
        let Some(journal) = self
            .status
            .journal_in_force()
            .filter(|journal| !journal.pin.unpinning)
        else {
            return Ok(());
        };
        let (Ok(Some(binding)), Ok(Some(template))) =
            (self.world().binding.get(), self.world().template.get())
        else {
            return Ok(());
        };
        let is_same = binding.metadata.uid.as_deref() == Some(&journal.binding.uid);
        if is_same || template["metadata"]["uid"] != journal.template_uid.as_str() {
            return Ok(());
        }
        let Some(id) = identify(binding) else {
            return Err(Stop::Wait(
                "Karmada to mark the binding that was recreated".to_owned(),
            ));
        };
        self.no_old_work()?;
        let finding = recreated(journal.writer.as_ref());
        let binding = BindingId {
            replicas: id.replicas.or(journal.binding.replicas),
            target_affinity: journal.binding.target_affinity.clone(),
            ..id
        };
        let fence = Fence {
            canary: journal.fence.canary + 1,
            admission: journal.fence.admission.clone(),
            ..Fence::default()
        };
        let journal = self.journal_mut()?;
        (journal.binding, journal.fence) = (binding, fence);
        journal.pin.renew();
        self.status.findings.retain(|known| known.code != finding.code);
        self.status.findings.push(finding);
        Err(Stop::Again)
    }

    fn no_old_work(&self) -> Result<(), Stop> {
        let mut works = self.world().works.get()?.iter();
        match works.find(|(_, work)| work.metadata.deletion_timestamp.is_none()) {
            Some((cluster, work)) => Err(Stop::Wait(format!(
                "the Work {} of the deleted binding, of {cluster}, to go: where Karmada leaves it, a person must delete it",
                work.metadata.name.as_deref().unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }
}

fn recreated(writer: Option<&ClusterName>) -> Finding {
    let run = writer.map_or_else(String::new, |writer| {
        format!("; one that is created in {writer} begins from what the template and the pin say")
    });
    Finding::new(
        "BindingRecreated",
        format!("the binding was deleted and recreated, and copies may have been deleted with it{run}"),
        "find out who deleted it, and see from which state the workload runs",
    )
}
