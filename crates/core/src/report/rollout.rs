//! Rollouts, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use jiff::Timestamp;

use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, NAME, finding_line, styled};
use super::{Told, brief, duration, instant};
use crate::api::{
    Rollout, RolloutCluster, RolloutClusterState as State, RolloutPhase as Phase, RolloutStatus,
};

/// What stands in for the status of one that no pass has looked at yet.
static NOT_BEGUN: std::sync::LazyLock<RolloutStatus> = std::sync::LazyLock::new(RolloutStatus::default);

pub(super) fn status(rollout: &Rollout) -> &RolloutStatus {
    rollout.status.as_ref().unwrap_or(&NOT_BEGUN)
}

pub(super) fn names(rollout: &Rollout) -> (&str, &str) {
    let meta = &rollout.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Returns what is to be told once the journal says what `after` says.
pub fn rollout_events(before: &Rollout, after: &RolloutStatus) -> Vec<Told> {
    let was = status(before);
    let mut told = Vec::new();
    let name = |status: &RolloutStatus| status.target.clone().unwrap_or_default();
    if was.phase != after.phase {
        let reason = after.journal.as_ref().and_then(|journal| {
            let halted = journal.halted.clone();
            halted.or_else(|| journal.undoing.clone())
        });
        let warning = matches!(after.phase, Phase::Halted | Phase::Undoing);
        let note = reason.unwrap_or_else(|| format!("revision {}", name(after)));
        told.push(Told::new(warning, after.phase.name(), &note));
    }
    let released = |status: &RolloutStatus| {
        let journal = status.journal.as_ref();
        journal
            .map(|journal| (journal.target.clone(), journal.released.clone()))
            .unwrap_or_default()
    };
    let ((_, before_that), (target, now)) = (released(was), released(after));
    for cluster in now.keys().filter(|cluster| !before_that.contains_key(*cluster)) {
        told.push(Told::new(
            false,
            "Released",
            &format!("{cluster} gets revision {target}"),
        ));
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

/// Returns what is rolled out: `Deployment web: 3f2a… to 91bc…, 2/5`.
pub(super) fn what(rollout: &Rollout) -> String {
    let (status, workload) = (status(rollout), rollout.workload_in_force());
    let mut text = format!("{} {}", workload.kind, workload.name);
    let revision = |name: &Option<String>| name.as_ref().map_or("?", String::as_str).to_owned();
    match (&status.journal, &status.stable) {
        (Some(journal), _) => {
            let _ = write!(text, ": {} to {}", journal.stable, journal.target);
        }
        (None, Some(_)) => {
            let _ = write!(text, ": {}", revision(&status.stable));
        }
        (None, None) => {}
    }
    if let Some(updated) = &status.updated {
        let _ = write!(text, ", {updated} good");
    }
    text
}

fn cluster_text(cluster: &RolloutCluster) -> String {
    let state = match cluster.state {
        State::Held => "held at",
        State::Released => "got",
        State::Soaking => "soaks with",
        State::Good => "good with",
    };
    let why = cluster
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {}", brief(why)));
    format!(
        "wave {}: {} {state} {}{why}",
        cluster.wave, cluster.name, cluster.revision
    )
}

/// Returns a rollout: a head line, what it waits for, its clusters, findings, what can be gone back to.
pub fn rollout_lines(rollout: &Rollout, now: Timestamp) -> Vec<String> {
    let status = status(rollout);
    let (namespace, name) = names(rollout);
    let style = match status.phase {
        Phase::Completed => GOOD,
        Phase::Halted | Phase::Undone => BAD,
        _ => BUSY,
    };
    let mut lines = vec![format!(
        "{}  {}  {}",
        styled(NAME, format!("{namespace}/{name}")),
        what(rollout),
        styled(style, status.phase)
    )];
    if let Some(since) = status.common.started_at.filter(|_| status.journal.is_some()) {
        let age = duration(now.duration_since(since));
        lines.push(format!(
            "  attempt {}, since {} ({age})",
            status.common.attempt,
            instant(since)
        ));
    }
    if let Some(wait) = &status.common.waiting_for {
        lines.push(format!("  {} {}", styled(BUSY, "waits:"), brief(&wait.reason)));
    }
    lines.extend(
        status
            .clusters
            .iter()
            .map(|cluster| format!("  {}", cluster_text(cluster))),
    );
    if let Some(held_back) = &status.held_back {
        let revision = held_back.revision.as_deref().unwrap_or("unknown");
        lines.push(format!(
            "  the change of Git revision {revision} was undone, and waits for a commit that changes it"
        ));
    }
    for revision in status.revisions.iter().skip(1) {
        let undone = revision
            .undone
            .as_ref()
            .map_or_else(String::new, |why| format!(", undone: {}", brief(why)));
        let git = revision
            .git
            .as_ref()
            .map_or_else(String::new, |git| format!(" of {git}"));
        lines.push(format!("  before: {}{git}{undone}", revision.name));
    }
    lines.extend(status.common.findings.iter().flat_map(finding_line));
    lines
}

/// Writes the part of the page that is about rollouts; those under way first.
pub(super) fn section(page: &mut String, rollouts: &[Rollout]) {
    if rollouts.is_empty() {
        return;
    }
    page.push_str("## Rollouts\n\n| Rollout | What | Phase | Waits for |\n|---|---|---|---|\n");
    let mut all: Vec<&Rollout> = rollouts.iter().collect();
    all.sort_by_key(|one| (status(one).phase.is_at_rest(), names(one)));
    for rollout in &all {
        let status = status(rollout);
        let (namespace, name) = names(rollout);
        let wait = status.common.waiting_for.as_ref();
        let _ = writeln!(
            page,
            "| [{}/{}]({}) | {} | {} | {} |",
            escape(namespace),
            escape(name),
            super::rollout_path(rollout),
            escape(&what(rollout)),
            status.phase,
            escape(&wait.map_or_else(String::new, |wait| brief(&wait.reason)))
        );
    }
    page.push('\n');
    for rollout in all {
        let (namespace, name) = names(rollout);
        let name = escape(&format!("{namespace}/{name}"));
        for cluster in &status(rollout).clusters {
            let _ = writeln!(page, "- {name}: {}", escape(&cluster_text(cluster)));
        }
        for finding in &status(rollout).common.findings {
            let _ = writeln!(page, "- {name}: ⚠️ {}", escape(&super::finding_text(finding)));
        }
    }
    page.push('\n');
}
