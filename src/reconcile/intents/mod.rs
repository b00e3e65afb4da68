//! Carries intents out: one worker an intent, each pass observes afresh, decides by [`crate::intent`], writes the journal,
//! sends the effects. Caches only wake a worker; they are never what it decides on.

mod admission;
mod events;
mod execute;
mod metrics;
mod observe;
mod sweep;
mod wake;
mod witness;

pub use admission::{Fence, install_fence};
pub use metrics::{Metrics, NoMetrics};
pub use witness::{Nobody, Point, Side, Witness};

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::{self, Migration, MigrationStatus};
use crate::cluster::{Answer, Cluster, Form, Keep, Lookup, Observer, Served, Watched, Written};
use crate::error::{Error, Kind};
use crate::intent::Effect;
use crate::intent::migration::{self, Input, Trouble};
use crate::intent::record::Record;
use crate::name::{Gvk, ObjectKey};
use crate::report;
use events::Events;
use execute::Sent;
use wake::{Interest, Workers};

/// How long a worker waits after something failed that may come right by itself.
const TROUBLE: Duration = Duration::from_secs(1);

/// How long a worker waits to hear of what it has sent.
const SETTLE: Duration = Duration::from_millis(25);

/// How often the admission fence is tried anew.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

/// Where what an intent leaves in Git is read and pushed.
pub trait Records: Send + Sync {
    /// Reads the record of an intent at the remote; `None` only if there certainly is none.
    fn read<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Record>, Error>>;

    /// Pushes the record of an intent; returns when the remote has it.
    fn push<'a>(&'a self, intent: &'a Migration, record: &'a Record) -> BoxFuture<'a, Result<(), Error>>;
}

/// A template as the desired state has it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// As it is to be applied.
    pub manifest: Value,
    /// The digest of what stands in Git.
    pub hash: String,
    pub revision: Option<String>,
}

/// Where templates that sync holds back are looked up.
pub trait Templates: Send + Sync {
    /// Returns a template; an error while no revision has been read.
    fn template(&self, key: &ObjectKey) -> Result<Option<Wanted>, Error>;

    /// Returns the revision that was read last.
    fn revision(&self) -> Option<String>;
}

/// What the loop is made of; all of it can be shared.
#[derive(Clone)]
pub struct Parts {
    pub cluster: Cluster,
    pub observer: Observer,
    pub records: Arc<dyn Records>,
    pub templates: Arc<dyn Templates>,
    pub metrics: Arc<dyn Metrics>,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub witness: Arc<dyn Witness>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// The kinds whose changes wake a worker.
pub fn watched() -> Vec<Watched> {
    let slim = Keep {
        managed_fields: crate::cluster::KeepManagedFields::None,
        status: false,
    };
    let with_status = Keep { status: true, ..slim };
    let kind = |api_version, kind, keep, form| Watched {
        keep,
        form,
        ..Watched::all(Gvk::new(api_version, kind))
    };
    // The statuses of Works and bindings change when something happens in a member or in the scheduler. There are as many of
    // them as there are workloads, and they are read afresh.
    vec![
        kind(api::API_VERSION, "Migration", with_status, Form::Tree),
        kind(api::API_VERSION, "Claim", slim, Form::Tree),
        kind("work.karmada.io/v1alpha2", "ResourceBinding", slim, Form::Version),
        kind(
            "work.karmada.io/v1alpha2",
            "ClusterResourceBinding",
            slim,
            Form::Version,
        ),
        kind("work.karmada.io/v1alpha1", "Work", slim, Form::Version),
        kind(
            "policy.karmada.io/v1alpha1",
            "OverridePolicy",
            slim,
            Form::Version,
        ),
        kind(
            "policy.karmada.io/v1alpha1",
            "ClusterOverridePolicy",
            slim,
            Form::Version,
        ),
    ]
}

/// Runs the intents until it is cancelled: then each worker ends before its next write. Dropped or killed at any point, a
/// new one goes on where this one was.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    for kind in watched() {
        parts.observer.watch(kind);
    }
    let mut changes = parts.observer.changes();
    let mut tasks = JoinSet::new();
    let workers = Workers::default();
    let (events, writing) = Events::start(parts.cluster.clone());
    let mut sweeping = JoinSet::new();
    sweeping.spawn(sweep::run(parts.clone(), events.clone(), cancel.clone()));
    let spawn_new = |tasks: &mut JoinSet<ObjectKey>| spawn_new(&parts, &events, &workers, tasks, &cancel);
    spawn_new(&mut tasks);
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Ok(key) = ended {
                    workers.forget(&key);
                }
            }
            change = changes.recv() => match change {
                Ok(change) => {
                    if change.key.kind == "Migration" && change.key.group == api::GROUP {
                        spawn_new(&mut tasks);
                    }
                    workers.wake(&change.key);
                }
                Err(RecvError::Lagged(_)) => {
                    spawn_new(&mut tasks);
                    workers.wake_all();
                }
                Err(RecvError::Closed) => break,
            }
        }
    }
    while tasks.join_next().await.is_some() {}
    while sweeping.join_next().await.is_some() {}
    drop(events);
    writing.end().await;
}

