//! Migrations that a change of placement sets off: created in place of a write that the gate refuses, and rolled back when Git asks for
//! something else.

use std::sync::Arc;

use serde_json::Value;

use super::Sync;
use super::gate::{Asked, SetOff, list};
use super::successors::Ahead;
use cutover_cluster::{Exactly, Mode, Written};
use cutover_core::api::{self, PolicyName, SYNC_MANAGER};
use cutover_core::config::Migrations;
use cutover_core::error::Error;
use cutover_core::intent::driven::{self, Called, Cause, Driven, MigrationsByWorkload};
use cutover_core::intent::gate::{self, Ground, Refusal};
use cutover_core::plan::Change;
use cutover_karmada::name::{Gvk, ObjectKey, Revision};

use crate::reconcile::intents::served;

const NAMELESS: &str = "a Migration without a name";
/// How many of the Migrations that others wait for are named.
const MOST_NAMED: usize = 3;

impl Sync {
    /// Creates the Migrations that a refused change of a policy calls for, as many as may be under way.
    pub(super) async fn set_off(&self, ground: &Ground, asked: Asked<'_>, refusal: &Refusal) -> SetOff {
        // What Git says by now has its turn when the Migration has ended that carried the earlier placement out.
        if let Some(by) = self.agreed.by(&asked.policy.key()) {
            return SetOff::Under(by.to_owned());
        }
        let Some(own) = self.source.selection.own() else {
            return SetOff::Nothing(None);
        };
        if let Err(why) = driven::check_automatic(&own.gate.migrations, asked.object, ground, refusal) {
            return SetOff::Nothing(why.map(|why| no_move(&why)));
        }
        let called = self.called_for(ground, asked, refusal, &own.gate.migrations);
        let placed = called.and_then(|called| Ok((self.placing(&called, asked)?, called)));
        let (wanted, called) = match placed {
            Ok(placed) => placed,
            Err(why) => return SetOff::Nothing(Some(no_move(&why))),
        };
        if let Some(why) = self.not_let_go(ground, &called, asked).await {
            return SetOff::Nothing(Some(no_move(&why)));
        }
        let cause = Cause {
            sync: &self.sync_id(&own.name),
            source: &self.source.repo.source(),
            policy: asked.policy,
            wanted: &wanted,
        };
        match self.create_moves(&called, cause, &own.gate.migrations).await {
            Ok(set_off) => set_off,
            Err(why) => SetOff::Nothing(Some(format!(
                "no Migration could be set off for {}: {why}",
                asked.policy.key()
            ))),
        }
    }

    /// Returns the Migrations that a planned change would set off, or why it sets none off; `None`: the settings don't ask for it.
    pub(super) fn planned_moves(
        &self,
        ground: &Ground,
        write: &gate::Write,
        change: &Change,
        refusal: &Refusal,
    ) -> Result<Vec<Value>, Option<String>> {
        let (gate::Write::Policy(policy, spec), Some(own)) = (write, self.source.selection.own()) else {
            return Err(None);
        };
        let manifest = spec.as_ref().map_or(&change.before, |_| &change.after);
        let (settings, Some(manifest)) = (&own.gate.migrations, manifest) else {
            return Err(None);
        };
        driven::check_automatic(settings, manifest, ground, refusal)
            .map_err(|why| why.map(|why| no_move(&why)))?;
        let asked = Asked {
            policy,
            spec: spec.as_deref(),
            object: manifest,
        };
        let called = self.called_for(ground, asked, refusal, settings);
        let called = called.map_err(|why| Some(no_move(&why)))?;
        let planned = called.iter().map(|called| driven::planned(called, settings));
        Ok(planned.collect())
    }

