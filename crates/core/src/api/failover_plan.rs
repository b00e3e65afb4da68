//! `FailoverPlan`: what is done when a cluster, or a workload in it, fails unplanned. Its status is the
//! write-ahead journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::common::{anything, is_zero, phase_common_journal};
use super::lifecycle::lifecycle;
use super::{
    BindingId, ClaimOwner, Common, Differences, Fence, Intent, Lifecycle, PLAIN_FORMAT, PinState, Progress,
    SecretHandles, Standing, Starts, TimeSpan, Watched, WorkloadProfileSpec, WorkloadRef, format,
};
use cutover_karmada::PurgeMode;
use cutover_karmada::name::ClusterName;

/// Keeps one workload to one writer when Karmada, or a person, moves it in an emergency.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "FailoverPlan",
    plural = "failoverplans",
    shortname = "fop",
    category = "cutover",
    namespaced,
    status = "FailoverPlanStatus",
    doc = "What is done when a cluster, or a workload in it, fails unplanned",
    printcolumn = r#"{"name":"Workload","type":"string","jsonPath":".spec.workload.name"}"#,
    printcolumn = r#"{"name":"Writer","type":"string","jsonPath":".status.writer"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Failovers","type":"integer","jsonPath":".status.attempt"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct FailoverPlanSpec {
    /// The workload that is guarded.
    pub workload: WorkloadRef,
    /// A `WorkloadProfile`; found by kind if absent.
    pub profile: Option<String>,
    /// A standing pin: a copy that Karmada's failover creates elsewhere is born held, and is let go with its state.
    #[serde(default = "yes")]
    pub guard: bool,
    /// What is read from a running copy, for the case that its cluster is lost.
    #[serde(default)]
    pub capture: ContinuousCapture,
    /// How the state reaches the new copy. `profile`: by the pin, as the profile's `start` says.
    #[serde(default)]
    pub inject: Inject,
    /// How the labels that Karmada preserves become handles of the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preserved: Vec<PreservedHandle>,
    /// What happens while the old copy can't be seen. By default the new copy stays held until the old one is seen stopped or
    /// gone.
    #[serde(default)]
    pub source_unreachable: SourceUnreachable,
    /// How long a copy that can be reached, and is well, may take to stop with its state; then it goes without.
    #[serde(default = "default_stop_within")]
    pub stop_within: TimeSpan,
    /// What becomes of the old copy.
    #[serde(default)]
    pub purge: Purge,
    /// How many failovers and migrations `status.history` keeps.
    #[serde(default)]
    pub history: HistoryLimit,
    /// A person's decision to move it now.
    pub request: Option<FailoverRequest>,
    /// What people have approved; `cutover approve --gate` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<FailoverApproval>,
    /// Nothing new is begun; what is under way stays as it is, held where it is held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Ends the plan: the guard comes off once nothing is under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
}

const fn yes() -> bool {
    true
}

fn default_stop_within() -> TimeSpan {
    TimeSpan::seconds(60)
}

/// Whether the newest handle that a running copy shows is noted all the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContinuousCapture {
    /// Whether the newest state handle of the running copy, as the profile's `lastKnown` finds it, is noted all the time.
    #[serde(default = "yes")]
    pub continuous: bool,
}

impl Default for ContinuousCapture {
    fn default() -> Self {
        Self { continuous: true }
    }
}

/// How the state gets into the new copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Inject {
    /// By the pin, as the profile's `start` says.
    #[default]
    Profile,
}

/// A handle that is made of a label's value: Karmada keeps state in labels, and few handles are valid labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreservedHandle {
    /// The `aliasLabelName` of a rule of the policy's `statePreservation`.
    pub label: String,
    /// The name of one of the profile's `capture` rules.
    pub handle: String,
    /// What it comes to; `${value}` is the label's value.
    #[serde(default = "value_itself")]
    pub value: String,
}

fn value_itself() -> String {
    "${value}".to_owned()
}

