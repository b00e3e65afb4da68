//! Suspensions, as people are told of them: Events, lines on a terminal, a part of the page.

use jiff::Timestamp;

use super::copies::WorkloadKey;
use super::summary::{Part, Summarized, Summary, evidence, found};
use super::told::BUSY;
use super::{EventRecord, status};
use crate::api::{HeldCopy, Suspension, SuspensionPhase as Phase, SuspensionSpec, SuspensionStatus};
use crate::units::{brief, instant};

/// Returns what is to be told once the journal says what `after` says.
pub fn suspension_events(before: &Suspension, after: &SuspensionStatus) -> Vec<EventRecord> {
    let was = status(before);
    let mut told = Vec::new();
    if was.phase != after.phase {
        told.push(entered(before, &was, after));
    }
    let listed = |status: &SuspensionStatus| {
        let ending = status
            .journal
            .as_ref()
            .and_then(|journal| journal.ending.as_ref());
        ending.is_some_and(|ending| ending.listed)
    };
    if listed(after) && !listed(&was) {
        told.push(EventRecord::new(false, "GoesOut", &goes_out(&after.held)));
    }
    told.extend(found(&was.common.findings, &after.common.findings));
    for contested in &after.contested {
        let known = was.contested.iter();
        if !known
            .clone()
            .any(|known| known.object == contested.object && known.field == contested.field)
        {
            told.push(EventRecord::new(
                true,
                "Contested",
                &format!(
                    "{}: {} is changed again and again, by {}",
                    contested.object,
                    contested.field,
                    contested.managers.join(", ")
                ),
            ));
        }
    }
    told
}

fn entered(suspension: &Suspension, was: &SuspensionStatus, after: &SuspensionStatus) -> EventRecord {
    let evidence = evidence(&after.common, was.phase.name());
    let (warning, note) = match after.phase {
        Phase::Suspended => (false, format!("{}: {}", what(suspension), suspension.spec.reason)),
        Phase::Failed => (
            true,
            "the spec cannot be carried out; nothing was touched".to_owned(),
        ),
        Phase::Aborted | Phase::Completed | Phase::Resuming => (false, evidence),
        Phase::Pending => (true, evidence),
        Phase::Suspending => (false, suspension.spec.reason.clone()),
    };
    EventRecord::new(warning, after.phase.name(), &note)
}

/// Says what goes out when a suspension ends.
fn goes_out(held: &[HeldCopy]) -> String {
    if held.is_empty() {
        return "nothing was held".to_owned();
    }
    held.iter().map(held_text).collect::<Vec<_>>().join("; ")
}

fn held_text(held: &HeldCopy) -> String {
    let mut parts = Vec::new();
    if !held.pending.is_empty() {
        parts.push(held.pending.join(", "));
    }
    if !held.drift.is_empty() {
        let drift: Vec<String> = held
            .drift
            .iter()
            .map(|(field, by)| format!("{field} of {by}"))
            .collect();
        parts.push(format!("puts back {}", drift.join(", ")));
    }
    if let Some(why) = &held.unknown {
        parts.push(format!("not known: {why}"));
    }
    format!("{} in {}: {}", held.workload, held.cluster, parts.join("; "))
}

/// Returns what is suspended: `dispatching of PropagationPolicy web to green`.
pub(super) fn what(suspension: &Suspension) -> String {
    let SuspensionSpec {
        target,
        clusters,
        scope,
        ..
    } = &suspension.spec;
    let of = match (&target.policy, &target.workload) {
        (Some(policy), _) => format!("{} {}", policy.kind.name(), policy.name),
        (None, Some(workload)) => format!("{} {}", workload.kind, workload.name),
        (None, None) => "nothing".to_owned(),
    };
    let names: Vec<&str> = clusters
        .iter()
        .map(cutover_karmada::name::ClusterName::as_str)
        .collect();
    let to = if names.is_empty() {
        String::new()
    } else {
        format!(" to {}", names.join(", "))
    };
    format!("{scope} of {of}{to}")
}

impl Summarized for Suspension {
    const TITLE: &'static str = "Suspensions";
    const COLUMNS: &'static [&'static str] = &["Why", "By", "Since", "Until"];

    fn summary(&self) -> Summary {
        let status = status(self);
        let by = status.by.clone().unwrap_or_default();
        let reason = brief(&self.spec.reason);
        let mut intro = vec![match by.as_str() {
            "" => reason.clone(),
            by => format!("{reason}, by {by}"),
        }];
        let time = |at: Option<Timestamp>| at.map_or_else(String::new, instant);
        if let Some(since) = status.since.filter(|_| !status.phase.is_terminal()) {
            let until = self.spec.until.map(|until| format!(", until {}", instant(until)));
            intro.push(format!("since {}{}", instant(since), until.unwrap_or_default()));
        }
        let held = status.held.iter().map(held_text);
        let held = held.map(|text| Part::new(text).labelled(BUSY, "held:"));
        let contested = status.contested.iter().map(|one| {
            let (object, field, by) = (&one.object, &one.field, one.managers.join(", "));
            let text = format!(
                "{object} {field} is changed again and again ({} times), by {by}",
                one.times
            );
            Part::new(text).marked("⚠️ ")
        });
        let workload = self.spec.target.workload.iter();
        let next = (status.phase == Phase::Suspended && self.spec.until.is_none())
            .then(|| format!("cutover resume {}", super::place(self)));
        let all = Summary::of(self, what(self));
        Summary {
            next: all.next.clone().or(next),
            workloads: workload.map(|one| WorkloadKey::of(self, one)).collect(),
            intro,
            parts: held.chain(contested).collect(),
            cells: vec![reason, by, time(status.since), time(self.spec.until)],
            ..all
        }
    }
}
