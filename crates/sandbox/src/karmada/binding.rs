//! The binding controller: a binding, its template and the override policies become one Work a cluster.
//!
//! Works are written one after the other, in the order of `spec.clusters`, with the override policies of a cache that may
//! be behind the binding. A policy that can't be applied freezes that cluster's Work; only an event says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::WORKERS;
use super::kinds::WORKS;
use super::placement::is_workload;
use super::{BindingKey, Manager, Scope, binding_id, manifest, objects, read_binding, replicas};
use crate::api::{DeleteOptions, Object, Status};
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{
    APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES, BINDING_FINALIZER, BINDING_NAME, BINDING_NAMESPACE,
    CLUSTER_BINDING_FINALIZER, CLUSTER_BINDING_NAME, CONFLICT_RESOLUTION, EXECUTION_FINALIZER,
    TEMPLATE_GENERATION, TEMPLATE_UID, execution_namespace,
};
use cutover_karmada::{
    Cluster, ClusterOverridePolicy, EvictionTask, ObjectReference, OverridePolicy, PurgeMode,
    ResourceBinding, ResourceBindingSpec, ResourceSelector, TargetCluster, overrides,
};

const NAME: &str = "binding-controller";
/// How long a Work that is to be purged keeps the whole binding waiting.
const PURGE_AGAIN: Duration = Duration::from_secs(5);
/// How often, and how soon, a write is tried that was made from an old read.
const WRITE_TRIES: u32 = 5;
const WRITE_AGAIN: Duration = Duration::from_millis(10);

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<BindingKey>> = Queue::new();
    for cache in [&manager.bindings, &manager.cluster_bindings] {
        let queue = Arc::clone(&queue);
        cache.subscribe(move |change| {
            if change.generation_changed() {
                queue.add(BindingKey::of(change.key));
            }
        });
    }
    for cache in [&manager.overrides, &manager.cluster_overrides] {
        let (queue, manager) = (Arc::clone(&queue), manager.clone());
        let pace = manager.context.pace("override-fan-out");
        cache.subscribe(move |change| {
            if !change.generation_changed() {
                return;
            }
            // A policy that changed touches what it selected and what it selects now.
            let policies: Vec<OverridePolicy> = change
                .old
                .iter()
                .chain(&change.new)
                .filter_map(|object| read_override(object))
                .collect();
            for key in touched(&manager, &policies) {
                queue.add_after(key, pace.draw(manager.context.latencies.override_fan_out));
            }
        });
    }
    let binding = Binding {
        manager: manager.clone(),
    };
    manager.context.run_at_once(WORKERS, NAME, &queue, binding);
}

/// Tells what surely doesn't select it, by far the most, from what has to be read whole.
fn may_select(policy: &Value, manifest: &Value) -> bool {
    let selectors = policy["spec"]["resourceSelectors"].as_array();
    let names = |selector: &Value| match selector.get("name").and_then(Value::as_str) {
        None | Some("") => true,
        Some(name) => name == objects::name(manifest),
    };
    selectors.is_none_or(|selectors| selectors.is_empty() || selectors.iter().any(names))
}

fn read_override(object: &Value) -> Option<OverridePolicy> {
    OverridePolicy::deserialize(object).ok()
}

fn touched(manager: &Manager, policies: &[OverridePolicy]) -> Vec<BindingKey> {
    let mut keys = Vec::new();
    for object in manager
        .bindings
        .list()
        .iter()
        .chain(&manager.cluster_bindings.list())
    {
        let namespace = objects::namespace(object);
        let reference = ObjectReference::deserialize(&object["spec"]["resource"]).ok();
        let template = reference.and_then(|reference| manager.template_at(&reference));
        let selected = policies.iter().any(|policy| {
            let here =
                policy.metadata.namespace.is_none() || policy.metadata.namespace.as_deref() == namespace;
            let selectors = &policy.spec.resource_selectors;
            here && (selectors.is_empty()
                || template
                    .as_ref()
                    .is_some_and(|template| ResourceSelector::closest(selectors, template).is_some()))
        });
        if selected {
            keys.push(BindingKey {
                namespace: namespace.map(str::to_owned),
                name: objects::name(object).to_owned(),
            });
        }
    }
    keys
}

struct Binding {
    manager: Manager,
}

impl Controller for Binding {
    type Key = BindingKey;

    async fn reconcile(&self, key: &BindingKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        let Some(object) = self.manager.binding(key) else {
            return Ok(None);
        };
        if objects::is_terminating(&object) {
            return self.remove(key, &object);
        }
        let binding = read_binding(&object)?;
        let works = self.manager.works_of(&object);
        self.remove_orphans(&binding.spec, &works)?;
        if purges(&binding.spec, &works) {
            // As long as a purged Work is there, nothing of the binding is synced: no change reaches any cluster.
            return Ok(Some(PURGE_AGAIN));
        }
        let Some(template) = self.manager.template(&binding) else {
            return Ok(None);
        };
        let mut failures = Vec::new();
        for target in binding.spec.synced_clusters() {
            if let Err(status) = self.sync(&object, &binding, &template, &target, pace).await {
                failures.push(status.message);
            }
        }
        if failures.is_empty() {
            return Ok(None);
        }
        let why = failures.join(", ");
        for about in [&object, &template] {
            self.manager
                .context
                .event(pace, about, "Warning", "SyncWorkFailed", why.clone());
        }
        Err(Status::internal(why))
    }
}

