//! Git's objects against the watch cache: what is to be written, what is left alone, and why. Sends nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::dirty::Dirty;
use super::placed::{Kinds, Placed};
use super::pruner::Pruner;
use cutover_base::packed::View;
use cutover_cluster::{KindState, Observer};
use cutover_core::api::{self, SYNC_MANAGER};
use cutover_core::config::DriftMode;
use cutover_core::intent::hold_back::{HeldBy, Live, Why, held_back};
use cutover_core::intent::record::digest;
use cutover_core::intent::selected::{Labels, labels};
use cutover_core::manifest::{Entry, Manifest, Mark, ObjectMap, Positions};
use cutover_core::plan::drift::{self, ApplyContext, DriftedField};
use cutover_core::plan::fast_path::is_in_sync;
use cutover_core::plan::{Action, Change, Decision, Rank, normalise, owned_matches};
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};

/// What is known when a pass decides.
#[derive(Clone, Copy)]
pub(super) struct Decider<'a> {
    pub(super) observer: &'a Observer,
    pub(super) placed: &'a Placed,
    pub(super) kinds: &'a Kinds,
    pub(super) held: &'a Held,
    pub(super) settled: &'a Settled,
    pub(super) context: &'a ApplyContext,
    pub(super) pruner: Option<&'a Pruner>,
}

