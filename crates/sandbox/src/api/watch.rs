//! Watch: the log of one resource as a stream of events, through a selection.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use super::registry::Kind;
use super::rules::Selection;
use super::status::Status;
use super::{ApiServer, ListOptions, Object, Resource, metadata};
use crate::store::{Change, Cursor, Entry};

/// How often a quiet watch says where it is, if asked to.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
    /// Nothing happened up to the revision; the object has only a resourceVersion.
    Bookmark,
    /// The watch is over; the object is a Status.
    Error,
}

impl EventKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    pub object: Object,
    pub revision: u64,
}

/// A running watch: a stream that ends when its time is over, or after an error.
#[derive(Debug)]
pub struct Watch {
    server: ApiServer,
    kind: Arc<Kind>,
    selection: Selection,
    initial: VecDeque<Event>,
    cursor: Option<Cursor>,
    bookmark: Option<Pin<Box<Sleep>>>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl ApiServer {
    /// Watches a resource from after a revision; from `None` or 0, it begins with the objects there are.
    pub fn watch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        from: Option<u64>,
        options: &ListOptions,
    ) -> Result<Watch, Status> {
        self.with(|state| {
            let kind = state.served(resource)?;
            let selection = Selection::parse(&kind, namespace, &options.labels, &options.fields)?;
            let mut initial = VecDeque::new();
            let mut from = from.unwrap_or_default();
            if from == 0 || options.send_initial_events {
                from = state.store.revision();
                let objects = state.store.scan(resource, namespace).map(|(_, object)| object);
                initial.extend(
                    objects
                        .filter(|object| selection.matches(object))
                        .map(|object| Event {
                            kind: EventKind::Added,
                            object,
                            revision: from,
                        }),
                );
                if options.send_initial_events {
                    initial.push_back(bookmark(&kind, from, true));
                }
            }
            let cursor = match state.store.subscribe(resource, from) {
                Ok(cursor) => Some(cursor),
                // As a real server does: the watch is accepted, and its first event is its end.
                Err(compacted) => {
                    initial.push_back(error(&Status::too_old(compacted), from));
                    None
                }
            };
            Ok(Watch {
                server: self.clone(),
                kind,
                selection,
                initial,
                cursor,
                bookmark: options
                    .bookmarks
                    .then(|| Box::pin(tokio::time::sleep(BOOKMARK_EVERY))),
                deadline: options
                    .timeout
                    .map(|timeout| Box::pin(tokio::time::sleep(timeout))),
            })
        })
    }
}

impl Watch {
    /// Returns the kind that is watched.
    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    fn poll_log(&mut self, context: &Context<'_>) -> Poll<Option<Event>> {
        loop {
            let Some(cursor) = &mut self.cursor else {
                return Poll::Ready(None);
            };
            let polled = self.server.with(|state| state.store.poll_next(cursor, context));
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(entry)) => {
                    if let Some(event) = select(&self.selection, &entry) {
                        return Poll::Ready(Some(event));
                    }
                }
                Poll::Ready(Err(compacted)) => {
                    self.cursor = None;
                    return Poll::Ready(Some(error(&Status::too_old(compacted), compacted.oldest)));
                }
            }
        }
    }
}

impl Stream for Watch {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let watch = &mut *self;
        if let Some(event) = watch.initial.pop_front() {
            return Poll::Ready(Some(event));
        }
        if let Poll::Ready(event) = watch.poll_log(context) {
            return Poll::Ready(event);
        }
        if watch
            .deadline
            .as_mut()
            .is_some_and(|deadline| deadline.as_mut().poll(context).is_ready())
        {
            return Poll::Ready(None);
        }
        if let Some(timer) = &mut watch.bookmark
            && timer.as_mut().poll(context).is_ready()
        {
            timer.as_mut().reset(Instant::now() + BOOKMARK_EVERY);
            // The new deadline has to be polled once to wake.
            context.waker().wake_by_ref();
            let revision = watch.server.revision();
            return Poll::Ready(Some(bookmark(&watch.kind, revision, false)));
        }
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(cursor) = &self.cursor {
            self.server.with(|state| state.store.unsubscribe(cursor));
        }
    }
}

/// Returns what a change means to someone who sees only the selected objects.
fn select(selection: &Selection, entry: &Entry) -> Option<Event> {
    let was =
        entry.change != Change::Added && selection.takes(&entry.key, || entry.previous().unwrap_or_default());
    let is = entry.change != Change::Deleted && selection.takes(&entry.key, || entry.object());
    let (kind, object) = match (was, is) {
        (false, false) => return None,
        (false, true) => (EventKind::Added, entry.object()),
        (true, true) => (EventKind::Modified, entry.object()),
        (true, false) if entry.change == Change::Deleted => (EventKind::Deleted, entry.object()),
        (true, false) => (EventKind::Deleted, left(entry)),
    };
    Some(Event {
        kind,
        object,
        revision: entry.revision,
    })
}

/// Returns an object that left the selection: as it was within, at the revision at which it left.
fn left(entry: &Entry) -> Object {
    let mut object = Arc::unwrap_or_clone(entry.previous().unwrap_or_default());
    metadata::set(
        &mut object,
        "resourceVersion",
        Some(entry.revision.to_string().into()),
    );
    Arc::new(object)
}

fn bookmark(kind: &Kind, revision: u64, initial_events_end: bool) -> Event {
    let api_version = kind
        .storage()
        .map(|version| kind.api_version(version))
        .unwrap_or_default();
    let mut object = json!({
        "kind": kind.kind,
        "apiVersion": api_version,
        "metadata": {"resourceVersion": revision.to_string()},
    });
    if initial_events_end {
        metadata::set(
            &mut object,
            "annotations",
            Some(json!({"k8s.io/initial-events-end": "true"})),
        );
    }
    Event {
        kind: EventKind::Bookmark,
        object: Arc::new(object),
        revision,
    }
}

fn error(status: &Status, revision: u64) -> Event {
    let object: Value = status.to_json();
    Event {
        kind: EventKind::Error,
        object: Arc::new(object),
        revision,
    }
}
