//! Where the verbs meet the pure rules: schemas, patches, field ownership, selectors.

#![allow(clippy::unnecessary_wraps, clippy::type_complexity)]

use jiff::Timestamp;
use serde_json::{Value, json};

use super::registry::{Generation, Kind, ScalePaths, Version};
use super::status::{Cause, Status};
use super::{Patch, Resource, Subresource, metadata};

/// What the schema of one version of a kind says.
#[derive(Debug, Default)]
pub struct Rules {}

/// Who comes to own the fields of a write.
#[allow(dead_code, reason = "ownership is recorded once apply lands")]
#[derive(Clone, Debug)]
pub(super) struct Ownership {
    pub manager: String,
    pub api_version: String,
    pub subresource: Option<Subresource>,
}

/// What an apply has decided about the ownership of fields.
#[derive(Debug)]
pub(super) struct Applied {}

impl Applied {
    #[allow(clippy::unused_self)]
    pub(super) fn record(self, _body: &mut Value, _now: Timestamp) {}
}

impl Rules {
    pub(super) fn of_crd_version(_version: &Value, _field: &str) -> Result<Self, Vec<Cause>> {
        Ok(Self {})
    }
}

const SCALABLE: &[&str] = &["deployments", "replicasets", "statefulsets"];

/// Group, version, kind, plural, short names, namespaced, status, generation.
#[rustfmt::skip]
const BUILT_IN: &[(&str, &str, &str, &str, &[&str], bool, bool, Generation)] = &[
    ("", "v1", "Namespace", "namespaces", &["ns"], false, true, Generation::None),
    ("", "v1", "ConfigMap", "configmaps", &["cm"], true, false, Generation::None),
    ("", "v1", "Secret", "secrets", &[], true, false, Generation::None),
    ("", "v1", "Service", "services", &["svc"], true, true, Generation::None),
    ("", "v1", "ServiceAccount", "serviceaccounts", &["sa"], true, false, Generation::None),
    ("", "v1", "Pod", "pods", &["po"], true, true, Generation::Content),
    ("", "v1", "Node", "nodes", &["no"], false, true, Generation::None),
    ("", "v1", "Event", "events", &["ev"], true, false, Generation::None),
    ("apps", "v1", "Deployment", "deployments", &["deploy"], true, true, Generation::ContentAndAnnotations),
    ("apps", "v1", "StatefulSet", "statefulsets", &["sts"], true, true, Generation::Content),
    ("apps", "v1", "ReplicaSet", "replicasets", &["rs"], true, true, Generation::Content),
    ("coordination.k8s.io", "v1", "Lease", "leases", &[], true, false, Generation::None),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"], false, true, Generation::Content),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", &[], true, false, Generation::None),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", &[], true, false, Generation::None),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", &[], false, false, Generation::None),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", &[], false, false, Generation::None),
];

pub(super) fn built_in_kinds() -> Vec<Kind> {
    BUILT_IN
        .iter()
        .map(
            |&(group, version, kind, plural, short_names, namespaced, status, generation)| Kind {
                resource: Resource::new(group, plural),
                kind: kind.to_owned(),
                list_kind: format!("{kind}List"),
                singular: kind.to_lowercase(),
                short_names: short_names.iter().map(|name| (*name).to_owned()).collect(),
                categories: Vec::new(),
                namespaced,
                custom: false,
                generation,
                unconditional_update: !matches!(plural, "leases" | "customresourcedefinitions"),
                versions: vec![Version {
                    name: version.to_owned(),
                    served: true,
                    storage: true,
                    status,
                    scale: SCALABLE.contains(&plural).then(|| ScalePaths {
                        spec_replicas: "/spec/replicas".to_owned(),
                        status_replicas: "/status/replicas".to_owned(),
                        selector: Some("/spec/selector".to_owned()),
                    }),
                    rules: Rules::default(),
                }],
            },
        )
        .collect()
}

