//! `propagateDeps`: what a workload's pods refer to follows it, by bindings that are required by its binding.
//!
//! Known are the kinds that have a pod template; a `FlinkDeployment` has no dependencies that Karmada would see.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::kinds::{self, BINDINGS};
use super::objects::{self, label};
use super::{BindingKey, Manager, binding_id, read_binding};
use crate::api::{Object, Status};
use crate::faults::Pace;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{
    BINDING_FINALIZER, DEPENDED_BY, DEPENDENCIES, DEPENDENCIES_FINALIZER, binding_name,
};
use cutover_karmada::{BindingSnapshot, ResourceBinding};

const NAME: &str = "dependencies-distributor";

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<BindingKey>> = Queue::new();
    let bindings = Arc::clone(&queue);
    manager.bindings.subscribe(move |change| {
        let propagates = |binding: &Object| binding.pointer("/spec/propagateDeps") == Some(&json!(true));
        let concerned = match (change.old, change.new) {
            (None, Some(new)) => propagates(new) && is_scheduled(new),
            (old, new) => old.into_iter().chain(new).any(propagates),
        };
        if concerned && change.generation_changed() {
            bindings.add(BindingKey::of(change.key));
        }
    });
    let (late, cache) = (Arc::clone(&queue), manager.bindings.clone());
    manager.templates.subscribe(move |_, change| {
        let (Some(object), None) = (change.new, change.old) else {
            return;
        };
        for binding in cache.list().iter().filter(|binding| names(binding, object)) {
            late.add(BindingKey {
                namespace: objects::namespace(binding).map(str::to_owned),
                name: objects::name(binding).to_owned(),
            });
        }
    });
    let controller = Distributor {
        manager: manager.clone(),
    };
    manager.context.run(NAME, &queue, controller);
}

fn is_scheduled(binding: &Value) -> bool {
    let clusters = binding.pointer("/spec/clusters").and_then(Value::as_array);
    clusters.is_some_and(|clusters| !clusters.is_empty())
}

/// Tells whether a binding was found to depend on an object, which may not have been there.
fn names(binding: &Value, object: &Value) -> bool {
    let noted = objects::annotation(binding, DEPENDENCIES).unwrap_or_default();
    let noted: Vec<Value> = serde_json::from_str(noted).unwrap_or_default();
    objects::namespace(binding) == objects::namespace(object)
        && noted.iter().any(|dependency| {
            dependency["kind"] == object["kind"] && dependency["name"] == objects::name(object)
        })
}

struct Distributor {
    manager: Manager,
}

impl Controller for Distributor {
    type Key = BindingKey;

    async fn reconcile(&self, key: &BindingKey, pace: &Pace) -> Result<Option<Duration>, Status> {
        let Some(object) = self.manager.binding(key) else {
            return Ok(None);
        };
        let binding = read_binding(&object)?;
        if !binding.spec.propagate_deps || objects::is_terminating(&object) {
            self.detach(key, &BTreeSet::new())?;
            let mut freed = (*object).clone();
            if objects::remove_finalizer(&mut freed, DEPENDENCIES_FINALIZER) {
                self.manager.context.put(&BINDINGS, freed)?;
            }
            return Ok(None);
        }
        let Some(template) = self.manager.template(&binding) else {
            return Ok(None);
        };
        pace.spend(self.manager.context.latencies.detect).await;
        let Some(dependencies) = of_template(&template) else {
            return Ok(None);
        };
        let object = self.note(&object, &dependencies)?;
        self.detach(key, &dependencies)?;
        for dependency in &dependencies {
            self.attach(key, &object, &binding, dependency)?;
        }
        Ok(None)
    }
}