impl Decider<'_> {
    /// Returns what is to be done with every object, and how it would look.
    pub(super) fn changes(&self) -> Vec<Change> {
        let objects = self.placed.objects.values();
        objects
            .map(|entry| self.of_entry(entry))
            .chain(self.refused())
            .collect()
    }

    /// Returns what is to be done with the given objects, as far as anything is. How they would look is left out: of
    /// many objects that is too much to keep.
    pub(super) fn decisions(&self, objects: &Dirty) -> Vec<Change> {
        let objects = objects.of(&self.placed.objects);
        objects
            .map(|entry| self.of_entry(entry))
            .filter(|change| change.action != Action::Unchanged)
            .chain(self.refused())
            .map(|mut change| {
                (change.before, change.after) = (None, None);
                change
            })
            .collect()
    }

    fn refused(&self) -> impl Iterator<Item = Change> {
        let refused = self.placed.refused.values();
        refused.map(|(entry, why)| Change::refused(&entry.manifest(), why.as_str()))
    }

    /// Returns what is to be done with an object.
    pub(super) fn of_entry(&self, entry: &Entry) -> Change {
        let fast = self.fast_path(entry);
        fast.unwrap_or_else(|| self.change(&entry.manifest()))
    }

    /// Returns that an object is in sync, if that is plain to see. Whoever holds it, and whatever its file is like, leaves
    /// it so.
    fn fast_path(&self, entry: &Entry) -> Option<Change> {
        let wanted = self.context.plain(entry)?;
        let is_recorded = |pruner: &Pruner| pruner.unrecorded(&GroupKind::from(&*entry.gvk)).is_none();
        if self.unknown(&entry.gvk).is_some() || !self.pruner.is_none_or(is_recorded) {
            return None;
        }
        let look = |live: View<'_>| {
            let uid = || live.get("metadata")?.get("uid")?.as_str();
            is_in_sync(wanted, live, SYNC_MANAGER).then(|| Change::unchanged(entry, uid()))
        };
        self.observer.look(&entry.key, look).flatten()
    }

    fn change(&self, manifest: &Manifest) -> Change {
        if let Some(why) = self.unknown(&manifest.gvk) {
            return Change::refused(manifest, why);
        }
        let kind = GroupKind::from(&manifest.gvk);
        if let Some(why) = self.pruner.and_then(|pruner| pruner.unrecorded(&kind)) {
            return Change::refused(manifest, why);
        }
        let live = self.observer.get(&manifest.key);
        let manifest = &*self.context.on(manifest, live.as_deref(), SYNC_MANAGER);
        let mut change = Change::apply(manifest, live.as_deref(), None, SYNC_MANAGER);
        if change.action == Action::Configure
            && live.as_deref().is_some_and(|live| {
                drift::is_applied(&manifest.value, live)
                    || self.settled.is_settled(&manifest.value, live, &manifest.key)
            })
        {
            change.action = Action::Unchanged;
            (change.before, change.after) = (None, None);
        }
        if self.placed.frozen.contains(&manifest.key) {
            return change.blocked("another part of its file cannot be read");
        }
        match (&self.held.unknown, self.held.by.get(&manifest.key)) {
            (_, Some(by)) => change.held_back(by.to_string()),
            (Some(why), None) if can_be_held(&manifest.gvk) => {
                change.blocked(format!("cannot tell whether an intent holds it: {why}"))
            }
            _ => change,
        }
    }

    /// Returns an object as it is to be applied now.
    pub(super) fn dressed<'d>(&self, manifest: &'d Manifest) -> Cow<'d, Manifest> {
        let live = self.observer.get(&manifest.key);
        self.context.on(manifest, live.as_deref(), SYNC_MANAGER)
    }

    /// Returns what somebody has changed of those objects whose drift stays and is told.
    pub(super) fn told_drift(&self, objects: &Dirty) -> Vec<(Arc<Entry>, Vec<DriftedField>)> {
        let mut told = Vec::new();
        for entry in objects.of(&self.placed.objects) {
            let written = entry.written();
            let annotation = written
                .get("metadata")
                .and_then(|metadata| metadata.get("annotations")?.get(drift::MODE_ANNOTATION));
            if annotation.is_none() && self.context.drift.mode != DriftMode::Warn {
                continue;
            }
            let fields = self.drift_that_stays(&entry.manifest());
            if !fields.is_empty() {
                told.push((Arc::clone(entry), fields));
            }
        }
        told
    }

    fn drift_that_stays(&self, manifest: &Manifest) -> Vec<DriftedField> {
        let Some(live) = self.observer.get(&manifest.key) else {
            return Vec::new();
        };
        let dressed = self.context.on(manifest, Some(&live), SYNC_MANAGER);
        let is_drift = drift::mode_of(&manifest.value, self.context.drift.mode) == DriftMode::Warn
            && drift::is_applied(&dressed.value, &live)
            && owned_matches(&dressed.value, &live, SYNC_MANAGER) == Decision::Differs
            && !self.settled.is_settled(&dressed.value, &live, &manifest.key);
        if is_drift {
            drift::drifted(&dressed.value, &live, SYNC_MANAGER)
        } else {
            Vec::new()
        }
    }

    /// Returns what applying an object would change, and who changed it.
    pub(super) fn drift(&self, key: &ObjectKey) -> Vec<DriftedField> {
        let entry = self.placed.objects.get(key);
        let Some((entry, live)) = entry.zip(self.observer.get(key)) else {
            return Vec::new();
        };
        drift::drifted(&self.dressed(&entry.manifest()).value, &live, SYNC_MANAGER)
    }

    /// Says why the live object isn't known, if it isn't.
    fn unknown(&self, gvk: &Gvk) -> Option<String> {
        if let Some(why) = self.kinds.unknown.get(gvk) {
            return Some(why.clone());
        }
        match self.observer.state(&gvk.group, &gvk.kind) {
            // An old answer is good enough: applying is right whatever has changed since.
            Some(state) if state.was_listed() => None,
            Some(KindState::Failing { why, .. }) => Some(why),
            _ => Some(format!("the list of {} has not come yet", gvk.kind)),
        }
    }
}

fn can_be_held(gvk: &Gvk) -> bool {
    matches!(Rank::of(gvk), Rank::Override | Rank::Policy | Rank::Template)
}

/// What intents hold back, or why that isn't known.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) by: BTreeMap<ObjectKey, HeldBy>,
    pub(super) unknown: Option<String>,
    /// Some intent goes on or is to begin: what it holds depends on templates and policies too.
    pub(super) something_moves: bool,
}

/// Returns what intents hold of objects that Git doesn't have any more.
pub(super) fn held_strays(
    observer: &Observer,
    placed: &Placed,
    strays: &BTreeMap<ObjectKey, Arc<Value>>,
) -> BTreeMap<ObjectKey, HeldBy> {
    let mut wanted = ObjectMap::default();
    // What is live stands for what Git would want of it: intents hold it all the same.
    for (key, live) in strays {
        wanted.insert(Arc::new(Entry::from(&as_written(key, live))));
    }
    for kind in ["Migration", "ReplicaShift"] {
        for entry in placed.objects.of_kind(api::GROUP, kind) {
            wanted.replace(Arc::clone(entry));
        }
    }
    let mut held = if strays.is_empty() {
        BTreeMap::new()
    } else {
        Held::look(observer, &wanted).by
    };
    held.retain(|key, by| strays.contains_key(key) && by.why != Why::Rolling);
    held
}

