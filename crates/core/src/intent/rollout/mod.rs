//! Rollout: every change of a template goes cluster by cluster. First a pin that keeps each cluster at what it has, then the
//! template, then the clusters, wave by wave. At rest nothing of it stands around the workload.
//!
//! Sync leaves the template to it for as long as the intent is there: see [`super::hold_back`].

mod begin;
mod clusters;
mod flight;
mod goal;
mod other_managers;
mod pin;
mod take_down;
pub mod versions;
mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use goal::{Goal, goal};
pub use waves::waves;

use super::Step;
use super::check::Others;
use super::control_plane::{ControlPlane, Needs};
use super::custody;
use super::operation::{self, Kind, Next, Outcome, Wait};
use super::other_managers::OtherManager;
use super::seen::{NotKnown, Seen};
use super::warnings::{WARNS_AFTER, Warned};
use crate::api::{
    Finding, Rollout, RolloutCluster, RolloutClusterState as State, RolloutPhase as Phase, RolloutRevision,
    RolloutSpec, RolloutStatus, watched,
};
use crate::intent::check::Sampled;
use crate::intent::member::Member;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// How soon everything is looked at again at the latest, whatever is heard: while something is expected, and while only a person
/// or a commit can change something.
const LATER: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);

/// How long a Work may be missing before the pin is renewed, and with it every Work is made anew.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// A rollout as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, RolloutSpec, RolloutStatus, Snapshot>;

/// One pass's view: fresh reads.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Without a namespace, it is of cluster scope.
    pub workload: ObjectKey,
    pub plane: ControlPlane,
    /// What the template is to be; `None`: nobody says.
    pub goal: Seen<Option<Goal>>,
    /// What the live template would become by that; `None`: it is so already.
    pub rehearsed: Seen<Option<Value>>,
    /// The copies in the clusters that are judged.
    pub members: BTreeMap<ClusterName, Member>,
    /// What Prometheus says, by query.
    pub metrics: BTreeMap<String, Seen<Sampled>>,
    /// What checks are about beside the copies themselves.
    pub others: Others,
    /// Who applies the template beside this tool; read before something begins.
    pub other_managers: Vec<OtherManager>,
    /// What the Events of the cluster that [`troubled`] names warn of, where they were read.
    pub warned: Option<Warned>,
}

impl Snapshot {
    /// Nothing was read.
    pub fn unread(workload: ObjectKey, why: &str) -> Self {
        Self {
            workload,
            plane: ControlPlane::unread(why),
            goal: Seen::unread(why),
            rehearsed: Seen::unread(why),
            members: BTreeMap::new(),
            metrics: BTreeMap::new(),
            others: Others::new(),
            other_managers: Vec::new(),
            warned: None,
        }
    }
}

/// Returns what is read in the control plane. At rest, and with nothing to do, the template is all. `begins`: a change waits.
pub fn needs(status: &RolloutStatus, begins: bool) -> Needs {
    if status.journal.is_some() {
        // The journal has the profile.
        return around() | Needs::TEMPLATE;
    }
    if begins {
        return around() | Needs::TEMPLATE | Needs::PROFILES;
    }
    Needs::TEMPLATE
}

fn around() -> Needs {
    Needs::BINDING | Needs::WORKS | Needs::CLAIM | Needs::OVERRIDES | Needs::CLUSTERS
}

/// Returns the clusters whose copies are looked at: only those that have got something are judged.
pub fn judged(status: &RolloutStatus, plane: &ControlPlane) -> BTreeSet<ClusterName> {
    let (Some(journal), Ok(Some(binding))) = (&status.journal, plane.binding.get()) else {
        return BTreeSet::new();
    };
    let synced = custody::synced(binding).into_iter();
    match status.phase {
        Phase::Rolling | Phase::Halted | Phase::Finishing => synced
            .filter(|cluster| journal.released.contains_key(cluster))
            .collect(),
        Phase::Undoing => synced.collect(),
        _ => BTreeSet::new(),
    }
}

