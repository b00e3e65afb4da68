//! What the specs and statuses of all intents share.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Fact, Lifecycle, PLAIN_FORMAT, Standing};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// Names a workload template in the namespace of the intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// For instance `flink.apache.org/v1beta1`.
    pub api_version: String,
    /// The kind, for instance `FlinkDeployment`.
    pub kind: String,
    /// The name of the object. Its namespace is that of the intent; in a check, that of the workload.
    pub name: String,
}

impl WorkloadRef {
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.api_version, &self.kind)
    }

    /// `namespace`: that of the intent, or none for a kind of cluster scope.
    pub fn key(&self, namespace: Option<&str>) -> ObjectKey {
        ObjectKey {
            group: self.gvk().group,
            kind: self.kind.clone(),
            namespace: namespace.map(str::to_owned),
            name: self.name.clone(),
        }
    }
}

/// One operation of a JSON patch, as Karmada's plaintext overrider takes it (`add`, `replace`, `remove`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchOp {
    /// The operation: `add`, `replace` or `remove`.
    pub op: String,
    /// A JSON pointer.
    pub path: String,
    /// The value to write, for `add` and `replace`; absent for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub value: Option<serde_json::Value>,
}

impl PatchOp {
    pub fn add(path: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        Self {
            op: "add".to_owned(),
            path: path.into(),
            value: Some(value.into()),
        }
    }

    /// Returns whether a state handle is filled into it.
    pub fn names_a_handle(&self) -> bool {
        let value = self.value.as_ref().map(serde_json::Value::to_string);
        value.is_some_and(|value| value.contains("${captured."))
    }
}

/// A person's leave to pass a gate; valid for one attempt and used once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The phase that may begin.
    pub phase: super::Phase,
    /// The attempt that it is given for, as in `status.attempt`.
    pub attempt: u32,
    /// Who approved; free text, usually from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The phases that wait for an [`Approval`] before they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalGate {
    /// The phases that don't begin without one.
    pub before: Vec<super::Phase>,
}

/// A person's word; bound to cluster, attempt and phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assumption {
    /// What the person vouches for, or decides.
    pub fact: Fact,
    /// The cluster that it is about.
    pub cluster: ClusterName,
    /// The attempt that it applies to, as in `status.attempt`.
    pub attempt: u32,
    /// The phase that it applies to. It has no effect in any other phase.
    pub phase: super::Phase,
    /// Who said it; free text, usually from the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// A condition as `kubectl wait --for=condition=…` reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, for instance `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition holds: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// One CamelCase word.
    pub reason: String,
    /// Why, as a sentence; empty when there is nothing to say.
    pub message: String,
    /// When `status` changed last.
    pub last_transition_time: Timestamp,
}

/// Who or what has to do something before an intent goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WaitCode {
    /// What the next step needs has not been observed yet.
    #[default]
    Evidence,
    /// What was sent failed, and is sent again.
    Retry,
    /// A person has to approve.
    Approval,
    /// A person has to resume it.
    Pause,
    /// Others go first, and make room when they have come to rest.
    Turn,
    /// Another intent has the workload, or goes first with it.
    Claim,
}

impl WaitCode {
    /// Returns whether only a person ends the wait.
    pub const fn is_for_a_person(self) -> bool {
        matches!(self, Self::Approval | Self::Pause)
    }
}

impl fmt::Display for WaitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why an intent does not go on at the moment.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    /// What kind of thing is waited for.
    #[serde(default)]
    pub code: WaitCode,
    /// What is waited for: what is to come, or what was observed instead.
    pub reason: String,
    /// What a person can say for what can't be seen, as it is offered in the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<super::Offer>,
    /// The phase that begins when it is approved.
    pub approval: Option<super::Phase>,
    /// When the wait began.
    pub since: Timestamp,
    /// When the wait ends by itself; what happens then stands in `then`.
    pub until: Option<Timestamp>,
    /// What happens at `until`, for instance `roll back`.
    pub then: Option<String>,
    /// The last warning of a member about the copy that is waited for, in the words of its Events. Nothing is decided by it.
    pub last_warning: Option<String>,
}

