//! What the Lease of the reconcilers says: whether one is at work, and how its syncs stand.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SyncOverview;
use super::snapshot::is_zero;
use cutover_karmada::name::Revision;

/// Annotation of the Lease: how the syncs of who held it last stand, as the JSON of [`SyncSummaries`].
pub const SYNCS_ANNOTATION: &str = "cutover.dev/syncs";
/// The most that is noted there.
const MOST_SYNCS: usize = 20;
const MOST_BYTES: usize = 4096;

/// How long Git must be unreadable before that is said.
const UNREAD_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// How long a Lease lasts that doesn't say so.
const SECONDS: i64 = 15;

/// Whether a reconciler is at work, and how its syncs stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciler {
    /// When one was at work last; `None`: one is.
    pub(super) idle_since: Option<Timestamp>,
    pub(super) syncs: SyncSummaries,
}

/// How syncs stand, in numbers. Those that have something to report come first where there are too many to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncSummaries {
    pub(super) syncs: Vec<SyncSummary>,
    /// How many more there are.
    #[serde(default)]
    pub(super) more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncSummary {
    pub(super) name: String,
    pub(super) revision: Option<Revision>,
    /// Since when that revision is applied.
    pub(super) since: Option<Timestamp>,
    pub(super) in_sync: usize,
    pub(super) held_back: usize,
    pub(super) waiting: usize,
    pub(super) problems: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) pruning: usize,
    /// Since when Git can't be read: what is said of it is from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unread_since: Option<Timestamp>,
}

impl SyncSummary {
    /// Sums up a sync; `since`: the time from which on its revision is applied.
    pub fn of(sync: &SyncOverview, since: Option<Timestamp>) -> Self {
        let waiting = sync.waiting.iter().filter(|wait| !wait.overdue);
        Self {
            name: sync.name.clone(),
            revision: sync.revision.clone(),
            since,
            in_sync: sync.in_sync,
            held_back: sync.held_back.len(),
            waiting: waiting.map(|wait| wait.objects.len()).sum(),
            problems: sync.problems.len(),
            pruning: sync.pruning,
            unread_since: None,
        }
    }

    #[must_use]
    pub fn unread_since(self, unread_since: Option<Timestamp>) -> Self {
        Self { unread_since, ..self }
    }

    /// Returns whether everything of it is in sync.
    pub(super) const fn is_clean(&self) -> bool {
        let is_all = self.revision.is_some() && self.unread_since.is_none();
        let is_done = self.waiting == 0 && self.pruning == 0;
        is_all && is_done && self.held_back == 0 && self.problems == 0
    }
}

impl SyncSummaries {
    /// Sums up as many as fit into an annotation.
    pub fn new(mut syncs: Vec<SyncSummary>) -> Self {
        let all = syncs.len();
        if all > MOST_SYNCS {
            syncs.sort_by_key(SyncSummary::is_clean);
            syncs.truncate(MOST_SYNCS);
        }
        let mut summaries = Self { syncs, more: 0 };
        summaries.more = all - summaries.syncs.len();
        while summaries.text().len() > MOST_BYTES && summaries.syncs.pop().is_some() {
            summaries.more += 1;
        }
        summaries
    }

    /// Returns what is noted on the Lease.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Reconciler {
    /// Reads a Lease as it is now. One that nobody holds, or that was not renewed for as long as it lasts, is of a reconciler that
    /// works no more. The clock of whoever renewed it counts.
    pub fn of(lease: &Value, now: Timestamp) -> Self {
        let spec = &lease["spec"];
        let is_held = spec["holderIdentity"]
            .as_str()
            .is_some_and(|holder| !holder.is_empty());
        let renewed: Option<Timestamp> = spec["renewTime"].as_str().and_then(|text| text.parse().ok());
        let lasts = spec["leaseDurationSeconds"].as_i64().unwrap_or(SECONDS);
        let lasts = SignedDuration::from_secs(lasts);
        let is_over = |renewed: &Timestamp| !is_held || now.duration_since(*renewed) > lasts;
        let noted = lease["metadata"]["annotations"][SYNCS_ANNOTATION].as_str();
        let syncs: Option<SyncSummaries> = noted.and_then(|text| serde_json::from_str(text).ok());
        let mut syncs = syncs.unwrap_or_default();
        for sync in &mut syncs.syncs {
            // A server that doesn't answer once is asked again soon.
            let lasts = |since: &Timestamp| now.duration_since(*since) >= UNREAD_AFTER;
            sync.unread_since = sync.unread_since.filter(lasts);
        }
        Self {
            idle_since: renewed.filter(is_over),
            syncs,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reconciler_is_at_work_while_its_lease_is_held_and_renewed() {
        let renewed: Timestamp = "2026-03-01T10:00:00.5Z".parse().unwrap();
        let idle = |holder: Value, seconds: i64| {
            let lease = json!({"spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-03-01T10:00:00.500000Z",
            }});
            Reconciler::of(&lease, renewed + SignedDuration::from_secs(seconds)).idle_since
        };
        assert_eq!(idle(json!("pod_1"), 15), None);
        assert_eq!(idle(json!("pod_1"), 16), Some(renewed));
        assert_eq!(idle(Value::Null, 1), Some(renewed), "it was given back");
        assert_eq!(Reconciler::of(&json!({}), renewed), Reconciler::default());
    }

    fn sync(number: usize) -> SyncSummary {
        SyncSummary {
            name: format!("sync-{number}"),
            revision: "0123456789abcdef0123456789abcdef01234567".parse().ok(),
            since: "2026-03-01T10:00:00Z".parse().ok(),
            in_sync: 10,
            held_back: 0,
            waiting: 0,
            problems: usize::from(number == 90),
            pruning: 0,
            unread_since: None,
        }
    }

    #[test]
    fn a_moment_in_which_git_does_not_answer_is_no_news() {
        let since: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let noted = SyncSummaries::new(vec![sync(0).unread_since(Some(since))]).text();
        let lease = json!({"metadata": {"annotations": {SYNCS_ANNOTATION: noted}}});
        let read = |seconds| {
            let now = since + SignedDuration::from_secs(seconds);
            Reconciler::of(&lease, now).syncs.syncs[0].unread_since
        };
        assert_eq!((read(59), read(60)), (None, Some(since)));
    }

    #[test]
    fn what_is_noted_of_syncs_is_read_again_and_stays_small() {
        let read = |all: &SyncSummaries| {
            let lease = json!({"metadata": {"annotations": {SYNCS_ANNOTATION: all.text()}}});
            Reconciler::of(&lease, Timestamp::UNIX_EPOCH).syncs
        };
        let few = SyncSummaries::new((0..3).map(sync).collect());
        assert_eq!((few.syncs.len(), few.more), (3, 0));
        assert_eq!(read(&few), few);
        let many = SyncSummaries::new((0..100).map(sync).collect());
        assert!(many.text().len() <= MOST_BYTES, "{}", many.text());
        assert_eq!(many.syncs.len() + many.more, 100);
        assert_eq!(many.syncs[0].name, "sync-90", "the one with a problem");
        let long = SyncSummary {
            name: "s".repeat(MOST_BYTES),
            ..sync(0)
        };
        assert_eq!(SyncSummaries::new(vec![long]).more, 1);
    }
}
