//! The status controllers: from the member's object into its Work, from Works into the binding, from there into the
//! template. The first also repairs: what somebody changes or deletes in a member is put right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::WORKERS;
use super::execution::{Place, create_in, is_suspended, manifests, set_condition, update_in};
use super::kinds::{self, WORKS};
use super::{BindingKey, Context, Manager, health, objects, read_binding};
use crate::api::{Object, Resource, Status, Subresource};
use crate::faults::Pace;
use crate::informer::Change;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{
    self, BINDING_NAME, BINDING_NAMESPACE, CLUSTER_BINDING_NAME, WORK_NAME, WORK_NAMESPACE,
};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{AggregatedStatus, Health, ManifestStatus, PurgeMode, ResourceBindingSpec, Rest};

const WORK_STATUS: &str = "work-status-controller";
const BINDING_STATUS: &str = "binding-status-controller";
/// How often a status is written again after somebody else was faster.
const TRIES: usize = 5;

pub(super) fn start(manager: &Manager) {
    start_work_status(manager);
    start_binding_status(manager);
}

/// Changes the status of an object as it is now; nothing is written when nothing changes.
pub(super) fn revise(
    context: &Context,
    resource: &Resource,
    object: &Value,
    change: impl Fn(&mut Value),
) -> Result<(), Status> {
    let (namespace, name) = (objects::namespace(object), objects::name(object));
    for last in (0..TRIES).map(|tried| tried + 1 == TRIES) {
        let known = context.control.get(resource, namespace, name)?;
        let mut status = known.get("status").cloned().unwrap_or_else(|| json!({}));
        change(&mut status);
        if known.get("status") == Some(&status) {
            return Ok(());
        }
        let mut revised = (*known).clone();
        revised["status"] = status;
        let part = Some(Subresource::Status);
        match context
            .control
            .update(resource, namespace, name, part, revised, &context.writer())
        {
            Err(status) if status.is_conflict() && !last => {}
            result => return result.map(drop),
        }
    }
    Ok(())
}

/// An object in a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MemberKey {
    member: String,
    resource: Resource,
    kind: String,
    namespace: Option<String>,
    name: String,
}

fn start_work_status(manager: &Manager) {
    let queue: Arc<Queue<MemberKey>> = Queue::new();
    for (member, caches) in &manager.members {
        let (member, queue) = (member.clone(), Arc::clone(&queue));
        caches.subscribe(move |resource, change| {
            let Some(object) = change.object() else { return };
            // Whose Work is elsewhere is no object of this member's.
            let namespace = objects::annotation(object, WORK_NAMESPACE);
            if namespace.and_then(meta::cluster_of) == Some(member.as_str()) {
                queue.add(MemberKey {
                    member: member.clone(),
                    resource: resource.clone(),
                    kind: objects::text(object, "/kind").to_owned(),
                    namespace: objects::namespace(object).map(str::to_owned),
                    name: objects::name(object).to_owned(),
                });
            }
        });
    }
    // The members' caches begin with the first Work of a kind that has been applied.
    let caches = manager.clone();
    manager.works.subscribe(move |change| {
        let Some(work) = change.new.filter(|work| is_applied(work)) else {
            return;
        };
        let Some(member) = objects::namespace(work).and_then(meta::cluster_of) else {
            return;
        };
        for manifest in manifests(work) {
            if let (Ok(place), Some(caches)) =
                (Place::of(&caches, member, manifest), caches.members.get(member))
            {
                caches.of(&place.resource);
            }
        }
    });
    let status = WorkStatus {
        manager: manager.clone(),
        versions: Arc::default(),
    };
    manager.context.run_at_once(WORKERS, WORK_STATUS, &queue, status);
}

fn is_applied(work: &Value) -> bool {
    objects::condition(work, "Applied").is_some_and(|condition| condition["status"] == "True")
}

struct WorkStatus {
    manager: Manager,
    /// What each object was when it last was right.
    versions: Arc<Mutex<BTreeMap<MemberKey, String>>>,
}

impl Controller for WorkStatus {
    type Key = MemberKey;

    async fn reconcile(&self, key: &MemberKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        let object = self.cached(key);
        match object {
            None => self.recreate(key)?,
            Some(object) => {
                let Some(work) = self.work_of(&object) else {
                    return Ok(None);
                };
                if objects::is_terminating(&work) {
                    return Ok(None);
                }
                self.repair(key, &work, &object)?;
                pace.spend(self.manager.context.latencies.reflect).await;
                // What is reflected is what the cache has by now.
                if let Some(object) = self.cached(key) {
                    self.reflect(&work, &object)?;
                }
            }
        }
        Ok(None)
    }
}

impl WorkStatus {
    fn cached(&self, key: &MemberKey) -> Option<Object> {
        let caches = self.manager.members.get(&key.member)?;
        caches.get(&key.resource, key.namespace.as_deref(), &key.name)
    }

