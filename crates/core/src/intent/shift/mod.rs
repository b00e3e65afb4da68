//! `ReplicaShift`: replicas go from one cluster to another in steps, more there before fewer here.
//!
//! A pin says for every cluster how many replicas it has, whatever the template and the scheduler say. It takes replicas
//! away only with a [`Room`]: what was counted afresh, everywhere, shows that enough are ready without them.

mod anew;
mod asked;
mod back;
mod end;
mod fence;
mod moves;
mod notes;
mod predict;
mod preflight;
mod room;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use asked::refused;
pub use moves::goals;
pub use room::{Count, Room, Side};

use super::admission::Outcome;
use super::beside::Beside;
use super::custody::Due;
use super::effect::Effect;
use super::scalers::Scaler;
use super::seen::{NotKnown, Seen};
use super::world::Overrides;
use super::{Step, Trouble};
use crate::api::{
    Claim, Finding, Guard, LeaseSeen, OnFailure, ReplicaShiftSpec, ReplicaShiftStatus, ShiftBack,
    ShiftJournal, ShiftPhase as Phase, Suspension, WaitCode, WorkloadProfile,
};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, OverridePolicy, PropagationPolicy, ResourceBinding, Work};

/// How long a Work may be missing that Karmada is to make.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// How soon it is looked again while something is expected of the members.
const SOON: Duration = Duration::from_millis(500);
/// How soon while nothing but time or a person is waited for.
const LATER: Duration = Duration::from_secs(2);
/// How soon while it rests.
const SELDOM: Duration = Duration::from_secs(30);
/// A time that comes is waited for at least as long, because clocks are coarse.
const BRIEF: Duration = Duration::from_millis(10);

/// A shift as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, ReplicaShiftSpec, ReplicaShiftStatus, World>;

/// One pass's view: fresh reads, the control plane before any member.
#[derive(Clone, Debug)]
pub struct World {
    pub workload: ObjectKey,
    pub template: Seen<Option<Value>>,
    /// Who applies it beside this tool; read before anything begins, where the template is to be changed.
    pub beside: Vec<Beside>,
    /// The replicas that Git wants the template to have; none when Git doesn't say.
    pub wanted_in_git: Seen<Option<u32>>,
    pub binding: Seen<Option<ResourceBinding>>,
    pub works: Seen<BTreeMap<ClusterName, Work>>,
    /// The policy that has taken the template up.
    pub policy: Seen<Option<PropagationPolicy>>,
    pub claim: Seen<Option<Claim>>,
    pub pin: Seen<Option<OverridePolicy>>,
    pub overrides: Seen<Overrides>,
    pub clusters: Seen<Arc<BTreeMap<ClusterName, Cluster>>>,
    /// The binding of the canary that the journal names.
    pub canary: Seen<Option<ResourceBinding>>,
    /// By name of the controller.
    pub leases: Seen<BTreeMap<String, LeaseSeen>>,
    pub profiles: Seen<Vec<WorkloadProfile>>,
    /// What scales the workload by itself, and where.
    pub autoscalers: Seen<Vec<Scaler>>,
    /// The copy in every cluster that is involved.
    pub members: BTreeMap<ClusterName, Seen<Option<Value>>>,
    /// The pods of the template, where it runs itself: whether each is ready; none of those that are being deleted.
    pub own_pods: Seen<Vec<bool>>,
    /// The Suspension that was asked for afterwards.
    pub suspension: Seen<Option<Suspension>>,
    /// What came of trying what the admission fence must refuse, in the passes in which it is tried.
    pub admission: Option<Vec<(Guard, Outcome)>>,
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<ReplicaShiftStatus> {
    let mut machine = Machine {
        input,
        status: input.status.clone(),
        beside: Vec::new(),
        recheck: Some(SOON),
    };
    let mut effects = machine.pass();
    if machine.recheck != Some(Duration::ZERO) {
        effects.append(&mut machine.beside);
    }
    machine.status.common.observed_generation = input.generation;
    machine.note(&effects);
    Step {
        status: machine.status,
        effects,
        recheck: machine.recheck,
    }
}

/// Returns the name of the Suspension that a shift asks for afterwards.
pub fn suspension_name(shift: &str) -> String {
    format!("{shift}-suspends")
}

/// Returns how many replicas an object asks for; Kubernetes takes one where none is said.
pub fn replicas_of(object: &Value) -> Option<u32> {
    match object.pointer("/spec/replicas") {
        None | Some(Value::Null) => Some(1),
        Some(replicas) => replicas
            .as_u64()
            .and_then(|replicas| u32::try_from(replicas).ok()),
    }
}

/// What a phase comes to when all its goals are met.
enum Next {
    Enter(Phase, Vec<String>),
    /// The journal has changed: write it, then look again.
    Again,
}

/// Why a phase doesn't go on in this pass.
enum Stop {
    /// Something is sent; its effect is seen in a later pass.
    Act(Vec<Effect>),
    Wait(String),
    /// Only a person ends it.
    Ask(WaitCode, String),
    /// Nothing happens before that time.
    WaitUntil {
        reason: String,
        until: Timestamp,
        then: &'static str,
    },
    /// The journal has changed: write it, then look again.
    Again,
    Fail(Vec<Finding>),
}

impl From<NotKnown> for Stop {
    fn from(unknown: NotKnown) -> Self {
        Self::Wait(unknown.0)
    }
}

impl From<super::proof::NotProved> for Stop {
    fn from(why: super::proof::NotProved) -> Self {
        Self::Wait(why.to_string())
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
    status: ReplicaShiftStatus,
    /// What is to be sent as well, and isn't waited for.
    beside: Vec<Effect>,
    recheck: Option<Duration>,
}

impl<'a> Machine<'a> {
    fn pass(&mut self) -> Vec<Effect> {
        if self.status.phase.is_terminal() {
            return self.after_the_end();
        }
        if self.input.deleting && self.status.journal.is_none() {
            self.end(
                Phase::Aborted,
                vec!["deleted before anything was touched".to_owned()],
            );
            return Vec::new();
        }
        self.note_pause();
        self.note_counts();
        if self.turns_back() {
            return Vec::new();
        }
        self.note_admission();
        if let Err(stop) = self.meet_anew() {
            return self.settle(Err(stop));
        }
        if self.is_paused() {
            let stop = self.pause();
            return self.settle(Err(stop));
        }
        let outcome = match self.status.phase {
            Phase::Pending => self.pending(),
            Phase::Preflight => self.preflight(),
            Phase::Hold => self.hold(),
            Phase::Shifting => self.shifting(),
            Phase::Suspending => self.suspending(),
            Phase::Shifted => self.shifted(),
            Phase::RollingBack => self.roll_back(),
            Phase::Completed | Phase::RolledBack | Phase::Failed | Phase::Aborted => Ok(Next::Again),
        };
        self.settle(outcome)
    }

