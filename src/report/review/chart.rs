//! Who moves where, as a Mermaid chart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::moves::{Move, Verdict};
use super::page::fenced;
use super::reach::{Fate, Reach};

/// More arrows than that nobody reads.
const ARROWS: usize = 30;

/// An arrow: solid for a migration, dotted for what Karmada does by itself.
struct Arrow {
    from: String,
    to: String,
    what: String,
    by_karmada: bool,
}

/// Returns a `mermaid` block; `None` when nobody moves.
pub(super) fn chart(moves: &[Move], reaches: &[Reach]) -> Option<String> {
    let moves = moves
        .iter()
        .filter(|one| !matches!(one.outlook.verdict, Verdict::There));
    let planned = moves.map(|one| Arrow {
        from: one
            .source()
            .map_or_else(|| "where it runs".to_owned(), ToString::to_string),
        to: one.spec.to.to_string(),
        what: one.workload.to_string(),
        by_karmada: false,
    });
    let effects = reaches.iter().flat_map(|reach| &reach.effects);
    let by_itself = effects.filter_map(|effect| match &effect.fate {
        Fate::Leaves { from, to } => Some(Arrow {
            from: from.first()?.to_string(),
            to: match to.as_slice() {
                [only] => only.to_string(),
                [] => "nowhere".to_owned(),
                several => several
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" or "),
            },
            what: effect.workload.clone(),
            by_karmada: true,
        }),
        _ => None,
    });
    let arrows: Vec<Arrow> = planned.chain(by_itself).take(ARROWS).collect();
    if arrows.is_empty() {
        return None;
    }
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
        let _ = if arrow.by_karmada {
            writeln!(
                body,
                "    c{from} -. \"{} (by Karmada, without a protocol)\" .-> c{to}",
                label(&arrow.what)
            )
        } else {
            writeln!(body, "    c{from} -- \"{}\" --> c{to}", label(&arrow.what))
        };
    }
    Some(fenced("mermaid", &body))
}

/// A text between quotes in a chart: entities stand for what would end it.
fn label(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '"' | '<' | '>' | '&' | '#' | ';' | '`' | '\\' => {
                let _ = write!(safe, "#{};", u32::from(c));
            }
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
