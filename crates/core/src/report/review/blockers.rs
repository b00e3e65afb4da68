//! What would block a change, a line each; what is blocked for the same reason is one line.

use std::collections::BTreeMap;

use super::bracketed;
use super::links::Places;
use super::page::{code, inline, named};
use crate::plan::{Action, Change, Problem};

/// So many objects that are blocked alike are one line.
const ALIKE: usize = 3;
/// Of objects that are blocked alike so many are named.
const NAMED: usize = 3;

/// A line, and how many objects it is about.
#[derive(Clone, Debug)]
pub(super) struct Blocker {
    pub(super) line: String,
    pub(super) objects: usize,
}

impl Blocker {
    pub(super) const fn one(line: String) -> Self {
        Self { line, objects: 1 }
    }
}

/// Returns the changes that can't be made.
pub(super) fn blocked<'a>(changes: impl Iterator<Item = &'a Change>, places: Places<'_>) -> Vec<Blocker> {
    let mut alike: BTreeMap<(usize, &str), Vec<&Change>> = BTreeMap::new();
    let mut first: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (place, change) in changes.enumerate() {
        let Action::Blocked { reason } = &change.action else {
            continue;
        };
        // In the order of the first of each.
        let place = *first
            .entry((change.key.kind.as_str(), reason.as_str()))
            .or_insert(place);
        alike.entry((place, reason.as_str())).or_default().push(change);
    }
    let lines = alike.into_iter();
    lines
        .flat_map(|((_, reason), changes)| {
            if changes.len() >= ALIKE {
                vec![together(&changes, reason)]
            } else {
                changes
                    .iter()
                    .map(|change| alone(change, reason, places))
                    .collect()
            }
        })
        .collect()
}

fn alone(change: &Change, reason: &str, places: Places<'_>) -> Blocker {
    let at = places.bracketed(change.source.as_ref());
    Blocker::one(format!(
        "- ⛔ {}{at}: {}\n",
        code(&change.key.to_string()),
        inline(reason)
    ))
}

fn together(changes: &[&Change], reason: &str) -> Blocker {
    let names: Vec<String> = changes
        .iter()
        .map(|change| code(&change.key.to_string()))
        .collect();
    Blocker {
        line: format!(
            "- ⛔ {} objects, {}: {}\n",
            changes.len(),
            named(&names, NAMED),
            inline(reason)
        ),
        objects: changes.len(),
    }
}

/// Returns what could not be used in Git.
pub(super) fn problem(problem: &Problem, places: Places<'_>) -> String {
    let at = problem.at.as_ref();
    let at = at.map(|at| format!("{}: ", places.exact(at))).unwrap_or_default();
    format!(
        "- ❌ {at}{}{}\n",
        inline(&problem.message),
        bracketed(problem.hint.as_deref())
    )
}
