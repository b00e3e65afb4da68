//! Migration: moves one workload, with its state, to another cluster. docs/architecture.md tells the phases.
//!
//! Every phase is a list of goals. A pass looks for the first goal that isn't met and returns what brings it nearer; so a
//! pass after a crash does the same as a pass before it.

mod admission;
mod belt;
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
mod needs;
mod other_managers;
mod own_handle;
mod pause;
mod preflight;
mod rebind;
mod recorded;
mod restored;
mod roll_back;
mod scalers;
mod secrets;
mod starts;
mod token;
mod unseen;
mod wait;
pub mod watch;
mod words;

pub use needs::{involved, needs, wants_canary, wants_policies, wants_record};
pub use words::asks_for_nodes;

pub(crate) use preflight::{source_notes, two_writers};

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Step;
use super::custody::LAPSE;
use super::operation::{self, Kind, Outcome, Wait};
use super::placement::AWAITS_PLACEMENT;
use super::record;
use super::snapshot::Snapshot;
use admission::FENCE_CONDITION;
use other_managers::HELD_CONDITION;

use crate::api::{
    Condition, ConditionStatus, Fact, Finding, InGit, Journal, Migration, MigrationSpec, MigrationStatus,
    Offer, OnFailure, Phase, Progress, RollBack, RollBackStage, SecretHandles, WaitingFor,
};
use crate::profile;
use cutover_karmada::name::ClusterName;

/// How soon everything is looked at again at the latest, whatever is heard: while something is expected of the members, and while
/// only a person can change something.
const LATER: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(30);

/// Conditions that say nothing any more of a migration that has ended.
const UNDER_WAY: [&str; 3] = ["Progressing", FENCE_CONDITION, AWAITS_PLACEMENT];

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
pub type Input<'a> = super::Input<'a, MigrationSpec, MigrationStatus, Snapshot>;

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<MigrationStatus> {
    operation::step::<Migration>(input)
}

type Operation<'a> = operation::Operation<'a, Migration>;
type Interrupt = operation::Interrupt<Migration>;
type Next = operation::Next<Phase>;

/// Everything has to go back, for this reason.
pub(super) struct GoBack(String);

fn go_back(reason: String) -> Interrupt {
    Interrupt::Own(GoBack(reason))
}

/// What a pass collects.
#[derive(Default)]
pub(super) struct Collected {
    /// The words of people of which this pass has found that they are accepted: what a sentence quotes of others adds none.
    offers: RefCell<Vec<Offer>>,
    /// The words of people on which this pass has built.
    used: RefCell<Vec<(Fact, ClusterName)>>,
    /// Why the placement does not keep the workload where it is, if that is all that this pass waits for: the code of the finding.
    unkept: Option<String>,
}

impl Kind for Migration {
    type Spec = MigrationSpec;
    type Status = MigrationStatus;
    type Snapshot = Snapshot;
    type Scratch = Collected;
    type Own = GoBack;

    fn pass(operation: &mut Operation<'_>) -> Outcome<Self> {
        if operation.journal_is_lost() {
            return Err(operation.without_journal());
        }
        if operation.input.deleting && operation.status.journal.is_none() {
            return Err(operation.end_untouched(Phase::Aborted));
        }
        let policy = operation.note_policy_change();
        if operation.status.journal_in_force().is_none() {
            policy?;
        }
        operation.note_all();
        if let Some(outcome) = operation.detect_restore() {
            return outcome;
        }
        operation.check_abort()?;
        if operation.is_lost() {
            return operation.dissolve();
        }
        operation.rebind()?;
        if operation.is_paused() {
            return Err(operation.pause());
        }
        match operation.status.phase {
            Phase::Pending => operation.pending(),
            Phase::Preflight => operation.preflight(),
            Phase::Hold => operation.hold(),
            Phase::Expand => operation.expand(),
            Phase::Capture => operation.capture(),
            Phase::Handoff => operation.handoff(),
            Phase::Verify => operation.verify(),
            Phase::Cleanup => operation.cleanup(),
            Phase::RollingBack => operation.roll_back(),
            Phase::Completed | Phase::RolledBack | Phase::Failed | Phase::Aborted | Phase::EndedBefore => {
                Ok(Next::Requeue)
            }
        }
    }

