//! Objects by resource, namespace and name, with one revision counter and a bounded log of events a resource.
//!
//! What etcd and the watch cache are to a real API server. It knows nothing of what objects mean: that is `api`.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::Value;

mod state;
mod tree;

use state::State;
pub(crate) use tree::fitted;

/// An object as it was at one revision: immutable and shared.
pub type Object = Arc<Value>;

/// A kind of objects by its API group and plural name, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub group: Cow<'static, str>,
    pub plural: Cow<'static, str>,
}

impl Resource {
    pub const fn new(group: &'static str, plural: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            plural: Cow::Borrowed(plural),
        }
    }

    pub fn named(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self {
            group: Cow::Owned(group.into()),
            plural: Cow::Owned(plural.into()),
        }
    }
}

/// As error messages name it: `configmaps`, `deployments.apps`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// Where an object is within its resource; the namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.unwrap_or_default().to_owned(),
            name: name.to_owned(),
        }
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// How many states of a resource that have just come or gone stay trees.
const AWAKE: usize = 64;

/// How much of its log a resource keeps: readers that are further behind have to list again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub events: usize,
    /// How much memory the states of objects that are no longer the present ones might take; at rest it is a fifth.
    pub bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            events: 20_000,
            bytes: 4 << 20,
        }
    }
}

/// One event of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    pub revision: u64,
    pub change: Change,
    pub key: Key,
    object: Arc<State>,
    previous: Option<Arc<State>>,
}

impl Entry {
    /// Returns the object after the change; of a deleted one its last state, stamped with the revision of the deletion.
    pub fn object(&self) -> Object {
        self.object.object()
    }

    /// Returns the object before the change.
    pub fn previous(&self) -> Option<Object> {
        self.previous.as_ref().map(|state| state.object())
    }
}

/// The log no longer reaches back to where a reader wants to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    pub wanted: u64,
    pub oldest: u64,
}

/// A reader's place in the log of one resource.
#[derive(Debug)]
pub struct Cursor {
    resource: Resource,
    id: u64,
    position: u64,
}

/// All objects of one API server.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    tables: BTreeMap<Resource, Table>,
    history: History,
    next_cursor: u64,
    woken: Vec<Waker>,
    /// Wakers that are no longer needed.
    stale: Vec<Waker>,
}

/// All objects of one API server as they were at one revision.
#[derive(Clone, Debug)]
pub struct Saved {
    revision: u64,
    tables: BTreeMap<Resource, BTreeMap<Key, Arc<State>>>,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<Key, Arc<State>>,
    /// States that have just come or gone, which readers are still to see.
    awake: VecDeque<Arc<State>>,
    log: VecDeque<Logged>,
    /// What the log takes of its share of memory.
    weight: usize,
    /// How many entries were ever dropped: the position of `log[0]`.
    dropped: u64,
    /// The revision of the last entry dropped.
    compacted: u64,
    waiting: BTreeMap<u64, Waker>,
}

/// An entry, and what states it alone keeps in memory.
#[derive(Debug)]
struct Logged {
    entry: Arc<Entry>,
    weight: usize,
}

