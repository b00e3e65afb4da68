//! One pass: decides about every object that something happened to, writes what is to be written, and reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::decide::{Decider, Held};
use super::dirty::Dirty;
use super::{LISTED_WITHIN, ObjectReport, ObjectResult, Sync, SyncReport};
use crate::cluster::{self, Outcome, Write};
use crate::error::Error;
use crate::name::{ObjectKey, Revision};
use crate::plan::{Action, Change, ChangeSet, Rank};

impl Sync {
    /// Decides about every object that something happened to, and writes what is to be written.
    pub(super) async fn pass(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        let started_at = Timestamp::now();
        self.observer.heard(LISTED_WITHIN).await;
        self.find_new_kinds(&revision).await;
        self.look_at_intents();
        let keys = std::mem::take(&mut self.dirty);
        let decider = Decider {
            observer: &self.observer,
            placed: &self.placed,
            kinds: &self.kinds,
            held: &self.held,
            settled: &self.settled,
        };
        let plan = ChangeSet::new(Some(revision.clone()), decider.decisions(&keys));
        let mut outcomes = cluster::apply(&self.cluster, Some(&self.observer), self.waves(&plan)).await;
        self.source.locate(&self.placed.objects, &mut outcomes).await;
        // What wasn't sent because the work ends is no news about the objects.
        self.cluster.may_write()?;
        let objects = self.results(&plan, outcomes, &keys);
        let report = Arc::new(SyncReport {
            revision,
            started_at,
            finished_at: Timestamp::now(),
            objects,
            desired: self.placed.objects.len(),
            problems: self.source.problems(),
            orphaned: self.orphaned(),
        });
        self.reports.send_replace(Some(Arc::clone(&report)));
        Ok(report)
    }

    /// A kind that wasn't served may be now: then its objects may belong into another namespace.
    async fn find_new_kinds(&mut self, revision: &Revision) {
        if self.kinds.are_all_known(&self.source.kinds()) {
            return;
        }
        self.find_out_kinds().await;
        self.share(revision);
    }

    /// Finds out what intents hold back, if anything has happened that this depends on.
    fn look_at_intents(&mut self) {
        let may_differ = self.intents_moved || self.held.something_moves;
        if !may_differ && self.held.is_current(&self.observer) {
            return;
        }
        self.intents_moved = false;
        let held = Held::look(&self.observer, &self.placed.objects);
        self.dirty.extend(held.differences(&self.held));
        if held.is_known() && !self.held.is_known() {
            self.dirty.insert_all();
        }
        self.held = held;
    }

    fn waves(&self, plan: &ChangeSet) -> Vec<Vec<Write>> {
        let mut waves: BTreeMap<(Rank, i64), Vec<Write>> = BTreeMap::new();
        for change in &plan.changes {
            if !matches!(change.action, Action::Create | Action::Configure) {
                continue;
            }
            if let Some(entry) = self.placed.objects.get(&change.key) {
                let write = Write {
                    entry: Arc::clone(entry),
                    live: self.observer.version(&change.key),
                };
                waves
                    .entry((Rank::of(&change.gvk), change.wave()))
                    .or_default()
                    .push(write);
            }
        }
        waves.into_values().collect()
    }

    fn results(
        &mut self,
        plan: &ChangeSet,
        mut outcomes: BTreeMap<ObjectKey, Outcome>,
        keys: &Dirty,
    ) -> BTreeMap<ObjectKey, ObjectReport> {
        let mut objects = BTreeMap::new();
        self.standing.retain(|key, _| !keys.contains(key));
        for change in &plan.changes {
            let Some(result) = result(change, outcomes.remove(&change.key)) else {
                continue;
            };
            let report = ObjectReport {
                source: change.source.clone(),
                result,
            };
            if let ObjectResult::Applied(outcome) = &report.result
                && outcome.is_in_sync()
            {
                self.remember(&change.key);
            } else {
                self.standing.insert(change.key.clone(), report.clone());
            }
            objects.insert(change.key.clone(), report);
        }
        for (key, report) in &self.standing {
            objects.entry(key.clone()).or_insert_with(|| report.clone());
        }
        objects
    }

    fn remember(&mut self, key: &ObjectKey) {
        if let (Some(manifest), Some(live)) = (self.placed.objects.get(key), self.observer.get(key)) {
            self.settled.remember(&manifest.manifest(), &live);
        }
    }

    fn orphaned(&self) -> Vec<ObjectKey> {
        if self.source.has_gaps() {
            return Vec::new();
        }
        self.dropped
            .iter()
            .filter(|key| self.observer.contains(key))
            .cloned()
            .collect()
    }
}

fn result(change: &Change, outcome: Option<Outcome>) -> Option<ObjectResult> {
    Some(match (&change.action, outcome) {
        (_, Some(outcome)) => ObjectResult::Applied(outcome),
        (Action::HeldBack { by }, None) => ObjectResult::HeldBack { by: by.clone() },
        (Action::Blocked { reason }, None) => ObjectResult::Blocked {
            reason: reason.clone(),
        },
        (
            Action::Create | Action::Configure | Action::Unchanged | Action::Delete | Action::Recreate { .. },
            None,
        ) => return None,
    })
}
