//! What a person asks of a migration that runs (approve, assume, pause, resume, abort): the change of its file that says so, or why
//! it would be in vain.

use std::fmt;

use serde_json::json;

use super::record;
use crate::api::{Approval, Assumption, Fact, Migration, MigrationSpec, OnFailure, Phase, UsedWord};
use crate::error;
use crate::manifest::Change;
use cutover_karmada::name::ClusterName;

/// The phases that can wait for an approval before they begin.
pub const GATES: [Phase; 6] = [
    Phase::Hold,
    Phase::Expand,
    Phase::Capture,
    Phase::Handoff,
    Phase::Verify,
    Phase::Cleanup,
];

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Without a phase: the one that waits. Without an attempt: the present one.
    Approve {
        phase: Option<Phase>,
        attempt: Option<u32>,
        by: Option<String>,
    },
    /// A person's word for what can't be seen; good for the phase that it is in.
    Assume {
        fact: Fact,
        cluster: ClusterName,
        by: Option<String>,
    },
    Pause,
    Resume,
    Abort,
}

/// How the intent stands, as far as that could be learned.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    Known(&'a Migration),
    /// Nobody has looked at it yet: it was never pushed, or just now.
    Fresh,
    Unknown,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The file changes, and this says why.
    Change {
        change: Change,
        subject: String,
        body: String,
    },
    /// It is so already.
    Nothing(String),
}

impl Decision {
    /// Pauses an intent of any kind. `is_set`: it is paused already; `body`: what the pause does.
    pub fn pause(name: &str, is_set: bool, body: impl Into<String>) -> Self {
        if is_set {
            return Self::Nothing(format!("{name} is paused already"));
        }
        Self::Change {
            change: Change::Set("/spec/paused", true.into()),
            subject: format!("Pause {name}"),
            body: body.into(),
        }
    }

    /// Lets a paused intent of any kind go on. `is_set`: it is paused; `body`: what happens then.
    pub fn resume(name: &str, is_set: bool, body: impl Into<String>) -> Self {
        if !is_set {
            return Self::Nothing(format!("{name} is not paused"));
        }
        Self::Change {
            change: Change::Unset("/spec/paused", false.into()),
            subject: format!("Resume {name}"),
            body: body.into(),
        }
    }

    /// Aborts an intent of any kind. `is_set`: that is asked for already; `body`: what the abort does.
    pub fn abort(name: &str, is_set: bool, body: impl Into<String>) -> Self {
        if is_set {
            return Self::Nothing(format!("{name} is asked to abort already"));
        }
        Self::Change {
            change: Change::Set("/spec/abort", true.into()),
            subject: format!("Abort {name}"),
            body: body.into(),
        }
    }
}

/// Why it would be in vain, or can't be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{name} has ended: {phase}")]
    Ended { name: String, phase: Phase },
    #[error("{name} is past its commit point: the target has taken over, and it can no longer be aborted")]
    Committed { name: String },
    #[error(
        "{name} is being rolled back, and a rollback cannot be paused: it is the way back to a running workload"
    )]
    RollingBack { name: String },
    #[error("{name} waits for no approval: spec.approval names no phases")]
    NoGates { name: String },
    #[error("{name} does not wait for an approval of {phase}, but of {}", list(.gates))]
    NotGated {
        name: String,
        phase: Phase,
        gates: Vec<Phase>,
    },
    #[error("several phases of {name} are not approved: {}", list(.open))]
    WhichPhase { name: String, open: Vec<Phase> },
    #[error("the present attempt of {name} is not known: no control plane could be asked how it stands")]
    WhichAttempt { name: String },
    #[error("{name} waits for no more approvals in attempt {attempt}")]
    NothingOpen { name: String, attempt: u32 },
    #[error("the phase of {name} is not known, and an assumption is valid for one phase of one attempt")]
    PhaseUnknown { name: String },
    #[error("{name} does not currently ask for the assumption {} {cluster}", .fact.argument())]
    NotAsked {
        name: String,
        fact: Fact,
        cluster: ClusterName,
        /// What it does ask.
        offers: Vec<(Fact, ClusterName)>,
    },
    #[error("attempt {asked} of {name} has ended; the current one is {present}")]
    PastAttempt { name: String, asked: u32, present: u32 },
}

