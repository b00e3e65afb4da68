//! Waves: what of a revision has its turn, and what still waits for the health of what comes before it.
//!
//! Only what a revision changes waits. What it leaves as it is is put right at any time, and a wait that takes too long
//! is a problem that is told, never a reason to go on: it ends by health, or by another revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::report::{ObjectResult, Wait};
use super::standing::PendingObjects;
use cutover_cluster::Observer;
use cutover_core::plan::{Place, binding_of, health};
use cutover_karmada::name::ObjectKey;

/// How long the deletion of an object may take before that counts as a problem.
const GONE_WITHIN: Duration = Duration::from_mins(5);

/// What waits, and for how long already.
#[derive(Debug, Default)]
pub(super) struct Waves {
    /// How long a wave waits; `None`: they don't.
    wait: Option<Duration>,
    /// What revisions have changed, and that is not in sync since; only if something can make it wait.
    pub(super) pending: BTreeSet<ObjectKey>,
    /// Objects that are there and not healthy, and what is missing; only if waves wait.
    unhealthy: BTreeMap<ObjectKey, (Place, String)>,
    since: BTreeMap<Reason, Since>,
    /// The uids of objects that were deleted to be created anew: a cache may show them a while longer.
    leaving: BTreeMap<ObjectKey, String>,
}

/// For whose sake something waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Wave(Place),
    /// Other syncs.
    Syncs,
    Gone(ObjectKey),
}

#[derive(Clone, Copy, Debug)]
struct Since {
    at: Timestamp,
    steady: Instant,
}

impl Since {
    fn now() -> Self {
        Self {
            at: Timestamp::now(),
            steady: Instant::now(),
        }
    }

    fn wait(self, what: String, limit: Option<Duration>) -> Arc<Wait> {
        Arc::new(Wait {
            what,
            since: self.at,
            until: limit.and_then(|limit| self.at.checked_add(limit).ok()),
            overdue: limit.is_some_and(|limit| self.steady.elapsed() >= limit),
        })
    }
}

impl Waves {
    pub(super) fn new(wait: Option<Duration>) -> Self {
        Self {
            wait,
            ..Self::default()
        }
    }

    /// Returns whether anything is to be known of health.
    pub(super) const fn care(&self) -> bool {
        self.wait.is_some()
    }

    /// Begins with a new revision: whatever waits, waits anew.
    pub(super) fn begin(&mut self) {
        self.since.retain(|reason, _| matches!(reason, Reason::Gone(_)));
    }

    /// Forgets an object that Git doesn't mention any more.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.pending.remove(key);
        self.unhealthy.remove(key);
        self.since.remove(&Reason::Gone(key.clone()));
        self.leaving.remove(key);
    }

    /// Judges an object as it is now.
    pub(super) fn judge(&mut self, key: &ObjectKey, place: Place, live: Option<&Value>, observer: &Observer) {
        if !self.care() {
            return;
        }
        let binding = || observer.get(&binding_of(key)?);
        match live.and_then(|live| health(live, binding).missing()) {
            Some(why) => {
                self.unhealthy.insert(key.clone(), (place, why));
            }
            None => {
                self.unhealthy.remove(key);
            }
        }
    }

    /// Returns what is applied and not healthy.
    pub(super) fn unhealthy(&self) -> BTreeMap<ObjectKey, String> {
        let told = self
            .unhealthy
            .iter()
            .map(|(key, (_, why))| (key.clone(), why.clone()));
        told.collect()
    }

    /// Returns what a place has to wait for; `None` when it is its turn.
    pub(super) fn gate(&mut self, place: Place, standing: &PendingObjects) -> Option<Arc<Wait>> {
        let limit = self.wait?;
        let failed = standing
            .before(place)
            .map(|(key, report)| format!("{key}: {}", stands(&report.result)));
        let unhealthy = self
            .unhealthy
            .iter()
            .filter(|(_, (there, _))| place.waits_for(*there))
            .map(|(key, (_, why))| format!("{key}: {why}"));
        // What is ill is the cause of what waits, and is told first.
        let mut all = unhealthy.chain(failed);
        let first = all.next();
        let more = all.count();
        let Some(first) = first else {
            self.since.remove(&Reason::Wave(place));
            return None;
        };
        let what = match more {
            0 => first,
            more => format!("{first}, and {more} more"),
        };
        Some(self.waits(Reason::Wave(place), what, Some(limit)))
    }

    /// Returns the wait for other syncs; what they lack is given, if anything.
    pub(super) fn syncs(&mut self, lacking: Option<String>) -> Option<Arc<Wait>> {
        let Some(what) = lacking else {
            self.since.remove(&Reason::Syncs);
            return None;
        };
        Some(self.waits(Reason::Syncs, what, None))
    }

    /// An object was deleted to be created anew.
    pub(super) fn leaves(&mut self, key: &ObjectKey, uid: String) {
        self.leaving.insert(key.clone(), uid);
    }

    /// Returns the wait for an object to be gone, so that it can be created anew; `None` when it isn't being deleted.
    pub(super) fn going(&mut self, key: &ObjectKey, live: Option<&Value>) -> Option<Arc<Wait>> {
        let leaves = |live: &&Value| {
            live.pointer("/metadata/deletionTimestamp").is_some()
                || self
                    .leaving
                    .get(key)
                    .is_some_and(|uid| live["metadata"]["uid"] == **uid)
        };
        let reason = Reason::Gone(key.clone());
        let Some(live) = live.filter(leaves) else {
            self.since.remove(&reason);
            self.leaving.remove(key);
            return None;
        };
        let finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array);
        let finalizers: Vec<&str> = finalizers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let what = match finalizers.as_slice() {
            [] => "its own deletion, to be recreated".to_owned(),
            names => format!(
                "its own deletion, to be recreated (finalizers: {})",
                names.join(", ")
            ),
        };
        Some(self.waits(reason, what, Some(GONE_WITHIN)))
    }

    /// Returns when the next wait is overdue, if none is awaited for ever.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let deadline = |(reason, since): (&Reason, &Since)| {
            let limit = match reason {
                Reason::Wave(_) => self.wait?,
                Reason::Gone(_) => GONE_WITHIN,
                Reason::Syncs => return None,
            };
            Some(since.steady + limit)
        };
        let now = Instant::now();
        self.since
            .iter()
            .filter_map(deadline)
            .filter(|at| *at > now)
            .min()
    }

    fn waits(&mut self, reason: Reason, what: String, limit: Option<Duration>) -> Arc<Wait> {
        self.since
            .entry(reason)
            .or_insert_with(Since::now)
            .wait(what, limit)
    }
}

/// Returns in a few words how an object stands that is not in sync; why is told where it is listed itself.
fn stands(result: &ObjectResult) -> String {
    match result {
        ObjectResult::Applied(_) => "it is not applied".to_owned(),
        ObjectResult::HeldBack { by } => format!("it is held back by {by}"),
        ObjectResult::Blocked { .. } => "it is blocked".to_owned(),
        ObjectResult::Waiting(_) => "it waits itself".to_owned(),
        ObjectResult::Drifted { .. } => "another client has changed it".to_owned(),
        ObjectResult::Contested { .. } => "another client keeps changing it".to_owned(),
    }
}