    fn settle(&mut self, outcome: Result<Next, Stop>) -> Vec<Effect> {
        match outcome {
            Ok(Next::Enter(phase, evidence)) => self.enter(phase, evidence),
            Ok(Next::Again) | Err(Stop::Again) => self.recheck = Some(Duration::ZERO),
            Err(Stop::Act(effects)) => {
                match self.input.trouble {
                    Some(trouble) => self.wait(WaitCode::Retry, again(trouble)),
                    None => self.status.common.waiting_for = None,
                }
                return effects;
            }
            Err(Stop::Wait(reason)) => self.wait(WaitCode::Evidence, reason),
            Err(Stop::Ask(code, reason)) => {
                self.wait(code, reason);
            }
            Err(Stop::WaitUntil { reason, until, then }) => {
                self.wait(WaitCode::Evidence, reason);
                if let Some(wait) = &mut self.status.common.waiting_for {
                    (wait.until, wait.then) = (Some(until), Some(then.to_owned()));
                }
                self.recheck = Some(self.left(until).min(SELDOM));
            }
            Err(Stop::Fail(findings)) => {
                self.status.common.findings.clone_from(&findings);
                let messages = findings.into_iter().map(|finding| finding.message);
                if self.status.journal.is_some() {
                    let reason = messages.collect::<Vec<_>>().join("; ");
                    self.wait(WaitCode::Evidence, reason);
                } else {
                    self.end(Phase::Failed, messages.collect());
                }
            }
        }
        Vec::new()
    }

    /// Goes back on request, at the deadline, or when a step has taken too long.
    fn turns_back(&mut self) -> bool {
        if self.status.phase == Phase::RollingBack {
            return false;
        }
        let now = self.input.now;
        let asked = if self.input.deleting {
            Some("the intent was deleted")
        } else if self.input.spec.abort {
            Some("abort was asked for")
        } else {
            None
        };
        if let Some(reason) = asked {
            self.begin_back(reason.to_owned(), Phase::Aborted);
            return true;
        }
        // What has gone has gone in time.
        if matches!(self.status.phase, Phase::Suspending | Phase::Shifted) {
            return false;
        }
        if self.input.spec.deadline.is_some_and(|deadline| now >= deadline) {
            self.begin_back("the deadline has passed".to_owned(), Phase::RolledBack);
            return true;
        }
        let late = self.ends_at().is_some_and(|ends| now >= ends);
        let Some(journal) = self.status.journal.as_ref().filter(|_| late) else {
            return false;
        };
        if journal.spec.on_failure == OnFailure::Hold {
            return false;
        }
        let waits = self.status.common.waiting_for.as_ref();
        let why = waits.map_or_else(String::new, |wait| format!(": {}", wait.reason));
        self.begin_back(
            format!(
                "the step to {} of {} took too long{why}",
                journal.goal, journal.amount
            ),
            Phase::RolledBack,
        );
        true
    }

