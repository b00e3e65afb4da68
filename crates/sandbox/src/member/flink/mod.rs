//! A simulator of Flink's Kubernetes operator, of the application and session clusters it deploys, and of the jobs in the latter.
//!
//! The decisions follow the operator's source; each file names the classes it follows. Not simulated: snapshot resources but those that
//! people make, in-place scaling, the autoscaler, ingress, Events, blue-green deployments; of session clusters their `TaskManager`s, a
//! second job of one resource beside the first, and that a change of the cluster wakes its jobs before their time. An image can't be
//! pulled when its name or tag contains `broken` or `does-not-exist`.
//!
//! One default differs from the operator's built-in one: `kubernetes.operator.jm-deployment.shutdown-ttl` is `0 s` here,
//! not `1 d`, so that the `JobManager`'s pod goes soon after a job was stopped with a savepoint.

mod diff;
mod job;
mod jobs;
mod observe;
mod operator;
mod rate;
mod reconcile;
mod resource;
pub mod snapshots;
mod spec;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Event;
use kube::{Client, Error, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::job::is_broken_image;
pub use self::jobs::Jobs;
use self::operator::{Failure, Operator, Record};
use self::rate::Rate;
pub use self::resource::Kind;
use self::resource::{Resource, Session};
use self::spec::{BLOCK_ON_SESSION_JOBS, Spec};
use self::status::Status;
use super::cache::{Cache, Key, key, watch, without_owners};
use super::pods::Shown;
use super::{Context, Gate, kind};

/// Returns a definition of session jobs that takes whatever the operator's does, and more.
pub fn session_job_definition() -> Value {
    kind::definition(&Kind::SessionJob.api_resource())
}

/// Shows the pods of the member's Flink clusters, for ever.
pub async fn show_pods(client: Client, context: Arc<Context>, jobs: Jobs) {
    let mut shown = Shown::default();
    let mut changes = jobs.subscribe();
    loop {
        changes.mark_unchanged();
        let (pods, until) = jobs.pods_until();
        if shown.show(&client, &context, pods).await {
            jobs.changed(&mut changes, until).await;
        } else {
            tokio::time::sleep(context.timings.retry).await;
        }
    }
}

/// Takes away clusters whose `FlinkDeployment` is gone, for ever: the member's garbage collector, not the operator.
pub async fn collect_garbage(client: Client, context: Arc<Context>, jobs: Jobs) {
    let mut events = watch(client, &Kind::Deployment.api_resource(), &context);
    let mut known: BTreeSet<(Key, String)> = BTreeSet::new();
    let mut listed = BTreeSet::new();
    let id = |object: &DynamicObject| (key(object), object.uid().unwrap_or_default());
    while let Some(event) = events.next().await {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => drop(listed.insert(id(&object))),
            Event::InitDone => {
                for (key, uid) in known.difference(&listed) {
                    jobs.orphan(key, uid);
                }
                known = std::mem::take(&mut listed);
            }
            Event::Apply(object) => drop(known.insert(id(&object))),
            Event::Delete(object) => {
                let id = id(&object);
                jobs.orphan(&id.0, &id.1);
                known.remove(&id);
            }
        }
    }
}

/// Runs the operator of a kind, for ever: one task a resource, each working off its own events one after the other.
pub async fn operate(client: Client, context: Arc<Context>, jobs: Jobs, gate: Gate, kind: Kind) {
    let cache = Cache::new();
    let mut changes = cache.subscribe();
    let mut tasks: JoinSet<Key> = JoinSet::new();
    let own = Arc::clone(&context);
    let behind = || own.lag.behind(&own.cluster, kind.plural());
    let feed = cache
        .clone()
        .feed(client.clone(), kind.api_resource(), behind, &own, without_owners);
    let operator = Operator { context, jobs, gate };
    let dispatch = async {
        let mut busy = BTreeSet::new();
        loop {
            for (key, _) in cache.all() {
                if busy.insert(key.clone()) {
                    let worker = Worker::new(&client, &operator, kind, &cache, key);
                    tasks.spawn(worker.run());
                }
            }
            tokio::select! {
                _ = changes.changed() => {}
                Some(Ok(done)) = tasks.join_next() => drop(busy.remove(&done)),
            }
        }
    };
    tokio::join!(feed, dispatch);
}

