//! `ReplicaShift`: replicas go from one cluster to another in steps, and enough of them are ready at every moment. Its status
//! is the write-ahead journal.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::common::phase_common_journal;
use super::intent::common_rank;
use super::lifecycle::lifecycle;
use super::{
    BindingId, Common, Fence, Floor, Intent, Lifecycle, OnFailure, PinState, Progress, Standing, TimeSpan,
    Window, WorkloadRef,
};
use cutover_karmada::name::ClusterName;

/// Asks for the replicas of a workload without state to go from one cluster to another, step by step.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "ReplicaShift",
    plural = "replicashifts",
    shortname = "rshift",
    category = "cutover",
    namespaced,
    status = "ReplicaShiftStatus",
    doc = "Moves replicas from one cluster to another in steps; the ready ones never become fewer than the floor",
    printcolumn = r#"{"name":"Workload","type":"string","jsonPath":".spec.workload.name"}"#,
    printcolumn = r#"{"name":"From","type":"string","jsonPath":".spec.from.cluster"}"#,
    printcolumn = r#"{"name":"To","type":"string","jsonPath":".spec.to"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Moved","type":"string","jsonPath":".status.moved"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.ready"}"#,
    printcolumn = r#"{"name":"Floor","type":"integer","jsonPath":".status.floor"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaShiftSpec {
    /// The workload whose replicas go.
    pub workload: WorkloadRef,
    /// Where the replicas are taken from.
    pub from: ShiftSource,
    /// The cluster that the replicas go to.
    pub to: ClusterName,
    /// How many go at once; 1 when neither this nor `percentages` is given.
    #[schemars(range(min = 1, max = 100_000))]
    pub step: Option<u32>,
    /// Instead of `step`: how much of it has gone after each step, ascending. What is left when the last one is less than 100
    /// stays where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(range(min = 1, max = 100)))]
    pub percentages: Vec<u32>,
    /// How many ready replicas there must be at least, in all clusters together: a share of those at the start, such as
    /// `100%`, or a number.
    #[serde(default = "all_replicas")]
    pub floor: Floor,
    /// What it stops for between steps.
    #[serde(default, skip_serializing_if = "Pause::is_none")]
    pub pause: Pause,
    /// How long the replicas of one step may take to be ready.
    #[serde(default = "ten_minutes")]
    pub timeout: TimeSpan,
    /// What happens when they don't become ready in that time.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// What is done when all have gone.
    #[serde(default, skip_serializing_if = "Then::is_none")]
    pub then: Then,
    /// What people have approved; `cutover approve --percent` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ShiftApproval>,
    /// Begins no further step until that is taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Brings the replicas back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
    /// What hasn't gone by then is brought back.
    pub deadline: Option<Timestamp>,
    /// When it may begin; one that has begun goes on.
    pub window: Option<Window>,
}

/// Where the replicas are: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct ShiftSource {
    /// A member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// The cluster that Karmada itself is installed on, where the template runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control_plane: bool,
}

impl fmt::Display for ShiftSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{cluster}"),
            None => f.write_str("the control plane"),
        }
    }
}

/// What it stops for between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// How long after every step, for instance `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<TimeSpan>,
    /// Percentages: a step that has brought at least so many is the last one until a person approves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 100)))]
    pub approval: Vec<u32>,
}

impl Pause {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What is done when the replicas have gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Then {
    /// Clusters that changes are kept from, by a Suspension that stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspend: Vec<ClusterName>,
}

impl Then {
    fn is_none(&self) -> bool {
        self.suspend.is_empty()
    }
}

/// A person's leave to go on past a percentage; valid for one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShiftApproval {
    /// A percentage of `spec.pause.approval`: the shift may go on past it.
    #[schemars(range(min = 1, max = 100))]
    pub percent: u32,
    /// The attempt that it is given for, as in `status.attempt`.
    pub attempt: u32,
    /// Who approved; free text, usually from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

fn all_replicas() -> Floor {
    Floor::ALL
}

fn ten_minutes() -> TimeSpan {
    TimeSpan::minutes(10)
}

/// Where a shift stands.
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
pub enum ShiftPhase {
    #[default]
    Pending,
    /// Nothing is written: cutover checks what could block it.
    Preflight,
    /// The scheduler is kept off, and a pin says how many replicas each cluster has.
    Hold,
    /// Step by step: more there, then fewer here.
    Shifting,
    /// What was asked for afterwards is done.
    Suspending,
    /// The replicas have gone; the pin stays until the policies say the same without it.
    Shifted,
    RollingBack,
    Completed,
    RolledBack,
    Failed,
    Aborted,
}

lifecycle!(ShiftPhase, |phase| phase.is_terminal());

impl ShiftPhase {
    /// Returns whether nothing more will be done in this attempt.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::RolledBack | Self::Failed | Self::Aborted
        )
    }
}

