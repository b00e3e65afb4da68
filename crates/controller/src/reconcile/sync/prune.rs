//! Prune: deletes the members of this sync's set that Git doesn't want any more, last things first.
//!
//! Which those are says `members`, what would go along with them `occupied`; whatever is in doubt (`doubt`) keeps
//! everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::decide::held_strays;
use super::pruner::Pruner;
use super::{DEFINITION, LISTED_WITHIN, PruneReport, Sync};
use cutover_cluster::{self as cluster, Deleted, Observer};
use cutover_core::plan::applyset::{Record, part_of};
use cutover_core::plan::{self, Change, Doomed, Pruning, Stop, Stray};
use cutover_karmada::name::{ObjectKey, Revision};

/// How long deleted objects may take to be seen to be gone, before the next ones are left to the next pass.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// How many ranks and waves one pass goes through at most.
const WAVES: usize = 32;

impl Sync {
    /// Deletes what is to go, rank after rank, as far as that goes now.
    pub(super) async fn prune(&mut self, revision: &Revision) -> Option<PruneReport> {
        let mut report = PruneReport::default();
        self.pruner.as_mut()?.due = false;
        self.scan();
        self.look_into_definitions(revision).await;
        for _ in 0..WAVES {
            if self
                .pruner
                .as_ref()
                .is_some_and(|pruner| !pruner.strays.is_empty())
            {
                self.check_settings(revision).await;
            }
            let pruning = self.pruning(revision)?;
            report.update(&pruning);
            self.wait_for_holders(&pruning);
            let next: Vec<Doomed> = pruning.next().cloned().collect();
            if next.is_empty() {
                break;
            }
            if let Err(why) = self.remember_approval(&pruning).await {
                report.stop = Some(Stop::Doubt(why));
                break;
            }
            if !self.delete(next).await {
                break;
            }
        }
        if let Some(pruning) = self.pruning(revision).filter(|_| report.stop.is_none()) {
            report.update(&pruning);
        }
        if report.waiting.is_empty() && report.leaving.is_empty() {
            self.tidy_parent().await;
        }
        let pruner = self.pruner.as_mut()?;
        // What isn't known now may be known when somebody looks again.
        pruner.due |= matches!(report.stop, Some(Stop::Doubt(_)));
        report.deleted.clone_from(&pruner.deleted);
        Some(report)
    }

    /// What an intent holds by now is looked at again as soon as that ends.
    fn wait_for_holders(&mut self, pruning: &Pruning) {
        if let Some(pruner) = &mut self.pruner {
            pruner
                .failed
                .retain(|key, _| !pruning.held_back.contains_key(key));
        }
    }

    /// Decides about what isn't wanted any more. Sends nothing.
    pub(super) fn pruning(&self, revision: &Revision) -> Option<Pruning> {
        let pruner = self.pruner.as_ref()?;
        let strays = self.strays(pruner);
        let keys: BTreeSet<&ObjectKey> = strays.keys().collect();
        let held = held_strays(&self.observer, &self.placed, &strays);
        let found: Vec<Stray<'_>> = strays
            .iter()
            .map(|(key, live)| Stray {
                key: key.clone(),
                live,
                held_by: held
                    .get(key)
                    .map(ToString::to_string)
                    .or_else(|| pruner.moving.of(key).cloned()),
                occupied: pruner
                    .failed
                    .get(key)
                    .cloned()
                    .or_else(|| self.occupied(key, live, &keys)),
            })
            .collect();
        let desired = self.placed.objects.len();
        let approved = pruner.record().map(|record| record.approved.clone());
        let mut pruning = plan::prune(
            &found,
            desired,
            &pruner.limit,
            &approved.unwrap_or_default(),
            self.doubt(pruner, revision),
        );
        // What takes its place may be among what waits.
        let waits = self.standing.has_waiting();
        pruning.pause = waits.then(|| "it goes when nothing of this sync waits any more".to_owned());
        Some(pruning)
    }

    /// Returns what a plan shows of it. Reads, and writes nothing.
    pub(super) async fn deletions(&mut self, revision: &Revision) -> Vec<Change> {
        self.look_for_members().await;
        self.observer.heard(LISTED_WITHIN).await;
        self.scan();
        self.look_beside(revision).await;
        self.look_into_definitions(revision).await;
        self.pruning(revision)
            .map(|pruning| pruning.changes().to_vec())
            .unwrap_or_default()
    }

    /// Lists the objects of definitions that are to go.
    async fn look_into_definitions(&mut self, revision: &Revision) {
        let mut strays = self.pruner.iter().flat_map(|pruner| &pruner.strays);
        if strays.any(|key| key.kind == DEFINITION) {
            // They are watched by being asked about.
            let _ = self.pruning(revision);
            self.observer.heard(LISTED_WITHIN).await;
            self.scan();
        }
    }