    /// Returns when the present step has taken too long.
    fn ends_at(&self) -> Option<Timestamp> {
        let journal = self.status.journal.as_ref()?;
        let runs = matches!(self.status.phase, Phase::Hold | Phase::Shifting);
        let runs = runs && journal.rests_since.is_none() && !self.is_paused();
        let since = journal.step_since.filter(|_| runs)?;
        since.checked_add(journal.spec.timeout.length()).ok()
    }

    fn begin_back(&mut self, reason: String, ends_as: Phase) {
        let now = self.input.now;
        let Some(journal) = self.status.journal.as_mut() else {
            self.end(ends_as, vec![reason]);
            return;
        };
        journal.back = Some(ShiftBack {
            reason: reason.clone(),
            ends_as,
        });
        journal.rests_since = None;
        journal.step_since = Some(now);
        // What was about to be let go of is held on to until it is as it was.
        journal.fence.lowered = false;
        journal.pin.unpinning = false;
        self.enter(Phase::RollingBack, vec![reason]);
    }

    fn enter(&mut self, phase: Phase, evidence: Vec<String>) {
        self.status.phase = phase;
        self.status.common.enter(phase.name(), evidence, self.input.now);
        self.recheck = Some(Duration::ZERO);
    }

    fn end(&mut self, phase: Phase, evidence: Vec<String>) {
        self.status.phase = phase;
        self.status.common.end(evidence, self.input.now);
        self.recheck = Some(Duration::ZERO);
    }

    /// Nothing more is done; a spec that asks for something else is a new attempt.
    fn after_the_end(&mut self) -> Vec<Effect> {
        self.recheck = None;
        if let Err(Stop::Act(effects)) = self.sweep() {
            return effects;
        }
        let asked_before = self.status.journal.as_ref().map(|journal| &*journal.spec);
        let asked_anew = match asked_before {
            Some(spec) => !spec.asks_the_same(self.input.spec),
            None => self.status.common.observed_generation != self.input.generation,
        };
        if asked_anew && !self.input.deleting {
            let attempt = self.status.common.attempt;
            self.status = ReplicaShiftStatus::default();
            self.status.common.attempt = attempt;
            self.recheck = Some(Duration::ZERO);
        } else if self.input.has_finalizer {
            return vec![Effect::RemoveFinalizer];
        }
        Vec::new()
    }

    /// What was sent late, by a replica that stood still while another one brought the intent to its end, goes again.
    fn sweep(&mut self) -> Result<(), Stop> {
        if self.has_pin()? {
            self.custody().unpin()?;
        }
        self.custody().give_up()?;
        if self.world().canary.get()?.is_some() {
            let delete = self.scheduler().delete_canary(&self.journal()?.fence);
            return Err(Stop::Act(vec![delete]));
        }
        Ok(())
    }

    fn wait(&mut self, code: WaitCode, reason: String) {
        let code = if self.is_paused() { WaitCode::Pause } else { code };
        self.status.common.wait(code, reason, self.input.now);
        if self.recheck == Some(SOON) {
            self.recheck = Some(self.patience(code));
        }
        let Some(ends) = self.ends_at() else { return };
        let holds = self
            .status
            .journal
            .as_ref()
            .is_some_and(|journal| journal.spec.on_failure == OnFailure::Hold);
        if let Some(wait) = &mut self.status.common.waiting_for {
            let then = if holds {
                "stay as it is, until a person asks for abort"
            } else {
                "go back"
            };
            (wait.until, wait.then) = (Some(ends), Some(then.to_owned()));
        }
        let left = self.left(ends);
        self.recheck = self.recheck.map(|soon| soon.min(left));
    }

    /// News wake a shift; this is for what nobody tells. The longer something takes, the longer it may go unnoticed.
    fn patience(&self, code: WaitCode) -> Duration {
        let since = self.status.common.waiting_for.as_ref().map(|wait| wait.since);
        let age = since.map_or(SignedDuration::ZERO, |since| self.input.now.duration_since(since));
        let longest = if code.is_for_a_person() || self.status.journal.is_none() {
            SELDOM
        } else {
            LATER
        };
        (Duration::try_from(age).unwrap_or_default() / 10).clamp(SOON, longest)
    }

    fn left(&self, until: Timestamp) -> Duration {
        let left = Duration::try_from(until.duration_since(self.input.now)).unwrap_or_default();
        left.max(BRIEF)
    }

    fn is_paused(&self) -> bool {
        self.input.spec.paused && self.status.phase != Phase::RollingBack
    }