/// What was observed and decided; written before every effect.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaShiftStatus {
    /// The current phase.
    pub phase: ShiftPhase,
    #[serde(flatten)]
    pub common: Common,
    /// How many have gone, of how many: `3/8`.
    pub moved: Option<String>,
    /// How many must be ready at least.
    pub floor: Option<u32>,
    /// How many were seen ready in the last look that saw them all.
    pub ready: Option<u32>,
    /// The fewest that were seen ready since it began.
    pub lowest: Option<u32>,
    /// What cutover needs in order to go on after a restart. No other client may read or write it.
    pub journal: Option<ShiftJournal>,
}

/// The memory of the machine: all that a later pass needs and cannot observe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShiftJournal {
    /// The spec of this attempt; later changes are not obeyed, but for control fields.
    pub spec: Box<ReplicaShiftSpec>,
    /// The binding of the workload.
    pub binding: BindingId,
    /// The uid of the workload's template.
    pub template_uid: String,
    /// What says which pods are the workload's on the control plane; absent: nothing runs there.
    pub pods: Option<String>,
    /// How far the pin is.
    #[serde(flatten)]
    pub pin: PinState,
    /// The clusters that the binding listed, and lists at the end of a way back.
    pub listed: Vec<ClusterName>,
    /// The target is not one of them, and is added.
    #[serde(default)]
    pub expands: bool,
    /// Digest of the placement at the start: what the scheduler has decided by it, it doesn't decide again.
    pub placement: String,
    /// The replicas that the template has; on the control plane, those that it had.
    pub template_replicas: u32,
    /// How many replicas each member had at the start.
    pub start: BTreeMap<ClusterName, u32>,
    /// How many replicas each member is to have now.
    pub wanted: BTreeMap<ClusterName, u32>,
    /// How many the template is to have, where it runs itself.
    pub template_wanted: Option<u32>,
    /// How many go.
    pub amount: u32,
    /// How many have gone when the present step is over.
    pub goal: u32,
    /// How many must be ready at least.
    pub floor: u32,
    /// Since when the present step runs.
    pub step_since: Option<Timestamp>,
    /// Since when the last step is over.
    pub rests_since: Option<Timestamp>,
    /// Since when it has been paused.
    pub paused_since: Option<Timestamp>,
    /// What keeps Karmada's scheduler and failover away, and what was taken off the binding for that.
    pub fence: Fence,
    /// The way back, once it has begun.
    pub back: Option<ShiftBack>,
    /// The effects of the current pass, before they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
}

/// Why it goes back, and as what it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShiftBack {
    /// Why it goes back.
    pub reason: String,
    /// The phase in which it ends.
    pub ends_as: ShiftPhase,
}

impl Intent for ReplicaShift {
    const KIND: &'static str = "ReplicaShift";
    type Rank = ((u32, bool, usize), u64);

    fn rank(status: &ReplicaShiftStatus) -> Self::Rank {
        let seq = status.journal.as_ref().map_or(0, |journal| journal.pin.seq);
        (common_rank(status), seq)
    }
}

impl Progress for ReplicaShiftStatus {
    phase_common_journal!(ShiftPhase, ShiftJournal);

    fn standing(&self) -> Standing {
        match self.phase {
            ShiftPhase::Shifted | ShiftPhase::Completed => Standing::Done,
            ShiftPhase::RolledBack | ShiftPhase::Failed | ShiftPhase::Aborted => Standing::Failed,
            _ => Standing::UnderWay,
        }
    }
}

impl ReplicaShift {
    /// Returns the spec of the attempt that runs, else the one that is asked for.
    pub fn spec_in_force(&self) -> &ReplicaShiftSpec {
        let status = self.status.as_ref();
        status.map_or(&self.spec, |status| status.spec_in_force(&self.spec))
    }
}

impl ReplicaShiftStatus {
    /// Returns the journal of an attempt that hasn't ended.
    pub fn journal_in_force(&self) -> Option<&ShiftJournal> {
        self.journal.as_ref().filter(|_| !self.phase.is_terminal())
    }

    /// Returns the spec of the attempt that runs, else the one that is asked for.
    pub fn spec_in_force<'a>(&'a self, asked: &'a ReplicaShiftSpec) -> &'a ReplicaShiftSpec {
        self.journal_in_force().map_or(asked, |journal| &journal.spec)
    }
}

impl ReplicaShiftSpec {
    /// Returns whether two specs ask for the same: control fields never make a new attempt.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let bare = |spec: &Self| Self {
            approvals: Vec::new(),
            paused: false,
            abort: false,
            deadline: None,
            window: None,
            ..spec.clone()
        };
        bare(self) == bare(other)
    }
}