    /// Returns whether something about pruning may go better by itself.
    pub(super) fn prune_wants_again(&self) -> bool {
        let last = self.reports.borrow();
        let report = last.as_ref().and_then(|last| last.pruned.as_ref());
        self.pruner
            .as_ref()
            .is_some_and(|pruner| pruner.trouble.is_some())
            || report.is_some_and(|report| {
                !report.blocked.is_empty()
                    || match &report.stop {
                        Some(Stop::Doubt(_)) => !report.waiting.is_empty(),
                        _ => false,
                    }
            })
    }

    /// What somebody approved is written down before the first object goes: a crash must not ask again for the rest.
    async fn remember_approval(&mut self, pruning: &Pruning) -> Result<(), String> {
        let Some(pruner) = &mut self.pruner else {
            return Ok(());
        };
        let approval = pruning.approval();
        let Some(record) = pruner.record().filter(|record| {
            pruner.limit.approve.as_ref() == Some(&approval.hash) && record.approved != approval
        }) else {
            return Ok(());
        };
        let record = Record {
            approved: approval,
            ..record.clone()
        };
        let written = pruner.write(&self.cluster, &record).await;
        if written.is_err() {
            pruner.stale = true;
        }
        written.map_err(|error| error.to_string())
    }

    /// Returns whether all of them are gone, or others have their turn.
    async fn delete(&mut self, mut next: Vec<Doomed>) -> bool {
        let mut gated = self.gated_deletions(&next).await;
        let Some(pruner) = &mut self.pruner else {
            return false;
        };
        let waits = |key: &ObjectKey| gated.moving.contains_key(key) || gated.awaiting.contains_key(key);
        let asked = next.len();
        next.retain(|doomed| !gated.refused.contains_key(&doomed.key) && !waits(&doomed.key));
        let mut all = next.len() == asked;
        pruner.failed.extend(gated.refused);
        pruner.moving.put(gated.moving, Instant::now());
        let uids: BTreeMap<ObjectKey, String> = next
            .iter()
            .map(|doomed| (doomed.key.clone(), doomed.uid.clone()))
            .collect();
        let id = pruner.id.clone();
        let still = |live: &Value| part_of(live) == Some(&id) && plan::protection(live).is_none();
        let outcomes = cluster::delete(&self.cluster, &self.observer, next, still).await;
        all &= outcomes.values().all(|outcome| *outcome == Deleted::Gone);
        // What waited for one of these has its turn.
        let goes = |key: &ObjectKey| matches!(outcomes.get(key), Some(Deleted::Gone | Deleted::Leaving));
        let waiting = gated.awaiting.len();
        gated.awaiting.retain(|_, first| !goes(first));
        let have_turn = gated.awaiting.len() < waiting;
        pruner.moving.wait_for(gated.awaiting, Instant::now());
        let gone = pruner.note_deleted(outcomes, &uids);
        pruner.untidy = true;
        let seen = self
            .observer
            .until(GONE_WITHIN, |observer| {
                !gone.iter().any(|key| is_there(observer, key, uids.get(key)))
            })
            .await;
        let set_aside = !pruner.failed.is_empty() || !pruner.moving.is_empty();
        // What failed is told, and what was spared is looked at anew.
        pruner.due |= !all;
        (all || set_aside || have_turn) && seen
    }
}

impl Pruner {
    /// Takes in what became of deletions; returns what is gone.
    fn note_deleted(
        &mut self,
        outcomes: BTreeMap<ObjectKey, Deleted>,
        uids: &BTreeMap<ObjectKey, String>,
    ) -> BTreeSet<ObjectKey> {
        let mut gone = BTreeSet::new();
        for (key, outcome) in outcomes {
            match outcome {
                Deleted::Gone => {
                    tracing::info!(object = %key, sync = self.sync, "pruned");
                    if let Some(uid) = uids.get(&key) {
                        self.gone.insert(key.clone(), uid.clone());
                    }
                    self.deleted.insert(key.clone());
                    gone.insert(key);
                }
                Deleted::Leaving => {
                    tracing::info!(object = %key, sync = self.sync, "is being pruned");
                    self.deleted.insert(key);
                }
                Deleted::Kept => {}
                Deleted::Failed { message, hint, .. } => {
                    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                    self.failed
                        .insert(key, format!("cannot be deleted: {message}{hint}"));
                }
            }
        }
        gone
    }
}

/// Returns whether an object is still the one of that uid.
fn is_there(observer: &Observer, key: &ObjectKey, uid: Option<&String>) -> bool {
    observer
        .get(key)
        .is_some_and(|live| live["metadata"]["uid"].as_str() == uid.map(String::as_str))
}
