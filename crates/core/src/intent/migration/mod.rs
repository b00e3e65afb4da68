//! Migration: moves one workload, with its state, to another cluster. docs/architecture.md tells the phases.
//!
//! Every phase is a list of goals. A pass looks for the first goal that isn't met and returns what brings it nearer; so a
//! pass after a crash does the same as a pass before it.

mod admission;
mod belt;
mod beside;
mod copies;
mod fence;
mod fight;
mod finish;
mod forgotten;
mod fork;
mod forward;
mod heir;
mod identity;
mod lapse;
mod lookup;
mod lost;
pub mod orphan;
mod pause;
mod preflight;
mod rebind;
mod recorded;
mod restored;
mod roll_back;
mod scalers;
mod starts;
mod token;
mod unseen;
mod wait;
pub mod watch;
mod words;

pub use words::asks_for_nodes;

pub(super) use finish::is_scheduled;
pub(super) use preflight::binding_findings;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::custody::Due;
use super::effect::Effect;
use super::proof::NotProved;
use super::record;
use super::seen::NotKnown;
use super::world::World;
use super::{Step, Trouble};
use admission::FENCE_CONDITION;
use beside::HELD_CONDITION;
pub(in crate::intent) use preflight::keeps_target;

use crate::api::{
    Condition, ConditionStatus, Fact, Finding, InGit, Journal, MigrationSpec, MigrationStatus, Offer,
    OnFailure, Phase, Progress, RollBack, RollBackStage, StepRecord, WaitCode,
};
use cutover_karmada::name::ClusterName;

/// How soon everything is looked at again, whatever is heard: in the beginning of a wait, while something is expected of the
/// members, and while only a person can change something.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);

/// How long a phase may take before it is rolled back.
fn limit(phase: Phase, spec: &MigrationSpec) -> Option<SignedDuration> {
    match phase {
        Phase::Hold | Phase::Expand => Some(SignedDuration::from_mins(5)),
        Phase::Capture => Some(SignedDuration::from_mins(15)),
        Phase::Handoff => Some(spec.verify.timeout.length()),
        Phase::Verify => Some(
            spec.verify
                .timeout
                .length()
                .saturating_add(spec.verify.healthy_for.length()),
        ),
        _ => None,
    }
}

