//! The guard is taken off: in an order in which the running copy isn't touched.

use super::{Machine, Phase, Stop};
use crate::api::MARKER_ANNOTATION;
use crate::intent::fight::removal_changes;
use crate::intent::token;

impl Machine<'_> {
    /// The pin goes when the running copy is the same without it, then the claim.
    pub(super) fn disarming(&mut self) -> Result<(), Stop> {
        let why = self.journal()?.ending.clone().unwrap_or_default();
        self.remove_canary()?;
        if !self.journal()?.unpinning {
            self.changes_nothing()?;
            self.journal_mut()?.unpinning = true;
            return Err(Stop::Again);
        }
        // Where the API server refuses Works without the marker of a claim, the claim says first that there will be none.
        if let Some(claim) = self.world().claim.get()?
            && claim.spec.owner.uid == self.input.uid
            && !claim.spec.marker.is_empty()
        {
            self.claim()?;
        }
        token::unpin(self.world().pin.get()?.as_ref())?;
        self.runs_on_unmarked()?;
        token::give_up(self.world().claim.get()?.as_ref(), self.input.uid)?;
        self.status.old_copies.clear();
        let evidence = vec![format!("{why}; no pin, no claim is left")];
        let begins_anew = !self.input.deleting && !self.input.spec.abort;
        self.status.journal = None;
        if begins_anew {
            self.enter(Phase::Pending, evidence);
        } else {
            self.end(Phase::Completed, evidence);
        }
        Err(Stop::Again)
    }

    /// Without the pin every copy that is left gets what it has: the writer's, as long as no other is listed.
    fn changes_nothing(&self) -> Result<(), Stop> {
        let (Some(template), Some(pin)) = (self.world().template.get()?, self.world().pin.get()?) else {
            return Ok(());
        };
        let writer = self.writer()?;
        if self.listed()? != [writer.clone()] {
            return Err(Stop::Wait(format!(
                "the binding to list {writer} alone: the pin keeps the others from running"
            )));
        }
        let clusters = self.world().clusters.get()?;
        let Some(cluster) = clusters.get(&writer) else {
            return Err(Stop::Wait(format!("{writer} is not joined")));
        };
        let all = self.world().overrides.get()?;
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
        if changes.map_err(|error| Stop::Wait(error.to_string()))? {
            return Err(Stop::Wait(format!(
                "{writer} would change if the pin were removed: the template must catch up first"
            )));
        }
        Ok(())
    }

    fn runs_on_unmarked(&self) -> Result<(), Stop> {
        let works = self.world().works.get()?;
        let Some(writer) = &self.journal()?.writer else {
            return Ok(());
        };
        match works.get(writer) {
            Some(work) if work.manifest_annotation(MARKER_ANNOTATION).is_some() => {
                Err(Stop::Wait(format!("{writer}: the Work still carries the marker")))
            }
            _ => Ok(()),
        }
    }
}
