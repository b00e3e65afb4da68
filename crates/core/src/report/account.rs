//! What became of an attempt: the time of each phase, how long nothing ran, and why it ended as it did.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::answer::command;
use super::{names, status};
use crate::api::{Finding, Intent, Migration, MigrationStatus, Phase, StepRecord};
use crate::intent::origin::{self, Origin};
use crate::intent::requested::TARGET_ANNOTATION;

/// An attempt of an intent, as far as it has come.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// From the first look to the end.
    pub took_ms: Option<u64>,
    /// How long no copy was running.
    pub downtime_ms: Option<u64>,
    /// Why it is or was rolled back.
    pub reason: Option<String>,
    pub steps: Vec<StepAccount>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What a person can do about it now.
    pub next: Option<String>,
}

/// One phase, with what was observed that let it end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepAccount {
    pub name: String,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

impl Account {
    /// Returns what the status of a migration says of its present or last attempt.
    pub fn of(migration: &Migration) -> Self {
        let status = status(migration);
        let began = status
            .common
            .started_at
            .or_else(|| status.common.steps.first().map(|step| step.started_at));
        let took = began.zip(status.common.finished_at);
        Self {
            started_at: began,
            finished_at: status.common.finished_at,
            took_ms: took.map(|(from, until)| millis(until.duration_since(from))),
            downtime_ms: status.downtime_ms,
            reason: reason(migration),
            steps: status.common.steps.iter().map(StepAccount::of).collect(),
            findings: status.common.findings.clone(),
            next: next(migration),
        }
    }
}

impl StepAccount {
    fn of(step: &StepRecord) -> Self {
        let took = step.finished_at.map(|at| at.duration_since(step.started_at));
        Self {
            name: step.name.clone(),
            started_at: step.started_at,
            took_ms: took.map(millis),
            evidence: step.evidence.clone(),
        }
    }
}

/// Returns why a migration is or was rolled back, and in which phase that was decided.
pub(super) fn reason(migration: &Migration) -> Option<String> {
    let status = status(migration);
    let journal = status.journal.as_ref();
    if let Some(back) = journal.and_then(|journal| journal.roll_back.as_ref()) {
        return Some(format!("{} (in {})", back.reason, back.from_phase));
    }
    // One that was aborted before anything was touched had nothing to roll back.
    let aborted = status.phase == Phase::Aborted;
    let last = status.common.steps.last().filter(|_| aborted)?;
    (!last.evidence.is_empty()).then(|| format!("{} (in {})", last.evidence.join("; "), last.name))
}

/// Returns whether an attempt ended before its first effect. One whose steps are lost does not say.
pub(super) fn untouched(status: &MigrationStatus) -> bool {
    let steps = &status.common.steps;
    !steps.is_empty() && steps.iter().all(|step| step.name != Phase::Hold.name())
}

/// Returns what a person can do so that it goes on; nothing while it does so by itself.
pub(super) fn next(migration: &Migration) -> Option<String> {
    let status = status(migration);
    let (namespace, name) = names(migration);
    if matches!(status.phase, Phase::RolledBack | Phase::Failed) {
        let again = again(migration);
        return Some(if status.phase == Phase::Failed && untouched(&status) {
            format!("nothing was changed: {again}")
        } else {
            again
        });
    }
    let wait = status.common.waiting_for.as_ref()?;
    if origin::waits_for_leave(&migration.metadata) {
        return None;
    }
    command(&format!("{namespace}/{name}"), wait)
}

/// Returns how a migration that has failed is tried again: where no file asks for it, whatever set it off does.
fn again(migration: &Migration) -> String {
    match Origin::of(Migration::KIND, &migration.metadata) {
        Some(Origin::Policy(_)) => {
            "fix the cause, then delete this Migration, or push another placement: cutover tries again"
                .to_owned()
        }
        Some(Origin::Template) => {
            format!(
                "fix the cause, then remove the annotation {TARGET_ANNOTATION} and add it in a later push"
            )
        }
        Some(Origin::Parent { kind, name }) => {
            format!("see what {kind} {name} does next: cutover status {name}")
        }
        Some(Origin::Cluster) | None => "fix the cause, then run cutover migrate again".to_owned(),
    }
}