    fn work_of(&self, object: &Value) -> Option<Object> {
        let namespace = objects::annotation(object, WORK_NAMESPACE)?;
        self.manager
            .works
            .get(Some(namespace), objects::annotation(object, WORK_NAME)?)
    }

    /// Somebody deleted the object: it is made again, unless its Work is on its way out or kept back.
    fn recreate(&self, key: &MemberKey) -> Result<(), Status> {
        self.versions().remove(key);
        let name = objects::work_name(&key.kind, &key.name, key.namespace.as_deref());
        let Some(work) = self
            .manager
            .works
            .get(Some(&meta::execution_namespace(&key.member)), &name)
        else {
            return Ok(());
        };
        if objects::is_terminating(&work) || is_suspended(&work) {
            return Ok(());
        }
        let context = &self.manager.context;
        for manifest in manifests(&work).iter().filter(|manifest| key.is_of(manifest)) {
            let place = Place::of(&self.manager, &key.member, manifest)?;
            if let Err(status) = create_in(&self.manager, &place, manifest) {
                set_condition(
                    context,
                    &work,
                    ("Applied", "False", "ReCreateFailed"),
                    &status.message,
                )?;
                return Err(status);
            }
        }
        let message = "Manifest has been successfully applied";
        set_condition(context, &work, ("Applied", "True", "ReCreateSuccessful"), message)
    }

    /// Writes over what somebody changed in the member. An annotation that raises no generation isn't noticed.
    fn repair(&self, key: &MemberKey, work: &Value, object: &Object) -> Result<(), Status> {
        if is_suspended(work) {
            return Ok(());
        }
        let Some(manifest) = manifests(work).iter().find(|manifest| key.is_of(manifest)) else {
            return Err(Status::internal("no such manifest exist"));
        };
        let version = version(object);
        let same_labels = objects::entries(manifest, "labels") == objects::entries(object, "labels");
        let right = self.versions().get(key) == Some(&version);
        if right && (same_labels || !version.starts_with("gen:")) {
            return Ok(());
        }
        let place = Place::of(&self.manager, &key.member, manifest)?;
        update_in(&self.manager, &place, manifest, object)?;
        self.versions().insert(key.clone(), version);
        Ok(())
    }

    fn reflect(&self, work: &Value, object: &Value) -> Result<(), Status> {
        let api_version = objects::text(object, "/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut identifier = json!({
            "ordinal": 0, "version": version, "kind": object["kind"], "resource": "", "name": objects::name(object),
        });
        if !group.is_empty() {
            identifier["group"] = json!(group);
        }
        if let Some(namespace) = objects::namespace(object) {
            identifier["namespace"] = json!(namespace);
        }
        let mut shown = json!({"identifier": identifier, "health": health::of(object)});
        if let Some(status) = health::reflect(object) {
            shown["status"] = status;
        }
        let revised = revise(&self.manager.context, &WORKS, work, |status| {
            status["manifestStatuses"] = json!([shown]);
        });
        match revised {
            Err(status) if status.is_not_found() => Ok(()),
            result => result,
        }
    }

    fn versions(&self) -> std::sync::MutexGuard<'_, BTreeMap<MemberKey, String>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemberKey {
    fn is_of(&self, manifest: &Value) -> bool {
        objects::text(manifest, "/kind") == self.kind
            && objects::namespace(manifest) == self.namespace.as_deref()
            && objects::name(manifest) == self.name
    }
}

/// Returns by what Karmada tells whether an object has changed.
fn version(object: &Value) -> String {
    match objects::generation(object) {
        0 => format!("rv:{}", objects::text(object, "/metadata/resourceVersion")),
        generation => format!("gen:{generation}"),
    }
}

fn start_binding_status(manager: &Manager) {
    let queue: Arc<Queue<BindingKey>> = Queue::new();
    let works = Arc::clone(&queue);
    manager.works.subscribe(move |change| {
        let status = |object: Option<&Object>| object.and_then(|object| object.get("status")).cloned();
        let created = change.old.is_none();
        if created || change.new.is_some() && status(change.old) == status(change.new) {
            return;
        }
        if let Some(key) = change.object().and_then(|work| binding_of(work)) {
            works.add(key);
        }
    });
    for cache in [&manager.bindings, &manager.cluster_bindings] {
        let queue = Arc::clone(&queue);
        cache.subscribe(move |change| {
            if binding_matters(change) {
                queue.add(BindingKey::of(change.key));
            }
        });
    }
    let status = BindingStatus {
        manager: manager.clone(),
    };
    manager
        .context
        .run_at_once(WORKERS, BINDING_STATUS, &queue, status);
}

/// Returns the binding that a Work belongs to.
fn binding_of(work: &Value) -> Option<BindingKey> {
    if let (Some(namespace), Some(name)) = (
        objects::annotation(work, BINDING_NAMESPACE),
        objects::annotation(work, BINDING_NAME),
    ) {
        return Some(BindingKey {
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        });
    }
    let name = objects::annotation(work, CLUSTER_BINDING_NAME)?;
    Some(BindingKey {
        namespace: None,
        name: name.to_owned(),
    })
}

