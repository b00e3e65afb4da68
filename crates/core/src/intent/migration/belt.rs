//! The belt of a migration (`custody::belt`): on before the target is listed, off before the copy goes that is to go.

use serde_json::Value;

use super::{Interrupt, Operation, Phase, go_back};
use crate::intent::custody::belt::{self, is_karmadas};
use crate::intent::proof::Gone;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// The binding says what the journal says of the belt. What takes it off in mid-flight is told.
    pub(super) fn belt(&mut self) -> Result<(), Interrupt> {
        let Some(belt) = self.journal()?.fence.belt.clone() else {
            return Ok(());
        };
        let binding = self.binding()?;
        if let Some(news) = belt::taken_off(binding, &belt)
            && self.raise(news)
        {
            return Err(Interrupt::Requeue);
        }
        let takes_up = self.journal()?.clusters.iter().any(|name| self.is_dropped(name));
        match &mut self.journal_mut()?.fence.belt {
            Some(belt) => Ok(belt::put_on(binding, belt, takes_up)?),
            None => Ok(()),
        }
    }

    pub(super) fn belt_is_shown(&mut self) -> Result<(), Interrupt> {
        let works = self.snapshot().plane.works.get()?;
        match &mut self.journal_mut()?.fence.belt {
            Some(belt) => Ok(belt::is_shown(belt, works)?),
            None => Ok(()),
        }
    }

    /// It was taken off for a copy that was to go, and both have one again.
    pub(super) fn belt_again(&mut self) -> Result<(), Interrupt> {
        if self.committed() {
            return Ok(());
        }
        match &mut self.journal_mut()?.fence.belt {
            Some(belt) => Ok(belt::on_again(belt)?),
            None => Ok(()),
        }
    }

    /// The copy that leaves the binding next is deleted: no Work keeps it any more.
    pub(super) fn unbelt(&mut self) -> Result<(), Interrupt> {
        let Some(belt) = &mut self.journal_mut()?.fence.belt else {
            return Ok(());
        };
        belt::take_off(belt)?;
        let Err(due) = belt::is_off(self.snapshot().plane.works.get()?) else {
            return Ok(());
        };
        // Where the API server refuses Works without the claim's marker, none shows anything before the pin has it.
        if let Some(live) = self.snapshot().plane.pin.get()?
            && self.is_ours_from_before(live)?
        {
            self.pin()?;
        }
        Err(due.into())
    }

    /// A cluster is listed only under the pin in force, seen on a Work of the controllers that are at work, so that no cache
    /// can compute a Work for it without; and with the belt on. Whoever has the token is not listed for a copy that is lost or
    /// about to be: it would begin from nothing.
    pub(super) fn may_list(&mut self, added: &[ClusterName]) -> Result<(), Interrupt> {
        self.token()?;
        self.same_controllers()?;
        self.belt_is_shown()?;
        added.iter().try_for_each(|cluster| self.may_come(cluster))
    }

    fn may_come(&self, cluster: &ClusterName) -> Result<(), Interrupt> {
        if let Some(why) = self.unseen(cluster)? {
            return Err(self.dropped_unseen(cluster, &why));
        }
        if self.snapshot().plane.works.get()?.contains_key(cluster) {
            return Err(Interrupt::Wait(format!(
                "{cluster}: the previous Work is still being deleted"
            )));
        }
        let journal = self.journal()?;
        let copy = self.snapshot().member(cluster)?.object.get()?.as_ref();
        if copy.is_some_and(|copy| copy.pointer("/metadata/deletionTimestamp").is_some()) {
            return Err(Interrupt::Wait(format!("{cluster}: the copy is being deleted")));
        }
        if copy.is_some_and(|copy| !is_karmadas(copy) && !self.is_ours(copy)) {
            let foreign = format!("{cluster} has an object of that name which is not Karmada's");
            // On the way back already, it would begin again and again.
            return Err(if self.status.phase == Phase::RollingBack {
                Interrupt::Wait(format!(
                    "manual intervention required: {foreign}: a person must remove it there, after making sure that nothing needs \
                     its state"
                ))
            } else {
                go_back(format!(
                    "{foreign}: remove it there, after making sure that nothing needs its state"
                ))
            });
        }
        let is_tenant = journal.writer.as_ref() == Some(cluster) && journal.profile.stateful;
        let lost = if *cluster == journal.source {
            !self.source_is_intact()?
        } else {
            journal.target_ran && copy.is_none()
        };
        if is_tenant && lost && !journal.committed {
            return Err(go_back(format!(
                "{cluster}: another client took the workload out of it, and the copy is gone"
            )));
        }
        Ok(())
    }

    /// Returns whether Karmada has let a copy of this migration go: it runs on as it was, and nothing reaches it.
    fn is_dropped(&self, cluster: &ClusterName) -> bool {
        let member = self.snapshot().member(cluster).ok();
        let copy = member
            .and_then(|member| member.object.get().ok())
            .and_then(Option::as_ref);
        copy.is_some_and(|copy| belt::is_dropped(copy, self.input.uid))
    }

    /// Whoever listed a cluster that the move knows nothing of has brought a held copy there. Taken out of the binding, it stays
    /// for as long as the belt is on: it is looked at from now on, and goes in the end.
    pub(super) fn note_strays(&mut self, clusters: &[ClusterName]) -> Result<(), Interrupt> {
        let Some(false) = self.journal()?.fence.belt.as_ref().map(|belt| belt.off) else {
            return Ok(());
        };
        let listed = self.binding()?.spec.clusters.iter().map(|cluster| &cluster.name);
        let known = &self.journal()?.identities;
        let strays: Vec<_> = listed
            .filter(|name| !clusters.contains(name) && !known.contains_key(*name))
            .cloned()
            .collect();
        let identities = self.identities(&strays)?;
        if identities.is_empty() {
            return Ok(());
        }
        self.journal_mut()?.identities.extend(identities);
        Err(Interrupt::Requeue)
    }

    /// Returns what is to be gone when one cluster keeps the workload: one that isn't gone yet first.
    pub(super) fn to_be_gone(
        &self,
        keep: &ClusterName,
        drop: &ClusterName,
    ) -> Result<Vec<ClusterName>, Interrupt> {
        let others = self
            .journal()?
            .identities
            .keys()
            .filter(|name| *name != keep && *name != drop);
        let joined = self.snapshot().plane.clusters.get()?;
        let mut all = vec![drop.clone()];
        all.extend(others.filter(|name| joined.contains_key(*name)).cloned());
        let mut gone = Vec::new();
        for cluster in &all {
            gone.push(self.prove(cluster, Gone::prove)?.is_ok());
        }
        let first = gone.iter().position(|gone| !gone).unwrap_or(0);
        all.swap(0, first);
        Ok(all)
    }

    /// Returns whether an object beside the source was never a copy of the workload: those are born under the pin.
    pub(super) fn is_foreign(&self, cluster: &ClusterName, object: &Value) -> Result<bool, Interrupt> {
        let is_source = *cluster == self.journal()?.source;
        Ok(!is_source && !is_karmadas(object) && !self.is_ours(object))
    }

    /// Returns whether a copy has been under the pin of this migration. Karmada takes its own marks off a copy that it lets go.
    pub(super) fn is_ours(&self, copy: &Value) -> bool {
        belt::was_under_pin(copy, self.input.uid)
    }
}
