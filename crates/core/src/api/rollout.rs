//! `Rollout`: every change of one workload's template goes cluster by cluster. Its status is the write-ahead journal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::common::{any_object, is_zero, phase_common_journal};
use super::lifecycle::lifecycle;
use super::{
    BindingId, Check, ClaimOwner, Common, HeldBack, Intent, Lifecycle, PinState, PinnedRule, Progress,
    Standing, TimeSpan, Watched, Window, WorkloadProfileSpec, WorkloadRef,
};
use cutover_karmada::name::ClusterName;

/// On a cluster: the wave it belongs to, a number. Clusters without it come after all that have one, by name.
pub const ROLLOUT_WAVE_ANNOTATION: &str = "cutover.dev/rollout-wave";

/// Asks for the changes of a template to go cluster by cluster, for as long as it is there.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "Rollout",
    plural = "rollouts",
    shortname = "cro",
    category = "cutover",
    namespaced,
    status = "RolloutStatus",
    doc = "Lets the changes of one workload's template go cluster by cluster",
    printcolumn = r#"{"name":"Workload","type":"string","jsonPath":".spec.workload.name"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Updated","type":"string","jsonPath":".status.updated"}"#,
    printcolumn = r#"{"name":"Stable","type":"string","jsonPath":".status.stable"}"#,
    printcolumn = r#"{"name":"Target","type":"string","jsonPath":".status.target"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// The workload whose changes are rolled out cluster by cluster.
    pub workload: WorkloadRef,
    /// In which order, and how fast.
    #[serde(flatten)]
    pub strategy: RolloutStrategy,
    /// What people control while it rolls.
    #[serde(flatten)]
    pub controls: RolloutControls,
    /// A change doesn't begin until this is taken away; what has begun goes on. Policies say it to those whose turn it isn't.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
}

/// What a person says to a rollout while it stands. None of it changes how clusters are gone through.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutControls {
    /// A revision of the history that is to run everywhere, whatever Git says, for as long as this stands: its name, or the
    /// beginning of its Git revision. Clusters that have come since get it, too.
    #[schemars(length(min = 4))]
    pub undo_to: Option<String>,
    /// What people have approved; `cutover approve --wave` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<WaveApproval>,
    /// Raised, it lets a halted rollout try again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry: u32,
    /// Releases no more clusters, and goes on when taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Undoes what is being rolled out, and begins nothing until it is taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
    /// After this time what is not complete counts as failed, and nothing begins.
    pub deadline: Option<Timestamp>,
}

/// How a change goes from cluster to cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// One cluster after the other, in this order; those that aren't named come after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<ClusterName>,
    /// Several clusters at a time, instead of `order`. Without either: by the annotation `cutover.dev/rollout-wave` of the
    /// clusters, those that have none one by one, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Wave>,
    /// The name of a WorkloadProfile; found by kind when absent.
    pub profile: Option<String>,
    /// When a cluster counts as good.
    #[serde(default)]
    pub progress: RolloutProgress,
    /// How many clusters may have got the change and not be seen good yet.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub max_unavailable_clusters: u32,
    /// What happens when a released cluster fails or isn't healthy in time. `Halt`, the default: no further cluster gets the
    /// change until a person decides. `Undo`: all clusters go back to what they had.
    #[serde(default)]
    pub on_failure: OnRolloutFailure,
    /// Waves that wait for an approval before they begin.
    pub approval: Option<WaveGate>,
    /// How many revisions are kept to go back to.
    #[serde(default = "ten", skip_serializing_if = "is_ten")]
    #[schemars(range(min = 1, max = 50))]
    pub history: u32,
    /// When clusters may be released; one that has been is looked after all the same.
    pub window: Option<Window>,
}

/// Clusters that are released together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// The clusters that are released together.
    #[schemars(length(min = 1))]
    pub clusters: Vec<ClusterName>,
    /// How long they must be good before the next wave; in place of `progress.healthyFor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<TimeSpan>,
}

