//! Rollout: every change of a template goes cluster by cluster. First a pin that keeps each cluster at what it has, then the
//! template, then the clusters, wave by wave. At rest nothing of it stands around the workload.
//!
//! Sync leaves the template to it for as long as the intent is there: see [`super::hold_back`].

mod begin;
mod beside;
mod clusters;
mod flight;
mod goal;
mod notes;
mod pin;
mod take_down;
pub mod versions;
mod waves;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use goal::{Goal, goal};
pub use waves::waves;

use super::Step;
use super::beside::Beside;
use super::check::Others;
use super::custody::Due;
use super::effect::Effect;
use super::proof::NotProved;
use super::seen::{NotKnown, Seen};
use super::world::{Member, Overrides, Sampled};
use crate::api::{
    Claim, Finding, RolloutJournal, RolloutPhase as Phase, RolloutRevision, RolloutSpec, RolloutStatus,
    WaitCode, WorkloadProfile,
};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, OverridePolicy, ResourceBinding, Work};

/// How soon everything is looked at again, whatever is heard: while something is expected, and while only a person or a commit
/// can change something.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);
/// A time that comes is waited for at least as long, because clocks are coarse.
const BRIEF: Duration = Duration::from_millis(10);

/// How long a Work may be missing before the pin is renewed, and with it every Work is made anew.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// A rollout as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, RolloutSpec, RolloutStatus, World>;

/// One pass's view: fresh reads.
#[derive(Clone, Debug)]
pub struct World {
    /// Without a namespace, it is of cluster scope.
    pub workload: ObjectKey,
    pub template: Seen<Option<Value>>,
    /// What the template is to be; `None`: nobody says.
    pub goal: Seen<Option<Goal>>,
    /// What the live template would become by that; `None`: it is so already.
    pub rehearsed: Seen<Option<Value>>,
    pub binding: Seen<Option<ResourceBinding>>,
    /// The Works of the binding, by the cluster they are for.
    pub works: Seen<BTreeMap<ClusterName, Work>>,
    pub claim: Seen<Option<Claim>>,
    pub pin: Seen<Option<OverridePolicy>>,
    pub overrides: Seen<Overrides>,
    pub clusters: Seen<Arc<BTreeMap<ClusterName, Cluster>>>,
    /// Read only before something begins.
    pub profiles: Seen<Vec<WorkloadProfile>>,
    /// The copies in the clusters that are judged.
    pub members: BTreeMap<ClusterName, Member>,
    /// What Prometheus says, by query.
    pub metrics: BTreeMap<String, Seen<Sampled>>,
    /// What checks are about beside the copies themselves.
    pub others: Others,
    /// Who applies the template beside this tool; read before something begins.
    pub beside: Vec<Beside>,
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<RolloutStatus> {
    let mut machine = Machine {
        input,
        status: input.status.clone(),
        recheck: Some(SOON),
    };
    let effects = machine.pass();
    machine.status.common.observed_generation = input.generation;
    machine.note(&effects);
    Step {
        status: machine.status,
        effects,
        recheck: machine.recheck,
    }
}

/// Why a pass goes no further.
enum Stop {
    Act(Vec<Effect>),
    Wait(String),
    /// A person, or a time, ends the wait.
    Gate {
        code: WaitCode,
        reason: String,
        until: Option<Timestamp>,
    },
    /// The journal has changed: write it, then look again.
    Again,
}

impl From<NotKnown> for Stop {
    fn from(unknown: NotKnown) -> Self {
        Self::Wait(unknown.0)
    }
}

impl From<NotProved> for Stop {
    fn from(why: NotProved) -> Self {
        Self::Wait(why.to_string())
    }
}

impl From<crate::profile::Error> for Stop {
    fn from(error: crate::profile::Error) -> Self {
        Self::Wait(error.to_string())
    }
}

impl From<Due> for Stop {
    fn from(due: Due) -> Self {
        match due {
            Due::Act(effects) => Self::Act(effects),
            Due::Wait(reason) => Self::Wait(reason),
            Due::Again => Self::Again,
        }
    }
}

struct Machine<'a> {
    input: &'a Input<'a>,
    status: RolloutStatus,
    recheck: Option<Duration>,
}

impl World {
    /// Returns what was read of a member.
    fn member(&self, cluster: &ClusterName) -> Result<&Member, NotKnown> {
        let member = self.members.get(cluster);
        member.ok_or_else(|| NotKnown(format!("{cluster} was not read")))
    }
}

impl<'a> Machine<'a> {
    fn pass(&mut self) -> Vec<Effect> {
        let outcome = if self.status.journal.is_some() {
            self.fly()
        } else {
            self.rest()
        };
        match outcome {
            Ok(()) => Vec::new(),
            Err(Stop::Again) => {
                self.recheck = Some(Duration::ZERO);
                Vec::new()
            }
            Err(Stop::Act(effects)) => {
                match self.input.trouble {
                    Some(trouble) => {
                        let reason = format!("trying again: {}", trouble.text);
                        self.wait(WaitCode::Retry, reason, None);
                    }
                    None => self.status.common.waiting_for = None,
                }
                effects
            }
            Err(Stop::Wait(reason)) => {
                self.wait(WaitCode::Evidence, reason, None);
                Vec::new()
            }
            Err(Stop::Gate { code, reason, until }) => {
                self.wait(code, reason, until);
                Vec::new()
            }
        }
    }

    /// News wake a rollout; how soon it looks again without any depends on how long it has waited.
    fn wait(&mut self, code: WaitCode, reason: String, until: Option<Timestamp>) {
        let now = self.input.now;
        self.status.common.wait(code, reason, now);
        let Some(wait) = &mut self.status.common.waiting_for else {
            return;
        };
        wait.until = until;
        let age = Duration::try_from(now.duration_since(wait.since)).unwrap_or_default();
        let longest = if code.is_for_a_person() || self.status.journal.is_none() {
            SELDOM
        } else {
            LATER
        };
        let patience = (age / 10).clamp(SOON, longest);
        let left = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        self.recheck = Some(left.map_or(patience, |left| left.max(BRIEF).min(patience)));
    }

    fn enter(&mut self, phase: Phase, evidence: Vec<String>) {
        let now = self.input.now;
        self.status.phase = phase;
        self.status.common.enter(phase.name(), evidence, now);
        if let Some(journal) = &mut self.status.journal {
            journal.phase_since = Some(now);
        }
    }

    fn world(&self) -> &'a World {
        self.input.world
    }

    fn workload(&self) -> &'a ObjectKey {
        &self.world().workload
    }

    fn journal(&self) -> Result<&RolloutJournal, Stop> {
        let journal = self.status.journal.as_ref();
        journal.ok_or_else(|| Stop::Wait("the journal is missing from the status".to_owned()))
    }

    fn journal_mut(&mut self) -> Result<&mut RolloutJournal, Stop> {
        let journal = self.status.journal.as_mut();
        journal.ok_or_else(|| Stop::Wait("the journal is missing from the status".to_owned()))
    }

    fn revision(&self, name: &str) -> Result<&RolloutRevision, Stop> {
        let found = self.status.revision(name);
        found.ok_or_else(|| Stop::Wait(format!("revision {name} is missing from the status: restore it")))
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