/// What is done as long as nobody can see whether the old copy still writes: `action: Hold`, or `proceedAfter` with
/// `fencedBy`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceUnreachable {
    /// `Hold`: the new copy stays held until the old one is seen stopped or gone, as it does when nothing is given. Not together
    /// with the two below.
    pub action: Option<UnreachableAction>,
    /// How long it must have been unreachable.
    pub proceed_after: Option<TimeSpan>,
    /// Who makes sure that nothing of the old copy writes any more; required with `proceedAfter`.
    pub fenced_by: Option<FencedBy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnreachableAction {
    /// The new copy stays held until the old one is seen stopped or gone.
    Hold,
}

/// Who sees to it that the old copy doesn't write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FencedBy {
    /// A person, each time.
    Approval,
    /// The infrastructure: it has cut off or powered off the nodes by then, and they don't come back with what they ran.
    NodeFencing,
}

impl SourceUnreachable {
    /// Returns what of it contradicts itself.
    pub fn contradiction(&self) -> Option<&'static str> {
        match (self.action, &self.proceed_after, self.fenced_by) {
            (_, None, None) | (None, Some(_), Some(_)) => None,
            (Some(_), _, _) => {
                Some("action: Hold waits for proof: it goes with neither proceedAfter nor fencedBy")
            }
            (None, Some(_), None) => Some("proceedAfter needs fencedBy: time alone stops no writer"),
            (None, None, Some(_)) => Some("fencedBy needs proceedAfter"),
        }
    }
}

/// What becomes of an old copy that the policy's purge mode `Never` leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Purge {
    /// It is removed when a person approves it (`cutover approve`).
    #[serde(default)]
    pub confirm: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryLimit {
    /// How many are kept in the status; Git keeps all.
    #[serde(default = "default_keep")]
    #[schemars(range(min = 1, max = 500))]
    pub keep: u32,
}

const fn default_keep() -> u32 {
    50
}

impl Default for HistoryLimit {
    fn default() -> Self {
        Self { keep: default_keep() }
    }
}

/// A person's decision that the workload fails over now; bound to one attempt, and so used once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailoverRequest {
    /// The attempt that it is: one more than `status.attempt`.
    pub attempt: u32,
    /// The cluster that the workload goes to.
    pub to: ClusterName,
    /// Why, for the history.
    pub reason: String,
    /// Who asks; free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a person can vouch for, or let happen.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::IntoStaticStr,
)]
#[strum(const_into_str)]
pub enum FailoverGate {
    /// The copy in that cluster doesn't write and won't again, though cutover cannot see it.
    Fenced,
    /// The new copy may start in that cluster without its state.
    FromNothing,
    /// The old copy in that cluster may be deleted.
    Purge,
}

impl FailoverGate {
    pub const ALL: [Self; 3] = [Self::Fenced, Self::FromNothing, Self::Purge];

    /// Returns the name, as it is written in YAML.
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A person's word; bound to cluster, attempt and gate, and used once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailoverApproval {
    /// What is approved.
    pub gate: FailoverGate,
    /// The cluster that it is about.
    pub cluster: ClusterName,
    /// The attempt that it is given for, as in `status.attempt`.
    pub attempt: u32,
    /// Who approved; free text, usually from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Something that waits for a person's word, as an approval would answer it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenQuestion {
    /// What a person is asked.
    pub gate: FailoverGate,
    /// The cluster that the question is about.
    pub cluster: ClusterName,
    /// The attempt that an answer has to name.
    pub attempt: u32,
}

/// Where a plan stands.
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
pub enum FailoverPhase {
    #[default]
    Pending,
    /// The claim and the pin are put up.
    Arming,
    /// One cluster may run it; whatever else gets a copy holds it.
    Guarding,
    /// A Migration has the claim for now.
    Lent,
    /// It was evicted, or a person asked for it: the new cluster is awaited.
    Evicted,
    /// No copy may run, until the old one is proved harmless and its state is known.
    Fencing,
    /// The new copy starts from the state.
    Releasing,
    /// What was kept off Karmada is given back.
    Settling,
    /// The guard is taken off.
    Disarming,
    Completed,
    Failed,
    Aborted,
}

