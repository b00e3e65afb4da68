//! The API server of the sandbox: what a kube-apiserver does, over a store in memory.
//!
//! [`ApiServer`] has synchronous, atomic verbs on values; `http` puts the protocol of Kubernetes on top, for kube
//! clients in this process and for kubectl. What it doesn't do it refuses as a real server would.

mod admission;
mod cel;
mod commit;
mod crd;
mod delete;
/// Garbage collection by owner, namespace deletion: what kube-controller-manager does with what verbs leave behind.
pub mod gc;
mod go;
/// Requests to verbs, answers to responses.
pub mod http;
mod metadata;
mod object_meta;
mod options;
/// Who owns the fields of stored objects.
pub mod owners;
mod read;
/// The kinds that are served.
pub mod registry;
mod rules;
mod scale;
mod services;
/// How a server refuses.
pub mod status;
mod strategy;
mod watch;
mod write;

// What the server decides, as pure functions: no I/O, no async.
/// Server-side apply and the ownership of fields.
pub mod apply;
/// The kinds that every API server serves without a CRD.
pub mod builtin;
/// Sets of fields and their `FieldsV1` form.
pub mod fieldset;
/// `OpenAPI` documents of what is served.
pub mod openapi;
/// JSON patch, merge patch, strategic merge patch.
pub mod patch;
/// Structural schemas: validation, defaults, pruning.
pub mod schema;
/// Label and field selectors.
pub mod selector;
/// Lists as tables, for `kubectl get`.
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;

use crate::store::{Key, Saved, Store};

pub use crate::store::{History, Object, Resource};
pub use admission::{Admission, AdmissionLag, Operation, Review};
pub use http::{Aggregated, Fault, Faults, RequestInfo};
pub use object_meta::label_name_mistake;
pub use options::{
    DeleteOptions, Duplicate, FieldValidation, List, ListOptions, Patch, Propagation, Subresource,
    VersionMatch, WriteOptions,
};
pub use status::Status;
pub use watch::{Event, EventKind, Watch};

use registry::{Kind, Registry};

/// Tells the time; an input, so that a run can be replayed.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How to make a server.
#[derive(Clone)]
pub struct Options {
    /// What the server is called in messages and kubeconfigs.
    pub name: String,
    /// From what uids and generated names are made: one seed gives one history.
    pub seed: u64,
    pub clock: Clock,
    /// How far watches can go back.
    pub history: History,
    /// How far admission policies are behind the store.
    pub admission_lag: AdmissionLag,
}

impl Options {
    /// Returns options for a server whose clock is tokio's, from a fixed start: paused and advanced with it.
    pub fn new(name: impl Into<String>, seed: u64) -> Self {
        Self {
            name: name.into(),
            seed,
            clock: clock_from(Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(24 * 365 * 56)),
            history: History::default(),
            admission_lag: AdmissionLag::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// Returns a clock that shows `start` now and goes with tokio's.
pub fn clock_from(start: Timestamp) -> Clock {
    let begun = tokio::time::Instant::now();
    Arc::new(move || {
        jiff::SignedDuration::try_from(begun.elapsed())
            .ok()
            .and_then(|elapsed| start.checked_add(elapsed).ok())
            .unwrap_or(start)
    })
}

/// An API server: clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    clock: Clock,
    state: Mutex<State>,
    admission: RwLock<Vec<Arc<dyn Admission>>>,
    aggregated: RwLock<BTreeMap<(String, String), Arc<dyn Aggregated>>>,
    faults: RwLock<Option<Arc<dyn Faults>>>,
    chores: tokio::sync::Notify,
}

/// Everything that one verb sees and changes, under one lock.
struct State {
    store: Store,
    registry: Registry,
    random: fastrand::Rng,
    owners: gc::Owners,
    services: services::Allocated,
    policies: admission::Policies,
    /// The maps and lists in the metadata of custom resources that were applied empty.
    empty: BTreeMap<(Resource, Key), BTreeSet<String>>,
}

#[cfg(test)]
impl ApiServer {
    /// Returns how many have this server in hand.
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.inner)
    }
}