impl WaitingFor {
    /// Returns whether it goes on only when a person says so.
    pub fn asks_a_person(&self) -> bool {
        self.code.is_for_a_person() || self.approval.is_some() || !self.offers.is_empty()
    }

    /// Says it after the name of what waits: `waits for` where the reason names what is to come, `waits:` where it says what was
    /// observed. By its code, as a reason of evidence may be either.
    pub fn phrase(&self) -> String {
        let names_what_comes = self.approval.is_some() || self.code == WaitCode::Turn;
        let link = if names_what_comes { " for" } else { ":" };
        format!("waits{link} {}", self.reason)
    }

    /// Returns whether nothing has to happen for it to go on but that its time comes: a soak, a pause between steps, a time window.
    pub fn is_a_matter_of_time(&self) -> bool {
        matches!(
            self.then.as_deref(),
            Some("go on" | "go on with the next step" | "begin")
        )
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The status of an intent, whatever its kind: the machine's frame, the loop, and whoever reports on intents know no more of it.
pub trait Progress:
    Clone + Default + PartialEq + Serialize + serde::de::DeserializeOwned + Send + Sync
{
    type Phase: Lifecycle;
    /// All that a later pass needs and cannot observe.
    type Journal;

    fn phase(&self) -> Self::Phase;

    fn set_phase(&mut self, phase: Self::Phase);

    fn common(&self) -> &Common;

    fn common_mut(&mut self) -> &mut Common;

    fn journal(&self) -> Option<&Self::Journal>;

    fn journal_mut(&mut self) -> Option<&mut Self::Journal>;

    /// Returns where the journal keeps what is about to be sent; `None`: there is no journal.
    fn planned_mut(&mut self) -> Option<&mut Vec<String>>;

    /// Returns how it stands, as every kind tells it.
    fn standing(&self) -> Standing;

    /// Returns whether nothing of it stands around a workload.
    fn has_ended(&self) -> bool {
        self.phase().is_final()
    }

    /// Returns the phase, as it is written in YAML.
    fn phase_name(&self) -> &'static str {
        self.phase().name()
    }

    fn waiting_for(&self) -> Option<&WaitingFor> {
        self.common().waiting_for.as_ref()
    }

    /// Returns the format in which it is written: which versions can go on from it.
    fn format(&self) -> u32 {
        PLAIN_FORMAT
    }

    /// Returns the form in which it is stored, where that isn't the one that programs work with.
    fn folded(&self) -> Option<serde_json::Value> {
        None
    }

    /// Notes in which format it is written.
    fn note_format(&mut self) {
        self.common_mut().format = self.format();
    }
}

/// What [`Progress`] asks of a status with the fields `phase`, `common` and `journal`, the latter with a field `planned`.
macro_rules! phase_common_journal {
    ($phase:ty, $journal:ty) => {
        $crate::api::common::phase_common!($phase);

        type Journal = $journal;

        fn journal(&self) -> Option<&$journal> {
            self.journal.as_ref()
        }

        fn journal_mut(&mut self) -> Option<&mut $journal> {
            self.journal.as_mut()
        }

        fn planned_mut(&mut self) -> Option<&mut Vec<String>> {
            self.journal.as_mut().map(|journal| &mut journal.planned)
        }
    };
}

/// The part of it that asks for no journal.
macro_rules! phase_common {
    ($phase:ty) => {
        type Phase = $phase;

        fn phase(&self) -> $phase {
            self.phase
        }

        fn set_phase(&mut self, phase: $phase) {
            self.phase = phase;
        }

        fn common(&self) -> &Common {
            &self.common
        }

        fn common_mut(&mut self) -> &mut Common {
            &mut self.common
        }
    };
}

pub(super) use {phase_common, phase_common_journal};

/// The part of a status that is the same for every kind.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Common {
    /// The generation of the spec that the status is about.
    pub observed_generation: i64,
    /// Counts from 1; 0 before the first pass.
    pub attempt: u32,
    /// When the attempt began.
    pub started_at: Option<Timestamp>,
    /// When the attempt ended; none while it is under way.
    pub finished_at: Option<Timestamp>,
    /// What it waits for at the moment; none while it goes on.
    pub waiting_for: Option<WaitingFor>,
    /// `Ready`, `Reconciling`, `Stalled` and `Ended` for every kind alike, and what is particular to the kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The phases of the attempt so far, with what was seen that ended each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// What is wrong, or worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The Git revision that last applied the spec.
    pub revision: Option<String>,
    /// The format in which the status is written; a reconciler that knows only earlier ones leaves the intent alone.
    #[serde(skip_serializing_if = "is_zero")]
    pub format: u32,
}