impl Binding {
    /// The Works are told to go; they do so by themselves.
    fn remove(&self, key: &BindingKey, object: &Object) -> Result<Option<Duration>, Status> {
        for work in self.manager.works_of(object) {
            self.delete_work(&work)?;
        }
        let finalizer = match key.scope() {
            Scope::Namespaced => BINDING_FINALIZER,
            Scope::Cluster => CLUSTER_BINDING_FINALIZER,
        };
        let mut binding = (**object).clone();
        if objects::remove_finalizer(&mut binding, finalizer) {
            self.manager.context.put(key.resource(), binding)?;
        }
        Ok(None)
    }

    fn remove_orphans(&self, spec: &ResourceBindingSpec, works: &[Object]) -> Result<(), Status> {
        let kept = existing_clusters(spec);
        for work in works {
            if cluster_of(work).is_some_and(|cluster| !kept.contains(cluster)) {
                self.delete_work(work)?;
            }
        }
        Ok(())
    }

    fn delete_work(&self, work: &Object) -> Result<(), Status> {
        if objects::is_terminating(work) {
            return Ok(());
        }
        let control = &self.manager.context.control;
        match control.delete(
            &WORKS,
            objects::namespace(work),
            objects::name(work),
            &DeleteOptions::default(),
        ) {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }

    async fn sync(
        &self,
        object: &Object,
        binding: &ResourceBinding,
        template: &Object,
        target: &TargetCluster,
        pace: &Pace,
    ) -> Result<(), Status> {
        let latencies = &self.manager.context.latencies;
        pace.spend(latencies.compute).await;
        let Some(cluster) = self.manager.clusters.get(None, target.name.as_str()) else {
            return Err(Status::internal(format!("cluster {} is not joined", target.name)));
        };
        let cluster = Cluster::deserialize(&*cluster).map_err(|error| Status::internal(error.to_string()))?;
        let (manifest, applied) = self
            .manifest(binding, template, target, &cluster)
            .map_err(Status::internal)?;
        let wanted = work(object, binding, target, manifest, &applied);
        let namespace = execution_namespace(target.name.as_str());
        let mut tries = 1;
        loop {
            match self.write(&namespace, &wanted, pace).await {
                // Somebody wrote the status meanwhile; soon the cache will show it.
                Err(status) if status.is_conflict() && tries < WRITE_TRIES => {
                    tokio::time::sleep(WRITE_AGAIN).await;
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn write(&self, namespace: &str, wanted: &Value, pace: &Pace) -> Result<(), Status> {
        let context = &self.manager.context;
        let Some(known) = self.manager.works.get(Some(namespace), objects::name(wanted)) else {
            pace.spend(context.latencies.write_work).await;
            let created = context
                .control
                .create(&WORKS, Some(namespace), wanted.clone(), &context.writer());
            return created.map(drop);
        };
        if objects::is_terminating(&known) {
            return Err(Status::internal(format!(
                "work {namespace}/{} is being deleted",
                objects::name(&known)
            )));
        }
        let merged = merge(&known, wanted);
        if merged == *known {
            return Ok(());
        }
        pace.spend(context.latencies.write_work).await;
        context.put(&WORKS, merged).map(drop)
    }

    /// Returns the template as one cluster is to have it, and what Karmada notes about the override policies on the Work.
    fn manifest(
        &self,
        binding: &ResourceBinding,
        template: &Object,
        target: &TargetCluster,
        cluster: &Cluster,
    ) -> Result<(Value, [Value; 2]), String> {
        let mut manifest = (**template).clone();
        // Also to none: what the template says has to wait while scheduling is suspended.
        if is_workload(&binding.spec) {
            replicas::revise(&mut manifest, target.replicas);
        }
        let applied = self.override_manifest(&mut manifest, cluster)?;
        let generation = objects::generation(template).to_string();
        objects::set_annotation(&mut manifest, TEMPLATE_GENERATION, &generation);
        objects::set_annotation(&mut manifest, TEMPLATE_UID, objects::uid(template));
        let own = objects::annotation(template, CONFLICT_RESOLUTION);
        let own = own.filter(|own| matches!(*own, "overwrite" | "abort"));
        let overwrite = binding.spec.conflict_resolution == "Overwrite";
        let conflict = own.unwrap_or(if overwrite { "overwrite" } else { "abort" });
        objects::set_annotation(&mut manifest, CONFLICT_RESOLUTION, conflict);
        if self.manager.context.features.state_injection {
            for (label, value) in preserved_state(&binding.spec, target) {
                objects::set_label(&mut manifest, &label, &value);
            }
        }
        manifest::prune(&mut manifest);
        Ok((manifest, applied))
    }

    /// Applies the override policies of the caches; returns what Karmada notes about them on the Work.
    fn override_manifest(&self, manifest: &mut Value, cluster: &Cluster) -> Result<[Value; 2], String> {
        let cluster_wide: Vec<ClusterOverridePolicy> = self
            .manager
            .cluster_overrides
            .list()
            .iter()
            .filter(|object| may_select(object, manifest))
            .filter_map(|object| ClusterOverridePolicy::deserialize(&**object).ok())
            .collect();
        let namespace = objects::namespace(manifest).map(str::to_owned);
        let namespaced: Vec<OverridePolicy> = self
            .manager
            .overrides
            .list()
            .iter()
            .filter(|object| namespace.is_some() && objects::namespace(object) == namespace.as_deref())
            .filter(|object| may_select(object, manifest))
            .filter_map(|object| read_override(object))
            .collect();
        let matches = overrides::matching(manifest, cluster, &cluster_wide, &namespaced);
        let noted = |wide: bool| {
            let named = matches
                .iter()
                .filter(|matched| matched.policy.namespace.is_none() == wide);
            let noted: Vec<Value> = named
                .map(|matched| json!({"policyName": matched.policy.name, "overriders": matched.overriders}))
                .collect();
            json!(noted)
        };
        let applied = [noted(true), noted(false)];
        overrides::apply(manifest, cluster, &matches).map_err(|error| error.to_string())?;
        Ok(applied)
    }
}

fn work(
    object: &Object,
    binding: &ResourceBinding,
    target: &TargetCluster,
    manifest: Value,
    applied: &[Value; 2],
) -> Value {
    let (label, id) = binding_id(object);
    let name = objects::work_name(
        objects::text(&manifest, "/kind"),
        objects::name(&manifest),
        objects::namespace(&manifest),
    );
    let cluster = target.name.as_str();
    let mut work = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": name, "namespace": execution_namespace(cluster),
            "finalizers": [EXECUTION_FINALIZER], "labels": {label: id}, "annotations": {},
        },
        "spec": {"workload": {"manifests": [manifest]}},
    });
    match objects::namespace(object) {
        Some(namespace) => {
            objects::set_annotation(&mut work, BINDING_NAMESPACE, namespace);
            objects::set_annotation(&mut work, BINDING_NAME, objects::name(object));
        }
        None => objects::set_annotation(&mut work, CLUSTER_BINDING_NAME, objects::name(object)),
    }
    for (annotation, noted) in [APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES]
        .into_iter()
        .zip(applied)
    {
        if noted.as_array().is_some_and(|noted| !noted.is_empty()) {
            objects::set_annotation(&mut work, annotation, &noted.to_string());
        }
    }
    work["spec"]["suspendDispatching"] = json!(binding.spec.dispatching_suspended(cluster));
    let preserve = binding.spec.preserve_resources_on_deletion.unwrap_or_default();
    work["spec"]["preserveResourcesOnDeletion"] = json!(preserve);
    work
}

/// Returns a known Work with the controller's part written anew. Annotations are only ever added: what they say of
/// override policies is stale after a deletion.
fn merge(known: &Object, wanted: &Value) -> Value {
    let mut merged = (**known).clone();
    for map in ["labels", "annotations"] {
        for (key, value) in objects::entries(wanted, map) {
            if map == "labels" {
                objects::set_label(&mut merged, &key, &value);
            } else {
                objects::set_annotation(&mut merged, &key, &value);
            }
        }
    }
    merged["spec"] = wanted["spec"].clone();
    // What the webhook would do: so an unchanged Work is not written.
    let owner = merged.clone();
    if let Some(manifest) = merged.pointer_mut("/spec/workload/manifests/0") {
        manifest::stamp(manifest, &owner);
    }
    merged
}

fn existing_clusters(spec: &ResourceBindingSpec) -> BTreeSet<String> {
    let synced = spec
        .synced_clusters()
        .into_iter()
        .map(|target| target.name.to_string());
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| !is_direct(task))
        .map(|task| task.from_cluster.to_string());
    synced.chain(leaving).collect()
}

fn purges(spec: &ResourceBindingSpec, works: &[Object]) -> bool {
    spec.graceful_eviction_tasks
        .iter()
        .filter(|task| is_direct(task))
        .any(|task| {
            works
                .iter()
                .any(|work| cluster_of(work) == Some(task.from_cluster.as_str()))
        })
}

fn cluster_of(work: &Value) -> Option<&str> {
    cutover_karmada::meta::cluster_of(objects::namespace(work)?)
}

/// The state that a failover saved goes into labels of the one new copy, and only when the old one is purged at once.
fn preserved_state(spec: &ResourceBindingSpec, target: &TargetCluster) -> Vec<(String, String)> {
    if spec.synced_clusters().len() != 1 {
        return Vec::new();
    }
    let task = spec.graceful_eviction_tasks.last();
    task.filter(|task| is_direct(task) && !task.clusters_before_failover.contains(&target.name))
        .map(|task| task.preserved_label_state.clone().into_iter().collect())
        .unwrap_or_default()
}

/// Purged at once, under the new or the old name of the mode.
fn is_direct(task: &EvictionTask) -> bool {
    matches!(
        task.purge_mode,
        Some(PurgeMode::Directly | PurgeMode::Immediately)
    )
}
