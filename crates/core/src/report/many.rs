//! Intents that move many workloads, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use kube::core::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use super::EventRecord;
use super::answer::command;
use super::copies::WorkloadKey;
use super::recorded::change;
use super::summary::{Part, Summary, evidence, found};
use super::told::{BAD, NAME};
use crate::api::{
    self, Means, Move, MoveState, MovesPhase as Phase, MovesStatus, Progress, Stay, Tally, WaitingFor,
};
use crate::intent::{origin, record};
use crate::units::{brief, instant};
use cutover_karmada::name::ClusterName;

/// An Evacuation or a Rebalance.
#[derive(Clone, Debug)]
pub struct Many {
    pub kind: &'static str,
    pub name: String,
    /// What has set it off has not let it begin: a person has nothing to do yet.
    pub waits_for_leave: bool,
    /// The object without what doesn't last.
    pub document: Value,
    pub status: MovesStatus<Value>,
}

/// The kinds of such intents.
pub const MANY: [&str; 2] = ["Evacuation", "Rebalance"];

impl Many {
    /// Reads one of those intents; `None`: it has a form that this release doesn't know.
    pub fn read(object: &Value) -> Option<Self> {
        let kind = object.get("kind").and_then(Value::as_str)?;
        let kind = MANY.into_iter().find(|known| *known == kind)?;
        let metadata = object.get("metadata")?;
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        let status = object.get("status").filter(|status| !status.is_null());
        let read = status.map(|status| serde_json::from_value(status.clone()));
        let status: Option<MovesStatus<Value>> = read.transpose().ok()?;
        Some(Self {
            kind,
            name: name.to_owned(),
            waits_for_leave: ObjectMeta::deserialize(metadata)
                .is_ok_and(|meta| origin::waits_for_leave(&meta)),
            document: json!({
                "apiVersion": api::API_VERSION,
                "kind": kind,
                "metadata": {"name": name, "uid": metadata.get("uid")},
                "spec": object.get("spec").cloned().unwrap_or_default(),
                "status": status,
            }),
            status: status.unwrap_or_default(),
        })
    }

    pub(super) fn path(&self) -> String {
        record::path(self.kind, None, &self.name)
    }

    /// Returns what it does: `empties east`.
    fn what(&self) -> String {
        let text = |pointer: &str| self.document.pointer(pointer).and_then(Value::as_str);
        match self.kind {
            "Rebalance" if self.document.pointer("/spec/dryRun") == Some(&Value::Bool(true)) => {
                "would redistribute workloads".to_owned()
            }
            "Rebalance" => "redistributes workloads".to_owned(),
            _ => match (text("/spec/cluster"), text("/spec/taint/key")) {
                (Some(cluster), _) => format!("empties {cluster}"),
                (None, Some(key)) if self.status.clusters.is_empty() => {
                    format!("empties every cluster with the taint {key}")
                }
                (None, Some(key)) => format!("empties {}, for the taint {key}", names(&self.status.clusters)),
                (None, None) => "empties nothing".to_owned(),
            },
        }
    }

    /// Returns the command that ends a wait which only a person ends.
    fn next(&self) -> Option<String> {
        let wait = self.status.common.waiting_for.as_ref()?;
        if self.waits_for_leave {
            return None;
        }
        command(&self.name, wait)
    }

    fn progress(&self) -> String {
        let Some(tally) = self.status.progress else {
            return String::new();
        };
        let mut text = format!("{} of {}", tally.done, tally.of);
        if tally.moving > 0 {
            let _ = write!(text, ", {} on the way", tally.moving);
        }
        if tally.failed > 0 {
            let _ = write!(text, ", {} failed", tally.failed);
        }
        text
    }
}

fn names(clusters: &[ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(ClusterName::as_str).collect();
    names.join(", ")
}

/// As `status.yaml` has it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManySnapshot {
    pub(super) kind: String,
    pub(super) name: String,
    /// For instance `empties east`.
    pub(super) what: String,
    pub(super) phase: Phase,
    pub(super) attempt: u32,
    pub(super) progress: Option<Tally>,
    pub(super) waiting_for: Option<WaitingFor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) moves: Vec<Move>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stays: Vec<Stay>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl ManySnapshot {
    pub(super) fn of(one: &Many) -> Self {
        Self {
            kind: one.kind.to_owned(),
            name: one.name.clone(),
            what: one.what(),
            phase: one.status.phase,
            attempt: one.status.common.attempt,
            progress: one.status.progress,
            waiting_for: one.status.common.waiting_for.clone(),
            moves: one.status.moves.clone(),
            stays: one.status.stays.clone(),
            record: one.path(),
        }
    }

    /// Returns whether somebody should learn of it at once.
    pub(super) fn is_urgent(&self, before: &[Self]) -> bool {
        let was = before.iter().find(|was| was.record == self.record);
        let failed = |one: &Self| one.progress.map_or(0, |tally| tally.failed);
        let asks = |one: &Self| {
            one.waiting_for
                .as_ref()
                .is_some_and(|wait| wait.code.is_for_a_person())
        };
        let ended = self.phase.is_terminal() && change(before, self).is_some();
        ended || failed(self) > was.map_or(0, failed) || (asks(self) && !was.is_some_and(asks))
    }
}

