//! What controls do to each kind of intents. A kind without a row of its own has the controls that all kinds have.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::target::Controlled;
use crate::cli::values;
use cutover_core::api::{FailoverGate, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::{Control, Decision};
use cutover_core::manifest::Change;

/// The controls of a kind; texts are what the message of the commit says of the effect.
pub(super) struct Row {
    kind: &'static str,
    pause: &'static str,
    resume: Resume,
    abort: Abort,
    pub(super) approval: Approval,
}

enum Resume {
    /// `spec.paused` is removed.
    Unpause(&'static str),
    /// `spec.until` becomes now.
    End,
}

enum Abort {
    /// `spec.abort` is set.
    Set(&'static str),
    /// The kind has no such field; a hint says what to do instead.
    Refuse(&'static str),
}

/// How an intent of a kind is approved.
pub(super) enum Approval {
    /// By a phase of `spec.approval.before`.
    Phases,
    /// By a number.
    Number(Number),
    /// By an answer to what its status asks.
    Questions,
    /// The kind has no approvals; a hint says more.
    Refuse(&'static str),
}

/// A number at which an intent waits for an approval.
pub(super) struct Number {
    /// The field of an approval that has it.
    pub(super) field: &'static str,
    /// Where the spec lists those that are waited at.
    pub(super) gates: &'static str,
    /// Names one, for people.
    pub(super) name: fn(u32) -> String,
    /// What an approval lets happen.
    pub(super) effect: fn(u32) -> String,
}

/// What a person approves, as the flags of `cutover approve` name it.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Phase(Phase),
    /// With the field of an approval.
    Number(&'static str, u32),
    Question(FailoverGate),
}

const GOES_ON: Resume = Resume::Unpause("It goes on where it stopped.");

static ROWS: [Row; 7] = [
    Row {
        kind: "FailoverPlan",
        pause: "No new failover begins; copies that are held stay held.",
        resume: GOES_ON,
        abort: Abort::Set("The guard is removed as soon as no failover is under way."),
        approval: Approval::Questions,
    },
    Row {
        kind: "ReplicaShift",
        pause: "No further step begins; replicas that have moved stay there.",
        resume: GOES_ON,
        abort: Abort::Set(
            "The replicas go back to the old cluster, which is scaled up before the new one is scaled down.",
        ),
        approval: Approval::Number(Number {
            field: "percent",
            gates: "/spec/pause/approval",
            name: |percent| format!("{percent}%"),
            effect: |percent| format!("The shift may go on past {percent}%."),
        }),
    },
    Row {
        kind: "Rollout",
        pause: "No further cluster gets the change; clusters that have it keep it.",
        resume: GOES_ON,
        abort: Abort::Set(
            "All clusters go back to the revision that they had; no change is rolled out until spec.abort is removed.",
        ),
        approval: Approval::Number(Number {
            field: "wave",
            gates: "/spec/approval/beforeWaves",
            name: |wave| format!("wave {wave}"),
            effect: |wave| format!("Wave {wave} may begin."),
        }),
    },
    Row {
        kind: "RolloutPolicy",
        pause: "No further cluster gets a change of any of the workloads; clusters that have a change keep it.",
        resume: GOES_ON,
        abort: Abort::Refuse(
            "abort what it rolls, one by one: --workload KIND/NAME; or pause all of it: cutover pause",
        ),
        approval: Approval::Refuse(
            "approve a wave of spec.approval.beforeWaves for one of its workloads: --workload KIND/NAME --wave",
        ),
    },
    Row {
        kind: "Suspension",
        pause: "It neither comes into force nor ends while it is paused.",
        resume: Resume::End,
        abort: Abort::Set("The suspension is removed: held changes are released."),
        approval: Approval::Refuse("a Suspension needs no approval"),
    },
    Row {
        kind: "Evacuation",
        ..MOVES
    },
    Row {
        kind: "Rebalance",
        ..MOVES
    },
];

const MOVES: Row = Row {
    kind: "",
    pause: "No more moves begin; those that have begun are completed.",
    resume: Resume::Unpause("Moves begin again."),
    abort: Abort::Set("No more moves begin, and those that are not past their commit point are rolled back."),
    approval: Approval::Phases,
};

/// A kind that has no row of its own.
static ANY: Row = Row {
    kind: "",
    pause: "No further step begins.",
    resume: GOES_ON,
    abort: Abort::Set("It stops, and goes back as far as it can."),
    approval: Approval::Phases,
};

/// Returns the controls of a kind.
pub(super) fn row(kind: &str) -> &'static Row {
    ROWS.iter().find(|row| row.kind == kind).unwrap_or(&ANY)
}

impl Row {
    /// Returns whether intents of the kind can wait for such an approval.
    pub(super) fn takes(&self, what: What) -> bool {
        match (&self.approval, what) {
            (Approval::Phases, What::Phase(_)) | (Approval::Questions, What::Question(_)) => true,
            (Approval::Number(number), What::Number(field, _)) => number.field == field,
            _ => false,
        }
    }

    /// Returns how intents of the kind are approved.
    fn hint(&self) -> String {
        match &self.approval {
            Approval::Phases => "name a phase of spec.approval.before with --phase".to_owned(),
            Approval::Number(Number { field, gates, .. }) => {
                let gates = gates.trim_start_matches('/').replace('/', ".");
                format!("name a {field} of {gates} with --{field}")
            }
            Approval::Questions => {
                "cutover status shows what it asks; name one question with --gate".to_owned()
            }
            Approval::Refuse(hint) => (*hint).to_owned(),
        }
    }
}

/// Decides about a control that is one field of a spec. What a Migration is asked depends on how it stands: core decides about it.
pub(super) fn decide(of: &Controlled<'_>, control: &Control) -> Result<Decision> {
    let (name, row) = (&of.name, row(of.kind));
    let is_paused = of.is_set("/paused");
    match (control, &row.resume, &row.abort) {
        (Control::Pause, ..) => Ok(Decision::pause(name, is_paused, row.pause)),
        (Control::Resume, Resume::Unpause(effect), _) => Ok(Decision::resume(name, is_paused, *effect)),
        (Control::Resume, Resume::End, _) => end(of),
        (Control::Abort, _, Abort::Set(effect)) => Ok(Decision::abort(name, of.is_set("/abort"), *effect)),
        (Control::Abort, _, Abort::Refuse(hint)) => Err(of
            .error(format!("{} cannot be aborted", of.full_name))
            .hint(*hint)),
        (Control::Assume { .. }, ..) => Err(no_assumptions(of)),
        (Control::Approve { .. }, ..) => Err(no_approval(of)),
    }
}

/// Returns the error about an approval that intents of the kind don't have.
pub(super) fn no_approval(of: &Controlled<'_>) -> Error {
    of.error(format!("{} takes no such approval", of.full_name))
        .hint(row(of.kind).hint())
}

fn no_assumptions(of: &Controlled<'_>) -> Error {
    of.error(format!("{} does not accept assumptions", of.full_name))
        .hint("a Migration does; the questions of a FailoverPlan are answered by cutover approve --gate")
}

/// Ends a suspension now.
fn end(of: &Controlled<'_>) -> Result<Decision> {
    let (name, full_name) = (&of.name, &of.full_name);
    if of.is_set("/paused") {
        return Err(of
            .error_at(
                "/spec/paused",
                format!("{full_name} is paused, and would not end"),
            )
            .hint("remove spec.paused first"));
    }
    let until = of.current("/until").and_then(Value::as_str);
    let until = until.and_then(|until| until.parse::<Timestamp>().ok());
    let now = values::now();
    if let Some(ended) = until.filter(|until| *until <= now) {
        return Ok(Decision::Nothing(format!("{name} ended at {ended}")));
    }
    Ok(Decision::Change {
        change: Change::Set("/spec/until", now.to_string().into()),
        subject: format!("Resume {name}"),
        body: format!("Ends {full_name}: held changes are released."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_core::api::KINDS;

    #[test]
    fn every_row_is_of_a_kind_and_only_migrations_have_none() {
        for row in &ROWS {
            assert!(KINDS.iter().any(|kind| kind.name == row.kind), "{}", row.kind);
        }
        let without: Vec<&str> = KINDS
            .iter()
            .map(|kind| kind.name)
            .filter(|kind| row(kind).kind.is_empty())
            .collect();
        assert_eq!(without, ["Migration"]);
    }

    #[test]
    fn a_flag_of_an_approval_is_of_the_kinds_that_wait_for_it() {
        let takes = |what: What| -> Vec<&str> {
            let kinds = KINDS.iter().map(|kind| kind.name);
            kinds.filter(|kind| row(kind).takes(what)).collect()
        };
        assert_eq!(
            takes(What::Phase(Phase::Handoff)),
            ["Migration", "Evacuation", "Rebalance"]
        );
        assert_eq!(takes(What::Number("percent", 50)), ["ReplicaShift"]);
        assert_eq!(takes(What::Number("wave", 2)), ["Rollout"]);
        assert_eq!(takes(What::Question(FailoverGate::Fenced)), ["FailoverPlan"]);
    }
}
