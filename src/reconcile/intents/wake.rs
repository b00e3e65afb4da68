//! Which change wakes which worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::api::{Migration, claim_name};
use crate::intent::{World, pin};
use crate::karmada::meta;
use crate::name::ObjectKey;

/// The workers that run. Finding whom a change concerns is O(workers), each a look-up.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers(Arc<Mutex<BTreeMap<ObjectKey, Interest>>>);

impl Workers {
    /// Returns the interest of a new worker; `None` if the intent has one.
    pub(super) fn begin(&self, key: &ObjectKey) -> Option<Interest> {
        let mut workers = lock(&self.0);
        if workers.contains_key(key) {
            return None;
        }
        let interest = Interest::default();
        lock(&interest.keys).insert(key.clone());
        workers.insert(key.clone(), interest.clone());
        Some(interest)
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        lock(&self.0).remove(key);
    }

    pub(super) fn wake(&self, changed: &ObjectKey) {
        for interest in lock(&self.0).values() {
            if lock(&interest.keys).contains(changed) {
                interest.notify.notify_one();
            }
        }
    }

    pub(super) fn wake_all(&self) {
        for interest in lock(&self.0).values() {
            interest.notify.notify_one();
        }
    }
}

/// What one worker wants to hear of.
#[derive(Clone, Debug, Default)]
pub(super) struct Interest {
    keys: Arc<Mutex<BTreeSet<ObjectKey>>>,
    notify: Arc<Notify>,
}

impl Interest {
    /// Ends at the next change; one that came since the last time counts.
    pub(super) fn heard(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Hears of the intent itself, and of what it depends on.
    pub(super) fn update(&self, own: &ObjectKey, mut keys: BTreeSet<ObjectKey>) {
        keys.insert(own.clone());
        *lock(&self.keys) = keys;
    }
}

/// Returns what a migration depends on; one that has ended hears only of itself.
pub(super) fn of_migration(intent: &Migration, world: &World) -> BTreeSet<ObjectKey> {
    let mut keys = BTreeSet::new();
    let ended = intent
        .status
        .as_ref()
        .is_some_and(|status| status.phase.is_terminal());
    if !ended {
        let workload = &world.workload;
        let namespace = &workload.namespace;
        let scoped = |kind: &str| meta::scoped_kind(kind, namespace.is_none());
        let of = |group: &str, kind: &str, namespace: Option<String>, name: String| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace,
            name,
        };
        keys.insert(of("cutover.dev", "Claim", None, claim_name(workload)));
        keys.insert(of(
            "policy.karmada.io",
            &scoped("OverridePolicy"),
            namespace.clone(),
            pin::name(workload),
        ));
        let binding = meta::binding_name(&workload.name, &workload.kind);
        keys.insert(of(
            "work.karmada.io",
            &scoped("ResourceBinding"),
            namespace.clone(),
            binding,
        ));
        for work in world.works.get().into_iter().flat_map(BTreeMap::values) {
            let meta = &work.metadata;
            let name = meta.name.clone().unwrap_or_default();
            keys.insert(of("work.karmada.io", "Work", meta.namespace.clone(), name));
        }
        keys.insert(workload.clone());
        if let Some(canary) = super::observe::canary_binding(intent) {
            keys.insert(canary);
        }
    }
    keys
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