/// A migration as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, MigrationSpec, MigrationStatus, World>;

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<MigrationStatus> {
    let mut machine = Machine {
        input,
        status: input.status.clone(),
        beside: Vec::new(),
        offers: RefCell::default(),
        used: RefCell::default(),
        recheck: Some(SOON),
    };
    let mut effects = machine.pass();
    machine.note_words();
    if machine.recheck != Some(Duration::ZERO) {
        effects.append(&mut machine.beside);
    }
    machine.status.observed_generation = input.generation;
    machine.note_plan(&effects);
    machine.note_conditions();
    Step {
        status: machine.status,
        effects,
        recheck: machine.recheck,
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
    /// Another intent has the workload, or goes first.
    Claimed(String),
    /// Nothing happens before that time.
    WaitUntil {
        reason: String,
        until: Timestamp,
        then: &'static str,
    },
    /// The journal has changed: write it, then look again.
    Again,
    RollBack(String),
    Fail(Vec<Finding>),
}

impl From<NotKnown> for Stop {
    fn from(unknown: NotKnown) -> Self {
        Self::Wait(unknown.0)
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

impl From<NotProved> for Stop {
    fn from(why: NotProved) -> Self {
        Self::Wait(why.to_string())
    }
}

impl From<crate::profile::Error> for Stop {
    fn from(error: crate::profile::Error) -> Self {
        Self::Fail(vec![Finding::new(
            "ProfileError",
            error.to_string(),
            "mend the WorkloadProfile",
        )])
    }
}

struct Machine<'a> {
    input: &'a Input<'a>,
    status: MigrationStatus,
    /// What is to be sent as well, and isn't waited for.
    beside: Vec<Effect>,
    /// The words of which this pass has found that they are accepted: what a sentence quotes of others adds none.
    offers: RefCell<Vec<Offer>>,
    /// The words on which this pass has built.
    used: RefCell<Vec<(Fact, ClusterName)>>,
    recheck: Option<Duration>,
}

impl Machine<'_> {
    fn pass(&mut self) -> Vec<Effect> {
        if self.status.phase.is_terminal() {
            return self.after_the_end();
        }
        if self.journal_is_lost() {
            let stop = self.without_journal();
            return self.settle(Err(stop));
        }
        if self.input.deleting && self.status.journal.is_none() {
            self.end(
                Phase::Aborted,
                vec!["deleted before anything was touched".to_owned()],
            );
            return Vec::new();
        }
        let policy = self.note_policy_change();
        if self.status.journal_in_force().is_none()
            && let Err(unknown) = policy
        {
            return self.settle(Err(unknown.into()));
        }
        self.note_spec_change();
        self.note_nodes();
        self.note_admission();
        self.note_template_change();
        self.note_scalers();
        self.note_starts();
        self.note_seen_running();
        let lapse = self.note_lapse();
        self.note_pause(lapse);
        if let Some(outcome) = self.went_back() {
            return self.settle(outcome);
        }
        if self.turns_back() {
            return Vec::new();
        }
        if self.is_lost() {
            let outcome = self.dissolve();
            return self.settle(outcome);
        }
        if let Err(stop) = self.rebind() {
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
            Phase::Expand => self.expand(),
            Phase::Capture => self.capture(),
            Phase::Handoff => self.handoff(),
            Phase::Verify => self.verify(),
            Phase::Cleanup => self.cleanup(),
            Phase::RollingBack => self.roll_back(),
            Phase::Completed | Phase::RolledBack | Phase::Failed | Phase::Aborted | Phase::EndedBefore => {
                Ok(Next::Again)
            }
        };
        self.settle(outcome)
    }

    fn settle(&mut self, outcome: Result<Next, Stop>) -> Vec<Effect> {
        match outcome {
            Ok(Next::Enter(phase, evidence)) => {
                if self.is_gated(phase) {
                    self.wait_for_approval(phase);
                    return Vec::new();
                }
                self.enter(phase, evidence);
            }
            Ok(Next::Again) | Err(Stop::Again) => self.recheck = Some(Duration::ZERO),
            Err(Stop::Act(effects)) => {
                match self.input.trouble {
                    Some(trouble) => self.wait_for(WaitCode::Retry, again(trouble)),
                    None => self.status.waiting_for = None,
                }
                return effects;
            }
            Err(Stop::Wait(reason)) => self.wait(reason),
            Err(Stop::Claimed(reason)) => self.wait_for(WaitCode::Claim, reason),
            Err(Stop::WaitUntil { reason, until, then }) => {
                self.wait(reason);
                if let Some(wait) = &mut self.status.waiting_for {
                    (wait.until, wait.then) = (Some(until), Some(then.to_owned()));
                }
                let left = self.left(until);
                // What is begun is looked after meanwhile.
                let watched = self.recheck.filter(|_| self.status.journal.is_some());
                self.recheck = Some(watched.map_or(left, |soon| soon.min(left)));
            }
            // Past the commit point there is no way back: what is wrong has to come right.
            Err(Stop::RollBack(reason)) if self.committed() => self.wait(reason),
            Err(Stop::RollBack(reason)) => self.begin_roll_back(reason, Phase::RolledBack),
            Err(Stop::Fail(findings)) => {
                let touched = self.status.journal_in_force().is_some();
                if touched {
                    for finding in &findings {
                        self.raise(finding.clone());
                    }
                } else {
                    self.status.findings.clone_from(&findings);
                }
                if touched && !self.committed() && self.status.phase != Phase::RollingBack {
                    self.begin_roll_back(messages(&findings), Phase::RolledBack);
                } else if touched {
                    self.wait(messages(&findings));
                } else {
                    self.end(
                        Phase::Failed,
                        findings.into_iter().map(|finding| finding.message).collect(),
                    );
                }
            }
        }
        Vec::new()
    }

    /// Rolls back on request, at the deadline, or when a phase has taken too long.
    fn turns_back(&mut self) -> bool {
        if self.committed() || self.status.phase == Phase::RollingBack {
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
            self.begin_roll_back(reason.to_owned(), Phase::Aborted);
            return true;
        }
        if self.input.spec.deadline.is_some_and(|deadline| now >= deadline) {
            self.begin_roll_back("the deadline has passed".to_owned(), Phase::RolledBack);
            return true;
        }
        let Some(journal) = &self.status.journal else {
            return false;
        };
        let phase = self.status.phase;
        // What waits for Git before anybody is stopped goes on waiting.
        let waits_for_git = matches!(phase, Phase::Hold | Phase::Expand)
            && journal.in_git == InGit::Asked
            && self.undone().is_none();
        let late = limit(phase, &journal.spec)
            .filter(|_| journal.paused_since.is_none() && !waits_for_git)
            .zip(journal.phase_since)
            .is_some_and(|(limit, since)| now.duration_since(since) >= limit);
        if late && journal.spec.on_failure == OnFailure::RollBack {
            if self.target_is_good() {
                self.note_not_rolled_back();
                return false;
            }
            let why = self
                .status
                .waiting_for
                .as_ref()
                .map(|wait| format!(": {}", wait.reason));
            let why = why.unwrap_or_default() + &self.symptoms(&journal.target);
            self.begin_roll_back(format!("{phase} took too long{why}"), Phase::RolledBack);
            return true;
        }
        false
    }

    /// Adds a finding that the status does not have yet; returns whether it is new.
    fn raise(&mut self, finding: Finding) -> bool {
        let is_new = !self.status.findings.contains(&finding);
        if is_new {
            self.status.findings.push(finding);
        }
        is_new
    }

    /// Raises a finding where the roll back that was announced for the deadline is not carried out.
    fn note_not_rolled_back(&mut self) {
        let Ok((_, target)) = self.ends() else { return };
        let message = format!(
            "{} has taken longer than it may, and is not rolled back: {target} runs as it should, and stopping it would help nobody",
            self.status.phase
        );
        let hint = "cutover status says what is still waited for";
        self.raise(Finding::new("NotRolledBack", message, hint));
    }

    fn begin_roll_back(&mut self, reason: String, ends_as: Phase) {
        let phase = self.status.phase;
        let now = self.input.now;
        let touched = self.status.journal_in_force().is_some();
        let Some(journal) = self.status.journal.as_mut().filter(|_| touched) else {
            self.end(ends_as, vec![reason]);
            return;
        };
        let restart = !journal.suspended.is_empty();
        let handed_over = journal.writer.as_ref() == Some(&journal.target);
        // One that begins anew on its way still ends as it was asked to; and knows of the target what it knew, unless the token
        // has been given back since.
        let before = journal.roll_back.take().filter(|_| phase == Phase::RollingBack);
        let knows = before
            .as_ref()
            .filter(|before| before.stage != RollBackStage::Returned);
        let handed_over = handed_over || knows.is_some_and(|before| before.handed_over);
        let target_captured = knows.is_some_and(|before| before.target_captured);
        // What Git was seen to have is looked up again where it is needed.
        journal.in_git = journal.in_git.min(InGit::Opening);
        journal.roll_back = Some(RollBack {
            reason: reason.clone(),
            from_phase: before.as_ref().map_or(phase, |before| before.from_phase),
            since: now,
            ends_as: before.as_ref().map_or(ends_as, |before| before.ends_as),
            restart,
            handed_over,
            from_handle: false,
            target_captured,
            own_state: false,
            stage: RollBackStage::Begun,
            heir: None,
            returns: 0,
        });
        self.enter(Phase::RollingBack, vec![reason]);
    }

    /// Moves to a phase, with what the journal must say before that phase's first effect.
    fn enter(&mut self, phase: Phase, evidence: Vec<String>) {
        self.close_step(evidence);
        let now = self.input.now;
        self.status.phase = phase;
        self.status.waiting_for = None;
        self.status.steps.push(StepRecord {
            name: phase.to_string(),
            started_at: now,
            finished_at: None,
            evidence: Vec::new(),
        });
        self.recheck = Some(Duration::ZERO);
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        journal.phase_since = Some(now);
        match phase {
            Phase::Expand => journal.clusters = vec![journal.source.clone(), journal.target.clone()],
            Phase::Capture => {
                journal.pin.renew();
                journal.writer = None;
                journal.suspended = vec![journal.source.clone()];
                journal.goes_down(now);
            }
            Phase::Cleanup => {
                journal.committed = true;
                journal.roll_back = None;
                journal.clusters = vec![journal.target.clone()];
            }
            _ => {}
        }
    }

    fn end(&mut self, phase: Phase, evidence: Vec<String>) {
        self.close_step(evidence);
        self.status.phase = phase;
        if phase == Phase::Completed {
            self.status.held_policies.clear();
        }
        if phase != Phase::Failed {
            // Nothing is held any more.
            let findings = &mut self.status.findings;
            findings.retain(|finding| finding.code != super::scalers::CODE);
        }
        self.status.finished_at = Some(self.input.now);
        self.status.waiting_for = None;
        self.recheck = Some(Duration::ZERO);
    }

    fn close_step(&mut self, evidence: Vec<String>) {
        if let Some(step) = self.status.steps.last_mut()
            && step.finished_at.is_none()
        {
            step.finished_at = Some(self.input.now);
            step.evidence = evidence;
        }
    }

    /// Nothing more is done; a spec that asks for something else is a new attempt.
    fn after_the_end(&mut self) -> Vec<Effect> {
        self.recheck = None;
        if let Err(Stop::Act(effects)) = self.sweep() {
            return effects;
        }
        if self.input.deleting {
            return if self.input.has_finalizer {
                vec![Effect::RemoveFinalizer]
            } else {
                Vec::new()
            };
        }
        let asked_before = self.status.journal.as_ref().map(|journal| &*journal.spec);
        let new_attempt = match asked_before {
            Some(spec) => !record::asks_the_same(spec, self.input.spec),
            None => self.status.observed_generation != self.input.generation,
        };
        if new_attempt {
            let attempt = self.status.attempt;
            self.status = MigrationStatus {
                attempt,
                ..MigrationStatus::default()
            };
            self.recheck = Some(Duration::ZERO);
        } else if self.input.has_finalizer {
            return vec![Effect::RemoveFinalizer];
        }
        Vec::new()
    }

    fn committed(&self) -> bool {
        self.status
            .journal
            .as_ref()
            .is_some_and(|journal| journal.committed)
    }

    /// What is about to be sent stands in the journal first.
    fn note_plan(&mut self, effects: &[Effect]) {
        let ended = self.status.phase.is_terminal();
        if let Some(journal) = &mut self.status.journal {
            let effects = effects.iter().filter(|_| !ended);
            journal.planned = effects.map(ToString::to_string).collect();
        }
    }

    /// A changed spec is not obeyed in mid-flight, except its control fields.
    fn note_spec_change(&mut self) {
        let changed = self
            .status
            .journal_in_force()
            .is_some_and(|journal| !record::asks_the_same(&journal.spec, self.input.spec));
        self.set_condition(
            "SpecChangeIgnored",
            changed,
            "MidFlight",
            "the spec was changed while the migration runs; the change is not obeyed",
        );
    }

    /// Pods that vanish from a lost node may still run: remember where they were seen.
    fn note_nodes(&mut self) {
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        for (cluster, member) in &self.input.world.members {
            let Ok(pods) = member.pods.get() else { continue };
            let on: BTreeSet<&String> = pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
            // A node that is Ready without a pod of it has said that they ended, and may be scaled down from now on.
            if let (Ok(ready), Some(known)) = (member.nodes.get(), journal.nodes.get_mut(cluster)) {
                known.retain(|node| on.contains(node) || ready.get(node) != Some(&true));
            }
            if !on.is_empty() {
                let known = journal.nodes.entry(cluster.clone()).or_default();
                known.extend(on.into_iter().cloned());
            }
        }
    }

    fn note_conditions(&mut self) {
        self.note_admission_condition();
        let phase = self.status.phase;
        let reason = phase.to_string();
        let why = self.status.waiting_for.as_ref().map(|wait| wait.reason.clone());
        let message = match (&self.status.journal, why) {
            _ if phase == Phase::Completed => self.how_it_ended(),
            (
                Some(Journal {
                    roll_back: Some(back),
                    ..
                }),
                None,
            ) => back.reason.clone(),
            (_, Some(why)) => format!("waits: {why}"),
            _ if !self.status.findings.is_empty() => messages(&self.status.findings),
            _ => String::new(),
        };
        let completed = match phase {
            Phase::EndedBefore => ConditionStatus::Unknown,
            phase => (phase == Phase::Completed).into(),
        };
        let (standing, now) = (self.status.standing(), self.input.now);
        let MigrationStatus {
            conditions,
            waiting_for,
            ..
        } = &mut self.status;
        standing.say(conditions, waiting_for.as_ref(), &reason, &message, now);
        self.set_condition("Completed", completed, &reason, &message);
        self.set_condition("Progressing", !phase.is_terminal(), &reason, &message);
        for failed in [
            Phase::RolledBack,
            Phase::Failed,
            Phase::Aborted,
            Phase::EndedBefore,
        ] {
            self.set_condition(&failed.to_string(), phase == failed, &reason, &message);
        }
    }

    /// Says what the last look has shown, and when that was: nobody looks any more.
    fn how_it_ended(&self) -> String {
        let mut findings = self.status.findings.iter();
        if let Some(recorded) = findings.find(|finding| finding.code == recorded::RECORDED) {
            return recorded.message.clone();
        }
        let evidence = self.status.steps.last().map(|step| step.evidence.join("; "));
        let evidence = evidence.filter(|evidence| !evidence.is_empty());
        let seen = evidence.unwrap_or_else(|| "the move is committed".to_owned());
        match self.status.finished_at {
            Some(at) => format!("last seen {at}: {seen}"),
            None => seen,
        }
    }

    /// Conditions that never held are not listed, but for those that people wait for or reckon with.
    fn set_condition(
        &mut self,
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: &str,
    ) {
        let (status, conditions) = (status.into(), &mut self.status.conditions);
        let is_expected = matches!(
            type_,
            "Completed" | "Progressing" | FENCE_CONDITION | HELD_CONDITION
        );
        let is_listed = conditions.iter().any(|known| known.type_ == type_);
        if is_listed || is_expected || status == ConditionStatus::True {
            Condition::put(conditions, type_, status, reason, message, self.input.now);
        }
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

fn messages(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| finding.message.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests;
