//! `ResourceBinding` and `ClusterResourceBinding`: where one template is, and where it is going.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::placement::Placement;
use super::policy::{DispatchSuspension, Failover, PurgeMode, abort};
use super::{Rest, meta, schema};
use crate::name::ClusterName;

#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ResourceBinding",
    plural = "resourcebindings",
    singular = "resourcebinding",
    shortname = "rb",
    category = "karmada-io",
    namespaced,
    status = "ResourceBindingStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"SCHEDULED","type":"string","jsonPath":".status.conditions[?(@.type==\"Scheduled\")].status"}"#,
    printcolumn = r#"{"name":"FULLYAPPLIED","type":"string","jsonPath":".status.conditions[?(@.type==\"FullyApplied\")].status"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    pub resource: ObjectReference,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub propagate_deps: bool,
    /// The replicas of the template.
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub replicas: i32,
    /// The clusters in use; an atomic list. Works are written in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    pub placement: Option<Placement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<EvictionTask>,
    /// The bindings that this one follows as a dependency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    pub failover: Option<Failover>,
    #[serde(default = "abort", skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["Abort", "Overwrite"]))]
    pub conflict_resolution: String,
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub reschedule_triggered_at: Option<Time>,
    pub suspension: Option<Suspension>,
    pub preserve_resources_on_deletion: Option<bool>,
    #[serde(flatten)]
    #[schemars(schema_with = "schema::more_of_binding")]
    pub rest: Rest,
}

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ClusterResourceBinding",
    plural = "clusterresourcebindings",
    singular = "clusterresourcebinding",
    shortname = "crb",
    category = "karmada-io",
    status = "ResourceBindingStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"SCHEDULED","type":"string","jsonPath":".status.conditions[?(@.type==\"Scheduled\")].status"}"#,
    printcolumn = r#"{"name":"FULLYAPPLIED","type":"string","jsonPath":".status.conditions[?(@.type==\"FullyApplied\")].status"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct ClusterResourceBindingSpec {
    #[serde(flatten)]
    pub spec: ResourceBindingSpec,
}

impl Deref for ClusterResourceBindingSpec {
    type Target = ResourceBindingSpec;

    fn deref(&self) -> &ResourceBindingSpec {
        &self.spec
    }
}

impl From<ClusterResourceBinding> for ResourceBinding {
    /// The same binding, told apart only by having no namespace: both kinds have the same fields.
    fn from(binding: ClusterResourceBinding) -> Self {
        Self {
            metadata: binding.metadata,
            spec: binding.spec.spec,
            status: binding.status,
        }
    }
}

impl DerefMut for ClusterResourceBindingSpec {
    fn deref_mut(&mut self) -> &mut ResourceBindingSpec {
        &mut self.spec
    }
}

/// The template that a binding is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetCluster {
    pub name: ClusterName,
    /// Zero is not written; so a cluster without it gets zero when the template has replicas.
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub replicas: i32,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// A cluster that the workload leaves, and how.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionTask {
    pub from_cluster: ClusterName,
    pub purge_mode: Option<PurgeMode>,
    pub replicas: Option<i32>,
    #[schemars(
        length(min = 1, max = 32),
        regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    pub producer: String,
    pub grace_period_seconds: Option<i32>,
    pub suppress_deletion: Option<bool>,
    /// The state that goes into labels of the new copy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    #[serde(default)]
    #[schemars(schema_with = "schema::time")]
    pub creation_timestamp: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<ClusterName>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BindingSnapshot {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// `scheduling` is the caller's own; the detector overwrites only the dispatching part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspension {
    #[serde(flatten)]
    pub dispatch: DispatchSuspension,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// Stays one behind for ever when idle: no proof that the scheduler is done.
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub scheduler_observed_generation: i64,
    /// The group of `clusterAffinities` in use.
    #[serde(
        rename = "schedulerObservingAffinityName",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub scheduler_observed_affinity_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scheduled_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatus>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatus {
    pub cluster_name: ClusterName,
    #[serde(default)]
    #[schemars(schema_with = "schema::object")]
    pub status: Option<Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub applied_message: String,
    pub health: Option<Health>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// What Karmada's interpreter says of a member object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Health {
    Healthy,
    Unhealthy,
    Unknown,
}

impl ResourceBinding {
    /// Returns the placement that the scheduler used last; `None`: it has used none, or what is noted of it can't be read.
    pub fn applied_placement(&self) -> Option<Placement> {
        let annotations = self.metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(meta::APPLIED_PLACEMENT)?).ok()
    }

    /// Returns the placement by which Karmada's taint manager evicts: the one that was used last.
    pub fn placement_for_taints(&self) -> Placement {
        let applied = self.applied_placement();
        applied
            .or_else(|| self.spec.placement.clone())
            .unwrap_or_default()
    }
}

impl ResourceBindingSpec {
    /// Tells whether the scheduler is told to leave the binding alone.
    pub fn scheduling_suspended(&self) -> bool {
        self.suspension
            .as_ref()
            .and_then(|suspension| suspension.scheduling)
            == Some(true)
    }

    /// Tells whether changes for a cluster are kept back.
    pub fn dispatching_suspended(&self, cluster: &str) -> bool {
        self.suspension
            .as_ref()
            .is_some_and(|suspension| suspension.dispatch.covers(cluster))
    }

    /// Returns the clusters that Karmada computes Works for: `clusters`, then those of `requiredBy`.
    pub fn synced_clusters(&self) -> Vec<TargetCluster> {
        let mut synced = self.clusters.clone();
        for cluster in self.required_by.iter().flat_map(|snapshot| &snapshot.clusters) {
            if !synced.iter().any(|known| known.name == cluster.name) {
                synced.push(cluster.clone());
            }
        }
        synced
    }
}
