//! Rollout policies, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::copies::WorkloadKey;
use super::summary::{Part, Summarized, Summary, found};
use super::{EventRecord, names, path, status};
use crate::api::{RolloutPolicy, RolloutPolicyPhase, RolloutPolicyStatus, SelectedWorkload, WaitingFor};
use crate::units::brief;

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
pub fn rollout_policy_events(before: &RolloutPolicy, after: &RolloutPolicyStatus) -> Vec<EventRecord> {
    let was = status(before);
    let mut told = Vec::new();
    let left = |one: &&SelectedWorkload| one.phase.is_none();
    let left_before: Vec<_> = was.workloads.iter().filter(left).collect();
    for one in after.workloads.iter().filter(left) {
        if !left_before.contains(&one) {
            told.push(EventRecord::new(true, "LeftOut", &workload_text(one)));
        }
    }
    told.extend(found(&was.common.findings, &after.common.findings));
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

impl Summarized for RolloutPolicy {
    const TITLE: &'static str = "Rollout policies";

    fn summary(&self) -> Summary {
        let status = status(self);
        let (workloads, (namespace, _)) = (status.workloads.iter(), names(self));
        let key = |one: &SelectedWorkload| WorkloadKey::new(namespace, &one.kind, &one.name);
        Summary {
            workloads: workloads.clone().map(key).collect(),
            parts: workloads.map(|one| Part::new(workload_text(one))).collect(),
            next: (status.halted > 0)
                .then(|| "the status of each halted rollout shows what to do".to_owned()),
            ..Summary::of(self, what(self))
        }
    }
}