impl Refusal {
    fn hint(&self) -> String {
        match self {
            Self::Ended { .. } => "ask for a new one: cutover migrate".to_owned(),
            Self::Committed { .. } => "let it end, and move the workload back: cutover migrate".to_owned(),
            Self::RollingBack { .. } => "cutover status says how far it is".to_owned(),
            Self::NoGates { .. } => {
                "spec.approval.before names the phases that wait; or stop it before its next step: cutover pause"
                    .to_owned()
            }
            Self::NotGated { .. } | Self::WhichPhase { .. } => "name one of them with --phase".to_owned(),
            Self::WhichAttempt { .. } => {
                "name it with --attempt (the first is 1), or name a control plane with --kubeconfig".to_owned()
            }
            Self::PastAttempt { .. } => "leave --attempt out".to_owned(),
            Self::NotAsked { offers, .. } if offers.is_empty() => {
                "it currently asks for no assumption: cutover status shows what it waits for".to_owned()
            }
            Self::NotAsked { offers, .. } => {
                let words = offers.iter().map(|(fact, cluster)| format!("{} {cluster}", fact.argument()));
                format!("it accepts: {}", words.collect::<Vec<_>>().join(", "))
            }
            Self::NothingOpen { .. } => "cutover status says what it does".to_owned(),
            Self::PhaseUnknown { .. } => {
                "name a control plane with --kubeconfig, or leave --offline out; cutover status shows which assumptions are accepted"
                    .to_owned()
            }
        }
    }
}

impl From<Refusal> for error::Error {
    fn from(refusal: Refusal) -> Self {
        Self::user(refusal.to_string()).hint(refusal.hint())
    }
}

/// Decides what is to change in the file of an intent. `name` is its namespace and name, `spec` what the file says now.
pub fn decide(
    control: &Control,
    name: &str,
    spec: &MigrationSpec,
    standing: Observed<'_>,
) -> Result<Decision, Refusal> {
    let asked = Requested {
        name,
        spec,
        now: Now::of(spec, standing),
    };
    match control {
        Control::Approve { phase, attempt, by } => asked.approve(*phase, *attempt, by.as_deref()),
        Control::Assume { fact, cluster, by } => asked.assume(*fact, cluster, by.as_deref()),
        Control::Pause => asked.pause(),
        Control::Resume => Ok(asked.resume()),
        Control::Abort => asked.abort(),
    }
}

/// Returns what a person should know who pauses an intent as it stands: that nobody runs meanwhile, and how that ends.
pub fn warning(control: &Control, spec: &MigrationSpec, standing: Observed<'_>) -> Option<&'static str> {
    let phase = Now::of(spec, standing).phase;
    if *control != Control::Pause || !matches!(phase, Some(Phase::Capture | Phase::Handoff)) {
        return None;
    }
    Some(match spec.on_failure {
        OnFailure::RollBack => {
            "in this phase the workload may not run: then the pause ends in a roll back when the time of the phase is over"
        }
        OnFailure::Hold => {
            "in this phase the workload may not run, for as long as the pause lasts (onFailure: Hold)"
        }
    })
}

/// What matters of how an intent stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Now {
    /// `None`: nobody knows.
    attempt: Option<u32>,
    phase: Option<Phase>,
    /// The phase that waits for an approval at this moment.
    gate: Option<Phase>,
    begun: Vec<String>,
    committed: bool,
    /// The words that were used in this attempt.
    words: Vec<UsedWord>,
    /// The words that are accepted at present; `None`: nobody knows.
    offers: Option<Vec<(Fact, ClusterName)>>,
}

impl Now {
    fn of(spec: &MigrationSpec, standing: Observed<'_>) -> Self {
        let fresh = |attempt| Self {
            attempt,
            ..Self::default()
        };
        let migration = match standing {
            Observed::Unknown => return fresh(None),
            Observed::Fresh => return fresh(Some(1)),
            Observed::Known(migration) => migration,
        };
        let Some(status) = migration
            .status
            .as_ref()
            .filter(|status| status.common.attempt > 0)
        else {
            return fresh(Some(1));
        };
        let journal = status.journal.as_ref();
        let obeyed = migration.spec_in_force();
        // What ended was another operation than the one that the file asks for.
        if status.phase.is_terminal() && !record::asks_the_same(obeyed, spec) {
            return fresh(Some(status.common.attempt + 1));
        }
        let waits = status.common.waiting_for.as_ref();
        let offers = waits.into_iter().flat_map(|wait| &wait.offers);
        Self {
            attempt: Some(status.common.attempt),
            phase: Some(status.phase),
            gate: status.common.waiting_for.as_ref().and_then(|wait| wait.approval),
            begun: status.common.steps.iter().map(|step| step.name.clone()).collect(),
            committed: journal.is_some_and(|journal| journal.committed),
            words: journal.map(|journal| journal.words.clone()).unwrap_or_default(),
            offers: Some(offers.map(|offer| (offer.fact, offer.cluster.clone())).collect()),
        }
    }
}

