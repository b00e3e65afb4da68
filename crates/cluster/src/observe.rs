//! A watch cache: what the API server last said of the kinds that are asked for, and a word on every change.
//!
//! Good for deciding what to look at and when; never the evidence of a proof (see [`super::Reader`]).

mod cache;
mod idle_timeout;
mod news;
mod raw;
mod watch;

pub use cache::{Change, KindState, Watched};
pub use news::News;
pub use raw::{Form, Keep, KeepManagedFields};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use self::cache::Cache;
use super::connect::Cluster;
use cutover_base::packed::View;
use cutover_karmada::name::{GroupKind, ObjectKey};

/// A live view of some kinds. Clones share it; the watches end with the last one.
#[derive(Clone, Debug)]
pub struct Observer {
    cluster: Cluster,
    cache: Arc<Cache>,
    watches: Arc<Watches>,
}

#[derive(Debug, Default)]
struct Watches(Mutex<BTreeMap<GroupKind, (Watched, AbortHandle)>>);

impl Drop for Watches {
    fn drop(&mut self) {
        for (_, task) in self.0.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            task.abort();
        }
    }
}

impl Observer {
    /// Begins with no kinds.
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            cache: Arc::default(),
            watches: Arc::default(),
        }
    }

    /// Watches a kind from now on. One that is watched already, but for less, is listed again.
    pub fn watch(&self, wanted: Watched) {
        let kind = GroupKind::from(&wanted.gvk);
        let mut tasks = self.watches.0.lock().unwrap_or_else(PoisonError::into_inner);
        let widened = match tasks.get(&kind) {
            Some((watched, task)) => {
                let both = watched.union(&wanted);
                if both == *watched {
                    return;
                }
                task.abort();
                both
            }
            None => wanted,
        };
        self.cache.begin(&widened);
        let task = watch::run(self.cluster.clone(), Arc::clone(&self.cache), widened.clone());
        tasks.insert(kind, (widened, tokio::spawn(task).abort_handle()));
    }

    /// Returns an object as it was last seen; nothing of a kind of which only the versions are kept.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.cache.get(key)
    }

    /// Looks at an object as it was last seen without unpacking it; nothing of a kind that isn't kept packed.
    pub fn look<T>(&self, key: &ObjectKey, look: impl FnOnce(View<'_>) -> T) -> Option<T> {
        self.cache.view(key, look)
    }

    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.cache.version(key).is_some()
    }

    /// Returns the `resourceVersion` at which an object was last seen.
    pub fn version(&self, key: &ObjectKey) -> Option<String> {
        match self.cache.version(key)? {
            0 => Some(self.get(key)?["metadata"]["resourceVersion"].as_str()?.to_owned()),
            version => Some(version.to_string()),
        }
    }

    /// Returns what changes with everything but the status of an object. Nothing of a kind that is kept whole.
    pub fn fingerprint(&self, key: &ObjectKey) -> Option<u64> {
        self.cache.fingerprint(key)
    }

    /// Returns all objects of a kind, by namespace and name.
    pub fn list(&self, group: &str, kind: &str) -> Vec<Arc<Value>> {
        self.cache.list(&GroupKind::new(group, kind))
    }

    /// Returns which objects of a kind there are, by namespace and name, without unpacking any.
    pub fn keys(&self, group: &str, kind: &str) -> Vec<ObjectKey> {
        self.cache.keys(&GroupKind::new(group, kind))
    }

    /// Returns the objects of a kind that have a label, without unpacking any.
    pub fn labelled(&self, group: &str, kind: &str, label: &str, value: &str) -> Vec<ObjectKey> {
        self.cache.labelled(&GroupKind::new(group, kind), label, value)
    }

    /// Returns how well a kind is known; `None` when it isn't watched.
    pub fn state(&self, group: &str, kind: &str) -> Option<KindState> {
        self.cache.state(&GroupKind::new(group, kind))
    }

    /// Returns the changes from now on. A receiver that lags behind must look at everything.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.cache.subscribe()
    }

    /// Returns word of the changes from now on, for those who look at everything anyway.
    pub fn news(&self) -> News {
        News::new(self.changes())
    }

    /// Waits until every kind that is watched is known, or is known not to be served; returns the others after `limit`.
    pub async fn settled(&self, limit: Duration) -> Vec<(String, KindState)> {
        self.until(limit, |observer| observer.cache.unsettled().is_empty())
            .await;
        self.cache.unsettled()
    }

    /// Waits until something is known of every kind that is watched, be it that it can't be listed; false after `limit`.
    pub async fn heard(&self, limit: Duration) -> bool {
        self.until(limit, |observer| observer.unheard() == 0).await
    }

    /// Returns of how many kinds that are watched nothing is known yet.
    pub fn unheard(&self) -> usize {
        let waits = |(_, state): &&(String, KindState)| *state == KindState::Waiting;
        self.cache.unsettled().iter().filter(waits).count()
    }

    /// Waits until the cache satisfies a condition, which is tried after every change; false after `limit`.
    pub async fn until(&self, limit: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        let mut versions = self.cache.versions();
        let satisfied = async {
            loop {
                versions.mark_unchanged();
                if condition(self) {
                    return true;
                }
                if versions.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(limit, satisfied).await.unwrap_or(false)
    }

    /// Takes in the answer of a write of our own, so that the next decision knows of it before the watch says so.
    pub fn note(&self, key: &ObjectKey, object: &Value) {
        self.cache.note(key, object);
    }

    /// Looks again at once for kinds that weren't served: a CRD was installed.
    pub fn look_again(&self) {
        self.cache.look_again();
    }
}
