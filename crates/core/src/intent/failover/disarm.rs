//! The guard is taken off: in an order in which the running copy isn't touched.

use super::{Interrupt, Operation, Phase};
use crate::intent::custody;
use crate::intent::fight::removal_changes;
use crate::intent::proof::NotProved;

impl Operation<'_> {
    /// The pin goes when the running copy is the same without it and nobody else is let go by it, then the claim.
    pub(super) fn disarming(&mut self) -> Result<(), Interrupt> {
        let why = self.journal()?.ending.clone().unwrap_or_default();
        self.remove_canary()?;
        if !self.journal()?.pin.unpinning {
            self.guards_until_the_end()?;
            self.guests_have_left()?;
            self.changes_nothing()?;
            self.others_are_harmless()?;
            self.journal_mut()?.pin.unpinning = true;
            return Err(Interrupt::Requeue);
        }
        let is_needed = self.has_guests()? || !self.is_lost()? && !self.is_alone()?;
        if self.around().plane.pin.get()?.is_some() && is_needed {
            // Another cluster was listed meanwhile: the pin, which is there, keeps it from running. Or a guest came.
            let state = &mut self.journal_mut()?.pin;
            state.unpinning = false;
            state.repair();
            return Err(Interrupt::Requeue);
        }
        let works = self.around().plane.works.get()?;
        let writer = self.journal()?.writer.as_ref();
        let own = works.iter().filter(|(cluster, _)| Some(*cluster) == writer);
        self.custody()?.take_down(own)?;
        let mut evidence = vec![format!("{why}; no pin, no claim is left")];
        for (cluster, old) in &self.status.old_copies {
            let word = old.fenced.as_ref().map(|by| format!(", {by} vouches for it"));
            evidence.push(format!(
                "{cluster}: the copy that was left there was not seen gone{}; cutover no longer manages it",
                word.unwrap_or_default()
            ));
        }
        let starts_again = !self.input.deleting && !self.input.spec.abort;
        self.status.journal = None;
        if starts_again {
            self.status.old_copies.clear();
            self.enter(Phase::Pending, evidence);
        } else {
            self.end(Phase::Completed, evidence);
        }
        Err(Interrupt::Requeue)
    }

    /// As long as it can't end, it guards: what is moved meanwhile is a failover like any other, and old copies are looked
    /// after.
    fn guards_until_the_end(&mut self) -> Result<(), Interrupt> {
        if self.is_lost()? || !self.is_up()? {
            return Ok(());
        }
        if self.journal()?.flight.is_some() {
            self.enter(Phase::Evicted, vec!["the workload is there again".to_owned()]);
            return Err(Interrupt::Requeue);
        }
        self.claim_is_ours()?;
        self.moved()?;
        self.take_in_guests()?;
        self.token()?;
        self.look_after_old_copies()
    }

    pub(super) fn is_up(&self) -> Result<bool, Interrupt> {
        Ok(self.journal()?.pin.pinned || self.around().plane.pin.get()?.is_some())
    }

    /// Neither template nor binding is there any more: no pin can let anybody go.
    pub(super) fn is_lost(&self) -> Result<bool, Interrupt> {
        Ok(self.around().plane.template.get()?.is_none() && self.around().plane.binding.get()?.is_none())
    }

    /// Returns whether Karmada keeps a copy in the writer's cluster alone.
    fn is_alone(&self) -> Result<bool, Interrupt> {
        let writer = self.journal()?.writer.as_ref();
        let binding = self.around().plane.binding.get()?.as_ref();
        let mut synced = binding.map(custody::synced).unwrap_or_default().into_iter();
        Ok(synced.all(|cluster| Some(&cluster) == writer))
    }

    /// Once the pin is off nobody holds, stops or removes a copy that was left: each is seen harmless before, or somebody
    /// vouches for what can't be seen of it.
    fn others_are_harmless(&mut self) -> Result<(), Interrupt> {
        if self.is_lost()? || !self.is_up()? {
            return Ok(());
        }
        let (writer, marker) = (self.writer()?, self.marker()?);
        for cluster in self.involved()?.iter().filter(|cluster| **cluster != writer) {
            match self.harmless(cluster, &marker)? {
                Ok(_) => {}
                Err(NotProved::Unknown(why)) => return Err(self.vouch_for_old(cluster, &why)),
                Err(NotProved::No(why)) => {
                    return Err(Interrupt::Wait(format!("the pin to hold no copy: {why}")));
                }
            }
        }
        Ok(())
    }

    /// Without the pin every copy that is left gets what it has: the writer's, as long as no other is listed.
    fn changes_nothing(&self) -> Result<(), Interrupt> {
        let (Some(template), Some(pin)) = (
            self.around().plane.template.get()?,
            self.around().plane.pin.get()?,
        ) else {
            return Ok(());
        };
        let writer = self.writer()?;
        if self.listed()? != [writer.clone()] || !self.is_alone()? {
            return Err(Interrupt::Wait(format!(
                "the binding to list {writer} alone: the pin keeps the others from running"
            )));
        }
        let clusters = self.around().plane.clusters.get()?;
        let Some(cluster) = clusters.get(&writer) else {
            return Err(Interrupt::Wait(format!("{writer} is not joined")));
        };
        let all = self.around().plane.overrides.get()?;
        let ignored = &self.journal()?.profile.ignored_on_removal;
        let name = pin.metadata.name.as_deref().unwrap_or_default();
        let changes = removal_changes(
            template,
            cluster,
            all,
            pin.metadata.namespace.as_deref(),
            name,
            ignored,
        );
        if changes.map_err(|error| Interrupt::Wait(error.to_string()))? {
            return Err(Interrupt::Wait(format!(
                "{writer} would change if the pin were removed: the template must catch up first"
            )));
        }
        Ok(())
    }
}
