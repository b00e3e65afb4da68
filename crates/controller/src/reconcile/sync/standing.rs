//! The objects that are not in sync: where each stands, and when it is tried again. Each has a pace of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::pruner::LONGEST_WAIT;
use super::report::{ObjectReport, ObjectResult, Wait};
use cutover_cluster::Outcome;
use cutover_core::intent::gate::{is_profile, policy_name};
use cutover_core::plan::Place;
use cutover_core::plan::drift::DriftedField;
use cutover_karmada::name::{Location, ObjectKey};

/// After a failure that passes: the first delay and the longest. They double in between.
const PASSING: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));
/// A kind that isn't served is looked for at this pace; its CRD says when it begins anew.
const NOT_SERVED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_mins(1));
/// What was refused for good: a webhook or a policy may see it otherwise by then.
const FINAL: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(5));
/// What Migrations carry out is looked at again, should none of them have been seen.
pub(super) const MOVING: Duration = Duration::from_secs(5);

/// Returns after how long is looked again what was looked at so often before, and nothing has told of.
pub(super) fn less_often(times: u32) -> Duration {
    MOVING.saturating_mul(1 << times.min(16)).min(LONGEST_WAIT)
}

#[derive(Debug)]
struct Stands {
    report: ObjectReport,
    place: Place,
    /// What was wanted and what was there when it was tried; trying the same again has to wait.
    tried: Option<String>,
    failures: u32,
    again: Option<Instant>,
}

/// Where everything stands that is not in sync.
#[derive(Debug)]
pub(super) struct PendingObjects {
    objects: BTreeMap<ObjectKey, Stands>,
    rng: fastrand::Rng,
}

impl PendingObjects {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Takes in where an object stands. `tried` tells what was tried from what may be tried now.
    pub(super) fn put(
        &mut self,
        key: ObjectKey,
        place: Place,
        report: ObjectReport,
        tried: Option<String>,
        now: Instant,
    ) {
        let failures = match self.objects.get(&key) {
            Some(before) if before.tried == tried && pace(&before.report) == pace(&report) => {
                before.failures + 1
            }
            _ => 0,
        };
        let again = pace(&report).map(|(first, longest)| {
            let delay = first.saturating_mul(1 << failures.min(16)).min(longest);
            now + delay.mul_f64(0.75 + self.rng.f64() / 4.0)
        });
        let stands = Stands {
            report,
            place,
            tried,
            failures,
            again,
        };
        self.objects.insert(key, stands);
    }

    /// Somebody changed an object before the answer about it came. What was refused may be accepted by now, and is tried
    /// again at once; but not again and again, if it makes no difference to what may be tried.
    pub(super) fn overtaken(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(stands) = self.objects.get_mut(key)
            && stands.tried.is_some()
            && stands.failures == 0
        {
            stands.again = Some(now);
        }
    }

    /// Has an object looked at again after a while, should nothing tell of it before.
    pub(super) fn look_again(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(stands) = self.objects.get_mut(key) {
            stands.again = Some(now + MOVING);
        }
    }

    /// The same of what nothing but a policy that comes lets go on: each look comes later than the one before.
    pub(super) fn look_less_often(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(stands) = self.objects.get_mut(key) {
            stands.again = Some(now + less_often(stands.failures));
        }
    }

    /// Returns what is held back by one of these, as they are named.
    pub(super) fn held_back_by(&self, names: &BTreeSet<String>) -> Vec<ObjectKey> {
        let is_held = |report: &ObjectReport| matches!(&report.result, ObjectResult::HeldBack { by } if names.contains(by));
        let held = self.reports().filter(|(_, report)| is_held(report));
        held.map(|(key, _)| key.clone()).collect()
    }