struct Requested<'a> {
    name: &'a str,
    spec: &'a MigrationSpec,
    now: Now,
}

impl Requested<'_> {
    fn approve(
        &self,
        phase: Option<Phase>,
        attempt: Option<u32>,
        by: Option<&str>,
    ) -> Result<Decision, Refusal> {
        let name = self.name.to_owned();
        let gates = self.spec.approval.as_ref().map_or(&[][..], |gate| &gate.before);
        if gates.is_empty() {
            return Err(Refusal::NoGates { name });
        }
        self.still_runs()?;
        let attempt = match (attempt, self.now.attempt) {
            (Some(asked), Some(present)) if asked < present => {
                return Err(Refusal::PastAttempt { name, asked, present });
            }
            (Some(asked), _) => asked,
            (None, Some(present)) => present,
            (None, None) => return Err(Refusal::WhichAttempt { name }),
        };
        let is_approved = |phase: Phase| {
            let mut approvals = self.spec.approvals.iter();
            approvals.any(|approval| approval.phase == phase && approval.attempt == attempt)
        };
        let present = self.now.attempt == Some(attempt);
        let has_begun = |phase: Phase| present && self.now.begun.contains(&phase.to_string());
        let mut open: Vec<Phase> = gates.to_vec();
        open.sort_unstable();
        open.dedup();
        open.retain(|phase| !is_approved(*phase) && !has_begun(*phase));
        let waiting = self.now.gate.filter(|gate| present && open.contains(gate));
        let phase = match (phase.or(waiting), open.as_slice()) {
            (Some(phase), _) if !gates.contains(&phase) => {
                let gates = gates.to_vec();
                return Err(Refusal::NotGated { name, phase, gates });
            }
            (Some(phase), _) if has_begun(phase) => {
                return Ok(Decision::Nothing(format!("{phase} of {name} has begun already")));
            }
            (Some(phase), _) if is_approved(phase) => {
                return Ok(Decision::Nothing(format!(
                    "{phase} of {name} is approved already for attempt {attempt}"
                )));
            }
            (Some(phase), _) => phase,
            (None, []) => return Err(Refusal::NothingOpen { name, attempt }),
            (None, [only]) => *only,
            (None, _) => return Err(Refusal::WhichPhase { name, open }),
        };
        let approval = Approval {
            phase,
            attempt,
            by: by.map(str::to_owned),
        };
        Ok(Decision::Change {
            change: Change::Append("/spec/approvals", json!(approval)),
            subject: format!("Approve {phase} of {name}"),
            body: format!("Attempt {attempt} to {} may begin {phase}.", self.what()),
        })
    }

    fn assume(&self, fact: Fact, cluster: &ClusterName, by: Option<&str>) -> Result<Decision, Refusal> {
        let name = self.name.to_owned();
        self.still_runs()?;
        let (Some(attempt), Some(phase)) = (self.now.attempt, self.now.phase) else {
            return Err(Refusal::PhaseUnknown { name });
        };
        let said = Assumption {
            fact,
            cluster: cluster.clone(),
            attempt,
            phase,
            by: by.map(str::to_owned),
        };
        let is_same = |one: &&Assumption| {
            (one.fact, &one.cluster, one.attempt, one.phase) == (fact, cluster, attempt, phase)
        };
        // One that is used up is said again.
        let is_spent =
            |word: &&UsedWord| word.spent && (word.fact, &word.cluster, word.phase) == (fact, cluster, phase);
        let spent = self.now.words.iter().filter(is_spent).count();
        if self.spec.assume.iter().filter(is_same).count() > spent {
            return Ok(Decision::Nothing(format!(
                "{} in {cluster} is confirmed already, for {phase} of {name} in attempt {attempt}",
                fact.name()
            )));
        }
        if let Some(offers) = &self.now.offers
            && !offers.contains(&(fact, cluster.clone()))
        {
            let offers = offers.clone();
            return Err(Refusal::NotAsked {
                name,
                fact,
                cluster: cluster.clone(),
                offers,
            });
        }
        let what = meaning(fact, cluster);
        Ok(Decision::Change {
            change: Change::Append("/spec/assume", json!(said)),
            subject: format!("Vouch for {name}: {} in {cluster}", fact.name()),
            body: format!("For {phase} of attempt {attempt} to {}: {what}.", self.what()),
        })
    }

    fn pause(&self) -> Result<Decision, Refusal> {
        if !self.spec.paused {
            self.still_runs()?;
            if self.now.phase == Some(Phase::RollingBack) {
                let name = self.name.to_owned();
                return Err(Refusal::RollingBack { name });
            }
        }
        let body = format!(
            "The attempt to {} stops before its next step, and keeps what it has put up.",
            self.what()
        );
        Ok(Decision::pause(self.name, self.spec.paused, body))
    }

    fn resume(&self) -> Decision {
        let body = format!("The attempt to {} goes on where it stopped.", self.what());
        Decision::resume(self.name, self.spec.paused, body)
    }

    fn abort(&self) -> Result<Decision, Refusal> {
        if !self.spec.abort {
            self.still_runs()?;
            if self.now.phase == Some(Phase::RollingBack) {
                return Ok(Decision::Nothing(format!(
                    "{} is being rolled back already",
                    self.name
                )));
            }
            if self.now.committed {
                let name = self.name.to_owned();
                return Err(Refusal::Committed { name });
            }
        }
        let body = format!(
            "The attempt to {} is rolled back to where the workload ran before, unless it has been committed by then.",
            self.what()
        );
        Ok(Decision::abort(self.name, self.spec.abort, body))
    }

    fn still_runs(&self) -> Result<(), Refusal> {
        match self.now.phase {
            Some(phase) if phase.is_terminal() => Err(Refusal::Ended {
                name: self.name.to_owned(),
                phase,
            }),
            _ => Ok(()),
        }
    }

    fn what(&self) -> String {
        let workload = &self.spec.workload;
        format!("move {} {} to {}", workload.kind, workload.name, self.spec.to)
    }
}