/// A binding is looked at when it is first seen scheduled, and when its template changes.
fn binding_matters(change: &Change<'_>) -> bool {
    let Some(new) = change.new else { return false };
    let template = |object: &Object| objects::text(object, "/spec/resource/resourceVersion").to_owned();
    let scheduled = !objects::text(new, "/status/lastScheduledTime").is_empty();
    scheduled && change.old.is_none_or(|old| template(old) != template(new))
}

struct BindingStatus {
    manager: Manager,
}

impl Controller for BindingStatus {
    type Key = BindingKey;

    async fn reconcile(&self, key: &BindingKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.spend(self.manager.context.latencies.aggregate).await;
        let Some(object) = self.manager.binding(key) else {
            return Ok(None);
        };
        let binding = read_binding(&object)?;
        let copies = self.copies(&object, key)?;
        let shown = serde_json::to_value(&copies).map_err(|error| Status::internal(error.to_string()))?;
        let (value, reason, message) = if is_fully_applied(&binding.spec, &copies) {
            (
                "True",
                "FullyAppliedSuccess",
                "All works have been successfully applied",
            )
        } else {
            (
                "False",
                "FullyAppliedFailed",
                "Failed to apply all works, see status.aggregatedStatus for details",
            )
        };
        let now = self.manager.context.time();
        let revised = revise(&self.manager.context, key.resource(), &object, |status| {
            if copies.is_empty() {
                objects::fields(status).shift_remove("aggregatedStatus");
            } else {
                status["aggregatedStatus"] = shown.clone();
            }
            objects::set_condition(status, "FullyApplied", value, reason, message, &now);
        });
        match revised {
            Err(status) if status.is_not_found() => return Ok(None),
            result => result?,
        }
        self.show_on_template(&binding.spec, &copies)?;
        Ok(None)
    }
}

impl BindingStatus {
    fn copies(&self, binding: &Value, key: &BindingKey) -> Result<Vec<AggregatedStatus>, Status> {
        let mut copies = Vec::new();
        for work in self.manager.works_of(binding) {
            let cluster = objects::namespace(&work).and_then(meta::cluster_of);
            let Some(cluster) = cluster.filter(|_| !objects::is_terminating(&work)) else {
                continue;
            };
            if binding_of(&work).as_ref() == Some(key) {
                copies.push(copy(cluster, &work)?);
            }
        }
        copies.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
        Ok(copies)
    }

    fn show_on_template(
        &self,
        spec: &ResourceBindingSpec,
        copies: &[AggregatedStatus],
    ) -> Result<(), Status> {
        let (context, reference) = (&self.manager.context, &spec.resource);
        let Some(resource) = kinds::resource(&context.control, &reference.api_version, &reference.kind)
        else {
            return Ok(());
        };
        let namespace = Some(reference.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let template = match context.control.get(&resource, namespace, &reference.name) {
            // Its binding will go with it.
            Err(status) if status.is_not_found() => return Ok(()),
            result => result?,
        };
        revise(context, &resource, &template, |status| {
            if let Some(aggregated) = health::aggregate(&template, copies) {
                *status = aggregated;
            }
        })
    }
}

/// Returns what a binding shows of one Work.
fn copy(cluster: &str, work: &Value) -> Result<AggregatedStatus, Status> {
    let mut copy = AggregatedStatus {
        cluster_name: ClusterName::new(cluster),
        status: None,
        applied: is_applied(work),
        applied_message: String::new(),
        health: Some(Health::Unknown),
        rest: Rest::new(),
    };
    if !copy.applied {
        let condition = objects::condition(work, "Applied");
        copy.applied_message = condition
            .map(|condition| objects::text(condition, "/message").to_owned())
            .unwrap_or_default();
        return Ok(copy);
    }
    if let Some(shown) = work.pointer("/status/manifestStatuses/0") {
        let shown =
            ManifestStatus::deserialize(shown).map_err(|error| Status::internal(error.to_string()))?;
        copy.status = shown.status;
        copy.health = shown.health;
    }
    Ok(copy)
}

fn is_fully_applied(spec: &ResourceBindingSpec, copies: &[AggregatedStatus]) -> bool {
    let synced = spec.synced_clusters().into_iter().map(|target| target.name);
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| {
            !matches!(
                task.purge_mode,
                Some(PurgeMode::Directly | PurgeMode::Immediately)
            )
        })
        .map(|task| task.from_cluster.clone());
    let wanted: BTreeSet<ClusterName> = synced.chain(leaving).collect();
    !wanted.is_empty()
        && wanted.len() == copies.len()
        && copies
            .iter()
            .all(|copy| copy.applied && wanted.contains(&copy.cluster_name))
}