    /// Returns what would have a refused change set Migrations off, where nothing but the settings keeps it from that.
    pub(super) fn setting(&self, write: &gate::Write) -> Option<&'static str> {
        let is_policy = matches!(write, gate::Write::Policy(..));
        (is_policy && self.source.selection.own().is_some()).then_some(driven::SETTING)
    }

    pub(super) fn sync_id(&self, name: &str) -> String {
        driven::sync_id(&self.source.repo.source(), name)
    }

    async fn create_moves(
        &self,
        called: &[Called],
        cause: Cause<'_>,
        settings: &Migrations,
    ) -> Result<SetOff, String> {
        // Read afresh: one that was created a moment ago, by another replica too, is not created twice.
        let live: Vec<Value> = list(&self.cluster, api::API_VERSION, "Migration", None).await?;
        let driven = live.iter().filter_map(Driven::of);
        let before: Vec<Driven<'_>> = driven
            .filter(|driven| driven.is_by(cause.sync) && driven.takes_a_turn())
            .collect();
        let (mut under_way, most) = (before.len(), at_once(settings));
        // All or none: where one can't be moved the policy stays, and the others would have been moved for nothing.
        let there = MigrationsByWorkload::of(&live);
        let states = called.iter().map(|called| state_of(&there, called, cause));
        let states = states.collect::<Result<Vec<_>, _>>()?;
        let mut by = None;
        for (called, state) in called.iter().zip(states) {
            if let Some(key) = state {
                by.get_or_insert(key);
                continue;
            }
            if under_way >= most {
                continue;
            }
            match self.create_move(called, cause, settings).await {
                Ok(key) => {
                    by.get_or_insert(key);
                    under_way += 1;
                }
                // Those that are set off hold the policy, and the next look tries again.
                Err(why) if by.is_some() => tracing::warn!(why, "a Migration could not be set off"),
                Err(why) => return Err(why),
            }
        }
        Ok(match by {
            Some(key) => SetOff::Under(key.to_string()),
            None => SetOff::Under(awaited_turn(before)),
        })
    }

    async fn create_move(
        &self,
        called: &Called,
        cause: Cause<'_>,
        settings: &Migrations,
    ) -> Result<ObjectKey, String> {
        let migration = driven::migration(called, cause, settings, jiff::Timestamp::now());
        let created = async {
            let served = served(&self.cluster, &Gvk::new(api::API_VERSION, "Migration")).await?;
            let writer = self.cluster.writer(SYNC_MANAGER);
            Ok::<_, Error>(writer.create(&served, &migration, Mode::Write).await?)
        };
        let key = driven::key_of(&migration).ok_or(NAMELESS)?;
        match created.await.map_err(|error| error.to_string())? {
            Written::Done(_) => {
                tracing::info!(
                    migration = %key, policy = ?cause.policy, from = %called.from, to = %called.to,
                    "a change of placement has set a Migration off"
                );
                Ok(key)
            }
            // The name of another workload's, created in the same second.
            Written::Exists(_) => Err(format!("{key} exists")),
            Written::Precondition(why) => Err(why),
        }
    }

    /// Takes over the Migrations that another sync of this repository and branch has set off, where only this one has their policy in Git by
    /// now: that one was renamed or removed, or the policy has moved to this one. Git has its last word by the sync that has the policy; where
    /// none has it, by the one that deletes it, and without that one by the sync that has the policy that takes the workload up.
    async fn take_moves_over(&mut self, revision: &Revision, id: &str) {
        let all = self.observer.list(api::GROUP, "Migration");
        if self.taken_over(&all, id).is_empty() {
            return;
        }
        self.check_settings(revision).await;
        // Until every other sync has read the commit, another one may have the policy.
        self.moves_in_doubt = self.doubt_elsewhere(revision).is_some();
        if self.moves_in_doubt {
            return;
        }
        for (live, driven) in self.taken_over(&all, id) {
            let told = "this sync has its policy in Git, and says from now on what becomes of the Migration";
            let written = self.change_move(live, &driven, &driven.take_over(id), told).await;
            if let Err(error) = written {
                tracing::warn!(migration = driven.name(), %error, "a Migration cannot be taken over");
            }
        }
    }

    /// Returns the Migrations that this sync is to take over, as far as can be seen of what the others have in Git.
    fn taken_over<'m>(&self, all: &'m [Arc<Value>], id: &str) -> Vec<(&'m Value, Driven<'m>)> {
        let source = self.source.repo.source();
        let driven = all.iter().filter_map(|live| Some((&**live, Driven::of(live)?)));
        let is_ours =
            |driven: &Driven<'_>| driven.may_be_taken_over(id, &source) && self.has_last_word(driven);
        driven.filter(|(_, driven)| is_ours(driven)).collect()
    }

    /// Returns whether this sync, and no other one, has the policy in Git that decides what becomes of a Migration.
    fn has_last_word(&self, driven: &Driven<'_>) -> bool {
        // A sync that is still there has the last word about a policy that it deletes: only it knows that the policy goes.
        let successor = driven.successor.as_ref().filter(|_| !self.is_by_any(driven));
        let policies = [Some(&driven.policy), successor];
        self.has_alone(policies.into_iter().flatten())
    }

    /// Returns whether a sync of the settings has set a Migration off, or has taken it over.
    fn is_by_any(&self, driven: &Driven<'_>) -> bool {
        let syncs = &self.source.selection.config.syncs;
        syncs.iter().any(|sync| driven.is_by(&self.sync_id(&sync.name)))
    }

    /// Returns whether this sync, and no other one, has the first of some policies that is in Git.
    fn has_alone<'p>(&self, policies: impl Iterator<Item = &'p PolicyName>) -> bool {
        let mut wanted = policies.map(|policy| {
            let key = policy.key();
            (self.placed.objects.contains_key(&key), self.siblings.want(&key))
        });
        wanted.find(|(own, other)| *own || *other) == Some((true, false))
    }

    /// Rolls back what Git has overtaken, and what another one of the same workload makes wait. What is committed already stays so.
    pub(super) async fn turn_back_overtaken(&mut self, revision: &Revision) {
        self.moves_in_doubt = false;
        let Some(own) = self.source.selection.own() else {
            return;
        };
        let id = self.sync_id(&own.name);
        self.take_moves_over(revision, &id).await;
        let all = self.observer.list(api::GROUP, "Migration");
        let own: Vec<(&Value, Driven<'_>)> = all
            .iter()
            .filter_map(|live| Some((&**live, Driven::of(live)?)))
            .filter(|(_, driven)| driven.is_by(&id))
            .collect();
        if !own
            .iter()
            .any(|(_, driven)| driven.is_under_way() || driven.has_failed())
        {
            return;
        }
        self.check_settings(revision).await;
        self.moves_in_doubt = self.doubt_elsewhere(revision).is_some();
        let mut ahead = Ahead::new();
        for (live, driven) in &own {
            let waits = || own.iter().any(|(_, other)| driven.comes_after(other));
            let may_turn = driven.is_under_way() && !driven.asks_to_abort();
            let overtaken = if may_turn || driven.has_failed() {
                self.overtaken_by(driven, &mut ahead).await
            } else {
                None
            };
            let written = match overtaken {
                Some(why) if may_turn => self.turn_back(live, driven, why).await,
                Some(why) => {
                    let told = format!("the Migration has ended, and counts no more: {why}");
                    self.change_move(live, driven, &driven.note_overtaken(why), &told)
                        .await
                }
                None if may_turn && waits() => self.turn_back(live, driven, driven::COMES_AFTER).await,
                None => Ok(()),
            };
            if let Err(error) = written {
                tracing::warn!(migration = driven.name(), %error, "what Git has overtaken cannot be changed");
            }
        }
    }

    async fn turn_back(&self, live: &Value, driven: &Driven<'_>, why: &str) -> Result<(), Error> {
        let told = format!("{why}: the Migration is rolled back");
        self.change_move(live, driven, &driven.turn_back(why), &told)
            .await
    }

    async fn change_move(
        &self,
        live: &Value,
        driven: &Driven<'_>,
        patch: &[Value],
        why: &str,
    ) -> Result<(), Error> {
        let served = served(&self.cluster, &Gvk::new(api::API_VERSION, "Migration")).await?;
        let writer = self.cluster.writer(SYNC_MANAGER);
        // As it was read: one that is committed by now isn't asked to turn back.
        let read = Exactly::of(live);
        match writer.patch(&served, &read, patch, Mode::Write).await? {
            Written::Done(written) => {
                if let Some(key) = driven::key_of(live) {
                    self.observer.note(&key, &written);
                }
                tracing::info!(migration = driven.name(), "{why}");
            }
            Written::Precondition(why) => {
                tracing::debug!(migration = driven.name(), why, "a precondition failed");
            }
            Written::Exists(_) => {}
        }
        Ok(())
    }
}

