//! What every controller is given: the servers, the clock, its pace, its caches.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::kinds::EVENTS;
use super::latency::Latencies;
use super::objects;
use crate::api::{ApiServer, Object, Patch, Resource, Status, WriteOptions};
use crate::clock::Clock;
use crate::faults::{Faults, Pace, Span};
use crate::informer::{Change, Informer};
use crate::queue::{Controller, Queue, work};

/// The feature gates and flags of Karmada that change what this tool sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `StatefulFailoverInjection`.
    pub state_injection: bool,
    /// `Failover` together with `--enable-no-execute-taint-eviction`.
    pub no_execute_eviction: bool,
    /// `PropagationPolicyPreemption`.
    pub policy_preemption: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            state_injection: true,
            no_execute_eviction: false,
            policy_preemption: false,
        }
    }
}

/// Tasks that end together.
#[derive(Clone, Debug, Default)]
pub struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A set keeps what has ended until somebody asks for it.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends all of them, wherever they are.
    pub fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// The surroundings of the controllers of one process.
#[derive(Clone, Debug)]
pub struct Context {
    pub control: ApiServer,
    pub members: Arc<BTreeMap<String, ApiServer>>,
    pub clock: Clock,
    pub faults: Faults,
    pub seed: u64,
    pub latencies: Latencies,
    pub features: Features,
    /// `karmada-scheduler` or `karmada-controller-manager`; also the field manager.
    pub process: &'static str,
    pub tasks: Tasks,
}

/// How many of a kind the controller manager has in hand at once, where nobody has said otherwise: `--concurrent-work-syncs`,
/// `--concurrent-resourcebinding-syncs`, `--concurrent-resource-template-syncs`.
pub(super) const WORKERS: u64 = 5;

impl Context {
    pub fn pace(&self, name: &str) -> Pace {
        Pace::new(self.faults.clone(), self.seed, self.process, name)
    }

    /// Spawns the one worker of a controller that has one.
    pub fn run<C: Controller>(&self, name: &str, queue: &Arc<Queue<C::Key>>, controller: C) {
        self.run_at_once(1, name, queue, controller);
    }

    /// Spawns the workers of a controller: so many keys are in hand at once, and no key twice.
    pub fn run_at_once<C: Controller>(
        &self,
        workers: u64,
        name: &str,
        queue: &Arc<Queue<C::Key>>,
        controller: C,
    ) {
        let controller = Arc::new(controller);
        for worker in 0..workers {
            // Each has delays of its own.
            let seed = self.seed.wrapping_add(worker);
            let pace = Pace::new(self.faults.clone(), seed, self.process, name);
            self.tasks
                .spawn(work(Arc::clone(&controller), Arc::clone(queue), pace));
        }
    }

    /// Creates a cache of the control plane; [`Context::feed`] starts it, once everybody has subscribed.
    pub fn cache(&self, resource: Resource) -> Informer {
        Informer::new(self.control.clone(), resource)
    }

    pub fn feed(&self, cache: &Informer, name: &str, lag: Span) {
        self.tasks.spawn(cache.clone().run(lag, self.pace(name)));
    }

    /// Returns how this process writes.
    pub fn writer(&self) -> WriteOptions {
        WriteOptions {
            manager: self.process.to_owned(),
            user: format!("system:karmada:{}", self.process),
            ..WriteOptions::default()
        }
    }

    /// Returns now as objects show it.
    pub fn time(&self) -> Value {
        objects::time(self.clock.now())
    }

    /// Replaces an object, on the condition that it still is as it was read.
    pub fn put(&self, resource: &Resource, object: Value) -> Result<Object, Status> {
        let (namespace, name) = (
            objects::namespace(&object).map(str::to_owned),
            objects::name(&object).to_owned(),
        );
        self.control.update(
            resource,
            namespace.as_deref(),
            &name,
            None,
            object,
            &self.writer(),
        )
    }

    pub fn merge(&self, resource: &Resource, object: &Value, patch: Value) -> Result<Object, Status> {
        let (namespace, name) = (objects::namespace(object), objects::name(object));
        self.control.patch(
            resource,
            namespace,
            name,
            None,
            &Patch::Merge(patch),
            &self.writer(),
        )
    }

    /// Records a Kubernetes event about an object, some time later: the recorder has a queue of its own.
    pub fn event(
        &self,
        pace: &Pace,
        about: &Value,
        kind: &'static str,
        reason: &'static str,
        message: String,
    ) {
        let delay = pace.draw(self.latencies.event);
        let (context, about) = (self.clone(), reference(about));
        self.tasks.spawn(async move {
            tokio::time::sleep(delay).await;
            context.record(&about, kind, reason, &message);
        });
    }

