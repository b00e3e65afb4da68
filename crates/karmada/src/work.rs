//! `Work`: what Karmada wants in one member, in that member's execution namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::binding::Health;
use super::{Rest, schema};

#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha1",
    kind = "Work",
    plural = "works",
    singular = "work",
    shortname = "wk",
    category = "karmada-io",
    namespaced,
    status = "WorkStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"WORKLOAD-KIND","type":"string","jsonPath":".spec.workload.manifests[*].kind"}"#,
    printcolumn = r#"{"name":"APPLIED","type":"string","jsonPath":".status.conditions[?(@.type==\"Applied\")].status"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub workload: Workload,
    pub suspend_dispatching: Option<bool>,
    pub preserve_resources_on_deletion: Option<bool>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub manifests: Vec<Value>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_statuses: Vec<ManifestStatus>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestStatus {
    pub identifier: Identifier,
    #[serde(default)]
    #[schemars(schema_with = "schema::object")]
    pub status: Option<Value>,
    pub health: Option<Health>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identifier {
    pub ordinal: i64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub version: String,
    pub kind: String,
    pub resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

impl Work {
    /// Tells whether the controller that writes to the member has seen that it must not: from then on it writes nothing older.
    /// `None`: it hasn't said.
    pub fn is_held(&self) -> Option<bool> {
        let conditions = &self.status.as_ref()?.conditions;
        let condition = conditions
            .iter()
            .find(|condition| condition.type_ == "Dispatching")?;
        Some(condition.status == "False")
    }

    /// Returns the manifest: Karmada puts exactly one into the Work of a binding.
    pub fn manifest(&self) -> Option<&Value> {
        self.spec.workload.manifests.first()
    }

    /// Returns an annotation of the manifest, which is where a marker counts (the Work's own may be stale).
    pub fn manifest_annotation(&self, key: &str) -> Option<&str> {
        self.manifest()?
            .pointer("/metadata/annotations")?
            .get(key)?
            .as_str()
    }
}
