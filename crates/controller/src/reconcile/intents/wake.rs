//! Which change wakes which worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use cutover_core::api;
use cutover_core::intent::control_plane::Named;
use cutover_core::intent::{ControlPlane, Needs};
use cutover_karmada::meta;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// The workers that run. Finding whom a change concerns is O(workers), each a look-up.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers(Arc<Mutex<BTreeMap<ObjectKey, WatchedKeys>>>);

impl Workers {
    /// Returns the interest of a new worker; `None` if the intent has one.
    pub(super) fn begin(&self, key: &ObjectKey) -> Option<WatchedKeys> {
        let mut workers = lock(&self.0);
        if workers.contains_key(key) {
            return None;
        }
        let watched_keys = WatchedKeys::default();
        lock(&watched_keys.keys).insert(key.clone());
        workers.insert(key.clone(), watched_keys.clone());
        Some(watched_keys)
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        lock(&self.0).remove(key);
    }

    pub(super) fn wake(&self, changed: &ObjectKey) {
        for watched_keys in lock(&self.0).values() {
            if lock(&watched_keys.keys).contains(changed) {
                watched_keys.tell(changed);
            }
        }
    }

    pub(super) fn wake_all(&self) {
        for watched_keys in lock(&self.0).values() {
            watched_keys.tell_all();
        }
    }
}

/// What one worker wants to hear of, and what it has not looked at since it heard of it.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchedKeys {
    keys: Arc<Mutex<BTreeSet<ObjectKey>>>,
    news: Arc<Mutex<BTreeSet<ObjectKey>>>,
    notify: Arc<Notify>,
}

impl WatchedKeys {
    /// Ends when there may be news.
    pub(super) fn heard(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Returns what has changed since the last time; what is read from now on is newer.
    pub(super) fn take(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *lock(&self.news))
    }

    /// Hears of the intent itself, and of what it depends on. What it didn't hear of before may have changed meanwhile.
    pub(super) fn update(&self, own: &ObjectKey, mut keys: BTreeSet<ObjectKey>) {
        keys.insert(own.clone());
        let before = std::mem::replace(&mut *lock(&self.keys), keys.clone());
        for unheard in keys.difference(&before) {
            self.tell(unheard);
        }
    }

    pub(super) fn tell(&self, changed: &ObjectKey) {
        lock(&self.news).insert(changed.clone());
        self.notify.notify_one();
    }

    fn tell_all(&self) {
        let keys = lock(&self.keys).clone();
        *lock(&self.news) = keys;
        self.notify.notify_one();
    }
}

/// Returns the objects whose changes call for another look at the control plane.
pub(super) fn keys<'a>(
    needs: Needs,
    workload: &ObjectKey,
    plane: &ControlPlane,
    named: Named<'_>,
    members: impl Iterator<Item = &'a ClusterName>,
) -> BTreeSet<ObjectKey> {
    let mut keys = plane.wakes(needs, workload, named, members);
    let canary = named.canary.filter(|_| needs.contains(Needs::CANARY));
    keys.extend(canary.map(canary_binding));
    keys
}

/// Returns the binding that Karmada makes of a canary.
pub(super) fn canary_binding(canary: &str) -> ObjectKey {
    ObjectKey {
        group: "work.karmada.io".to_owned(),
        kind: "ResourceBinding".to_owned(),
        namespace: Some(api::OWN_NAMESPACE.to_owned()),
        name: meta::binding_name(canary, "ConfigMap"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            group: "work.karmada.io".to_owned(),
            kind: "Work".to_owned(),
            namespace: None,
            name: name.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_worker_hears_of_what_it_depends_on_once_and_of_nothing_else() {
        let workers = Workers::default();
        let own = key("own");
        let watched_keys = workers.begin(&own).unwrap();
        assert!(workers.begin(&own).is_none());
        watched_keys.update(&own, BTreeSet::from([key("needed")]));
        watched_keys.take();

        workers.wake(&key("else"));
        assert!(watched_keys.take().is_empty());
        workers.wake(&key("needed"));
        workers.wake(&key("needed"));
        watched_keys.heard().await;
        assert_eq!(watched_keys.take(), BTreeSet::from([key("needed")]));
        assert!(watched_keys.take().is_empty());
    }

    #[test]
    fn what_a_worker_did_not_hear_of_before_counts_as_changed() {
        let workers = Workers::default();
        let own = key("own");
        let watched_keys = workers.begin(&own).unwrap();
        let needed = |names: &[&str]| names.iter().map(|name| key(name)).collect::<BTreeSet<_>>();
        watched_keys.update(&own, needed(&["a"]));
        assert_eq!(watched_keys.take(), needed(&["a"]));
        workers.wake(&key("b"));
        watched_keys.update(&own, needed(&["a", "b"]));
        assert_eq!(watched_keys.take(), needed(&["b"]));
        workers.wake_all();
        assert_eq!(watched_keys.take(), needed(&["a", "b", "own"]));
    }
}