/// The operator's work on one resource.
struct Worker {
    operator: Operator,
    kind: Kind,
    cache: Cache,
    key: Key,
    api: Api<DynamicObject>,
    /// Of the other kind, in the same namespace.
    others: Api<DynamicObject>,
}

/// What of a cached object makes the operator look at it; changes of other metadata don't.
#[derive(PartialEq)]
struct Trigger {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    finalized: bool,
}

impl Trigger {
    fn of(kind: Kind, object: &DynamicObject) -> Self {
        let own = kind.finalizer();
        Self {
            uid: object.uid(),
            generation: object.metadata.generation,
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalized: object.finalizers().contains(&own),
        }
    }
}

impl Worker {
    fn new(client: &Client, operator: &Operator, kind: Kind, cache: &Cache, key: Key) -> Self {
        let api = |kind: Kind| Api::namespaced_with(client.clone(), &key.0, &kind.api_resource());
        let other = match kind {
            Kind::Deployment => Kind::SessionJob,
            Kind::SessionJob => Kind::Deployment,
        };
        Self {
            operator: operator.clone(),
            kind,
            cache: cache.clone(),
            api: api(kind),
            others: api(other),
            key,
        }
    }

    /// Works until the resource is gone.
    async fn run(self) -> Key {
        let mut changes = self.cache.subscribe();
        let mut recorder: Option<Recorder> = None;
        let mut rate = Rate::new(self.operator.context.timings.rate_limit);
        loop {
            changes.mark_unchanged();
            let Some(object) = self.cache.get(&self.key) else {
                return self.key;
            };
            if let Some(wait) = rate.wait() {
                tokio::time::sleep(wait).await;
                continue;
            }
            let trigger = Trigger::of(self.kind, &object);
            let next = self
                .handle(&object, &mut recorder)
                .await
                .unwrap_or_else(|failure| {
                    tracing::debug!(%failure, name = self.key.1, "a pass failed");
                    Some(self.operator.context.timings.retry)
                });
            let due = next.and_then(|next| Instant::now().checked_add(next));
            loop {
                tokio::select! {
                    _ = changes.changed() => {}
                    () = until(due) => break,
                }
                if self
                    .cache
                    .get(&self.key)
                    .is_none_or(|object| Trigger::of(self.kind, &object) != trigger)
                {
                    break;
                }
            }
        }
    }

    async fn handle(
        &self,
        object: &Arc<DynamicObject>,
        recorder: &mut Option<Recorder>,
    ) -> Result<Option<Duration>, Failure> {
        let trigger = Trigger::of(self.kind, object);
        self.operator.gate.open().await;
        if !trigger.finalized {
            if !trigger.deleting {
                self.set_finalizer(object, true).await?;
            }
            return Ok(None);
        }
        let mut resource = Resource::new(self.kind, object);
        resource.session = self.session(&resource).await?;
        // Its own last record is newer than what the cache shows, unless this is another object.
        let recorder = match recorder {
            Some(recorder) if recorder.written_for(object) => recorder,
            other => other.insert(Recorder {
                kind: self.kind,
                api: self.api.clone(),
                base: Arc::clone(object),
                status: resource.status.clone(),
            }),
        };
        resource.status.clone_from(&recorder.status);
        recorder.base = Arc::clone(object);
        if trigger.deleting {
            if self.has_session_jobs(&resource).await? {
                return Ok(Some(self.operator.context.timings.reconcile_interval));
            }
            if !self.operator.clean_up(&mut resource).await? {
                recorder.record(&resource.status).await?;
                return Ok(Some(self.operator.context.timings.progress_check));
            }
            self.operator.gate.open().await;
            self.set_finalizer(object, false).await?;
            return Ok(None);
        }
        self.operator.reconcile(&mut resource, recorder).await
    }

