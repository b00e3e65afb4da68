//! Steps and findings as lines on a terminal. Styles are always written: who prints takes them away where they don't belong.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use super::plain::plain_words;
use super::status;
use crate::api::{Finding, Migration, StepRecord};
use crate::units::{brief, duration};

pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const BUSY: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const NAME: Style = Style::new().bold();
pub(super) const HINT: Style = AnsiColor::Cyan.on_default().bold();
pub(super) const QUIET: Style = Style::new().dimmed();

/// Returns `text` in a style.
pub(super) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
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
/// `next` is the name of the step after it: one that led to a roll back has failed. `verbose`: with uids, markers and the like.
pub fn step_line(step: &StepRecord, next: Option<&str>, verbose: bool) -> String {
    let evidence = brief(&step.evidence.join("; "));
    let said = if verbose { evidence } else { plain_words(&evidence) };
    line(step, next, &took(step, None), &said)
}

/// The same with what is said of it, and with how long one takes that goes on.
pub(super) fn step_line_until(step: &StepRecord, next: Option<&str>, said: &str, now: Timestamp) -> String {
    line(step, next, &took(step, Some(now)), said)
}

fn took(step: &StepRecord, now: Option<Timestamp>) -> String {
    let until = step.finished_at.or(now);
    until.map_or_else(
        || "…".to_owned(),
        |at| duration(at.duration_since(step.started_at)),
    )
}

fn line(step: &StepRecord, next: Option<&str>, took: &str, said: &str) -> String {
    let mark = match (step.finished_at, next) {
        (None, _) => styled(BUSY, "•"),
        (Some(_), Some("RollingBack")) => styled(BAD, "✗"),
        (Some(_), _) => styled(GOOD, "✓"),
    };
    let mut line = format!("  {mark} {:<11} {took:>8}", step.name);
    if !said.is_empty() {
        let _ = write!(line, "  {}", styled(QUIET, said));
    }
    line
}
