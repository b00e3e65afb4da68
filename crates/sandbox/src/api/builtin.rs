//! The built-in kinds: names, what they are like, their schemas and defaults.
//!
//! The types are those of Kubernetes 1.36 (`builtin/types.json`, made by `builtin/extract.py`). Defaults and checks are
//! those that clients come to see; what only kubelets and controllers care about is left out.

mod defaults;
mod pods;
mod quantity;
pub(super) mod services;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value, json};

use super::schema::{JsonType, Schema};

pub(super) use quantity::canonical;
pub use validation::validate;

/// What raises `metadata.generation` of a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// It has none.
    Never,
    /// A change of the spec.
    Spec,
    /// A change of the spec or of the annotations.
    SpecAndAnnotations,
}

/// One built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Whether it has a scale subresource.
    pub scale: bool,
    pub generation: Generation,
}

impl BuiltIn {
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// Returns the `apiVersion` of objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the name of the type's OpenAPI definition, such as `io.k8s.api.apps.v1.Deployment`.
    pub fn definition(&self) -> String {
        match self.group {
            "apiextensions.k8s.io" => {
                format!(
                    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{}.{}",
                    self.version, self.kind
                )
            }
            "apiregistration.k8s.io" => {
                format!(
                    "io.k8s.kube-aggregator.pkg.apis.apiregistration.{}.{}",
                    self.version, self.kind
                )
            }
            "" => format!("io.k8s.api.core.{}.{}", self.version, self.kind),
            group => {
                let room = group.split('.').next().unwrap_or(group);
                format!("io.k8s.api.{room}.{}.{}", self.version, self.kind)
            }
        }
    }

    /// Returns the schema of the kind's objects, with defaults.
    pub fn schema(&self) -> Arc<Schema> {
        schema_of(&self.definition())
    }

    /// Returns what an object of the kind with nothing in it still has: the parts that Go always writes.
    pub fn blank(&self) -> Value {
        let pods = json!({"metadata": {}, "spec": {"containers": null}});
        match self.plural {
            "deployments" => {
                json!({"spec": {"selector": null, "strategy": {}, "template": pods}, "status": {}})
            }
            "statefulsets" | "daemonsets" => {
                json!({"spec": {"selector": null, "updateStrategy": {}, "template": pods}, "status": {}})
            }
            "replicasets" => json!({"spec": {"selector": null, "template": pods}, "status": {}}),
            "jobs" => json!({"spec": {"template": pods}, "status": {}}),
            "pods" => json!({"spec": {"containers": null}, "status": {}}),
            "services" => json!({"spec": {}, "status": {"loadBalancer": {}}}),
            "persistentvolumeclaims" => json!({"spec": {"resources": {}}, "status": {}}),
            "namespaces" => json!({"spec": {}, "status": {}}),
            "customresourcedefinitions" => {
                json!({"spec": {"names": {}}, "status": {"acceptedNames": {}}})
            }
            _ => json!({}),
        }
    }

    /// Fills in what a real server's defaulting fills in.
    pub fn default(&self, object: &mut Value) {
        defaults::apply(self, object);
    }
}

/// Returns the built-in kind of a group and a plural name.
pub fn by_plural(group: &str, plural: &str) -> Option<&'static BuiltIn> {
    KINDS
        .iter()
        .find(|kind| kind.group == group && kind.plural == plural)
}

/// Returns the built-in kind of a group and a kind.
pub fn by_kind(group: &str, kind: &str) -> Option<&'static BuiltIn> {
    KINDS
        .iter()
        .find(|candidate| candidate.group == group && candidate.kind == kind)
}

/// Returns the schema of `metadata`.
pub fn object_meta() -> Arc<Schema> {
    schema_of(OBJECT_META)
}

pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Returns the OpenAPI v2 definitions of all built-in types by name.
pub fn definitions() -> &'static Map<String, Value> {
    static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
        // Part of the program: a test reads it.
        serde_json::from_str(include_str!("builtin/types.json")).unwrap_or_default()
    });
    &DEFINITIONS
}

