//! The end of a failover: what was kept off Karmada is given back, and the guard goes on around the new writer.

use serde_json::{Value, json};

use super::{Interrupt, Operation, Phase};
use crate::api::{Flight, OldCopy, Relocation};
use crate::intent::binding::is_scheduled;
use crate::intent::fence;
use crate::intent::proof::{Gone, Healthy, NotProved};
use cutover_karmada::PurgeMode;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    pub(super) fn settling(&mut self) -> Result<(), Interrupt> {
        let (from, to) = self.ends()?;
        self.claim()?;
        self.remember_old_copy(&from, &to)?;
        let binding = self.binding()?;
        let fence = &self.journal()?.fence;
        if fence.recorded && !fence.resumed && !binding.spec.scheduling_suspended() {
            // Somebody else has resumed it: what was taken off is put back, and the old copy left out, while nobody moves it.
            return Err(Interrupt::Act(vec![fence::suspend(binding)]));
        }
        if binding.spec.scheduling_suspended() {
            self.failover_stays_off()?;
            self.copies_are_listed(&to)?;
            let stays = std::slice::from_ref(&to);
            self.unbelt(stays)?;
            self.nobody_is_dropped()?;
            let tasks = self.tasks_that_stay(&from)?;
            self.arranged(stays, &tasks, "leave the old copy out")?;
            self.pin()?;
            self.markers()?;
            let marker = self.marker()?;
            match self.prove(&to, &marker, |facts| Healthy::prove(facts, None))? {
                Err(NotProved::Unknown(why)) if self.copy(&to).is_err() => {
                    return Err(self.asks_to_go_back(&from, &to, why)?);
                }
                seen => drop(seen?),
            }
            self.source_leaves(&from, &to)?;
            if let Some(effect) = fence::restored(binding, &self.journal()?.fence) {
                return Err(Interrupt::Act(vec![effect]));
            }
            self.journal_mut()?.fence.resumed = true;
        }
        self.scheduler()?.resume(binding, &self.journal()?.fence)?;
        self.pin()?;
        self.remove_canary()?;
        // The scheduler looks at it again; what it moves meanwhile is a failover of its own.
        let status = binding.status.as_ref();
        let observed = status.map_or(0, |status| status.scheduler_observed_generation);
        let is_scheduled = is_scheduled(binding);
        let stays = self.listed()? == [to.clone()];
        if stays && is_scheduled && observed < binding.metadata.generation.unwrap_or_default() {
            return Err(Interrupt::Wait(
                "the scheduler to look at the resumed binding".to_owned(),
            ));
        }
        self.finish(&from, &to)
    }

    /// Whoever dropped a cluster meanwhile has deleted nothing: the new copy is listed again as it is, before anybody else leaves,
    /// and so is the old one, to go in order.
    fn copies_are_listed(&mut self, to: &ClusterName) -> Result<(), Interrupt> {
        let mut listed = self.listed()?;
        let before = listed.len();
        if !listed.contains(to) {
            listed.push(to.clone());
        }
        let left = self.left_behind(&listed)?;
        let is_kept = |name: &ClusterName| self.status.old_copies.get(name).is_some_and(|old| old.kept);
        listed.extend(left.filter(|name| !is_kept(name)));
        if listed.len() == before {
            return Ok(());
        }
        let tasks = self.tasks_of_old_copies()?;
        self.list_for_a_while(&listed, &tasks)
    }

    /// Karmada deletes nothing that isn't its own: what it has let go of, it takes up first.
    fn nobody_is_dropped(&self) -> Result<(), Interrupt> {
        let listed = self.listed()?;
        match listed.iter().find(|name| self.is_dropped(name)) {
            Some(name) => Err(Interrupt::Wait(format!(
                "{name}: Karmada to take up the copy that it had let go"
            ))),
            None => Ok(()),
        }
    }

    /// It is put back last, when the new copy is well: until then it would evict it.
    fn failover_stays_off(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let recorded = self.journal()?.fence.failover.clone();
        let now = binding.spec.failover.as_ref().map(|failover| json!(failover));
        // What was put back by us, or by Karmada as the policy has it, stays only when everything else is done.
        if now.is_some() && now != recorded {
            let fence = &mut self.journal_mut()?.fence;
            fence.failover = now;
            return Err(Interrupt::Requeue);
        }
        Ok(())
    }

    /// What is left of the old copy is remembered before Karmada is let go.
    pub(super) fn remember_old_copy(
        &mut self,
        from: &ClusterName,
        to: &ClusterName,
    ) -> Result<(), Interrupt> {
        if from == to || self.status.old_copies.contains_key(from) {
            return Ok(());
        }
        let flight = self.flight()?;
        let kept = flight.with_source == Some(true) && flight.purge_mode == Some(PurgeMode::Never);
        let journal = self.journal()?;
        let old = OldCopy {
            attempt: self.status.common.attempt,
            since: self.input.now,
            kept,
            fenced: flight.fenced.clone(),
            identity: journal.identities.get(from).cloned(),
            marker: if kept { Some(self.marker()?) } else { None },
            refuted: flight.refuted,
            purged_by: None,
            fetching_since: None,
        };
        self.status.old_copies.insert(from.clone(), old);
        Err(Interrupt::Requeue)
    }

    /// The eviction tasks that are left on the binding: of copies that the purge mode keeps.
    fn tasks_that_stay(&self, from: &ClusterName) -> Result<Vec<Value>, Interrupt> {
        let mut tasks: Vec<Value> = self.tasks_of_old_copies()?;
        let is_there = tasks.iter().any(|task| task["fromCluster"] == json!(from));
        let kept = self.status.old_copies.get(from).is_some_and(|old| old.kept);
        if kept && !is_there {
            let flight = self.flight()?;
            let mut task = match flight.tasks.get(from) {
                Some(task) => task.clone(),
                None => return Ok(tasks),
            };
            task["suppressDeletion"] = true.into();
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// What can be seen is gone before Karmada is let go; what can't is looked after from then on.
    fn source_leaves(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Interrupt> {
        let kept = self.status.old_copies.get(from).is_some_and(|old| old.kept);
        if from == to || kept {
            return Ok(());
        }
        let marker = self.marker()?;
        match self.prove(from, &marker, Gone::prove)? {
            Ok(_) => Ok(()),
            // The release was proved, the pin stays on, and the copy is among the old ones.
            Err(why) if matches!(why, NotProved::Unknown(_)) || self.copy(from).is_err() => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    fn finish(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let gone = self.prove(from, &marker, Gone::prove)?.is_ok();
        if gone && from != to {
            self.status.old_copies.remove(from);
        }
        let now = self.input.now;
        let attempt = self.status.common.attempt;
        let flight = self.flight()?.clone();
        let record = of_flight(&flight, to, attempt, now);
        let evidence = record.evidence.clone();
        self.status.history.push(record);
        self.trim_history();
        let journal = self.journal_mut()?;
        journal.flight = None;
        journal.clusters.clear();
        self.enter(Phase::Guarding, evidence);
        Err(Interrupt::Requeue)
    }

    pub(super) fn trim_history(&mut self) {
        let keep = usize::try_from(self.input.spec.history.keep.max(1)).unwrap_or(1);
        let excess = self.status.history.len().saturating_sub(keep);
        self.status.history.drain(..excess);
    }
}

pub(super) fn of_flight(flight: &Flight, to: &ClusterName, attempt: u32, now: jiff::Timestamp) -> Relocation {
    let down = flight
        .up_since
        .map(|up| up.duration_since(flight.since).as_millis());
    Relocation {
        what: "Failover".to_owned(),
        attempt,
        at: flight.since,
        finished_at: now,
        from: flight.from.clone(),
        to: to.clone(),
        reason: flight.reason.clone(),
        by: flight.by.clone().or_else(|| flight.fenced.clone()),
        purge_mode: flight.purge_mode,
        state: flight.state.clone(),
        evidence: flight.evidence.clone(),
        downtime_ms: down.and_then(|down| u64::try_from(down).ok()),
    }
}
