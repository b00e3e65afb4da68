//! The binding controller: a binding, its template and the override policies become one Work a cluster.
//!
//! Works are written one after the other, in the order of `spec.clusters`, with the override policies of a cache that may
//! be behind the binding. A policy that can't be applied freezes that cluster's Work; only an event says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::kinds::WORKS;
use super::{BindingKey, Manager, Scope, binding_id, objects, read_binding, replicas};
use crate::karmada::meta::{
    APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES, BINDING_FINALIZER, BINDING_NAME, BINDING_NAMESPACE,
    CLUSTER_BINDING_FINALIZER, CLUSTER_BINDING_NAME, CONFLICT_RESOLUTION, EXECUTION_FINALIZER,
    TEMPLATE_GENERATION, TEMPLATE_UID, execution_namespace,
};
use crate::karmada::{
    Cluster, ClusterOverridePolicy, OverridePolicy, PurgeMode, ResourceBinding, ResourceBindingSpec,
    TargetCluster, overrides,
};
use crate::sandbox::api::{DeleteOptions, Object, Status};
use crate::sandbox::faults::Pace;
use crate::sandbox::queue::{Controller, Queue};

const NAME: &str = "binding-controller";
/// How long a Work that is to be purged keeps the whole binding waiting.
const PURGE_AGAIN: Duration = Duration::from_secs(5);

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<BindingKey>> = Queue::new();
    for cache in [&manager.bindings, &manager.cluster_bindings] {
        let queue = Arc::clone(&queue);
        cache.subscribe(move |change| queue.add(BindingKey::of(change.key)));
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
    let works = Arc::clone(&queue);
    manager.works.subscribe(move |change| {
        // A Work that somebody deletes or edits is made again.
        if let Some(key) = change
            .object()
            .filter(|_| change.old.is_some() && change.generation_changed())
            .and_then(|work| owner(work))
        {
            works.add(key);
        }
    });
    manager.context.run(
        NAME,
        &queue,
        Binding {
            manager: manager.clone(),
        },
    );
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
        let Some(template) = read_binding(object)
            .ok()
            .and_then(|binding| manager.template(&binding))
        else {
            continue;
        };
        let selected = policies.iter().any(|policy| {
            let here =
                policy.metadata.namespace.is_none() || policy.metadata.namespace.as_deref() == namespace;
            let all = policy.spec.resource_selectors.is_empty();
            here && (all
                || crate::karmada::ResourceSelector::closest(&policy.spec.resource_selectors, &template)
                    .is_some())
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

/// Returns the binding that a Work belongs to.
fn owner(work: &Value) -> Option<BindingKey> {
    if let Some(name) = objects::annotation(work, BINDING_NAME) {
        let namespace = objects::annotation(work, BINDING_NAMESPACE).map(str::to_owned);
        return Some(BindingKey {
            namespace,
            name: name.to_owned(),
        });
    }
    let name = objects::annotation(work, CLUSTER_BINDING_NAME)?;
    Some(BindingKey {
        namespace: None,
        name: name.to_owned(),
    })
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
        let mut failure = None;
        for target in binding.spec.synced_clusters() {
            if let Err(status) = self.sync(&object, &binding, &template, &target, pace).await {
                failure = Some(status);
            }
        }
        match failure {
            Some(status) => Err(status),
            None => Ok(None),
        }
    }
}

impl Binding {
    /// The Works go first; the binding when the last of them is gone.
    fn remove(&self, key: &BindingKey, object: &Object) -> Result<Option<Duration>, Status> {
        let works = self.manager.works_of(object);
        for work in &works {
            self.delete_work(work)?;
        }
        if !works.is_empty() {
            return Ok(Some(Duration::from_millis(50)));
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
        let mut manifest = self.manifest(binding, template, target);
        let applied = match self.override_manifest(&mut manifest, &cluster) {
            Ok(applied) => applied,
            Err(why) => {
                self.manager
                    .context
                    .event(pace, object, "Warning", "SyncWorkFailed", why.clone());
                return Err(Status::internal(why));
            }
        };
        let wanted = work(object, binding, target, manifest, &applied);
        let known = self.manager.works.get(
            Some(&execution_namespace(target.name.as_str())),
            objects::name(&wanted),
        );
        match known {
            Some(known) => {
                let merged = merge(&known, &wanted);
                if merged == *known {
                    return Ok(());
                }
                pace.spend(latencies.write_work).await;
                self.manager.context.put(&WORKS, merged).map(drop)
            }
            None => {
                pace.spend(latencies.write_work).await;
                let writer = self.manager.context.writer();
                let namespace = execution_namespace(target.name.as_str());
                self.manager
                    .context
                    .control
                    .create(&WORKS, Some(&namespace), wanted, &writer)
                    .map(drop)
            }
        }
    }

    fn manifest(&self, binding: &ResourceBinding, template: &Object, target: &TargetCluster) -> Value {
        let mut manifest = (**template).clone();
        let generation = objects::generation(&manifest).to_string();
        let uid = objects::uid(&manifest).to_owned();
        objects::fields(&mut manifest).shift_remove("status");
        let metadata = objects::fields(&mut manifest["metadata"]);
        for field in [
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "managedFields",
            "resourceVersion",
            "selfLink",
            "uid",
            "ownerReferences",
            "finalizers",
        ] {
            metadata.shift_remove(field);
        }
        objects::set_annotation(&mut manifest, TEMPLATE_GENERATION, &generation);
        objects::set_annotation(&mut manifest, TEMPLATE_UID, &uid);
        let conflict = &binding.spec.conflict_resolution;
        let conflict = if conflict.is_empty() { "Abort" } else { conflict };
        objects::set_annotation(&mut manifest, CONFLICT_RESOLUTION, &conflict.to_lowercase());
        if binding.spec.replicas > 0 {
            replicas::revise(&mut manifest, target.replicas);
        }
        if self.manager.context.features.state_injection {
            for (label, value) in preserved_state(&binding.spec, target) {
                objects::set_label(&mut manifest, &label, &value);
            }
        }
        manifest
    }

    /// Applies the override policies of the caches; returns what Karmada notes about them on the Work.
    fn override_manifest(&self, manifest: &mut Value, cluster: &Cluster) -> Result<[Value; 2], String> {
        let cluster_wide: Vec<ClusterOverridePolicy> = self
            .manager
            .cluster_overrides
            .list()
            .iter()
            .filter_map(|object| ClusterOverridePolicy::deserialize(&**object).ok())
            .collect();
        let namespace = objects::namespace(manifest).map(str::to_owned);
        let namespaced: Vec<OverridePolicy> = self
            .manager
            .overrides
            .list()
            .iter()
            .filter(|object| namespace.is_some() && objects::namespace(object) == namespace.as_deref())
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
    if binding.spec.dispatching_suspended(cluster) {
        work["spec"]["suspendDispatching"] = json!(true);
    }
    if let Some(preserve) = binding.spec.preserve_resources_on_deletion {
        work["spec"]["preserveResourcesOnDeletion"] = json!(preserve);
    }
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
        .filter(|task| task.purge_mode != Some(PurgeMode::Directly))
        .map(|task| task.from_cluster.to_string());
    synced.chain(leaving).collect()
}

fn purges(spec: &ResourceBindingSpec, works: &[Object]) -> bool {
    spec.graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode == Some(PurgeMode::Directly))
        .any(|task| {
            works
                .iter()
                .any(|work| cluster_of(work) == Some(task.from_cluster.as_str()))
        })
}

fn cluster_of(work: &Value) -> Option<&str> {
    crate::karmada::meta::cluster_of(objects::namespace(work)?)
}

/// The state that a failover saved goes into labels of the one new copy, and only when the old one is purged at once.
fn preserved_state(spec: &ResourceBindingSpec, target: &TargetCluster) -> Vec<(String, String)> {
    let [only] = spec.clusters.as_slice() else {
        return Vec::new();
    };
    if only.name != target.name {
        return Vec::new();
    }
    let task = spec.graceful_eviction_tasks.iter().rev().find(|task| {
        task.purge_mode == Some(PurgeMode::Directly) && !task.clusters_before_failover.contains(&target.name)
    });
    task.map(|task| task.preserved_label_state.clone().into_iter().collect())
        .unwrap_or_default()
}