    fn record(&self, about: &Value, kind: &str, reason: &str, message: &str) {
        let namespace = objects::text(about, "/namespace");
        let namespace = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let name = format!(
            "{}.{}",
            objects::text(about, "/name"),
            objects::hash(&format!("{about}{reason}{message}"))
        );
        let now = self.time();
        if let Ok(known) = self.control.get(&EVENTS, Some(namespace), &name) {
            let count = known["count"].as_i64().unwrap_or(1) + 1;
            // An event that is lost is lost.
            let _ = self.merge(&EVENTS, &known, json!({"count": count, "lastTimestamp": now}));
            return;
        }
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about, "type": kind, "reason": reason, "message": message,
            "source": {"component": self.process}, "reportingComponent": self.process, "reportingInstance": "",
            "count": 1, "firstTimestamp": now, "lastTimestamp": now,
        });
        let _ = self
            .control
            .create(&EVENTS, Some(namespace), event, &self.writer());
    }
}

fn reference(object: &Value) -> Value {
    let mut reference = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": objects::name(object), "uid": objects::uid(object),
    });
    if let Some(namespace) = objects::namespace(object) {
        reference["namespace"] = json!(namespace);
    }
    reference
}

type Handler = Arc<dyn Fn(&Resource, &Change<'_>) + Send + Sync>;

/// Keeps handlers for as long as the process lives: they hold what holds the caches.
struct Subscribed(Caches);

impl Drop for Subscribed {
    fn drop(&mut self) {
        let handlers = &self.0.inner.handlers;
        let handlers = std::mem::take(&mut *handlers.lock().unwrap_or_else(PoisonError::into_inner));
        drop(handlers);
    }
}

/// Caches of one server that are started when they are first needed.
#[derive(Clone)]
pub struct Caches {
    inner: Arc<CachesInner>,
}

struct CachesInner {
    context: Context,
    server: ApiServer,
    name: String,
    lag: Span,
    member: Option<String>,
    caches: Mutex<BTreeMap<Resource, Informer>>,
    handlers: Mutex<Vec<Handler>>,
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

impl Caches {
    /// Caches of templates in the control plane.
    pub fn of_templates(context: &Context) -> Self {
        Self::new(
            context,
            context.control.clone(),
            "template-cache",
            context.latencies.cache,
            None,
        )
    }

    /// Caches of what is in a member; while it is cut off they stand still.
    pub fn of_member(context: &Context, member: &str, server: &ApiServer) -> Self {
        let name = format!("member-cache/{member}");
        Self::new(
            context,
            server.clone(),
            &name,
            context.latencies.member_cache,
            Some(member.to_owned()),
        )
    }

    fn new(context: &Context, server: ApiServer, name: &str, lag: Span, member: Option<String>) -> Self {
        Self {
            inner: Arc::new(CachesInner {
                context: context.clone(),
                server,
                name: name.to_owned(),
                lag,
                member,
                caches: Mutex::default(),
                handlers: Mutex::default(),
            }),
        }
    }

    /// Has every change of every resource told, also of those that are first needed later.
    pub fn subscribe(&self, handler: impl Fn(&Resource, &Change<'_>) + Send + Sync + 'static) {
        let handler: Handler = Arc::new(handler);
        let known = self
            .inner
            .caches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (resource, cache) in known {
            let handler = Arc::clone(&handler);
            cache.subscribe(move |change| handler(&resource, change));
        }
        self.inner
            .handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(handler);
        let subscribed = Subscribed(self.clone());
        self.inner.context.tasks.spawn(async move {
            let _subscribed = subscribed;
            std::future::pending::<()>().await;
        });
    }

    /// Returns the cache of a resource; it is full when it is returned.
    pub fn of(&self, resource: &Resource) -> Informer {
        let mut caches = self.inner.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = caches.get(resource) {
            return cache.clone();
        }
        let cache = Informer::new(self.inner.server.clone(), resource.clone());
        caches.insert(resource.clone(), cache.clone());
        drop(caches);
        for handler in self
            .inner
            .handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
        {
            let resource = resource.clone();
            cache.subscribe(move |change| handler(&resource, change));
        }
        let mut pace = self.inner.context.pace(&self.inner.name);
        if let Some(member) = &self.inner.member {
            pace = pace.through(member);
        }
        self.inner
            .context
            .tasks
            .spawn(cache.clone().run(self.inner.lag, pace));
        cache
    }

    pub fn get(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Option<Object> {
        self.of(resource).get(namespace, name)
    }
}