impl Common {
    /// Closes the step that is open with what let it end, and begins another one.
    pub fn enter(&mut self, step: &str, evidence: Vec<String>, now: Timestamp) {
        self.close(evidence, now);
        self.waiting_for = None;
        self.steps.push(StepRecord {
            name: step.to_owned(),
            started_at: now,
            finished_at: None,
            evidence: Vec::new(),
        });
    }

    /// Closes the step that is open, and with it the attempt.
    pub fn end(&mut self, evidence: Vec<String>, now: Timestamp) {
        self.close(evidence, now);
        self.waiting_for = None;
        self.finished_at = Some(now);
    }

    fn close(&mut self, evidence: Vec<String>, now: Timestamp) {
        if let Some(step) = self.steps.last_mut().filter(|step| step.finished_at.is_none()) {
            step.finished_at = Some(now);
            step.evidence = evidence;
        }
    }

    /// Waits for something; the same wait goes on since it began.
    pub fn wait(&mut self, code: WaitCode, reason: String, now: Timestamp) {
        let since = match &self.waiting_for {
            Some(wait) if wait.reason == reason => wait.since,
            _ => now,
        };
        self.waiting_for = Some(WaitingFor {
            code,
            offers: Vec::new(),
            reason,
            approval: None,
            since,
            until: None,
            then: None,
            last_warning: None,
        });
    }

    /// Says how it stands, in the conditions that all kinds have, and in those of the kind.
    pub fn say(&mut self, standing: Standing, reason: &str, own: &[(&str, bool)], now: Timestamp) {
        let message = match (&self.waiting_for, self.findings.first()) {
            (Some(wait), _) => wait.phrase(),
            (None, Some(finding)) => finding.message.clone(),
            (None, None) => String::new(),
        };
        let wait = self.waiting_for.as_ref();
        standing.say(&mut self.conditions, wait, reason, &message, now);
        for (type_, holds) in own {
            Condition::put(&mut self.conditions, type_, *holds, reason, &message, now);
        }
    }

    /// Says whether the spec was changed in the middle of an attempt that goes on as it was begun.
    pub fn say_ignored(&mut self, is_ignored: bool, message: &str, now: Timestamp) {
        let type_ = "SpecChangeIgnored";
        Condition::put(&mut self.conditions, type_, is_ignored, "MidFlight", message, now);
    }
}

/// One phase as it went: the story of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// The phase.
    pub name: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; none for the one that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// What was observed that allowed the step to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

/// Something about an intent that a person should know or fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// For instance `TargetNotReady`.
    pub code: String,
    /// What was found, as a sentence.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    pub fn new(code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            hint: Some(hint.into()),
        }
    }
}

/// A schema that takes any JSON value and keeps it.
pub(super) fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A schema that takes any JSON object and keeps it.
pub(super) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_to_come_completes_the_sentence_and_what_was_observed_does_not() {
        let phrase = |code: &str, approval: Option<&str>, reason: &str| {
            let wait = json!({"code": code, "approval": approval, "reason": reason, "since": "2026-01-02T03:04:05Z"});
            serde_json::from_value::<WaitingFor>(wait).unwrap().phrase()
        };
        for (code, approval, reason, said) in [
            (
                "Approval",
                Some("Handoff"),
                "approval of Handoff",
                "waits for approval of Handoff",
            ),
            ("Turn", None, "its turn", "waits for its turn"),
            (
                "Evidence",
                None,
                "east: not suspended yet",
                "waits: east: not suspended yet",
            ),
            ("Approval", None, "is it certain?", "waits: is it certain?"),
        ] {
            assert_eq!(phrase(code, approval, reason), said);
        }
    }
}
