//! Predicts what a full read for a migration would show, from watches, the answers to effects, and single reads of what may have
//! changed. The machine is asked what it would do then; if it would only wait, as before, the full read is left out.
//!
//! Nothing is done on what is expected: it only says when to look. What nobody tells of is looked at every so often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::nearby::{self, Nearby};
use super::observe::{self, Part};
use super::{Parts, ask, wake};
use cutover_core::api::{self, Claim, Common, Condition, Migration, MigrationStatus, Phase, WaitCode};
use cutover_core::intent::member::Member;
use cutover_core::intent::{Effect, Read, Seen, Snapshot, pin};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{ClusterResourceBinding, OverridePolicy, ResourceBinding, meta};

/// How often everything is read while a machine waits, and watches report all that it waits for.
const SELDOM: Duration = Duration::from_secs(2);
/// Who asks for a look sooner than this means a time, not a habit.
const SOON: Duration = Duration::from_millis(500);

/// What tells of what was heard whether it matters.
#[derive(Debug, Default)]
pub(super) struct Heard(BTreeMap<ObjectKey, u64>);

impl Heard {
    /// Returns whether nothing but its status has changed of an object since it was heard of last.
    fn is_same(&mut self, parts: &Parts, key: &ObjectKey) -> bool {
        match parts.observer.fingerprint(key) {
            Some(now) => self.0.insert(key.clone(), now) == Some(now),
            None => {
                self.0.remove(key);
                false
            }
        }
    }
}

/// Returns what a look is expected to show after news; nothing where only a look can tell.
pub(super) async fn snapshot(
    parts: &Parts,
    intent: &Migration,
    last: &mut Snapshot,
    (heard, nearby): (&mut Heard, &Nearby),
    news: &BTreeSet<ObjectKey>,
) -> Option<Snapshot> {
    let status = intent.status.as_ref()?;
    let mut again = BTreeSet::new();
    for key in news {
        match means(parts, intent, last, (&mut *heard, nearby), key)? {
            Means::Nothing => {}
            Means::Change(part) => _ = again.insert(part),
            Means::Anything => return None,
        }
    }
    observe::again(parts, intent, status, last, again.iter().copied()).await;
    // What could not be had says nothing of what has changed.
    if again.iter().any(|part| part.is_unknown(last)) {
        return None;
    }
    let mut expected = last.clone();
    let journal = status.journal_in_force()?;
    for (cluster, member) in &mut expected.members {
        if let Some(events) = nearby.events(cluster) {
            as_told(parts, member, events, journal.nodes.get(cluster));
        }
    }
    Some(expected)
}

/// What news of an object mean for what a look would show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// What is known of it is as it was, or told otherwise.
    Nothing,
    /// This part is to be read again.
    Change(Part),
    /// Only a look can tell.
    Anything,
}

impl Means {
    const fn nothing_if(is_known: bool) -> Self {
        if is_known { Self::Nothing } else { Self::Anything }
    }
}

/// Returns what news of an object mean; nothing while no journal is in force.
fn means(
    parts: &Parts,
    intent: &Migration,
    last: &Snapshot,
    (heard, nearby): (&mut Heard, &Nearby),
    key: &ObjectKey,
) -> Option<Means> {
    let status = intent.status.as_ref()?;
    let journal = status.journal_in_force()?;
    let bindings = meta::scoped_kind("ResourceBinding", last.workload.namespace.is_none());
    if nearby::member_of(key).is_some() {
        return Some(Means::Nothing);
    }
    let canary = observe::canary(intent).map(|name| wake::canary_binding(&name));
    if canary.as_ref() == Some(key) {
        return Some(Means::Change(Part::Canary));
    }
    Some(match key.kind.as_str() {
        "Claim" => Means::nothing_if(is_known(parts, key, &last.plane.claim, |claim: &Claim| {
            &claim.metadata
        })),
        "OverridePolicy" | "ClusterOverridePolicy" if key.name == pin::name(&last.workload) => {
            Means::nothing_if(is_known(parts, key, &last.plane.pin, |pin: &OverridePolicy| {
                &pin.metadata
            }))
        }
        "Work" => work(parts, key, heard, nearby),
        // What the scheduler says is waited for only in the end.
        kind if kind == bindings && key.name == journal.binding.name => {
            let waits_for_it = matches!(status.phase, Phase::Cleanup | Phase::RollingBack);
            if heard.is_same(parts, key) && !waits_for_it {
                Means::Nothing
            } else {
                Means::Change(Part::Binding)
            }
        }
        // One that doesn't answer may be back.
        "Cluster" => {
            let answers = last.members.values().all(|member| member.object.get().is_ok());
            Means::nothing_if(heard.is_same(parts, key) && answers)
        }
        _ => Means::Anything,
    })
}

