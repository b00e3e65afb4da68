//! `FailoverPlan`: one writer, with its state, when Karmada or a person moves a workload in an emergency.
//! docs/how-to/fail-over.md is for users.
//!
//! A standing pin holds every cluster but the writer's, so what a failover creates elsewhere is born held. It is let go when
//! the old copy is proved harmless, from the state that is known of it. A pass looks for the first goal of its phase that
//! isn't met, so a pass after a crash does the same as a pass before it.

mod anew;
mod asked;
mod belt;
mod disarm;
mod fence;
mod fencing;
mod flight;
mod guard;
mod guests;
mod lend;
mod look;
mod old;
mod redirect;
mod repair;
mod scalers;
mod settle;
mod starts;
mod state;
#[cfg(test)]
mod tests;
mod token;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use asked::unfit;

use super::custody::Due;
use super::effect::Effect;
use super::proof::NotProved;
use super::record::Kept;
use super::seen::{NotKnown, Seen};
use super::{Step, Trouble};
use crate::api::{
    Capture, ClaimOwner, FailoverApproval, FailoverGate, FailoverPhase as Phase, FailoverPlanSpec,
    FailoverPlanStatus, Finding, OpenQuestion, Progress, WaitCode, WorkloadRef,
};
use cutover_karmada::name::ClusterName;

/// How soon everything is looked at again, whatever is heard: while something is expected, and while nothing is.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(10);
/// How long something may be missing that Karmada makes by itself.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// A plan as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, FailoverPlanSpec, FailoverPlanStatus, World>;

/// One pass's view: fresh reads.
#[derive(Clone, Debug)]
pub struct World {
    /// The workload, as every intent that pins it sees it.
    pub around: super::World,
    /// Migrations of the namespace, read afresh.
    pub migrations: Seen<Vec<Borrower>>,
    /// What the status branch has of this plan; read where it is asked for.
    pub kept: Seen<Option<FailoverPlanStatus>>,
}

/// A Migration that may want the claim, or has it.
#[derive(Clone, Debug)]
pub struct Borrower {
    pub owner: ClaimOwner,
    pub workload: WorkloadRef,
    /// It has begun nothing, and waits for nothing but the workload.
    pub waits: bool,
    pub ended: bool,
    /// The state that it took along.
    pub captured: Option<Capture>,
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<FailoverPlanStatus> {
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
    machine.note(&effects);
    Step {
        status: machine.status,
        effects,
        recheck: machine.recheck,
    }
}

/// Returns whether a status says something that has to be in Git before it goes on.
pub fn wants_record(status: &FailoverPlanStatus) -> bool {
    let unrecorded =
        |status: &FailoverPlanStatus| status.last_known.as_ref().is_some_and(|known| !known.recorded);
    match status.phase {
        Phase::Pending => status.journal.is_none() && status.common.started_at.is_none(),
        Phase::Guarding => unrecorded(status),
        Phase::Fencing => {
            let flight = status
                .journal
                .as_ref()
                .and_then(|journal| journal.flight.as_ref());
            flight.is_some_and(|flight| flight.state.is_some())
        }
        _ => false,
    }
}

/// Why a pass goes no further.
enum Stop {
    /// Something is sent; its effect is seen in a later pass.
    Act(Vec<Effect>),
    Wait(String),
    WaitUntil(String, Timestamp, &'static str),
    /// Only a person's word lets it go on.
    Ask(FailoverGate, ClusterName, String),
    /// The journal has changed: write it, then look again.
    Again,
    Fail(Vec<Finding>),
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

impl From<Due> for Stop {
    fn from(due: Due) -> Self {
        match due {
            Due::Act(effects) => Self::Act(effects),
            Due::Wait(reason) => Self::Wait(reason),
            Due::Again => Self::Again,
        }
    }
}

impl From<crate::profile::Error> for Stop {
    fn from(error: crate::profile::Error) -> Self {
        Self::Wait(format!("{error}: mend the WorkloadProfile"))
    }
}

struct Machine<'a> {
    input: &'a Input<'a>,
    status: FailoverPlanStatus,
    /// What is to be sent as well, and isn't waited for.
    beside: Vec<Effect>,
    recheck: Option<Duration>,
}

impl Machine<'_> {
    fn pass(&mut self) -> Vec<Effect> {
        if self.status.phase.is_terminal() {
            return self.after_the_end();
        }
        let (asked, phase) = (std::mem::take(&mut self.status.asks), self.status.phase);
        self.note_nodes();
        self.note_copy();
        self.note_refuted();
        self.note_admission();
        self.note_scalers();
        let outcome = self.meet_anew().and_then(|()| self.go_on());
        if self.status.phase == phase {
            self.keep_asking(asked, &outcome);
        }
        self.settle_pass(outcome)
    }