fn spawn_new(
    parts: &Parts,
    events: &Events,
    workers: &Workers,
    tasks: &mut JoinSet<ObjectKey>,
    stop: &CancellationToken,
) {
    for object in parts.observer.list(api::GROUP, "Migration") {
        let key = ObjectKey {
            group: api::GROUP.to_owned(),
            kind: "Migration".to_owned(),
            namespace: object["metadata"]["namespace"].as_str().map(str::to_owned),
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        };
        if let Some(interest) = workers.begin(&key) {
            let (parts, events, stop) = (parts.clone(), events.clone(), stop.clone());
            tasks.spawn(async move {
                Box::pin(
                    Worker {
                        parts,
                        events,
                        key: key.clone(),
                        trouble: None,
                        tested: None,
                        told_wait: None,
                        sent: false,
                        stop,
                    }
                    .run(&interest),
                )
                .await;
                key
            });
        }
    }
}

/// What a pass came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The journal was written: look again at once.
    Again,
    /// Look again after this time, or when something changes.
    Recheck(Duration),
    /// Nothing to do until something changes.
    Idle,
    /// The intent is gone.
    Gone,
}

struct Worker {
    parts: Parts,
    events: Events,
    key: ObjectKey,
    /// Why the last effect failed, until one succeeds.
    trouble: Option<Trouble>,
    /// When the admission fence was tried last.
    tested: Option<Instant>,
    /// The long wait that people have been told of.
    told_wait: Option<String>,
    /// Something was sent since the last look.
    sent: bool,
    /// Once cancelled, no write is begun.
    stop: CancellationToken,
}

impl Worker {
    async fn run(&mut self, interest: &Interest) {
        let stop = self.stop.clone();
        while !stop.is_cancelled() {
            let heard = interest.heard();
            let pass = match Box::pin(self.pass(interest)).await {
                Ok(pass) => pass,
                Err(error) => {
                    tracing::warn!(intent = %self.key, %error, "a pass failed");
                    self.trouble = Some(Trouble {
                        text: error.to_string(),
                        no_canary: false,
                    });
                    Pass::Recheck(TROUBLE)
                }
            };
            let rest = match pass {
                Pass::Again => Duration::ZERO,
                Pass::Gone => return,
                Pass::Idle => Duration::MAX,
                Pass::Recheck(after) => after,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = heard, if !rest.is_zero() => {}
                () = tokio::time::sleep(rest), if !rest.is_zero() => {}
                () = tokio::task::yield_now(), if rest.is_zero() => {}
            }
        }
    }

    /// Observes, decides, writes the journal, sends the effects: in this order, and no further than what succeeds.
    async fn pass(&mut self, interest: &Interest) -> Result<Pass, Error> {
        let served = served(&self.parts.cluster, &Gvk::new(api::API_VERSION, "Migration")).await?;
        let namespace = self.key.namespace.clone().unwrap_or_default();
        let read = self
            .parts
            .cluster
            .reader()
            .get(&served, Some(&namespace), &self.key.name)
            .await;
        let raw = match read.answer {
            Answer::Found(raw) => raw,
            Answer::NotFound => return Ok(Pass::Gone),
            Answer::Unknown { why } => return Err(Error::new(crate::error::Kind::Unreachable, why)),
        };
        let intent: Migration = serde_json::from_value(raw.clone())
            .map_err(|error| Error::user(format!("{} cannot be read: {error}", self.key)))?;
        let status = intent.status.clone().unwrap_or_default();
        let also = observe::Also {
            trial: self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN),
            sent: std::mem::take(&mut self.sent),
        };
        let world = tokio::select! {
            () = self.stop.cancelled() => return Ok(Pass::Idle),
            world = Box::pin(observe::world(&self.parts, &intent, &status, also)) => world,
        };
        if world.admission.is_some() {
            self.tested = Some(Instant::now());
        }
        interest.update(&self.key, &intent, &world);
        let revision = self.parts.templates.revision();
        let step = migration::step(&self.input(&intent, &status, revision.as_deref(), &world));
        self.tell_of_wait(&intent, &step.status);