impl Distributor {
    /// Notes the dependencies on the binding, which stays until they are freed.
    fn note(&self, binding: &Object, dependencies: &BTreeSet<Dependency>) -> Result<Object, Status> {
        let namespace = objects::namespace(binding).unwrap_or_default();
        let list: Vec<Value> = dependencies
            .iter()
            .map(|Dependency { kind, name }| {
                json!({"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name})
            })
            .collect();
        let mut noted = (**binding).clone();
        objects::set_annotation(&mut noted, DEPENDENCIES, &Value::Array(list).to_string());
        objects::add_finalizer(&mut noted, DEPENDENCIES_FINALIZER);
        if noted == **binding {
            return Ok(Arc::clone(binding));
        }
        self.manager.context.put(&BINDINGS, noted)
    }

    /// Frees the bindings that no longer are a dependency: their clusters go with the requirement.
    fn detach(&self, key: &BindingKey, kept: &BTreeSet<Dependency>) -> Result<(), Status> {
        let mark = mark(key);
        for object in self.manager.bindings.list() {
            let dependency = Dependency {
                kind: objects::text(&object, "/spec/resource/kind").to_owned(),
                name: objects::text(&object, "/spec/resource/name").to_owned(),
            };
            if label(&object, &mark).is_none() || kept.contains(&dependency) {
                continue;
            }
            let mut freed = (*object).clone();
            objects::remove_entries(&mut freed, "labels", &[&mark]);
            let mut required = read_binding(&object)?.spec.required_by;
            required.retain(|snapshot| !is_of(snapshot, key));
            if required.is_empty() {
                objects::fields(&mut freed["spec"]).shift_remove("requiredBy");
            } else {
                freed["spec"]["requiredBy"] = json!(required);
            }
            self.manager.context.put(&BINDINGS, freed)?;
        }
        Ok(())
    }

    fn attach(
        &self,
        key: &BindingKey,
        object: &Object,
        binding: &ResourceBinding,
        dependency: &Dependency,
    ) -> Result<(), Status> {
        let (context, namespace) = (&self.manager.context, key.namespace.as_deref());
        let template = kinds::resource(&context.control, "v1", &dependency.kind)
            .and_then(|resource| self.manager.templates.get(&resource, namespace, &dependency.name));
        let Some(template) = template else {
            // Its arrival will tell.
            return Ok(());
        };
        let name = binding_name(&dependency.name, &dependency.kind);
        let known = self.manager.bindings.get(namespace, &name);
        let mut attached = match &known {
            Some(known) => (**known).clone(),
            None => fresh(&name, namespace, dependency, &template, binding),
        };
        let (_, id) = binding_id(object);
        objects::set_label(&mut attached, &mark(key), id);
        attached["spec"]["resource"] = json!({
            "apiVersion": "v1", "kind": dependency.kind, "namespace": namespace, "name": dependency.name,
            "uid": objects::uid(&template),
            "resourceVersion": objects::text(&template, "/metadata/resourceVersion"),
        });
        let mut required = read_binding(&attached)?.spec.required_by;
        required.retain(|snapshot| !is_of(snapshot, key));
        required.push(BindingSnapshot {
            namespace: key.namespace.clone().unwrap_or_default(),
            name: key.name.clone(),
            clusters: binding.spec.clusters.clone(),
            ..BindingSnapshot::default()
        });
        attached["spec"]["requiredBy"] = json!(required);
        if attached["spec"]["placement"].is_null() {
            let preserve = binding.spec.preserve_resources_on_deletion.unwrap_or_default();
            attached["spec"]["preserveResourcesOnDeletion"] = json!(preserve);
        }
        match known {
            None => context
                .control
                .create(&BINDINGS, namespace, attached, &context.writer())
                .map(drop),
            Some(known) if attached == *known => Ok(()),
            Some(_) => context.put(&BINDINGS, attached).map(drop),
        }
    }
}

/// Returns a binding of a dependency that no policy propagates: owned by what it is for, without a placement.
fn fresh(
    name: &str,
    namespace: Option<&str>,
    dependency: &Dependency,
    template: &Value,
    required_by: &ResourceBinding,
) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": name, "namespace": namespace, "finalizers": [BINDING_FINALIZER],
            "ownerReferences": [{
                "apiVersion": "v1", "kind": dependency.kind, "name": dependency.name,
                "uid": objects::uid(template), "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "resource": {"apiVersion": "v1", "kind": dependency.kind, "name": dependency.name},
            "conflictResolution": required_by.spec.conflict_resolution,
        },
    })
}

fn is_of(snapshot: &BindingSnapshot, key: &BindingKey) -> bool {
    snapshot.name == key.name && Some(snapshot.namespace.as_str()) == key.namespace.as_deref()
}

