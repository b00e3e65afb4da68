//! `Migration`: move one workload, with its state, to another cluster. Its status is the write-ahead journal.

mod phase;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::common::{any_object, anything, is_zero, phase_common_journal};
use super::ended::{self, Stored};
use super::profile::WorkloadProfileSpec;
use super::{
    Approval, ApprovalGate, Assumption, ClaimOwner, Common, ENDED_FORMAT, Fact, Intent, PLAIN_FORMAT,
    PatchOp, PinState, PolicyName, Progress, SecretHandles, Standing, TimeSpan, Watched, Window, WorkloadRef,
    format,
};
use crate::units::milliseconds;
use cutover_karmada::name::ClusterName;
pub use phase::Phase;

/// Asks for a workload to run in another cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cutover.dev",
    version = "v1alpha1",
    kind = "Migration",
    plural = "migrations",
    shortname = "mig",
    category = "cutover",
    namespaced,
    status = "MigrationStatus",
    doc = "Moves one workload, with its state, to another cluster",
    printcolumn = r#"{"name":"Workload","type":"string","jsonPath":".spec.workload.name"}"#,
    printcolumn = r#"{"name":"From","type":"string","jsonPath":".status.source"}"#,
    printcolumn = r#"{"name":"To","type":"string","jsonPath":".spec.to"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Attempt","type":"integer","jsonPath":".status.attempt","priority":1}"#,
    printcolumn = r#"{"name":"Downtime","type":"string","jsonPath":".status.downtime","priority":1}"#,
    printcolumn = r#"{"name":"Waiting","type":"string","jsonPath":".status.waitingFor.reason"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MigrationSpec {
    /// The workload that moves.
    pub workload: WorkloadRef,
    /// The cluster that the workload leaves. Optional; when given it must be where the workload runs.
    pub from: Option<ClusterName>,
    /// The cluster that the workload goes to.
    pub to: ClusterName,
    /// In which order the copies stop and start. `StopFirst`, the default: the source stops with its state before the target
    /// runs, for stateful workloads. `StartFirst`: the target starts beside the source, for stateless ones.
    #[serde(default)]
    pub strategy: Strategy,
    /// The name of a WorkloadProfile; found by kind when absent.
    pub profile: Option<String>,
    /// What else changes in the target.
    #[serde(default)]
    pub changes: Changes,
    /// When the target counts as healthy.
    #[serde(default)]
    pub verify: Verify,
    /// What happens when a phase takes too long or the target fails. `RollBack`, the default: the source runs again, from the
    /// newest state. `Hold`: everything stays as it is, held, until `abort`.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Phases that wait for an approval before they begin.
    pub approval: Option<ApprovalGate>,
    /// What people have approved; `cutover approve` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// What people vouch for, or decide, where cutover can't see it; `cutover assume` writes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assume: Vec<Assumption>,
    /// Stops before the next step, and goes on when taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Rolls back; ignored after the commit point.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
    /// After this time a migration that is not committed rolls back.
    pub deadline: Option<Timestamp>,
    /// When the migration may begin; one that has begun goes on.
    pub window: Option<Window>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// Stops the source with its state before the target may run. For stateful workloads.
    #[default]
    StopFirst,
    /// Starts the target beside the source, and removes the source when the target is good. For stateless workloads.
    StartFirst,
}

/// What changes together with the move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Whether a template change in Git is taken along: the target runs the new template, the source the old one.
    #[serde(default = "yes")]
    pub template: bool,
    /// JSON patches of the template that go along; for a template that is not in Git. Only `add`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<PatchOp>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            template: true,
            patches: Vec::new(),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_no_time(millis: &u64) -> bool {
    *millis == 0
}

const fn yes() -> bool {
    true
}

/// When the target counts as good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// How long the target must be healthy without a break, for instance `60s`.
    #[serde(default = "default_healthy_for")]
    pub healthy_for: TimeSpan,
    /// How long the target may take to become healthy, for instance `10m`.
    #[serde(default = "default_timeout")]
    pub timeout: TimeSpan,
    /// What else must hold without a break, beside the profile's health.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// Something that must be true while the target soaks.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// CEL over `object`, the copy in the target as its API server has it, or what `of` names; with `prometheus`, over the number
    /// `value`.
    pub cel: String,
    /// An instant query of the Prometheus server that the reconciler is started with. `cel` must be true of every sample of
    /// the answer, and there must be one.
    pub prometheus: Option<String>,
    /// Another object that `cel` is about, in the workload's namespace of the same cluster: a canary, for instance. It must be
    /// there.
    pub of: Option<WorkloadRef>,
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            healthy_for: default_healthy_for(),
            timeout: default_timeout(),
            checks: Vec::new(),
        }
    }
}