        if step.status != status {
            self.journal(&served, raw, &status, &step.status).await?;
            self.tell(report::events(&intent, &step.status), &intent);
            if step.effects.is_empty() {
                return Ok(after(step.recheck));
            }
        }
        for effect in &step.effects {
            if self.stop.is_cancelled() {
                return Ok(Pass::Idle);
            }
            let what = format!("{}: {effect}", step.status.phase);
            self.parts.witness.reached(&Point::before(&self.key, &what)).await;
            self.sent = true;
            match execute::send(&self.parts, &intent, effect).await {
                Ok(Sent::Done) => self.trouble = None,
                Ok(Sent::Stale(why)) => {
                    tracing::debug!(intent = %self.key, what, why, "a precondition failed");
                    return Ok(Pass::Recheck(Duration::from_millis(20)));
                }
                Err(error) => {
                    let forbidden = error.kind() == Kind::Auth;
                    self.trouble = Some(Trouble {
                        text: format!("{effect}: {error}"),
                        no_canary: forbidden && matches!(effect, Effect::CreateCanary { .. }),
                    });
                    return Ok(Pass::Recheck(TROUBLE));
                }
            }
            self.parts.witness.reached(&Point::after(&self.key, &what)).await;
            tracing::debug!(intent = %self.key, what, "sent");
        }
        Ok(if step.effects.is_empty() {
            after(step.recheck)
        } else {
            // What was sent wakes the worker when it shows; asking before would only send it again.
            Pass::Recheck(SETTLE)
        })
    }

    fn input<'a>(
        &'a self,
        intent: &'a Migration,
        status: &'a MigrationStatus,
        revision: Option<&'a str>,
        world: &'a crate::intent::World,
    ) -> Input<'a> {
        let meta = &intent.metadata;
        Input {
            uid: meta.uid.as_deref().unwrap_or_default(),
            namespace: self.key.namespace.as_deref().unwrap_or_default(),
            name: &self.key.name,
            generation: meta.generation.unwrap_or_default(),
            revision,
            deleting: meta.deletion_timestamp.is_some(),
            has_finalizer: meta
                .finalizers
                .iter()
                .flatten()
                .any(|name| name == api::INTENT_FINALIZER),
            spec: &intent.spec,
            status,
            trouble: self.trouble.as_ref(),
            world,
            now: (self.parts.clock)(),
        }
    }

    fn tell(&self, told: Vec<report::Told>, intent: &Migration) {
        let now = (self.parts.clock)();
        for told in told {
            self.events.tell(intent, told, now);
        }
    }

    /// Tells of a wait that is long, once.
    fn tell_of_wait(&mut self, intent: &Migration, status: &MigrationStatus) {
        let reason = status.waiting_for.as_ref().map(|wait| wait.reason.clone());
        if reason == self.told_wait {
            return;
        }
        let long = report::long_wait(status, (self.parts.clock)());
        self.told_wait = long.is_some().then_some(reason).flatten();
        self.tell(long.into_iter().collect(), intent);
    }

    /// Writes the journal by compare-and-swap: of two controllers, one fails here and sends nothing.
    async fn journal(
        &self,
        served: &Served,
        mut raw: Value,
        before: &MigrationStatus,
        status: &MigrationStatus,
    ) -> Result<(), Error> {
        let what = format!("{}: journal", status.phase);
        let moved = before.phase != status.phase;
        raw["status"] = serde_json::to_value(status)
            .map_err(|error| Error::internal(format!("the journal cannot be written down: {error}")))?;
        self.parts.witness.reached(&Point::before(&self.key, &what)).await;
        let writer = self.parts.cluster.writer(api::INTENT_MANAGER);
        match writer.replace_status(served, &raw).await? {
            Written::Done(_) => {}
            Written::Precondition(why) | Written::Exists(Value::String(why)) => {
                return Err(Error::new(crate::error::Kind::Conflict, why));
            }
            Written::Exists(_) => return Err(Error::internal("a status was answered as an existing object")),
        }
        if moved {
            tracing::info!(intent = %self.key, phase = %status.phase, "entered");
        }
        self.parts.witness.reached(&Point::after(&self.key, &what)).await;
        Ok(())
    }
}

fn after(recheck: Option<Duration>) -> Pass {
    match recheck {
        Some(Duration::ZERO) => Pass::Again,
        Some(after) => Pass::Recheck(after),
        None => Pass::Idle,
    }
}

/// Looks up how a kind is served; one that isn't is the user's to install.
async fn served(cluster: &Cluster, gvk: &Gvk) -> Result<Served, Error> {
    match cluster.lookup(gvk).await? {
        Lookup::Served(served) => Ok(served),
        Lookup::NotServed => Err(Error::user(format!("the API server does not serve {gvk}"))
            .hint("install the CRDs: cutover init --cluster")),
    }
}
