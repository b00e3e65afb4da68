//! What became of an attempt: the time of each phase, how long nothing ran, and why it ended as it did.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::answer::command;
use super::{names, status};
use crate::api::{Finding, Migration, MigrationStatus, Phase, StepRecord};

/// An attempt of an intent, as far as it has come.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// From the first look to the end.
    pub took_ms: Option<u64>,
    /// How long no copy was running.
    pub downtime_ms: Option<u64>,
    /// Why it is or was rolled back.
    pub reason: Option<String>,
    pub steps: Vec<StepAccount>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What a person can do about it now.
    pub next: Option<String>,
}

/// One phase, with what was observed that let it end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepAccount {
    pub name: String,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

impl Account {
    /// Returns what the status of a migration says of its present or last attempt.
    pub fn of(migration: &Migration) -> Self {
        let status = status(migration);
        let began = status
            .common
            .started_at
            .or_else(|| status.common.steps.first().map(|step| step.started_at));
        let took = began.zip(status.common.finished_at);
        Self {
            started_at: began,
            finished_at: status.common.finished_at,
            took_ms: took.map(|(from, until)| millis(until.duration_since(from))),
            downtime_ms: status.downtime_ms,
            reason: reason(migration),
            steps: status.common.steps.iter().map(StepAccount::of).collect(),
            findings: status.common.findings.clone(),
            next: next(migration),
        }
    }
}

impl StepAccount {
    fn of(step: &StepRecord) -> Self {
        let took = step.finished_at.map(|at| at.duration_since(step.started_at));
        Self {
            name: step.name.clone(),
            started_at: step.started_at,
            took_ms: took.map(millis),
            evidence: step.evidence.clone(),
        }
    }
}

/// Returns why a migration is or was rolled back, and in which phase that was decided.
pub(super) fn reason(migration: &Migration) -> Option<String> {
    let status = status(migration);
    let journal = status.journal.as_ref();
    if let Some(back) = journal.and_then(|journal| journal.roll_back.as_ref()) {
        return Some(format!("{} (in {})", back.reason, back.from_phase));
    }
    // One that ended before anything was touched has nothing to roll back.
    let ended_early = matches!(status.phase, Phase::RolledBack | Phase::Aborted);
    let last = status.common.steps.last().filter(|_| ended_early)?;
    (!last.evidence.is_empty()).then(|| format!("{} (in {})", last.evidence.join("; "), last.name))
}

/// Returns whether an attempt ended before its first effect.
pub(super) fn untouched(status: &MigrationStatus) -> bool {
    !status
        .common
        .steps
        .iter()
        .any(|step| step.name == Phase::Hold.name())
}

/// Returns what a person can do so that it goes on; nothing while it does so by itself.
pub(super) fn next(migration: &Migration) -> Option<String> {
    let status = status(migration);
    let (namespace, name) = names(migration);
    if status.phase == Phase::Failed && untouched(&status) {
        return Some("nothing was changed: fix the cause, then run cutover migrate again".to_owned());
    }
    if matches!(status.phase, Phase::RolledBack | Phase::Failed) {
        return Some("fix the cause, then run cutover migrate again".to_owned());
    }
    let wait = status.common.waiting_for.as_ref()?;
    command(&format!("{namespace}/{name}"), wait)
}

fn millis(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or_default()
}
