//! Suspensions, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use jiff::Timestamp;

use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, NAME, finding_line, styled};
use super::{Told, brief, duration, instant};
use crate::api::{HeldCopy, Suspension, SuspensionPhase as Phase, SuspensionSpec, SuspensionStatus};

/// What stands in for the status of one that no pass has looked at yet.
static NOT_BEGUN: std::sync::LazyLock<SuspensionStatus> = std::sync::LazyLock::new(SuspensionStatus::default);

pub(super) fn status(suspension: &Suspension) -> &SuspensionStatus {
    suspension.status.as_ref().unwrap_or(&NOT_BEGUN)
}

pub(super) fn names(suspension: &Suspension) -> (&str, &str) {
    let meta = &suspension.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Returns what is to be told once the journal says what `after` says.
pub fn suspension_events(before: &Suspension, after: &SuspensionStatus) -> Vec<Told> {
    let was = status(before);
    let mut told = Vec::new();
    if was.phase != after.phase {
        told.push(entered(before, was, after));
    }
    let listed = |status: &SuspensionStatus| {
        let ending = status
            .journal
            .as_ref()
            .and_then(|journal| journal.ending.as_ref());
        ending.is_some_and(|ending| ending.listed)
    };
    if listed(after) && !listed(was) {
        told.push(Told::new(false, "GoesOut", &goes_out(&after.held)));
    }
    for finding in &after.common.findings {
        if !was.common.findings.contains(finding) {
            let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})"));
            let note = format!("{}{}", finding.message, hint.unwrap_or_default());
            told.push(Told::new(true, &finding.code, &note));
        }
    }
    for contested in &after.contested {
        let known = was.contested.iter();
        if !known
            .clone()
            .any(|known| known.object == contested.object && known.field == contested.field)
        {
            told.push(Told::new(
                true,
                "Contested",
                &format!(
                    "{}: {} is changed again and again, by {}",
                    contested.object,
                    contested.field,
                    contested.managers.join(", ")
                ),
            ));
        }
    }
    told
}

fn entered(suspension: &Suspension, was: &SuspensionStatus, after: &SuspensionStatus) -> Told {
    let evidence = after.common.steps.iter().rev();
    let evidence = evidence
        .clone()
        .find(|step| step.name == was.phase.name())
        .map(|step| step.evidence.join("; "))
        .unwrap_or_default();
    let (warning, note) = match after.phase {
        Phase::Suspended => (false, format!("{}: {}", what(suspension), suspension.spec.reason)),
        Phase::Failed => (
            true,
            "it can't be done as it is asked for; nothing was touched".to_owned(),
        ),
        Phase::Aborted | Phase::Completed | Phase::Resuming => (false, evidence),
        Phase::Pending => (true, evidence),
        Phase::Suspending => (false, suspension.spec.reason.clone()),
    };
    Told::new(warning, after.phase.name(), &note)
}

/// Says what goes out when a suspension ends.
fn goes_out(held: &[HeldCopy]) -> String {
    if held.is_empty() {
        return "nothing was kept back".to_owned();
    }
    held.iter().map(held_text).collect::<Vec<_>>().join("; ")
}

fn held_text(held: &HeldCopy) -> String {
    let mut parts = Vec::new();
    if !held.pending.is_empty() {
        parts.push(held.pending.join(", "));
    }
    if !held.drift.is_empty() {
        let drift: Vec<String> = held
            .drift
            .iter()
            .map(|(field, by)| format!("{field} of {by}"))
            .collect();
        parts.push(format!("puts back {}", drift.join(", ")));
    }
    if let Some(why) = &held.unknown {
        parts.push(format!("not known: {why}"));
    }
    format!("{} in {}: {}", held.workload, held.cluster, parts.join("; "))
}