/// Which objects a list or a watch is about.
#[derive(Debug)]
pub(super) struct Selection {
    namespace: Option<String>,
    terms: Vec<(String, Option<String>, bool)>,
    fields: Vec<(String, String, bool)>,
}

impl Selection {
    pub(super) fn parse(
        _kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Status> {
        let split = |text: &str| -> Vec<(String, Option<String>, bool)> {
            text.split(',')
                .map(str::trim)
                .filter(|term| !term.is_empty())
                .map(|term| {
                    match (
                        term.split_once("!="),
                        term.split_once('='),
                        term.strip_prefix('!'),
                    ) {
                        (Some((name, value)), _, _) => (name.to_owned(), Some(value.to_owned()), false),
                        (_, Some((name, value)), _) => (
                            name.to_owned(),
                            Some(value.trim_start_matches('=').to_owned()),
                            true,
                        ),
                        (_, _, Some(name)) => (name.to_owned(), None, false),
                        _ => (term.to_owned(), None, true),
                    }
                })
                .collect()
        };
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            terms: split(labels),
            fields: split(fields)
                .into_iter()
                .map(|(name, value, equal)| (name, value.unwrap_or_default(), equal))
                .collect(),
        })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let in_namespace = self
            .namespace
            .as_ref()
            .is_none_or(|namespace| metadata::text(object, "namespace") == namespace);
        let labels = self.terms.iter().all(|(name, value, wanted)| {
            let label = object["metadata"]["labels"].get(name).and_then(Value::as_str);
            let holds = match value {
                Some(value) => label == Some(value),
                None => label.is_some(),
            };
            holds == *wanted
        });
        let fields = self.fields.iter().all(|(path, value, equal)| {
            let pointer = format!("/{}", path.replace('.', "/"));
            (object
                .pointer(&pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                == value)
                == *equal
        });
        in_namespace && labels && fields
    }

    pub(super) fn is_everything(&self) -> bool {
        self.terms.is_empty() && self.fields.is_empty()
    }
}

pub(super) fn prune(_kind: &Kind, _version: &Version, _body: &mut Value) -> Result<Vec<String>, Status> {
    Ok(Vec::new())
}

pub(super) fn default(_kind: &Kind, _version: &Version, _body: &mut Value) {}

pub(super) fn own(
    _kind: &Kind,
    _version: &Version,
    _old: Option<&Value>,
    _body: &mut Value,
    _ownership: Ownership,
    _now: Timestamp,
) {
}

pub(super) fn validate(kind: &Kind, _version: &Version, body: &Value, _old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if metadata::name(body).is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    }
    if kind.resource == super::registry::CRDS {
        causes.extend(super::crd::validate(body));
    }
    causes
}

pub(super) fn apply(
    _kind: &Kind,
    _version: &Version,
    _live: Option<&Value>,
    _configuration: &Value,
    _ownership: Ownership,
    _force: bool,
) -> Result<(Value, Applied), Status> {
    Err(Status::unsupported_media_type(&[
        "application/json-patch+json",
        "application/merge-patch+json",
    ]))
}

/// Returns an object as a patch changes it.
pub(super) fn patch(of: Option<(&Kind, &Version)>, object: &Value, patch: &Patch) -> Result<Value, Status> {
    let _ = of;
    let mut patched = object.clone();
    match patch {
        Patch::Json(operations) => {
            let operations: json_patch::Patch = serde_json::from_value(operations.clone())
                .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
            json_patch::patch(&mut patched, &operations).map_err(|_| Status::patch_failed())?;
        }
        Patch::Merge(change) if change.is_object() => json_patch::merge(&mut patched, change),
        Patch::Merge(change) => {
            return Err(Status::bad_request(format!(
                "error decoding patch: {change} is not an object"
            )));
        }
        Patch::Strategic(_) | Patch::Apply(_) => {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
            ]));
        }
    }
    if patched["metadata"].is_null() {
        patched["metadata"] = json!({});
    }
    Ok(patched)
}
