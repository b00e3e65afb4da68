//! Failover plans, as people are told of them: Events, lines on a terminal, a part of the page, lines of the history.

use std::fmt::Write;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, NAME, finding_line, styled};
use super::{Told, brief, duration, instant};
use crate::api::{
    FailoverPhase as Phase, FailoverPlan, FailoverPlanStatus, LastKnown, OpenQuestion, Relocation,
    WaitingFor, WorkloadRef,
};
use crate::intent::record;
use cutover_karmada::name::ClusterName;

/// What stands in for the status of one that no pass has looked at yet.
static NOT_BEGUN: std::sync::LazyLock<FailoverPlanStatus> =
    std::sync::LazyLock::new(FailoverPlanStatus::default);

pub(super) fn status(plan: &FailoverPlan) -> &FailoverPlanStatus {
    plan.status.as_ref().unwrap_or(&NOT_BEGUN)
}

pub(super) fn names(plan: &FailoverPlan) -> (&str, &str) {
    let meta = &plan.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

pub(super) fn path(plan: &FailoverPlan) -> String {
    let (namespace, name) = names(plan);
    record::path("FailoverPlan", namespace, name)
}

/// A plan in `status.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverSnapshot {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) workload: WorkloadRef,
    pub(super) phase: Phase,
    /// How many failovers there were.
    pub(super) attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) writer: Option<ClusterName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_known: Option<LastKnown>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) waiting_for: Option<WaitingFor>,
    /// What a person is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) asks: Vec<OpenQuestion>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl FailoverSnapshot {
    pub(super) fn of(plan: &FailoverPlan) -> Self {
        let status = status(plan);
        let (namespace, name) = names(plan);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            workload: plan.spec_in_force().workload.clone(),
            phase: status.phase,
            attempt: status.common.attempt,
            writer: status.writer.clone(),
            last_known: status.last_known.clone(),
            waiting_for: status.common.waiting_for.clone(),
            asks: status.asks.clone(),
            record: path(plan),
        }
    }

    /// Says how it went on since `before`, if it did.
    pub(super) fn change(&self, before: &[Self]) -> Option<String> {
        let was = before.iter().find(|was| was.record == self.record);
        let name = format!("{}/{}", self.namespace, self.name);
        match was {
            Some(was) if was.phase == self.phase && was.attempt == self.attempt => None,
            Some(was) => Some(format!("{name}: {} → {}", was.phase, self.phase)),
            None => Some(format!("{name}: {}", self.phase)),
        }
    }

    /// Returns whether people have to hear at once of what is new since `before`.
    pub(super) fn is_urgent(&self, before: &[Self]) -> bool {
        let was = before.iter().find(|was| was.record == self.record);
        let asks_anew = was.is_none_or(|was| was.asks != self.asks) && !self.asks.is_empty();
        asks_anew || (self.phase != Phase::Pending && self.change(before).is_some())
    }
}

/// Returns what is to be told once the journal says what `after` says.
pub fn failover_events(before: &FailoverPlan, after: &FailoverPlanStatus) -> Vec<Told> {
    let was = status(before);
    let mut told = Vec::new();
    if was.phase != after.phase {
        let evidence = after
            .common
            .steps
            .iter()
            .rev()
            .find(|step| step.name == was.phase.name());
        let evidence = evidence.map(|step| step.evidence.join("; ")).unwrap_or_default();
        let warning = matches!(after.phase, Phase::Evicted | Phase::Failed);
        told.push(Told::new(warning, after.phase.name(), &evidence));
    }
    for done in after.history.iter().filter(|done| !was.history.contains(done)) {
        let known = was.history.iter();
        if !known
            .clone()
            .any(|known| (known.at, &known.what) == (done.at, &done.what))
        {
            told.push(Told::new(false, "FailedOver", &sentence(done)));
        }
    }
    for ask in after.asks.iter().filter(|ask| !was.asks.contains(ask)) {
        told.push(Told::new(true, "ApprovalNeeded", &question(ask)));
    }
    for finding in &after.common.findings {
        if !was.common.findings.contains(finding) {
            let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})"));
            let note = format!("{}{}", finding.message, hint.unwrap_or_default());
            told.push(Told::new(true, &finding.code, &note));
        }
    }
    told
}

fn question(ask: &OpenQuestion) -> String {
    format!(
        "{} of {} for attempt {}: cutover approve",
        ask.gate, ask.cluster, ask.attempt
    )
}

