//! Carries intents out: one [`worker`] an intent, whatever its [`kind`]. Each pass observes afresh, decides by
//! [`cutover_core::intent`], writes the journal, sends the effects. Caches only wake a worker; they are never what it decides on.

mod admission;
mod around;
pub(super) mod ask;
mod bulk_moves;
mod canaries;
pub(super) mod dependencies;
mod dry_run;
pub(super) mod events;
mod eviction;
mod execute;
mod expect;
mod failover;
mod failpoints;
mod fits;
mod kind;
mod last_known;
mod leases;
mod left_held;
mod members;
mod metrics;
mod migration;
mod nearby;
mod observe;
pub(super) mod other_managers;
mod others;
pub(in crate::reconcile) mod policies;
mod reader;
mod replica_shift;
mod rollout;
mod rollout_policy;
pub(in crate::reconcile) mod scalers;
mod scope;
mod soak;
mod suspension;
mod sweep;
mod wake;
mod wanted;
mod worker;

pub use admission::{Fence, FenceTrial, install_fence, try_fence};
pub use canaries::Canaries;
pub(super) use dry_run::{dry_run, rollout_of_policy, unasked};
pub use failpoints::{Failpoint, FailpointHook, NoFailpoints, Side};
pub use fits::Fits;
pub use metrics::{Metrics, NoMetrics};
pub(super) use rollout::templates_of as templates_of_rollout;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use bulk_moves::BulkMovesController;
use cutover_cluster::{Cluster, Form, Keep, Lookup, Observer, Served, Watched};
use cutover_core::api::{self, FailoverPlanStatus, Intent, Migration};
use cutover_core::error::Error;
use cutover_core::intent::record::{Kept, Record};
use cutover_core::manifest::Entry;
use cutover_forge::notify::Notifier;
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};
use events::Events;
use failover::FailoverController;
use kind::Kind;
use migration::MigrationController;
use replica_shift::ReplicaShiftController;
use rollout::RolloutController;
use rollout_policy::RolloutPolicyController;
use suspension::SuspensionController;
use wake::Workers;
use worker::{ConcurrencyLimit, Worker};

use crate::telemetry::Telemetry;

/// Where what an intent leaves in Git is read and pushed.
pub trait Records: Send + Sync {
    /// Reads the record of an intent at the remote; `None` only if there certainly is none.
    fn read<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Record>, Error>>;

    /// Reads what is recorded of an intent of another kind than Migration; `None` only if there certainly is nothing.
    fn document<'a>(&'a self, _intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns who made the last commit up to a revision that changed a file; `None` if that can't be told.
    fn author<'a>(&'a self, _file: &'a str, _revision: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Pushes the record of an intent; returns when the remote has it.
    fn push<'a>(&'a self, intent: &'a Migration, record: &'a Record) -> BoxFuture<'a, Result<(), Error>>;

    /// Reads at the remote what a standing intent had kept; `None` only if there certainly is nothing.
    fn kept<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<FailoverPlanStatus>, Error>>;

    /// Pushes what a standing intent has to be kept; returns when the remote has it.
    fn keep<'a>(&'a self, kept: &'a Kept) -> BoxFuture<'a, Result<(), Error>>;
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

    /// Returns what Git has of a kind in a namespace; an error while no revision has been read. What hasn't changed from one
    /// revision to the next is the same entry.
    fn of_kind(&self, kind: &GroupKind, namespace: &str) -> Result<Vec<Arc<Entry>>, Error>;

    /// Returns the revision that was read last.
    fn revision(&self) -> Option<String>;

    /// Says that what is wanted may have changed, each time it may.
    fn news(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }

    /// Returns the file that an object stands in, if it is in Git.
    fn file(&self, _key: &ObjectKey) -> Option<String> {
        None
    }
}

