//! `Evacuation`: empty a cluster. Its status is the write-ahead journal.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Intent;
use super::moves::{MovesRank, MovesSpec, MovesStatus, moves_rank};
use cutover_karmada::Taint;
use cutover_karmada::name::ClusterName;

/// Asks for the workloads of a cluster to run elsewhere.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "Evacuation",
    plural = "evacuations",
    shortname = "evac",
    category = "cutover",
    status = "EvacuationStatus",
    doc = "Moves the workloads of a cluster to other clusters",
    printcolumn = r#"{"name":"Cluster","type":"string","jsonPath":".spec.cluster"}"#,
    printcolumn = r#"{"name":"Taint","type":"string","jsonPath":".spec.taint.key"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Done","type":"integer","jsonPath":".status.progress.done"}"#,
    printcolumn = r#"{"name":"Of","type":"integer","jsonPath":".status.progress.of"}"#,
    printcolumn = r#"{"name":"Failed","type":"integer","jsonPath":".status.progress.failed"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationSpec {
    /// The cluster to empty; this or `taint`.
    pub cluster: Option<ClusterName>,
    /// Empties every cluster that carries this taint, for as long as this intent is there.
    pub taint: Option<TaintMatch>,
    /// Whether the cluster takes nothing new meanwhile.
    #[serde(default = "yes")]
    pub cordon: bool,
    /// Whether it takes nothing new afterwards either, until this intent is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_cordoned: bool,
    #[serde(flatten)]
    pub moves: MovesSpec,
}

const fn yes() -> bool {
    true
}

/// Which taint is meant. Everything that is given must match.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaintMatch {
    /// The key of the taint.
    #[schemars(length(min = 1))]
    pub key: String,
    /// Its value; none: any.
    pub value: Option<String>,
    /// Its effect, such as `NoExecute`; none: any.
    pub effect: Option<String>,
}

impl TaintMatch {
    /// Returns whether a taint is meant.
    pub fn matches(&self, taint: &Taint) -> bool {
        self.key == taint.key
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
    }
}

/// Where an evacuation stands.
pub type EvacuationStatus = MovesStatus<EvacuationSpec>;

impl Intent for Evacuation {
    const KIND: &'static str = "Evacuation";
    type Rank = MovesRank;

    fn rank(status: &EvacuationStatus) -> MovesRank {
        moves_rank(status)
    }
}

impl Evacuation {
    /// Returns the spec of the attempt that runs, else the one that is asked for.
    pub fn spec_in_force(&self) -> &EvacuationSpec {
        let journal = self.status.as_ref().and_then(|status| status.journal.as_ref());
        journal.map_or(&self.spec, |journal| &journal.spec)
    }
}
