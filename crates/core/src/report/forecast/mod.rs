//! What a new or changed intent would do, in words: from what it asks for, and from how far its machine comes without doing
//! anything. Nothing is looked up here.

mod failover;
mod moves;
mod rollout;
mod shift;
mod suspension;
#[cfg(test)]
mod tests;

pub use failover::failover_forecast;
pub use moves::moves_forecast;
pub use rollout::{Where, rollout_forecast, rollout_policy_forecast};
pub use shift::shift_forecast;
pub use suspension::suspension_forecast;

use super::finding_text;
use crate::api::{Common, Finding, Progress, WaitingFor};
use crate::plan::Outcome;
use cutover_karmada::name::ClusterName;

/// How many workloads are told one by one.
const TOLD: usize = 50;

/// How far an intent comes by itself, as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunOutcome {
    /// No control plane was asked.
    NotAsked,
    /// What it depends on could not be read, for this reason.
    Unread(String),
    /// Something of the same push has to be there first.
    Later(String),
    /// An attempt is under way already.
    UnderWay,
    /// The next thing is a write.
    Begins,
    /// It waits, or has ended, with nothing touched.
    Stands,
}

/// Returns what would come of an intent, and why. `status`: how its machine left it; `in_force`: why nothing is to be done, where that is
/// so.
fn outcome(
    status: &impl Progress,
    came: &DryRunOutcome,
    in_force: impl FnOnce() -> Vec<String>,
) -> (Outcome, Vec<String>) {
    match came {
        DryRunOutcome::NotAsked => (Outcome::Unknown, vec!["no control plane was asked".to_owned()]),
        DryRunOutcome::Unread(why) => (Outcome::Unknown, vec![why.clone()]),
        DryRunOutcome::Later(why) => (Outcome::Waits, vec![why.clone()]),
        DryRunOutcome::UnderWay => {
            let waits = status.waiting_for().map(WaitingFor::phrase);
            let phase = std::iter::once(status.phase_name().to_owned());
            (Outcome::UnderWay, phase.chain(waits).collect())
        }
        DryRunOutcome::Begins => (Outcome::Begins, Vec::new()),
        DryRunOutcome::Stands if status.has_ended() && status.phase_name() == "Failed" => {
            (Outcome::Refused, texts(&status.common().findings))
        }
        DryRunOutcome::Stands => match status.waiting_for() {
            Some(wait) if !status.has_ended() => (Outcome::Waits, vec![wait.reason.clone()]),
            _ => (Outcome::Nothing, in_force()),
        },
    }
}

/// Returns what was found of an intent that is not refused for it.
fn found(outcome: Outcome, common: &Common) -> Vec<String> {
    match outcome {
        Outcome::Refused => Vec::new(),
        _ => texts(&common.findings),
    }
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(finding_text).collect()
}

/// Returns what the last step of a machine has seen.
fn evidence(common: &Common) -> Vec<String> {
    let last = common.steps.last();
    last.map(|step| step.evidence.clone()).unwrap_or_default()
}

/// Names clusters in a sentence.
fn names<'a>(clusters: impl IntoIterator<Item = &'a ClusterName>) -> String {
    let names: Vec<&str> = clusters.into_iter().map(ClusterName::as_str).collect();
    names.join(", ")
}
