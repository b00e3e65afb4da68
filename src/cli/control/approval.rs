//! What `cutover approve` writes: an approval, in the form that the kind of the intent has.

use serde_json::{Value, json};

use super::kinds::{self, Approval, Number, What};
use crate::cli::look::{Known, Look, attempt_of, why};
use crate::cli::selected;
use crate::cli::target::{Controlled, Target};
use crate::cli::workspace::Workspace;
use cutover_core::api::{FailoverGate, FailoverPlan, FailoverPlanStatus, OpenQuestion, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::{Decision, Refusal};
use cutover_core::manifest::Change;
use cutover_karmada::name::ClusterName;

/// What a person approves; what is left out is what the intent waits for.
pub(super) struct Given {
    pub(super) what: Option<What>,
    pub(super) attempt: Option<u32>,
    pub(super) by: Option<String>,
}

/// An approval that an intent can wait for.
struct Approved {
    /// As `spec.approvals` has it, without the attempt.
    approval: Value,
    what: String,
    effect: String,
}

/// Decides about an approval of an intent other than a Migration.
pub(super) async fn decide(
    given: Given,
    target: &Target,
    workspace: &Workspace,
    look: Look<'_>,
) -> Result<Decision> {
    let of = target.controlled();
    if matches!(kinds::row(of.kind).approval, Approval::Questions) {
        return question(given, target, workspace, look).await;
    }
    let approved = approved(&of, given.what)?;
    let present = match given.attempt {
        Some(_) => None,
        None => selected::known(look, workspace, target).await.attempt(),
    };
    approved.decide(of.name, given, present)
}

/// The same about an intent as the control plane has it.
pub(super) fn decide_live(given: Given, of: Controlled<'_>) -> Result<Decision> {
    let present = attempt_of(of.object);
    approved(&of, given.what)?.decide(of.name, given, present)
}

fn approved(of: &Controlled<'_>, what: Option<What>) -> Result<Approved> {
    match &kinds::row(of.kind).approval {
        Approval::Refuse(_) | Approval::Questions => Err(kinds::no_approval(of)),
        Approval::Phases => {
            let phase = phase(of, what)?;
            Ok(Approved {
                approval: json!({"phase": phase}),
                effect: format!("{phase} may begin."),
                what: phase,
            })
        }
        Approval::Number(number) => {
            let asked = numbered(of, number, what)?;
            Ok(Approved {
                approval: json!({ (number.field): asked }),
                what: (number.name)(asked),
                effect: (number.effect)(asked),
            })
        }
    }
}

impl Approved {
    /// `present`: the attempt that the intent is in, where none is given.
    fn decide(mut self, name: String, given: Given, present: Option<u32>) -> Result<Decision> {
        let Some(attempt) = given.attempt.or(present) else {
            return Err(Refusal::WhichAttempt { name }.into());
        };
        self.approval["attempt"] = json!(attempt);
        Ok(Decision::Change {
            change: append(self.approval, given.by),
            subject: format!("Approve {} of {name}", self.what),
            body: format!("Attempt {attempt}: {}", self.effect),
        })
    }
}

fn append(mut approval: Value, by: Option<String>) -> Change {
    if let Some(by) = by {
        approval["by"] = json!(by);
    }
    Change::Append("/spec/approvals", approval)
}

/// Returns the phase of `spec.approval.before` that is meant.
fn phase(of: &Controlled<'_>, what: Option<What>) -> Result<String> {
    let name = of.name.clone();
    let gates = of.current("/approval/before").and_then(Value::as_array);
    let gates: Vec<&str> = gates.into_iter().flatten().filter_map(Value::as_str).collect();
    let asked = match what {
        Some(What::Phase(phase)) => Some(Phase::name(phase)),
        _ => None,
    };
    match (asked, gates.as_slice()) {
        (_, []) => Err(Refusal::NoGates { name }.into()),
        (None, [only]) => Ok((*only).to_owned()),
        (None, gates) => Err(
            Error::user(format!("{name} waits for approvals of {}", gates.join(" and ")))
                .hint("name one of them with --phase"),
        ),
        (Some(asked), gates) if gates.contains(&asked) => Ok(asked.to_owned()),
        (Some(asked), gates) => Err(Error::user(format!(
            "{name} does not wait for an approval of {asked}, but of {}",
            gates.join(" and ")
        ))
        .hint("leave --phase out")),
    }
}

/// Returns the number that is meant, if the intent waits at it.
fn numbered(of: &Controlled<'_>, number: &Number, what: Option<What>) -> Result<u32> {
    let Some(What::Number(_, asked)) = what else {
        return Err(kinds::no_approval(of));
    };
    let gates = of.object.pointer(number.gates).and_then(Value::as_array);
    if gates.is_some_and(|gates| gates.contains(&json!(asked))) {
        return Ok(asked);
    }
    let field = number.gates.trim_start_matches('/').replace('/', ".");
    let error = format!(
        "{} doesn't wait for an approval of {}",
        of.name,
        (number.name)(asked)
    );
    Err(of
        .error_at("/spec", error)
        .hint(format!("{field} says where it waits")))
}

/// Answers a question of a FailoverPlan with yes.
async fn question(given: Given, target: &Target, workspace: &Workspace, look: Look<'_>) -> Result<Decision> {
    let (name, plan) = (target.name(), &target.manifest.key.name);
    let known = look.known::<FailoverPlan>(workspace, "FailoverPlan", target.namespace.as_deref(), plan);
    let status = match known.await {
        Known::As(plan) => plan.status.unwrap_or_default(),
        Known::Absent(reasons) if reasons.is_empty() => FailoverPlanStatus::default(),
        Known::Absent(reasons) | Known::Not(reasons) => {
            return Err(
                Error::user(format!("what {name} asks is not known: {}", why(&reasons)))
                    .hint("name a control plane with --kubeconfig, or leave --offline out"),
            );
        }
    };
    let ask = asked(&name, &status, &given)?;
    let approval = json!({"gate": ask.gate, "cluster": ask.cluster, "attempt": ask.attempt});
    Ok(Decision::Change {
        change: append(approval, given.by),
        subject: format!("Approve {} of {} for {name}", ask.gate, ask.cluster),
        body: format!(
            "Failover {} of {name}: {}",
            ask.attempt,
            answer(ask.gate, &ask.cluster)
        ),
    })
}

/// Returns the one question that is meant.
fn asked<'a>(name: &str, status: &'a FailoverPlanStatus, given: &Given) -> Result<&'a OpenQuestion> {
    let gate = match given.what {
        Some(What::Question(gate)) => Some(gate),
        _ => None,
    };
    let is_meant = |ask: &&OpenQuestion| {
        gate.is_none_or(|gate| ask.gate == gate) && given.attempt.is_none_or(|attempt| ask.attempt == attempt)
    };
    let asks: Vec<&OpenQuestion> = status.asks.iter().filter(is_meant).collect();
    match asks.as_slice() {
        [only] => Ok(*only),
        [] => Err(asks_nothing(name, status, gate)),
        several => {
            let names = several
                .iter()
                .map(|ask| format!("{} of {}", ask.gate, ask.cluster));
            let names: Vec<String> = names.collect();
            Err(
                Error::user(format!("{name} asks for several approvals: {}", names.join(", ")))
                    .hint("name one with --gate, or add the approval to spec.approvals by hand"),
            )
        }
    }
}

fn asks_nothing(name: &str, status: &FailoverPlanStatus, gate: Option<FailoverGate>) -> Error {
    let what = gate.map_or_else(
        || "no approval".to_owned(),
        |gate| format!("no approval of {gate}"),
    );
    let hint = match status.asks.first() {
        Some(ask) => format!("it asks for {} of {}", ask.gate, ask.cluster),
        None => format!("cutover status says what it does: it is {}", status.phase),
    };
    Error::user(format!("{name} asks for {what}")).hint(hint)
}

fn answer(gate: FailoverGate, cluster: &ClusterName) -> String {
    match gate {
        FailoverGate::Fenced => {
            format!("no copy of the workload in {cluster} writes, or will write again.")
        }
        FailoverGate::FromNothing => format!("the copy in {cluster} may start without its state."),
        FailoverGate::Purge => format!("the old copy in {cluster} may be deleted."),
    }
}
