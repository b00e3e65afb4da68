//! How far it is that a workload without state leaves one of its clusters, as the status of what takes it away says.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{MoveState, Watched};
use cutover_karmada::name::ClusterName;

/// What a later pass needs of an eviction, and can't observe.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// What is being done.
    pub stage: EvictionStage,
    /// Which binding it is about: another one of its name is not meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub binding_uid: String,
    /// What the binding and its Works are labelled with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub binding_id: String,
    /// Where it ran, with how many replicas, before it was taken out of a cluster: what it is put back to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Share>,
    /// Which pods are the workload's.
    pub pods: Option<String>,
    /// When the cluster was seen to be out of the binding.
    pub evicted_at: Option<Timestamp>,
    /// For how long all of it was seen ready in the other clusters.
    pub healthy: Option<Watched>,
    /// What it comes to, once that is certain.
    pub ends_as: Option<MoveState>,
    /// Why it is put back, or what it came to.
    pub because: Option<String>,
}

/// The replicas of a workload in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The cluster.
    pub cluster: ClusterName,
    /// How many replicas it has.
    #[serde(default)]
    pub replicas: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictionStage {
    /// The workload is claimed, and its copies in the other clusters are looked at. Where it runs is as it was.
    #[default]
    Claiming,
    /// The cluster is being taken out of the binding; its copy stays.
    Evicting,
    /// The others are to be ready, and to stay so.
    Verifying,
    /// The copy may go: what is sent now can't be taken back.
    Confirming,
    /// The copy goes.
    Leaving,
    /// The cluster is being put into the binding again.
    PuttingBack,
    /// What it comes to is certain; the claim is given up.
    Releasing,
}