/// Returns whether an object is as it was looked at, or as an effect has left it.
fn is_known<T>(
    parts: &Parts,
    key: &ObjectKey,
    last: &Seen<Option<T>>,
    metadata: impl Fn(&T) -> &kube::api::ObjectMeta,
) -> bool {
    let Ok(known) = last.get() else { return false };
    let known = known
        .as_ref()
        .and_then(|known| metadata(known).resource_version.clone());
    parts.observer.version(key) == known
}

/// In a member that is watched the copy itself shows what a Work says of it.
fn work(parts: &Parts, key: &ObjectKey, heard: &mut Heard, nearby: &Nearby) -> Means {
    let cluster = key.namespace.as_deref().and_then(meta::cluster_of);
    let Some(cluster) = cluster else {
        return Means::Anything;
    };
    if !heard.is_same(parts, key) {
        return Means::Change(Part::Works);
    }
    Means::nothing_if(nearby.is_followed(&ClusterName::new(cluster)))
}

fn as_told<'a>(
    parts: &Parts,
    member: &mut Member,
    events: nearby::Reported,
    nodes: Option<impl IntoIterator<Item = &'a String>>,
) {
    let now = || ask::instant(&parts.cluster);
    let before = member.settles();
    match events.copy {
        nearby::Copy::There(copy) => member.object = Seen::known(Some(*copy), now()),
        nearby::Copy::Gone => member.object = Seen::known(None, now()),
        nearby::Copy::Unreported => {}
    }
    if let Some(pods) = events.pods {
        member.pods = Seen::known(pods.into_values().collect(), now());
    } else if let Seen::Known { read, .. } = &mut member.pods {
        // A member without pods sends no event.
        *read = now();
    }
    if member.settles() != before {
        member.unchanged = Duration::ZERO;
    }
    // The look asks them.
    let ready = nodes.into_iter().flatten().map(|node| (node.clone(), true));
    member.nodes = Seen::known(ready.collect(), now());
}

/// Takes into a look what an effect has made of an object. Returns whether the look serves for what comes next.
///
/// It does where nothing of what comes next has to be proved by reads that are younger than the effect: after a push, between the
/// halves of the first pin, and where everything is taken down in its order.
/// Whatever else was sent shows elsewhere, and is looked for there.
pub(super) async fn take_in(
    parts: &Parts,
    intent: &Migration,
    snapshot: &mut Snapshot,
    effect: &Effect,
    answer: Option<Box<Value>>,
) -> bool {
    let now = ask::instant(&parts.cluster);
    let status = intent.status.clone().unwrap_or_default();
    let is_cluster_scoped = snapshot.workload.namespace.is_none();
    let journal = status.journal_in_force();
    let ends = journal.is_some_and(|journal| journal.pin.unpinning);
    let is_committed = journal.is_some_and(|journal| journal.committed);
    // What says nothing yet is filled in, and what is there for the first time is noted.
    let is_first = journal.is_some_and(|journal| !journal.pin.pinned);
    let comes_down = journal.is_some_and(|journal| journal.fence.lowered && !journal.fence.resumed);
    match (effect, answer) {
        // What comes before a claim has to be seen under it, and so has what is listed; and the pin comes after a look of its own.
        (Effect::CreateClaim { .. } | Effect::ReplaceClaim { .. }, Some(claim)) => {
            snapshot.plane.claim = known(*claim, now);
            is_committed && snapshot.plane.claim.get().is_ok()
        }
        // One that somebody keeps from being deleted is there still.
        (Effect::DeleteClaim { .. } | Effect::DeletePin { .. }, Some(object)) if is_kept(&object) => false,
        (Effect::DeleteClaim { .. }, Some(_)) => {
            snapshot.plane.claim = Seen::known(None, now);
            ends
        }
        (Effect::WritePin(_), Some(pin)) => {
            snapshot.plane.pin = known(*pin, now);
            (ends || is_first) && snapshot.plane.pin.get().is_ok()
        }
        (Effect::DeletePin { .. }, Some(_)) => {
            snapshot.plane.pin = Seen::known(None, now);
            false
        }
        (Effect::PatchBinding { .. } | Effect::PatchBindingStatus { .. }, Some(binding)) => {
            snapshot.plane.binding = if is_cluster_scoped {
                let binding: Seen<Option<ClusterResourceBinding>> = known(*binding, now);
                ask::map(&binding, |binding| binding.clone().map(ResourceBinding::from))
            } else {
                known(*binding, now)
            };
            comes_down && snapshot.plane.binding.get().is_ok()
        }
        (Effect::PushRecord(_), _) => {
            observe::again(parts, intent, &status, snapshot, [Part::Record]).await;
            snapshot.record.get().is_ok()
        }
        // Nothing depends on it.
        (Effect::DeleteCanary { .. }, _) => true,
        _ => false,
    }
}

