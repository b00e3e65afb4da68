//! `FailoverPlan`: one writer, with its state, when Karmada or a person moves a workload in an emergency.
//! docs/how-to/fail-over.md is for users.
//!
//! A standing pin holds every cluster but the writer's, so what a failover creates elsewhere is born held. It is let go when
//! the old copy is proved harmless, from the state that is known of it. A pass looks for the first goal of its phase that
//! isn't met, so a pass after a crash does the same as a pass before it.

mod belt;
mod disarm;
mod fence;
mod fencing;
mod flight;
mod guard;
mod guests;
mod lend;
mod look;
mod needed;
mod newest;
mod old;
mod rebind;
mod redirect;
mod repair;
mod scalers;
mod secrets;
mod settle;
mod starts;
mod state;
#[cfg(test)]
mod tests;
mod token;
mod validate;
mod warned;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

pub use needed::{Needed, wants_needed};
pub use validate::validate;
pub use warned::troubled;

use super::Step;
use super::effect::Effect;
use super::operation::{self, Kind, Next, Outcome, Wait};
use super::record::Kept;
use super::seen::Seen;
use crate::api::{
    Capture, ClaimOwner, FailoverApproval, FailoverGate, FailoverPhase as Phase, FailoverPlan,
    FailoverPlanSpec, FailoverPlanStatus, Finding, OpenQuestion, SecretHandles, WaitCode, WorkloadRef,
};
use cutover_karmada::name::ClusterName;

/// How soon everything is looked at again, whatever is heard: while something is expected, and while nothing is.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(10);
/// The code of the finding that a newer state than the noted one may not have been seen.
pub(super) const NEWEST_UNSEEN: &str = "NewestStateUnseen";
/// The code of the finding that the newest state is deleted with the object that shows it.
pub(super) const NEWEST_DISPOSABLE: &str = "NewestStateDisposable";
/// How long something may be missing that Karmada makes by itself.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// A plan as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, FailoverPlanSpec, FailoverPlanStatus, Snapshot>;

/// One pass's view: fresh reads.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The workload, as every intent that pins it sees it.
    pub around: super::Snapshot,
    /// Migrations of the namespace, read afresh.
    pub migrations: Seen<Vec<Borrower>>,
    /// What the status branch has of this plan; read where it is asked for.
    pub kept: Seen<Option<FailoverPlanStatus>>,
    /// What may show a newer state of a copy than the copy itself; read while a plan guards, now and then.
    pub beside: BTreeMap<ClusterName, Beside>,
    /// What the clusters that it may fail over to have of what its profile selects by labels; looked for while a plan guards, seldom.
    /// `None`: nothing was looked for.
    pub needed: Option<Needed>,
}

/// The objects of each rule of `lastKnown` that is about others than the copy, by its place.
pub type Beside = BTreeMap<usize, Seen<Vec<Value>>>;

