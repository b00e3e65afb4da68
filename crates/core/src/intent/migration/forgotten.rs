//! What Karmada has lost sight of: a Work that somebody deleted, which it makes anew only with the next change, and a copy
//! without a Work, which it doesn't delete.

use jiff::SignedDuration;
use serde_json::Value;

use super::roll_back::PATIENCE;
use super::{Interrupt, Operation, go_back};
use crate::api::{Fact, MARKER_ANNOTATION};
use crate::intent::custody::belt::is_karmadas;
use crate::intent::proof::{Gone, NotProved};
use cutover_karmada::name::ClusterName;

/// How often a copy is listed again, to be removed once more, before a person is asked; and how long that may take.
const TRIES: u32 = 3;
const FETCH: SignedDuration = SignedDuration::from_mins(1);

impl Operation<'_> {
    /// Decides what follows from a missing Work: after a while the pin is renewed, and with it every Work is made anew.
    pub(super) fn no_work(&mut self, cluster: &ClusterName) -> Result<(), Interrupt> {
        let missing = format!("{cluster}: no Work yet");
        let is_joined = self.snapshot().plane.clusters.get()?.contains_key(cluster);
        let is_shown_elsewhere = !self.snapshot().plane.works.get()?.is_empty();
        let (source, _) = self.ends()?;
        if *cluster == source
            && let Some(why) = self.has_left_alone(cluster)?
        {
            let by = self.has_nothing_running(cluster, &why)?;
            return Err(go_back(format!(
                "Karmada has dropped {cluster}, and {by} vouches that nothing runs there"
            )));
        }
        if !is_joined
            && is_shown_elsewhere
            && let Some(why) = self.unseen(cluster)?
        {
            return Err(self.dropped_unseen(cluster, &why));
        }
        let would_lose = self.would_run_from_nothing(cluster)?;
        let question = would_lose.then(|| {
            format!(
                "manual intervention required: {missing}, another client deleted it and the copy with it, and no state handle was taken: a \
                 person can let it start from nothing ({})",
                self.offer_at(Fact::FromNothing, cluster, format!("all the state that {cluster} had"))
            )
        });
        if let Some(question) = &question
            && self.waits_since(question).is_some()
        {
            return Err(Interrupt::Wait(question.clone()));
        }
        if !is_joined || !self.has_waited(&missing, PATIENCE) {
            return Err(Interrupt::Wait(missing));
        }
        if let Some(question) = question {
            let back = self.committed() || self.journal()?.roll_back.is_some();
            return Err(if back {
                Interrupt::Wait(question)
            } else {
                go_back(format!("{cluster}: the Work was deleted by another client"))
            });
        }
        let journal = self.journal_mut()?;
        journal.pin.renew();
        self.status.common.waiting_for = None;
        Err(Interrupt::Requeue)
    }

    /// Returns whether a writer's new Work would let it begin without the state that it had.
    fn would_run_from_nothing(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        let is_writer = journal.writer.as_ref() == Some(cluster) && journal.profile.stateful;
        if !is_writer || journal.captured.is_some() || self.assumed(Fact::FromNothing, cluster).is_some() {
            return Ok(false);
        }
        Ok(*cluster != journal.source || !self.source_is_intact()?)
    }

    /// Nothing is left of the workload in a cluster that the binding lists no more. What Karmada has forgotten there is listed
    /// again first, held, so that it has a Work which can be deleted; what isn't Karmada's, or comes back, is a person's.
    pub(super) fn is_gone(&mut self, drop: &ClusterName) -> Result<(), Interrupt> {
        let Err(why) = self.prove(drop, Gone::prove)? else {
            self.journal_mut()?.fetched = 0;
            return Ok(());
        };
        let Some(copy) = self.forgotten(drop)? else {
            return self.vouched_for(drop, why);
        };
        // An object of that name that somebody else made in the target has nothing to do with the move.
        if self.is_foreign(drop, copy)? {
            return Ok(());
        }
        let is_karmadas = is_karmadas(copy) || self.is_ours(copy);
        if !is_karmadas || self.journal()?.fetched >= TRIES {
            return Err(Interrupt::Wait(format!(
                "{why}, and Karmada, which has no Work of it, does not remove it: a person must delete it in {drop}"
            )));
        }
        if !self.has_waited(&why.to_string(), PATIENCE) {
            return Err(why.into());
        }
        let now = self.input.now;
        let journal = self.journal_mut()?;
        journal.fetched += 1;
        journal.fetching_since = Some(now);
        // It has to stand for this as it did before.
        if journal.fence.lowered {
            journal.fence.lowered = false;
            journal.fence.resumed = false;
            journal.fence.barrier = None;
            journal.fence.canary += 1;
        }
        Err(Interrupt::Requeue)
    }

    /// Returns the copy of which there is no Work, where it isn't on its way out.
    pub(super) fn forgotten(&self, cluster: &ClusterName) -> Result<Option<&Value>, Interrupt> {
        if self.snapshot().plane.works.get()?.contains_key(cluster) {
            return Ok(None);
        }
        let copy = self
            .snapshot()
            .member(cluster)?
            .object
            .get()
            .ok()
            .and_then(Option::as_ref);
        Ok(copy.filter(|copy| copy.pointer("/metadata/deletionTimestamp").is_none()))
    }

    /// Nobody sees into a cluster that can't be reached: a person may know more of it.
    pub(super) fn vouched_for(&self, drop: &ClusterName, why: NotProved) -> Result<(), Interrupt> {
        let is_seen = self.snapshot().member(drop)?.object.get().is_ok();
        if is_seen && matches!(why, NotProved::No(_)) {
            return Err(why.into());
        }
        if self.assumed(Fact::Stopped, drop).is_some() {
            return Ok(());
        }
        let unseen = if is_seen {
            String::new()
        } else {
            format!("{drop} cannot be observed; ")
        };
        Err(Interrupt::Wait(format!(
            "{why}; {unseen}if you know that no copy runs in {drop}, confirm it ({})",
            self.offer(Fact::Stopped, drop)
        )))
    }

    /// Lists a forgotten copy again until it is seen to carry the pin's hold; then it is taken out once more.
    pub(super) fn fetch(&mut self, keep: &ClusterName, drop: &ClusterName) -> Result<(), Interrupt> {
        let Some(since) = self.journal()?.fetching_since else {
            return Ok(());
        };
        let both = [keep.clone(), drop.clone()];
        if self.journal()?.clusters != both {
            self.journal_mut()?.clusters = both.to_vec();
            return Err(Interrupt::Requeue);
        }
        let pin = self.compile()?;
        let in_force = self.snapshot().plane.pin.get()?.as_ref();
        let is_listed = self
            .binding()?
            .spec
            .clusters
            .iter()
            .any(|cluster| cluster.name == *drop);
        // A pin that others touched is repaired where only one cluster can be let go by that.
        let is_safe = match in_force {
            _ if !is_listed => true,
            Some(live) => pin.is_written_as(live) || self.is_ours_from_before(live)?,
            None => false,
        };
        let has_time = self.input.now.duration_since(since) < FETCH;
        if !is_safe || !has_time || self.carries_the_hold(drop)? {
            let journal = self.journal_mut()?;
            journal.fetching_since = None;
            journal.clusters = vec![keep.clone()];
            return Err(Interrupt::Requeue);
        }
        self.claim()?;
        self.renew_barrier()?;
        self.fence()?;
        self.listed(&both, "list a copy again that Karmada has forgotten")?;
        self.token()?;
        Err(Interrupt::Wait(format!(
            "{drop}: the forgotten copy to carry the hold"
        )))
    }

    fn carries_the_hold(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let held = self.prove(cluster, |facts| {
            let copy = facts.member.object.get()?.as_ref();
            Ok(copy.is_some_and(|copy| {
                let annotations = copy.pointer("/metadata/annotations");
                let marker = annotations.and_then(|all| all.get(MARKER_ANNOTATION)?.as_str());
                let has_work = facts.works.contains_key(cluster);
                has_work && marker == Some(facts.marker) && facts.profile.carries_hold(copy, cluster)
            }))
        })?;
        Ok(held.unwrap_or(false))
    }
}
