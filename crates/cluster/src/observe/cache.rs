//! The objects of the watched kinds, and how well each kind is known. No I/O.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use super::raw::{Form, Keep, health};
use crate::object::with_type;
use cutover_base::packed::{Packed, View};
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};

/// What to watch of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub gvk: Gvk,
    /// Everywhere when `None`.
    pub namespace: Option<String>,
    pub labels: Option<String>,
    pub keep: Keep,
    pub form: Form,
}

impl Watched {
    /// Everything of a kind, everywhere.
    pub const fn all(gvk: Gvk) -> Self {
        Self {
            gvk,
            namespace: None,
            labels: None,
            keep: Keep::ALL,
            form: Form::Packed,
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
            form: self.form.max(other.form),
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

    /// Returns whether its objects have been listed once, or there can be none.
    pub const fn was_listed(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Failing { synced_at: None, .. })
    }
}

/// Namespace and name.
type Id = (Option<String>, String);

fn key_of(kind: &GroupKind, (namespace, name): &Id) -> ObjectKey {
    kind.key(namespace.as_deref(), name)
}

/// An object as a watch, a list or a write told of it.
#[derive(Debug)]
pub(super) struct Seen {
    id: Id,
    /// The resource version as the number it is (KEP-5504); 0 for anything else.
    version: u64,
    content: Packed,
}

impl Seen {
    pub(super) fn new(content: Packed) -> Self {
        let metadata = content.view().get("metadata");
        let text = |field: &str| metadata?.get(field)?.as_str();
        Self {
            id: (
                text("namespace").map(str::to_owned),
                text("name").unwrap_or_default().to_owned(),
            ),
            version: text("resourceVersion")
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            content,
        }
    }
}

/// An object as it is kept.
#[derive(Debug)]
struct Kept {
    version: u64,
    /// Of its metadata, the generation of its spec among them; only of kinds that are not kept whole.
    fingerprint: u64,
    /// The list that it was in last.
    list: u32,
    content: Content,
}

/// Returns what tells whether anything but a status has changed: a change of the spec counts the generation up.
fn fingerprint(object: &Packed) -> u64 {
    let mut hasher = DefaultHasher::new();
    let fields = object.view().get("metadata").into_iter().flat_map(View::fields);
    for (name, value) in fields.filter(|(name, _)| !matches!(*name, "resourceVersion" | "managedFields")) {
        (name, value.value().to_string()).hash(&mut hasher);
    }
    hasher.finish()
}

#[derive(Debug, PartialEq)]
enum Content {
    Nothing,
    Packed(Packed),
    Tree(Arc<Value>),
}

#[derive(Debug)]
struct Objects {
    state: KindState,
    gvk: Gvk,
    keep: Keep,
    form: Form,
    by_id: BTreeMap<Id, Kept>,
    /// The newest version that the watch has delivered: anything older has been seen, and perhaps deleted since.
    newest: u64,
    /// Counts the lists that were begun.
    list: u32,
}

impl Objects {
    fn content(&self, seen: &Packed) -> Content {
        match self.form {
            Form::Version => Content::Nothing,
            Form::Health => Content::Packed(health(seen)),
            Form::Packed => Content::Packed(self.keep.of(seen)),
            Form::Tree => Content::Tree(Arc::new(with_type(self.keep.of(seen).value(), &self.gvk))),
        }
    }

    fn value(&self, kept: &Kept) -> Option<Arc<Value>> {
        match &kept.content {
            Content::Nothing => None,
            // The items of a list don't say of which type they are.
            Content::Packed(packed) => Some(Arc::new(with_type(packed.value(), &self.gvk))),
            Content::Tree(value) => Some(Arc::clone(value)),
        }
    }

    /// Returns whether this is news.
    fn put(&mut self, seen: Seen, list: u32) -> bool {
        let kept = Kept {
            version: seen.version,
            fingerprint: match self.form {
                Form::Version | Form::Health => fingerprint(&seen.content),
                Form::Packed | Form::Tree => 0,
            },
            list,
            content: self.content(&seen.content),
        };
        let known = self.by_id.get(&seen.id);
        let differs =
            known.is_none_or(|known| known.version != kept.version || known.content != kept.content);
        self.by_id.insert(seen.id, kept);
        differs
    }
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
    pub(super) fn begin(&self, watched: &Watched) {
        let mut kinds = self.write();
        let kind = GroupKind::from(&watched.gvk);
        let objects = kinds.entry(kind).or_insert_with(|| Objects {
            state: KindState::Waiting,
            gvk: watched.gvk.clone(),
            keep: watched.keep,
            form: watched.form,
            by_id: BTreeMap::new(),
            newest: 0,
            list: 0,
        });
        objects.keep = watched.keep;
        objects.form = watched.form;
        objects.state = KindState::Waiting;
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.look(key, Objects::value).flatten()
    }