/// Returns what is suspended: `dispatching of PropagationPolicy web to green`.
pub(super) fn what(suspension: &Suspension) -> String {
    let SuspensionSpec {
        target,
        clusters,
        scope,
        ..
    } = &suspension.spec;
    let of = match (&target.policy, &target.workload) {
        (Some(policy), _) => format!("{} {}", policy.kind.name(), policy.name),
        (None, Some(workload)) => format!("{} {}", workload.kind, workload.name),
        (None, None) => "nothing".to_owned(),
    };
    let names: Vec<&str> = clusters
        .iter()
        .map(cutover_karmada::name::ClusterName::as_str)
        .collect();
    let to = if names.is_empty() {
        String::new()
    } else {
        format!(" to {}", names.join(", "))
    };
    format!("{scope} of {of}{to}")
}

/// Returns a suspension: a head line, why and since when, what waits to go out, what was changed meanwhile, findings.
pub fn suspension_lines(suspension: &Suspension, now: Timestamp) -> Vec<String> {
    let status = status(suspension);
    let (namespace, name) = names(suspension);
    let style = match status.phase {
        Phase::Completed => GOOD,
        Phase::Failed => BAD,
        _ => BUSY,
    };
    let mut lines = vec![format!(
        "{}  {}  {}",
        styled(NAME, format!("{namespace}/{name}")),
        what(suspension),
        styled(style, status.phase)
    )];
    let by = status
        .by
        .as_ref()
        .map_or_else(String::new, |by| format!(", by {by}"));
    lines.push(format!("  {}{by}", suspension.spec.reason));
    if let Some(since) = status.since.filter(|_| !status.phase.is_terminal()) {
        let mut line = format!(
            "  since {} ({})",
            instant(since),
            duration(now.duration_since(since))
        );
        if let Some(until) = suspension.spec.until {
            let _ = write!(line, ", until {}", instant(until));
        }
        lines.push(line);
    }
    if let Some(wait) = &status.common.waiting_for {
        lines.push(format!("  {} {}", styled(BUSY, "waits:"), brief(&wait.reason)));
    }
    for held in &status.held {
        lines.push(format!("  {} {}", styled(BUSY, "kept back:"), held_text(held)));
    }
    for contested in &status.contested {
        lines.push(format!(
            "  {} {} {} ({} times), by {}",
            styled(BUSY, "contested:"),
            contested.object,
            contested.field,
            contested.times,
            contested.managers.join(", ")
        ));
    }
    lines.extend(status.common.findings.iter().flat_map(finding_line));
    lines
}

/// Writes the part of the page that is about suspensions; those in force first.
pub(super) fn section(page: &mut String, suspensions: &[Suspension]) {
    if suspensions.is_empty() {
        return;
    }
    page.push_str("## Suspensions\n\n| Suspension | What | Why | By | Since | Until | Phase |\n|---|---|---|---|---|---|---|\n");
    let mut all: Vec<&Suspension> = suspensions.iter().collect();
    all.sort_by_key(|one| (status(one).phase.is_terminal(), names(one)));
    for suspension in &all {
        let status = status(suspension);
        let (namespace, name) = names(suspension);
        let time = |at: Option<Timestamp>| at.map_or_else(String::new, instant);
        let _ = writeln!(
            page,
            "| [{}/{}]({}) | {} | {} | {} | {} | {} | {} |",
            escape(namespace),
            escape(name),
            super::suspension_path(suspension),
            escape(&what(suspension)),
            escape(&brief(&suspension.spec.reason)),
            escape(status.by.as_deref().unwrap_or_default()),
            time(status.since),
            time(suspension.spec.until),
            status.phase
        );
    }
    page.push('\n');
    for suspension in all {
        let status = status(suspension);
        let (namespace, name) = names(suspension);
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
        for held in &status.held {
            item(&format!("kept back: {}", held_text(held)));
        }
        for contested in &status.contested {
            item(&format!(
                "⚠️ {} {} is changed again and again, by {}",
                contested.object,
                contested.field,
                contested.managers.join(", ")
            ));
        }
        for finding in &status.common.findings {
            item(&format!("⚠️ {}", super::finding_text(finding)));
        }
    }
    page.push('\n');
}