fn default_healthy_for() -> TimeSpan {
    TimeSpan::seconds(60)
}

fn default_timeout() -> TimeSpan {
    TimeSpan::minutes(10)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The source runs again, from the newest state.
    #[default]
    RollBack,
    /// Everything stays as it is, held, until a person says `abort`.
    Hold,
}

/// What was observed and decided; written before every effect. One that has ended is stored in a form of its own: see `ended.rs`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, from = "Stored")]
#[schemars(!from, transform = ended::describe)]
pub struct MigrationStatus {
    /// The current phase.
    pub phase: Phase,
    #[serde(flatten)]
    pub common: Common,
    /// The cluster that the workload is moved from.
    pub source: Option<ClusterName>,
    /// The template change in Git that this attempt took along, or left unapplied when it rolled back.
    pub held_back: Option<HeldBack>,
    /// What Git changes of the policies that place the workload: it waits until the move is committed, and stays unapplied
    /// when that never comes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_policies: Vec<HeldPolicy>,
    /// How long no copy was seen running, in milliseconds, at the most: from the order to stop until the first look that saw
    /// a healthy copy, added up where that came about more than once. Set when the migration ends.
    pub downtime_ms: Option<u64>,
    /// The same as people read it, for instance `13.4 s`.
    pub downtime: Option<String>,
    /// What cutover needs in order to go on after a restart. No other client may read or write it.
    pub journal: Option<Journal>,
}

/// A template change in Git, by the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBack {
    /// The digest of what Git wants.
    pub hash: String,
    /// The Git revision that wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// A policy in Git that is not applied as it stands there, by the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldPolicy {
    /// The policy that is held back.
    pub policy: PolicyName,
    /// The digest of what Git wants it to be.
    pub hash: String,
}

