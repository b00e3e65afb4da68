//! `Cluster`: a member of a Karmada control plane.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Rest, meta, schema};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "Cluster",
    plural = "clusters",
    singular = "cluster",
    category = "karmada-io",
    status = "ClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"VERSION","type":"string","jsonPath":".status.kubernetesVersion"}"#,
    printcolumn = r#"{"name":"MODE","type":"string","jsonPath":".spec.syncMode"}"#,
    printcolumn = r#"{"name":"READY","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// The uid of the member's `kube-system` namespace: another one means another cluster under the same name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub sync_mode: SyncMode,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_endpoint: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncMode {
    #[default]
    Push,
    Pull,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub time_added: Option<Time>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    /// The kinds that the member serves; what it doesn't serve can't be scheduled there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_enablements: Vec<ApiEnablement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    #[serde(flatten)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiEnablement {
    pub group_version: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ApiResource>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApiResource {
    pub name: String,
    pub kind: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

impl Cluster {
    /// Tells whether the member's `Ready` condition says so.
    pub fn is_ready(&self) -> bool {
        self.status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// Tells whether a person keeps new work away from it, as `kubectl karmada cordon` does.
    pub fn is_cordoned(&self) -> bool {
        let mut taints = self.spec.taints.iter();
        taints.any(|taint| taint.key == meta::TAINT_UNSCHEDULABLE && taint.effect == "NoSchedule")
    }

    /// Tells whether the member serves a kind.
    pub fn serves(&self, group_version: &str, kind: &str) -> bool {
        self.status
            .iter()
            .flat_map(|status| &status.api_enablements)
            .any(|api| {
                api.group_version == group_version
                    && api.resources.iter().any(|resource| resource.kind == kind)
            })
    }
}
