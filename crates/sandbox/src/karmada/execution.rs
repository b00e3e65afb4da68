//! The execution controller: what a Work says becomes an object in its member.
//!
//! It knows the member through a cache. A Work that is deleted goes as soon as the member has been asked to delete its
//! object, which may still be there for long; and an object that the cache doesn't show yet counts as deleted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::context::WORKERS;
use super::kinds::{self, WORKS};
use super::manifest::{is_managed, may_overwrite, prune};
use super::retain::{is_same, retain};
use super::status::revise;
use super::{Context, Manager, cluster, objects};
use crate::api::{ApiServer, DeleteOptions, Object, Propagation, Resource, Status};
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use crate::store::Key;
use cutover_karmada::meta::{self, EXECUTION_FINALIZER};

const NAME: &str = "execution-controller";
/// How often a write that meets a newer object is tried again at once.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<Key>> = Queue::new();
    let works = Arc::clone(&queue);
    manager.works.subscribe(move |change| {
        if change.new.is_some() && change.generation_changed() {
            works.add(change.key.clone());
        }
    });
    let execution = Execution {
        manager: manager.clone(),
    };
    manager.context.run_at_once(WORKERS, NAME, &queue, execution);
}

struct Execution {
    manager: Manager,
}

impl Controller for Execution {
    type Key = Key;

    async fn reconcile(&self, key: &Key, pace: &Pace) -> Result<Option<Duration>, Status> {
        let manager = &self.manager;
        if manager.works.get(Some(&key.namespace), &key.name).is_none() {
            return Ok(None);
        }
        pace.spend(manager.context.latencies.apply).await;
        let Some(work) = manager.works.get(Some(&key.namespace), &key.name) else {
            return Ok(None);
        };
        let Some(member) = meta::cluster_of(&key.namespace) else {
            return Ok(None);
        };
        let ready = self.is_ready(member)?;
        if objects::is_terminating(&work) {
            self.remove(member, ready, &work)?;
            return Ok(None);
        }
        self.show_dispatching(&work)?;
        if is_suspended(&work) {
            return Ok(None);
        }
        if !ready {
            return Err(not_ready(member));
        }
        self.apply(member, &work, pace).await?;
        Ok(None)
    }
}

/// Tells whether a Work is kept from its member.
pub(super) fn is_suspended(work: &Value) -> bool {
    work.pointer("/spec/suspendDispatching") == Some(&json!(true))
}

fn not_ready(member: &str) -> Status {
    Status::internal(format!("cluster({member}) not ready"))
}

impl Execution {
    fn is_ready(&self, member: &str) -> Result<bool, Status> {
        let object = self.manager.clusters.get(None, member);
        let object = object.ok_or_else(|| Status::not_found(&kinds::CLUSTERS, member))?;
        Ok(cluster::is_ready(&object))
    }

    fn show_dispatching(&self, work: &Value) -> Result<(), Status> {
        let (value, reason, message) = if is_suspended(work) {
            (
                "False",
                "SuspendDispatching",
                "Work dispatching is in a suspended state.",
            )
        } else {
            (
                "True",
                "Dispatching",
                "Work is being dispatched to member clusters.",
            )
        };
        if objects::condition(work, "Dispatching").is_some_and(|condition| condition["status"] == value) {
            return Ok(());
        }
        set_condition(
            &self.manager.context,
            work,
            ("Dispatching", value, reason),
            message,
        )
    }

    async fn apply(&self, member: &str, work: &Value, pace: &Pace) -> Result<(), Status> {
        let mut failures = Vec::new();
        let manifests = manifests(work);
        for manifest in manifests {
            if let Err(status) = self.apply_one(member, manifest).await {
                let namespace = objects::namespace(manifest).unwrap_or_default();
                let message = format!(
                    "Failed to create or update resource({namespace}/{}) in member cluster({member}): {status}",
                    objects::name(manifest),
                );
                self.manager
                    .context
                    .event(pace, manifest, "Warning", "SyncFailed", message);
                failures.push(status.message);
            }
        }
        let context = &self.manager.context;
        if failures.is_empty() {
            let message = "Manifest has been successfully applied";
            return set_condition(context, work, ("Applied", "True", "AppliedSuccessful"), message);
        }
        let (done, all) = (manifests.len() - failures.len(), manifests.len());
        let message = format!(
            "Failed to apply all manifests ({done}/{all}): {}",
            failures.join(", ")
        );
        self.manager
            .context
            .event(pace, work, "Warning", "SyncFailed", message.clone());
        set_condition(context, work, ("Applied", "False", "AppliedFailed"), &message)?;
        Err(Status::internal(message))
    }