/// The memory of the machine: all that a later pass needs and cannot observe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// The spec of this attempt; later changes are not obeyed.
    pub spec: Box<MigrationSpec>,
    /// The profile as it was when the migration began.
    pub profile: Arc<WorkloadProfileSpec>,
    /// The cluster that the workload is moved from.
    pub source: ClusterName,
    /// The cluster that it is moved to.
    pub target: ClusterName,
    /// The uid of the workload's template.
    pub template_uid: String,
    /// The digest of the template's spec, as it was seen last: no other client may change it during the operation.
    pub template_spec: Option<String>,
    /// The binding of the workload.
    pub binding: BindingId,
    /// The standing intent that lent the claim, and gets it back with the pin on.
    pub lender: Option<ClaimOwner>,
    /// How far the pin is.
    #[serde(flatten)]
    pub pin: PinState,
    /// Who may write according to that pin; absent: no cluster.
    pub writer: Option<ClusterName>,
    /// What the claim allows the binding to list.
    pub clusters: Vec<ClusterName>,
    /// Since when a copy that Karmada has forgotten is listed again, to be removed once more.
    pub fetching_since: Option<Timestamp>,
    /// How often that was tried.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetched: u32,
    /// Clusters that carry the suspend patches (with state) and not only the hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<ClusterName>,
    /// What keeps Karmada's scheduler and failover away, and what was taken off the binding for that.
    pub fence: Fence,
    /// The handle that the source had before it was suspended: never taken for a new one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handle_before: BTreeMap<String, String>,
    /// The newest state handle that a copy left when it stopped; absent until there is one.
    pub captured: Option<Capture>,
    /// What the secret ones among the handles are. Nothing else has them: neither Git nor any message.
    #[serde(default, skip_serializing_if = "SecretHandles::is_empty")]
    pub secrets: SecretHandles,
    /// What Git was seen to have of the attempt.
    #[serde(default, skip_serializing_if = "InGit::is_nothing")]
    pub in_git: InGit,
    /// What the source left when it was suspended, whatever has been captured since: another handle there means that it ran
    /// again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_handle: BTreeMap<String, String>,
    /// The source's copy as it was when its stop was proved: while that is the one, with that spec, it stays stopped whatever its operator
    /// says by then.
    pub stopped: Option<Offered>,
    /// Which clusters source and target were: another one may have joined under the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<ClusterName, String>,
    /// The uid of the source's copy: one with another uid was recreated, and has no state of its own.
    pub source_uid: Option<String>,
    /// The label selector of the workload's pods, where its profile asks for them.
    pub pods: Option<String>,
    /// Where pods of the workload have been seen: a node that isn't Ready may still run one that is gone from the API.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<ClusterName, BTreeSet<String>>,
    /// The template change that goes along; absent: there is none.
    pub template_change: Option<TemplateChange>,
    /// The target has been seen deployed: it may have newer state than the captured handle.
    #[serde(default)]
    pub target_ran: bool,
    /// The uid of the copy that was seen deployed: one with another uid was recreated, and lacks what that one wrote.
    pub target_uid: Option<String>,
    /// The starts of the pods with which the run of the one that may write would lose its state, as they were seen last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<ClusterName, Starts>,
    /// What was given the token: its operator may have begun to run it, whatever shows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub offered: BTreeMap<ClusterName, Offered>,
    /// When the phase began, moved on by the time of every pause.
    pub phase_since: Option<Timestamp>,
    /// Since when it is paused: that time doesn't count for the phase.
    pub paused_since: Option<Timestamp>,
    /// Since when the target is healthy, as far as the soak goes: who watches keeps the time, and this is for people.
    pub healthy_since: Option<Timestamp>,
    /// When the copy that ran got the order to stop.
    pub down_since: Option<Timestamp>,
    /// When a copy was first seen running after `downSince`; absent while none is.
    pub up_since: Option<Timestamp>,
    /// The time from `downSince` to `upSince` of earlier stops, in milliseconds.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub down_before_ms: u64,
    /// Past the commit point nothing is rolled back.
    #[serde(default)]
    pub committed: bool,
    /// The way back, once it has begun.
    pub roll_back: Option<RollBack>,
    /// What must not change when the pin is removed.
    pub run_id: Option<String>,
    /// The words of people that were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<UsedWord>,
    /// A person ends the migration without a look at the cluster that has the workload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
    /// Karmada has dropped the only cluster that had the workload, and a person vouches that nothing runs there: it ends without a
    /// look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// The effects of the current pass, before they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
}

/// Which pods a run goes with, as they were seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Starts {
    /// The generation of the copy: under another one its operator may have deployed it again.
    pub generation: i64,
    /// Each pod with its uid, and how often its containers were restarted.
    pub pods: BTreeSet<String>,
}

/// What Git was seen to have of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum InGit {
    #[default]
    Nothing,
    /// That it has begun.
    Opening,
    /// The next look asks: for the opening before anybody is stopped, later for the handle.
    Asked,
    /// The handle that goes with the token.
    Handle,
}

impl InGit {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

impl MigrationStatus {
    /// Notes how long no copy was seen running, for programs and for people.
    pub(crate) fn note_downtime(&mut self, millis: Option<u64>) {
        self.downtime_ms = millis;
        self.downtime = millis.map(milliseconds);
    }

    /// Returns the journal of an attempt of which something may have been written; the claim is the first.
    ///
    /// One that Preflight left when it had to wait is none: everything is looked at anew before the attempt begins.
    pub fn journal_in_force(&self) -> Option<&Journal> {
        let begun = !matches!(self.phase, Phase::Pending | Phase::Preflight);
        self.journal.as_ref().filter(|_| begun)
    }

    /// Returns the spec of the attempt that runs, else the one that is asked for: a spec that is edited during the operation must
    /// not make one workload pass for another.
    pub fn spec_in_force<'s>(&'s self, asked: &'s MigrationSpec) -> &'s MigrationSpec {
        self.journal_in_force().map_or(asked, |journal| &journal.spec)
    }
}

impl Intent for Migration {
    const KIND: &'static str = "Migration";
    // The template change that goes along.
    const TEMPLATES: &'static [&'static str] = &["/status/journal/templateChange"];
    type Rank = (u32, bool, u64, bool, usize);

