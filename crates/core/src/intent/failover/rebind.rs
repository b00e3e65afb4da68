//! A binding that was deleted and made anew, and a workload that is gone: Karmada deleted the copies with it. The pin stands
//! all the while, so whatever is made anew is held, but where the token is.

use super::fence::record;
use super::{Interrupt, Operation, Phase};
use crate::api::{BindingId, Fence, Finding, OldCopy};
use crate::intent::fence::identify;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// The plan goes on with the binding that there is now, once nothing of the one before can come to life again.
    pub(super) fn adopt_recreated_binding(&mut self) -> Result<(), Interrupt> {
        let Some(journal) = &self.status.journal else {
            return Ok(());
        };
        // Who has the claim looks after the binding.
        if journal.pin.unpinning || matches!(self.status.phase, Phase::Pending | Phase::Lent) {
            return Ok(());
        }
        let known = journal.binding.clone();
        match self.around().plane.binding.get() {
            Ok(Some(binding)) if binding.metadata.uid.as_deref() != Some(&known.uid) => {
                let Some(id) = identify(binding) else {
                    return Err(Interrupt::Wait(
                        "Karmada has not marked the binding that was recreated yet".to_owned(),
                    ));
                };
                let left = self.works_that_go()?;
                let mut fence = Fence {
                    canary: journal.fence.canary,
                    ..Fence::default()
                };
                if self.status.phase == Phase::Releasing {
                    // It is fenced at once.
                    record(binding, &mut fence);
                }
                let id = BindingId {
                    replicas: id.replicas.or(known.replicas),
                    ..id
                };
                self.adopt(id, fence, left)
            }
            Ok(None)
                if self.status.phase.in_flight()
                    && matches!(self.around().plane.template.get(), Ok(None)) =>
            {
                self.dissolve()
            }
            _ => Ok(()),
        }
    }

    /// Returns the clusters that have a Work of the binding that was deleted. One that isn't about to go keeps its copy alive,
    /// and no pin reaches it any more.
    fn works_that_go(&self) -> Result<Vec<ClusterName>, Interrupt> {
        let works = self.around().plane.works.get()?;
        let stays = works
            .iter()
            .find(|(_, work)| work.metadata.deletion_timestamp.is_none());
        match stays {
            Some((cluster, work)) => Err(Interrupt::Wait(format!(
                "the binding was deleted and recreated; the Work {} of the old binding, of {cluster}, to be removed: if Karmada leaves \
                 it, a person must delete it",
                work.metadata.name.as_deref().unwrap_or_default()
            ))),
            None => Ok(works.keys().cloned().collect()),
        }
    }

    fn adopt(&mut self, binding: BindingId, fence: Fence, left: Vec<ClusterName>) -> Result<(), Interrupt> {
        let (now, attempt) = (self.input.now, self.status.common.attempt);
        let template = self.around().plane.template.get().ok().and_then(Option::as_ref);
        let template_uid = template.map(super::look::uid);
        let journal = self.journal_mut()?;
        journal.binding = binding;
        journal.template_uid = template_uid.unwrap_or_default();
        journal.pin.renew();
        journal.fence = fence;
        let writer = journal.writer.clone();
        let mut released = None;
        if let Some(flight) = &mut journal.flight {
            // One that has had the token may run, also where no Work of it is left.
            released = flight.to.clone().filter(|_| flight.released);
            // The copies that it was about are gone, or go.
            flight.with_source = Some(false);
            flight.stopping = None;
            journal.suspended.clear();
            journal.clusters = writer.clone().into_iter().collect();
            if writer.is_none() && !flight.requested {
                flight.to = None;
            }
        }
        let from = self.flight().ok().map(|flight| flight.from.clone());
        for cluster in left.into_iter().chain(released) {
            if Some(&cluster) == writer.as_ref() || Some(&cluster) == from.as_ref() {
                continue;
            }
            let identity = self.identity(&cluster)?;
            self.status.old_copies.entry(cluster).or_insert(OldCopy {
                attempt,
                since: now,
                kept: false,
                fenced: None,
                identity,
                marker: None,
                refuted: 0,
                purged_by: None,
                fetching_since: None,
            });
        }
        self.tell_of_it(writer.as_ref());
        let evidence = vec!["the binding was deleted and recreated".to_owned()];
        match self.status.phase {
            Phase::Guarding => self.enter(Phase::Arming, evidence),
            Phase::Evicted | Phase::Fencing => self.enter(Phase::Evicted, evidence),
            _ => {}
        }
        Err(Interrupt::Requeue)
    }

    /// What the writer has become nobody can undo: whoever deleted it has to know what it began from.
    fn tell_of_it(&mut self, writer: Option<&ClusterName>) {
        let Some(writer) = writer else { return };
        let known = self.status.last_known.as_ref();
        let known = known.map_or_else(
            || "no state of it is known".to_owned(),
            |known| {
                let values: Vec<String> = known
                    .values
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                format!("the last state that was seen is {}", values.join(", "))
            },
        );
        self.untell("MadeAnew");
        self.status.common.findings.push(Finding::new(
            "MadeAnew",
            format!(
                "the binding was deleted and recreated, and the copies with it: one that is recreated in {writer} begins from what \
                 the template and the pin say, and {known}"
            ),
            "check from which state it runs; if it must be another one, name that in the template",
        ));
    }

    /// The workload was deleted in the midst of a failover: the pin stays until no copy is left that could go on.
    fn dissolve(&mut self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let flight = journal.flight.as_ref();
        let mut copies: Vec<ClusterName> = journal.clusters.iter().chain(&journal.writer).cloned().collect();
        copies.extend(flight.into_iter().filter_map(|flight| flight.to.clone()));
        copies.extend(self.around().plane.works.get()?.keys().cloned());
        copies.extend(self.status.old_copies.keys().cloned());
        let from = self.flight()?.from.clone();
        copies.retain(|cluster| *cluster != from);
        copies.sort_unstable();
        copies.dedup();
        self.note_doubt(&from)?;
        let marker = self.marker()?;
        for cluster in std::iter::once(&from).chain(&copies) {
            match self.harmless(cluster, &marker)? {
                Ok(_) => {}
                Err(crate::intent::proof::NotProved::Unknown(why)) if *cluster == from => {
                    return Err(self.unreachable(&from, &why)?);
                }
                Err(crate::intent::proof::NotProved::Unknown(why)) => {
                    return Err(self.vouch_for_old(cluster, &why));
                }
                // Whoever deletes the workload with the belt on deletes no copy.
                Err(_) if self.is_dropped(cluster) => {
                    return Err(Interrupt::Wait(format!(
                        "manual intervention required: the workload was deleted during the operation, and Karmada left its copy in {cluster}: \
                         delete it there"
                    )));
                }
                Err(why) => {
                    return Err(Interrupt::Wait(format!(
                        "the workload was deleted; its copies to be removed: {why}"
                    )));
                }
            }
        }
        let why = "the workload was deleted";
        self.journal_mut()?.ending = Some(why.to_owned());
        self.enter(Phase::Disarming, vec![why.to_owned()]);
        Err(Interrupt::Requeue)
    }
}
