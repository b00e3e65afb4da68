//! An object as kube's watcher wants it, packed, and as little of it as was asked for.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicResourceScope;
use kube::discovery::ApiResource;
use serde::{Deserialize, Deserializer};

use cutover_base::packed::{Packed, Part, View};

/// What is kept of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub managed_fields: KeepManagedFields,
    pub status: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepManagedFields {
    None,
    /// Of every manager.
    All,
}

impl Keep {
    pub const ALL: Self = Self {
        managed_fields: KeepManagedFields::All,
        status: true,
    };

    /// Returns what covers both.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            managed_fields: self.managed_fields.max(other.managed_fields),
            status: self.status || other.status,
        }
    }

    /// Returns what is kept of an object. What managers own in subresources is no decision's concern.
    pub(super) fn of(self, object: &Packed) -> Packed {
        object.sifted(|path, part| match path {
            ["status"] if !self.status => Part::Drop,
            ["metadata"] => Part::Sift,
            ["metadata", "managedFields"] => match self.managed_fields {
                KeepManagedFields::None => Part::Drop,
                KeepManagedFields::All => Part::Sift,
            },
            ["metadata", "managedFields", "*"] => {
                let subresource = part.get("subresource").and_then(View::as_str);
                if subresource.is_none_or(str::is_empty) {
                    Part::Keep
                } else {
                    Part::Drop
                }
            }
            _ => Part::Keep,
        })
    }
}

/// Returns what [`Form::Health`] keeps of a binding.
pub(super) fn health(object: &Packed) -> Packed {
    object.sifted(|path, _| match path {
        ["metadata", "managedFields" | "annotations"]
        | ["spec", "placement"]
        | ["status", "aggregatedStatus", "*", "status"] => Part::Drop,
        ["metadata" | "spec" | "status"]
        | ["status", "aggregatedStatus"]
        | ["status", "aggregatedStatus", "*"] => Part::Sift,
        _ => Part::Keep,
    })
}

/// In which form the objects of a kind are kept; the later one serves for the earlier too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Only who there is, and at which version: for what wakes somebody and is never looked at.
    Version,
    /// Of a binding, where its copies are and how they fare, packed: not what members say of them, nor how they were placed.
    Health,
    /// Packed, and unpacked for each look.
    Packed,
    /// As trees, which take twenty times as much: for the few that are looked at all the time.
    Tree,
}

/// An object that is only packed, with the metadata that the watcher looks at.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    meta: ObjectMeta,
    pub(super) content: Packed,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let content = Packed::deserialize(deserializer)?;
        let metadata = content.view().get("metadata");
        let text = |field: &str| metadata?.get(field)?.as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, content })
    }
}

impl kube::Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.version)
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.api_version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