/// Returns what is to be told once the journal says what `after` says.
pub fn moves_events<S>(before: &MovesStatus<S>, after: &MovesStatus<S>) -> Vec<EventRecord> {
    let mut told = Vec::new();
    if before.phase != after.phase {
        let note = evidence(&after.common, before.phase.name());
        let warning = matches!(after.phase, Phase::Failed);
        told.push(EventRecord::new(warning, after.phase.name(), &note));
    }
    for one in &after.moves {
        let was = before
            .moves
            .iter()
            .find(|was| was.workload == one.workload && was.from == one.from);
        if was.is_some_and(|was| was.state == one.state) {
            continue;
        }
        let note = format!("{}{}", one.workload, route(one));
        match one.state {
            MoveState::Moving => told.push(EventRecord::new(false, "Moves", &note)),
            MoveState::Moved => told.push(EventRecord::new(false, "Moved", &note)),
            MoveState::Failed => {
                let why = one.note.as_deref().unwrap_or_default();
                told.push(EventRecord::new(true, "MoveFailed", &format!("{note}: {why}")));
            }
            MoveState::Waiting | MoveState::Starting => {}
        }
    }
    for stay in after
        .stays
        .iter()
        .filter(|stay| stay.runs && !before.stays.contains(stay))
    {
        told.push(EventRecord::new(
            true,
            &stay.why.code,
            &format!("{}: {}", stay.workload, stay.why.message),
        ));
    }
    told.extend(found(&before.common.findings, &after.common.findings));
    told
}

fn route(one: &Move) -> String {
    match (&one.to, one.means) {
        (Some(to), _) => format!(" from {} to {to}", one.from),
        (None, Means::Evict) => format!(" from {} to its other clusters", one.from),
        (None, Means::Reschedule) => ": its replicas are redistributed".to_owned(),
        (None, _) => format!(" from {}", one.from),
    }
}

pub(super) const TITLE: &str = "Evacuations and rebalances";
pub(super) const COLUMNS: &[&str] = &["Since"];

impl Many {
    pub(super) fn summary(&self) -> Summary {
        let status = &self.status;
        let mut steps = status.common.steps.iter().rev();
        let since = steps.clone().next().map(|step| instant(step.started_at));
        let last = steps.find(|step| !step.evidence.is_empty());
        let last = last.map(|step| brief(&step.evidence.join("; ")));
        let later = (status.later > 0)
            .then(|| Part::new(format!("and {} more, when these have moved", status.later)).on_terminal());
        let more = (status.more_stays > 0)
            .then(|| Part::new(format!("{} more", status.more_stays)).labelled(BAD, "stays:"));
        let stays = status.stays.iter().map(stay_part).chain(more);
        let progress = self.progress();
        Summary {
            kind: self.kind,
            place: self.name.clone(),
            record: self.path(),
            what: match progress.as_str() {
                "" => self.what(),
                progress => format!("{}, {progress}", self.what()),
            },
            phase: status.phase.name(),
            standing: status.standing(),
            has_ended: status.has_ended(),
            common: status.common.clone(),
            trouble: status
                .progress
                .filter(|tally| tally.failed > 0)
                .map(|tally| match tally.failed {
                    1 => "could not move 1 workload".to_owned(),
                    many => format!("could not move {many} workloads"),
                }),
            outcome: None,
            down_since: None,
            next: self.next(),
            workloads: status.moves.iter().map(|one| key(&one.workload)).collect(),
            intro: last.into_iter().collect(),
            parts: status
                .moves
                .iter()
                .map(move_part)
                .chain(later)
                .chain(stays)
                .collect(),
            cells: vec![since.unwrap_or_default()],
        }
    }
}

fn key(workload: &api::WorkloadName) -> WorkloadKey {
    let namespace = workload.namespace.as_deref().unwrap_or_default();
    WorkloadKey::new(namespace, &workload.kind, &workload.name)
}

fn move_part(one: &Move) -> Part {
    let (mark, symbol) = match one.state {
        MoveState::Waiting => (" ", ""),
        MoveState::Starting | MoveState::Moving => ("•", "🔄 "),
        MoveState::Moved => ("✓", "✅ "),
        MoveState::Failed => ("✗", "❌ "),
    };
    let note = one.note.as_ref();
    let note = note.map_or_else(String::new, |note| format!(": {}", brief(note)));
    let part = Part::new(format!("{}{}{note}", one.workload, route(one))).marked(symbol);
    let part = part.bulleted(mark);
    if one.state == MoveState::Waiting {
        part.on_terminal()
    } else {
        part
    }
}

fn stay_part(stay: &Stay) -> Part {
    let text = format!(
        "{} in {}: {}",
        stay.workload,
        stay.cluster,
        super::finding_text(&stay.why)
    );
    if stay.runs {
        Part::new(text).marked("⚠️ ").labelled(BAD, "stays:")
    } else {
        Part::new(text).labelled(NAME, "stays:").on_terminal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_has_set_off_is_approved_like_any_other_and_resumed_by_nobody_before_it_may_begin() {
        let next = |annotations: Value, code: &str| {
            let object = json!({
                "kind": "Evacuation", "metadata": {"name": "east", "annotations": annotations}, "spec": {"cluster": "east"},
                "status": {
                    "phase": "Preflight", "attempt": 2,
                    "waitingFor": {"code": code, "reason": "approval", "since": "2026-01-02T03:04:05Z"},
                },
            });
            Many::read(&object).unwrap().summary().next
        };
        let set_off = || json!({"cutover.dev/cluster-uid": "u1 east"});
        for annotations in [json!({}), set_off()] {
            let approve = next(annotations.clone(), "Approval");
            assert_eq!(approve.as_deref(), Some("cutover approve east"));
            let resume = next(annotations, "Pause");
            assert_eq!(resume.as_deref(), Some("cutover resume east"));
        }
        let mut held = set_off();
        held["cutover.dev/waits-for-parent"] = json!("true");
        assert_eq!(next(held, "Pause"), None);
    }
}