    /// Leaves an object as it is for a while.
    pub(super) fn rest(
        &mut self,
        key: ObjectKey,
        place: Place,
        source: Option<Location>,
        fields: Vec<DriftedField>,
        until: Instant,
    ) {
        let result = ObjectResult::Contested { fields };
        let stands = Stands {
            report: ObjectReport { source, result },
            place,
            tried: None,
            failures: 0,
            again: Some(until),
        };
        self.objects.insert(key, stands);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&ObjectKey) -> bool) {
        self.objects.retain(|key, _| keep(key));
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = (&ObjectKey, &ObjectReport)> {
        self.objects.iter().map(|(key, stands)| (key, &stands.report))
    }

    /// Returns whether exactly this was tried and its time has not come again.
    pub(super) fn rests(&self, key: &ObjectKey, tried: &str, now: Instant) -> bool {
        self.objects.get(key).is_some_and(|stands| {
            stands.tried.as_deref() == Some(tried) && stands.again.is_none_or(|again| again > now)
        })
    }

    /// Returns whether an object was tried and refused.
    pub(super) fn was_tried(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some_and(|stands| stands.tried.is_some())
    }

    /// Returns what is to be tried again.
    pub(super) fn due(&self, now: Instant) -> BTreeSet<ObjectKey> {
        let due = self
            .objects
            .iter()
            .filter(|(_, stands)| stands.again.is_some_and(|again| again <= now));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// Lets everything be tried that was refused, and returns it.
    pub(super) fn try_all(&mut self) -> BTreeSet<ObjectKey> {
        let tried = self
            .objects
            .iter_mut()
            .filter(|(_, stands)| stands.again.is_some());
        tried
            .map(|(key, stands)| {
                stands.tried = None;
                key.clone()
            })
            .collect()
    }

    /// Returns when there is something to try again.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.objects.values().filter_map(|stands| stands.again).min()
    }

    /// Something has happened to the kinds of a group, or of any: those that weren't served are looked for at once.
    pub(super) fn may_be_served(&mut self, group: Option<&str>, now: Instant) {
        let theirs = |key: &ObjectKey| group.is_none_or(|group| key.group == group);
        for (_, stands) in self.objects.iter_mut().filter(|(key, _)| theirs(key)) {
            if stands.report.result == ObjectResult::Applied(Outcome::NotServed) {
                stands.failures = 0;
                stands.again = Some(now);
            }
        }
    }

    /// A definition was written: a profile that was refused may fit it, and is tried again at once.
    pub(super) fn may_fit(&mut self, now: Instant) {
        self.try_refused(is_profile, now);
    }

    /// A Migration was deleted: a policy that was refused may set another one off, and is tried again at once.
    pub(super) fn may_move(&mut self, now: Instant) {
        self.try_refused(|key| policy_name(key).is_some(), now);
    }

    fn try_refused(&mut self, which: impl Fn(&ObjectKey) -> bool, now: Instant) {
        for (_, stands) in self.objects.iter_mut().filter(|(key, _)| which(key)) {
            if matches!(stands.report.result, ObjectResult::Applied(Outcome::Failed(_))) {
                stands.failures = 0;
                stands.again = Some(now);
            }
        }
    }

    pub(super) fn has_waiting(&self) -> bool {
        self.objects
            .values()
            .any(|stands| matches!(stands.report.result, ObjectResult::Waiting(_)))
    }

    /// Returns what waits, by its place.
    pub(super) fn waiting(&self) -> BTreeMap<Place, Vec<ObjectKey>> {
        let mut places: BTreeMap<Place, Vec<ObjectKey>> = BTreeMap::new();
        for (key, stands) in &self.objects {
            if matches!(stands.report.result, ObjectResult::Waiting(_)) {
                places.entry(stands.place).or_default().push(key.clone());
            }
        }
        places
    }

    /// Says anew what an object waits for.
    pub(super) fn wait(&mut self, key: &ObjectKey, wait: &Arc<Wait>) {
        if let Some(stands) = self.objects.get_mut(key) {
            stands.report.result = ObjectResult::Waiting(Arc::clone(wait));
        }
    }

    /// Returns what is not as Git wants it and stands before a place that waits for it: what failed first, then what
    /// waits itself.
    pub(super) fn before(&self, place: Place) -> impl Iterator<Item = (&ObjectKey, &ObjectReport)> {
        let waits = |report: &ObjectReport| matches!(report.result, ObjectResult::Waiting(_));
        let before = move |wanted: bool| {
            self.objects
                .iter()
                .filter(move |(_, stands)| place.waits_for(stands.place) && waits(&stands.report) == wanted)
                .map(|(key, stands)| (key, &stands.report))
        };
        before(false).chain(before(true))
    }
}

