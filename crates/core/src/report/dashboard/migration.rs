//! A migration on a terminal: its steps, what came of it, why it waits, findings, and what comes next.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use super::Layout;
use super::intents::{ago, findings, head, wait_lines};
use super::lines::Line;
use crate::api::{ConditionStatus, Migration, MigrationStatus, StepRecord};
use crate::report::account::{next, reason};
use crate::report::copies::WorkloadKey;
use crate::report::summary::Summary;
use crate::report::told::{BAD, BUSY, step_line_until, styled};
use crate::report::{next as following, route, status};
use crate::units::{duration, instant};

/// Where what is said of a step begins.
const EVIDENCE: usize = 26;

/// Returns a migration as lines, with all that was observed.
pub fn migration_lines(migration: &Migration, now: Timestamp) -> Vec<String> {
    let layout = Layout {
        verbose: true,
        ..Layout::at(now)
    };
    let lines = lines(migration, &summary(migration), &layout);
    lines
        .iter()
        .map(|line| super::lines::laid_out(line, None))
        .collect()
}

/// Returns how a migration stands, as other kinds say it.
pub fn summary(migration: &Migration) -> Summary {
    let status = status(migration);
    let workload = &migration.spec.workload;
    let (from, to) = route(migration);
    let mut what = format!("{} {}  {from} → {to}", workload.kind, workload.name);
    if status.common.attempt > 1 {
        let _ = write!(what, "  attempt {}", status.common.attempt);
    }
    Summary {
        next: next(migration),
        trouble: reason(migration),
        outcome: downtime(status.downtime_ms),
        down_since: down_since(&status),
        workloads: vec![WorkloadKey::of(migration, workload)],
        ..Summary::of(migration, what)
    }
}

/// Returns a migration as lines.
pub fn lines(migration: &Migration, one: &Summary, layout: &Layout) -> Vec<Line> {
    let status = status(migration);
    let steps = &status.common.steps;
    let mut lines = vec![Line::new(head(one))];
    lines.extend(steps.iter().enumerate().map(|(index, step)| {
        let next = steps.get(index + 1).map(|next| next.name.as_str());
        let said = said(migration, step, next, layout);
        Line::new(step_line_until(step, next, &said, layout.now)).hanging(EVIDENCE)
    }));
    if let Some(reason) = reason(migration) {
        let back = styled(BAD, "rolled back:");
        lines.push(Line::new(format!("  {back} {}", layout.words(&reason))));
    }
    lines.extend(times(migration, layout.now).map(Line::new));
    lines.extend(wait_lines(one, layout));
    lines.extend(findings(one));
    let ignored = status.common.conditions.iter().find(|condition| {
        condition.type_ == "SpecChangeIgnored" && condition.status == ConditionStatus::True
    });
    if let Some(ignored) = ignored.filter(|_| !status.phase.is_terminal()) {
        lines.push(Line::new(format!("  {}", styled(BUSY, &ignored.message))));
    }
    lines.extend(following::lines(one, layout.now));
    lines
}

/// Returns what is said of a step: what it came to, in plain words; with its evidence on request, and where it ended otherwise than
/// it should.
fn said(migration: &Migration, step: &StepRecord, next: Option<&str>, layout: &Layout) -> String {
    let evidence = || layout.words(&step.evidence.join("; "));
    if layout.verbose || step.finished_at.is_none() {
        return evidence();
    }
    plainly(migration, step, next).unwrap_or_else(evidence)
}

/// Returns what a step has come to, by the step that it led to.
fn plainly(migration: &Migration, step: &StepRecord, next: Option<&str>) -> Option<String> {
    let (from, to) = route(migration);
    // What is captured stands behind the proof that the source has stopped.
    let is_captured = step.evidence.len() > 1;
    Some(match (step.name.as_str(), next?) {
        ("Preflight", "Hold") => "nothing blocks the move".to_owned(),
        ("Hold", "Expand" | "Capture") => format!("{from} alone may run; the scheduler is held off"),
        ("Expand", "Capture") => format!("{to} has a stopped copy"),
        ("Expand", "Handoff") => format!("{from} and {to} are both chosen"),
        ("Capture", "Handoff") if is_captured => format!("{from} has stopped; its state is captured"),
        ("Capture", "Handoff") => format!("{from} has stopped"),
        ("Handoff", "Verify") => format!("{to} runs, and is healthy"),
        ("Verify", "Cleanup") => format!("{to} stayed healthy"),
        _ => return None,
    })
}

/// How long it took and how long nothing ran; while it goes on, how long nothing has been running.
fn times(migration: &Migration, now: Timestamp) -> Option<String> {
    let status = status(migration);
    if !status.phase.is_terminal() {
        return down_since(&status).map(|down| not_running(down, now));
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
    let parts: Vec<String> = downtime(status.downtime_ms).into_iter().chain(took).collect();
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

/// Since when nothing has been seen running, while it goes on.
fn down_since(status: &MigrationStatus) -> Option<Timestamp> {
    let journal = status.journal.as_ref().filter(|_| !status.phase.is_terminal())?;
    journal.down_since.filter(|_| journal.up_since.is_none())
}

pub fn not_running(down: Timestamp, now: Timestamp) -> String {
    let since = format!("{}: since {}", ago(down, now), instant(down));
    format!("  {} for {since}", styled(BUSY, "not seen running"))
}

fn downtime(millis: Option<u64>) -> Option<String> {
    let millis = millis.and_then(|millis| i64::try_from(millis).ok())?;
    Some(format!(
        "downtime {}",
        duration(SignedDuration::from_millis(millis))
    ))
}