    async fn apply_one(&self, member: &str, manifest: &Value) -> Result<(), Status> {
        let mut tries = 1;
        loop {
            match put_in(&self.manager, member, manifest) {
                Err(status) if status.is_conflict() && tries < TRIES => tries += 1,
                result => return result,
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }

    fn remove(&self, member: &str, ready: bool, work: &Object) -> Result<(), Status> {
        if !ready
            && self
                .manager
                .clusters
                .get(None, member)
                .is_some_and(|cluster| !objects::is_terminating(&cluster))
        {
            return Err(not_ready(member));
        }
        for manifest in manifests(work) {
            if work.pointer("/spec/preserveResourcesOnDeletion") == Some(&json!(true)) {
                self.release(member, manifest)?;
            } else {
                self.delete(member, manifest)?;
            }
        }
        let mut work = (**work).clone();
        if objects::remove_finalizer(&mut work, EXECUTION_FINALIZER) {
            self.manager.context.put(&WORKS, work)?;
        }
        Ok(())
    }

    /// Deletes an object of Karmada's. One that the cache doesn't show counts as gone.
    fn delete(&self, member: &str, manifest: &Value) -> Result<(), Status> {
        let place = Place::of(&self.manager, member, manifest)?;
        let Some(present) = place.cached(&self.manager, manifest) else {
            return Ok(());
        };
        if !is_managed(&present) {
            return Ok(());
        }
        place.reach(&self.manager)?;
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let (namespace, name) = (objects::namespace(manifest), objects::name(manifest));
        match place.server.delete(&place.resource, namespace, name, &options) {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }

    /// Leaves an object in the member, and takes Karmada's marks off it.
    fn release(&self, member: &str, manifest: &Value) -> Result<(), Status> {
        const MARKS: &[&str] = &[
            meta::MANAGED,
            meta::WORK_ID,
            meta::BINDING_ID,
            meta::CLUSTER_BINDING_ID,
            meta::POLICY_ID,
            meta::CLUSTER_POLICY_ID,
            meta::WORK_NAME,
            meta::WORK_NAMESPACE,
            meta::BINDING_NAME,
            meta::BINDING_NAMESPACE,
            meta::CLUSTER_BINDING_NAME,
            meta::POLICY_NAME,
            meta::POLICY_NAMESPACE,
            meta::CLUSTER_POLICY_NAME,
            meta::TEMPLATE_UID,
            meta::TEMPLATE_GENERATION,
            meta::MANAGED_LABELS,
            meta::MANAGED_ANNOTATIONS,
            meta::CONFLICT_RESOLUTION,
        ];
        let place = Place::of(&self.manager, member, manifest)?;
        let Some(present) = place.cached(&self.manager, manifest) else {
            return Ok(());
        };
        place.reach(&self.manager)?;
        let mut released = (*present).clone();
        objects::remove_entries(&mut released, "labels", MARKS);
        objects::remove_entries(&mut released, "annotations", MARKS);
        let (namespace, name) = (objects::namespace(manifest), objects::name(manifest));
        let writer = self.manager.context.writer();
        place
            .server
            .update(&place.resource, namespace, name, None, released, &writer)
            .map(drop)
    }
}

/// Returns the manifests of a Work.
pub(super) fn manifests(work: &Value) -> &[Value] {
    work.pointer("/spec/workload/manifests")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Sets a condition of a Work: its type, status and reason.
pub(super) fn set_condition(
    context: &Context,
    work: &Value,
    (kind, value, reason): (&str, &str, &str),
    message: &str,
) -> Result<(), Status> {
    let now = context.time();
    revise(context, &WORKS, work, |status| {
        objects::set_condition(status, kind, value, reason, message, &now);
    })
}

/// Creates or updates an object in a member, as the member's cache makes it look necessary.
pub(super) fn put_in(manager: &Manager, member: &str, manifest: &Value) -> Result<(), Status> {
    let place = Place::of(manager, member, manifest)?;
    match place.cached(manager, manifest) {
        None => create_in(manager, &place, manifest),
        Some(present) => update_in(manager, &place, manifest, &present),
    }
}

pub(super) fn create_in(manager: &Manager, place: &Place, manifest: &Value) -> Result<(), Status> {
    place.reach(manager)?;
    let namespace = objects::namespace(manifest);
    place
        .server
        .create(
            &place.resource,
            namespace,
            manifest.clone(),
            &manager.context.writer(),
        )
        .map(drop)
}

pub(super) fn update_in(
    manager: &Manager,
    place: &Place,
    manifest: &Value,
    present: &Value,
) -> Result<(), Status> {
    let (namespace, name) = (objects::namespace(manifest), objects::name(manifest));
    if !may_overwrite(manifest, present) {
        return Err(Status::internal(format!(
            "resource(kind={}, {}/{name}) already exists in the cluster {} and the {} strategy value is empty, \
             Karmada will not manage this resource",
            objects::text(manifest, "/kind"),
            namespace.unwrap_or_default(),
            place.member,
            meta::CONFLICT_RESOLUTION,
        )));
    }
    let mut manifest = manifest.clone();
    prune(&mut manifest);
    let wanted = retain(&manifest, present);
    if is_same(&wanted, present) {
        return Ok(());
    }
    place.reach(manager)?;
    place
        .server
        .update(
            &place.resource,
            namespace,
            name,
            None,
            wanted,
            &manager.context.writer(),
        )
        .map(drop)
}

/// Where a manifest belongs.
pub(super) struct Place {
    pub member: String,
    pub server: ApiServer,
    pub resource: Resource,
}

impl Place {
    pub fn of(manager: &Manager, member: &str, manifest: &Value) -> Result<Self, Status> {
        let server = manager.context.members.get(member);
        let server = server.ok_or_else(|| Status::not_found(&kinds::CLUSTERS, member))?;
        let (api_version, kind) = (
            objects::text(manifest, "/apiVersion"),
            objects::text(manifest, "/kind"),
        );
        let resource = kinds::resource(server, api_version, kind).ok_or_else(|| {
            Status::internal(format!(
                "no matches for kind \"{kind}\" in version \"{api_version}\""
            ))
        })?;
        Ok(Self {
            member: member.to_owned(),
            server: server.clone(),
            resource,
        })
    }

    /// Returns an object as the member's cache has it.
    pub fn cached(&self, manager: &Manager, manifest: &Value) -> Option<Object> {
        let caches = manager.members.get(&self.member)?;
        caches.get(
            &self.resource,
            objects::namespace(manifest),
            objects::name(manifest),
        )
    }

    /// Fails while the member is cut off.
    pub fn reach(&self, manager: &Manager) -> Result<(), Status> {
        if manager.context.faults.is_partitioned(&self.member) {
            return Err(Status::internal(format!(
                "dial tcp: cluster {} can't be reached: i/o timeout",
                self.member
            )));
        }
        Ok(())
    }
}
