//! `Suspension`: stop changes from reaching clusters, on purpose, with a reason and an end. Its status is the write-ahead
//! journal.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::common::{any_object, phase_common_journal};
use super::intent::common_rank;
use super::lifecycle::lifecycle;
use super::{
    Barrier, Common, Intent, Lifecycle, PinState, PolicyKind, PolicyName, Progress, Standing, WorkloadRef,
};
use cutover_karmada::name::ClusterName;

/// Asks for changes to stop at the control plane.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "Suspension",
    plural = "suspensions",
    shortname = "susp",
    category = "cutover",
    namespaced,
    status = "SuspensionStatus",
    doc = "Stops changes from reaching clusters, on purpose, with a reason and an end",
    printcolumn = r#"{"name":"Policy","type":"string","jsonPath":".status.journal.policy.name"}"#,
    printcolumn = r#"{"name":"Scope","type":"string","jsonPath":".spec.scope"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Since","type":"date","jsonPath":".status.since"}"#,
    printcolumn = r#"{"name":"Until","type":"string","jsonPath":".spec.until"}"#,
    printcolumn = r#"{"name":"By","type":"string","jsonPath":".status.by"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".spec.reason"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SuspensionSpec {
    /// What is suspended: a workload, or a policy with all that it selects.
    pub target: SuspensionTarget,
    /// The clusters that changes are kept from; none: all, also those that are chosen later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterName>,
    /// What waits. `Dispatching`, the default: changes are not sent to the members. `Scheduling`: the scheduler leaves the
    /// workloads where they are. `Both`: both.
    #[serde(default)]
    pub scope: Scope,
    /// Why; for people.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Goes no further, neither into force nor to its end, until that is taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Ends it now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
}

/// What is suspended: one of the two.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct SuspensionTarget {
    /// A policy, and with it every workload that it selects.
    pub policy: Option<PolicyTarget>,
    /// One workload: by its policy where that selects nothing else, else by a pin.
    pub workload: Option<WorkloadRef>,
}

/// A policy; a `PropagationPolicy` is that of the intent's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyTarget {
    /// `PropagationPolicy` or `ClusterPropagationPolicy`.
    #[serde(default)]
    pub kind: PolicyKind,
    /// The name of the policy.
    pub name: String,
}

/// Which decisions wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// Changes are computed, and not sent to the members.
    #[default]
    Dispatching,
    /// The scheduler leaves the workloads where they are.
    Scheduling,
    Both,
}

impl Scope {
    pub const fn dispatching(self) -> bool {
        matches!(self, Self::Dispatching | Self::Both)
    }

    pub const fn scheduling(self) -> bool {
        matches!(self, Self::Scheduling | Self::Both)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dispatching => "dispatching",
            Self::Scheduling => "scheduling",
            Self::Both => "dispatching and scheduling",
        })
    }
}

/// Where a suspension stands.
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
pub enum SuspensionPhase {
    #[default]
    Pending,
    /// It is being put into force.
    Suspending,
    /// Nothing goes out.
    Suspended,
    /// What was held is about to be released.
    Resuming,
    Completed,
    Failed,
    Aborted,
}

lifecycle!(SuspensionPhase, |phase| phase.is_terminal());

impl SuspensionPhase {
    /// Returns whether nothing more will be done in this attempt.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Aborted)
    }
}

/// What was observed and decided; written before every effect.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspensionStatus {
    /// The current phase.
    pub phase: SuspensionPhase,
    #[serde(flatten)]
    pub common: Common,
    /// Who asked for it: the author of the commit, where that is known.
    pub by: Option<String>,
    /// Since when nothing has gone out.
    pub since: Option<Timestamp>,
    /// Every workload that is suspended, the first of many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// What would go out, and what has been changed in a member meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldCopy>,
    /// Fields that are changed again and again, and by whom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contested: Vec<Contested>,
    /// What cutover needs in order to go on after a restart. No other client may read or write it.
    pub journal: Option<SuspensionJournal>,
}

