//! `OverridePolicy` and `ClusterOverridePolicy`: what differs in a cluster.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::affinity::ClusterAffinity;
use super::selector::ResourceSelector;
use super::{Rest, schema};

#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "OverridePolicy",
    plural = "overridepolicies",
    singular = "overridepolicy",
    shortname = "op",
    category = "karmada-io",
    namespaced,
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// None at all: every object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<OverrideRule>,
    /// The deprecated form of a single rule, read only without `overrideRules`.
    pub target_cluster: Option<ClusterAffinity>,
    pub overriders: Option<Overriders>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "ClusterOverridePolicy",
    plural = "clusteroverridepolicies",
    singular = "clusteroverridepolicy",
    shortname = "cop",
    category = "karmada-io",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct ClusterOverridePolicySpec {
    #[serde(flatten)]
    pub spec: OverrideSpec,
}

impl Deref for ClusterOverridePolicySpec {
    type Target = OverrideSpec;

    fn deref(&self) -> &OverrideSpec {
        &self.spec
    }
}

impl From<ClusterOverridePolicy> for OverridePolicy {
    /// The same policy, told apart only by having no namespace: both kinds have the same fields.
    fn from(policy: ClusterOverridePolicy) -> Self {
        Self {
            metadata: policy.metadata,
            spec: policy.spec.spec,
        }
    }
}

impl DerefMut for ClusterOverridePolicySpec {
    fn deref_mut(&mut self) -> &mut OverrideSpec {
        &mut self.spec
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// None: every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    pub overriders: Overriders,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// Applied in this order: image, command, args, labels, annotations, fields, plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandOverrider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandOverrider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<MapOverrider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<MapOverrider>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    #[default]
    Add,
    Remove,
    Replace,
}

/// One operation of a JSON patch on the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaintextOverrider {
    pub path: String,
    pub operator: Operator,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "schema::any")]
    pub value: Value,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageOverrider {
    /// None: every container of the kinds that Karmada knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    pub component: ImageComponent,
    pub operator: Operator,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImagePredicate {
    pub path: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImageComponent {
    Registry,
    Repository,
    Tag,
}

/// Adds to or removes from a container's `command` or `args`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandOverrider {
    pub container_name: String,
    #[schemars(extend("enum" = ["add", "remove"]))]
    pub operator: Operator,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// Changes labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapOverrider {
    pub operator: Operator,
    pub value: BTreeMap<String, String>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// Patches a document that stands as text in a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    pub field_path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<PatchOperation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<PatchOperation>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchOperation {
    pub sub_path: String,
    pub operator: Operator,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "schema::any")]
    pub value: Value,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}
