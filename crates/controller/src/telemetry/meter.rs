//! What one sync does, measured: passes, drift, and how long a push takes until it is applied.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{FETCH, Telemetry, catalog as of, labels};
use crate::reconcile::sync::{ObjectReport, ObjectResult, SyncReport};
use cutover_cluster::Outcome;
use cutover_karmada::name::{ObjectKey, Revision};

/// Measures one sync.
#[derive(Debug)]
pub struct SyncMeter {
    telemetry: Telemetry,
    name: String,
    /// When Git was last asked and had nothing new.
    nothing_new: Option<Instant>,
    /// The revision that Git had last, and when it was first seen.
    newest: Option<(Revision, Instant)>,
    /// The revision that is being applied.
    pending: Option<Pending>,
    /// The revision of the last pass, and what that left undone: what is written later is no drift.
    last: Option<(Revision, BTreeSet<ObjectKey>)>,
}

#[derive(Debug)]
struct Pending {
    revision: Revision,
    since: Instant,
    /// The time of the push is not known before the first revision.
    pushed: Option<Pushed>,
}

/// A push can't have been before its commit was made, nor before Git was asked and had nothing new.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    committed: Timestamp,
    nothing_new: Instant,
}

impl SyncMeter {
    pub(super) fn new(telemetry: Telemetry, name: &str) -> Self {
        telemetry.state().pending.insert(name.to_owned(), None);
        Self {
            telemetry,
            name: name.to_owned(),
            nothing_new: None,
            newest: None,
            pending: None,
            last: None,
        }
    }

    /// Git was asked what is new.
    pub(crate) fn fetched(&mut self, fetched: Result<&Revision, String>) {
        match fetched {
            Ok(revision) => {
                let now = Instant::now();
                match &self.newest {
                    Some((known, _)) if known == revision => self.nothing_new = Some(now),
                    Some(_) => self.newest = Some((revision.clone(), now)),
                    None => {
                        self.newest = Some((revision.clone(), now));
                        self.nothing_new = Some(now);
                    }
                }
                self.telemetry.git(FETCH, Ok(()));
            }
            Err(why) => self.telemetry.git(FETCH, Err(why)),
        }
    }

    /// A revision has been read and is to be applied; `committed` is the time of its commit, unless it is the first one.
    pub(crate) fn begins(&mut self, revision: &Revision, committed: Option<Timestamp>) {
        let seen = self.newest.as_ref().filter(|(newest, _)| newest == revision);
        let now = seen.map_or_else(Instant::now, |(_, at)| *at);
        let since = self.pending.as_ref().map_or(now, |pending| pending.since);
        let pushed = committed
            .zip(self.nothing_new)
            .map(|(committed, nothing_new)| Pushed {
                committed,
                nothing_new,
            });
        self.pending = Some(Pending {
            revision: revision.clone(),
            since,
            pushed,
        });
        self.set_pending(Some(since));
    }

    /// A pass has ended.
    pub(crate) fn passed(&mut self, report: &SyncReport) {
        let result = if report.all_problems().is_empty() {
            "clean"
        } else {
            "problems"
        };
        self.count_pass(result);
        self.count_drift(report);
        self.count_objects(report);
        let is_applied = report.is_clean();
        if let Some(pending) = self
            .pending
            .take_if(|pending| is_applied && pending.revision == report.revision)
        {
            self.set_pending(None);
            if let Some(pushed) = pending.pushed {
                let lag = pushed.lag(Timestamp::now(), Instant::now());
                let families = &self.telemetry.0.families;
                families
                    .push_to_applied
                    .get_or_create(&labels(&of::PUSH_TO_APPLIED, [&self.name]))
                    .observe(lag);
            }
        }
    }

    /// A pass has ended before it looked at objects.
    pub(crate) fn failed(&mut self) {
        self.count_pass("error");
    }

    fn set_pending(&self, since: Option<Instant>) {
        self.telemetry.state().pending.insert(self.name.clone(), since);
    }

    fn count_pass(&self, result: &str) {
        let families = &self.telemetry.0.families;
        families
            .sync_passes
            .get_or_create(&labels(&of::SYNC_PASSES, [&self.name, result]))
            .inc();
    }

    /// What is written at a revision that was applied before had been changed in the control plane.
    fn count_drift(&mut self, report: &SyncReport) {
        let is_undone = |object: &ObjectReport| match &object.result {
            ObjectResult::Applied(outcome) => !outcome.is_in_sync(),
            _ => true,
        };
        let written = report.objects.iter().filter(|(_, object)| {
            matches!(
                object.result,
                ObjectResult::Applied(Outcome::Created | Outcome::Configured)
            )
        });
        let mut corrected = 0;
        let undone = report.objects.iter().filter(|(_, object)| is_undone(object));
        let left = undone.map(|(key, _)| key.clone()).collect();
        if let Some((_, before)) = self.last.take_if(|(revision, _)| *revision == report.revision) {
            corrected = written.filter(|(key, _)| !before.contains(key)).count();
        }
        let families = &self.telemetry.0.families;
        families
            .drift
            .get_or_create(&labels(&of::DRIFT, [&self.name]))
            .inc_by(u64::try_from(corrected).unwrap_or(u64::MAX));
        self.last = Some((report.revision.clone(), left));
    }