/// What an API server has stored, as it was at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    saved: Saved,
    owners: gc::Owners,
    services: services::Allocated,
    empty: BTreeMap<(Resource, Key), BTreeSet<String>>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Creates a server with the built-in kinds and the namespaces that every cluster has.
    pub fn new(options: Options) -> Self {
        let policies = admission::Policies::new(options.admission_lag, Arc::clone(&options.clock));
        let server = Self {
            inner: Arc::new(Inner {
                name: options.name,
                clock: options.clock,
                state: Mutex::new(State {
                    store: Store::new(options.history),
                    registry: Registry::built_in(),
                    random: fastrand::Rng::with_seed(options.seed),
                    owners: gc::Owners::default(),
                    services: services::Allocated::default(),
                    policies,
                    empty: BTreeMap::new(),
                }),
                admission: RwLock::default(),
                aggregated: RwLock::default(),
                faults: RwLock::default(),
                chores: tokio::sync::Notify::new(),
            }),
        };
        server.create_first_namespaces();
        server.mount("authentication.k8s.io", "v1", Arc::new(http::WhoAmI));
        server
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub fn now(&self) -> Timestamp {
        (self.inner.clock)()
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.with(|state| state.store.revision())
    }

    /// Installs a hook that reviews every write; hooks are asked in the order of their installation.
    pub fn admit(&self, hook: Arc<dyn Admission>) {
        self.inner
            .admission
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(hook);
    }

    /// Gives the requests of a group and version that no served kind answers, such as subresources of its own, to
    /// a handler.
    pub fn mount(&self, group: &str, version: &str, handler: Arc<dyn Aggregated>) {
        let mut mounted = self
            .inner
            .aggregated
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        mounted.insert((group.to_owned(), version.to_owned()), handler);
    }

    /// Installs what disturbs requests on their way. The verbs of this type are not disturbed.
    pub fn disturb(&self, faults: Arc<dyn Faults>) {
        *self.inner.faults.write().unwrap_or_else(PoisonError::into_inner) = Some(faults);
    }

    /// Forgets the history of all resources, so that watches and continued lists from older revisions expire.
    pub fn compact(&self) {
        self.with(|state| state.store.compact());
    }

    /// Saves everything that is stored, as a snapshot of etcd does.
    pub fn save(&self) -> Snapshot {
        self.with(|state| Snapshot {
            saved: state.store.save(),
            owners: state.owners.clone(),
            services: state.services.clone(),
            empty: state.empty.clone(),
        })
    }

    /// Goes back to a snapshot: revisions go back too, and all watches expire. Definitions and admission policies are taken
    /// for unchanged since.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.with(|state| {
            state.store.restore(&snapshot.saved);
            state.owners = snapshot.owners.clone();
            state.services = snapshot.services.clone();
            state.empty.clone_from(&snapshot.empty);
        });
    }

    /// Makes the cluster another one: what identifies it, the uid of its namespace `kube-system`, is drawn anew.
    pub fn become_another(&self) {
        let key = Key::new(None, "kube-system");
        self.with(|state| {
            let Some(kind) = state.registry.kind(&registry::NAMESPACES) else {
                return;
            };
            let Some(old) = state.store.get(&registry::NAMESPACES, &key) else {
                return;
            };
            let mut namespace = (*old).clone();
            let uid = state.uid();
            metadata::set(&mut namespace, "uid", Some(uid.into()));
            state.commit(&kind, &key, None, namespace, (self.inner.clock)());
        });
    }

    /// Returns the served kind of a resource.
    pub fn kind(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.with(|state| state.registry.kind(resource))
    }

    fn create_first_namespaces(&self) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace =
                serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let options = WriteOptions {
                manager: "kube-apiserver".to_owned(),
                ..WriteOptions::default()
            };
            // A fresh store refuses nothing of this.
            let _ = self.create(&registry::NAMESPACES, None, namespace, &options);
        }
    }

    /// Runs one verb; what it has woken runs only after the lock is released.
    fn with<T>(&self, verb: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = verb(&mut state);
        let (woken, unneeded) = (state.store.take_woken(), state.store.take_stale());
        let chores = state.owners.has_chores();
        drop(state);
        drop(unneeded);
        for waker in woken {
            waker.wake();
        }
        if chores {
            self.inner.chores.notify_one();
        }
        result
    }

    fn hooks(&self) -> Vec<Arc<dyn Admission>> {
        self.inner
            .admission
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
