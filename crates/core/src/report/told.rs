//! A migration as lines on a terminal. Styles are always written: who prints takes them away where they don't belong.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp};

use super::account::{next, reason};
use super::{brief, duration, instant, names, route, status};
use crate::api::{ConditionStatus, Finding, Migration, Phase, StepRecord, WaitingFor};

pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const BUSY: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const NAME: Style = Style::new().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const QUIET: Style = Style::new().dimmed();

/// Returns `text` in a style.
pub(super) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns a migration: a head line, its steps, what came of it, why it waits, findings, and what a person can do.
pub fn migration_lines(migration: &Migration, now: Timestamp) -> Vec<String> {
    let status = status(migration);
    let mut lines = vec![head(migration)];
    lines.extend(status.common.steps.iter().enumerate().map(|(index, step)| {
        let next = status.common.steps.get(index + 1).map(|next| next.name.as_str());
        step_line(step, next)
    }));
    if let Some(reason) = reason(migration) {
        lines.push(format!("  {} {}", styled(BAD, "rolled back:"), brief(&reason)));
    }
    lines.extend(times(migration, now));
    if let Some(waiting) = &status.common.waiting_for {
        lines.extend(wait_lines(waiting, now));
    }
    lines.extend(finding_lines(migration));
    let ignored = status.common.conditions.iter().find(|condition| {
        condition.type_ == "SpecChangeIgnored" && condition.status == ConditionStatus::True
    });
    if let Some(ignored) = ignored.filter(|_| !status.phase.is_terminal()) {
        lines.push(format!("  {}", styled(BUSY, &ignored.message)));
    }
    if let Some(next) = next(migration) {
        lines.push(format!("  {} {next}", styled(HINT, "next:")));
    }
    lines
}

fn head(migration: &Migration) -> String {
    let status = status(migration);
    let (namespace, name) = names(migration);
    let (from, to) = route(migration);
    let mut head = format!(
        "{}  {} {}  {from} → {to}  {}",
        styled(NAME, format!("{namespace}/{name}")),
        migration.spec.workload.kind,
        migration.spec.workload.name,
        styled(style(status.phase), status.phase)
    );
    if status.common.attempt > 1 {
        let _ = write!(head, "  attempt {}", status.common.attempt);
    }
    head
}

/// How long it took and how long nothing ran; while it goes on, how long nothing has been running.
fn times(migration: &Migration, now: Timestamp) -> Option<String> {
    let status = status(migration);
    let journal = status.journal.as_ref();
    if !status.phase.is_terminal() {
        let journal = journal.filter(|journal| journal.up_since.is_none())?;
        let down = journal.down_since?;
        let since = format!("{}: since {}", ago(down, now), instant(down));
        return Some(format!("  {} for {since}", styled(BUSY, "not seen running")));
    }
    let began = status
        .common
        .started_at
        .or_else(|| status.common.steps.first().map(|step| step.started_at));
    let took = began.zip(status.common.finished_at).map(|(from, until)| {
        format!(
            "took {}, until {}",
            duration(until.duration_since(from)),
            instant(until)
        )
    });
    let downtime = status.downtime_ms.and_then(|millis| i64::try_from(millis).ok());
    let downtime =
        downtime.map(|millis| format!("downtime {}", duration(SignedDuration::from_millis(millis))));
    let parts: Vec<String> = downtime.into_iter().chain(took).collect();
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

/// Why it waits, since when, until when, and what happens then.
pub(super) fn wait_lines(waiting: &WaitingFor, now: Timestamp) -> Vec<String> {
    let since = format!("since {} ({})", instant(waiting.since), ago(waiting.since, now));
    let mut lines = vec![
        format!("  {} {}", styled(BUSY, "waits:"), brief(&waiting.reason)),
        format!("    {since}"),
    ];
    if let Some(until) = waiting.until {
        let then = waiting.then.as_deref().unwrap_or("it ends");
        let left = until.duration_since(now);
        let when = if left.is_positive() {
            format!("in {}", duration(left))
        } else {
            "now".to_owned()
        };
        lines.push(format!("    at {} ({when}): {then}", instant(until)));
    }
    lines
}

fn ago(since: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(since))
}

/// Returns the lines of each finding of a migration.
pub fn finding_lines(migration: &Migration) -> Vec<String> {
    status(migration)
        .common
        .findings
        .iter()
        .flat_map(finding_line)
        .collect()
}

pub(super) fn finding_line(finding: &Finding) -> Vec<String> {
    let what = format!(
        "  {} {}",
        styled(BUSY, format!("{}:", finding.code)),
        finding.message
    );
    let hint = finding.hint.as_ref();
    let hint = hint.map(|hint| format!("    {} {hint}", styled(HINT, "hint:")));
    std::iter::once(what).chain(hint).collect()
}

/// Returns a step, how long it took and what let it end, as one line: `  ✓ Capture     612 ms  evidence; evidence`.
///
/// `next` is the name of the step after it: one that led to a roll back has failed.
pub fn step_line(step: &StepRecord, next: Option<&str>) -> String {
    let took = step.finished_at.map_or_else(
        || "…".to_owned(),
        |at| duration(at.duration_since(step.started_at)),
    );
    let mark = match (step.finished_at, next) {
        (None, _) => styled(BUSY, "•"),
        (Some(_), Some("RollingBack")) => styled(BAD, "✗"),
        (Some(_), _) => styled(GOOD, "✓"),
    };
    let mut line = format!("  {mark} {:<11} {took:>8}", step.name);
    if !step.evidence.is_empty() {
        let _ = write!(line, "  {}", styled(QUIET, brief(&step.evidence.join("; "))));
    }
    line
}

const fn style(phase: Phase) -> Style {
    match phase {
        Phase::Completed => GOOD,
        Phase::Failed => BAD,
        _ => BUSY,
    }
}
