//! A local cache of one resource, fed by a watch, always a little behind: where Karmada's races come from.
//!
//! Every controller sees the API server through informers; one that read the store directly would hide those races.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use super::api::{ApiServer, Event, EventKind, ListOptions, Object, Resource, Watch};
use super::faults::{Pace, Span};
use super::store::Key;

/// What an informer tells of one object.
#[derive(Debug)]
pub struct Change<'a> {
    pub key: &'a Key,
    pub old: Option<&'a Object>,
    pub new: Option<&'a Object>,
}

impl Change<'_> {
    /// Returns the object as it is, or as it last was.
    pub fn object(&self) -> Option<&Object> {
        self.new.or(self.old)
    }

    /// Tells whether the object is new, gone, or of another generation: what most controllers of Karmada ask.
    pub fn generation_changed(&self) -> bool {
        match (self.old, self.new) {
            (Some(old), Some(new)) => generation(old) != generation(new),
            _ => true,
        }
    }
}

fn generation(object: &Value) -> Option<i64> {
    object.pointer("/metadata/generation").and_then(Value::as_i64)
}

type Handler = Arc<dyn Fn(&Change<'_>) + Send + Sync>;

/// A cache of one resource; clones are the same cache.
#[derive(Clone)]
pub struct Informer {
    inner: Arc<Inner>,
}

struct Inner {
    server: ApiServer,
    resource: Resource,
    objects: Mutex<BTreeMap<Key, Object>>,
    handlers: Mutex<Vec<Handler>>,
}

impl fmt::Debug for Informer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("resource", &self.inner.resource)
            .finish_non_exhaustive()
    }
}

/// A cache that is being fed. When that ends nobody is told of anything any more, so the handlers go: they hold what holds
/// the cache.
struct Fed(Informer);

impl Drop for Fed {
    fn drop(&mut self) {
        let handlers = std::mem::take(
            &mut *self
                .0
                .inner
                .handlers
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        drop(handlers);
    }
}

impl Informer {
    pub fn new(server: ApiServer, resource: Resource) -> Self {
        Self {
            inner: Arc::new(Inner {
                server,
                resource,
                objects: Mutex::default(),
                handlers: Mutex::default(),
            }),
        }
    }

    /// Has every change told from now on; and first what the cache already holds.
    pub fn subscribe(&self, handler: impl Fn(&Change<'_>) + Send + Sync + 'static) {
        for (key, object) in &self.snapshot() {
            handler(&Change {
                key,
                old: None,
                new: Some(object),
            });
        }
        self.inner
            .handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(handler));
    }

    pub fn resource(&self) -> &Resource {
        &self.inner.resource
    }

    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Object> {
        self.lock().get(&Key::new(namespace, name)).cloned()
    }

    /// Returns everything in the cache, by namespace and name.
    pub fn list(&self) -> Vec<Object> {
        self.lock().values().cloned().collect()
    }

    /// Fills the cache at once, and returns what keeps it up to date: each change after the time that it takes to
    /// arrive.
    pub fn run(self, lag: Span, pace: Pace) -> impl Future<Output = ()> + Send {
        let mut revision = self.relist();
        let fed = Fed(self.clone());
        async move {
            let _fed = fed;
            loop {
                match self.inner.server.watch(
                    &self.inner.resource,
                    None,
                    Some(revision),
                    &ListOptions::default(),
                ) {
                    Ok(watch) => self.follow(watch, lag, &pace).await,
                    Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
                }
                revision = self.relist();
            }
        }
    }

    async fn follow(&self, mut watch: Watch, lag: Span, pace: &Pace) {
        let mut underway: VecDeque<(Instant, Instant, Event)> = VecDeque::new();
        loop {
            let first = underway.front().map(|(arrived, due, _)| (*arrived, *due));
            tokio::select! {
                biased;
                event = watch.next() => match event {
                    Some(event) if event.kind == EventKind::Bookmark => {}
                    Some(event) if event.kind != EventKind::Error => {
                        let now = Instant::now();
                        let due = now + pace.draw(lag);
                        let due = underway.back().map_or(due, |(_, last, _)| due.max(*last));
                        underway.push_back((now, due, event));
                    }
                    _ => return,
                },
                () = arrival(first, pace), if first.is_some() => {
                    if let Some((_, _, event)) = underway.pop_front() {
                        self.deliver(&event);
                    }
                }
            }
        }
    }

    fn deliver(&self, event: &Event) {
        let key = key_of(&event.object);
        let new = (event.kind != EventKind::Deleted).then_some(&event.object);
        self.replace(&key, new);
    }

    /// Lists again; returns the revision of the list.
    fn relist(&self) -> u64 {
        let Ok(list) = self
            .inner
            .server
            .list(&self.inner.resource, None, &ListOptions::default())
        else {
            return 0;
        };
        let listed: BTreeMap<Key, Object> = list
            .items
            .into_iter()
            .map(|object| (key_of(&object), object))
            .collect();
        for key in self.snapshot().keys().filter(|key| !listed.contains_key(key)) {
            self.replace(key, None);
        }
        for (key, object) in &listed {
            self.replace(key, Some(object));
        }
        list.revision
    }

    fn replace(&self, key: &Key, new: Option<&Object>) {
        let old = match new {
            Some(object) => self.lock().insert(key.clone(), Arc::clone(object)),
            None => self.lock().remove(key),
        };
        let same = match (&old, new) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if same {
            return;
        }
        let handlers = self
            .inner
            .handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for handler in handlers {
            handler(&Change {
                key,
                old: old.as_ref(),
                new,
            });
        }
    }

    fn snapshot(&self) -> BTreeMap<Key, Object> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Object>> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn arrival(first: Option<(Instant, Instant)>, pace: &Pace) {
    let Some((arrived, due)) = first else { return };
    if due > Instant::now() {
        tokio::time::sleep_until(due).await;
    }
    pace.wait_for_lag(arrived).await;
    pace.pass().await;
}

fn key_of(object: &Value) -> Key {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    Key::new(Some(text("/metadata/namespace")), text("/metadata/name"))
}
