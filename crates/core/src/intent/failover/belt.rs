//! The belt of a failover (`custody::belt`): on from before the new copy is released until the old one is let go, so that nobody
//! who drops a cluster meanwhile deletes a copy there.
//!
//! While a plan only guards there is none: of a cluster that is lost, Karmada deletes the copy as soon as it is back, and nobody
//! else reaches that as surely.

use serde_json::Value;

use super::{Interrupt, Operation};
use crate::intent::custody::{self, belt};
use cutover_karmada::Work;
use cutover_karmada::name::ClusterName;

impl<'a> Operation<'a> {
    /// The binding lists exactly these clusters: whoever leaves it is deleted, and of all others the copy stays.
    pub(super) fn arrange(
        &mut self,
        clusters: &[ClusterName],
        tasks: &[Value],
        why: &'static str,
    ) -> Result<(), Interrupt> {
        if let Some(left) = self.left_behind(clusters)? {
            return self.list_for_a_while(&[clusters, &[left]].concat(), tasks);
        }
        if self.listed()?.iter().any(|name| !clusters.contains(name)) {
            self.unbelt(clusters)?;
        } else if let Some(belt) = &mut self.journal_mut()?.fence.belt {
            belt::on_again(belt)?;
            self.put_on(clusters)?;
        }
        self.arranged(clusters, tasks, why)
    }

    /// Returns the old cluster where Karmada would leave its copy behind, or has: its Work says still that the copy stays, or is gone
    /// without it.
    pub(super) fn left_behind(&self, stays: &[ClusterName]) -> Result<Option<ClusterName>, Interrupt> {
        let from = &self.flight()?.from;
        let is_out = !stays.contains(from) && !self.listed()?.contains(from);
        if !is_out
            || self.journal()?.fence.belt.is_none()
            || !self.around().plane.clusters.get()?.contains_key(from)
        {
            return Ok(None);
        }
        let work = self.around().plane.works.get()?.get(from);
        let keeps = work.is_some_and(|work| {
            let goes = work.metadata.deletion_timestamp.is_some();
            !goes && work.spec.preserve_resources_on_deletion == Some(true)
        });
        Ok((keeps || work.is_none() && self.is_dropped(from)).then(|| from.clone()))
    }

    /// Clusters that are not to stay are listed again, under the pin, so that Karmada has their copies when they go.
    pub(super) fn list_for_a_while(
        &mut self,
        clusters: &[ClusterName],
        tasks: &[Value],
    ) -> Result<(), Interrupt> {
        if let Some(belt) = &mut self.journal_mut()?.fence.belt {
            belt::on_again(belt)?;
            self.put_on(clusters)?;
        }
        let tasks: Vec<Value> = tasks
            .iter()
            .filter(|task| clusters.iter().all(|name| task["fromCluster"] != name.as_str()))
            .cloned()
            .collect();
        self.arranged(clusters, &tasks, "list again what was dropped")
    }

    /// What leaves the binding next is deleted: no Work that Karmada keeps up to date keeps a copy any more.
    pub(super) fn unbelt(&mut self, stays: &[ClusterName]) -> Result<(), Interrupt> {
        let Some(belt) = &mut self.journal_mut()?.fence.belt else {
            return Ok(());
        };
        belt::take_off(belt)?;
        self.put_on(stays)?;
        let Err(due) = belt::is_off(self.synced_works()?) else {
            return Ok(());
        };
        // Where the API server refuses Works without the claim's marker, none shows anything before the pin has it.
        if let Some(live) = self.around().plane.pin.get()?
            && self.custody()?.is_from_before(live, &self.journal()?.pin)
        {
            self.pin()?;
        }
        Err(due.into())
    }

    /// The binding says what the journal says. A copy that was dropped is taken up as it is, to stay or to be let go in order.
    fn put_on(&mut self, stays: &[ClusterName]) -> Result<(), Interrupt> {
        let Some(belt) = self.journal()?.fence.belt.clone() else {
            return Ok(());
        };
        let binding = self.binding()?;
        if let Some(news) = belt::taken_off(binding, &belt) {
            self.tell(news)?;
        }
        let listed = self.listed()?;
        let takes_up = listed.iter().chain(stays).any(|name| self.is_dropped(name));
        match &mut self.journal_mut()?.fence.belt {
            Some(belt) => Ok(belt::put_on(binding, belt, takes_up)?),
            None => Ok(()),
        }
    }

    /// Whoever is released keeps its copy, whatever becomes of the binding: its Work says so.
    pub(super) fn belt_is_shown(&mut self) -> Result<(), Interrupt> {
        let works = self.synced_works()?;
        match &mut self.journal_mut()?.fence.belt {
            Some(belt) => Ok(belt::is_shown(belt, works)?),
            None => Ok(()),
        }
    }

    /// Returns whether Karmada has let go of the copy in a cluster, which runs on as it was.
    pub(super) fn is_dropped(&self, cluster: &ClusterName) -> bool {
        let copy = self.copy(cluster).ok().flatten();
        copy.is_some_and(|copy| belt::is_dropped(copy, self.input.uid))
    }

    /// The Works that Karmada brings up to date; it leaves as it is what it evicts.
    fn synced_works(&self) -> Result<Vec<(&'a ClusterName, &'a Work)>, Interrupt> {
        let synced = custody::synced(self.binding()?);
        let works = self.around().plane.works.get()?;
        Ok(works.iter().filter(|(name, _)| synced.contains(name)).collect())
    }
}
