//! What happens when a change is merged, in a sentence.

use super::moves::{Move, Verdict};
use super::page::{count, inline, named};
use crate::plan::{Forecast, Outcome, Summary};
use cutover_karmada::name::ObjectKey;

/// So many intents are named.
const NAMED: usize = 3;

/// Returns what cutover does with a change once the branch has it.
pub(super) fn sentence(summary: &Summary, moves: &[Move], forecasts: &[(&ObjectKey, &Forecast)]) -> String {
    let writes = summary.create + summary.change + summary.recreate + summary.delete;
    let mut parts = vec![match writes {
        0 => "cutover writes nothing to this control plane".to_owned(),
        writes => format!("cutover writes {} to this control plane", count(writes, "change")),
    }];
    if summary.delete > 0 {
        parts.push(format!("it prunes {}", count(summary.delete, "object")));
    }
    parts.extend(left_out(summary));
    let (begin, fail) = (begin(moves, forecasts), fail(moves, forecasts));
    if !begin.is_empty() {
        parts.push(format!("{} can begin at once", named(&begin, NAMED)));
    }
    if !fail.is_empty() {
        parts.push(format!(
            "{} would fail, with nothing touched",
            named(&fail, NAMED)
        ));
    }
    format!("**On merge**, {}.", parts.join("; "))
}

/// Returns what is not written, and why.
fn left_out(summary: &Summary) -> Vec<String> {
    let mut parts = Vec::new();
    match summary.held_back {
        0 => {}
        1 => parts.push("1 change is held back until its intent applies it".to_owned()),
        held => parts.push(format!(
            "{held} changes are held back until their intents apply them"
        )),
    }
    match summary.blocked {
        0 => {}
        1 => parts.push("1 blocked change is left out, and the rest is carried out all the same".to_owned()),
        blocked => parts.push(format!(
            "{blocked} blocked changes are left out, and the rest is carried out all the same"
        )),
    }
    match summary.left_behind {
        0 => {}
        1 => parts.push("1 object stays, although Git has it no more".to_owned()),
        left => parts.push(format!("{left} objects stay, although Git has them no more")),
    }
    parts
}

fn begin(moves: &[Move], forecasts: &[(&ObjectKey, &Forecast)]) -> Vec<String> {
    let moves = moves.iter().filter(|one| one.preview.verdict == Verdict::Clear);
    let moves = moves.map(|one| &one.intent);
    intents(moves, forecasts, Outcome::Begins)
}

fn fail(moves: &[Move], forecasts: &[(&ObjectKey, &Forecast)]) -> Vec<String> {
    let moves = moves
        .iter()
        .filter(|one| matches!(one.preview.verdict, Verdict::Blocked(_)));
    intents(moves.map(|one| &one.intent), forecasts, Outcome::Refused)
}

fn intents<'a>(
    moves: impl Iterator<Item = &'a ObjectKey>,
    forecasts: &[(&'a ObjectKey, &Forecast)],
    outcome: Outcome,
) -> Vec<String> {
    let others = forecasts
        .iter()
        .filter(|(_, forecast)| forecast.outcome == outcome)
        .map(|(intent, _)| *intent);
    moves
        .chain(others)
        .map(|intent| inline(&intent.to_string()))
        .collect()
}
