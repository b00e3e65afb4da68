//! What an intent leaves in Git: enough to know, without the control plane, that it ended and with which state.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::api::{
    Common, FailoverPlan, FailoverPlanStatus, Journal, Migration, MigrationSpec, MigrationStatus, MovesPhase,
    MovesStatus, Phase, Progress, ReplicaShift, ReplicaShiftStatus, Rollout, RolloutPolicy,
    RolloutPolicyStatus, RolloutStatus, Suspension, SuspensionStatus,
};
use crate::redact;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// An intent as the status branch has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose it is: another intent of that name may have left one.
    #[serde(skip)]
    pub uid: Option<String>,
    pub spec: MigrationSpec,
    pub status: MigrationStatus,
}

impl Record {
    /// Returns whether this record is the end of the attempt that a spec asks for.
    pub fn ends(&self, spec: &MigrationSpec) -> bool {
        self.status.phase.is_terminal() && asks_the_same(&self.spec, spec)
    }

    /// Returns the cluster in which the attempt left the workload.
    pub fn tenant<'j>(&self, journal: &'j Journal) -> &'j ClusterName {
        if self.status.phase == Phase::Completed {
            &journal.target
        } else {
            &journal.source
        }
    }

    /// Returns whether this record is of an attempt that had begun and has not ended.
    pub fn is_cut_short(&self) -> bool {
        !self.status.phase.is_terminal() && self.status.journal_in_force().is_some()
    }
}

/// Returns how far a status has come: of two copies of one intent, the one with the higher rank is the newer.
pub fn rank(status: &MigrationStatus) -> (u32, bool, u64, bool, usize) {
    let journal = status.journal.as_ref();
    (
        status.common.attempt,
        status.phase.is_terminal(),
        journal.map_or(0, |journal| journal.pin.seq),
        journal.is_some_and(|journal| journal.captured.is_some()),
        status.common.steps.len(),
    )
}

/// Returns whether a recorded document is of the same intent and newer than a status: it must not be overwritten.
pub fn is_newer(recorded: &serde_json::Value, uid: &str, status: &MigrationStatus) -> bool {
    status_of(recorded, uid).is_some_and(|recorded: MigrationStatus| rank(&recorded) > rank(status))
}

/// The same for a suspension.
pub fn is_newer_suspension(recorded: &serde_json::Value, uid: &str, status: &SuspensionStatus) -> bool {
    let rank = |status: &SuspensionStatus| common_rank(status, &status.common);
    status_of(recorded, uid).is_some_and(|recorded| rank(&recorded) > rank(status))
}

/// The same for a shift.
pub fn is_newer_shift(recorded: &serde_json::Value, uid: &str, status: &ReplicaShiftStatus) -> bool {
    let rank = |status: &ReplicaShiftStatus| {
        let seq = status.journal.as_ref().map_or(0, |journal| journal.pin.seq);
        (common_rank(status, &status.common), seq)
    };
    status_of(recorded, uid).is_some_and(|recorded| rank(&recorded) > rank(status))
}

fn common_rank(status: &impl Progress, common: &Common) -> (u32, bool, usize) {
    (common.attempt, status.has_ended(), common.steps.len())
}

/// The same for a rollout.
pub fn is_newer_rollout(recorded: &serde_json::Value, uid: &str, status: &RolloutStatus) -> bool {
    let rank = |status: &RolloutStatus| {
        let journal = status.journal.as_ref();
        let common = &status.common;
        (
            common.attempt,
            status.phase.is_at_rest(),
            journal.map_or(0, |journal| journal.pin.seq),
            common.steps.len(),
        )
    };
    status_of(recorded, uid).is_some_and(|recorded| rank(&recorded) > rank(status))
}

/// The same for a rollout policy: it goes round and round, and what it was made from tells which copy is the newer.
pub fn is_newer_rollout_policy(
    recorded: &serde_json::Value,
    uid: &str,
    status: &RolloutPolicyStatus,
) -> bool {
    let rank = |status: &RolloutPolicyStatus| (status.common.observed_generation, status.common.steps.len());
    status_of(recorded, uid).is_some_and(|recorded| rank(&recorded) > rank(status))
}

