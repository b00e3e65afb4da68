//! `Rebalance`: spread workloads over the clusters anew. Its status is the write-ahead journal.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Intent;
use super::moves::{MovesRank, MovesSpec, MovesStatus, moves_rank};

/// Asks for workloads to be redistributed, within what their policies allow.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "Rebalance",
    plural = "rebalances",
    shortname = "rebal",
    category = "cutover",
    status = "RebalanceStatus",
    doc = "Redistributes workloads over the clusters",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Done","type":"integer","jsonPath":".status.progress.done"}"#,
    printcolumn = r#"{"name":"Of","type":"integer","jsonPath":".status.progress.of"}"#,
    printcolumn = r#"{"name":"Failed","type":"integer","jsonPath":".status.progress.failed"}"#,
    printcolumn = r#"{"name":"Dry run","type":"boolean","jsonPath":".spec.dryRun"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceSpec {
    /// What brings it about again; none: it is done once, now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Occasion>,
    /// Only says in the status what would move.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// How many percent of a cluster two clusters may differ in load; only above is anything moved by a Migration.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    pub tolerance: u32,
    #[serde(flatten)]
    pub moves: MovesSpec,
}

const fn twenty() -> u32 {
    20
}

/// What brings a standing rebalance about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Occasion {
    ClusterJoined,
    ClusterLeft,
    /// A workload can't be scheduled, or a cluster is asked for more than it has.
    CapacityLacking,
}

/// Where a rebalance stands.
pub type RebalanceStatus = MovesStatus<RebalanceSpec>;

impl Intent for Rebalance {
    const KIND: &'static str = "Rebalance";
    const CLAIMS: bool = false;
    type Rank = MovesRank;

    fn rank(status: &RebalanceStatus) -> MovesRank {
        moves_rank(status)
    }
}

impl Rebalance {
    /// Returns the spec of the attempt that runs, else the one that is asked for.
    pub fn spec_in_force(&self) -> &RebalanceSpec {
        let journal = self.status.as_ref().and_then(|status| status.journal.as_ref());
        journal.map_or(&self.spec, |journal| &journal.spec)
    }
}