/// Returns the parsed schema of a definition; one that doesn't exist keeps anything.
pub fn schema_of(definition: &str) -> Arc<Schema> {
    static SCHEMAS: OnceLock<BTreeMap<String, Arc<Schema>>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| {
        let mut parsing = Parsing::default();
        for name in definitions().keys() {
            parsing.resolve(name);
        }
        parsing.done
    });
    schemas.get(definition).map_or_else(anything, Arc::clone)
}

fn anything() -> Arc<Schema> {
    Arc::new(Schema {
        kind: Some(JsonType::Object),
        preserve_unknown: true,
        nullable: true,
        ..Schema::default()
    })
}

#[derive(Default)]
struct Parsing {
    done: BTreeMap<String, Arc<Schema>>,
    /// Types that are being parsed: one that holds itself keeps anything there.
    open: BTreeSet<String>,
}

impl Parsing {
    fn resolve(&mut self, name: &str) -> Arc<Schema> {
        if let Some(schema) = self.done.get(name) {
            return Arc::clone(schema);
        }
        let Some(source) = definitions().get(name) else {
            return Arc::new(Schema::default());
        };
        if !self.open.insert(name.to_owned()) {
            return Arc::new(Schema {
                preserve_unknown: true,
                nullable: true,
                ..Schema::default()
            });
        }
        let source = with_defaults(name, source);
        let schema = Arc::new(super::schema::definition(name, &source, &mut |name| {
            self.resolve(name)
        }));
        self.open.remove(name);
        self.done.insert(name.to_owned(), Arc::clone(&schema));
        schema
    }
}

fn with_defaults(name: &str, source: &Value) -> Value {
    let mut source = source.clone();
    let short = name.trim_start_matches("io.k8s.api.");
    for (definition, property, value) in defaults::TABLE {
        if *definition == short
            && let Some(property) = source.pointer_mut(&format!("/properties/{property}"))
            && let Ok(value) = serde_json::from_str(value)
        {
            property["default"] = value;
        }
    }
    for (definition, fields) in defaults::OMITTED_WHEN_ZERO {
        for field in fields.iter().filter(|_| *definition == short) {
            if let Some(property) = source.pointer_mut(&format!("/properties/{field}")) {
                property[super::schema::OMIT_ZERO] = true.into();
            }
        }
    }
    if name.ends_with(".JSONSchemaProps") {
        source = json!({"x-kubernetes-preserve-unknown-fields": true});
    }
    source
}

const NONE: &[&str] = &[];
const ALL: &[&str] = &["all"];
const EXTENSIONS: &[&str] = &["api-extensions"];

#[rustfmt::skip]
const fn kind(
    group: &'static str, version: &'static str, kind: &'static str, plural: &'static str,
    short_names: &'static [&'static str],
) -> BuiltIn {
    BuiltIn {
        group, version, kind, plural, short_names, categories: NONE, namespaced: true, status: false, scale: false,
        generation: Generation::Never,
    }
}

impl BuiltIn {
    const fn cluster_wide(self) -> Self {
        Self {
            namespaced: false,
            ..self
        }
    }

    const fn with_status(self) -> Self {
        Self { status: true, ..self }
    }

    const fn with_generation(self) -> Self {
        Self {
            generation: Generation::Spec,
            ..self
        }
    }

    const fn in_all(self) -> Self {
        Self {
            categories: ALL,
            ..self
        }
    }

    const fn scalable(self) -> Self {
        Self { scale: true, ..self }
    }
}

