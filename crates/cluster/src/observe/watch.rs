//! Follows one kind for ever: through disconnects, expired versions, and a CRD that comes and goes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::{HeaderValue, Request, header};
use jiff::Timestamp;
use kube::Api;
use kube::client::Body;
use kube::runtime::watcher::{self, Event};

use super::cache::{Cache, Seen, Watched};
use super::idle_timeout::IdleTimeout;
use super::raw::{Form, Raw};
use crate::Error;
use crate::connect::Cluster;
use crate::discover::Lookup;
use crate::exchange::is_watch;
use crate::object::Served;
use cutover_http::{Backoff, Delays};
use cutover_karmada::name::GroupKind;

/// How often a kind that isn't served is looked for, when nobody says that it was installed.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// The longest delay between attempts.
const LONGEST: Duration = Duration::from_secs(30);
/// How many objects of a list are taken in at a time.
const TOGETHER: usize = 256;

const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
const METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);

pub(super) async fn run(cluster: Cluster, cache: Arc<Cache>, watched: Watched) {
    // Each kind at a pace of its own: they all fail at the same moment.
    let seed = watched
        .gvk
        .to_string()
        .bytes()
        .fold(cluster.limits().seed, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(byte.into())
        });
    Watch {
        kind: GroupKind::from(&watched.gvk),
        backoff: Backoff::new(cluster.limits().backoff, LONGEST),
        seed,
        cluster,
        cache,
        watched,
    }
    .run()
    .await;
}

struct Watch {
    cluster: Cluster,
    cache: Arc<Cache>,
    watched: Watched,
    kind: GroupKind,
    backoff: Backoff,
    seed: u64,
}

impl Watch {
    async fn run(&self) {
        let mut looks = self.cache.looks();
        let mut delays = self.delays();
        loop {
            looks.mark_unchanged();
            match self.cluster.lookup(&self.watched.gvk).await {
                Ok(Lookup::Served(served)) => {
                    delays.reset();
                    self.follow(&served).await;
                    self.cluster.discovery().forget(&self.watched.gvk);
                }
                Ok(Lookup::NotServed) => {
                    delays.reset();
                    self.cache.not_served(&self.kind);
                    let _ = tokio::time::timeout(LOOK_AGAIN, looks.changed()).await;
                }
                Err(error) => {
                    self.cache.failing(&self.kind, error.to_string());
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    fn delays(&self) -> Delays {
        self.backoff.seeded(self.seed)
    }

    /// Follows the kind until nobody serves it any more.
    async fn follow(&self, served: &Served) {
        let resource = served.api_resource();
        let api: Api<Raw> = match &self.watched.namespace {
            Some(namespace) if served.namespaced => Api::namespaced_with(self.client(), namespace, &resource),
            _ => Api::all_with(self.client(), &resource),
        };
        let mut events = pin!(watcher::watcher(api, self.settings()));
        let mut list = Vec::new();
        let mut delays = self.delays();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // The beginning of a list is no answer yet.
                    if !matches!(event, Event::Init) {
                        delays.reset();
                    }
                    self.take_in(event, &mut list);
                }
                Err(error) if is_not_served(&error) => return self.cache.not_served(&self.kind),
                Err(error) => {
                    if !is_expired(&error) {
                        self.cache.failing(&self.kind, describe(&self.watched, error));
                        tokio::time::sleep(delays.next_delay()).await;
                    }
                }
            }
        }
    }

    /// Returns a client that asks for no more than is kept, ends watches that have fallen silent, and says when one is open
    /// again: kube's watcher doesn't, and a quiet kind would count as failing until something happens to it.
    fn client(&self) -> kube::Client {
        let inner = self.cluster.client();
        let (cache, kind) = (Arc::clone(&self.cache), self.kind.clone());
        let only_metadata = self.watched.form == Form::Version;
        let idle_timeout = self.cluster.limits().idle_timeout;
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (inner, cache, kind) = (inner.clone(), Arc::clone(&cache), kind.clone());
            async move {
                let watches = is_watch(request.method(), request.uri());
                if only_metadata {
                    let accept = if watches { METADATA } else { METADATA_LIST };
                    request.headers_mut().insert(header::ACCEPT, accept);
                }
                let response = inner.send(request).await?;
                let follows = watches && response.status().is_success();
                if follows {
                    cache.following(&kind, Timestamp::now());
                }
                let limit = follows.then_some(idle_timeout);
                Ok::<_, kube::Error>(response.map(|answer| IdleTimeout::new(answer, limit)))
            }
        });
        kube::Client::new(service, self.cluster.client().default_namespace())
    }

    fn take_in(&self, event: Event<Raw>, list: &mut Vec<Seen>) {
        let seen = |object: Raw| Seen::new(object.content);
        match event {
            Event::Init => {
                list.clear();
                self.cache.begin_list(&self.kind);
            }
            Event::InitApply(object) => {
                list.push(seen(object));
                if list.len() == TOGETHER {
                    self.cache.listed(&self.kind, list.drain(..));
                }
            }
            Event::InitDone => {
                self.cache.listed(&self.kind, list.drain(..));
                self.cache.end_list(&self.kind, Timestamp::now());
            }
            Event::Apply(object) => self.cache.put(&self.kind, seen(object)),
            Event::Delete(object) => self.cache.remove(&self.kind, seen(object)),
        }
    }

    fn settings(&self) -> watcher::Config {
        let seconds = u32::try_from(self.cluster.limits().watch.as_secs())
            .unwrap_or(290)
            .max(1);
        let mut settings = watcher::Config::default().timeout(seconds);
        if let Some(labels) = &self.watched.labels {
            settings = settings.labels(labels);
        }
        settings
    }
}

fn describe(watched: &Watched, error: watcher::Error) -> String {
    let call = format!("cannot watch {}", watched.gvk);
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Error::from_kube(call, error).to_string(),
        watcher::Error::WatchError(status) => Error::Refused { call, status }.to_string(),
        watcher::Error::NoResourceVersion => format!("{call}: {}", cutover_http::with_causes(&error)),
    }
}

/// The version that the watch stood at is no longer kept: the watcher lists again by itself.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(code(error), 410)
}

fn is_not_served(error: &watcher::Error) -> bool {
    matches!(code(error), 404)
}

fn code(error: &watcher::Error) -> u16 {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        _ => 0,
    }
}