fn meaning(fact: Fact, cluster: &ClusterName) -> String {
    match fact {
        Fact::Stopped => format!("no copy in {cluster} can write any more"),
        Fact::From => format!(
            "the workload goes on from the state that the copy in {cluster} has, or left last, and what others wrote is given up"
        ),
        Fact::FromNothing => {
            format!("the workload may start in {cluster} from nothing, and its state is given up")
        }
        Fact::To => format!("{cluster} keeps the workload, or gets it back"),
        Fact::Settle => {
            format!("it may end although {cluster}, which has the workload, cannot be observed")
        }
    }
}

fn list(phases: &[Phase]) -> String {
    let names: Vec<String> = phases.iter().map(ToString::to_string).collect();
    names.join(" and ")
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve { .. } => "approve",
            Self::Assume { .. } => "assume",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Abort => "abort",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ApprovalGate, Common, MigrationStatus, StepRecord};

    fn spec(fields: serde_json::Value) -> MigrationSpec {
        let mut spec = json!({
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "to": "west",
            "approval": {"before": ["Handoff", "Cleanup"]},
        });
        for (name, value) in fields.as_object().unwrap() {
            spec[name] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn running(spec: &MigrationSpec, phases: &[Phase], gate: Option<Phase>) -> Migration {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let mut migration = Migration::new("a", spec.clone());
        let waiting = gate.map(|gate| {
            json!({"code": "Approval", "reason": "approval", "approval": gate, "since": now.to_string()})
        });
        migration.status = Some(MigrationStatus {
            phase: *phases.last().unwrap(),
            common: Common {
                attempt: 2,
                steps: phases
                    .iter()
                    .map(|phase| StepRecord {
                        name: phase.to_string(),
                        started_at: now,
                        finished_at: None,
                        evidence: Vec::new(),
                    })
                    .collect(),
                waiting_for: waiting.map(|waiting| serde_json::from_value(waiting).unwrap()),
                ..Common::default()
            },
            ..MigrationStatus::default()
        });
        migration
    }

    const ANY: Control = Control::Approve {
        phase: None,
        attempt: None,
        by: None,
    };

    fn said(control: &Control, spec: &MigrationSpec, standing: Observed<'_>) -> String {
        match decide(control, "shop/a", spec, standing) {
            Ok(Decision::Change { change, subject, .. }) => format!("{subject}: {change:?}"),
            Ok(Decision::Nothing(why)) => format!("nothing: {why}"),
            Err(refusal) => format!("no: {refusal}"),
        }
    }

    #[test]
    fn what_waits_is_approved_for_the_present_attempt() {
        let spec = spec(json!({}));
        let waits = running(&spec, &[Phase::Capture], Some(Phase::Handoff));
        insta::assert_snapshot!(said(&ANY, &spec, Observed::Known(&waits)), @r#"Approve Handoff of shop/a: Append("/spec/approvals", Object {"phase": String("Handoff"), "attempt": Number(2)})"#);
    }

    #[test]
    fn an_approval_for_nobody_knows_what_is_refused() {
        let open = spec(json!({}));
        let early = running(&open, &[Phase::Hold], None);
        insta::assert_snapshot!(said(&ANY, &open, Observed::Known(&early)), @"no: several phases of shop/a are not approved: Handoff and Cleanup");
        insta::assert_snapshot!(said(&ANY, &open, Observed::Unknown), @"no: the present attempt of shop/a is not known: no control plane could be asked how it stands");
        let ungated = spec(json!({"approval": null}));
        insta::assert_snapshot!(said(&ANY, &ungated, Observed::Fresh), @"no: shop/a waits for no approval: spec.approval names no phases");
        let of = |phase, attempt| Control::Approve {
            phase: Some(phase),
            attempt,
            by: None,
        };
        insta::assert_snapshot!(said(&of(Phase::Verify, None), &open, Observed::Fresh), @"no: shop/a does not wait for an approval of Verify, but of Handoff and Cleanup");
        insta::assert_snapshot!(said(&of(Phase::Cleanup, Some(1)), &open, Observed::Known(&early)), @"no: attempt 1 of shop/a has ended; the current one is 2");
    }

    #[test]
    fn an_approval_can_be_given_ahead_and_only_once() {
        let open = spec(json!({}));
        let ahead = Control::Approve {
            phase: Some(Phase::Cleanup),
            attempt: Some(1),
            by: Some("Ada".to_owned()),
        };
        insta::assert_snapshot!(said(&ahead, &open, Observed::Unknown), @r#"Approve Cleanup of shop/a: Append("/spec/approvals", Object {"phase": String("Cleanup"), "attempt": Number(1), "by": String("Ada")})"#);
        let given = spec(json!({"approvals": [{"phase": "Cleanup", "attempt": 1}]}));
        insta::assert_snapshot!(said(&ahead, &given, Observed::Fresh), @"nothing: Cleanup of shop/a is approved already for attempt 1");
        // The other gate is the only one left.
        assert!(said(&ANY, &given, Observed::Fresh).starts_with("Approve Handoff"));
        let past = running(&open, &[Phase::Handoff, Phase::Verify], None);
        assert!(said(&ANY, &open, Observed::Known(&past)).starts_with("Approve Cleanup"));
        let last = running(&open, &[Phase::Handoff, Phase::Verify, Phase::Cleanup], None);
        assert_eq!(
            said(&ANY, &open, Observed::Known(&last)),
            "no: shop/a waits for no more approvals in attempt 2"
        );
    }

    #[test]
    fn a_persons_word_is_bound_to_the_phase_that_it_was_asked_in() {
        let vouch = Control::Assume {
            fact: Fact::From,
            cluster: "west".into(),
            by: Some("Ada".to_owned()),
        };
        let open = spec(json!({}));
        let asks = |spec: &MigrationSpec, phase| {
            let mut migration = running(spec, &[phase], None);
            let waits = json!({
                "code": "Evidence", "reason": "west", "since": "2026-01-01T00:00:00Z",
                "offers": [{"fact": "From", "cluster": "west", "givesUp": "nothing"}],
            });
            let status = migration.status.as_mut().unwrap();
            status.common.waiting_for = Some(serde_json::from_value(waits).unwrap());
            migration
        };
        let back = asks(&open, Phase::RollingBack);
        insta::assert_snapshot!(said(&vouch, &open, Observed::Known(&back)), @r#"Vouch for shop/a: From in west: Append("/spec/assume", Object {"fact": String("From"), "cluster": String("west"), "attempt": Number(2), "phase": String("RollingBack"), "by": String("Ada")})"#);
        let given = spec(json!({
            "assume": [{"fact": "From", "cluster": "west", "attempt": 2, "phase": "RollingBack"}],
        }));
        assert!(said(&vouch, &given, Observed::Known(&back)).starts_with("nothing: "));
        // A word that was given for an earlier phase says nothing of this one.
        let later = asks(&given, Phase::Capture);
        assert!(said(&vouch, &given, Observed::Known(&later)).starts_with("Vouch"));
        // What it does not ask is not to be vouched for: it would count when it asks.
        let elsewhere = Control::Assume {
            fact: Fact::From,
            cluster: "wset".into(),
            by: None,
        };
        assert_eq!(
            said(&elsewhere, &open, Observed::Known(&back)),
            "no: shop/a does not currently ask for the assumption from wset"
        );
        let goes_on = running(&open, &[Phase::Capture], None);
        assert!(said(&vouch, &open, Observed::Known(&goes_on)).starts_with("no: "));
        for standing in [Observed::Unknown, Observed::Fresh] {
            assert!(said(&vouch, &open, standing).starts_with("no: the phase of shop/a is not known"));
        }
        let ended = running(&open, &[Phase::RolledBack], None);
        assert_eq!(
            said(&vouch, &open, Observed::Known(&ended)),
            "no: shop/a has ended: RolledBack"
        );
    }

    #[test]
    fn a_changed_spec_after_the_end_is_the_next_attempt() {
        let was = spec(json!({"to": "north"}));
        let ended = running(&was, &[Phase::Completed], None);
        let handoff = spec(json!({"approval": {"before": ["Handoff"]}}));
        assert!(said(&ANY, &handoff, Observed::Known(&ended)).contains(r#""attempt": Number(3)"#));
        let same = MigrationSpec {
            approval: Some(ApprovalGate::default()),
            ..was
        };
        assert!(decide(&Control::Pause, "shop/a", &same, Observed::Known(&ended)).is_ok());
    }

    #[test]
    fn what_has_ended_is_neither_paused_nor_aborted_nor_approved() {
        let spec = spec(json!({}));
        let ended = running(&spec, &[Phase::RolledBack], None);
        for control in [ANY, Control::Pause, Control::Abort] {
            assert_eq!(
                said(&control, &spec, Observed::Known(&ended)),
                "no: shop/a has ended: RolledBack",
                "{control}"
            );
        }
    }

    #[test]
    fn who_pauses_while_nobody_runs_is_told_how_that_ends() {
        let said = |fields, phase| {
            let spec = spec(fields);
            let stands = running(&spec, &[phase], None);
            warning(&Control::Pause, &spec, Observed::Known(&stands)).unwrap_or_default()
        };
        assert!(said(json!({}), Phase::Capture).contains("roll back"));
        assert!(said(json!({"onFailure": "Hold"}), Phase::Handoff).contains("as long as the pause lasts"));
        assert_eq!(said(json!({}), Phase::Verify), "");
    }

    #[test]
    fn what_would_not_be_obeyed_is_refused() {
        let spec = spec(json!({}));
        let back = running(&spec, &[Phase::RollingBack], None);
        assert!(said(&Control::Pause, &spec, Observed::Known(&back)).starts_with("no: "));
        assert!(said(&Control::Abort, &spec, Observed::Known(&back)).starts_with("nothing: "));
    }

    #[test]
    fn what_is_so_already_changes_nothing() {
        let set = spec(json!({"paused": true, "abort": true}));
        for control in [Control::Pause, Control::Abort] {
            assert!(
                said(&control, &set, Observed::Unknown).starts_with("nothing: "),
                "{control}"
            );
        }
        assert!(said(&Control::Resume, &set, Observed::Unknown).starts_with("Resume"));
        assert!(said(&Control::Resume, &spec(json!({})), Observed::Unknown).starts_with("nothing: "));
    }
}
