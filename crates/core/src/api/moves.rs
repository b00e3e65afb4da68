//! What intents that move many workloads share ([`super::Evacuation`], [`super::Rebalance`]): which ones, where to, how many
//! at once, and how far they are.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::common::phase_common_journal;
use super::lifecycle::lifecycle;
use super::{Common, Eviction, Finding, Lifecycle, Progress, Standing, Verify, Window};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// The part of a spec that is about moves, whatever they are for.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MovesSpec {
    /// Where the workloads go.
    #[serde(default, skip_serializing_if = "Targets::is_default")]
    pub to: Targets,
    /// Which workloads move; absent: all.
    #[serde(default, skip_serializing_if = "Selection::is_everything")]
    pub select: Selection,
    /// Who goes first; then the rest. Of one rank what has state goes first, then what Karmada evicts first, then by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Rank>,
    /// How many workloads move at the same time.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub max_parallel: u32,
    /// How many moves may fail before nothing more is begun.
    #[serde(default)]
    pub max_failures: u32,
    /// What is done about workloads that can't be moved. `Wait`, the default: nothing begins until they can, or are not selected
    /// any more. `Leave`: they stay, and the others move.
    #[serde(default)]
    pub unmovable: Unmovable,
    /// When a workload counts as good where it was moved to.
    #[serde(default)]
    pub verify: Verify,
    /// Whether a person has to approve what was planned before the first workload moves.
    pub approval: Option<MovesGate>,
    /// What people have approved; `cutover approve` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<MovesApproval>,
    /// Begins no more moves until that is taken away; those that have begun come to their end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Begins no more moves, and rolls back those that are not past their commit point.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abort: bool,
    /// After this time no move begins, and those that are not past their commit point are rolled back.
    pub deadline: Option<Timestamp>,
    /// When moves may begin; one that has begun goes on.
    pub window: Option<Window>,
}

const fn one() -> u32 {
    1
}

impl Default for MovesSpec {
    fn default() -> Self {
        Self {
            to: Targets::default(),
            select: Selection::default(),
            order: Vec::new(),
            max_parallel: one(),
            max_failures: 0,
            unmovable: Unmovable::default(),
            verify: Verify::default(),
            approval: None,
            approvals: Vec::new(),
            paused: false,
            abort: false,
            deadline: None,
            window: None,
        }
    }
}

impl MovesSpec {
    /// Returns the spec without its control fields, which never make a new attempt.
    #[must_use]
    pub fn bare(&self) -> Self {
        Self {
            approvals: Vec::new(),
            paused: false,
            abort: false,
            deadline: None,
            window: None,
            ..self.clone()
        }
    }
}

/// Where workloads go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Targets {
    /// Only to these; none: to any that the workload's policy allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterName>,
    /// How one of several clusters is chosen. `LeastLoaded`, the default: the one of which the smallest share is requested, with
    /// the workload. `Scheduler`: the one that Karmada's scheduler puts first.
    #[serde(default)]
    pub choose: Choose,
}

impl Targets {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which one of several clusters that would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Choose {
    /// The one of which the smallest share is asked for, with the workload.
    #[default]
    LeastLoaded,
    /// The one that Karmada's scheduler puts first: the first group of affinities that fits, then where most replicas fit.
    Scheduler,
}

/// Which workloads are meant. Everything that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// `FlinkDeployment`, or `FlinkDeployment.flink.apache.org`; none: every kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// On the templates, as `kubectl -l` takes it: `tier=critical,team in (a, b)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// None: every namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

impl Selection {
    /// Returns whether kind and namespace are meant; labels are the template's.
    pub fn may_take(&self, group: &str, kind: &str, namespace: Option<&str>) -> bool {
        let is_kind = |wanted: &String| match wanted.split_once('.') {
            Some((wanted, of)) => wanted == kind && of == group,
            None => wanted == kind,
        };
        let is_namespace = |wanted: &String| Some(wanted.as_str()) == namespace;
        (self.kinds.is_empty() || self.kinds.iter().any(is_kind))
            && (self.namespaces.is_empty() || self.namespaces.iter().any(is_namespace))
    }

    fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// One rank of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rank {
    /// As `kubectl -l` takes it.
    #[schemars(length(min = 1))]
    pub label_selector: String,
}

/// What is done as long as there are workloads that can't be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unmovable {
    /// Nothing begins, until they can or are not selected any more.
    #[default]
    Wait,
    /// They stay, and the others move.
    Leave,
    /// They stay, the others move, and then they are tried again until this intent is aborted or deleted.
    Retry,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovesGate {
    /// `Moving` is the one phase that can wait.
    pub before: Vec<MovesPhase>,
}

/// A person's leave for one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovesApproval {
    /// The phase that may begin.
    pub phase: MovesPhase,
    /// The attempt that it is given for, as in `status.attempt`.
    pub attempt: u32,
    /// Who approved; free text, usually from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks for it")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Where an intent that moves many workloads stands.
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
pub enum MovesPhase {
    #[default]
    Pending,
    /// What would move where, and what can't, is looked at. Nothing is written.
    Preflight,
    Moving,
    /// It stands, and there is nothing to do at present.
    Watching,
    /// No move begins any more; those that have begun come to their end, and what was put up is taken down.
    Ending,
    Completed,
    Failed,
    Aborted,
}

lifecycle!(MovesPhase, |phase| phase.is_terminal());

impl MovesPhase {
    /// Returns whether nothing more will be done in this attempt.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Aborted)
    }
}

