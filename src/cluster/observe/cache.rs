//! The objects of the watched kinds, and how well each kind is known. No I/O.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use super::raw::Keep;
use crate::name::{Gvk, ObjectKey};

/// What to watch of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub gvk: Gvk,
    /// Everywhere when `None`.
    pub namespace: Option<String>,
    pub labels: Option<String>,
    pub keep: Keep,
}

impl Watched {
    /// Everything of a kind, everywhere.
    pub const fn all(gvk: Gvk) -> Self {
        Self {
            gvk,
            namespace: None,
            labels: None,
            keep: Keep::ALL,
        }
    }

    /// Returns what covers both.
    pub(super) fn union(&self, other: &Self) -> Self {
        let same = |one: &Option<String>, other: &Option<String>| one.clone().filter(|_| one == other);
        Self {
            gvk: self.gvk.clone(),
            namespace: same(&self.namespace, &other.namespace),
            labels: same(&self.labels, &other.labels),
            keep: self.keep.union(other.keep),
        }
    }
}

/// An object that appeared, changed or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: ObjectKey,
    pub gone: bool,
}

/// How well a kind is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindState {
    /// The first list has not come yet.
    Waiting,
    /// Complete as of then, and followed since.
    Synced { at: Timestamp },
    /// Nobody serves the kind, so there is no object of it.
    NotServed,
    /// What is cached may be old: the watch has failed since.
    Failing {
        why: String,
        synced_at: Option<Timestamp>,
    },
}

impl KindState {
    pub const fn is_settled(&self) -> bool {
        matches!(self, Self::Synced { .. } | Self::NotServed)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKind {
    group: String,
    kind: String,
}

impl GroupKind {
    pub(super) fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
        }
    }

    pub(super) fn of(gvk: &Gvk) -> Self {
        Self::new(&gvk.group, &gvk.kind)
    }

    fn key(&self, id: &Id) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: id.0.clone(),
            name: id.1.clone(),
        }
    }
}

/// Namespace and name.
type Id = (Option<String>, String);

fn id_of(object: &Value) -> Id {
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    (text("namespace"), text("name").unwrap_or_default())
}

/// Returns the resource version as the number it is (KEP-5504); 0 for anything else.
fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[derive(Debug)]
struct Objects {
    state: KindState,
    keep: Keep,
    by_id: BTreeMap<Id, Arc<Value>>,
    /// The newest version that the watch has delivered: anything older has been seen, and perhaps deleted since.
    newest: u64,
}

#[derive(Debug)]
pub(super) struct Cache {
    kinds: RwLock<BTreeMap<GroupKind, Objects>>,
    changes: broadcast::Sender<Change>,
    version: watch::Sender<u64>,
    look_again: watch::Sender<u64>,
}

impl Default for Cache {
    fn default() -> Self {
        const BEHIND: usize = 4096;
        Self {
            kinds: RwLock::default(),
            changes: broadcast::Sender::new(BEHIND),
            version: watch::Sender::new(0),
            look_again: watch::Sender::new(0),
        }
    }
}

impl Cache {
    /// Begins, or begins anew with more to keep: what is cached stays, but isn't complete any more.
    pub(super) fn begin(&self, kind: &GroupKind, keep: Keep) {
        let mut kinds = self.write();
        let objects = kinds.entry(kind.clone()).or_insert_with(|| Objects {
            state: KindState::Waiting,
            keep,
            by_id: BTreeMap::new(),
            newest: 0,
        });
        objects.keep = keep;
        objects.state = KindState::Waiting;
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        let id = (key.namespace.clone(), key.name.clone());
        self.read()
            .get(&GroupKind::new(&key.group, &key.kind))?
            .by_id
            .get(&id)
            .cloned()
    }

