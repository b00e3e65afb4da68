//! An operator's cache of one resource: fed by a watch, and as far behind it as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch as latest;
use tokio::time::Instant;

use super::Context;

/// Namespace and name.
pub type Key = (String, String);

/// What can be seen of one resource, and of it what the operator works with; clones share it.
#[derive(Debug)]
pub struct Cache<T = DynamicObject> {
    objects: Arc<Mutex<BTreeMap<Key, Arc<T>>>>,
    changed: latest::Sender<()>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self {
            objects: Arc::clone(&self.objects),
            changed: self.changed.clone(),
        }
    }
}

impl<T> Cache<T> {
    pub fn new() -> Self {
        Self {
            objects: Arc::default(),
            changed: latest::Sender::new(()),
        }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.objects().get(key).cloned()
    }

    pub fn all(&self) -> Vec<(Key, Arc<T>)> {
        self.objects()
            .iter()
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect()
    }

    pub fn subscribe(&self) -> latest::Receiver<()> {
        self.changed.subscribe()
    }

    /// Feeds the cache for ever; every event is seen `behind()` after it arrives, and never before an earlier one.
    pub async fn feed(
        self,
        client: Client,
        resource: ApiResource,
        behind: impl Fn() -> Duration + Send,
        context: &Context,
        kept: fn(DynamicObject) -> T,
    ) {
        let mut events = watch(client, &resource, context);
        let mut pending: VecDeque<(Instant, Event<DynamicObject>)> = VecDeque::new();
        let mut listing = BTreeMap::new();
        loop {
            let due = pending.front().map(|(due, _)| *due);
            tokio::select! {
                biased;
                Some(event) = events.next() => {
                    let earliest = pending.back().map_or_else(Instant::now, |(due, _)| *due);
                    pending.push_back(((Instant::now() + behind()).max(earliest), event));
                }
                () = sleep_until(due), if due.is_some() => {}
            }
            while pending.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                if let Some((_, event)) = pending.pop_front() {
                    self.see(event, &mut listing, kept);
                }
            }
        }
    }

    fn see(
        &self,
        event: Event<DynamicObject>,
        listing: &mut BTreeMap<Key, Arc<T>>,
        kept: fn(DynamicObject) -> T,
    ) {
        match event {
            Event::Init => listing.clear(),
            Event::InitApply(object) => {
                listing.insert(key(&object), Arc::new(kept(object)));
                return;
            }
            Event::InitDone => *self.objects() = std::mem::take(listing),
            Event::Apply(object) => {
                self.objects().insert(key(&object), Arc::new(kept(object)));
            }
            Event::Delete(object) => {
                self.objects().remove(&key(&object));
            }
        }
        self.changed.send_replace(());
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<T>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches a resource wherever the simulators look; errors are waited out.
pub fn watch(
    client: Client,
    resource: &ApiResource,
    context: &Context,
) -> impl Stream<Item = Event<DynamicObject>> + Send + Unpin + use<> {
    let retry = context.timings.retry;
    let api: Api<DynamicObject> = match &context.scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    };
    let plural = resource.plural.clone();
    let events = watcher(api, watcher::Config::default()).filter_map(move |event| {
        let plural = plural.clone();
        async move {
            match event {
                Ok(event) => Some(event),
                Err(error) => {
                    tracing::debug!(%error, plural, "watch failed");
                    tokio::time::sleep(retry).await;
                    None
                }
            }
        }
    });
    Box::pin(events)
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Who owns which field takes most of the memory of an object, and no operator asks for it.
pub fn without_owners(mut object: DynamicObject) -> DynamicObject {
    object.metadata.managed_fields = None;
    object
}

/// Returns where an object is kept.
pub fn key(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