    fn rank(status: &MigrationStatus) -> Self::Rank {
        let journal = status.journal.as_ref();
        (
            status.common.attempt,
            status.phase.is_terminal(),
            journal.map_or(0, |journal| journal.pin.seq),
            journal.is_some_and(|journal| journal.captured.is_some()),
            status.common.steps.len(),
        )
    }

    fn forget_secrets(status: &mut MigrationStatus) {
        if let Some(journal) = &mut status.journal {
            journal.secrets = SecretHandles::default();
        }
    }
}

impl Progress for MigrationStatus {
    phase_common_journal!(Phase, Journal);

    fn format(&self) -> u32 {
        match &self.journal {
            Some(journal) => journal.format(),
            // Its journal was taken out after the end: that stays known.
            None if self.phase.is_terminal() && self.common.format == ENDED_FORMAT => ENDED_FORMAT,
            None => PLAIN_FORMAT,
        }
    }

    fn folded(&self) -> Option<Value> {
        ended::folded(self)
    }

    fn standing(&self) -> Standing {
        match self.phase {
            Phase::Completed => Standing::Done,
            Phase::RolledBack | Phase::Failed | Phase::Aborted | Phase::EndedBefore => Standing::Failed,
            _ => Standing::UnderWay,
        }
    }
}

impl MigrationSpec {
    /// Returns what asks for a move and nothing more.
    pub fn of(workload: WorkloadRef, profile: Option<String>, to: ClusterName) -> Self {
        Self {
            workload,
            from: None,
            to,
            strategy: Strategy::default(),
            profile,
            changes: Changes::default(),
            verify: Verify::default(),
            on_failure: OnFailure::default(),
            approval: None,
            approvals: Vec::new(),
            assume: Vec::new(),
            paused: false,
            abort: false,
            deadline: None,
            window: None,
        }
    }
}

impl Migration {
    /// Returns the spec of the attempt that runs, else the one that is asked for.
    pub fn spec_in_force(&self) -> &MigrationSpec {
        self.status
            .as_ref()
            .map_or(&self.spec, |status| status.spec_in_force(&self.spec))
    }
}

impl Journal {
    /// Takes the handle that goes with the token from now on: Git was not seen to have it.
    pub fn capture(&mut self, captured: Capture) {
        self.captured = Some(captured);
        self.in_git = self.in_git.min(InGit::Opening);
    }

    /// Takes over what the source's own stop has left.
    pub fn capture_source(&mut self, captured: Capture) {
        self.source_handle = captured.values.clone();
        if let Some(back) = &mut self.roll_back {
            back.source_captured = true;
        }
        self.capture(captured);
    }

    /// Returns whether a copy that runs has pods all the time.
    pub fn has_pods(&self) -> bool {
        self.profile.no_pods.is_some() && !self.profile.pods_come_and_go() && self.binding.replicas != Some(0)
    }

    /// Returns whether the source's stopped copy shows the handle for as long as it isn't let run, or has none.
    pub fn handle_stays(&self) -> bool {
        self.profile.handle_stays || self.profile.capture.is_empty()
    }

    /// Returns whether Git is to have the handle before the target gets the token: nobody runs meanwhile. A person who is asked
    /// first may take long.
    pub fn records_handle_first(&self) -> bool {
        let gate = self.spec.approval.as_ref();
        !self.handle_stays() || gate.is_some_and(|gate| gate.before.contains(&Phase::Handoff))
    }

    /// Returns whether a copy has state that the handle it was given lacks: one that is recreated has lost it.
    pub(crate) fn copies_have_state(&self) -> bool {
        self.profile.stateful && !self.profile.capture.is_empty()
    }

    /// Returns the format of what is written by it.
    pub fn format(&self) -> u32 {
        let taken_along = self.template_change.iter().flat_map(|change| &change.overlay);
        let own = self.spec.changes.patches.iter().chain(taken_along);
        format::of_attempt(&self.profile, own).max(format::of_pin(&self.pin))
    }