/// One copy that doesn't get what the control plane has for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct HeldCopy {
    /// The workload, as `<kind> <namespace>/<name>`.
    pub workload: String,
    /// The cluster whose copy is not changed.
    pub cluster: ClusterName,
    /// Fields that will change when it ends. Values are not shown: they may be secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    /// Fields that another client has changed in the member, and who: they will be put back when it ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drift: BTreeMap<String, String>,
    /// Why it can't be told, if it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// A field that doesn't come to rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Contested {
    /// The object, as `<kind> <namespace>/<name>`.
    pub object: String,
    /// The field, as a JSON pointer.
    pub field: String,
    /// Who has changed it, as `managedFields` say.
    pub managers: Vec<String>,
    /// How often it was seen changed.
    pub times: u32,
}

/// The memory of the machine: all that a later pass needs and cannot observe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspensionJournal {
    /// The spec of this attempt; later changes are not obeyed, but for `until`.
    pub spec: Box<SuspensionSpec>,
    /// The policy that carries the suspension, or that the workload is propagated by.
    pub policy: PolicyName,
    /// The pin that carries it where the policy can't.
    pub pin: Option<SuspensionPin>,
    /// What shows that the scheduler places nothing any more.
    #[serde(default)]
    pub fence: SuspensionFence,
    /// What ends it, once it ends.
    pub ending: Option<Ending>,
    /// The effects of the current pass, before they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
}

/// A pin that keeps one workload as it is in some clusters, whatever becomes of its template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspensionPin {
    /// Value of the label `resourcebinding.karmada.io/permanent-id` on the binding and its Works.
    pub binding_id: String,
    /// The pin is a `ClusterOverridePolicy`.
    pub cluster_scoped: bool,
    /// How far the pin is.
    #[serde(flatten)]
    pub state: PinState,
    /// What a cluster gets that isn't named below: the template as it was, without status.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub base: Option<serde_json::Value>,
    /// The clusters that had the workload when it was held.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<ClusterName>,
    /// What those of them keep that had something else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_object")]
    pub kept: BTreeMap<ClusterName, serde_json::Value>,
    /// Digest of the rules that the sequence stands for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rules: String,
    /// The plan whose pin includes the rules, because it guards the workload; absent: the suspension has a pin of its own.
    pub host: Option<super::ClaimOwner>,
}

/// The barrier behind which the scheduler has nothing of the workloads left in its queue.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspensionFence {
    /// Names the canary; a new one for every barrier.
    pub canary: u32,
    /// Digest of the bindings whose scheduling was seen suspended before the canary was made.
    pub over: Option<String>,
    /// What shows that the scheduler has nothing left to do for the workloads.
    pub barrier: Option<Barrier>,
}

/// Why a suspension ends, and as what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// Why it ends.
    pub reason: String,
    /// What will go out has been told.
    #[serde(default)]
    pub listed: bool,
    /// `Completed` when its time was over, `Aborted` when a person ended it, `Pending` when it makes room for another intent.
    pub ends_as: SuspensionPhase,
}

impl Intent for Suspension {
    const KIND: &'static str = "Suspension";
    type Rank = (u32, bool, usize);

    fn rank(status: &SuspensionStatus) -> Self::Rank {
        common_rank(status)
    }
}

impl Progress for SuspensionStatus {
    phase_common_journal!(SuspensionPhase, SuspensionJournal);

    fn standing(&self) -> Standing {
        match self.phase {
            SuspensionPhase::Suspended => Standing::InForce,
            SuspensionPhase::Completed => Standing::Done,
            SuspensionPhase::Failed | SuspensionPhase::Aborted => Standing::Failed,
            _ => Standing::UnderWay,
        }
    }
}

impl Suspension {
    /// Returns the spec of the attempt that runs, else the one that is asked for.
    pub fn spec_in_force(&self) -> &SuspensionSpec {
        let journal = self.status.as_ref().and_then(|status| status.journal.as_ref());
        journal.map_or(&self.spec, |journal| &journal.spec)
    }
}

impl SuspensionSpec {
    /// Returns whether two specs ask for the same: control fields never make a new attempt.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let bare = |spec: &Self| Self {
            until: None,
            paused: false,
            abort: false,
            reason: String::new(),
            ..spec.clone()
        };
        bare(self) == bare(other)
    }
}
