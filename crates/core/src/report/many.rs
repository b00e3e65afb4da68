//! Intents that move many workloads, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, NAME, finding_line, styled};
use super::{Told, brief, duration, instant};
use crate::api::{Means, Move, MoveState, MovesPhase as Phase, MovesStatus, Stay, Tally, WaitingFor};
use crate::intent::record;
use cutover_karmada::name::ClusterName;

/// An Evacuation or a Rebalance.
#[derive(Clone, Debug)]
pub struct Many {
    pub kind: String,
    pub name: String,
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
        let metadata: kube::core::ObjectMeta =
            serde_json::from_value(object.get("metadata")?.clone()).ok()?;
        let status = object.get("status").filter(|status| !status.is_null());
        let read = status.map(|status| serde_json::from_value(status.clone()));
        let status: Option<MovesStatus<Value>> = read.transpose().ok()?;
        let spec = object.get("spec").cloned().unwrap_or_default();
        Some(Self {
            kind: kind.to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
            document: record::moves_document(kind, &metadata, &spec, status.as_ref()),
            status: status.unwrap_or_default(),
        })
    }

    pub(super) fn path(&self) -> String {
        record::path_of_cluster_scope(&self.kind, &self.name)
    }

    /// Returns what it does: `empties east`.
    fn what(&self) -> String {
        let text = |pointer: &str| self.document.pointer(pointer).and_then(Value::as_str);
        match self.kind.as_str() {
            "Rebalance" if self.document.pointer("/spec/dryRun") == Some(&Value::Bool(true)) => {
                "would spread workloads anew".to_owned()
            }
            "Rebalance" => "spreads workloads anew".to_owned(),
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManySnapshot {
    pub(super) kind: String,
    pub(super) name: String,
    /// For instance `empties east`.
    pub(super) what: String,
    pub(super) phase: Phase,
    pub(super) attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<Tally>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
            kind: one.kind.clone(),
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

    /// Says how it went on since `before`, if it did.
    pub(super) fn change(&self, before: &[Self]) -> Option<String> {
        let was = before.iter().find(|was| was.record == self.record);
        let (name, phase) = (&self.name, self.phase);
        match was {
            Some(was) if was.phase == phase && was.attempt == self.attempt => None,
            Some(was) if was.attempt == self.attempt => Some(format!("{name}: {} → {phase}", was.phase)),
            _ => Some(format!("{name}: {phase}")),
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
        let ended = self.phase.is_terminal() && self.change(before).is_some();
        ended || failed(self) > was.map_or(0, failed) || (asks(self) && !was.is_some_and(asks))
    }
}

/// Returns what is to be told once the journal says what `after` says.
pub fn moves_events<S>(before: &MovesStatus<S>, after: &MovesStatus<S>) -> Vec<Told> {
    let mut told = Vec::new();
    if before.phase != after.phase {
        let evidence = after
            .common
            .steps
            .iter()
            .rev()
            .find(|step| step.name == before.phase.name());
        let note = evidence.map(|step| step.evidence.join("; ")).unwrap_or_default();
        let warning = matches!(after.phase, Phase::Failed);
        told.push(Told::new(warning, after.phase.name(), &note));
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
            MoveState::Moving => told.push(Told::new(false, "Moves", &note)),
            MoveState::Moved => told.push(Told::new(false, "Moved", &note)),
            MoveState::Failed => {
                let why = one.note.as_deref().unwrap_or_default();
                told.push(Told::new(true, "MoveFailed", &format!("{note}: {why}")));
            }
            MoveState::Waiting | MoveState::Starting => {}
        }
    }
    for stay in after
        .stays
        .iter()
        .filter(|stay| stay.runs && !before.stays.contains(stay))
    {
        told.push(Told::new(
            true,
            &stay.why.code,
            &format!("{}: {}", stay.workload, stay.why.message),
        ));
    }
    for finding in &after.common.findings {
        if !before.common.findings.contains(finding) {
            told.push(Told::new(true, &finding.code, &finding.message));
        }
    }
    told
}

fn route(one: &Move) -> String {
    match (&one.to, one.means) {
        (Some(to), _) => format!(" from {} to {to}", one.from),
        (None, Means::Evict) => format!(" from {} to its other clusters", one.from),
        (None, Means::Reschedule) => ": its replicas are divided anew".to_owned(),
        (None, _) => format!(" from {}", one.from),
    }
}

/// Returns one as lines: a head line, how far each workload is, what stays and why.
pub(super) fn lines(one: &Many, now: Timestamp) -> Vec<String> {
    let status = &one.status;
    let style = match status.phase {
        Phase::Completed => GOOD,
        Phase::Failed => BAD,
        _ => BUSY,
    };
    let mut head = format!(
        "{}  {}  {}",
        styled(NAME, &one.name),
        one.what(),
        styled(style, status.phase)
    );
    let progress = one.progress();
    if !progress.is_empty() {
        let _ = write!(head, "  {progress}");
    }
    let mut lines = vec![head];
    if let Some(last) = status
        .common
        .steps
        .iter()
        .rev()
        .find(|step| !step.evidence.is_empty())
    {
        lines.push(format!("  {}", brief(&last.evidence.join("; "))));
    }
    if let Some(wait) = &status.common.waiting_for {
        let since = duration(now.duration_since(wait.since));
        lines.push(format!(
            "  {} {} ({since})",
            styled(BUSY, "waits:"),
            brief(&wait.reason)
        ));
    }
    lines.extend(status.moves.iter().map(move_line));
    if status.later > 0 {
        lines.push(format!("  and {} more, when these have moved", status.later));
    }
    for stay in &status.stays {
        let style = if stay.runs { BAD } else { NAME };
        lines.push(format!(
            "  {} {} in {}: {}",
            styled(style, "stays:"),
            stay.workload,
            stay.cluster,
            stay.why.message
        ));
    }
    if status.more_stays > 0 {
        lines.push(format!("  {} {} more", styled(BAD, "stays:"), status.more_stays));
    }
    lines.extend(status.common.findings.iter().flat_map(finding_line));
    lines
}

fn move_line(one: &Move) -> String {
    let mark = match one.state {
        MoveState::Waiting => " ",
        MoveState::Starting | MoveState::Moving => "•",
        MoveState::Moved => "✓",
        MoveState::Failed => "✗",
    };
    let note = one
        .note
        .as_ref()
        .map_or_else(String::new, |note| format!("  {}", brief(note)));
    format!("  {mark} {}{}{note}", one.workload, route(one))
}

/// Writes the part of the page that is about them; those that go on first.
pub(super) fn section(page: &mut String, all: &[Many]) {
    if all.is_empty() {
        return;
    }
    page.push_str(
        "## Evacuations and rebalances\n\n| Intent | What | Phase | Done | Since |\n|---|---|---|---|---|\n",
    );
    let mut sorted: Vec<&Many> = all.iter().collect();
    sorted.sort_by_key(|one| (one.status.phase.is_terminal(), &one.kind, &one.name));
    for one in &sorted {
        let since = one
            .status
            .common
            .steps
            .last()
            .map(|step| instant(step.started_at));
        let _ = writeln!(
            page,
            "| [{} {}]({}) | {} | {} | {} | {} |",
            one.kind,
            escape(&one.name),
            one.path(),
            escape(&one.what()),
            one.status.phase,
            one.progress(),
            since.unwrap_or_default()
        );
    }
    page.push('\n');
    for one in sorted {
        let name = escape(&one.name);
        let mut item = |text: &str| {
            let _ = writeln!(page, "- {name}: {}", escape(text));
        };
        if let Some(wait) = &one.status.common.waiting_for {
            item(&format!(
                "⏳ waits since {}: {}",
                instant(wait.since),
                brief(&wait.reason)
            ));
        }
        for one in one
            .status
            .moves
            .iter()
            .filter(|one| one.state != MoveState::Waiting)
        {
            let symbol = match one.state {
                MoveState::Moved => "✅",
                MoveState::Failed => "❌",
                _ => "🔄",
            };
            let note = one
                .note
                .as_ref()
                .map_or_else(String::new, |note| format!(": {}", brief(note)));
            item(&format!("{symbol} {}{}{note}", one.workload, route(one)));
        }
        for stay in one.status.stays.iter().filter(|stay| stay.runs) {
            item(&format!(
                "⚠️ {} stays in {}: {}",
                stay.workload,
                stay.cluster,
                super::finding_text(&stay.why)
            ));
        }
        for finding in &one.status.common.findings {
            item(&format!("⚠️ {}", super::finding_text(finding)));
        }
    }
    page.push('\n');
}