    fn is_gated(operation: &mut Operation<'_>, phase: Phase) -> bool {
        let is_gated = operation.is_gated(phase);
        if is_gated {
            operation.wait_for_approval(phase);
        }
        is_gated
    }

    fn entered(operation: &mut Operation<'_>) {
        operation.entered();
    }

    fn ended(operation: &mut Operation<'_>) {
        let status = &mut operation.status;
        if status.phase == Phase::Completed {
            status.held_policies.clear();
        }
        status
            .common
            .conditions
            .retain(|condition| !UNDER_WAY.contains(&condition.type_.as_str()));
        if status.phase != Phase::Failed {
            // Nothing is held any more.
            let findings = &mut status.common.findings;
            findings.retain(|finding| !super::scalers::is_told(&finding.code));
        }
    }

    fn interrupted(operation: &mut Operation<'_>, GoBack(reason): GoBack) {
        // Past the commit point there is no way back: what is wrong has to come right.
        if operation.committed() {
            operation.wait(Wait::evidence(reason));
        } else {
            operation.begin_roll_back(reason, Phase::RolledBack);
        }
    }

    fn fail(operation: &mut Operation<'_>, findings: Vec<Finding>) {
        if operation.status.journal_in_force().is_none() {
            operation.end_failed(Phase::Failed, findings);
            return;
        }
        let reason = operation::messages(&findings);
        for finding in findings {
            operation.raise(finding);
        }
        if operation.committed() || operation.status.phase == Phase::RollingBack {
            operation.wait(Wait::evidence(reason));
        } else {
            operation.begin_roll_back(reason, Phase::RolledBack);
        }
    }

    fn unevaluable(error: &profile::Error) -> Interrupt {
        let fix = match error {
            profile::Error::Secret(_) => {
                "let the copy that left the handle show it, or put its value back into status.journal.secrets"
            }
            _ => "fix the WorkloadProfile",
        };
        Interrupt::Fail(vec![Finding::new("ProfileError", error.to_string(), fix)])
    }

    fn without_journal() -> Interrupt {
        operation::journal_lost()
    }

    fn is_paused(operation: &Operation<'_>) -> bool {
        operation.is_paused()
    }

    fn limit(operation: &Operation<'_>) -> Option<(Timestamp, &'static str)> {
        operation.end_of_wait()
    }

    /// The longer something takes, the longer it may go unnoticed.
    fn pace(operation: &Operation<'_>, wait: &Wait) -> Duration {
        if wait.until.is_some() && operation.status.journal.is_none() {
            return Duration::MAX;
        }
        operation.patience(wait, LATER, SELDOM)
    }

    fn offers(operation: &Operation<'_>, reason: &str) -> Vec<Offer> {
        operation.offers_in(reason)
    }

    fn last_warning(operation: &Operation<'_>) -> Option<String> {
        operation.last_warning()
    }

    fn sweep(operation: &mut Operation<'_>) -> Result<(), Interrupt> {
        operation.note_unheard();
        operation.sweep()
    }

    fn begins_again(operation: &Operation<'_>) -> bool {
        match &operation.status.journal {
            Some(journal) => !record::asks_the_same(&journal.spec, operation.input.spec),
            None => operation.is_unseen() && !operation.lost_journal_at_end(),
        }
    }

    fn secrets<'o>(operation: &'o Operation<'_>) -> Option<&'o SecretHandles> {
        operation.status.journal.as_ref().map(|journal| &journal.secrets)
    }

    fn close(operation: &mut Operation<'_>) {
        operation.note_words();
        operation.keep_secrets();
        operation.note_conditions();
    }
}