    fn go_on(&mut self) -> Result<(), Stop> {
        match self.status.phase {
            Phase::Pending => self.pending(),
            Phase::Arming => self.arming(),
            Phase::Guarding => self.guarding(),
            Phase::Lent => self.lent(),
            Phase::Evicted => self.evicted(),
            Phase::Fencing => self.fencing(),
            Phase::Releasing => self.releasing(),
            Phase::Settling => self.settling(),
            Phase::Disarming => self.disarming(),
            Phase::Completed | Phase::Failed | Phase::Aborted => Ok(()),
        }
    }

    /// What was asked stays asked when this pass was cut short before it came to ask again: whoever is about to answer would be
    /// told that there is no question.
    fn keep_asking(&mut self, asked: Vec<OpenQuestion>, outcome: &Result<(), Stop>) {
        for question in asked {
            let stays = match outcome {
                Err(Stop::Again | Stop::Act(_)) => true,
                // Of old copies it is asked at the very end; a wait in flight has come to its question, or needs none.
                Err(Stop::Wait(_) | Stop::WaitUntil(..)) => question.gate == FailoverGate::Purge,
                Ok(()) | Err(Stop::Ask(..) | Stop::Fail(_)) => false,
            };
            let is_open = self.approved(question.gate, &question.cluster).is_none()
                && (question.gate != FailoverGate::Purge
                    || self.status.old_copies.contains_key(&question.cluster));
            if stays && is_open && !self.status.asks.contains(&question) {
                self.status.asks.push(question);
            }
        }
    }

    fn settle_pass(&mut self, outcome: Result<(), Stop>) -> Vec<Effect> {
        let now = self.input.now;
        match outcome {
            Ok(()) => {
                self.status.common.waiting_for = None;
                if self.recheck == Some(SOON) {
                    self.recheck = Some(LATER);
                }
            }
            Err(Stop::Again) => self.recheck = Some(Duration::ZERO),
            Err(Stop::Act(effects)) => {
                match self.input.trouble {
                    Some(trouble) => self.wait(WaitCode::Retry, again(trouble)),
                    None => self.status.common.waiting_for = None,
                }
                return effects;
            }
            Err(Stop::Wait(reason)) => {
                let code = if self.input.spec.paused {
                    WaitCode::Pause
                } else {
                    WaitCode::Evidence
                };
                self.wait(code, reason);
            }
            Err(Stop::WaitUntil(reason, until, then)) => {
                self.wait(WaitCode::Evidence, reason);
                if let Some(wait) = &mut self.status.common.waiting_for {
                    (wait.until, wait.then) = (Some(until), Some(then.to_owned()));
                }
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                self.recheck = Some(left.clamp(Duration::from_millis(10), SOON));
            }
            Err(Stop::Ask(gate, cluster, reason)) => {
                self.ask(gate, &cluster);
                self.wait(WaitCode::Approval, reason);
            }
            Err(Stop::Fail(findings)) => {
                let evidence = findings.iter().map(|finding| finding.message.clone()).collect();
                self.status.common.findings = findings;
                self.end(Phase::Failed, evidence);
            }
        }
        Vec::new()
    }

    fn wait(&mut self, code: WaitCode, reason: String) {
        self.status.common.wait(code, reason, self.input.now);
    }

    /// Notes a question that a person can answer.
    fn ask(&mut self, gate: FailoverGate, cluster: &ClusterName) {
        let attempt = self.attempt_of(cluster);
        let question = OpenQuestion {
            gate,
            cluster: cluster.clone(),
            attempt,
        };
        if !self.status.asks.contains(&question) {
            self.status.asks.push(question);
        }
    }

