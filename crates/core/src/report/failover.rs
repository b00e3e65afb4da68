//! Failover plans, as people are told of them: Events, lines on a terminal, a part of the page, lines of the history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::copies::WorkloadKey;
use super::recorded::change;
use super::summary::{Part, Summarized, Summary, evidence, found};
use super::told::BUSY;
use super::{EventRecord, names, path, status};
use crate::api::{
    FailoverPhase as Phase, FailoverPlan, FailoverPlanStatus, LastKnown, OpenQuestion, Relocation,
    WaitingFor, WorkloadRef,
};
use crate::units::{instant, milliseconds};
use cutover_karmada::name::ClusterName;

/// A plan in `status.yaml`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailoverSnapshot {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) workload: WorkloadRef,
    pub(super) phase: Phase,
    /// How many failovers there were.
    pub(super) attempt: u32,
    pub(super) writer: Option<ClusterName>,
    pub(super) last_known: Option<LastKnown>,
    pub(super) waiting_for: Option<WaitingFor>,
    /// What a person is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) asks: Vec<OpenQuestion>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl FailoverSnapshot {
    pub(super) fn of(plan: &FailoverPlan) -> Self {
        let status = status(plan);
        let (namespace, name) = names(plan);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            workload: plan.spec_in_force().workload.clone(),
            phase: status.phase,
            attempt: status.common.attempt,
            writer: status.writer.clone(),
            last_known: status.last_known.clone(),
            waiting_for: status.common.waiting_for.clone(),
            asks: status.asks.clone(),
            record: path(plan),
        }
    }

    /// Returns whether people have to hear at once of what is new since `before`.
    pub(super) fn is_urgent(&self, before: &[Self]) -> bool {
        let was = before.iter().find(|was| was.record == self.record);
        let asks_anew = was.is_none_or(|was| was.asks != self.asks) && !self.asks.is_empty();
        asks_anew || (self.phase != Phase::Pending && change(before, self).is_some())
    }
}

/// Returns what is to be told once the journal says what `after` says.
pub fn failover_events(before: &FailoverPlan, after: &FailoverPlanStatus) -> Vec<EventRecord> {
    let was = status(before);
    let mut told = Vec::new();
    if was.phase != after.phase {
        let evidence = evidence(&after.common, was.phase.name());
        let warning = matches!(after.phase, Phase::Evicted | Phase::Failed);
        told.push(EventRecord::new(warning, after.phase.name(), &evidence));
    }
    for done in after.history.iter().filter(|done| !was.history.contains(done)) {
        let known = was.history.iter();
        if !known
            .clone()
            .any(|known| (known.at, &known.what) == (done.at, &done.what))
        {
            told.push(EventRecord::new(false, "FailedOver", &sentence(done)));
        }
    }
    for ask in after.asks.iter().filter(|ask| !was.asks.contains(ask)) {
        told.push(EventRecord::new(true, "ApprovalNeeded", &question(ask)));
    }
    told.extend(found(&was.common.findings, &after.common.findings));
    told
}

fn question(ask: &OpenQuestion) -> String {
    format!(
        "{} of {} for attempt {}: cutover approve",
        ask.gate, ask.cluster, ask.attempt
    )
}

/// Tells of one move in a sentence.
fn sentence(done: &Relocation) -> String {
    let state = done.state.as_ref().map_or_else(String::new, |state| {
        let values: Vec<String> = state
            .values
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        format!("; state {}: {}", state.source, values.join(", "))
    });
    let by = done
        .by
        .as_ref()
        .map_or_else(String::new, |by| format!("; by {by}"));
    let down = done.downtime_ms.map_or_else(String::new, |down| {
        format!("; {} from then until it was seen well", milliseconds(down))
    });
    format!(
        "{} {}: {} → {}: {}{state}{by}{down}",
        instant(done.at),
        done.what,
        done.from,
        done.to,
        done.reason
    )
}

impl Summarized for FailoverPlan {
    const TITLE: &'static str = "Failover plans";
    const COLUMNS: &'static [&'static str] = &["Writer", "Failovers", "Last known state"];

    fn summary(&self) -> Summary {
        let status = status(self);
        let workload = &self.spec_in_force().workload;
        let writer = status.writer.as_ref().map_or("none", ClusterName::as_str);
        let what = format!("{} {}, writer {writer}", workload.kind, workload.name);
        let asks = status.asks.iter().map(question);
        let asks = asks.map(|asked| Part::new(asked).marked("✋ ").labelled(BUSY, "asks:"));
        let state = |known: &LastKnown| known.values.values().cloned().collect::<Vec<_>>().join(", ");
        let known = status.last_known.as_ref().map(|known| {
            let text = format!("last known state: {} (seen {})", state(known), instant(known.at));
            Part::new(text).on_terminal()
        });
        let old = status.old_copies.iter().map(|(cluster, old)| {
            let how = if old.kept { "kept" } else { "not seen gone" };
            Part::new(format!(
                "old copy in {cluster}: left at {}, {how}",
                instant(old.since)
            ))
        });
        let done = status
            .history
            .iter()
            .rev()
            .take(10)
            .enumerate()
            .map(|(at, done)| {
                let part = Part::new(sentence(done));
                if at < 3 { part } else { part.on_page() }
            });
        let all = Summary::of(self, what);
        let asked = (!status.asks.is_empty()).then(|| format!("cutover approve {}", all.place));
        Summary {
            next: all.next.clone().or(asked),
            workloads: vec![WorkloadKey::of(self, workload)],
            parts: asks.chain(known).chain(old).chain(done).collect(),
            cells: vec![
                writer.to_owned(),
                status.common.attempt.to_string(),
                status.last_known.as_ref().map(state).unwrap_or_default(),
            ],
            ..all
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_long_a_failover_took_is_told_as_people_read_it() {
        let done: Relocation = serde_json::from_value(json!({
            "what": "Failover", "attempt": 1, "at": "2026-03-01T10:00:00Z", "finishedAt": "2026-03-01T10:00:14Z",
            "from": "east", "to": "west", "reason": "TaintManager", "downtimeMs": 13_400,
        }))
        .unwrap();
        assert_eq!(
            sentence(&done),
            "2026-03-01 10:00:00 UTC Failover: east → west: TaintManager; 13.4 s from then until it was seen well"
        );
    }
}