fn millis(duration: SignedDuration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What is printed of a Migration with this metadata and this status.
    fn printed(metadata: &Value, status: &Value) -> Option<String> {
        let mut metadata = metadata.clone();
        metadata["name"] = json!("orders-to-west");
        metadata["namespace"] = json!("shop");
        let workload =
            json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"});
        let migration = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration", "metadata": metadata,
            "spec": {"workload": workload, "to": "west"}, "status": status,
        });
        next(&serde_json::from_value(migration).unwrap())
    }

    fn origins() -> [(&'static str, Value); 4] {
        [
            ("a file", json!({})),
            (
                "a policy",
                json!({"annotations": {"cutover.dev/policy": r#"["shop","orders"]"#}}),
            ),
            (
                "an annotation",
                json!({"annotations": {"cutover.dev/requested-by": "karmada.io/migration-target"}}),
            ),
            (
                "an Evacuation",
                json!({
                    "labels": {"cutover.dev/parent": "u1"},
                    "ownerReferences": [{
                        "apiVersion": "cutover.dev/v1alpha1", "kind": "Evacuation", "name": "evacuate-east", "uid": "u1",
                        "controller": true,
                    }],
                }),
            ),
        ]
    }

    fn waits(wait: &Value) -> Value {
        let mut wait = wait.clone();
        wait["reason"] = json!("a person");
        wait["since"] = json!("2026-01-02T03:04:05Z");
        json!({"phase": "Capture", "attempt": 1, "waitingFor": wait})
    }

    #[test]
    fn whoever_asks_for_a_migration_the_same_commands_control_it() {
        let offer = json!({"fact": "Stopped", "cluster": "east"});
        for (wait, command) in [
            (
                json!({"code": "Approval", "approval": "Handoff"}),
                "cutover approve shop/orders-to-west --phase Handoff",
            ),
            (json!({"code": "Pause"}), "cutover resume shop/orders-to-west"),
            (
                json!({"code": "Evidence", "offers": [offer]}),
                "if you know or decide that this is true: cutover assume shop/orders-to-west stopped east",
            ),
        ] {
            for (asks, metadata) in origins() {
                let printed = printed(&metadata, &waits(&wait));
                assert_eq!(printed.as_deref(), Some(command), "{asks}");
            }
        }
    }

    #[test]
    fn the_end_of_a_way_back_is_no_reason_for_it() {
        let steps = json!([{"name": "RollingBack", "startedAt": "2026-03-01T10:00:10Z", "evidence": ["east: healthy"]}]);
        let of = |phase: &str| {
            let migration = json!({
                "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "a"},
                "spec": {"workload": {"apiVersion": "v1", "kind": "A", "name": "a"}, "to": "west"},
                "status": {"phase": phase, "steps": steps},
            });
            reason(&serde_json::from_value(migration).unwrap())
        };
        assert_eq!(of("RolledBack"), None);
        assert_eq!(of("Aborted").as_deref(), Some("east: healthy (in RollingBack)"));
    }

    #[test]
    fn what_may_not_begin_yet_is_resumed_by_what_created_it() {
        let [.., (_, mut child)] = origins();
        child["annotations"] = json!({"cutover.dev/waits-for-parent": "true"});
        assert_eq!(printed(&child, &waits(&json!({"code": "Pause"}))), None);
    }

    #[test]
    fn what_failed_is_tried_again_where_it_was_asked_for() {
        let failed = json!({"phase": "RolledBack", "attempt": 1});
        let all: Vec<String> = origins()
            .iter()
            .map(|(_, metadata)| printed(metadata, &failed).unwrap())
            .collect();
        assert_eq!(
            all,
            [
                "fix the cause, then run cutover migrate again",
                "fix the cause, then delete this Migration, or push another placement: cutover tries again",
                "fix the cause, then remove the annotation karmada.io/migration-target and add it in a later push",
                "see what Evacuation evacuate-east does next: cutover status evacuate-east",
            ]
        );
    }
}