/// Returns how soon an object is tried again by itself; `None`: when something happens.
fn pace(report: &ObjectReport) -> Option<(Duration, Duration)> {
    match &report.result {
        ObjectResult::Applied(Outcome::NotServed) => Some(NOT_SERVED),
        ObjectResult::Applied(outcome) if outcome.is_passing() => Some(PASSING),
        ObjectResult::Applied(Outcome::Failed(_) | Outcome::Conflict(_)) => Some(FINAL),
        ObjectResult::Blocked { .. } => Some(PASSING),
        // Contested ones have a time of their own.
        ObjectResult::Applied(_)
        | ObjectResult::HeldBack { .. }
        | ObjectResult::Waiting(_)
        | ObjectResult::Drifted { .. }
        | ObjectResult::Contested { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_cluster::Failure;
    use cutover_core::plan::Rank;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            group: "example.dev".into(),
            kind: "Widget".into(),
            namespace: None,
            name: name.into(),
        }
    }

    const PLACE: Place = Place {
        rank: Rank::Template,
        wave: 0,
    };

    fn failed(passing: bool) -> ObjectReport {
        applied(Outcome::Failed(Failure {
            message: "no".into(),
            hint: None,
            at: Location {
                path: "a.yaml".into(),
                line: 1,
                column: 1,
            },
            field: None,
            passing,
            fixed: Vec::new(),
        }))
    }

    fn applied(outcome: Outcome) -> ObjectReport {
        ObjectReport {
            source: None,
            result: ObjectResult::Applied(outcome),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_object_has_a_pace_of_its_own() {
        let (mut standing, begun) = (PendingObjects::new(1), Instant::now());
        let fail = |standing: &mut PendingObjects, times: u32| {
            for _ in 0..times {
                standing.put(key("a"), PLACE, failed(true), Some("x".into()), begun);
            }
        };
        fail(&mut standing, 10);
        assert!(standing.next_try().unwrap() > begun + Duration::from_mins(3));
        standing.put(key("b"), PLACE, failed(true), Some("x".into()), begun);
        assert!(
            standing.next_try().unwrap() <= begun + PASSING.0,
            "a does not slow b down"
        );
        assert_eq!(standing.due(begun + PASSING.0), [key("b")].into());
        // Something else is tried: that begins from the beginning.
        standing.put(key("a"), PLACE, failed(true), Some("y".into()), begun);
        assert_eq!(standing.due(begun + PASSING.0), [key("a"), key("b")].into());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_rests_until_something_is_different() {
        let (mut standing, now) = (PendingObjects::new(1), Instant::now());
        standing.put(key("a"), PLACE, failed(false), Some("x".into()), now);
        assert!(standing.rests(&key("a"), "x", now + Duration::from_mins(1)));
        assert!(!standing.rests(&key("a"), "y", now));
        assert!(!standing.rests(&key("a"), "x", now + Duration::from_mins(6)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_changed_before_it_was_refused_is_tried_again_once() {
        let (mut standing, now) = (PendingObjects::new(1), Instant::now());
        let refuse = |standing: &mut PendingObjects| {
            standing.put(key("a"), PLACE, failed(false), Some("x".into()), now);
            standing.overtaken(&key("a"), now);
        };
        refuse(&mut standing);
        assert!(!standing.rests(&key("a"), "x", now));
        assert_eq!(standing.due(now), [key("a")].into());
        refuse(&mut standing);
        assert!(standing.rests(&key("a"), "x", now + Duration::from_mins(3)));
        // What is in sync stays so.
        standing.remove(&key("a"));
        standing.overtaken(&key("a"), now);
        assert_eq!(standing.next_try(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_policy_is_looked_at_less_and_less_often_until_that_is_written() {
        let (mut standing, mut now) = (PendingObjects::new(1), Instant::now());
        let by = "PropagationPolicy shop/next".to_owned();
        let held = || ObjectReport {
            source: None,
            result: ObjectResult::HeldBack { by: by.clone() },
        };
        let mut last = Duration::ZERO;
        for _ in 0..3 {
            standing.put(key("a"), PLACE, held(), None, now);
            standing.look_less_often(&key("a"), now);
            let wait = standing.next_try().unwrap() - now;
            assert!(wait > last, "{wait:?}");
            (last, now) = (wait, now + wait);
        }
        assert_eq!(standing.held_back_by(&[by].into()), [key("a")]);
        assert_eq!(standing.held_back_by(&BTreeSet::new()), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_profile_that_was_refused_is_tried_again_when_a_definition_was_written() {
        let (mut standing, now) = (PendingObjects::new(1), Instant::now());
        let profile = ObjectKey {
            group: "cutover.dev".into(),
            kind: "WorkloadProfile".into(),
            ..key("a")
        };
        for key in [profile.clone(), key("b")] {
            standing.put(key, PLACE, failed(true), Some("x".into()), now);
        }
        assert!(standing.rests(&profile, "x", now));
        standing.may_fit(now);
        assert_eq!(standing.due(now), [profile.clone()].into());
        assert!(!standing.rests(&profile, "x", now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_that_was_refused_is_tried_again_when_a_migration_was_deleted() {
        let (mut standing, now) = (PendingObjects::new(1), Instant::now());
        let policy = ObjectKey {
            group: "policy.karmada.io".into(),
            kind: "PropagationPolicy".into(),
            namespace: Some("shop".into()),
            ..key("a")
        };
        for key in [policy.clone(), key("b")] {
            standing.put(key, PLACE, failed(true), Some("x".into()), now);
        }
        standing.may_move(now);
        assert_eq!(standing.due(now), [policy].into());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_may_be_served_is_looked_for_at_once() {
        let (mut standing, now) = (PendingObjects::new(1), Instant::now());
        for _ in 0..10 {
            standing.put(key("a"), PLACE, applied(Outcome::NotServed), None, now);
        }
        standing.put(key("b"), PLACE, failed(true), None, now);
        assert_eq!(standing.due(now), [].into());
        standing.may_be_served(Some("other.dev"), now);
        assert_eq!(standing.due(now), [].into());
        standing.may_be_served(Some("example.dev"), now);
        assert_eq!(standing.due(now), [key("a")].into());
    }
}
