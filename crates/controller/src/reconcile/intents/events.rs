//! Tells of intents by Events of the API server, as far as that costs nothing else: one request at a time, behind a queue
//! that nobody waits for. An Event that can't be written is lost.
//!
//! The same Event again is counted on the one that is there. Its name is made of what it says, so that a reconciler that
//! starts anew goes on counting.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use cutover_cluster::{Cluster, Exactly, Lookup, Mode, Written};
use cutover_core::api;
use cutover_core::error::{Error, Kind};
use cutover_core::report::{EventRecord, Notice};
use cutover_forge::notify::Notifier;
use cutover_karmada::name::Gvk;

/// Who tells, as `kubectl` shows it.
const REPORTER: &str = "cutover.dev/intents";
/// How many Events may wait to be written.
const QUEUE: usize = 512;
/// How many may be written in a row, and how many a second from then on.
const BURST: f64 = 50.0;
const RATE: f64 = 5.0;
/// How often at most the count of an Event is written.
const AGAIN: Duration = Duration::from_mins(1);
/// How long nothing is written after the API server has forbidden it.
const FORBIDDEN: Duration = Duration::from_mins(10);
/// How long what is left at the end may take.
const REST: Duration = Duration::from_secs(1);
/// How many Events are remembered, so that they are counted and not written anew.
const REMEMBERED: usize = 1024;

/// Where workers leave what is to be told, by Events and to receivers. Clones share the queue.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Events {
    queue: mpsc::Sender<Item>,
    notifier: Option<Notifier>,
}

#[derive(Debug)]
struct Item {
    about: Value,
    events: EventRecord,
    at: Timestamp,
}

impl Events {
    /// Starts to write; ends when the last clone is gone.
    pub(in crate::reconcile) fn start(cluster: Cluster, notifier: Option<Notifier>) -> (Self, Writing) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let mut task = JoinSet::new();
        task.spawn(Teller::new(cluster).run(queue));
        let events = Self {
            queue: sender,
            notifier,
        };
        (events, Writing(task))
    }

    /// Leaves something to be told; forgets it when too much waits already.
    pub(super) fn tell<I: Resource<DynamicType = ()>>(&self, intent: &I, events: EventRecord, at: Timestamp) {
        let meta = intent.meta();
        let about = json!({
            "apiVersion": api::API_VERSION, "kind": I::kind(&()),
            "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
        });
        self.tell_about(about, events, at);
    }

    /// Leaves something to be told of an object that isn't an intent.
    pub(in crate::reconcile) fn tell_about(&self, about: Value, events: EventRecord, at: Timestamp) {
        if let Some(notifier) = &self.notifier {
            let text = |field: &str| about[field].as_str().map(str::to_owned);
            notifier.tell(&Notice {
                kind: text("kind").unwrap_or_default(),
                namespace: text("namespace"),
                name: text("name").unwrap_or_default(),
                uid: text("uid"),
                told: events.clone(),
                at,
                besides: None,
            });
        }
        if self.queue.try_send(Item { about, events, at }).is_err() {
            tracing::debug!("an Event is lost: too many wait to be written");
        }
    }
}

/// The task that writes; dropped, it is as dead as the workers.
pub(in crate::reconcile) struct Writing(JoinSet<()>);

impl Writing {
    /// Ends after what is left has been written, or soon. All clones of [`Events`] must be gone.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(REST, self.0.join_next()).await;
    }
}

struct Teller {
    cluster: Cluster,
    seen: BTreeMap<String, Seen>,
    /// How many may be written now.
    tokens: f64,
    since: Instant,
    muted: Option<Instant>,
}

/// An Event that was written.
struct Seen {
    count: i64,
    at: Instant,
}