lifecycle!(FailoverPhase, |phase| phase.is_terminal());

impl FailoverPhase {
    /// Returns whether nothing more will be done.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Aborted)
    }

    /// Returns whether a failover is under way.
    pub const fn in_flight(self) -> bool {
        matches!(
            self,
            Self::Evicted | Self::Fencing | Self::Releasing | Self::Settling
        )
    }
}

/// What was observed and decided; written before every effect.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailoverPlanStatus {
    /// The current phase.
    pub phase: FailoverPhase,
    /// `attempt` counts the failovers: 0 before the first.
    #[serde(flatten)]
    pub common: Common,
    /// The cluster that may run the workload.
    pub writer: Option<ClusterName>,
    /// The newest state handle that was seen of the running copy.
    pub last_known: Option<LastKnown>,
    /// Old copies that are still to go, or that cutover cannot see.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub old_copies: BTreeMap<ClusterName, OldCopy>,
    /// What a person is asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<OpenQuestion>,
    /// How often the guard was put up.
    pub rounds: u32,
    /// The last failovers and migrations, the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Relocation>,
    /// What cutover needs in order to go on after a restart. No other client may read or write it.
    pub journal: Option<FailoverJournal>,
}

/// A state handle of a copy that runs, and where it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastKnown {
    /// The cluster that it was read in.
    pub cluster: ClusterName,
    /// The copy that it is of.
    pub uid: String,
    /// The handles, by name.
    pub values: BTreeMap<String, String>,
    /// When it was read.
    pub at: Timestamp,
    /// When the states were saved, by the names of the handles, where the profile can tell: by the clock of the cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub saved: BTreeMap<String, Timestamp>,
    /// The status branch has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

impl LastKnown {
    /// Returns the handles that a copy left, or was started with: which copy it was makes no difference.
    pub(crate) const fn left(cluster: ClusterName, values: BTreeMap<String, String>, at: Timestamp) -> Self {
        Self {
            cluster,
            uid: String::new(),
            values,
            at,
            saved: BTreeMap::new(),
            recorded: false,
        }
    }
}

/// A copy in a cluster that the workload has left.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OldCopy {
    /// The failover that left it.
    pub attempt: u32,
    /// When the copy was noted as left behind.
    pub since: Timestamp,
    /// The purge mode `Never` keeps it until a person confirms.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Who vouches for what can't be seen of it; until something is seen that speaks against it.
    pub fenced: Option<String>,
    /// The cluster that it was in: another one may have joined under its name.
    pub identity: Option<String>,
    /// The marker under which it got the order to hold, where Karmada doesn't write to it any more.
    pub marker: Option<String>,
    /// How many words for it were refuted by what was seen of it since: only one more than that counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refuted: u32,
    /// A person let it be deleted.
    pub purged_by: Option<String>,
    /// Since when it is listed again, held, because Karmada had forgotten it.
    pub fetching_since: Option<Timestamp>,
}

/// Where a state handle came from; what comes first is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StateSource {
    /// The old copy was stopped with its state.
    Captured,
    /// Karmada preserved it in its eviction task.
    Preserved,
    /// It was the last that was seen of the running copy.
    LastKnown,
    /// The workload keeps no state of its own, or a person let it start from nothing.
    Nothing,
}

impl fmt::Display for StateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Captured => "captured",
            Self::Preserved => "preserved by Karmada",
            Self::LastKnown => "last known",
            Self::Nothing => "from nothing",
        })
    }
}

/// The state that a new copy starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedState {
    /// Where the state is from.
    pub source: StateSource,
    /// The handles, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// What was seen that makes them the right ones.
    pub evidence: String,
    /// When they were read.
    pub at: Timestamp,
}