/// Returns how far a plan has come: of two copies of one plan, the one with the higher rank is the newer.
fn rank_of_plan(status: &FailoverPlanStatus) -> (u32, u32, u64, bool, Option<jiff::Timestamp>) {
    let journal = status.journal.as_ref();
    let flight = journal.and_then(|journal| journal.flight.as_ref());
    (
        status.rounds,
        status.common.attempt,
        journal.map_or(0, |journal| journal.pin.seq),
        flight.is_some_and(|flight| flight.state.is_some()),
        status.last_known.as_ref().map(|known| known.at),
    )
}

/// The same for a failover plan.
pub fn is_newer_plan(recorded: &serde_json::Value, uid: &str, status: &FailoverPlanStatus) -> bool {
    status_of(recorded, uid).is_some_and(|recorded| rank_of_plan(&recorded) > rank_of_plan(status))
}

/// What a standing intent has Git keep before it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub intent: ObjectKey,
    pub uid: String,
    /// The document that stands at [`path`].
    pub document: serde_json::Value,
    pub status: FailoverPlanStatus,
    /// What is news about it, as the subject of a commit says it.
    pub news: String,
}

impl Kept {
    /// Returns a plan with the status that is to be written.
    pub fn of_failover_plan(
        input: &super::failover::Input<'_>,
        status: &FailoverPlanStatus,
        news: &str,
    ) -> Self {
        let mut plan = FailoverPlan::new(input.name, input.spec.clone());
        plan.metadata.namespace = input.namespace.map(str::to_owned);
        plan.metadata.uid = Some(input.uid.to_owned());
        plan.status = Some(status.clone());
        Self {
            intent: ObjectKey {
                group: crate::api::GROUP.to_owned(),
                kind: "FailoverPlan".to_owned(),
                namespace: plan.metadata.namespace.clone(),
                name: input.name.to_owned(),
            },
            uid: input.uid.to_owned(),
            document: failover_plan_document(&plan),
            status: status.clone(),
            news: news.to_owned(),
        }
    }
}

/// Returns the document of a failover plan that stands at [`path`].
pub fn failover_plan_document(plan: &FailoverPlan) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "FailoverPlan",
        "metadata": {
            "name": plan.metadata.name,
            "namespace": plan.metadata.namespace,
            "uid": plan.metadata.uid,
        },
        "spec": plan.spec,
        "status": plan.status,
    })
}

/// Returns the status in a recorded document, if it is of that intent and can be read.
fn status_of<S: serde::de::DeserializeOwned>(recorded: &serde_json::Value, uid: &str) -> Option<S> {
    if recorded.pointer("/metadata/uid")?.as_str()? != uid {
        return None;
    }
    serde_json::from_value(recorded.get("status")?.clone()).ok()
}

/// Returns the path on the status branch of the record of an intent.
pub fn path(kind: &str, namespace: &str, name: &str) -> String {
    format!("intents/{namespace}/{}-{name}.yaml", kind.to_lowercase())
}

/// The same for an intent of cluster scope. No namespace has that name.
pub fn path_of_cluster_scope(kind: &str, name: &str) -> String {
    format!("intents/_cluster/{}-{name}.yaml", kind.to_lowercase())
}

/// Returns the document of an intent that moves many workloads, as it stands at [`path_of_cluster_scope`].
pub fn moves_document<A: serde::Serialize>(
    kind: &str,
    metadata: &kube::core::ObjectMeta,
    spec: &A,
    status: Option<&MovesStatus<A>>,
) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": kind,
        "metadata": {"name": metadata.name, "uid": metadata.uid},
        "spec": spec,
        "status": status,
    })
}