/// Returns the released cluster that is waited for, and has not been healthy for so long that its Events are read.
pub fn troubled(status: &RolloutStatus, now: Timestamp) -> Option<ClusterName> {
    let journal = status
        .journal
        .as_ref()
        .filter(|_| status.phase == Phase::Rolling)?;
    let is_waited_for = |one: &&RolloutCluster| matches!(one.state, State::Released | State::Soaking);
    let first = status.clusters.iter().find(is_waited_for)?;
    if first.state != State::Released || first.why.is_none() {
        return None;
    }
    let ill = journal.released.get(&first.name)?.ill.as_ref();
    (watched::elapsed(ill, now) >= WARNS_AFTER).then(|| first.name.clone())
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<RolloutStatus> {
    operation::step::<Rollout>(input)
}

type Operation<'a> = operation::Operation<'a, Rollout>;
type Interrupt = operation::Interrupt<Rollout>;

impl Kind for Rollout {
    type Spec = RolloutSpec;
    type Status = RolloutStatus;
    type Snapshot = Snapshot;
    type Scratch = ();
    type Own = Infallible;

    fn pass(operation: &mut Operation<'_>) -> Outcome<Self> {
        let outcome = if operation.status.journal.is_some() {
            operation.fly()
        } else {
            operation.rest()
        };
        outcome.map(|()| Next::Rest)
    }

    fn entered(operation: &mut Operation<'_>) {
        if let Some(journal) = &mut operation.status.journal {
            journal.phase_since = Some(operation.input.now);
        }
    }

    fn interrupted(_operation: &mut Operation<'_>, own: Infallible) {
        match own {}
    }

    /// How soon a rollout looks again without any change depends on how long it has waited.
    fn pace(operation: &Operation<'_>, wait: &Wait) -> Duration {
        operation.patience(wait, LATER, SELDOM)
    }

    fn last_warning(operation: &Operation<'_>) -> Option<String> {
        let cluster = troubled(&operation.status, operation.input.now)?;
        operation.newest_warning(&cluster, operation.snapshot().warned.as_ref())
    }

    fn close(operation: &mut Operation<'_>) {
        let phase = operation.status.phase;
        if operation.status.journal.is_none() {
            operation.status.clusters.clear();
            operation.status.updated = None;
        }
        operation.say(&[
            ("Completed", phase == Phase::Completed),
            ("Progressing", !phase.is_at_rest() && phase != Phase::Halted),
            ("Halted", phase == Phase::Halted),
            ("Undone", phase == Phase::Undone),
        ]);
    }
}

impl Snapshot {
    /// Returns what was read of a member.
    fn member(&self, cluster: &ClusterName) -> Result<&Member, NotKnown> {
        let member = self.members.get(cluster);
        member.ok_or_else(|| NotKnown(format!("{cluster} was not read")))
    }
}

impl<'a> Operation<'a> {
    fn workload(&self) -> &'a ObjectKey {
        &self.snapshot().workload
    }

    fn revision(&self, name: &str) -> Result<&RolloutRevision, Interrupt> {
        let found = self.status.revision(name);
        found.ok_or_else(|| {
            Interrupt::Wait(format!(
                "manual intervention required: revision {name} is missing from the status: restore it"
            ))
        })
    }

    /// Takes a revision into the history, as the newest.
    fn remember(&mut self, content: Value, manifest: Value, git: Option<String>) -> String {
        let name = versions::revision_name(&content);
        let known = self.status.revisions.iter().position(|known| known.name == name);
        let mut revision = match known {
            Some(at) => self.status.revisions.remove(at),
            None => RolloutRevision {
                name: name.clone(),
                git: None,
                completed_at: None,
                undone: None,
                content: Value::Null,
                manifest: Value::Null,
            },
        };
        // The first commit that wanted it is the one by which it is known.
        revision.git = revision.git.or(git);
        revision.content = content;
        revision.manifest = manifest;
        self.status.revisions.insert(0, revision);
        name
    }

    fn find(&mut self, finding: Finding) {
        if !self.status.common.findings.contains(&finding) {
            self.status.common.findings.push(finding);
        }
    }
}
