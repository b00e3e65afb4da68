//! The kinds that a server serves: the built-in ones, and those that CRDs define.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::Rules;
use super::{Object, Resource};

pub const NAMESPACES: Resource = Resource::new("", "namespaces");
pub const SERVICES: Resource = Resource::new("", "services");
pub const CRDS: Resource = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");

/// What raises `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// A change outside of metadata and status.
    Content,
    /// A change outside of metadata: custom resources, which can't change their status where it has an endpoint.
    ContentAndStatus,
    /// A change of the spec or of the annotations: Deployments.
    ContentAndAnnotations,
}

/// One served kind.
#[derive(Debug)]
pub struct Kind {
    pub resource: Resource,
    pub kind: String,
    pub list_kind: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Whether a CRD defines it.
    pub custom: bool,
    pub generation: Generation,
    /// Whether an update of what isn't there creates it.
    pub created_by_update: bool,
    /// Whether an update without a resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    /// In the order of preference.
    pub versions: Vec<Version>,
}

/// One version of a kind.
#[derive(Debug)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub status: bool,
    pub scale: Option<ScalePaths>,
    pub rules: Rules,
}

/// Where the scale subresource finds its numbers: JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

impl Kind {
    pub fn group(&self) -> &str {
        &self.resource.group
    }

    /// Returns the version in which objects are kept.
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Returns a version that clients may use.
    pub fn served(&self, name: &str) -> Option<&Version> {
        self.versions
            .iter()
            .find(|version| version.served && version.name == name)
    }

    /// Returns the `apiVersion` of objects in a version.
    pub fn api_version(&self, version: &Version) -> String {
        api_version(self.group(), &version.name)
    }
}

/// Returns `group/version`, or the version alone for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// The kinds by resource.
#[derive(Debug, Default)]
pub struct Registry {
    kinds: BTreeMap<Resource, Arc<Kind>>,
}

impl Registry {
    /// Returns the kinds that every server has.
    pub fn built_in() -> Self {
        let kinds = super::rules::built_in_kinds();
        Self {
            kinds: kinds
                .into_iter()
                .map(|kind| (kind.resource.clone(), Arc::new(kind)))
                .collect(),
        }
    }

    pub fn kind(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.kinds.get(resource).map(Arc::clone)
    }

    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }

    pub fn install(&mut self, kind: Kind) {
        self.kinds.insert(kind.resource.clone(), Arc::new(kind));
    }

    pub fn remove(&mut self, resource: &Resource) {
        self.kinds.remove(resource);
    }
}

/// Returns an object as a version of its kind shows it; sandbox kinds convert by name alone, as the strategy
/// `None` of CRDs does.
pub fn convert(kind: &Kind, object: &Object, version: &str) -> Object {
    let wanted = api_version(kind.group(), version);
    if object["apiVersion"] == wanted.as_str() {
        return Arc::clone(object);
    }
    let mut converted = (**object).clone();
    if let Some(fields) = converted.as_object_mut() {
        fields.insert("apiVersion".to_owned(), wanted.into());
    }
    Arc::new(converted)
}