/// One failover or migration of the workload: when, from where to where, why, with which state, on what evidence, by whom.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Relocation {
    /// `Failover`, or `Migration <name>`.
    pub what: String,
    /// That of the plan; a migration has none here.
    #[serde(default)]
    pub attempt: u32,
    /// When the failover was first noticed or asked for; of a migration: when the claim was lent.
    pub at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The cluster that had the workload.
    pub from: ClusterName,
    /// The cluster that had the workload afterwards.
    pub to: ClusterName,
    /// Why: what Karmada said of the eviction, or the reason of the request. `planned` for a migration.
    pub reason: String,
    /// Who asked for it or, where Karmada decided, who vouched that the old copy can't write; absent where no person did.
    pub by: Option<String>,
    /// The purge mode of the eviction; absent where Karmada gave none.
    pub purge_mode: Option<PurgeMode>,
    /// The state that the new copy started from; absent for a migration, which has its own record.
    pub state: Option<MovedState>,
    /// What was seen on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// From the eviction to the new copy's being well, in milliseconds.
    pub downtime_ms: Option<u64>,
}

/// The memory of the machine: all that a later pass needs and cannot observe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverJournal {
    /// The spec when it began: its workload and profile don't change.
    pub spec: Box<FailoverPlanSpec>,
    /// The profile as it was when the guard began.
    pub profile: Box<WorkloadProfileSpec>,
    /// The binding of the workload.
    pub binding: BindingId,
    /// The uid of the workload's template.
    pub template_uid: String,
    /// Counts the times that the guard was put up; with the sequence it makes the marker.
    pub round: u32,
    /// How far the pin is.
    #[serde(flatten)]
    pub pin: PinState,
    /// Who may write according to that pin; absent: no cluster.
    pub writer: Option<ClusterName>,
    /// What the claim lets the binding list; empty: whatever Karmada chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterName>,
    /// Clusters that carry the suspend patches besides the hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<ClusterName>,
    /// What the writer carries beyond the template: the state that it was started from. Dropped when it makes no difference.
    pub carried: Option<BTreeMap<String, String>>,
    /// What the secret ones among the handles are. Nothing else has them: neither Git nor any message.
    #[serde(default, skip_serializing_if = "SecretHandles::is_empty")]
    pub secrets: SecretHandles,
    /// The writer had a state of its own, and this number orders it to begin again from what it carries.
    pub redeploy: Option<u32>,
    /// What keeps Karmada's scheduler and failover away, and what was taken off the binding for that.
    #[serde(default)]
    pub fence: Fence,
    /// Which clusters are meant by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<ClusterName, String>,
    /// What selects the pods of the workload.
    pub pods: Option<String>,
    /// Where pods of the workload have been seen, of the run that is going on, and not seen to end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<ClusterName, BTreeSet<String>>,
    /// The run that was last seen well in a cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<ClusterName, String>,
    /// The copy that may write, as it was last seen.
    pub copy: Option<WriterCopy>,
    /// Who has the claim for now.
    pub lent: Option<ClaimOwner>,
    /// What guests of the claim say, as the pin of this sequence includes it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub guests: BTreeMap<String, Differences>,
    /// The failover that is under way.
    pub flight: Option<Flight>,
    /// Why the guard comes off.
    pub ending: Option<String>,
    /// The effects of the current pass, before they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
}

/// The copy that may write: another one, or other pods of it, may know less than it had written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriterCopy {
    /// The cluster that the copy is in.
    pub cluster: ClusterName,
    /// The uid of the copy.
    pub uid: String,
    /// The pods with which its run would lose its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Starts>,
}