    /// Returns the journal of an attempt of which nothing is known yet but what it is about.
    pub fn begin(
        spec: &MigrationSpec,
        profile: impl Into<Arc<WorkloadProfileSpec>>,
        source: ClusterName,
        binding: BindingId,
    ) -> Self {
        let profile: Arc<WorkloadProfileSpec> = profile.into();
        let kept = profile.for_move();
        Self {
            spec: Box::new(spec.clone()),
            profile: if kept == *profile { profile } else { Arc::new(kept) },
            target: spec.to.clone(),
            template_uid: String::new(),
            template_spec: None,
            binding,
            lender: None,
            pin: PinState::default(),
            writer: (spec.strategy == Strategy::StopFirst).then(|| source.clone()),
            clusters: vec![source.clone()],
            fetching_since: None,
            fetched: 0,
            suspended: Vec::new(),
            fence: Fence::default(),
            handle_before: BTreeMap::new(),
            captured: None,
            secrets: SecretHandles::default(),
            in_git: InGit::Nothing,
            source_handle: BTreeMap::new(),
            stopped: None,
            identities: BTreeMap::new(),
            source_uid: None,
            pods: None,
            nodes: BTreeMap::new(),
            template_change: None,
            target_ran: false,
            target_uid: None,
            starts: BTreeMap::new(),
            offered: BTreeMap::new(),
            phase_since: None,
            paused_since: None,
            healthy_since: None,
            down_since: None,
            up_since: None,
            down_before_ms: 0,
            committed: false,
            roll_back: None,
            run_id: None,
            words: Vec::new(),
            settled: false,
            dropped: false,
            planned: Vec::new(),
            source,
        }
    }

    /// Returns what of it is of use after the end, to tell how it went, to sweep, and to see whether the spec asks for something else.
    pub(super) fn trimmed(&self) -> Self {
        let captured = self.captured.as_ref().map(|captured| Capture {
            // A step has it.
            evidence: String::new(),
            ..captured.clone()
        });
        Self {
            lender: self.lender.clone(),
            pin: self.pin.clone().with(|pin| pin.created_fields.clear()),
            writer: self.writer.clone(),
            clusters: self.clusters.clone(),
            fence: Fence {
                canary: self.fence.canary,
                ..Fence::default()
            },
            captured,
            target_ran: self.target_ran,
            down_since: self.down_since,
            up_since: self.up_since,
            down_before_ms: self.down_before_ms,
            committed: self.committed,
            roll_back: self.roll_back.clone(),
            words: self.words.clone(),
            target: self.target.clone(),
            ..Self::begin(
                &self.spec,
                Arc::clone(&self.profile),
                self.source.clone(),
                self.binding.clone(),
            )
        }
    }

    /// Returns whether it is what is left of a journal after the end: that has no profile.
    pub fn is_trimmed(&self) -> bool {
        self.profile.applies_to.kinds.is_empty()
    }

    /// The copy that has the token is told to stop. If one was seen running since the last stop, that stop is over.
    pub fn goes_down(&mut self, now: Timestamp) {
        match self.down_since.zip(self.up_since.take()) {
            Some((down, up)) => {
                let millis = u64::try_from(up.duration_since(down).as_millis());
                self.down_before_ms += millis.unwrap_or_default();
                self.down_since = Some(now);
            }
            None => _ = self.down_since.get_or_insert(now),
        }
    }

    /// A copy is seen running.
    pub fn is_up(&mut self, now: Timestamp) {
        if self.down_since.is_some() {
            self.up_since.get_or_insert(now);
        }
    }

    /// Returns how long no copy was seen running, at the most; nothing where none was told to stop, or none was seen since.
    pub fn downtime_ms(&self) -> Option<u64> {
        let (down, up) = self.down_since.zip(self.up_since)?;
        let last = u64::try_from(up.duration_since(down).as_millis()).ok()?;
        Some(self.down_before_ms + last)
    }
}

/// A copy as it was at one moment: when its cluster was given the token, or when its stop was proved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offered {
    /// Absent: there was none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The generation of that copy; 0 where there was none.
    #[serde(default)]
    pub generation: i64,
    /// What came of the order to run, for a workload whose state is elsewhere.
    #[serde(default, skip_serializing_if = "RunOrder::is_unknown")]
    pub order: RunOrder,
}

