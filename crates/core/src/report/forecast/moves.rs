//! Evacuations and rebalances: what would move where, and what can't, and why.

use super::{DryRunOutcome, TOLD, evidence, found, names, outcome};
use crate::api::{Means, Move, MovesStatus};
use crate::intent::moves::MoveStrategy;
use crate::plan::{Forecast, ForecastMove, ForecastStep, Outcome};
use crate::report::finding_text;

/// Where a workload goes that runs there already.
const OTHERS: &str = "its other clusters";

/// Returns what such an intent would do. `status`: how its machine left it.
pub fn moves_forecast<A: MoveStrategy>(spec: &A, status: &MovesStatus<A>, came: &DryRunOutcome) -> Forecast {
    let (mut outcome, mut because) = outcome(status, came, || evidence(&status.common));
    let open: Vec<&Move> = status.moves.iter().filter(|one| !one.checked).collect();
    if let (DryRunOutcome::Stands, Some(first)) = (came, open.first())
        && outcome == Outcome::Nothing
    {
        outcome = Outcome::Unknown;
        let why = first.note.as_deref().unwrap_or("it was not looked at");
        because = vec![format!(
            "{} of {}: {why}",
            count(open.len(), "workload"),
            status.moves.len()
        )];
    }
    let movable: Vec<&Move> = status.moves.iter().filter(|one| one.blocked.is_none()).collect();
    let mut remarks = stays(status);
    remarks.extend(found(outcome, &status.common));
    Forecast {
        outcome,
        because,
        steps: steps(spec, status, &movable),
        remarks,
        moves: movable.iter().map(|one| arrow(one)).collect(),
        from: None,
    }
}

fn steps<A: MoveStrategy>(spec: &A, status: &MovesStatus<A>, movable: &[&Move]) -> Vec<ForecastStep> {
    let mut steps = Vec::new();
    let (cordons, keeps) = spec.cordons();
    if cordons && !status.clusters.is_empty() {
        let lasts = if keeps { ", also afterwards" } else { "" };
        let what = format!("{} takes nothing new{lasts}", names(&status.clusters));
        steps.push(ForecastStep::new("cordon", what));
    }
    steps.extend(movable.iter().take(TOLD).map(|one| step(one)));
    if let Some(more) = movable.len().checked_sub(TOLD).filter(|more| *more > 0) {
        steps.push(ForecastStep::new(
            "…",
            format!("{} besides", count(more, "workload")),
        ));
    }
    steps
}

/// Says what stays, and why.
fn stays<A>(status: &MovesStatus<A>) -> Vec<String> {
    let runs = status.stays.iter().filter(|stay| stay.runs);
    let mut remarks: Vec<String> = runs
        .take(TOLD)
        .map(|stay| {
            format!(
                "{} stays in {}: {}",
                stay.workload,
                stay.cluster,
                finding_text(&stay.why)
            )
        })
        .collect();
    let inert = status.stays.iter().filter(|stay| !stay.runs).count();
    if inert > 0 {
        remarks.push(format!(
            "{} of which nothing runs stay as their policies have them",
            count(inert, "object")
        ));
    }
    remarks
}

fn arrow(one: &Move) -> ForecastMove {
    ForecastMove {
        workload: one.workload.to_string(),
        from: one.from.to_string(),
        to: match (&one.to, one.means) {
            (None, Means::Evict) => Some(OTHERS.to_owned()),
            (to, _) => to.as_ref().map(ToString::to_string),
        },
    }
}

fn step(one: &Move) -> ForecastStep {
    let how = match one.means {
        Means::StopFirst => "stopped with its state first",
        Means::StartFirst => "started there before it is taken away here",
        Means::Reschedule => "its replicas are redistributed by Karmada's scheduler",
        Means::Evict => "taken away here when its copies in the other clusters are ready without it",
    };
    let way = match &one.to {
        Some(to) => format!("{} → {to}, ", one.from),
        None if one.means == Means::Evict => format!("{} → {OTHERS}, ", one.from),
        None => String::new(),
    };
    let note = one
        .note
        .as_ref()
        .map_or_else(String::new, |note| format!("; waits: {note}"));
    ForecastStep::new(one.workload.to_string(), format!("{way}{how}{note}"))
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