    /// Returns who has answered a question with yes.
    fn approved(&self, gate: FailoverGate, cluster: &ClusterName) -> Option<String> {
        let refuted = usize::try_from(self.refuted(gate, cluster)).ok()?;
        let approval = self.approvals(gate, cluster).nth(refuted)?;
        Some(approval.by.clone().unwrap_or_else(|| "a person".to_owned()))
    }

    fn approvals(
        &self,
        gate: FailoverGate,
        cluster: &ClusterName,
    ) -> impl Iterator<Item = &FailoverApproval> {
        let attempt = self.attempt_of(cluster);
        let all = self.input.spec.approvals.iter();
        all.filter(move |approval| {
            approval.gate == gate && approval.cluster == *cluster && approval.attempt == attempt
        })
    }

    /// Returns how often a question has been answered with yes.
    fn answers(&self, gate: FailoverGate, cluster: &ClusterName) -> u32 {
        u32::try_from(self.approvals(gate, cluster).count()).unwrap_or(u32::MAX)
    }

    /// Returns how many of the answers count no more: what was seen of the copy later spoke against them.
    fn refuted(&self, gate: FailoverGate, cluster: &ClusterName) -> u32 {
        if gate != FailoverGate::Fenced {
            return 0;
        }
        let flight = self.flight().ok().filter(|flight| flight.from == *cluster);
        let old = || self.status.old_copies.get(cluster).map_or(0, |old| old.refuted);
        flight.map_or_else(old, |flight| flight.refuted)
    }

    /// A word about an old copy is bound to the failover that left it.
    fn attempt_of(&self, cluster: &ClusterName) -> u32 {
        let flies_from = self
            .flight()
            .is_ok_and(|flight| flight.from == *cluster || flight.to.as_ref() == Some(cluster));
        let old = self.status.old_copies.get(cluster).filter(|_| !flies_from);
        old.map_or(self.status.common.attempt, |old| old.attempt)
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

    /// Nothing more is done; a spec that guards something else begins anew.
    fn after_the_end(&mut self) -> Vec<Effect> {
        self.recheck = None;
        if self.input.deleting || self.status.common.observed_generation == self.input.generation {
            return if self.input.has_finalizer {
                vec![Effect::RemoveFinalizer]
            } else {
                Vec::new()
            };
        }
        if self.input.spec.abort {
            return Vec::new();
        }
        let (attempt, history) = (
            self.status.common.attempt,
            std::mem::take(&mut self.status.history),
        );
        let round = self.status.rounds;
        self.status = FailoverPlanStatus {
            history,
            rounds: round,
            ..FailoverPlanStatus::default()
        };
        self.status.common.attempt = attempt;
        self.recheck = Some(Duration::ZERO);
        Vec::new()
    }

    /// Returns a copy of the plan as Git is to have it.
    fn keep(&self, subject: &str) -> Effect {
        Effect::Keep(Box::new(Kept::of_failover_plan(
            self.input,
            &self.status,
            subject,
        )))
    }

    fn note(&mut self, effects: &[Effect]) {
        let (phase, now) = (self.status.phase, self.input.now);
        if !phase.is_terminal() || self.status.common.observed_generation == 0 {
            self.status.common.observed_generation = self.input.generation;
        }
        if let Some(journal) = &mut self.status.journal {
            journal.planned = effects.iter().map(ToString::to_string).collect();
            self.status.writer.clone_from(&journal.writer);
        } else {
            self.status.writer = None;
        }
        let standing = self.status.standing();
        let common = &mut self.status.common;
        let own = [
            ("Guarding", matches!(phase, Phase::Guarding | Phase::Lent)),
            ("FailingOver", phase.in_flight()),
            ("Completed", phase == Phase::Completed),
            ("Failed", phase == Phase::Failed),
        ];
        common.say(standing, phase.name(), &own, now);
        // The story of what went before stands in the history.
        let excess = common.steps.len().saturating_sub(STEPS);
        common.steps.drain(..excess);
    }
}

/// How many phases the status tells of.
const STEPS: usize = 40;

fn again(trouble: &Trouble) -> String {
    let hint = if trouble.no_canary {
        "; only a canary shows when the scheduler is done with the workload: allow it (docs/how-to/operate.md#rbac), or install the \
         admission fence (docs/how-to/operate.md#admission-fence), which makes it needless"
    } else {
        ""
    };
    format!("trying again: {}{hint}", trouble.text)
}
