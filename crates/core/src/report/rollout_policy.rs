//! Rollout policies, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, NAME, finding_line, styled};
use super::{Told, brief};
use crate::api::{RolloutPolicy, RolloutPolicyPhase, RolloutPolicyStatus, SelectedWorkload, WaitingFor};
use crate::intent::record;

/// What stands in for the status of one that no pass has looked at yet.
static NOT_BEGUN: std::sync::LazyLock<RolloutPolicyStatus> =
    std::sync::LazyLock::new(RolloutPolicyStatus::default);

pub(super) fn status(policy: &RolloutPolicy) -> &RolloutPolicyStatus {
    policy.status.as_ref().unwrap_or(&NOT_BEGUN)
}

pub(super) fn names(policy: &RolloutPolicy) -> (&str, &str) {
    let meta = &policy.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

pub(super) fn path(policy: &RolloutPolicy) -> String {
    let (namespace, name) = names(policy);
    record::path("RolloutPolicy", namespace, name)
}

/// A policy, as `status.yaml` says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicySnapshot {
    pub(super) namespace: String,
    pub(super) name: String,
    /// For instance `40 workloads, 2 rolling, 1 halted`.
    pub(super) what: String,
    pub(super) phase: RolloutPolicyPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) waiting_for: Option<WaitingFor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) workloads: Vec<SelectedWorkload>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl RolloutPolicySnapshot {
    pub(super) fn of(policy: &RolloutPolicy) -> Self {
        let status = status(policy);
        let (namespace, name) = names(policy);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            what: what(policy),
            phase: status.phase,
            waiting_for: status.common.waiting_for.clone(),
            workloads: status.workloads.clone(),
            record: path(policy),
        }
    }
}

/// Returns what is to be told once the status says what `after` says. How a rollout goes, its own Events tell.
pub fn rollout_policy_events(before: &RolloutPolicy, after: &RolloutPolicyStatus) -> Vec<Told> {
    let was = status(before);
    let mut told = Vec::new();
    let left = |one: &&SelectedWorkload| one.phase.is_none();
    let left_before: Vec<_> = was.workloads.iter().filter(left).collect();
    for one in after.workloads.iter().filter(left) {
        if !left_before.contains(&one) {
            told.push(Told::new(true, "LeftOut", &workload_text(one)));
        }
    }
    for finding in &after.common.findings {
        if !was.common.findings.contains(finding) {
            told.push(Told::new(true, &finding.code, &super::finding_text(finding)));
        }
    }
    told
}

/// Returns how it stands: `40 workloads, 2 rolling, 1 halted`.
pub(super) fn what(policy: &RolloutPolicy) -> String {
    let status = status(policy);
    let mut text = match status.selected {
        1 => "1 workload".to_owned(),
        many => format!("{many} workloads"),
    };
    for (count, what) in [
        (status.rolling, "rolling"),
        (status.halted, "halted"),
        (status.queued, "queued"),
        (status.left_out, "left out"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

fn workload_text(one: &SelectedWorkload) -> String {
    let mut text = format!("{} {}", one.kind, one.name);
    if let Some(phase) = &one.phase {
        let _ = write!(text, ": {phase}");
    }
    if let Some(by) = &one.by {
        let _ = write!(text, " by {by}");
    }
    if let Some(note) = &one.note {
        let _ = write!(text, ": {}", brief(note));
    }
    text
}

/// Returns a policy: a head line, what it waits for, the workloads of which there is something to say, findings.
pub fn rollout_policy_lines(policy: &RolloutPolicy) -> Vec<String> {
    let status = status(policy);
    let (namespace, name) = names(policy);
    let style = match (status.halted, status.rolling) {
        (0, 0) => GOOD,
        (0, _) => BUSY,
        _ => BAD,
    };
    let mut lines = vec![format!(
        "{}  {}  {}",
        styled(NAME, format!("{namespace}/{name}")),
        what(policy),
        styled(style, status.phase)
    )];
    if let Some(wait) = &status.common.waiting_for {
        lines.push(format!("  {} {}", styled(BUSY, "waits:"), brief(&wait.reason)));
    }
    let workloads = status.workloads.iter();
    lines.extend(workloads.map(|one| format!("  {}", workload_text(one))));
    lines.extend(status.common.findings.iter().flat_map(finding_line));
    lines
}

/// Writes the part of the page that is about rollout policies.
pub(super) fn section(page: &mut String, policies: &[RolloutPolicy]) {
    if policies.is_empty() {
        return;
    }
    page.push_str("## Rollout policies\n\n| Policy | Selects | Phase |\n|---|---|---|\n");
    let mut all: Vec<&RolloutPolicy> = policies.iter().collect();
    all.sort_by_key(|one| names(one));
    for policy in &all {
        let (namespace, name) = names(policy);
        let _ = writeln!(
            page,
            "| [{}/{}]({}) | {} | {} |",
            escape(namespace),
            escape(name),
            path(policy),
            escape(&what(policy)),
            status(policy).phase
        );
    }
    page.push('\n');
    for policy in all {
        let (namespace, name) = names(policy);
        let name = escape(&format!("{namespace}/{name}"));
        for one in &status(policy).workloads {
            let _ = writeln!(page, "- {name}: {}", escape(&workload_text(one)));
        }
        for finding in &status(policy).common.findings {
            let _ = writeln!(page, "- {name}: ⚠️ {}", escape(&super::finding_text(finding)));
        }
    }
    page.push('\n');
}
