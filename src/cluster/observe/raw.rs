//! An object as kube's watcher wants it, and as little of it as was asked for.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicResourceScope;
use kube::discovery::ApiResource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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

    /// Drops what isn't kept.
    pub(super) fn prune(self, object: &mut Value) {
        if self.managed_fields == KeepManagedFields::None
            && let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            meta.shift_remove("managedFields");
        }
        if !self.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.shift_remove("status");
        }
    }
}

/// The JSON of an object, with the metadata that the watcher looks at.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    meta: ObjectMeta,
    pub(super) value: Value,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = |field: &str| value["metadata"][field].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, value })
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