/// Tells of one move in a sentence.
fn sentence(done: &Relocation) -> String {
    let state = done.state.as_ref().map_or_else(String::new, |state| {
        let values: Vec<String> = state
            .values
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        format!("; state {}: {}", state.source, values.join(", "))
    });
    let by = done
        .by
        .as_ref()
        .map_or_else(String::new, |by| format!("; by {by}"));
    let down = done.downtime_ms.map_or_else(String::new, |down| {
        format!("; {down} ms from then until it was seen well")
    });
    format!(
        "{} {}: {} → {}: {}{state}{by}{down}",
        instant(done.at),
        done.what,
        done.from,
        done.to,
        done.reason
    )
}

/// Returns a plan: a head line, what it waits for, questions, old copies, the last moves, findings.
pub fn failover_lines(plan: &FailoverPlan, now: Timestamp) -> Vec<String> {
    let status = status(plan);
    let (namespace, name) = names(plan);
    let workload = &plan.spec_in_force().workload;
    let style = match status.phase {
        Phase::Guarding => GOOD,
        Phase::Failed => BAD,
        _ => BUSY,
    };
    let writer = status.writer.as_ref().map_or("nobody", ClusterName::as_str);
    let mut lines = vec![format!(
        "{}  {} {}, writer {writer}  {}",
        styled(NAME, format!("{namespace}/{name}")),
        workload.kind,
        workload.name,
        styled(style, status.phase)
    )];
    if let Some(wait) = &status.common.waiting_for {
        let since = duration(now.duration_since(wait.since));
        lines.push(format!(
            "  {} {} ({since})",
            styled(BUSY, "waits:"),
            brief(&wait.reason)
        ));
    }
    for ask in &status.asks {
        lines.push(format!("  {} {}", styled(BUSY, "asks:"), question(ask)));
    }
    if let Some(known) = &status.last_known {
        let values: Vec<&str> = known.values.values().map(String::as_str).collect();
        lines.push(format!(
            "  last known state: {} (seen {})",
            values.join(", "),
            instant(known.at)
        ));
    }
    for (cluster, old) in &status.old_copies {
        let how = if old.kept { "kept" } else { "not seen gone" };
        lines.push(format!(
            "  old copy in {cluster}: left at {}, {how}",
            instant(old.since)
        ));
    }
    for done in status.history.iter().rev().take(3) {
        lines.push(format!("  {}", sentence(done)));
    }
    lines.extend(status.common.findings.iter().flat_map(finding_line));
    lines
}

/// Writes the part of the page that is about failover plans.
pub(super) fn section(page: &mut String, plans: &[FailoverPlan]) {
    if plans.is_empty() {
        return;
    }
    page.push_str("## Failover plans\n\n| Plan | Workload | Writer | Phase | Failovers | Last known state |\n|---|---|---|---|---|---|\n");
    let mut all: Vec<&FailoverPlan> = plans.iter().collect();
    all.sort_by_key(|plan| (!status(plan).phase.in_flight(), names(plan)));
    for plan in &all {
        let status = status(plan);
        let (namespace, name) = names(plan);
        let known = status.last_known.as_ref().map_or_else(String::new, |known| {
            known.values.values().cloned().collect::<Vec<_>>().join(", ")
        });
        let _ = writeln!(
            page,
            "| [{}/{}]({}) | {} | {} | {} | {} | {} |",
            escape(namespace),
            escape(name),
            path(plan),
            escape(&plan.spec_in_force().workload.name),
            escape(status.writer.as_ref().map_or("nobody", ClusterName::as_str)),
            status.phase,
            status.common.attempt,
            escape(&known),
        );
    }
    page.push('\n');
    for plan in all {
        let status = status(plan);
        let (namespace, name) = names(plan);
        let name = escape(&format!("{namespace}/{name}"));
        let mut item = |text: &str| {
            let _ = writeln!(page, "- {name}: {}", escape(text));
        };
        if let Some(wait) = &status.common.waiting_for {
            item(&format!(
                "⏳ waits since {}: {}",
                instant(wait.since),
                brief(&wait.reason)
            ));
        }
        for ask in &status.asks {
            item(&format!("✋ asks: {}", question(ask)));
        }
        for done in status.history.iter().rev().take(10) {
            item(&sentence(done));
        }
        for finding in &status.common.findings {
            item(&format!("⚠️ {}", super::finding_text(finding)));
        }
    }
    page.push('\n');
}