    pub(super) fn view<T>(&self, key: &ObjectKey, look: impl FnOnce(View<'_>) -> T) -> Option<T> {
        self.look(key, |_, kept| match &kept.content {
            Content::Packed(packed) => Some(look(packed.view())),
            Content::Nothing | Content::Tree(_) => None,
        })
        .flatten()
    }

    /// Returns the resource version of an object; nothing of it if the server has them otherwise than as numbers.
    pub(super) fn version(&self, key: &ObjectKey) -> Option<u64> {
        self.look(key, |_, kept| kept.version)
    }

    pub(super) fn fingerprint(&self, key: &ObjectKey) -> Option<u64> {
        let fingerprint = self.look(key, |_, kept| kept.fingerprint)?;
        (fingerprint != 0).then_some(fingerprint)
    }

    fn look<T>(&self, key: &ObjectKey, look: impl FnOnce(&Objects, &Kept) -> T) -> Option<T> {
        let id = (key.namespace.clone(), key.name.clone());
        let kinds = self.read();
        let objects = kinds.get(&GroupKind::from(key))?;
        objects.by_id.get(&id).map(|kept| look(objects, kept))
    }

    pub(super) fn list(&self, kind: &GroupKind) -> Vec<Arc<Value>> {
        let kinds = self.read();
        let objects = kinds.get(kind).into_iter();
        objects
            .flat_map(|objects| objects.by_id.values().filter_map(|kept| objects.value(kept)))
            .collect()
    }

    pub(super) fn keys(&self, kind: &GroupKind) -> Vec<ObjectKey> {
        let kinds = self.read();
        let objects = kinds.get(kind).into_iter();
        objects
            .flat_map(|objects| objects.by_id.keys().map(|id| key_of(kind, id)))
            .collect()
    }

    pub(super) fn labelled(&self, kind: &GroupKind, label: &str, value: &str) -> Vec<ObjectKey> {
        let has = |kept: &Kept| match &kept.content {
            Content::Nothing => false,
            Content::Packed(packed) => {
                let labels = packed
                    .view()
                    .get("metadata")
                    .and_then(|metadata| metadata.get("labels"));
                labels.and_then(|labels| labels.get(label)).and_then(View::as_str) == Some(value)
            }
            Content::Tree(tree) => tree["metadata"]["labels"][label] == value,
        };
        let kinds = self.read();
        let objects = kinds.get(kind).into_iter().flat_map(|objects| &objects.by_id);
        objects
            .filter(|(_, kept)| has(kept))
            .map(|(id, _)| key_of(kind, id))
            .collect()
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
    pub(super) fn put(&self, kind: &GroupKind, seen: Seen) {
        self.update(kind, |objects| {
            objects.newest = objects.newest.max(seen.version);
            let known = objects.by_id.get(&seen.id).map_or(0, |known| known.version);
            if seen.version != 0 && seen.version <= known {
                return Vec::new();
            }
            let key = key_of(kind, &seen.id);
            objects.put(seen, objects.list);
            vec![Change { key, gone: false }]
        });
    }

    /// Takes in what a watch says is gone.
    pub(super) fn remove(&self, kind: &GroupKind, seen: Seen) {
        self.update(kind, |objects| {
            objects.newest = objects.newest.max(seen.version);
            let gone = objects.by_id.remove(&seen.id).map(|_| Change {
                key: key_of(kind, &seen.id),
                gone: true,
            });
            gone.into_iter().collect()
        });
    }

    /// A list begins: it says of every object whether it is there.
    pub(super) fn begin_list(&self, kind: &GroupKind) {
        self.update(kind, |objects| {
            objects.list += 1;
            Vec::new()
        });
    }

    /// Takes in a part of a list.
    pub(super) fn listed(&self, kind: &GroupKind, part: impl Iterator<Item = Seen>) {
        self.update(kind, |objects| {
            let mut changes = Vec::new();
            for seen in part {
                objects.newest = objects.newest.max(seen.version);
                let key = key_of(kind, &seen.id);
                if objects.put(seen, objects.list) {
                    changes.push(Change { key, gone: false });
                }
            }
            changes
        });
    }

    /// A list has ended: what wasn't in it is gone.
    pub(super) fn end_list(&self, kind: &GroupKind, now: Timestamp) {
        self.update(kind, |objects| {
            let list = objects.list;
            let gone = objects.by_id.extract_if(.., |_, kept| kept.list != list);
            let changes = gone.map(|(id, _)| Change {
                key: key_of(kind, &id),
                gone: true,
            });
            let changes = changes.collect();
            objects.state = KindState::Synced { at: now };
            changes
        });
    }

    /// Takes in the answer of a write of our own, unless the watch is ahead of it.
    pub(super) fn note(&self, key: &ObjectKey, object: &Value) {
        let kind = GroupKind::from(key);
        let seen = Seen {
            id: (key.namespace.clone(), key.name.clone()),
            ..Seen::new(Packed::of(object))
        };
        self.update(&kind, |objects| {
            let known = objects.by_id.get(&seen.id).map_or(0, |known| known.version);
            if seen.version <= objects.newest || seen.version <= known {
                return Vec::new();
            }
            // If a list is coming in that lacks it, it is gone; or the watch will say that it is there.
            objects.put(seen, 0);
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
                    key: key_of(kind, id),
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

    fn seen(name: &str, version: u64) -> Seen {
        Seen::new(Packed::of(&object(name, version)))
    }

    fn kind() -> GroupKind {
        GroupKind::new("", "ConfigMap")
    }

    fn cache() -> Cache {
        let cache = Cache::default();
        cache.begin(&Watched::all(Gvk::new("v1", "ConfigMap")));
        cache
    }

    fn key(name: &str) -> ObjectKey {
        kind().key(Some("shop"), name)
    }

    fn list<const N: usize>(cache: &Cache, objects: [(&str, u64); N]) {
        cache.begin_list(&kind());
        for (name, version) in objects {
            cache.listed(&kind(), std::iter::once(seen(name, version)));
        }
        cache.end_list(&kind(), Timestamp::UNIX_EPOCH);
    }

    fn heard(changes: &mut broadcast::Receiver<Change>) -> Vec<(String, bool)> {
        std::iter::from_fn(|| changes.try_recv().ok())
            .map(|change| (change.key.name, change.gone))
            .collect()
    }

    #[test]
    fn a_complete_list_says_what_is_new_what_changed_and_what_is_gone() {
        let cache = cache();
        list(&cache, [("a", 1), ("b", 2), ("c", 3)]);
        let mut changes = cache.subscribe();
        list(&cache, [("a", 1), ("b", 5), ("d", 6)]);
        assert_eq!(
            heard(&mut changes),
            [("b".into(), false), ("d".into(), false), ("c".into(), true)]
        );
    }

    #[test]
    fn a_list_that_breaks_off_says_nothing_of_what_is_gone() {
        let cache = cache();
        list(&cache, [("a", 1), ("b", 2)]);
        cache.begin_list(&kind());
        cache.listed(&kind(), std::iter::once(seen("b", 2)));
        assert!(cache.get(&key("a")).is_some());
        list(&cache, [("a", 1)]);
        assert_eq!(
            (cache.get(&key("a")).is_some(), cache.get(&key("b"))),
            (true, None)
        );
    }

    #[test]
    fn a_list_has_the_last_word_on_what_was_written_meanwhile() {
        let cache = cache();
        cache.begin_list(&kind());
        cache.note(&key("a"), &object("a", 4));
        cache.listed(&kind(), std::iter::once(seen("b", 2)));
        cache.end_list(&kind(), Timestamp::UNIX_EPOCH);
        assert_eq!((cache.get(&key("a")), cache.version(&key("b"))), (None, Some(2)));
    }

    #[test]
    fn our_own_write_is_known_before_the_watch_says_so_and_told_once() {
        let cache = cache();
        list(&cache, [("a", 1)]);
        let mut changes = cache.subscribe();
        cache.note(&key("a"), &object("a", 4));
        cache.put(&kind(), seen("a", 4));
        assert_eq!(heard(&mut changes), [("a".into(), false)]);
        assert_eq!(cache.version(&key("a")), Some(4));
    }

    #[test]
    fn the_answer_of_a_write_does_not_bring_back_what_was_deleted_meanwhile() {
        let cache = cache();
        cache.put(&kind(), seen("a", 4));
        cache.remove(&kind(), seen("a", 5));
        cache.note(&key("a"), &object("a", 4));
        assert_eq!(cache.get(&key("a")), None);
    }

    #[test]
    fn whatever_the_form_the_same_is_found_or_nothing() {
        let object = json!({
            "metadata": {
                "name": "a", "namespace": "shop", "resourceVersion": "7", "labels": {"of": "fleet"},
                "managedFields": [{"manager": "x"}, {"manager": "y", "subresource": "status"}],
            },
            "data": {"big": u64::MAX, "part": 0.1},
            "status": {"is": "left out"},
        });
        let kept = json!({
            "metadata": {
                "name": "a", "namespace": "shop", "resourceVersion": "7", "labels": {"of": "fleet"},
                "managedFields": [{"manager": "x"}],
            },
            "data": {"big": u64::MAX, "part": 0.1},
            "apiVersion": "v1", "kind": "ConfigMap",
        });
        for (form, expected) in [
            (Form::Version, None),
            (Form::Packed, Some(&kept)),
            (Form::Tree, Some(&kept)),
        ] {
            let cache = Cache::default();
            cache.begin(&Watched {
                form,
                keep: Keep {
                    status: false,
                    ..Keep::ALL
                },
                ..Watched::all(Gvk::new("v1", "ConfigMap"))
            });
            cache.put(&kind(), Seen::new(Packed::of(&object)));
            assert_eq!(cache.get(&key("a")).as_deref(), expected, "{form:?}");
            assert_eq!(cache.version(&key("a")), Some(7));
            assert_eq!(cache.keys(&kind()), [key("a")], "{form:?}");
            let labelled = cache.labelled(&kind(), "of", "fleet");
            assert_eq!(labelled.len(), usize::from(expected.is_some()), "{form:?}");
            assert_eq!(cache.labelled(&kind(), "of", "others"), []);
        }
    }

    #[test]
    fn of_a_binding_its_copies_and_their_health_are_kept_and_its_changes_are_told_apart() {
        let bindings = GroupKind::new("work.karmada.io", "ResourceBinding");
        let cache = Cache::default();
        cache.begin(&Watched {
            form: Form::Health,
            ..Watched::all(Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding"))
        });
        let binding = |version: u64, health: &str| {
            json!({
                "metadata": {
                    "name": "web", "namespace": "shop", "resourceVersion": version.to_string(), "generation": 2,
                    "annotations": {"placement": "{}"}, "labels": {"id": "b1"}, "managedFields": [{"manager": "x"}],
                },
                "spec": {"clusters": [{"name": "east"}], "placement": {"clusterAffinity": {}}},
                "status": {"aggregatedStatus": [
                    {"clusterName": "east", "applied": true, "health": health, "status": {"replicas": 3}},
                ]},
            })
        };
        let key = bindings.key(Some("shop"), "web");
        cache.put(&bindings, Seen::new(Packed::of(&binding(1, "Healthy"))));
        let before = cache.fingerprint(&key);
        cache.put(&bindings, Seen::new(Packed::of(&binding(2, "Unhealthy"))));
        assert!(before.is_some() && before == cache.fingerprint(&key));
        assert_eq!(
            cache.get(&key).as_deref(),
            Some(&json!({
                "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {
                    "name": "web", "namespace": "shop", "resourceVersion": "2", "generation": 2, "labels": {"id": "b1"},
                },
                "spec": {"clusters": [{"name": "east"}]},
                "status": {"aggregatedStatus": [{"clusterName": "east", "applied": true, "health": "Unhealthy"}]},
            }))
        );
    }

    #[test]
    fn a_change_of_the_status_alone_leaves_the_fingerprint_as_it_is() {
        let cache = Cache::default();
        cache.begin(&Watched {
            form: Form::Version,
            ..Watched::all(Gvk::new("v1", "ConfigMap"))
        });
        let fingerprint = |version: u64, change: &[(&str, Value)]| {
            let mut object = object("a", version);
            for (field, value) in change {
                object["metadata"][*field] = value.clone();
            }
            cache.put(&kind(), Seen::new(Packed::of(&object)));
            cache.fingerprint(&key("a")).unwrap()
        };
        let first = fingerprint(1, &[("generation", json!(1))]);
        assert_eq!(first, fingerprint(2, &[("generation", json!(1))]));
        assert_ne!(first, fingerprint(3, &[("generation", json!(2))]));
        let noted = [("generation", json!(1)), ("annotations", json!({"a": "b"}))];
        assert_ne!(first, fingerprint(4, &noted));
    }

    #[test]
    fn what_failed_is_not_complete_until_the_watch_goes_on() {
        let cache = cache();
        list(&cache, []);
        cache.failing(&kind(), "gone away".into());
        assert_eq!(cache.unsettled().len(), 1);
        cache.following(&kind(), Timestamp::UNIX_EPOCH);
        assert!(cache.unsettled().is_empty());
    }
}