/// When a cluster counts as good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgress {
    /// How long a released cluster may be other than healthy before that is a failure, for instance `10m`.
    #[serde(default = "default_timeout")]
    pub timeout: TimeSpan,
    /// How long it must be healthy without a break, for instance `30s`.
    #[serde(default = "default_healthy_for")]
    pub healthy_for: TimeSpan,
    /// What else must hold without a break, beside the profile's health.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl Default for RolloutProgress {
    fn default() -> Self {
        Self {
            timeout: default_timeout(),
            healthy_for: default_healthy_for(),
            checks: Vec::new(),
        }
    }
}

fn default_timeout() -> TimeSpan {
    TimeSpan::minutes(10)
}

fn default_healthy_for() -> TimeSpan {
    TimeSpan::seconds(30)
}

const fn one() -> u32 {
    1
}

const fn ten() -> u32 {
    10
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_ten(number: &u32) -> bool {
    *number == 10
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnRolloutFailure {
    /// No further cluster gets the change; those that have it keep it, until a person decides.
    #[default]
    Halt,
    /// All clusters go back to what they had.
    Undo,
}

/// The waves that wait for a [`WaveApproval`] before they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveGate {
    /// Counted from 1.
    #[schemars(inner(range(min = 1)))]
    pub before_waves: Vec<u32>,
}

/// A person's leave to begin a wave; valid for one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaveApproval {
    /// The wave that may begin, counted from 1.
    #[schemars(range(min = 1))]
    pub wave: u32,
    /// The attempt that it is given for, as in `status.attempt`.
    pub attempt: u32,
    /// Who approved; free text, usually from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Where a rollout stands.
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
pub enum RolloutPhase {
    /// Nothing is rolled out; what Git asks for, if anything, can't begin yet.
    #[default]
    Pending,
    /// The pin that keeps every cluster at what it has is put up.
    Holding,
    /// The template changes behind the pin.
    Applying,
    /// Clusters are released.
    Rolling,
    /// A released cluster isn't good: nothing more goes out until a person decides.
    Halted,
    /// All clusters go back to what they had.
    Undoing,
    /// The pin comes down.
    Finishing,
    /// Every cluster has what Git, or `undoTo`, asks for.
    Completed,
    /// Every cluster has what it had before; the change in Git stays unapplied until a commit changes it.
    Undone,
}

// It stands for as long as it is there, and has no end of its own.
lifecycle!(RolloutPhase, |_| false);

impl RolloutPhase {
    /// Returns whether nothing is under way: nothing of it stands around the workload.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Self::Pending | Self::Completed | Self::Undone)
    }
}

/// What was observed and decided; written before every effect.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// The current phase.
    pub phase: RolloutPhase,
    #[serde(flatten)]
    pub common: Common,
    /// The revision that every cluster had when something was last complete.
    pub stable: Option<String>,
    /// The revision that is being rolled out, or was last.
    pub target: Option<String>,
    /// How many clusters have the target and are good, of how many: `2/5`.
    pub updated: Option<String>,
    /// How the clusters stand, in the order in which they are released.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<RolloutCluster>,
    /// What can be gone back to, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<RolloutRevision>,
    /// The change in Git that was undone and stays unapplied until a commit changes it.
    pub held_back: Option<HeldBack>,
    /// What cutover needs in order to go on after a restart. No other client may read or write it.
    pub journal: Option<RolloutJournal>,
}

/// One cluster, as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutCluster {
    /// The cluster.
    pub name: ClusterName,
    /// Counted from 1.
    pub wave: u32,
    /// The revision that it is let have.
    pub revision: String,
    /// How it stands.
    pub state: RolloutClusterState,
    /// Why it isn't good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutClusterState {
    /// It keeps what it had.
    Held,
    /// It got the change and isn't seen good yet.
    Released,
    /// It is healthy, and not for long enough yet.
    Soaking,
    Good,
}

/// What a template was, to go back to.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutRevision {
    /// Made from the content: the same content is the same revision.
    pub name: String,
    /// The Git revision that it was first seen in.
    pub git: Option<String>,
    /// When every cluster had it, the last time.
    pub completed_at: Option<Timestamp>,
    /// Why it was undone, if it was.
    pub undone: Option<String>,
    /// What the API server had of it, without metadata and status.
    #[schemars(schema_with = "any_object")]
    pub content: serde_json::Value,
    /// As it is applied.
    #[schemars(schema_with = "any_object")]
    pub manifest: serde_json::Value,
}