    /// Keeps up what stands, and does nothing else.
    fn pause(&mut self) -> Stop {
        let stands = self
            .status
            .journal
            .as_ref()
            .is_some_and(|journal| !journal.fence.lowered && !journal.pin.unpinning);
        let kept = match self.status.phase {
            Phase::Shifting | Phase::Suspending | Phase::Shifted if stands => self.stand(),
            _ => Ok(()),
        };
        match kept {
            Ok(()) | Err(Stop::Wait(_)) => Stop::Ask(WaitCode::Pause, "paused by the spec".to_owned()),
            Err(stop) => stop,
        }
    }

    fn world(&self) -> &'a World {
        self.input.world
    }

    fn workload(&self) -> &'a ObjectKey {
        &self.world().workload
    }

    fn journal(&self) -> Result<&ShiftJournal, Stop> {
        let journal = self.status.journal.as_ref();
        journal.ok_or_else(|| Stop::Wait("the journal is missing from the status".to_owned()))
    }

    fn journal_mut(&mut self) -> Result<&mut ShiftJournal, Stop> {
        let journal = self.status.journal.as_mut();
        journal.ok_or_else(|| Stop::Wait("the journal is missing from the status".to_owned()))
    }

    /// Returns the binding that the journal names: the same object, still there.
    fn binding(&self) -> Result<&'a ResourceBinding, Stop> {
        let journal = self.journal()?;
        match self.world().binding.get()? {
            Some(binding) if binding.metadata.uid.as_deref() == Some(&journal.binding.uid) => Ok(binding),
            Some(_) => Err(Stop::Wait(
                "the binding that Karmada has recreated to be taken over".to_owned(),
            )),
            None => Err(Stop::Wait(
                "the binding is gone: Karmada makes another one when the template is changed".to_owned(),
            )),
        }
    }

    fn template(&self) -> Result<&'a Value, Stop> {
        let template = self.world().template.get()?.as_ref();
        template.ok_or_else(|| {
            Stop::Wait("Karmada to delete the copies of the template, which was deleted".to_owned())
        })
    }

    /// Returns the side that replicas are taken from.
    fn from(&self) -> Result<Side, Stop> {
        Ok(Side::of(&self.journal()?.spec.from))
    }

    fn to(&self) -> Result<Side, Stop> {
        Ok(Side::Member(self.journal()?.spec.to.clone()))
    }

    /// Counts what every side has ready; of a side that can't be counted, why.
    fn counts(&self) -> BTreeMap<Side, Result<Count, NotKnown>> {
        let mut counts = BTreeMap::new();
        for (cluster, object) in &self.world().members {
            let count = object.get().and_then(|object| Count::of_copy(object.as_ref()));
            counts.insert(Side::Member(cluster.clone()), count);
        }
        let runs_here = self
            .status
            .journal
            .as_ref()
            .map_or(self.input.spec.from.control_plane, |journal| {
                journal.template_wanted.is_some()
            });
        if runs_here {
            let template = self.world().template.get();
            let count =
                template.and_then(|template| Count::of_pods(template.as_ref(), self.world().own_pods.get()?));
            counts.insert(Side::ControlPlane, count);
        }
        counts
    }

    /// Returns how many replicas a side is to have.
    fn wanted(&self, side: &Side) -> Result<u32, Stop> {
        let journal = self.journal()?;
        Ok(match side {
            Side::Member(cluster) => journal.wanted.get(cluster).copied().unwrap_or_default(),
            Side::ControlPlane => journal.template_wanted.unwrap_or_default(),
        })
    }

    /// Returns how many replicas a side had at the start.
    fn at_start(&self, side: &Side) -> Result<u32, Stop> {
        let journal = self.journal()?;
        Ok(match side {
            Side::Member(cluster) => journal.start.get(cluster).copied().unwrap_or_default(),
            Side::ControlPlane => journal.template_replicas,
        })
    }

    /// Plans another number of replicas for a side; the pin gets a new sequence.
    fn want(&mut self, side: &Side, replicas: u32) -> Result<(), Stop> {
        let now = self.input.now;
        let journal = self.journal_mut()?;
        match side {
            Side::Member(cluster) => {
                journal.wanted.insert(cluster.clone(), replicas);
                journal.pin.renew();
            }
            Side::ControlPlane => journal.template_wanted = Some(replicas),
        }
        journal.step_since.get_or_insert(now);
        Ok(())
    }
}

fn again(trouble: &Trouble) -> String {
    let hint = if trouble.no_canary {
        "; only a canary shows when the scheduler is done with the workload: allow it (docs/how-to/operate.md#rbac), or install the \
         admission fence (docs/how-to/operate.md#admission-fence), which makes it needless"
    } else {
        ""
    };
    format!("trying again: {}{hint}", trouble.text)
}