impl Store {
    /// Creates an empty store.
    pub fn new(history: History) -> Self {
        Self {
            // As in etcd, the first write has a revision above 1: 0 means "any" to clients.
            revision: 1,
            tables: BTreeMap::new(),
            history,
            next_cursor: 0,
            woken: Vec::new(),
            stale: Vec::new(),
        }
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn get(&self, resource: &Resource, key: &Key) -> Option<Object> {
        let state = self.tables.get(resource)?.objects.get(key)?;
        Some(state.object())
    }

    /// Returns the objects of a resource, or of one namespace of it, in the order of namespace and name.
    pub fn scan<'a>(
        &'a self,
        resource: &Resource,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, Object)> + use<'a> {
        let table = self.tables.get(resource);
        let from = Bound::Included(Key::new(namespace, ""));
        table
            .into_iter()
            .flat_map(move |table| table.objects.range((from.clone(), Bound::Unbounded)))
            .take_while(move |(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace))
            .map(|(key, state)| (key, state.object()))
    }

    /// Returns the objects as they were at `revision`, by undoing what the log says has happened since.
    pub fn scan_at(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<BTreeMap<Key, Object>, Compacted> {
        let mut objects: BTreeMap<Key, Object> = self
            .scan(resource, namespace)
            .map(|(key, object)| (key.clone(), object))
            .collect();
        let Some(table) = self.tables.get(resource) else {
            return Ok(objects);
        };
        table.reaches(revision)?;
        for entry in table
            .log
            .iter()
            .rev()
            .map(|logged| &logged.entry)
            .take_while(|entry| entry.revision > revision)
        {
            if namespace.is_some_and(|namespace| entry.key.namespace != namespace) {
                continue;
            }
            match entry.previous() {
                Some(previous) => objects.insert(entry.key.clone(), previous),
                None => objects.remove(&entry.key),
            };
        }
        Ok(objects)
    }

    /// Writes an object and stamps it with a new revision.
    pub fn put(&mut self, resource: &Resource, key: &Key, object: Value) -> Object {
        let revision = self.advance();
        let object = Arc::new(fitted(stamp(object, revision)));
        let state = State::new(Arc::clone(&object));
        let table = self.tables.entry(resource.clone()).or_default();
        let previous = table.objects.insert(key.clone(), Arc::clone(&state));
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        self.log(
            resource,
            Entry {
                revision,
                change,
                key: key.clone(),
                object: state,
                previous,
            },
        );
        object
    }

    /// Removes an object; its last state in the log is `last`.
    pub fn remove(&mut self, resource: &Resource, key: &Key, last: Value) -> Option<Object> {
        let previous = self.tables.get_mut(resource)?.objects.remove(key)?;
        let revision = self.advance();
        let object = Arc::new(fitted(stamp(last, revision)));
        self.log(
            resource,
            Entry {
                revision,
                change: Change::Deleted,
                key: key.clone(),
                object: State::new(Arc::clone(&object)),
                previous: Some(previous),
            },
        );
        Some(object)
    }

    /// Begins to read the log after `revision`.
    pub fn subscribe(&mut self, resource: &Resource, revision: u64) -> Result<Cursor, Compacted> {
        let table = self.tables.entry(resource.clone()).or_default();
        table.reaches(revision)?;
        let behind = table
            .log
            .partition_point(|logged| logged.entry.revision <= revision);
        self.next_cursor += 1;
        Ok(Cursor {
            resource: resource.clone(),
            id: self.next_cursor,
            position: table.dropped + behind as u64,
        })
    }

    /// Returns the next entry of the log, or sees to it that the reader is woken by the next write.
    pub fn poll_next(
        &mut self,
        cursor: &mut Cursor,
        context: &Context<'_>,
    ) -> Poll<Result<Arc<Entry>, Compacted>> {
        let table = self.tables.entry(cursor.resource.clone()).or_default();
        let Some(index) = cursor.position.checked_sub(table.dropped) else {
            return Poll::Ready(Err(Compacted {
                wanted: cursor.position,
                oldest: table.compacted,
            }));
        };
        if let Some(logged) = usize::try_from(index).ok().and_then(|index| table.log.get(index)) {
            cursor.position += 1;
            return Poll::Ready(Ok(Arc::clone(&logged.entry)));
        }
        // Not woken, only dropped: a reader that asks again while it waits would wake itself for ever.
        self.stale
            .extend(table.waiting.insert(cursor.id, context.waker().clone()));
        Poll::Pending
    }

    pub fn unsubscribe(&mut self, cursor: &Cursor) {
        if let Some(waker) = self
            .tables
            .get_mut(&cursor.resource)
            .and_then(|table| table.waiting.remove(&cursor.id))
        {
            self.stale.push(waker);
        }
    }

    /// Forgets the history, as etcd's compaction does: readers that are behind have to list again.
    pub fn compact(&mut self) {
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.forget();
            table.compacted = revision;
        }
    }

    /// Returns everything that is stored now.
    pub fn save(&self) -> Saved {
        let objects = |table: &Table| table.objects.clone();
        Saved {
            revision: self.revision,
            tables: self
                .tables
                .iter()
                .map(|(resource, table)| (resource.clone(), objects(table)))
                .collect(),
        }
    }

    /// Goes back to what was saved, its revision included, as etcd does from a snapshot: all readers have to list again.
    pub fn restore(&mut self, saved: &Saved) {
        self.revision = saved.revision;
        for resource in saved.tables.keys() {
            self.tables.entry(resource.clone()).or_default();
        }
        for (resource, table) in &mut self.tables {
            table.objects = saved.tables.get(resource).cloned().unwrap_or_default();
            table.forget();
            // A reader that had seen everything is behind, too.
            table.dropped += 1;
            table.compacted = saved.revision;
            self.woken
                .extend(std::mem::take(&mut table.waiting).into_values());
        }
    }

    /// Takes the wakers to call once the lock around the store is released: a waker that is called or dropped
    /// may come back here.
    pub fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Takes the wakers to drop once the lock around the store is released.
    pub fn take_stale(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.stale)
    }

    fn advance(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    fn log(&mut self, resource: &Resource, entry: Entry) {
        let Some(table) = self.tables.get_mut(resource) else {
            return;
        };
        table.push(entry);
        table.rest();
        while table.exceeds(self.history) && table.drop_oldest() {}
        self.woken
            .extend(std::mem::take(&mut table.waiting).into_values());
    }
}