impl Operation<'_> {
    /// Notes what this look shows, whatever the phase.
    fn note_all(&mut self) {
        self.note_spec_change();
        self.note_nodes();
        self.note_admission();
        self.note_template_change();
        self.note_scalers();
        self.note_starts();
        self.note_seen_running();
        let lapse = self.note_lapse();
        self.note_pause(lapse);
    }

    /// Rolls back on request, at the deadline, or when a phase has taken too long.
    fn check_abort(&mut self) -> Result<(), Interrupt> {
        if self.committed() || self.status.phase == Phase::RollingBack {
            return Ok(());
        }
        if self.has_arrived() {
            return Ok(());
        }
        let now = self.input.now;
        let asked = if self.input.deleting {
            Some("the intent was deleted".to_owned())
        } else if self.input.spec.abort {
            Some(self.input.why_aborted())
        } else {
            None
        };
        if let Some(reason) = asked {
            self.begin_roll_back(reason, Phase::Aborted);
            return Err(Interrupt::Requeue);
        }
        if self.input.spec.deadline.is_some_and(|deadline| now >= deadline) {
            self.begin_roll_back("the deadline has passed".to_owned(), Phase::RolledBack);
            return Err(Interrupt::Requeue);
        }
        let Some(journal) = &self.status.journal else {
            return Ok(());
        };
        if !self.is_late(journal) || journal.spec.on_failure == OnFailure::Hold {
            return Ok(());
        }
        if self.target_is_good() {
            self.note_not_rolled_back();
            return Ok(());
        }
        let waits = self.status.common.waiting_for.as_ref();
        let why = waits.map_or_else(String::new, |wait| format!(": {}", wait.reason));
        let why = why + &self.symptoms(&journal.target);
        let reason = format!("{} took too long{why}", self.status.phase);
        self.begin_roll_back(reason, Phase::RolledBack);
        Err(Interrupt::Requeue)
    }

    /// Returns whether the target has done the work of a run to completion: going back would do it a second time.
    fn has_arrived(&mut self) -> bool {
        let Ok((_, target)) = self.ends() else {
            return false;
        };
        let is_there = matches!(self.status.phase, Phase::Handoff | Phase::Verify)
            && self
                .journal()
                .is_ok_and(|journal| journal.writer.as_ref() == Some(&target))
            && matches!(self.ended_in(&target), Ok(Some(ended)) if ended.well);
        let wants_back = self.input.deleting || self.input.spec.abort;
        if is_there && wants_back {
            let message =
                format!("{target} has done the work of the run: going back would do it a second time");
            self.raise(Finding::new("NotRolledBack", message, "nothing has to be done"));
        }
        is_there
    }

    /// Returns whether the phase has taken longer than it may.
    fn is_late(&self, journal: &Journal) -> bool {
        let phase = self.status.phase;
        // What waits for Git before anybody is stopped goes on waiting.
        let waits_for_git = matches!(phase, Phase::Hold | Phase::Expand)
            && journal.in_git == InGit::Asked
            && self.undone().is_none();
        let counts = journal.paused_since.is_none() && !waits_for_git;
        let limit = limit(phase, &journal.spec).filter(|_| counts);
        limit
            .zip(journal.phase_since)
            .is_some_and(|(limit, since)| self.input.now.duration_since(since) >= limit)
    }

    /// Adds a finding that the status does not have yet; returns whether it is new.
    fn raise(&mut self, mut finding: Finding) -> bool {
        // Before it is compared with what stands there.
        finding.message = self.without_secrets(finding.message);
        finding.hint = finding.hint.map(|hint| self.without_secrets(hint));
        let is_new = !self.status.common.findings.contains(&finding);
        if is_new {
            self.status.common.findings.push(finding);
        }
        is_new
    }

    /// Raises a finding where the roll back that was announced for the deadline is not carried out.
    fn note_not_rolled_back(&mut self) {
        let Ok((_, target)) = self.ends() else { return };
        let message = format!(
            "{} has exceeded its time limit, and is not rolled back: {target} runs as it should, and stopping it would not help",
            self.status.phase
        );
        let hint = "cutover status shows what it still waits for";
        self.raise(Finding::new("NotRolledBack", message, hint));
    }

    fn begin_roll_back(&mut self, reason: String, ends_as: Phase) {
        let reason = self.without_secrets(reason);
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
        // After a lapse the source may have run since.
        let is_lapse = reason.starts_with(LAPSE);
        let source_captured = !is_lapse && knows.is_some_and(|before| before.source_captured);
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
            source_captured,
            own_state: false,
            stage: RollBackStage::Begun,
            heir: None,
            returns: 0,
        });
        self.enter(Phase::RollingBack, vec![reason]);
    }

    /// Notes what the journal must say before the first effect of the phase that has just begun.
    fn entered(&mut self) {
        let (phase, now) = (self.status.phase, self.input.now);
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

    fn committed(&self) -> bool {
        self.status
            .journal
            .as_ref()
            .is_some_and(|journal| journal.committed)
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
            "the spec was changed while the migration runs; the change has no effect",
        );
    }

    /// Pods that vanish from a lost node may still run: remember where they were seen.
    fn note_nodes(&mut self) {
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        for (cluster, member) in &self.input.snapshot.members {
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
        let phase = self.status.phase;
        if !phase.is_terminal() {
            self.note_admission_condition();
        }
        let reason = phase.to_string();
        let why = self.status.common.waiting_for.as_ref().map(WaitingFor::phrase);
        let message = match (&self.status.journal, why) {
            _ if phase == Phase::Completed => self.how_it_ended(),
            (
                Some(Journal {
                    roll_back: Some(back),
                    ..
                }),
                None,
            ) => back.reason.clone(),
            (_, Some(why)) => why,
            _ if !self.status.common.findings.is_empty() => operation::messages(&self.status.common.findings),
            _ => String::new(),
        };
        let completed = match phase {
            Phase::EndedBefore => ConditionStatus::Unknown,
            phase => (phase == Phase::Completed).into(),
        };
        let (standing, now) = (self.status.standing(), self.input.now);
        let common = &mut self.status.common;
        standing.say(
            &mut common.conditions,
            common.waiting_for.as_ref(),
            &reason,
            &message,
            now,
        );
        self.set_condition("Completed", completed, &reason, &message);
        self.set_condition("Progressing", !phase.is_terminal(), &reason, &message);
        self.note_awaited_placement(&reason);
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
        let mut findings = self.status.common.findings.iter();
        if let Some(recorded) = findings.find(|finding| finding.code == recorded::RECORDED) {
            return recorded.message.clone();
        }
        let evidence = self
            .status
            .common
            .steps
            .last()
            .map(|step| step.evidence.join("; "));
        let evidence = evidence.filter(|evidence| !evidence.is_empty());
        let seen = evidence.unwrap_or_else(|| "the move is committed".to_owned());
        match self.status.common.finished_at {
            Some(at) => format!("last seen {at}: {seen}"),
            None => seen,
        }
    }

    /// Conditions that never held are not listed, but for those that people wait for or reckon with while it is under way.
    fn set_condition(
        &mut self,
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: &str,
    ) {
        let goes_on = !self.status.phase.is_terminal();
        let (status, conditions) = (status.into(), &mut self.status.common.conditions);
        let is_expected = type_ == "Completed"
            || (goes_on && matches!(type_, "Progressing" | FENCE_CONDITION | HELD_CONDITION));
        let is_listed = conditions.iter().any(|known| known.type_ == type_);
        if is_listed || is_expected || status == ConditionStatus::True {
            Condition::put(conditions, type_, status, reason, message, self.input.now);
        }
    }
}

#[cfg(test)]
mod tests;