impl Offered {
    /// Notes which copy was seen to run by the order. `keeps_first`: another copy than the one that was given it is reported first.
    pub(crate) fn note_seen(&mut self, uid: String, keeps_first: bool) {
        let is_another = self.uid.as_ref().is_some_and(|first| *first != uid);
        if !(keeps_first && is_another) {
            (self.uid, self.order) = (Some(uid), RunOrder::Seen);
        }
    }
}

/// What the operator of a copy was seen to make of the order to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunOrder {
    /// Nothing can be told: it was not proved that the copy had stopped before the order.
    #[default]
    Unknown,
    /// The copy had stopped before the order, or there was none, and it has not been seen to run since.
    Awaited,
    /// The copy was seen to run: what its operator says of a stop after that is about a later order.
    Seen,
}

impl RunOrder {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// Which binding, and what it was before the first effect.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingId {
    /// The name of the binding.
    pub name: String,
    /// The uid of the binding.
    pub uid: String,
    /// Label `resourcebinding.karmada.io/permanent-id`, or `clusterresourcebinding.karmada.io/permanent-id`.
    pub id: String,
    /// It is a `ClusterResourceBinding`: the workload has no namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cluster_scoped: bool,
    /// How many replicas the binding gave the cluster that had the workload; absent where the binding counts none.
    pub replicas: Option<i64>,
    /// The group of the policy's `clusterAffinities` that keeps the target, where it has groups.
    pub target_affinity: Option<String>,
}

/// What was taken off a binding to keep others from moving it, to be put back exactly.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Fence {
    /// The state before the fence has been recorded below.
    pub recorded: bool,
    /// `spec.failover` of the binding, taken off so that Karmada doesn't fail over by itself; absent: there was none.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub failover: Option<Value>,
    /// The annotation `policy.karmada.io/applied-placement`, verbatim.
    pub applied_placement: Option<String>,
    /// Names the canary of the barrier; a new one for every barrier.
    pub canary: u32,
    /// The generation of the binding at which the suspension was, or is to be, added that the canary proves something about.
    pub suspending: Option<i64>,
    /// What shows that the scheduler has nothing left to do for the workload.
    pub barrier: Option<Barrier>,
    /// Whether the API server itself refuses what would move the workload.
    pub admission: Option<AdmissionTest>,
    /// Taking the fence down has begun: what it had taken off is put back.
    pub lowered: bool,
    /// Scheduling has been resumed with the pin still on.
    pub resumed: bool,
    /// What keeps a copy that leaves the binding from being deleted; only where that would lose state.
    pub belt: Option<Belt>,
}

/// `preserveResourcesOnDeletion` on the binding: whoever takes a cluster out of it doesn't delete the copy there.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Belt {
    /// What the binding said before, to be put back exactly.
    pub preserve: Option<bool>,
    /// It was seen on the source's Work: from then on the copy there is safe.
    pub shown: bool,
    /// It is being taken off: the copy that leaves the binding next is to be deleted.
    #[serde(rename = "lifting")]
    pub off: bool,
    /// What `conflictResolution` was before it became Overwrite, for a dropped copy to be taken up again.
    pub overwrites: Option<String>,
}

/// What dry-runs have shown of the admission fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionTest {
    /// Since when it is so.
    pub since: Timestamp,
    /// What the API server refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Guard>,
    /// What it lets pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Guard>,
    /// What could not be tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownGuard>,
}

/// One policy of the admission fence, by what it guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Guard {
    /// The clusters of a claimed binding.
    Bindings,
    /// Works of a claimed workload, without its marker.
    Works,
    /// Override policies that would be applied after a pin.
    Overrides,
    /// Claims and pins themselves.
    Claims,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownGuard {
    /// The policy that could not be tried.
    pub guard: Guard,
    /// Why it isn't known whether it holds.
    pub why: String,
}

impl Guard {
    pub const ALL: [Self; 4] = [Self::Bindings, Self::Works, Self::Overrides, Self::Claims];

    /// Returns the name of the policy, and of its binding.
    pub const fn policy(self) -> &'static str {
        match self {
            Self::Bindings => "cutover-bindings",
            Self::Works => "cutover-works",
            Self::Overrides => "cutover-overrides",
            Self::Claims => "cutover-claims",
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bindings => "bindings",
            Self::Works => "works",
            Self::Overrides => "overrides",
            Self::Claims => "claims and pins",
        })
    }
}