impl Table {
    fn push(&mut self, entry: Entry) {
        // The present state of an object is the store's; the last state of one that is gone is nobody else's.
        let last = (entry.change == Change::Deleted).then_some(&entry.object);
        let past = entry.previous.iter().chain(last);
        let weight = past.map(|state| state.pass()).sum();
        self.weight += weight;
        self.awake
            .extend(entry.previous.iter().chain([&entry.object]).map(Arc::clone));
        self.log.push_back(Logged {
            entry: Arc::new(entry),
            weight,
        });
    }

    /// Lets all states rest but the newest.
    fn rest(&mut self) {
        let surplus = self.awake.len().saturating_sub(AWAKE);
        self.awake.drain(..surplus).for_each(|state| state.rest());
    }

    /// Returns whether more is kept than should be; the newest entry always is.
    fn exceeds(&self, history: History) -> bool {
        self.log.len() > 1 && (self.log.len() > history.events || self.weight > history.bytes)
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.log.pop_front() else {
            return false;
        };
        self.weight -= oldest.weight;
        self.dropped += 1;
        self.compacted = oldest.entry.revision;
        true
    }

    fn forget(&mut self) {
        self.dropped += self.log.len() as u64;
        self.log.clear();
        self.weight = 0;
    }

    fn reaches(&self, revision: u64) -> Result<(), Compacted> {
        if revision < self.compacted {
            return Err(Compacted {
                wanted: revision,
                oldest: self.compacted,
            });
        }
        Ok(())
    }
}