/// Returns whether what is recorded of an intent that moves many workloads has come further than a copy of it.
pub fn is_newer_moves(recorded: &serde_json::Value, ours: &serde_json::Value) -> bool {
    let rank = |document: &serde_json::Value| {
        let status = document.get("status");
        let number = |pointer: &str| {
            let number = status.and_then(|status| status.pointer(pointer));
            number.and_then(serde_json::Value::as_u64).unwrap_or_default()
        };
        let phase = status
            .and_then(|status| status.get("phase"))
            .cloned()
            .unwrap_or_default();
        let phase: MovesPhase = serde_json::from_value(phase).unwrap_or_default();
        let (done, failed) = (number("/progress/done"), number("/progress/failed"));
        (
            number("/attempt"),
            phase.is_terminal(),
            number("/journal/round"),
            done + failed,
        )
    };
    recorded.pointer("/metadata/uid") == ours.pointer("/metadata/uid") && rank(recorded) > rank(ours)
}

/// Returns the document that stands at [`path`], with the fields of the object that last.
pub fn document(migration: &Migration) -> serde_json::Value {
    let mut document = serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "Migration",
        "metadata": {
            "name": migration.metadata.name,
            "namespace": migration.metadata.namespace,
            "uid": migration.metadata.uid,
        },
        "spec": migration.spec,
        "status": migration.status,
    });
    // The template is in Git as it is; here, its secrets would be in places where nobody looks for them.
    if let Some(change) = document.pointer_mut("/status/journal/templateChange") {
        *change = redact::kept(change);
    }
    document
}

/// Returns the document of a rollout that stands at [`path`].
pub fn rollout_document(rollout: &Rollout) -> serde_json::Value {
    let mut document = serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "Rollout",
        "metadata": {
            "name": rollout.metadata.name,
            "namespace": rollout.metadata.namespace,
            "uid": rollout.metadata.uid,
        },
        "spec": rollout.spec,
        "status": rollout.status,
    });
    // Templates are in Git as they are; here, their secrets would be in places where nobody looks for them.
    for pointer in ["/status/revisions", "/status/journal/rules"] {
        if let Some(templates) = document.pointer_mut(pointer) {
            *templates = redact::kept(templates);
        }
    }
    document
}

/// Returns the document of a rollout policy that stands at [`path`].
pub fn rollout_policy_document(policy: &RolloutPolicy) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "RolloutPolicy",
        "metadata": {
            "name": policy.metadata.name,
            "namespace": policy.metadata.namespace,
            "uid": policy.metadata.uid,
        },
        "spec": policy.spec,
        "status": policy.status,
    })
}

/// Returns the document of a suspension that stands at [`path`].
pub fn suspension_document(suspension: &Suspension) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "Suspension",
        "metadata": {
            "name": suspension.metadata.name,
            "namespace": suspension.metadata.namespace,
            "uid": suspension.metadata.uid,
        },
        "spec": suspension.spec,
        "status": suspension.status,
    })
}

/// Returns the document of a shift that stands at [`path`].
pub fn shift_document(shift: &ReplicaShift) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "ReplicaShift",
        "metadata": {
            "name": shift.metadata.name,
            "namespace": shift.metadata.namespace,
            "uid": shift.metadata.uid,
        },
        "spec": shift.spec,
        "status": shift.status,
    })
}

/// Returns whether two specs ask for the same operation: control fields never make a new attempt.
pub fn asks_the_same(one: &MigrationSpec, other: &MigrationSpec) -> bool {
    without_controls(one) == without_controls(other)
}

fn without_controls(spec: &MigrationSpec) -> MigrationSpec {
    MigrationSpec {
        approvals: Vec::new(),
        assume: Vec::new(),
        paused: false,
        abort: false,
        deadline: None,
        window: None,
        ..spec.clone()
    }
}

/// Returns the digest of a manifest, the same whatever the order of its fields.
pub fn digest(manifest: &serde_json::Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, manifest);
    hasher
        .finalize()
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn feed(hasher: &mut Sha256, value: &serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort_unstable();
            hasher.update(b"{");
            for name in names {
                hasher.update(format!("{name:?}:"));
                feed(hasher, &fields[name]);
            }
            hasher.update(b"}");
        }
        serde_json::Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(hasher, item);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(format!("{scalar};")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_fields() {
        assert_eq!(
            digest(&json!({"a": 1, "b": [1, 2]})),
            digest(&json!({"b": [1, 2], "a": 1}))
        );
        assert_ne!(digest(&json!({"a": [1, 2]})), digest(&json!({"a": [2, 1]})));
    }
}