    fn count_objects(&self, report: &SyncReport) {
        let mut counts = [
            ("in_sync", report.desired),
            ("waiting", 0),
            ("held_back", 0),
            ("drifted", 0),
            ("failed", 0),
        ];
        for object in report.objects.values() {
            let state = match &object.result {
                ObjectResult::Applied(outcome) if outcome.is_in_sync() => continue,
                ObjectResult::Waiting(_) => 1,
                ObjectResult::HeldBack { .. } => 2,
                ObjectResult::Drifted { .. } => 3,
                ObjectResult::Applied(_) | ObjectResult::Blocked { .. } | ObjectResult::Contested { .. } => 4,
            };
            counts[state].1 += 1;
            counts[0].1 = counts[0].1.saturating_sub(1);
        }
        for (state, count) in counts {
            let families = &self.telemetry.0.families;
            families
                .sync_objects
                .get_or_create(&labels(&of::SYNC_OBJECTS, [&self.name, state]))
                .set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
        }
    }
}

impl Pushed {
    /// Returns how long ago the push was, at the most, in seconds.
    fn lag(self, now: Timestamp, instant: Instant) -> f64 {
        let since_commit = now.duration_since(self.committed).as_secs_f64();
        let since_nothing_new = instant.duration_since(self.nothing_new).as_secs_f64();
        // A clock that is ahead would make it less than nothing.
        since_nothing_new.min(since_commit.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::reconcile::sync::Done;
    use cutover_karmada::name::GroupKind;

    fn revision(digit: &str) -> Revision {
        digit.repeat(40).parse().unwrap()
    }

    fn report(of: &str, objects: &[(&str, Outcome)]) -> SyncReport {
        let key = |name: &str| GroupKind::new("", "ConfigMap").key(Some("shop"), name);
        let object = |(name, outcome): &(&str, Outcome)| {
            let report = ObjectReport {
                source: None,
                result: ObjectResult::Applied(outcome.clone()),
            };
            (key(name), report)
        };
        SyncReport {
            revision: revision(of),
            started_at: Timestamp::UNIX_EPOCH,
            finished_at: Timestamp::UNIX_EPOCH,
            objects: objects.iter().map(object).collect(),
            desired: 3,
            done: Done::default(),
            unhealthy: BTreeMap::new(),
            problems: Vec::new(),
            requests: Vec::new(),
            evacuations: Vec::new(),
            missing_folder: None,
            orphaned: Vec::new(),
            pruned: None,
        }
    }

    #[tokio::test]
    async fn drift_is_what_is_written_again_at_a_revision_that_was_applied() {
        let telemetry = Telemetry::default();
        let mut meter = telemetry.sync("all");
        let drift = |telemetry: &Telemetry| {
            let of_sync = labels(&of::DRIFT, ["all"]);
            telemetry.0.families.drift.get_or_create(&of_sync).get()
        };
        for (report, expected) in [
            // A new revision: nothing of it is drift, not even what comes later because it had to wait.
            (
                report("1", &[("a", Outcome::Created), ("b", Outcome::NotServed)]),
                0,
            ),
            (report("1", &[("b", Outcome::Created)]), 0),
            (report("1", &[("a", Outcome::Configured)]), 1),
            // The server made no difference of it: it is in sync, and a change of it later is drift.
            (report("1", &[("c", Outcome::Unchanged)]), 1),
            (
                report("1", &[("c", Outcome::Configured), ("a", Outcome::Created)]),
                3,
            ),
            (report("2", &[("a", Outcome::Configured)]), 3),
        ] {
            meter.passed(&report);
            assert_eq!(drift(&telemetry), expected, "{report:?}");
        }
    }

    #[tokio::test]
    async fn a_revision_is_pending_until_all_of_it_is_applied() {
        let telemetry = Telemetry::default();
        let mut meter = telemetry.sync("all");
        let pending = || telemetry.state().pending["all"].is_some();
        let has_counted_one = || {
            let mut text = String::new();
            prometheus_client::encoding::prometheus_text::encode(&mut text, &telemetry.0.registry).unwrap();
            text.contains("cutover_push_to_applied_seconds_count{sync=\"all\"} 1\n")
        };
        meter.fetched(Ok(&revision("1")));
        meter.begins(&revision("1"), None);
        meter.passed(&report("1", &[("a", Outcome::NotServed)]));
        assert!(pending());
        meter.passed(&report("1", &[("a", Outcome::Created)]));
        assert!(!pending());
        assert!(
            !has_counted_one(),
            "when the first revision was pushed is not known"
        );
        meter.fetched(Ok(&revision("2")));
        meter.begins(&revision("2"), Some(Timestamp::now()));
        meter.passed(&report("2", &[]));
        assert!(!pending());
        assert!(has_counted_one());
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_was_neither_before_its_commit_nor_before_git_had_nothing_new() {
        let pushed = Pushed {
            committed: Timestamp::UNIX_EPOCH,
            nothing_new: Instant::now(),
        };
        tokio::time::advance(Duration::from_secs(30)).await;
        let lag = |seconds: i64| {
            let now = Timestamp::from_second(seconds).unwrap();
            pushed.lag(now, Instant::now())
        };
        // Committed long before it was pushed, just now, and by a clock that is ahead.
        for (since_commit, expected) in [(3600, 30.0), (5, 5.0), (-5, 0.0)] {
            assert!((lag(since_commit) - expected).abs() < 0.001, "{since_commit}");
        }
    }
}
