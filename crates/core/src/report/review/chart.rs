//! Who moves where, as a Mermaid chart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::moves::{Move, Verdict};
use super::page::{count, fenced, named};
use super::reach::{Fate, Reach};
use crate::plan::Forecast;
use cutover_base::escape::markdown::label;
use cutover_karmada::name::ClusterName;

/// More arrows than that nobody reads.
const ARROWS: usize = 30;

/// Of workloads that go the same way so many are named.
const NAMED: usize = 3;

/// An arrow.
struct Arrow {
    from: String,
    to: String,
    what: String,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// By a migration: solid.
    Moved,
    /// An intent has Karmada's scheduler choose: dotted.
    Rescheduled,
    /// By Karmada, whom nobody asked: dotted.
    ByItself,
    /// Karmada deletes one of several copies: dotted.
    Left,
}

/// Returns a `mermaid` block, and what has no room in it; `None` when nobody moves. `forecasts`: of intents that move many.
pub(super) fn chart(moves: &[Move], forecasts: &[&Forecast], reaches: &[Reach]) -> Option<String> {
    // What would be refused moves nobody.
    let moves = moves
        .iter()
        .filter(|one| !matches!(one.preview.verdict, Verdict::There | Verdict::Blocked(_)));
    let planned = moves.map(|one| Arrow {
        from: one
            .source()
            .map_or_else(|| "where it runs".to_owned(), ToString::to_string),
        to: one.spec.to.to_string(),
        what: one.workload.to_string(),
        how: How::Moved,
    });
    let many = forecasts.iter().flat_map(|forecast| bundles(forecast));
    let by_itself = by_itself(reaches);
    let mut arrows: Vec<Arrow> = planned.chain(many).chain(by_itself).collect();
    if arrows.is_empty() {
        return None;
    }
    let more = arrows.len().saturating_sub(ARROWS);
    arrows.truncate(ARROWS);
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for arrow in &arrows {
        for place in [&arrow.from, &arrow.to] {
            let next = places.len();
            places.entry(place).or_insert(next);
        }
    }
    let mut body = "flowchart LR\n".to_owned();
    for (place, number) in &places {
        let _ = writeln!(body, "    c{number}[\"{}\"]", label(place));
    }
    for arrow in &arrows {
        let (from, to) = (places[arrow.from.as_str()], places[arrow.to.as_str()]);
        let what = label(&arrow.what);
        let _ = match arrow.how {
            How::Moved => writeln!(body, "    c{from} -- \"{what}\" --> c{to}"),
            How::Rescheduled => writeln!(
                body,
                "    c{from} -. \"{what} (by Karmada's scheduler)\" .-> c{to}"
            ),
            How::ByItself => writeln!(
                body,
                "    c{from} -. \"{what} (by Karmada, without a protocol)\" .-> c{to}"
            ),
            How::Left => writeln!(
                body,
                "    c{from} -. \"{what} (copy deleted by Karmada; runs on there)\" .-> c{to}"
            ),
        };
    }
    let mut chart = fenced("mermaid", &body);
    if more > 0 {
        let _ = writeln!(chart, "\n… and {}.", count(more, "more arrow"));
    }
    Some(chart)
}

/// Returns an arrow for each way that workloads go when policies change.
fn by_itself(reaches: &[Reach]) -> Vec<Arrow> {
    let mut ways: BTreeMap<(String, String, How), Vec<&str>> = BTreeMap::new();
    for effect in reaches.iter().flat_map(|reach| &reach.effects) {
        let Fate::Leaves { from, stays, to } = &effect.fate else {
            continue;
        };
        let (goal, how) = match (stays.as_slice(), to.as_slice()) {
            ([], []) => ("nowhere".to_owned(), How::ByItself),
            ([], to) => (either(to), How::ByItself),
            (stays, _) => (either(stays), How::Left),
        };
        for from in from {
            let way = (from.to_string(), goal.clone(), how);
            ways.entry(way).or_default().push(&effect.workload);
        }
    }
    let arrow = |((from, to, how), workloads): ((String, String, How), Vec<&str>)| Arrow {
        from,
        to,
        what: several(&workloads),
        how,
    };
    ways.into_iter().map(arrow).collect()
}

fn either(clusters: &[ClusterName]) -> String {
    let names: Vec<&str> = clusters.iter().map(ClusterName::as_str).collect();
    names.join(" or ")
}

/// Returns an arrow for each way that workloads of one intent go.
fn bundles(forecast: &Forecast) -> Vec<Arrow> {
    let mut ways: BTreeMap<(&str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for one in &forecast.moves {
        let way = ways.entry((&one.from, one.to.as_deref())).or_default();
        way.push(&one.workload);
    }
    let arrow = |((from, to), workloads): ((&str, Option<&str>), Vec<&str>)| Arrow {
        from: from.to_owned(),
        to: to.unwrap_or("wherever there is room").to_owned(),
        what: several(&workloads),
        how: if to.is_some() {
            How::Moved
        } else {
            How::Rescheduled
        },
    };
    ways.into_iter().map(arrow).collect()
}

fn several(workloads: &[&str]) -> String {
    let names: Vec<String> = workloads.iter().map(|name| (*name).to_owned()).collect();
    named(&names, NAMED)
}