impl AdmissionTest {
    /// Returns whether a guard was seen to refuse what it should.
    pub fn refuses(&self, guard: Guard) -> bool {
        self.refused.contains(&guard)
    }

    /// Returns whether all of it stands.
    pub fn stands(&self) -> bool {
        Guard::ALL.iter().all(|guard| self.refuses(*guard))
    }

    /// Returns whether two tests have shown the same, whenever that was.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let other = Self {
            since: self.since,
            ..other.clone()
        };
        *self == other
    }
}

/// The scheduler has observed a binding that was created after the suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Barrier {
    /// Empty: none may be created, and the admission fence stands in for it.
    pub canary: String,
    /// When the barrier was passed.
    pub passed_at: Timestamp,
    /// A barrier is good for one process of each controller.
    pub leases: BTreeMap<String, LeaseSeen>,
}

/// Who held a controller's lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSeen {
    /// The `holderIdentity` of the lease; absent: no process held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The `leaseTransitions` of the lease: how often its holder has changed.
    pub transitions: i64,
}

/// A person's word that was used, and at what cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsedWord {
    /// What was said.
    pub fact: Fact,
    /// The cluster that it was about.
    pub cluster: ClusterName,
    /// The phase in which it was said.
    pub phase: Phase,
    /// Who said it.
    pub by: String,
    /// When it was used.
    pub at: Timestamp,
    /// What was given up with it, as it was offered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gives_up: String,
    /// The state handle that the workload goes on from by this word.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handle: BTreeMap<String, String>,
    /// It was used up: what came afterwards is no part of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spent: bool,
}

/// A state handle, with how it is known to be one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// The cluster that the state is of.
    pub from: ClusterName,
    /// The handles, by name.
    pub values: BTreeMap<String, String>,
    /// What was seen that makes them the right ones.
    pub evidence: String,
    /// When they were read.
    pub at: Timestamp,
}

/// A template change that was held back and goes to the target with the hand-over.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateChange {
    /// The digest of the manifest in Git, or of `spec.changes.patches`.
    pub hash: String,
    /// The Git revision that it is from.
    pub revision: Option<String>,
    /// What Git wants, as it will be applied in Cleanup; absent: the intent itself says what changes.
    #[serde(default)]
    #[schemars(schema_with = "anything")]
    pub manifest: Option<Value>,
    /// What makes the old template's spec the new one's; only `add`, so that it holds on either.
    pub overlay: Vec<PatchOp>,
}

/// Why and how far an attempt is rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollBack {
    /// Why it goes back.
    pub reason: String,
    /// The phase from which it goes back.
    pub from_phase: Phase,
    /// When the way back began.
    pub since: Timestamp,
    /// `RolledBack`, or `Aborted` when a person asked for it.
    pub ends_as: Phase,
    /// The source was suspended and must be restarted.
    pub restart: bool,
    /// The target had the token, and with it the state: what it has written since is the newest. One that ran without it,
    /// by another client's doing, began from nothing.
    #[serde(default = "yes")]
    pub handed_over: bool,
    /// The source restarts from the captured handle, which isn't the one that its copy has.
    #[serde(default)]
    pub from_handle: bool,
    /// The captured handle is what the target's last stop left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub target_captured: bool,
    /// The captured handle is what the source's last stop left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub source_captured: bool,
    /// The target's last stop left no handle: what it wrote is in its cluster alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_state: bool,
    /// How far the way back is.
    pub stage: RollBackStage,
    /// Since when the source has been seen able to take over from a target that was kept running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heir: Option<Watched>,
    /// How often the token was taken from a target that was kept running: each time the source is watched longer before that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub returns: u32,
}

/// What of a roll back has been decided; each stage is written before its first effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum RollBackStage {
    /// Nothing yet: whether the source can run again is being looked at.
    Begun,
    /// The token is nobody's, with a new sequence.
    Taken,
    /// The target could not be proved stopped and is taken out of the binding instead.
    Evicting,
    /// The source's copy, which has stopped, is taken out of the binding and created again, held: only a new one starts from the captured
    /// handle.
    Recreating,
    /// The token is the source's again.
    Returned,
    /// The token is, or becomes again, the target's: the source can't have it, and one copy has to run.
    Kept,
}