/// Returns the cluster in which others than the copy may show its newest state, and are to be looked at.
pub fn wants_beside<'s>(spec: &FailoverPlanSpec, status: &'s FailoverPlanStatus) -> Option<&'s ClusterName> {
    let journal = status.journal.as_ref()?;
    let asked = status.phase == Phase::Guarding && spec.capture.continuous;
    journal.writer.as_ref().filter(|_| asked)
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
    /// What the secret ones among its handles are.
    pub secrets: SecretHandles,
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<FailoverPlanStatus> {
    operation::step::<FailoverPlan>(input)
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

type Operation<'a> = operation::Operation<'a, FailoverPlan>;
type Interrupt = operation::Interrupt<FailoverPlan>;

/// A question that only a person's word answers.
pub(super) struct Question {
    gate: FailoverGate,
    cluster: ClusterName,
    reason: String,
}

fn question(gate: FailoverGate, cluster: ClusterName, reason: String) -> Interrupt {
    Interrupt::Own(Question {
        gate,
        cluster,
        reason,
    })
}

impl Kind for FailoverPlan {
    type Spec = FailoverPlanSpec;
    type Status = FailoverPlanStatus;
    type Snapshot = Snapshot;
    type Scratch = ();
    type Own = Question;

    fn pass(operation: &mut Operation<'_>) -> Outcome<Self> {
        let asked = std::mem::take(&mut operation.status.asks);
        let phase = operation.status.phase;
        operation.note_nodes();
        operation.note_copy();
        operation.note_refuted();
        operation.note_admission();
        operation.note_scalers();
        let outcome = operation
            .adopt_recreated_binding()
            .and_then(|()| operation.go_on());
        if operation.status.phase == phase {
            operation.keep_asking(asked, &outcome);
        }
        outcome.map(|()| Next::Rest)
    }

    fn rest(operation: &mut Operation<'_>) {
        operation.status.common.waiting_for = None;
        if operation.requeue_after == Some(SOON) {
            operation.requeue_after = Some(LATER);
        }
    }

    fn interrupted(operation: &mut Operation<'_>, question: Question) {
        operation.ask(question.gate, &question.cluster);
        operation.wait(Wait::new(WaitCode::Approval, question.reason));
    }

    fn fail(operation: &mut Operation<'_>, findings: Vec<Finding>) {
        operation.end_failed(Phase::Failed, findings);
    }

    fn without_journal() -> Interrupt {
        operation::journal_lost()
    }

    fn pace(operation: &Operation<'_>, wait: &Wait) -> Duration {
        match wait.until {
            Some(_) => SOON,
            None => operation.requeue_after.unwrap_or(SOON),
        }
    }

    fn last_warning(operation: &Operation<'_>) -> Option<String> {
        let around = operation.around();
        let cluster = troubled(&operation.status, around, operation.input.now)?;
        operation.newest_warning(&cluster, around.warned.as_ref())
    }

    fn is_paused(operation: &Operation<'_>) -> bool {
        operation.input.spec.paused
    }

    fn begins_again(operation: &Operation<'_>) -> bool {
        operation.is_unseen() && !operation.input.spec.abort
    }

    fn renewed(before: &mut FailoverPlanStatus) -> FailoverPlanStatus {
        FailoverPlanStatus {
            history: std::mem::take(&mut before.history),
            rounds: before.rounds,
            ..FailoverPlanStatus::default()
        }
    }

    /// A spec that is changed after the end is obeyed by a new attempt.
    fn observes(operation: &Operation<'_>) -> bool {
        !operation.status.phase.is_terminal() || operation.status.common.observed_generation == 0
    }

    fn secrets<'o>(operation: &'o Operation<'_>) -> Option<&'o SecretHandles> {
        operation.status.journal.as_ref().map(|journal| &journal.secrets)
    }

    fn close(operation: &mut Operation<'_>) {
        operation.keep_secrets();
        let phase = operation.status.phase;
        let journal = operation.status.journal.as_ref();
        operation.status.writer = journal.and_then(|journal| journal.writer.clone());
        operation.say(&[
            ("Guarding", matches!(phase, Phase::Guarding | Phase::Lent)),
            ("FailingOver", phase.in_flight()),
            ("Completed", phase == Phase::Completed),
            ("Failed", phase == Phase::Failed),
        ]);
        // What went before stands in the history.
        let steps = &mut operation.status.common.steps;
        let excess = steps.len().saturating_sub(STEPS);
        steps.drain(..excess);
    }
}

impl Operation<'_> {
    fn go_on(&mut self) -> Result<(), Interrupt> {
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
    fn keep_asking(&mut self, asked: Vec<OpenQuestion>, outcome: &Result<(), Interrupt>) {
        for question in asked {
            let stays = match outcome {
                Err(Interrupt::Requeue | Interrupt::Act(_)) => true,
                // Of old copies it is asked at the very end; a wait in flight has come to its question, or needs none.
                Err(Interrupt::Wait(_) | Interrupt::WaitFor(_)) => question.gate == FailoverGate::Purge,
                Ok(()) | Err(Interrupt::Own(_) | Interrupt::Fail(_)) => false,
            };
            let is_open = self.approved(question.gate, &question.cluster).is_none()
                && (question.gate != FailoverGate::Purge
                    || self.status.old_copies.contains_key(&question.cluster));
            if stays && is_open && !self.status.asks.contains(&question) {
                self.status.asks.push(question);
            }
        }
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

    /// Returns a copy of the plan as Git is to have it.
    fn keep(&self, subject: &str) -> Effect {
        let input = self.input;
        let mut plan = FailoverPlan::new(input.name, input.spec.clone());
        plan.metadata.namespace = input.namespace.map(str::to_owned);
        plan.metadata.uid = Some(input.uid.to_owned());
        Effect::Keep(Box::new(Kept::new(plan, self.status.clone(), subject)))
    }
}

/// How many phases the status tells of.
const STEPS: usize = 40;