/// Returns whether what a deletion was answered with is an object that finalizers keep; else it is a status, or the object as it was.
fn is_kept(answer: &Value) -> bool {
    let finalizers = answer.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

fn known<T: DeserializeOwned>(object: Value, now: Read) -> Seen<Option<T>> {
    match serde_json::from_value(object) {
        Ok(object) => Seen::known(Some(object), now),
        Err(error) => Seen::unknown(format!("an answer has another form than expected: {error}")),
    }
}

/// Returns whether a step does nothing but wait for evidence, as before; be it in other words, which the next look writes down.
pub(super) fn only_waits(before: &MigrationStatus, after: &MigrationStatus) -> bool {
    if before == after {
        return true;
    }
    let is_evidence = |status: &MigrationStatus| {
        let wait = status.common.waiting_for.as_ref();
        wait.map(|wait| wait.code == WaitCode::Evidence)
    };
    // What was sent, and is still on its way, is no reason to wait for anything.
    let waits = is_evidence(before).unwrap_or(true) && is_evidence(after).unwrap_or(true);
    if !waits || !are_alike(&before.common.conditions, &after.common.conditions) {
        return false;
    }
    let offers = |status: &MigrationStatus| {
        let wait = status.common.waiting_for.as_ref();
        wait.map(|wait| wait.offers.clone()).unwrap_or_default()
    };
    let in_other_words = MigrationStatus {
        common: Common {
            waiting_for: before.common.waiting_for.clone(),
            conditions: before.common.conditions.clone(),
            ..after.common.clone()
        },
        journal: after.journal.clone().map(|journal| api::Journal {
            planned: before
                .journal
                .as_ref()
                .map(|journal| journal.planned.clone())
                .unwrap_or_default(),
            ..journal
        }),
        ..after.clone()
    };
    offers(before) == offers(after) && in_other_words == *before
}

fn are_alike(before: &[Condition], after: &[Condition]) -> bool {
    let held = |all: &[Condition]| -> Vec<_> {
        let all = all
            .iter()
            .map(|condition| (condition.type_.clone(), condition.status));
        all.collect()
    };
    held(before) == held(after)
}

/// Returns whether watches cover the workload in every member.
pub(super) fn all_are_told(last: &Snapshot, nearby: &Nearby) -> bool {
    last.members.keys().all(|cluster| nearby.is_followed(cluster))
}

/// Returns how long a worker may go without a full read, in the status that it waits in: longer where watches cover it all.
pub(super) fn rests(
    status: &MigrationStatus,
    last: Option<&Snapshot>,
    nearby: &Nearby,
    asked: Duration,
    now: Timestamp,
) -> Duration {
    let waits = status.common.waiting_for.as_ref();
    let Some(wait) = waits.filter(|wait| wait.code == WaitCode::Evidence && asked >= SOON) else {
        return asked;
    };
    let watches_others = status.journal_in_force().is_none_or(|journal| {
        let mut checks = journal.spec.verify.checks.iter();
        status.phase == Phase::Verify && checks.any(|check| check.prometheus.is_some() || check.of.is_some())
    });
    if watches_others || !last.is_some_and(|last| all_are_told(last, nearby)) {
        return asked;
    }
    let left = wait
        .until
        .map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
    left.map_or(SELDOM, |left| left.min(SELDOM)).max(asked.min(SOON))
}

#[cfg(test)]
mod tests {
    use cutover_core::api::Offer;
    use jiff::Timestamp;

    use super::*;

    fn waits(reason: &str, code: WaitCode) -> MigrationStatus {
        let mut status = MigrationStatus {
            phase: Phase::Capture,
            ..MigrationStatus::default()
        };
        status.common.wait(code, reason.to_owned(), Timestamp::UNIX_EPOCH);
        status
    }

    #[test]
    fn who_waits_for_something_else_of_the_same_kind_waits_on() {
        let before = waits("east: not suspended yet", WaitCode::Evidence);
        let after = waits("east: pod a is still there", WaitCode::Evidence);
        assert!(only_waits(&before, &before));
        assert!(only_waits(&before, &after));
        let mut sent = before.clone();
        sent.common.waiting_for = None;
        assert!(only_waits(&sent, &after), "what was sent is on its way");
    }

    #[test]
    fn whatever_else_differs_is_worth_a_look() {
        let before = waits("east: not suspended yet", WaitCode::Evidence);
        assert!(!only_waits(&before, &waits("approval", WaitCode::Approval)));
        let moved = MigrationStatus {
            phase: Phase::Handoff,
            ..before.clone()
        };
        assert!(!only_waits(&before, &moved));
        let mut asks = before.clone();
        let offer = Offer::new(api::Fact::Stopped, &ClusterName::new("east"));
        asks.common.waiting_for.as_mut().unwrap().offers.push(offer);
        assert!(!only_waits(&before, &asks), "a person can say something");
        let lapse = Condition {
            type_: "SingleWriterLapse".to_owned(),
            status: api::ConditionStatus::True,
            reason: String::new(),
            message: String::new(),
            last_transition_time: Timestamp::UNIX_EPOCH,
        };
        let mut lapses = before.clone();
        lapses.common.conditions = vec![lapse];
        assert!(!only_waits(&before, &lapses));
    }
}