fn stamp(mut object: Value, revision: u64) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const THINGS: Resource = Resource::new("", "things");

    fn of_events(events: usize) -> History {
        History {
            events,
            ..History::default()
        }
    }

    fn thing(value: u8) -> Value {
        json!({"metadata": {}, "value": value})
    }

    fn next(store: &mut Store, cursor: &mut Cursor) -> Option<Result<Arc<Entry>, Compacted>> {
        match store.poll_next(cursor, &Context::from_waker(Waker::noop())) {
            Poll::Ready(entry) => Some(entry),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_reader_gets_every_write_after_its_revision_in_order() {
        let mut store = Store::new(History::default());
        let key = Key::new(Some("ns"), "a");
        store.put(&THINGS, &key, thing(1));
        let from = store.revision();
        store.put(&THINGS, &key, thing(2));
        store.remove(&THINGS, &key, thing(2));

        let mut cursor = store.subscribe(&THINGS, from).unwrap();
        let changes: Vec<_> = std::iter::from_fn(|| next(&mut store, &mut cursor))
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.change,
                    entry.revision,
                    entry.object()["metadata"]["resourceVersion"].clone(),
                )
            })
            .collect();
        assert_eq!(
            changes,
            [
                (Change::Modified, from + 1, json!((from + 1).to_string())),
                (Change::Deleted, from + 2, json!((from + 2).to_string())),
            ]
        );
    }

    #[test]
    fn a_reader_that_fell_behind_the_log_is_told_so() {
        let mut store = Store::new(of_events(2));
        let key = Key::new(None, "a");
        let mut behind = store.subscribe(&THINGS, store.revision()).unwrap();
        let start = store.revision();
        for value in 0..3 {
            store.put(&THINGS, &key, thing(value));
        }
        assert!(next(&mut store, &mut behind).unwrap().is_err());
        assert!(store.subscribe(&THINGS, start).is_err());
        assert!(store.scan_at(&THINGS, None, start).is_err());
        assert!(store.subscribe(&THINGS, start + 1).is_ok());
        store.compact();
        assert!(store.subscribe(&THINGS, start + 1).is_err());
    }

    #[test]
    fn what_a_log_keeps_in_memory_is_bounded_whatever_the_size_of_objects() {
        let bytes = 64 << 10;
        let mut store = Store::new(History {
            bytes,
            ..History::default()
        });
        let large = |value: usize| json!({"metadata": {}, "value": value, "text": "x".repeat(10_000)});
        for number in 0..20 {
            store.put(&THINGS, &Key::new(None, &number.to_string()), large(0));
        }
        let created = store.revision();
        assert!(
            store.subscribe(&THINGS, 1).is_ok(),
            "what is still the present state costs nothing"
        );
        for value in 1..6 {
            store.put(&THINGS, &Key::new(None, "0"), large(value));
        }
        assert!(store.subscribe(&THINGS, 1).is_ok());
        for value in 6..20 {
            store.put(&THINGS, &Key::new(None, "0"), large(value));
        }
        assert!(store.subscribe(&THINGS, created).is_err());
        assert!(store.subscribe(&THINGS, store.revision() - 5).is_ok());
        assert!(store.tables[&THINGS].weight <= bytes);

        for number in 1..20 {
            store.remove(&THINGS, &Key::new(None, &number.to_string()), large(0));
        }
        assert!(
            store.tables[&THINGS].weight <= bytes,
            "the last states of what is gone count too"
        );
        assert!(store.subscribe(&THINGS, store.revision() - 2).is_ok());
        store.compact();
        assert_eq!(store.tables[&THINGS].weight, 0);
    }

    #[test]
    fn what_is_restored_is_what_was_saved_and_readers_have_to_list_again() {
        let mut store = Store::new(History::default());
        let (kept, made_later) = (Key::new(None, "a"), Key::new(None, "b"));
        store.put(&THINGS, &kept, thing(1));
        let saved = store.save();
        let mut reader = store.subscribe(&THINGS, store.revision()).unwrap();
        store.put(&THINGS, &kept, thing(2));
        store.put(&Resource::new("", "others"), &made_later, thing(1));
        while next(&mut store, &mut reader).is_some() {}
        store.restore(&saved);
        assert_eq!(store.revision(), saved.revision);
        assert_eq!(store.get(&THINGS, &kept).unwrap()["value"], 1);
        assert_eq!(store.scan(&Resource::new("", "others"), None).count(), 0);
        assert_eq!(store.take_woken().len(), 1);
        assert!(next(&mut store, &mut reader).unwrap().is_err());
        let mut reader = store.subscribe(&THINGS, store.revision()).unwrap();
        store.put(&THINGS, &kept, thing(3));
        assert_eq!(
            next(&mut store, &mut reader).unwrap().unwrap().object()["value"],
            3
        );
    }

    #[test]
    fn a_reader_that_asks_again_while_it_waits_does_not_wake_itself() {
        let mut store = Store::new(of_events(2));
        let mut cursor = store.subscribe(&THINGS, store.revision()).unwrap();
        assert!(next(&mut store, &mut cursor).is_none());
        assert!(next(&mut store, &mut cursor).is_none());
        assert!(store.take_woken().is_empty());
    }

    #[test]
    fn a_waiting_reader_is_woken_once_by_a_write_of_its_resource() {
        let mut store = Store::new(of_events(2));
        let mut cursor = store.subscribe(&THINGS, store.revision()).unwrap();
        assert!(next(&mut store, &mut cursor).is_none());
        store.put(&Resource::new("", "others"), &Key::new(None, "a"), thing(1));
        assert!(store.take_woken().is_empty());
        store.put(&THINGS, &Key::new(None, "a"), thing(1));
        assert_eq!(store.take_woken().len(), 1);
        store.put(&THINGS, &Key::new(None, "b"), thing(1));
        assert!(store.take_woken().is_empty());
    }

    proptest! {
        /// Undoing the log gives what a copy made at the time holds.
        #[test]
        fn the_past_is_what_it_was(writes in prop::collection::vec((0..3_u8, 0..3_u8, any::<Option<u8>>()), 1..120)) {
            let mut store = Store::new(History::default());
            let mut copies = Vec::new();
            for (namespace, name, value) in writes {
                let key = Key::new(Some(&namespace.to_string()), &name.to_string());
                match value {
                    Some(value) => drop(store.put(&THINGS, &key, thing(value))),
                    None => drop(store.remove(&THINGS, &key, thing(0))),
                }
                let all: BTreeMap<Key, Object> =
                    store.scan(&THINGS, None).map(|(key, object)| (key.clone(), object)).collect();
                copies.push((store.revision(), all));
            }
            for (revision, copy) in copies {
                prop_assert_eq!(&store.scan_at(&THINGS, None, revision).unwrap(), &copy);
                let mut one = copy;
                one.retain(|key, _| key.namespace == "1");
                prop_assert_eq!(store.scan_at(&THINGS, Some("1"), revision).unwrap(), one);
            }
        }
    }
}