/// What the loop is made of; all of it can be shared.
#[derive(Clone)]
pub struct Parts {
    pub cluster: Cluster,
    pub observer: Observer,
    pub records: Arc<dyn Records>,
    pub templates: Arc<dyn Templates>,
    pub metrics: Arc<dyn Metrics>,
    /// Who is told beside the Events.
    pub notifier: Option<Notifier>,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub failpoints: Arc<dyn FailpointHook>,
    /// What the intents of this process wait for together.
    pub canaries: Canaries,
    /// What the intents of this process have found out about profiles.
    pub fits: Fits,
    /// What is measured of them.
    pub telemetry: Telemetry,
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
        managed_fields: cutover_cluster::KeepManagedFields::None,
        status: false,
    };
    let with_status = Keep { status: true, ..slim };
    let kind = |api_version, kind, keep, form| Watched {
        keep,
        form,
        ..Watched::all(Gvk::new(api_version, kind))
    };
    // The statuses of Works and bindings change when something happens in a member or in the scheduler. There are as many of
    // them as there are workloads, and they are read afresh; which copies are healthy is all that is kept of them.
    let intents = api::KINDS
        .iter()
        .map(|intent| kind(api::API_VERSION, intent.name, with_status, Form::Tree));
    let others = [
        kind(api::API_VERSION, "Claim", slim, Form::Tree),
        kind(
            "policy.karmada.io/v1alpha1",
            "PropagationPolicy",
            slim,
            Form::Version,
        ),
        kind(
            "policy.karmada.io/v1alpha1",
            "ClusterPropagationPolicy",
            slim,
            Form::Version,
        ),
        kind(
            "work.karmada.io/v1alpha2",
            "ResourceBinding",
            with_status,
            Form::Health,
        ),
        kind(
            "work.karmada.io/v1alpha2",
            "ClusterResourceBinding",
            slim,
            Form::Version,
        ),
        kind("work.karmada.io/v1alpha1", "Work", slim, Form::Version),
        kind("cluster.karmada.io/v1alpha1", "Cluster", slim, Form::Version),
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
    ];
    intents.chain(others).collect()
}

/// Runs the intents until it is cancelled: then each worker ends before its next write. Dropped or killed at any point, a
/// new one goes on where this one was.
pub fn run(parts: Parts, cancel: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        for kind in watched() {
            parts.observer.watch(kind);
        }
        let mut changes = parts.observer.changes();
        let (events, writing) = Events::start(parts.cluster.clone(), parts.notifier.clone());
        let mut sweeping = JoinSet::new();
        sweeping.spawn(sweep::run(parts.clone(), events.clone(), cancel.clone()));
        let mut news = parts.templates.news();
        let mut pool = WorkerPool::new(parts, events, cancel.clone());
        pool.spawn_missing(None);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                Some(ended) = pool.tasks.join_next(), if !pool.tasks.is_empty() => {
                    if let Ok(key) = ended {
                        pool.workers.forget(&key);
                        // One that came back under its name while its worker was ending was not heard of.
                        pool.spawn_missing(Some(&key));
                    }
                }
                Some(()) = news.next() => pool.hear_of_templates(),
                change = changes.recv() => match change {
                    Ok(change) => {
                        pool.spawn_missing(Some(&change.key));
                        pool.workers.wake(&change.key);
                        let like_it = [failover::any_like(&change.key), rollout_policy::any_like(&change.key)];
                        for any in like_it.iter().flatten() {
                            pool.workers.wake(any);
                        }
                    }
                    Err(RecvError::Lagged(_)) => {
                        pool.spawn_missing(None);
                        pool.workers.wake_all();
                    }
                    Err(RecvError::Closed) => break,
                }
            }
        }
        pool.end().await;
        while sweeping.join_next().await.is_some() {}
        writing.end().await;
    })
}

/// The workers that run, one an intent, of every kind.
struct WorkerPool {
    parts: Parts,
    events: Events,
    workers: Workers,
    limit: ConcurrencyLimit,
    tasks: JoinSet<ObjectKey>,
    stop: CancellationToken,
    /// What Git wanted of the templates of rollouts when it was looked at last.
    wanted: BTreeMap<ObjectKey, String>,
    /// What it had of the kinds that each rollout policy selects.
    selectable: BTreeMap<ObjectKey, Vec<Arc<Entry>>>,
}

