//! Shifts of replicas, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use super::copies::WorkloadKey;
use super::summary::{Summarized, Summary, found};
use super::told::{BAD, styled};
use super::{EventRecord, status};
use crate::api::{ReplicaShift, ReplicaShiftStatus, ShiftPhase as Phase};
use crate::units::{brief, instant};

/// Returns what is to be told once the journal says what `after` says.
pub fn shift_events(before: &ReplicaShift, after: &ReplicaShiftStatus) -> Vec<EventRecord> {
    let was = status(before);
    let mut told = Vec::new();
    if was.phase != after.phase {
        let back = after.journal.as_ref().and_then(|journal| journal.back.as_ref());
        let (warning, note) = match after.phase {
            Phase::RollingBack | Phase::RolledBack | Phase::Aborted => (
                after.phase != Phase::Aborted,
                back.map_or_else(|| "nothing was touched".to_owned(), |back| back.reason.clone()),
            ),
            Phase::Failed => (
                true,
                "the spec cannot be carried out; nothing was touched".to_owned(),
            ),
            _ => (false, what(before)),
        };
        told.push(EventRecord::new(warning, after.phase.name(), &note));
    }
    if let (Some(moved), true) = (&after.moved, was.moved != after.moved && was.moved.is_some()) {
        told.push(EventRecord::new(false, "Moved", &format!("{moved} have gone")));
    }
    told.extend(found(&was.common.findings, &after.common.findings));
    told
}

/// Returns what is shifted: `replicas of Deployment web from blue to green`.
pub(super) fn what(shift: &ReplicaShift) -> String {
    let spec = &shift.spec;
    format!(
        "replicas of {} {} from {} to {}",
        spec.workload.kind, spec.workload.name, spec.from, spec.to
    )
}

impl Summarized for ReplicaShift {
    const TITLE: &'static str = "Shifts of replicas";
    const COLUMNS: &'static [&'static str] = &["Moved", "Fewest ready", "Floor", "Started"];

    fn summary(&self) -> Summary {
        let status = status(self);
        let back = status.journal.as_ref().and_then(|journal| journal.back.as_ref());
        let back = back.map(|back| format!("{} {}", styled(BAD, "goes back:"), brief(&back.reason)));
        let workload = &self.spec.workload;
        let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
        Summary {
            intro: progress(&status).into_iter().chain(back).collect(),
            cells: vec![
                status.moved.clone().unwrap_or_default(),
                number(status.lowest),
                number(status.floor),
                status.common.started_at.map_or_else(String::new, instant),
            ],
            workloads: vec![WorkloadKey::of(self, workload)],
            ..Summary::of(self, what(self))
        }
        .approved_with(gate(self).map(|percent| format!("--percent {percent}")))
    }
}

/// Returns the percentage that has to be approved first.
fn gate(shift: &ReplicaShift) -> Option<u32> {
    let attempt = status(shift).common.attempt;
    let spec = &shift.spec;
    let is_approved = |percent: u32| {
        let mut approvals = spec.approvals.iter();
        approvals.any(|approval| approval.percent == percent && approval.attempt == attempt)
    };
    let gates = spec.pause.approval.iter().copied();
    gates.filter(|percent| !is_approved(*percent)).min()
}

/// How many have gone, how many are ready, and how many must be.
fn progress(status: &ReplicaShiftStatus) -> Option<String> {
    let moved = status.moved.as_ref()?;
    let mut text = format!("{moved} have gone");
    if let (Some(ready), Some(floor)) = (status.ready, status.floor) {
        let _ = write!(text, ", {ready} ready (floor {floor}");
        if let Some(lowest) = status.lowest {
            let _ = write!(text, ", fewest {lowest}");
        }
        text.push(')');
    }
    Some(text)
}
