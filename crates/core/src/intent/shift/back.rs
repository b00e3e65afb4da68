//! The way back: first everything runs where it ran, then what came goes.

use super::{Interrupt, Next, Operation};
use crate::intent::effect::{Effect, Exactly};

impl Operation<'_> {
    pub(super) fn roll_back(&mut self) -> Result<Next, Interrupt> {
        let ends_as = match &self.journal()?.back {
            Some(back) => back.ends_as,
            None => {
                return Err(Interrupt::Wait("the journal records no rollback".to_owned()));
            }
        };
        // Before the pin there was, nobody had other replicas than before.
        let pinned = self.journal()?.pin.pinned || self.has_pin()?;
        if !pinned || self.journal()?.pin.unpinning {
            return self.finish(ends_as);
        }
        if !self.journal()?.fence.lowered {
            self.lift_suspension()?;
            self.bring_back()?;
        }
        self.finish(ends_as)
    }

    fn bring_back(&mut self) -> Result<(), Interrupt> {
        let (from, to) = (self.from()?, self.to()?);
        let all = self.at_start(&from)?;
        if self.wanted(&from)? < all {
            self.want(&from, all)?;
            return Err(Interrupt::Requeue);
        }
        self.stand()?;
        self.arrived(&from)?;
        let few = self.at_start(&to)?;
        if self.wanted(&to)? > few {
            self.take(&to, few)?;
            return Err(Interrupt::Requeue);
        }
        self.arrived(&to)?;
        if self.journal()?.expands {
            self.journal_mut()?.expands = false;
            return Err(Interrupt::Requeue);
        }
        Ok(())
    }

    /// Nothing reaches a cluster that is suspended: what this intent has suspended goes on first.
    fn lift_suspension(&self) -> Result<(), Interrupt> {
        if self.journal()?.spec.then.suspend.is_empty() {
            return Ok(());
        }
        let Some(suspension) = self.snapshot().suspension.get()? else {
            return Ok(());
        };
        if !self.is_ours(suspension) {
            return Ok(());
        }
        let name = suspension.metadata.name.clone().unwrap_or_default();
        if suspension.metadata.deletion_timestamp.is_some() {
            return Err(Interrupt::Wait(format!("Suspension {name} to end")));
        }
        Err(Interrupt::Act(vec![Effect::DeleteIntent {
            kind: "Suspension",
            intent: Exactly {
                namespace: suspension.metadata.namespace.clone(),
                name,
                uid: suspension.metadata.uid.clone().unwrap_or_default(),
                resource_version: None,
            },
        }]))
    }
}
