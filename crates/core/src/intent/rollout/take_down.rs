//! The end: the pin comes down where it changes nothing any more, and the claim is given up.

use super::{Interrupt, Operation, Phase};
use crate::intent::custody;
use crate::intent::fight::{change_matters, removal_changes};
use crate::intent::pin;

impl Operation<'_> {
    pub(super) fn finishing(&mut self) -> Result<(), Interrupt> {
        if !self.journal()?.pin.unpinning {
            self.hold()?;
            self.template_is_applied()?;
            self.works_are_current()?;
            self.nobody_joined()?;
            self.removal_changes_nothing()?;
            self.journal_mut()?.pin.unpinning = true;
            return Err(Interrupt::Requeue);
        }
        self.leave(&custody::synced(self.binding()?))?;
        self.settle()
    }

    /// A cluster that came in the last moment has its turn, too.
    fn nobody_joined(&mut self) -> Result<(), Interrupt> {
        if self.journal()?.undoing.is_some() || !self.is_pinned()? {
            return Ok(());
        }
        let seen = self.judge()?;
        let all = custody::synced(self.binding()?);
        if all.iter().all(|cluster| seen.good.contains(cluster)) {
            return Ok(());
        }
        self.enter(Phase::Rolling, vec!["a cluster isn't good yet".to_owned()]);
        Err(Interrupt::Requeue)
    }

    /// Shown by the effective manifest: with and without the pin each cluster gets the same.
    fn removal_changes_nothing(&self) -> Result<(), Interrupt> {
        let template = self.template()?;
        let (clusters, all) = (
            self.snapshot().plane.clusters.get()?,
            self.snapshot().plane.overrides.get()?,
        );
        let name = pin::name(self.workload());
        let rules = &self.journal()?.rules;
        let guest = self.guest()?;
        let left = guest.map(|guest| guest.pin_without(rules)).transpose()?;
        for cluster in custody::synced(self.binding()?) {
            let Some(known) = clusters.get(&cluster) else {
                continue;
            };
            let namespace = self.workload().namespace.as_deref();
            let changes = match &left {
                Some(left) => change_matters(template, known, all, left, &[]),
                None => removal_changes(template, known, all, namespace, &name, &[]),
            };
            if changes.map_err(|error| Interrupt::Wait(error.to_string()))? {
                return Err(Interrupt::Wait(format!(
                    "{cluster} would change if the pin were removed: the template must catch up first"
                )));
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let (target, undoing) = (journal.target.clone(), journal.undoing.clone());
        let now = self.input.now;
        if undoing.is_none()
            && let Some(revision) = self
                .status
                .revisions
                .iter_mut()
                .find(|known| known.name == target)
        {
            revision.completed_at = Some(now);
            revision.undone = None;
        }
        self.status.stable = Some(target.clone());
        self.status.target = Some(target);
        self.status.clusters.clear();
        self.status.journal = None;
        self.trim();
        let end = if self.status.held_back.is_some() {
            Phase::Undone
        } else {
            Phase::Completed
        };
        self.status.phase = end;
        let evidence = undoing
            .into_iter()
            .chain(["no pin and no claim is left".to_owned()]);
        self.status.common.end(evidence.collect(), now);
        Err(Interrupt::Requeue)
    }

    /// The template that this was about is gone, or is another one.
    pub(super) fn is_lost(&self) -> Result<bool, Interrupt> {
        let Some(template) = self.snapshot().plane.template.get()? else {
            return Ok(true);
        };
        Ok(template["metadata"]["uid"] != self.journal()?.template_uid.as_str())
    }

    /// Whatever is there now begins anew.
    pub(super) fn dissolve(&mut self) -> Result<(), Interrupt> {
        if !self.journal()?.pin.unpinning {
            self.journal_mut()?.pin.unpinning = true;
            return Err(Interrupt::Requeue);
        }
        // The Works go with the template that was.
        self.leave(&[])?;
        self.status.journal = None;
        self.status.clusters.clear();
        self.status.updated = None;
        self.status.phase = Phase::Pending;
        let evidence = vec!["the template was deleted: the next one starts a new rollout".to_owned()];
        self.status.common.end(evidence, self.input.now);
        Err(Interrupt::Requeue)
    }
}
