//! `Placement`: where a policy wants a workload, and how its replicas are spread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::affinity::ClusterAffinity;
use super::cluster::{Cluster, Taint};
use super::{Rest, schema};

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups tried in this order; the first that fits is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<AffinityTerm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    pub replica_scheduling: Option<ReplicaScheduling>,
    #[serde(flatten)]
    #[schemars(schema_with = "schema::more_of_placement")]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AffinityTerm {
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::objects")]
    pub overflow_affinities: Vec<Value>,
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Exists` or `Equal`; empty is `Equal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operator: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effect: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["cluster", "region", "zone", "provider"]))]
    pub spread_by_field: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spread_by_label: String,
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub max_groups: i64,
    #[serde(default, skip_serializing_if = "schema::is_default")]
    pub min_groups: i64,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaScheduling {
    #[serde(default = "divided")]
    pub replica_scheduling_type: ReplicaSchedulingType,
    pub replica_division_preference: Option<ReplicaDivision>,
    pub weight_preference: Option<WeightPreference>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaSchedulingType {
    Duplicated,
    #[default]
    Divided,
}

/// The published CRD has this default.
const fn divided() -> ReplicaSchedulingType {
    ReplicaSchedulingType::Divided
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaDivision {
    Aggregated,
    Weighted,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightPreference {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticWeight>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["AvailableReplicas"]))]
    pub dynamic_weight: String,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticWeight {
    pub target_cluster: ClusterAffinity,
    #[schemars(range(min = 1))]
    pub weight: i64,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

impl Toleration {
    /// Tells whether a taint is tolerated, for however long.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        let value = match self.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => !self.key.is_empty() && self.value == taint.value,
            _ => false,
        };
        effect && key && value
    }
}

impl Placement {
    /// Returns the taints of a cluster that no toleration covers.
    pub fn untolerated<'a>(&self, cluster: &'a Cluster) -> impl Iterator<Item = &'a Taint> {
        cluster.spec.taints.iter().filter(|taint| {
            !self
                .cluster_tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
        })
    }

    /// Tells whether a taint keeps the scheduler from choosing a cluster that isn't in use yet.
    pub fn untolerated_by_scheduler(&self, taint: &Taint) -> bool {
        let counts = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        let mut tolerations = self.cluster_tolerations.iter();
        counts && !tolerations.any(|toleration| toleration.tolerates(taint))
    }

    /// Returns the taint for which Karmada's taint manager would evict what is placed like this, at once or some time.
    pub fn evicted_by<'a>(&self, cluster: &'a Cluster) -> Option<&'a Taint> {
        let mut taints = cluster.spec.taints.iter();
        taints.find(|taint| taint.effect == "NoExecute" && !self.tolerates_for_ever(taint))
    }

    /// Tells whether a taint is tolerated without a limit of time. The first toleration that matches it counts, as Karmada's
    /// taint manager takes it.
    pub fn tolerates_for_ever(&self, taint: &Taint) -> bool {
        let first = self.toleration_of(taint);
        first.is_some_and(|toleration| toleration.toleration_seconds.is_none())
    }

    /// Returns for how many seconds Karmada's taint manager leaves a workload in a cluster with a taint: none where no toleration
    /// matches it, and [`i64::MAX`] where it is tolerated without a limit of time.
    pub fn tolerated_seconds(&self, taint: &Taint) -> i64 {
        let toleration = self.toleration_of(taint);
        toleration.map_or(0, |toleration| {
            toleration.toleration_seconds.unwrap_or(i64::MAX).max(0)
        })
    }

    /// Returns the toleration that Karmada's taint manager goes by for a taint.
    pub fn toleration_of(&self, taint: &Taint) -> Option<&Toleration> {
        let mut tolerations = self.cluster_tolerations.iter();
        tolerations.find(|toleration| toleration.tolerates(taint))
    }

    /// Tells whether replicas are divided among clusters; otherwise each cluster gets all of them.
    pub fn divides(&self) -> bool {
        self.replica_scheduling
            .as_ref()
            .is_some_and(|scheduling| scheduling.replica_scheduling_type == ReplicaSchedulingType::Divided)
    }

    /// Tells whether replicas are divided among as few clusters as possible.
    pub fn aggregates(&self) -> bool {
        self.divides()
            && self.replica_scheduling.as_ref().is_some_and(|scheduling| {
                scheduling.replica_division_preference == Some(ReplicaDivision::Aggregated)
            })
    }

    /// Tells whether replicas are divided by weights that don't change. Spread constraints count for nothing then; and
    /// without any weights all clusters weigh the same.
    pub fn divides_by_static_weights(&self) -> bool {
        self.divides()
            && !self.aggregates()
            && self.replica_scheduling.as_ref().is_some_and(|scheduling| {
                scheduling
                    .weight_preference
                    .as_ref()
                    .is_none_or(|weights| weights.dynamic_weight.is_empty())
            })
    }

    /// Returns the constraint that limits how many clusters are used.
    pub fn cluster_constraint(&self) -> Option<&SpreadConstraint> {
        self.spread_constraints.iter().find(|constraint| {
            constraint.spread_by_label.is_empty()
                && matches!(constraint.spread_by_field.as_str(), "" | "cluster")
        })
    }
}