/// Returns the label by which attached bindings know the one that requires them.
fn mark(key: &BindingKey) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    format!(
        "{DEPENDED_BY}{}",
        objects::hash(&format!("{namespace}/{}", key.name))
    )
}

/// An object of the core group in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Dependency {
    kind: String,
    name: String,
}

/// Returns nothing for a kind whose dependencies aren't known.
fn of_template(template: &Value) -> Option<BTreeSet<Dependency>> {
    let pod = match template["kind"].as_str() {
        Some("Pod") => "/spec",
        Some("Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job") => "/spec/template/spec",
        Some("CronJob") => "/spec/jobTemplate/spec/template/spec",
        _ => return None,
    };
    Some(template.pointer(pod).map(of_pod).unwrap_or_default())
}

/// Where in a volume, or in a container's environment, a name of which kind stands.
const VOLUME: &[(&str, &str)] = &[
    ("/configMap/name", "ConfigMap"),
    ("/secret/secretName", "Secret"),
    ("/persistentVolumeClaim/claimName", "PersistentVolumeClaim"),
];
const PROJECTED: &[(&str, &str)] = &[("/configMap/name", "ConfigMap"), ("/secret/name", "Secret")];
const ENVIRONMENT: &[(&str, &str)] = &[
    ("/configMapRef/name", "ConfigMap"),
    ("/secretRef/name", "Secret"),
    ("/valueFrom/configMapKeyRef/name", "ConfigMap"),
    ("/valueFrom/secretKeyRef/name", "Secret"),
];

fn of_pod(spec: &Value) -> BTreeSet<Dependency> {
    let mut found = BTreeSet::new();
    let mut look = |value: &Value, places: &[(&str, &str)]| {
        for (pointer, kind) in places {
            let name = objects::text(value, pointer);
            if !name.is_empty() && (*kind, name) != ("ServiceAccount", "default") {
                found.insert(Dependency {
                    kind: (*kind).to_owned(),
                    name: name.to_owned(),
                });
            }
        }
    };
    look(spec, &[("/serviceAccountName", "ServiceAccount")]);
    for secret in list(spec, "/imagePullSecrets") {
        look(secret, &[("/name", "Secret")]);
    }
    for volume in list(spec, "/volumes") {
        look(volume, VOLUME);
        for source in list(volume, "/projected/sources") {
            look(source, PROJECTED);
        }
    }
    for container in list(spec, "/initContainers").chain(list(spec, "/containers")) {
        for variable in list(container, "/env").chain(list(container, "/envFrom")) {
            look(variable, ENVIRONMENT);
        }
    }
    found
}

fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_pod_names_is_a_dependency() {
        let found = of_template(&json!({
            "kind": "CronJob",
            "spec": {"jobTemplate": {"spec": {"template": {"spec": {
                "serviceAccountName": "runner",
                "imagePullSecrets": [{"name": "pull"}],
                "volumes": [
                    {"configMap": {"name": "a"}}, {"secret": {"secretName": "b"}},
                    {"persistentVolumeClaim": {"claimName": "c"}},
                    {"projected": {"sources": [{"configMap": {"name": "d"}}]}}, {"emptyDir": {}},
                ],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "e"}}]}],
                "containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "f", "key": "k"}}}, {"value": "x"}]}],
            }}}}},
        }));
        let found: Vec<String> = found
            .iter()
            .flatten()
            .map(|found| format!("{} {}", found.kind, found.name))
            .collect();
        assert_eq!(
            found,
            [
                "ConfigMap a",
                "ConfigMap d",
                "ConfigMap f",
                "PersistentVolumeClaim c",
                "Secret b",
                "Secret e",
                "Secret pull",
                "ServiceAccount runner",
            ]
        );
    }

    #[test]
    fn a_job_of_flink_has_none_and_the_default_account_is_none() {
        assert!(
            of_template(&json!({"kind": "FlinkDeployment", "spec": {"serviceAccount": "flink"}})).is_none()
        );
        let pod = json!({"kind": "Pod", "spec": {"serviceAccountName": "default"}});
        assert_eq!(of_template(&pod), Some(BTreeSet::new()));
    }
}
