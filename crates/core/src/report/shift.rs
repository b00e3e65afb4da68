//! Shifts of replicas, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use jiff::Timestamp;

use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, NAME, finding_line, styled, wait_lines};
use super::{Told, brief, instant};
use crate::api::{ReplicaShift, ReplicaShiftStatus, ShiftPhase as Phase};

/// What stands in for the status of one that no pass has looked at yet.
static NOT_BEGUN: std::sync::LazyLock<ReplicaShiftStatus> =
    std::sync::LazyLock::new(ReplicaShiftStatus::default);

pub(super) fn status(shift: &ReplicaShift) -> &ReplicaShiftStatus {
    shift.status.as_ref().unwrap_or(&NOT_BEGUN)
}

pub(super) fn names(shift: &ReplicaShift) -> (&str, &str) {
    let meta = &shift.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Returns what is to be told once the journal says what `after` says.
pub fn shift_events(before: &ReplicaShift, after: &ReplicaShiftStatus) -> Vec<Told> {
    let was = status(before);
    let mut told = Vec::new();
    if was.phase != after.phase {
        let back = after.journal.as_ref().and_then(|journal| journal.back.as_ref());
        let (warning, note) = match after.phase {
            Phase::RollingBack | Phase::RolledBack | Phase::Aborted => (
                after.phase != Phase::Aborted,
                back.map_or_else(|| "nothing was touched".to_owned(), |back| back.reason.clone()),
            ),
            Phase::Failed => (
                true,
                "it can't be done as it is asked for; nothing was touched".to_owned(),
            ),
            _ => (false, what(before)),
        };
        told.push(Told::new(warning, after.phase.name(), &note));
    }
    if let (Some(moved), true) = (&after.moved, was.moved != after.moved && was.moved.is_some()) {
        told.push(Told::new(false, "Moved", &format!("{moved} have gone")));
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

/// Returns what is shifted: `replicas of Deployment web from blue to green`.
pub(super) fn what(shift: &ReplicaShift) -> String {
    let spec = &shift.spec;
    format!(
        "replicas of {} {} from {} to {}",
        spec.workload.kind, spec.workload.name, spec.from, spec.to
    )
}

/// Returns a shift: a head line, how far it is and how many are ready, why it waits, findings.
pub fn shift_lines(shift: &ReplicaShift, now: Timestamp) -> Vec<String> {
    let status = status(shift);
    let (namespace, name) = names(shift);
    let style = match status.phase {
        Phase::Completed | Phase::Shifted => GOOD,
        Phase::Failed | Phase::RolledBack => BAD,
        _ => BUSY,
    };
    let mut lines = vec![format!(
        "{}  {}  {}",
        styled(NAME, format!("{namespace}/{name}")),
        what(shift),
        styled(style, status.phase)
    )];
    lines.extend(progress(status).map(|progress| format!("  {progress}")));
    let back = status.journal.as_ref().and_then(|journal| journal.back.as_ref());
    if let Some(back) = back {
        lines.push(format!("  {} {}", styled(BAD, "goes back:"), brief(&back.reason)));
    }
    if let Some(wait) = &status.common.waiting_for {
        lines.extend(wait_lines(wait, now));
    }
    lines.extend(status.common.findings.iter().flat_map(finding_line));
    lines
}

/// How many have gone, how many are ready, and how many must be.
fn progress(status: &ReplicaShiftStatus) -> Option<String> {
    let moved = status.moved.as_ref()?;
    let mut text = format!("{moved} have gone");
    if let (Some(ready), Some(floor)) = (status.ready, status.floor) {
        let _ = write!(text, ", {ready} ready (floor {floor}");
        if let Some(lowest) = status.lowest {
            let _ = write!(text, ", fewest {lowest}");
        }
        text.push(')');
    }
    Some(text)
}

/// Writes the part of the page that is about shifts; those that go on first.
pub(super) fn section(page: &mut String, shifts: &[ReplicaShift]) {
    if shifts.is_empty() {
        return;
    }
    page.push_str(
        "## Shifts of replicas\n\n| Shift | What | Moved | Fewest ready | Floor | Started | Phase |\n|---|---|---|---|---|---|---|\n",
    );
    let mut all: Vec<&ReplicaShift> = shifts.iter().collect();
    all.sort_by_key(|one| (status(one).phase.is_terminal(), names(one)));
    let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
    for shift in &all {
        let status = status(shift);
        let (namespace, name) = names(shift);
        let _ = writeln!(
            page,
            "| [{}/{}]({}) | {} | {} | {} | {} | {} | {} |",
            escape(namespace),
            escape(name),
            super::shift_path(shift),
            escape(&what(shift)),
            status.moved.as_deref().unwrap_or_default(),
            number(status.lowest),
            number(status.floor),
            status.common.started_at.map_or_else(String::new, instant),
            status.phase
        );
    }
    page.push('\n');
    for shift in all {
        let status = status(shift);
        let (namespace, name) = names(shift);
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
        for finding in &status.common.findings {
            item(&format!("⚠️ {}", super::finding_text(finding)));
        }
    }
    page.push('\n');
}