    pub(super) fn resource_version(&self, key: &ObjectKey) -> Option<String> {
        let object = self.get(key)?;
        Some(
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    pub(super) fn list(&self, kind: &GroupKind) -> Vec<Arc<Value>> {
        self.read()
            .get(kind)
            .map(|objects| objects.by_id.values().cloned().collect())
            .unwrap_or_default()
    }

    pub(super) fn state(&self, kind: &GroupKind) -> Option<KindState> {
        self.read().get(kind).map(|objects| objects.state.clone())
    }

    pub(super) fn unsettled(&self) -> Vec<(String, KindState)> {
        let kinds = self.read();
        let unsettled = kinds.iter().filter(|(_, objects)| !objects.state.is_settled());
        unsettled
            .map(|(kind, objects)| (kind.kind.clone(), objects.state.clone()))
            .collect()
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(super) fn look_again(&self) {
        self.look_again.send_modify(|times| *times += 1);
    }

    pub(super) fn looks(&self) -> watch::Receiver<u64> {
        self.look_again.subscribe()
    }

    /// Takes in what a watch delivered.
    pub(super) fn put(&self, kind: &GroupKind, object: Value) {
        self.update(kind, |objects| {
            let version = version_of(&object);
            objects.newest = objects.newest.max(version);
            let id = id_of(&object);
            let known = objects.by_id.get(&id).map_or(0, |known| version_of(known));
            if version != 0 && version <= known {
                return Vec::new();
            }
            objects.by_id.insert(id.clone(), Arc::new(object));
            vec![Change {
                key: kind.key(&id),
                gone: false,
            }]
        });
    }

    /// Takes in what a watch says is gone.
    pub(super) fn remove(&self, kind: &GroupKind, object: &Value) {
        self.update(kind, |objects| {
            objects.newest = objects.newest.max(version_of(object));
            let id = id_of(object);
            let gone = objects.by_id.remove(&id).map(|_| Change {
                key: kind.key(&id),
                gone: true,
            });
            gone.into_iter().collect()
        });
    }

    /// Takes in a complete list: what isn't in it is gone.
    pub(super) fn replace(&self, kind: &GroupKind, list: Vec<Value>, now: Timestamp) {
        self.update(kind, |objects| {
            let mut before = std::mem::take(&mut objects.by_id);
            let mut changes = Vec::new();
            for object in list {
                let id = id_of(&object);
                objects.newest = objects.newest.max(version_of(&object));
                let known = before.remove(&id);
                if known.is_none_or(|known| *known != object) {
                    changes.push(Change {
                        key: kind.key(&id),
                        gone: false,
                    });
                }
                objects.by_id.insert(id, Arc::new(object));
            }
            changes.extend(before.keys().map(|id| Change {
                key: kind.key(id),
                gone: true,
            }));
            objects.state = KindState::Synced { at: now };
            changes
        });
    }

    /// Takes in the answer of a write of our own, unless the watch is ahead of it.
    pub(super) fn note(&self, key: &ObjectKey, object: &Value) {
        let kind = GroupKind::new(&key.group, &key.kind);
        self.update(&kind, |objects| {
            let id = (key.namespace.clone(), key.name.clone());
            let version = version_of(object);
            let known = objects.by_id.get(&id).map_or(0, |known| version_of(known));
            if version <= objects.newest || version <= known {
                return Vec::new();
            }
            let mut object = object.clone();
            objects.keep.prune(&mut object);
            objects.by_id.insert(id, Arc::new(object));
            vec![Change {
                key: key.clone(),
                gone: false,
            }]
        });
    }

    pub(super) fn not_served(&self, kind: &GroupKind) {
        self.update(kind, |objects| {
            objects.state = KindState::NotServed;
            objects.newest = 0;
            let gone = std::mem::take(&mut objects.by_id);
            gone.keys()
                .map(|id| Change {
                    key: kind.key(id),
                    gone: true,
                })
                .collect()
        });
    }

    pub(super) fn failing(&self, kind: &GroupKind, why: String) {
        self.update(kind, |objects| {
            let synced_at = match objects.state {
                KindState::Synced { at } => Some(at),
                KindState::Failing { synced_at, .. } => synced_at,
                KindState::Waiting | KindState::NotServed => None,
            };
            objects.state = KindState::Failing { why, synced_at };
            Vec::new()
        });
    }

    /// The watch goes on where it was: what is cached is complete again.
    pub(super) fn following(&self, kind: &GroupKind, now: Timestamp) {
        let failing = matches!(
            self.state(kind),
            Some(KindState::Failing {
                synced_at: Some(_),
                ..
            })
        );
        if failing {
            self.update(kind, |objects| {
                objects.state = KindState::Synced { at: now };
                Vec::new()
            });
        }
    }

    fn update(&self, kind: &GroupKind, change: impl FnOnce(&mut Objects) -> Vec<Change>) {
        let changes = match self.write().get_mut(kind) {
            Some(objects) => change(objects),
            None => return,
        };
        for change in changes {
            // Nobody listens: that is fine.
            let _ = self.changes.send(change);
        }
        self.version.send_modify(|version| *version += 1);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<GroupKind, Objects>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<GroupKind, Objects>> {
        self.kinds.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": version.to_string()}})
    }

    fn kind() -> GroupKind {
        GroupKind::new("", "ConfigMap")
    }

    fn cache() -> Cache {
        let cache = Cache::default();
        cache.begin(&kind(), Keep::ALL);
        cache
    }

    fn key(name: &str) -> ObjectKey {
        kind().key(&(Some("shop".into()), name.into()))
    }

    fn heard(changes: &mut broadcast::Receiver<Change>) -> Vec<(String, bool)> {
        std::iter::from_fn(|| changes.try_recv().ok())
            .map(|change| (change.key.name, change.gone))
            .collect()
    }

    #[test]
    fn a_complete_list_says_what_is_new_what_changed_and_what_is_gone() {
        let cache = cache();
        cache.replace(
            &kind(),
            vec![object("a", 1), object("b", 2), object("c", 3)],
            Timestamp::UNIX_EPOCH,
        );
        let mut changes = cache.subscribe();
        cache.replace(
            &kind(),
            vec![object("a", 1), object("b", 5), object("d", 6)],
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            heard(&mut changes),
            [("b".into(), false), ("d".into(), false), ("c".into(), true)]
        );
    }

    #[test]
    fn our_own_write_is_known_before_the_watch_says_so_and_told_once() {
        let cache = cache();
        cache.replace(&kind(), vec![object("a", 1)], Timestamp::UNIX_EPOCH);
        let mut changes = cache.subscribe();
        cache.note(&key("a"), &object("a", 4));
        cache.put(&kind(), object("a", 4));
        assert_eq!(heard(&mut changes), [("a".into(), false)]);
        assert_eq!(version_of(&cache.get(&key("a")).unwrap()), 4);
    }

    #[test]
    fn the_answer_of_a_write_does_not_bring_back_what_was_deleted_meanwhile() {
        let cache = cache();
        cache.put(&kind(), object("a", 4));
        cache.remove(&kind(), &object("a", 5));
        cache.note(&key("a"), &object("a", 4));
        assert_eq!(cache.get(&key("a")), None);
    }

    #[test]
    fn what_failed_is_not_complete_until_the_watch_goes_on() {
        let cache = cache();
        cache.replace(&kind(), Vec::new(), Timestamp::UNIX_EPOCH);
        cache.failing(&kind(), "gone away".into());
        assert_eq!(cache.unsettled().len(), 1);
        cache.following(&kind(), Timestamp::UNIX_EPOCH);
        assert!(cache.unsettled().is_empty());
    }
}
