//! `RolloutPolicy`: every change of the templates that it selects goes cluster by cluster, each by a Rollout that it makes.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::common::phase_common;
use super::lifecycle::lifecycle;
use super::{Common, Intent, Lifecycle, Progress, RolloutControls, RolloutPhase, RolloutStrategy, Standing};

/// Asks for the changes of many templates to go cluster by cluster, for as long as it is there.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "RolloutPolicy",
    plural = "rolloutpolicies",
    shortname = "crop",
    category = "cutover",
    namespaced,
    status = "RolloutPolicyStatus",
    doc = "Lets every change of the templates that it selects go cluster by cluster",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Selected","type":"integer","jsonPath":".status.selected"}"#,
    printcolumn = r#"{"name":"Rolling","type":"integer","jsonPath":".status.rolling"}"#,
    printcolumn = r#"{"name":"Queued","type":"integer","jsonPath":".status.queued"}"#,
    printcolumn = r#"{"name":"Halted","type":"integer","jsonPath":".status.halted"}"#,
    printcolumn = r#"{"name":"Left out","type":"integer","jsonPath":".status.leftOut"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicySpec {
    /// Which workloads of its namespace: those that any of these takes, and whose template is in Git.
    #[schemars(length(min = 1))]
    pub select: Vec<WorkloadSelector>,
    /// In which order, and how fast.
    #[serde(flatten)]
    pub strategy: RolloutStrategy,
    /// Of how many workloads changes may be under way at once; what has halted counts, too.
    #[serde(default = "five", skip_serializing_if = "is_five")]
    #[schemars(range(min = 1))]
    pub max_parallel: u32,
    /// Controls of single workloads, as those of a Rollout of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<WorkloadControls>,
    /// Releases no more clusters for any of them, and goes on when taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

const fn five() -> u32 {
    5
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_five(number: &u32) -> bool {
    *number == 5
}

/// Takes workloads of one kind, in whatever version Git has them.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSelector {
    /// For instance `apps/v1`.
    pub api_version: String,
    /// The kind, for instance `Deployment`.
    pub kind: String,
    /// None: any.
    pub name: Option<String>,
    /// On the template, as `kubectl -l` takes it: `tier=web,team in (a, b)`. With a name, both have to fit.
    #[schemars(length(min = 1))]
    pub label_selector: Option<String>,
}

/// The controls of one of the workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadControls {
    /// The kind of the workload.
    pub kind: String,
    /// The name of the workload.
    pub name: String,
    /// What people control while it rolls.
    #[serde(flatten)]
    pub controls: RolloutControls,
}

/// Where a policy stands.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(const_into_str)]
pub enum RolloutPolicyPhase {
    /// It hasn't been looked at yet.
    #[default]
    Pending,
    /// It is in force.
    Standing,
    /// It was deleted, and its rollouts come to their end.
    Ending,
}

// It stands for as long as it is there, and has no end of its own.
lifecycle!(RolloutPolicyPhase, |_| false);

/// What a policy selects, and what comes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutPolicyStatus {
    /// Whether the policy is in force.
    pub phase: RolloutPolicyPhase,
    #[serde(flatten)]
    pub common: Common,
    /// How many workloads in Git it selects.
    pub selected: u32,
    /// Of how many a change is under way.
    pub rolling: u32,
    /// How many workloads have halted.
    pub halted: u32,
    /// How many wait for their turn.
    pub queued: u32,
    /// How many of the selected ones another Rollout or policy is in charge of.
    pub left_out: u32,
    /// Whose turn it is, by the name of the Rollout: of no others a change begins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub turns: BTreeMap<String, RolloutTurn>,
    /// Those of which there is something to say, at most fifty: first what halted, then what waits or is left out, then
    /// what rolls, then what waits for its turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<SelectedWorkload>,
}

/// How it stands with a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutTurn {
    /// A change may begin, or has begun.
    Given,
    /// Nothing was under way, and another one is to have it.
    TakenBack,
}

/// One workload of a policy.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedWorkload {
    /// The kind of the workload.
    pub kind: String,
    /// The name of the workload.
    pub name: String,
    /// The Rollout that takes its changes along.
    pub by: Option<String>,
    /// The phase of its rollout; none where another intent has the workload.
    pub phase: Option<RolloutPhase>,
    /// What it waits for, or who is in charge of it; absent: nothing is to be said.
    pub note: Option<String>,
}

impl Intent for RolloutPolicy {
    const KIND: &'static str = "RolloutPolicy";
    const CLAIMS: bool = false;
    type Rank = (i64, usize);

    /// It goes round and round: what it was made from tells which copy is the newer.
    fn rank(status: &RolloutPolicyStatus) -> Self::Rank {
        (status.common.observed_generation, status.common.steps.len())
    }
}

impl Progress for RolloutPolicyStatus {
    phase_common!(RolloutPolicyPhase);

    /// All that it needs is in its Rollouts.
    type Journal = ();

    fn journal(&self) -> Option<&()> {
        None
    }

    fn journal_mut(&mut self) -> Option<&mut ()> {
        None
    }

    fn planned_mut(&mut self) -> Option<&mut Vec<String>> {
        None
    }

    fn standing(&self) -> Standing {
        match self.phase {
            RolloutPolicyPhase::Standing if self.halted > 0 => Standing::Failed,
            RolloutPolicyPhase::Standing if self.rolling == 0 => Standing::InForce,
            _ => Standing::UnderWay,
        }
    }
}
