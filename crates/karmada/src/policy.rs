//! `PropagationPolicy` and `ClusterPropagationPolicy`: which templates go to which clusters.

use std::ops::{Deref, DerefMut};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::placement::Placement;
use super::selector::ResourceSelector;
use super::{Rest, schema};
use crate::name::ClusterName;

#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "PropagationPolicy",
    plural = "propagationpolicies",
    singular = "propagationpolicy",
    shortname = "pp",
    category = "karmada-io",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"CONFLICT-RESOLUTION","type":"string","jsonPath":".spec.conflictResolution"}"#,
    printcolumn = r#"{"name":"PRIORITY","type":"string","jsonPath":".spec.priority"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    #[schemars(length(min = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub propagate_deps: bool,
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub placement: Placement,
    #[serde(default = "zero")]
    pub priority: i32,
    /// `Always` or `Never`.
    #[serde(default = "never")]
    #[schemars(extend("enum" = ["Always", "Never"]))]
    pub preemption: String,
    #[serde(default = "default_scheduler")]
    pub scheduler_name: String,
    pub failover: Option<Failover>,
    /// `Abort` or `Overwrite`.
    #[serde(default = "abort")]
    #[schemars(extend("enum" = ["Abort", "Overwrite"]))]
    pub conflict_resolution: String,
    /// `Lazy`: changes of the policy wait for the next change of the template.
    #[schemars(extend("enum" = ["Lazy"]))]
    pub activation_preference: Option<String>,
    pub suspension: Option<DispatchSuspension>,
    pub preserve_resources_on_deletion: Option<bool>,
    #[serde(flatten)]
    #[schemars(schema_with = "schema::more_of_propagation")]
    pub rest: Rest,
}

/// The published CRD's defaults: the API server fills them in, so a policy read back has them.
const fn zero() -> i32 {
    0
}

fn never() -> String {
    "Never".to_owned()
}

pub(super) fn abort() -> String {
    "Abort".to_owned()
}

/// The scheduler of Karmada, which an empty name means, too.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

fn default_scheduler() -> String {
    DEFAULT_SCHEDULER.to_owned()
}

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "ClusterPropagationPolicy",
    plural = "clusterpropagationpolicies",
    singular = "clusterpropagationpolicy",
    shortname = "cpp",
    category = "karmada-io",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"CONFLICT-RESOLUTION","type":"string","jsonPath":".spec.conflictResolution"}"#,
    printcolumn = r#"{"name":"PRIORITY","type":"string","jsonPath":".spec.priority"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct ClusterPropagationPolicySpec {
    #[serde(flatten)]
    pub spec: PropagationSpec,
}

impl Deref for ClusterPropagationPolicySpec {
    type Target = PropagationSpec;

    fn deref(&self) -> &PropagationSpec {
        &self.spec
    }
}

impl DerefMut for ClusterPropagationPolicySpec {
    fn deref_mut(&mut self) -> &mut PropagationSpec {
        &mut self.spec
    }
}

impl From<ClusterPropagationPolicy> for PropagationPolicy {
    /// The same policy, told apart only by having no namespace: both kinds have the same fields.
    fn from(policy: ClusterPropagationPolicy) -> Self {
        Self {
            metadata: policy.metadata,
            spec: policy.spec.spec,
        }
    }
}

/// The part of a suspension that policies and bindings share: what is decided still reaches the members, or not.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchSuspension {
    pub dispatching: Option<bool>,
    pub dispatching_on_clusters: Option<SuspendedClusters>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendedClusters {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<ClusterName>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

impl DispatchSuspension {
    /// Tells whether the changes for a cluster are kept back.
    pub fn covers(&self, cluster: &str) -> bool {
        self.dispatching == Some(true)
            || self
                .dispatching_on_clusters
                .iter()
                .flat_map(|clusters| &clusters.cluster_names)
                .any(|name| name.as_str() == cluster)
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failover {
    pub application: Option<ApplicationFailover>,
    pub cluster: Option<ClusterFailover>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationFailover {
    pub decision_conditions: DecisionConditions,
    #[serde(default = "gracefully")]
    pub purge_mode: PurgeMode,
    pub grace_period_seconds: Option<i32>,
    pub state_preservation: Option<StatePreservation>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

const fn gracefully() -> PurgeMode {
    PurgeMode::Gracefully
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailover {
    #[serde(default = "gracefully")]
    #[schemars(schema_with = "schema::purge_mode_of_clusters")]
    pub purge_mode: PurgeMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    #[serde(default = "five_minutes")]
    pub toleration_seconds: i32,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

const fn five_minutes() -> i32 {
    300
}

impl Default for DecisionConditions {
    fn default() -> Self {
        Self {
            toleration_seconds: five_minutes(),
            rest: Rest::new(),
        }
    }
}

/// What happens to the old copy when a workload is evicted from a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PurgeMode {
    /// The old name of `Directly`.
    Immediately,
    /// The old name of `Gracefully`.
    Graciously,
    /// Nobody deletes it until somebody confirms.
    Never,
    /// Deleted at once; only so is state injected into the new copy.
    Directly,
    /// Deleted when the new copy is healthy, or the grace period is over.
    #[default]
    Gracefully,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatePreservation {
    pub rules: Vec<StateRule>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateRule {
    #[serde(rename = "aliasLabelName")]
    pub alias_label_name: String,
    /// Over the aggregated *status* of the member object.
    #[serde(rename = "jsonPath")]
    pub json_path: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}