/// Every built-in kind that is served.
#[rustfmt::skip]
pub const KINDS: &[BuiltIn] = &[
    kind("", "v1", "Namespace", "namespaces", &["ns"]).cluster_wide().with_status(),
    kind("", "v1", "ConfigMap", "configmaps", &["cm"]),
    kind("", "v1", "Secret", "secrets", NONE),
    kind("", "v1", "Service", "services", &["svc"]).with_status().in_all(),
    kind("", "v1", "ServiceAccount", "serviceaccounts", &["sa"]),
    kind("", "v1", "Pod", "pods", &["po"]).with_status().with_generation().in_all(),
    kind("", "v1", "Node", "nodes", &["no"]).cluster_wide().with_status(),
    kind("", "v1", "Event", "events", &["ev"]),
    kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"]).with_status(),
    kind("", "v1", "PersistentVolume", "persistentvolumes", &["pv"]).cluster_wide().with_status(),
    kind("", "v1", "Endpoints", "endpoints", &["ep"]),
    kind("", "v1", "LimitRange", "limitranges", &["limits"]),
    kind("", "v1", "ResourceQuota", "resourcequotas", &["quota"]).with_status(),
    BuiltIn {
        generation: Generation::SpecAndAnnotations,
        ..kind("apps", "v1", "Deployment", "deployments", &["deploy"]).with_status().in_all().scalable()
    },
    kind("apps", "v1", "StatefulSet", "statefulsets", &["sts"]).with_status().with_generation().in_all().scalable(),
    kind("apps", "v1", "DaemonSet", "daemonsets", &["ds"]).with_status().with_generation().in_all(),
    kind("apps", "v1", "ReplicaSet", "replicasets", &["rs"]).with_status().with_generation().in_all().scalable(),
    kind("apps", "v1", "ControllerRevision", "controllerrevisions", NONE),
    kind("batch", "v1", "Job", "jobs", NONE).with_status().with_generation().in_all(),
    kind("batch", "v1", "CronJob", "cronjobs", &["cj"]).with_status().with_generation().in_all(),
    kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"]).with_status().in_all(),
    kind("networking.k8s.io", "v1", "Ingress", "ingresses", &["ing"]).with_status().with_generation(),
    kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", NONE).cluster_wide().with_generation(),
    kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", &["netpol"]).with_generation(),
    kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"]).with_status().with_generation(),
    kind("coordination.k8s.io", "v1", "Lease", "leases", NONE),
    kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", NONE).with_generation(),
    kind("rbac.authorization.k8s.io", "v1", "Role", "roles", NONE),
    kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", NONE),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", NONE).cluster_wide(),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", NONE).cluster_wide(),
    kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", &["sc"]).cluster_wide(),
    kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", &["pc"]).cluster_wide().with_generation(),
    kind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", NONE)
        .cluster_wide().with_generation(),
    kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", NONE)
        .cluster_wide().with_generation(),
    BuiltIn {
        categories: EXTENSIONS,
        ..kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", NONE)
            .cluster_wide().with_status().with_generation()
    },
    BuiltIn {
        categories: EXTENSIONS,
        ..kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings", NONE).cluster_wide().with_generation()
    },
    BuiltIn {
        categories: EXTENSIONS,
        ..kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"])
            .cluster_wide().with_status().with_generation()
    },
    BuiltIn {
        categories: EXTENSIONS,
        ..kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", NONE).cluster_wide().with_status()
    },
];

#[cfg(test)]
mod tests {
    use super::super::schema::ListType;
    use super::*;

    #[test]
    fn every_kind_has_a_definition_with_its_group_version_and_kind() {
        for kind in KINDS {
            let definition = definitions()
                .get(&kind.definition())
                .unwrap_or_else(|| panic!("{}", kind.definition()));
            let served = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
            let known = definition["x-kubernetes-group-version-kind"].as_array().unwrap();
            assert!(known.contains(&served), "{}", kind.definition());
            assert!(
                kind.schema().properties.contains_key("metadata"),
                "{}",
                kind.definition()
            );
        }
    }

    #[test]
    fn every_default_names_a_property() {
        for (definition, property, value) in defaults::TABLE {
            let pointer = format!("/io.k8s.api.{definition}/properties/{property}");
            let all = Value::Object(definitions().clone());
            assert!(all.pointer(&pointer).is_some(), "{definition}.{property}");
            assert!(
                serde_json::from_str::<Value>(value).is_ok(),
                "{definition}.{property}: {value}"
            );
        }
    }

    #[test]
    fn lists_know_their_keys() {
        let deployment = by_plural("apps", "deployments").unwrap().schema();
        let pod = &deployment.properties["spec"].properties["template"].properties["spec"];
        let keys = |name: &str| pod.properties[name].list.clone();
        assert_eq!(keys("containers"), ListType::Map(vec!["name".to_owned()]));
        assert_eq!(keys("tolerations"), ListType::Atomic);
        let container = pod.properties["containers"].items.as_ref().unwrap();
        assert_eq!(
            container.properties["ports"].list,
            ListType::Map(vec!["containerPort".to_owned(), "protocol".to_owned()])
        );
        assert_eq!(object_meta().properties["finalizers"].list, ListType::Set);
    }
}