/// One failover while it is under way.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Flight {
    /// The cluster that the workload leaves.
    pub from: ClusterName,
    /// The cluster that it goes to; none while that isn't decided.
    pub to: Option<ClusterName>,
    /// Why: what Karmada said of the eviction, or the reason of the request.
    pub reason: String,
    /// Who asked for it; absent where Karmada decided, or where the request names no person.
    pub by: Option<String>,
    /// When the failover was first noticed or asked for.
    pub since: Timestamp,
    /// A person asked for it: Karmada evicted no copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
    /// What Karmada is to do with the old copy.
    pub purge_mode: Option<PurgeMode>,
    /// The eviction tasks as they were first seen, by cluster: what is preserved in them stands nowhere else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "anything")]
    pub tasks: BTreeMap<ClusterName, serde_json::Value>,
    /// The labels that Karmada preserved of the old copy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved: BTreeMap<String, String>,
    /// The old copy is listed beside the new one, under the pin: to be stopped with its state, or kept.
    pub with_source: Option<bool>,
    /// The handles that the old copy had before it got the order to stop: none of them is a new one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handle_before: BTreeMap<String, String>,
    /// How long the old copy, which can be reached, was seen not to have stopped yet.
    pub stopping: Option<Watched>,
    /// How long it was looked for without a proof of whether it writes.
    pub unproved: Option<Watched>,
    /// The part of that in which fenced nodes would be an answer.
    pub cut_off: Option<Watched>,
    /// On whose word the old copy counts as harmless.
    pub fenced: Option<String>,
    /// How many words for it were refuted by what was seen of it since: only one more than that counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refuted: u32,
    /// How long the new copy was seen not to be well since it has the token.
    pub unwell: Option<Watched>,
    /// The new copy has had the token: whatever becomes of it, it may have run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// The state that the new copy starts from; absent until it is known.
    pub state: Option<MovedState>,
    /// What was seen so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// When the new copy was first seen healthy.
    pub up_since: Option<Timestamp>,
}

impl Intent for FailoverPlan {
    const KIND: &'static str = "FailoverPlan";
    type Rank = (u32, u32, u64, bool, Option<Timestamp>);

    fn rank(status: &FailoverPlanStatus) -> Self::Rank {
        let journal = status.journal.as_ref();
        let flight = journal.and_then(|journal| journal.flight.as_ref());
        (
            status.rounds,
            status.common.attempt,
            journal.map_or(0, |journal| journal.pin.seq),
            flight.is_some_and(|flight| flight.state.is_some()),
            status.last_known.as_ref().map(|known| known.at),
        )
    }

    fn forget_secrets(status: &mut FailoverPlanStatus) {
        if let Some(journal) = &mut status.journal {
            journal.secrets = SecretHandles::default();
        }
    }
}

impl FailoverJournal {
    /// Returns the format of what is written by it.
    pub fn format(&self) -> u32 {
        let guests = format::patches_of_guests(&self.guests);
        format::of_attempt(&self.profile, guests).max(format::of_pin(&self.pin))
    }
}

impl Progress for FailoverPlanStatus {
    phase_common_journal!(FailoverPhase, FailoverJournal);

    fn format(&self) -> u32 {
        self.journal
            .as_ref()
            .map_or(PLAIN_FORMAT, FailoverJournal::format)
    }

    fn standing(&self) -> Standing {
        match self.phase {
            FailoverPhase::Guarding | FailoverPhase::Lent => Standing::InForce,
            FailoverPhase::Completed => Standing::Done,
            FailoverPhase::Failed | FailoverPhase::Aborted => Standing::Failed,
            _ => Standing::UnderWay,
        }
    }
}

impl FailoverPlan {
    /// Returns the spec of what runs, else the one that is asked for: its workload is the one that is guarded.
    pub fn spec_in_force(&self) -> &FailoverPlanSpec {
        let journal = self.status.as_ref().and_then(|status| status.journal.as_ref());
        journal.map_or(&self.spec, |journal| &journal.spec)
    }
}

impl FailoverPlanSpec {
    /// Returns whether two specs guard the same workload in the same way; everything else may change at any time.
    pub fn guards_the_same(&self, other: &Self) -> bool {
        self.workload == other.workload && self.profile == other.profile
    }
}