impl Teller {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            seen: BTreeMap::new(),
            tokens: BURST,
            since: Instant::now(),
            muted: None,
        }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Item>) {
        while let Some(item) = queue.recv().await {
            if self.muted.is_some_and(|until| Instant::now() < until) {
                continue;
            }
            if let Err(error) = self.tell(&item).await {
                tracing::debug!(%error, "an Event is lost");
                if error.kind() == Kind::Auth {
                    tracing::warn!(%error, "Events cannot be written; intents go on without them");
                    self.muted = Some(Instant::now() + FORBIDDEN);
                }
            }
        }
    }

    async fn tell(&mut self, item: &Item) -> Result<(), Error> {
        let name = name(item);
        let known = self.seen.get_mut(&name).map(|seen| {
            seen.count += 1;
            (seen.count, seen.at.elapsed() >= AGAIN)
        });
        match known {
            Some((_, false)) => Ok(()),
            Some((count, true)) => {
                self.turn().await;
                self.count(item, &name, count).await
            }
            None => {
                self.turn().await;
                self.create(item, &name).await
            }
        }
    }

    async fn create(&mut self, item: &Item, name: &str) -> Result<(), Error> {
        let Some(served) = self.served().await? else {
            return Ok(());
        };
        let writer = self.cluster.writer(api::INTENT_MANAGER);
        match writer.create(&served, &event(item, name), Mode::Write).await? {
            Written::Exists(there) => {
                let count = there["count"].as_i64().unwrap_or(1).saturating_add(1);
                self.count(item, name, count).await
            }
            Written::Done(_) | Written::Precondition(_) => {
                self.remember(name, 1);
                Ok(())
            }
        }
    }

    /// Writes how often it has been told by now, in both of the ways in which clients read it.
    async fn count(&mut self, item: &Item, name: &str, count: i64) -> Result<(), Error> {
        self.remember(name, count);
        let Some(served) = self.served().await? else {
            return Ok(());
        };
        let object = Exactly {
            namespace: Some(item.about["namespace"].as_str().unwrap_or("default").to_owned()),
            name: name.to_owned(),
            ..Exactly::default()
        };
        let series = json!({"count": count, "lastObservedTime": micros(item.at)});
        let patch = [
            json!({"op": "add", "path": "/count", "value": count}),
            json!({"op": "add", "path": "/lastTimestamp", "value": seconds(item.at)}),
            json!({"op": "add", "path": "/series", "value": series}),
        ];
        let writer = self.cluster.writer(api::INTENT_MANAGER);
        if let Written::Precondition(_) = writer.patch(&served, &object, &patch, Mode::Write).await? {
            // It has expired.
            self.seen.remove(name);
        }
        Ok(())
    }

    /// `v1` and `events.k8s.io/v1` are two looks at the same objects; this one every server has, and `kubectl describe` reads.
    async fn served(&self) -> Result<Option<cutover_cluster::Served>, Error> {
        match self.cluster.lookup(&Gvk::new("v1", "Event")).await? {
            Lookup::Served(served) => Ok(Some(served)),
            Lookup::NotServed => Ok(None),
        }
    }

    fn remember(&mut self, name: &str, count: i64) {
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let at = Instant::now();
        self.seen.insert(name.to_owned(), Seen { count, at });
    }

    /// Waits until one more may be written.
    async fn turn(&mut self) {
        let now = Instant::now();
        let earned = now.duration_since(self.since).as_secs_f64() * RATE;
        self.tokens = (self.tokens + earned).min(BURST) - 1.0;
        self.since = now;
        if self.tokens < 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(-self.tokens / RATE)).await;
        }
    }
}

/// Returns a name that is the same for the same Event, and no other's.
fn name(item: &Item) -> String {
    let events = &item.events;
    let digest = Sha256::digest(format!(
        "{}\n{}\n{}\n{}",
        item.about["uid"].as_str().unwrap_or_default(),
        events.warning,
        events.reason,
        events.note
    ));
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let intent: String = item.about["name"]
        .as_str()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect();
    format!("{}.{short}", intent.trim_end_matches(['.', '-']))
}

fn event(item: &Item, name: &str) -> Value {
    let events = &item.events;
    json!({
        "apiVersion": "v1", "kind": "Event",
        // What has no namespace is told of in `default`, as the API server wants it.
        "metadata": {"name": name, "namespace": item.about["namespace"].as_str().unwrap_or("default")},
        "involvedObject": item.about,
        "type": if events.warning { "Warning" } else { "Normal" },
        "reason": events.reason,
        "action": events.reason,
        "message": events.note,
        "source": {"component": REPORTER},
        "reportingComponent": REPORTER,
        "reportingInstance": REPORTER,
        "eventTime": micros(item.at),
        "firstTimestamp": seconds(item.at),
        "lastTimestamp": seconds(item.at),
        "count": 1,
    })
}

fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