    /// Returns the session cluster that a session job names.
    async fn session(&self, resource: &Resource) -> Result<Option<Session>, Failure> {
        if !resource.is_session_job() || resource.spec.deployment_name().is_empty() {
            return Ok(None);
        }
        let found = self.others.get_opt(resource.spec.deployment_name()).await?;
        let session = found.map(|object| Resource::new(Kind::Deployment, &object));
        Ok(session.map(|session| Session {
            is_ready: session.status.manager_is_ready(),
            spec: session.spec,
        }))
    }

    /// Returns whether a session cluster has jobs that are to be deleted first (`SessionReconciler.cleanupInternal`).
    async fn has_session_jobs(&self, resource: &Resource) -> Result<bool, Failure> {
        let blocks = || resource.spec.conf().flag(BLOCK_ON_SESSION_JOBS, true);
        if !(resource.is_session_cluster() && blocks()) {
            return Ok(false);
        }
        let jobs = match self.others.list(&ListParams::default()).await {
            Ok(jobs) => jobs,
            // The member doesn't know the kind.
            Err(Error::Api(status)) if status.is_not_found() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut specs = jobs.items.iter().map(|job| Spec::new(&job.data["spec"]));
        Ok(specs.any(|spec| spec.deployment_name() == resource.name))
    }

    /// Adds or removes the operator's finalizer, on the newest version of the object.
    async fn set_finalizer(&self, object: &DynamicObject, present: bool) -> Result<(), Failure> {
        let mut current = object.clone();
        loop {
            let mut finalizers = current.finalizers().to_vec();
            finalizers.retain(|finalizer| *finalizer != self.kind.finalizer());
            if present {
                finalizers.push(self.kind.finalizer());
            }
            let patch = json!({"metadata": {
                "finalizers": finalizers,
                "resourceVersion": current.resource_version(),
                "uid": object.uid(),
            }});
            let name = &self.key.1;
            match self
                .api
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Err(Error::Api(status)) if status.is_conflict() => match self.api.get_opt(name).await? {
                    Some(latest) if latest.uid() == object.uid() => current = latest,
                    _ => return Ok(()),
                },
                Err(Error::Api(status)) if status.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// Writes statuses of one resource and remembers the last (`StatusRecorder`).
struct Recorder {
    kind: Kind,
    api: Api<DynamicObject>,
    base: Arc<DynamicObject>,
    status: Status,
}

impl Recorder {
    fn written_for(&self, object: &DynamicObject) -> bool {
        self.base.uid() == object.uid()
    }
}

impl Record for Recorder {
    /// Replaces the status. A conflict is only about metadata or spec, unless somebody else wrote a status.
    async fn record(&mut self, status: &Status) -> Result<(), Failure> {
        if *status == self.status {
            return Ok(());
        }
        loop {
            let mut object = (*self.base).clone();
            object.data["status"] = status.shown(self.kind);
            let name = object.name_any();
            match self
                .api
                .replace_status(&name, &PostParams::default(), &object)
                .await
            {
                Ok(written) => {
                    self.base = Arc::new(written);
                    self.status.clone_from(status);
                    return Ok(());
                }
                Err(Error::Api(conflict)) if conflict.is_conflict() => {
                    let latest = self.api.get(&name).await?;
                    let theirs = Resource::new(self.kind, &latest).status;
                    if theirs != self.status || latest.uid() != self.base.uid() {
                        self.status = theirs;
                        return Err(Error::Api(conflict).into());
                    }
                    self.base = Arc::new(latest);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Record(Box::new(error))
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
