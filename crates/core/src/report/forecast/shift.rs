//! A replica shift: how many replicas each side has after every step.

use super::{DryRunOutcome, evidence, outcome};
use crate::api::{ReplicaShiftSpec, ReplicaShiftStatus, ShiftJournal};
use crate::intent::shift::goals;
use crate::plan::{Forecast, ForecastStep};

/// How many steps are told one by one.
const STEPS: usize = 20;

/// Returns what a shift would do. `status`: how its machine left it.
pub fn shift_forecast(
    spec: &ReplicaShiftSpec,
    status: &ReplicaShiftStatus,
    came: &DryRunOutcome,
) -> Forecast {
    let (outcome, because) = outcome(status, came, || evidence(&status.common));
    let journal = status.journal_in_force();
    let mut steps = match journal {
        Some(journal) => counted(spec, journal),
        None => vec![ForecastStep::new("steps", asked(spec))],
    };
    if !spec.then.suspend.is_empty() {
        let what = format!("changes are kept from {}", super::names(&spec.then.suspend));
        steps.push(ForecastStep::new("then", what));
    }
    let floor = match journal {
        Some(journal) => format!("at least {} replicas are ready at every moment", journal.floor),
        None => format!(
            "at least {} of the replicas at the start are ready at every moment",
            spec.floor
        ),
    };
    Forecast {
        outcome,
        because,
        steps,
        remarks: vec![floor],
        ..Forecast::default()
    }
}

fn counted(spec: &ReplicaShiftSpec, journal: &ShiftJournal) -> Vec<ForecastStep> {
    let amount = journal.amount;
    let source = spec.from.cluster.as_ref();
    let here = source.and_then(|name| journal.start.get(name)).copied();
    let here = here.or(journal.template_wanted).unwrap_or(amount);
    let there = journal.start.get(&spec.to).copied().unwrap_or_default();
    let goals = goals(spec, amount);
    let last = goals.len();
    let before = std::iter::once(0).chain(goals.iter().copied());
    let told = (1..).zip(before.zip(&goals)).map(|(number, (before, gone))| {
        let rests = rests(spec, (before, *gone), amount, number == last);
        let what = format!(
            "{gone} of {amount} have gone: {} has {}, {} has {}{rests}",
            spec.to,
            there + gone,
            spec.from,
            here.saturating_sub(*gone),
        );
        ForecastStep::new(format!("step {number}"), what)
    });
    let mut steps: Vec<ForecastStep> = told.collect();
    if steps.len() > STEPS {
        let left = steps.len() - STEPS;
        let end = steps.pop();
        steps.truncate(STEPS - 1);
        steps.push(ForecastStep::new("…", format!("{left} more steps")));
        steps.extend(end);
    }
    steps
}

/// What comes between a step and the next.
fn rests(spec: &ReplicaShiftSpec, (before, gone): (u32, u32), amount: u32, is_last: bool) -> String {
    let reached = |gone: u32, percent: u32| u64::from(gone) * 100 >= u64::from(percent) * u64::from(amount);
    let gates: Vec<String> = spec
        .pause
        .approval
        .iter()
        .filter(|percent| reached(gone, **percent) && !reached(before, **percent))
        .map(|percent| format!("{percent}%"))
        .collect();
    let mut text = String::new();
    if !gates.is_empty() {
        text.push_str(&format!("; goes on when {} is approved", gates.join(" and ")));
    }
    if let Some(each) = spec.pause.each.as_ref().filter(|_| !is_last) {
        text.push_str(&format!("; rests {each}"));
    }
    text
}

fn asked(spec: &ReplicaShiftSpec) -> String {
    if spec.percentages.is_empty() {
        return format!(
            "{} at a time, more in {} before fewer in {}",
            spec.step.unwrap_or(1),
            spec.to,
            spec.from
        );
    }
    let shares: Vec<String> = spec.percentages.iter().map(|share| format!("{share}%")).collect();
    format!(
        "{} of them, more in {} before fewer in {}",
        shares.join(", then "),
        spec.to,
        spec.from
    )
}