/// Returns which Migration moves a workload as called for; `None`: none does yet. An error if one has failed, or another one is
/// there.
fn state_of(
    there: &MigrationsByWorkload<'_>,
    called: &Called,
    cause: Cause<'_>,
) -> Result<Option<ObjectKey>, String> {
    let answers = |driven: &Driven<'_>| driven.answers(called, cause.wanted);
    if let Some(there) = there.about(called).find(|one| !driven::has_ended(one)) {
        let key = driven::key_of(there).ok_or(NAMELESS)?;
        let is_ours = Driven::of(there).is_some_and(|driven| answers(&driven));
        return match driven::returned_to(there) {
            _ if !is_ours => Err(format!("{key} comes first")),
            Some(source) => Err(format!(
                "{key} gives it back to {source}: push a placement that keeps it there"
            )),
            None => Ok(Some(key)),
        };
    }
    let mut ended = there.about(called).filter_map(Driven::of);
    match ended.find(|driven| driven.has_failed_for(called, cause.wanted)) {
        Some(failed) => Err(format!(
            "{} has not moved it ({}): change the placement, or delete that Migration to try again",
            failed.name(),
            failed.phase()
        )),
        None => Ok(None),
    }
}

/// Returns what a move waits for while as many as may be are under way: those that have stood still longest are named.
fn awaited_turn(mut under_way: Vec<Driven<'_>>) -> String {
    under_way.sort_by_key(|driven| driven.waits_since().map_or((true, ""), |since| (false, since)));
    let mut named: Vec<String> = under_way.iter().take(MOST_NAMED).map(Driven::described).collect();
    let more = under_way.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    format!(
        "Migrations that wait for a turn ({} under way: {})",
        under_way.len(),
        named.join("; ")
    )
}

fn no_move(why: &str) -> String {
    format!("no Migration is set off: {why}")
}

fn at_once(settings: &Migrations) -> usize {
    usize::try_from(settings.max_parallel)
        .unwrap_or(usize::MAX)
        .max(1)
}
