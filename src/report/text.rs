//! The lines on a terminal. Styles are always written: who prints takes them away where they don't belong.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::{Overview, brief, by_urgency, duration, finding_text, markdown, names, route, snapshot, status};
use crate::api::{Migration, Phase, StepRecord};
use crate::error::Error;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const BUSY: Style = AnsiColor::Yellow.on_default().bold();
const NAME: Style = Style::new().bold();
const QUIET: Style = Style::new().dimmed();

/// Returns `text` in a style.
fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns the overview as `cutover status` prints it.
pub fn status_text(overview: &Overview) -> String {
    let mut text = String::new();
    for sync in &overview.syncs {
        let revision = sync
            .revision
            .as_ref()
            .map_or("never applied", |revision| revision.short());
        let _ = writeln!(
            text,
            "{}  {revision}  in sync: {}, held back: {}, waiting: {}, problems: {}",
            styled(NAME, &sync.name),
            sync.in_sync,
            sync.held_back.len(),
            sync.waiting.iter().map(|wait| wait.objects.len()).sum::<usize>(),
            sync.problems.len()
        );
        for wait in sync.waiting.iter().filter(|wait| !wait.overdue) {
            let _ = writeln!(text, "  {}", styled(BUSY, wait.sentence()));
        }
        for problem in &sync.problems {
            let _ = writeln!(text, "  {}", styled(BAD, &problem.message));
            if let Some(location) = &problem.location {
                let _ = writeln!(text, "  --> {location}");
            }
            if let Some(hint) = &problem.hint {
                let _ = writeln!(text, "  hint: {hint}");
            }
        }
    }
    let migrations = by_urgency(overview);
    for migration in &migrations {
        if !text.is_empty() {
            text.push('\n');
        }
        for line in migration_lines(migration) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    if migrations.is_empty() {
        text.push_str("no migrations\n");
    }
    text
}

/// Returns the overview as JSON, in the shape of `status.yaml`.
pub fn status_json(overview: &Overview) -> Result<String, Error> {
    serde_json::to_string_pretty(&snapshot::Snapshot::of(overview))
        .map_err(|error| Error::internal(format!("the status cannot be written as JSON: {error}")))
}

/// Returns a migration: a head line, its steps, why it waits, findings.
pub fn migration_lines(migration: &Migration) -> Vec<String> {
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
    if let Some(downtime) = status.downtime_ms.and_then(|millis| i64::try_from(millis).ok()) {
        let _ = write!(
            head,
            "  downtime {}",
            duration(jiff::SignedDuration::from_millis(downtime))
        );
    }
    let mut lines = vec![head];
    lines.extend(status.steps.iter().enumerate().map(|(index, step)| {
        let next = status.steps.get(index + 1).map(|next| next.name.as_str());
        step_line(step, next)
    }));
    if let Some(waiting) = &status.waiting_for {
        lines.push(format!("  {}", markdown::wait(waiting)));
    }
    lines.extend(finding_lines(migration));
    lines
}

/// Returns a line for each finding of a migration.
pub fn finding_lines(migration: &Migration) -> Vec<String> {
    status(migration)
        .findings
        .iter()
        .map(|finding| format!("  {}", styled(BUSY, finding_text(finding))))
        .collect()
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