/// The memory of the machine while something is rolled out: all that a later pass needs and cannot observe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutJournal {
    /// The workload that `spec` named when the change began to roll.
    pub workload: WorkloadRef,
    /// The profile as it was when the change began to roll.
    pub profile: Box<WorkloadProfileSpec>,
    /// The binding of the workload.
    pub binding: BindingId,
    /// The uid of the workload's template.
    pub template_uid: String,
    /// The attempt that put the pin up: its markers are counted on from there.
    pub pin_attempt: u32,
    /// How far the pin is.
    #[serde(flatten)]
    pub pin: PinState,
    /// What the pin says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PinnedRule>,
    /// The plan whose pin includes the rules, because it guards the workload; absent: the rollout has a pin of its own.
    pub host: Option<ClaimOwner>,
    /// What clusters have that aren't named below, those that join included.
    pub stable: String,
    /// The revision that is rolled out.
    pub target: String,
    /// The digest of the manifest in Git that the target is, and its revision.
    pub wanted: HeldBack,
    /// Every revision that the template has had since the pin was put up, or is about to have.
    #[serde(default)]
    pub possible: Vec<String>,
    /// What clusters have that were released for a target before this one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<ClusterName, String>,
    /// The clusters that were given the target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub released: BTreeMap<ClusterName, Released>,
    /// Why it goes back, if it does.
    pub undoing: Option<String>,
    /// Why it halted, if it has.
    pub halted: Option<String>,
    /// The number of `spec.retry` that has been obeyed.
    #[serde(default)]
    pub retried: u32,
    /// When the phase began.
    pub phase_since: Option<Timestamp>,
    /// The effects of the current pass, before they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
}

/// A cluster that was given the target.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// When the cluster was released, or tried again because `spec.retry` was raised.
    pub at: Timestamp,
    /// For how long it was seen healthy without a break.
    pub healthy: Option<Watched>,
    /// For how long it was not.
    pub ill: Option<Watched>,
}

impl Intent for Rollout {
    const KIND: &'static str = "Rollout";
    const TEMPLATES: &'static [&'static str] = &["/status/revisions", "/status/journal/rules"];
    type Rank = (u32, bool, u64, usize);

    fn rank(status: &RolloutStatus) -> Self::Rank {
        let (journal, common) = (status.journal.as_ref(), &status.common);
        (
            common.attempt,
            status.phase.is_at_rest(),
            journal.map_or(0, |journal| journal.pin.seq),
            common.steps.len(),
        )
    }
}

impl Progress for RolloutStatus {
    phase_common_journal!(RolloutPhase, RolloutJournal);

    /// It stands for as long as it is there; what is at rest claims nothing.
    fn has_ended(&self) -> bool {
        self.phase.is_at_rest()
    }

    fn standing(&self) -> Standing {
        match self.phase {
            RolloutPhase::Completed => Standing::Done,
            RolloutPhase::Halted | RolloutPhase::Undone => Standing::Failed,
            _ => Standing::UnderWay,
        }
    }
}

impl RolloutStatus {
    /// Returns a revision by its name.
    pub fn revision(&self, name: &str) -> Option<&RolloutRevision> {
        self.revisions.iter().find(|revision| revision.name == name)
    }

    /// Returns the one revision that a person means by a name, or the beginning of it or of its Git revision.
    pub fn meant(&self, text: &str) -> Option<&RolloutRevision> {
        let is_meant = |revision: &&RolloutRevision| {
            let git = revision.git.as_deref().unwrap_or_default();
            revision.name.starts_with(text) || git.starts_with(text)
        };
        let mut meant = self.revisions.iter().filter(is_meant);
        meant.next().filter(|_| meant.next().is_none())
    }
}

impl Rollout {
    /// Returns the workload of what is under way, else the one that is asked for.
    pub fn workload_in_force(&self) -> &WorkloadRef {
        let journal = self.status.as_ref().and_then(|status| status.journal.as_ref());
        journal.map_or(&self.spec.workload, |journal| &journal.workload)
    }
}