/// What was observed and decided; written before every effect. `S` is the spec of the kind.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(serialize = "S: Serialize", deserialize = "S: serde::de::DeserializeOwned")
)]
pub struct MovesStatus<S> {
    /// The current phase.
    pub phase: MovesPhase,
    #[serde(flatten)]
    pub common: Common,
    /// The clusters that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterName>,
    /// How many workloads have moved, of how many; absent where none is to move.
    pub progress: Option<Tally>,
    /// What moves, in the order in which it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// How many more are to be moved: they are listed when those of the list have been.
    #[serde(skip_serializing_if = "is_none")]
    pub later: u32,
    /// What can't be moved, or isn't.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<Stay>,
    /// How many more stay than are listed.
    #[serde(skip_serializing_if = "is_none")]
    pub more_stays: u32,
    /// What cutover needs in order to go on after a restart. No other client may read or write it.
    pub journal: Option<MovesJournal<S>>,
}

// Derived, it would ask for a default of the spec.
impl<S> Default for MovesStatus<S> {
    fn default() -> Self {
        Self {
            phase: MovesPhase::default(),
            common: Common::default(),
            clusters: Vec::new(),
            progress: None,
            moves: Vec::new(),
            later: 0,
            stays: Vec::new(),
            more_stays: 0,
            journal: None,
        }
    }
}

/// How far it is: `done` of `of`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Those that have moved.
    pub done: u32,
    /// All that are to move.
    pub of: u32,
    /// Those that move at the moment.
    pub moving: u32,
    /// Those that could not be moved.
    pub failed: u32,
}

/// Names a workload from anywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadName {
    /// For instance `apps/v1`.
    pub api_version: String,
    /// For instance `Deployment`.
    pub kind: String,
    /// Its namespace; none for a kind of cluster scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl WorkloadName {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.api_version, &self.kind)
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.gvk().group,
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key().place())
    }
}

/// One workload on its way.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The workload.
    pub workload: WorkloadName,
    /// The cluster that it leaves.
    pub from: ClusterName,
    /// Absent: Karmada's scheduler says.
    pub to: Option<ClusterName>,
    /// How it is moved.
    pub means: Means,
    /// How far it is.
    pub state: MoveState,
    /// What Preflight of its Migration would come to has been looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked: bool,
    /// What blocks it, as far as that can be seen before it begins.
    pub blocked: Option<Finding>,
    /// The name of the object that carries it out: a Migration in the workload's namespace, or a `WorkloadRebalancer`. Of an
    /// eviction: what the binding is marked with.
    pub by: Option<String>,
    /// What it waits for, or what came of it.
    pub note: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How far it is, where this intent takes the workload away itself.
    pub eviction: Option<Box<Eviction>>,
}

/// How a workload is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Means {
    /// By a Migration that stops it with its state first.
    StopFirst,
    /// By a Migration that starts it there before it is taken away here.
    StartFirst,
    /// By a `WorkloadRebalancer`: Karmada's scheduler redistributes its replicas.
    Reschedule,
    /// By an eviction task in its binding: it runs in other clusters as well, and is taken away here when those are ready.
    Evict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum MoveState {
    Waiting,
    /// What carries it out is being created, and does nothing yet.
    Starting,
    Moving,
    Moved,
    Failed,
}

impl MoveState {
    pub const fn is_under_way(self) -> bool {
        matches!(self, Self::Starting | Self::Moving)
    }

    pub const fn is_over(self) -> bool {
        matches!(self, Self::Moved | Self::Failed)
    }
}

/// A workload that stays where it is, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stay {
    /// The workload.
    pub workload: WorkloadName,
    /// The cluster that it stays in.
    pub cluster: ClusterName,
    /// Why it stays.
    pub why: Finding,
    /// It runs there, or may: the cluster isn't empty with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs: bool,
}

/// The memory of the machine: all that a later pass needs and cannot observe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    bound(serialize = "S: Serialize", deserialize = "S: serde::de::DeserializeOwned")
)]
pub struct MovesJournal<S> {
    /// The spec of this attempt; later changes are not obeyed, but for control fields.
    pub spec: Box<S>,
    /// The clusters that carry, or are about to carry, the taint of this intent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cordoned: Vec<ClusterName>,
    /// Counts the rounds of one that stands: names of children never come back.
    #[serde(default)]
    pub round: u32,
    /// How many moves of this round are over and not listed any more.
    #[serde(default, skip_serializing_if = "is_none")]
    pub forgotten: u32,
    /// What brought the present round about.
    pub because: Option<String>,
    /// The clusters that were there when it last had nothing to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<ClusterName>,
    /// What ends it, once it ends.
    pub ending: Option<MovesEnding>,
    /// The effects of the current pass, before they are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<String>,
}

/// Why it ends, and as what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MovesEnding {
    /// Why no more workloads are moved.
    pub reason: String,
    /// The phase in which it ends.
    pub ends_as: MovesPhase,
    /// Moves that have begun are rolled back.
    pub turns_back: bool,
}

/// Attempt, whether it has ended, round, and how many moves are over.
pub(super) type MovesRank = (u32, bool, u32, u32);

pub(super) fn moves_rank<S>(status: &MovesStatus<S>) -> MovesRank {
    let tally = status.progress.as_ref();
    (
        status.common.attempt,
        status.phase.is_terminal(),
        status.journal.as_ref().map_or(0, |journal| journal.round),
        tally.map_or(0, |tally| tally.done.saturating_add(tally.failed)),
    )
}

impl<S> Progress for MovesStatus<S>
where
    S: Clone + PartialEq + Serialize + serde::de::DeserializeOwned + Send + Sync,
{
    phase_common_journal!(MovesPhase, MovesJournal<S>);

    fn standing(&self) -> Standing {
        match self.phase {
            MovesPhase::Watching => Standing::InForce,
            MovesPhase::Completed => Standing::Done,
            MovesPhase::Failed | MovesPhase::Aborted => Standing::Failed,
            _ => Standing::UnderWay,
        }
    }
}