impl WorkerPool {
    fn new(parts: Parts, events: Events, stop: CancellationToken) -> Self {
        let workers = Workers::default();
        let parts = Parts {
            canaries: Canaries::waking(workers.clone()),
            ..parts
        };
        Self {
            parts,
            events,
            workers,
            limit: ConcurrencyLimit::default(),
            tasks: JoinSet::new(),
            stop,
            wanted: BTreeMap::new(),
            selectable: BTreeMap::new(),
        }
    }

    /// Gives a worker to every intent that has none; `changed`: to that one, if it is an intent.
    fn spawn_missing(&mut self, changed: Option<&ObjectKey>) {
        self.spawn_for::<BulkMovesController<api::Evacuation>>(changed);
        self.spawn_for::<FailoverController>(changed);
        self.spawn_for::<MigrationController>(changed);
        self.spawn_for::<RolloutPolicyController>(changed);
        self.spawn_for::<RolloutController>(changed);
        self.spawn_for::<BulkMovesController<api::Rebalance>>(changed);
        self.spawn_for::<ReplicaShiftController>(changed);
        self.spawn_for::<SuspensionController>(changed);
    }

    /// Wakes the workers of rollouts of whose templates Git wants something else than before.
    fn hear_of_templates(&mut self) {
        let mut wanted = BTreeMap::new();
        for object in self.parts.observer.list(api::GROUP, api::Rollout::KIND) {
            for key in rollout::templates_of(&object) {
                if let Ok(Some(now)) = self.parts.templates.template(&key) {
                    if self.wanted.get(&key) != Some(&now.hash) {
                        self.workers.wake(&key);
                    }
                    wanted.insert(key, now.hash);
                }
            }
        }
        self.wanted = wanted;
        self.hear_of_selectable();
    }

    /// Wakes the workers of rollout policies that may select something else than before, or something that has changed.
    fn hear_of_selectable(&mut self) {
        let mut selectable = BTreeMap::new();
        for policy in self.parts.observer.list(api::GROUP, api::RolloutPolicy::KIND) {
            let (key, now) = rollout_policy::selectable(&*self.parts.templates, &policy);
            let before = self.selectable.remove(&key).unwrap_or_default();
            let is_same = before.len() == now.len()
                && before
                    .iter()
                    .zip(&now)
                    .all(|(before, now)| Arc::ptr_eq(before, now));
            if !is_same {
                self.workers.wake(&rollout_policy::in_git(&key));
            }
            selectable.insert(key, now);
        }
        self.selectable = selectable;
    }

    fn spawn_for<K: Kind>(&mut self, changed: Option<&ObjectKey>) {
        let (name, observer) = (K::Intent::KIND, &self.parts.observer);
        let keys = match changed {
            Some(key) if key.kind != name || key.group != api::GROUP || !observer.contains(key) => return,
            Some(key) => vec![key.clone()],
            None => observer.keys(api::GROUP, name),
        };
        for key in keys {
            if let Some(watched_keys) = self.workers.begin(&key) {
                let (parts, events, stop) = (self.parts.clone(), self.events.clone(), self.stop.clone());
                let limit = self.limit.clone();
                let mut worker = Worker::<K>::new(parts, events, limit, key.clone(), stop);
                self.tasks.spawn(async move {
                    Box::pin(worker.run(&watched_keys)).await;
                    key
                });
            }
        }
    }

    async fn end(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Looks up how a kind is served; one that isn't is the user's to install.
pub(in crate::reconcile) async fn served(cluster: &Cluster, gvk: &Gvk) -> Result<Served, Error> {
    match cluster.lookup(gvk).await? {
        Lookup::Served(served) => Ok(served),
        Lookup::NotServed => Err(Error::user(format!("the API server does not serve {gvk}"))
            .hint("install the CRDs: cutover init --cluster")),
    }
}
