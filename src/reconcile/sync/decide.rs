//! Git's objects against the watch cache: what is to be written, what is left alone, and why. Sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::desired::{Kinds, Placed};
use crate::api::{self, SYNC_MANAGER};
use crate::cluster::{KindState, Observer};
use crate::intent::hold_back::{HeldBy, Live, held_back};
use crate::intent::record::digest;
use crate::manifest::Manifest;
use crate::name::{Gvk, ObjectKey};
use crate::plan::{Action, Change, Decision, Rank, normalise, owned_matches};

/// What is known when a pass decides.
#[derive(Clone, Copy)]
pub(super) struct Decider<'a> {
    pub(super) observer: &'a Observer,
    pub(super) placed: &'a Placed,
    pub(super) kinds: &'a Kinds,
    pub(super) held: &'a Held,
    pub(super) settled: &'a Settled,
}

impl Decider<'_> {
    /// Returns what is to be done with the given objects; with all of them for `None`.
    pub(super) fn changes(&self, keys: Option<&BTreeSet<ObjectKey>>) -> Vec<Change> {
        let chosen = |key: &ObjectKey| keys.is_none_or(|keys| keys.contains(key));
        let objects = self
            .placed
            .objects
            .values()
            .filter(|manifest| chosen(&manifest.key));
        let refused = self
            .placed
            .refused
            .iter()
            .map(|(manifest, why)| Change::refused(manifest, why.as_str()));
        objects
            .map(|manifest| self.change(manifest))
            .chain(refused)
            .collect()
    }

    fn change(&self, manifest: &Manifest) -> Change {
        if let Some(why) = self.unknown(manifest) {
            return Change::refused(manifest, why);
        }
        let live = self.observer.get(&manifest.key);
        let mut change = Change::apply(manifest, live.as_deref(), None, SYNC_MANAGER);
        if change.action == Action::Configure
            && live
                .as_deref()
                .is_some_and(|live| self.settled.is_settled(&manifest.value, live, &manifest.key))
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

    /// Says why the live object isn't known, if it isn't.
    fn unknown(&self, manifest: &Manifest) -> Option<String> {
        if let Some(why) = self.kinds.unknown.get(&manifest.gvk) {
            return Some(why.clone());
        }
        match self.observer.state(&manifest.gvk.group, &manifest.gvk.kind) {
            // An old answer is good enough: applying is right whatever has changed since.
            Some(
                KindState::Synced { .. }
                | KindState::NotServed
                | KindState::Failing {
                    synced_at: Some(_), ..
                },
            ) => None,
            Some(KindState::Failing { why, synced_at: None }) => Some(why),
            Some(KindState::Waiting) | None => {
                Some(format!("the list of {} has not come yet", manifest.gvk.kind))
            }
        }
    }

    /// Returns whether only the server can tell what applying would change.
    pub(super) fn is_undecided(&self, change: &Change) -> bool {
        let manifest = self.placed.objects.get(&change.key);
        let live = self.observer.get(&change.key);
        manifest.zip(live).is_some_and(|(manifest, live)| {
            owned_matches(&manifest.value, &live, SYNC_MANAGER) == Decision::Undecided
        })
    }
}

fn can_be_held(gvk: &Gvk) -> bool {
    matches!(Rank::of(gvk), Rank::Override | Rank::Policy | Rank::Template)
}

/// What intents hold back, or why that isn't known.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) by: BTreeMap<ObjectKey, HeldBy>,
    unknown: Option<String>,
}

/// The kinds that say what is held back.
pub(super) const HOLDING: [&str; 2] = ["Migration", "Claim"];

impl Held {
    pub(super) fn look(observer: &Observer, objects: &BTreeMap<ObjectKey, Arc<Manifest>>) -> Self {
        let unknown = HOLDING
            .iter()
            .find_map(|kind| match observer.state(api::GROUP, kind) {
                Some(state) if state.is_settled() => None,
                Some(KindState::Failing { why, .. }) => Some(why),
                _ => Some(format!("the list of {kind} has not come yet")),
            });
        let live = Live {
            migrations: &observer.list(api::GROUP, "Migration"),
            claims: &observer.list(api::GROUP, "Claim"),
            object: &|key| observer.get(key),
        };
        Self {
            by: held_back(objects, live),
            unknown,
        }
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