fn as_written(key: &ObjectKey, live: &Value) -> Manifest {
    let text = |field: &str| live[field].as_str().unwrap_or_default();
    let nowhere = Mark { line: 1, column: 1 };
    Manifest {
        key: key.clone(),
        gvk: Gvk::new(text("apiVersion"), text("kind")),
        value: live.clone(),
        positions: Positions::scalar(nowhere),
        source: nowhere.of(""),
        blob: None,
    }
}

/// The kinds that say what is held back.
pub(super) const HOLDING: [&str; 5] = ["Migration", "ReplicaShift", "Rollout", "RolloutPolicy", "Claim"];

impl Held {
    pub(super) fn look(observer: &Observer, objects: &ObjectMap<Entry>) -> Self {
        let unknown = Self::ignorance(observer);
        let live = Live {
            migrations: &observer.list(api::GROUP, "Migration"),
            rollouts: &observer.list(api::GROUP, "Rollout"),
            rollout_policies: &observer.list(api::GROUP, "RolloutPolicy"),
            claims: &observer.list(api::GROUP, "Claim"),
            object: &|key| observer.get(key),
            labels: &|key| {
                let labels = observer.look(key, labels);
                labels.or_else(|| observer.contains(key).then(Labels::new))
            },
        };
        let holding = held_back(objects, live);
        Self {
            by: holding.objects,
            unknown,
            something_moves: holding.something_moves,
        }
    }

    /// Returns why it isn't known what intents there are, if it isn't.
    pub(super) fn ignorance(observer: &Observer) -> Option<String> {
        HOLDING
            .iter()
            .find_map(|kind| match observer.state(api::GROUP, kind) {
                Some(state) if state.is_settled() => None,
                Some(KindState::Failing { why, .. }) => Some(why),
                _ => Some(format!("the list of {kind} has not come yet")),
            })
    }

    /// Returns whether it is known as well as it was when this was found.
    pub(super) fn is_current(&self, observer: &Observer) -> bool {
        self.unknown == Self::ignorance(observer)
    }

    /// Returns the objects for which it makes a difference whether this is so or the other.
    pub(super) fn differences(&self, other: &Self) -> BTreeSet<ObjectKey> {
        let one_sided = |a: &Self, b: &Self| {
            let keys = a.by.iter().filter(|(key, by)| b.by.get(*key) != Some(by));
            keys.map(|(key, _)| key.clone()).collect::<BTreeSet<_>>()
        };
        let mut keys = one_sided(self, other);
        keys.extend(one_sided(other, self));
        keys
    }

    pub(super) const fn is_known(&self) -> bool {
        self.unknown.is_none()
    }

    /// Returns whether an intent holds an object, or may.
    pub(super) fn may_hold(&self, key: &ObjectKey) -> bool {
        !self.is_known() || self.by.contains_key(key)
    }
}

/// Objects of which the server has said that applying makes no difference, though it looks like one from here: it
/// writes a value in its own way. Asked once for each content, not at every pass.
#[derive(Debug, Default)]
pub(super) struct Settled(BTreeMap<ObjectKey, (String, String)>);

impl Settled {
    fn is_settled(&self, desired: &Value, live: &Value, key: &ObjectKey) -> bool {
        self.0
            .get(key)
            .is_some_and(|seen| *seen == fingerprint(desired, live))
    }

    pub(super) fn remember(&mut self, manifest: &Manifest, live: &Value) {
        let undecided = owned_matches(&manifest.value, live, SYNC_MANAGER) != Decision::InSync;
        if undecided {
            self.0
                .insert(manifest.key.clone(), fingerprint(&manifest.value, live));
        } else {
            self.0.remove(&manifest.key);
        }
    }
}

fn fingerprint(desired: &Value, live: &Value) -> (String, String) {
    (digest(desired), digest(&normalise(live)))
}
