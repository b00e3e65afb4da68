//! What changes: a table, the most dangerous first, and collapsed details.

use std::collections::BTreeSet;

use super::groups::{Entry, Row, rows, values};
use super::links::Places;
use super::page::{Page, code, collapsed, count, fenced, inline, named};
use crate::plan::{Action, Line, Shown, Sign, View, sign};
use cutover_base::escape;

/// The lines of one object's details; more is left out.
const DETAIL: usize = 300;
/// Of objects that change alike so many are named in the table.
const NAMED: usize = 3;
/// So many in the details, where not all fit.
const SOME: usize = 50;
/// So many fields are named.
const FIELDS: usize = 3;

/// Returns what is not simply in sync: what hurts most first, so that it is the last to be left out; equal changes as one.
pub(super) fn by_danger<'a>(view: &'a View<'_>) -> Vec<Row<'a>> {
    let mut shown: Vec<Shown<'_>> = view.pending().collect();
    shown.sort_by_key(|shown| danger(&shown.change.action));
    rows(shown)
}

const fn danger(action: &Action) -> u8 {
    match action {
        Action::Blocked { .. } => 0,
        Action::Delete => 1,
        Action::Recreate { .. } => 2,
        Action::HeldBack { .. } => 3,
        Action::Configure => 4,
        Action::Create => 5,
        Action::LeftBehind { .. } => 6,
        Action::Unchanged => 7,
    }
}

/// Adds the table; returns how many rows are left out.
pub(super) fn table(page: &mut Page, rows: &[Row<'_>], places: Places<'_>) -> usize {
    let rows: Vec<String> = rows.iter().map(|row| table_row(row, places)).collect();
    let head = "\n### Changes\n\n| | object | where | |\n|---|---|---|---|\n";
    page.list(head, &rows, |more| {
        format!("| … | {} | | |\n", count(more, "more row"))
    })
}

/// Adds the details of as many as fit; returns how many don't.
pub(super) fn details(page: &mut Page, rows: &[Row<'_>], places: Places<'_>) -> usize {
    let mut left_out = 0;
    let mut is_full = false;
    for row in rows {
        let full = row_details(row, places, usize::MAX);
        if full.is_empty() {
            continue;
        }
        // A list of very many names would leave no room for anything else.
        let is_modest = row.len() <= SOME || full.chars().count() <= page.room() / 2;
        if !is_full && is_modest && page.add(&full) {
            continue;
        }
        left_out += 1;
        // What changes of them may fit without all the names.
        is_full = is_full || !page.add(&row_details(row, places, SOME));
    }
    left_out
}

fn row_details(row: &Row<'_>, places: Places<'_>, most: usize) -> String {
    match row {
        Row::One(one) if one.lines.is_empty() => String::new(),
        Row::One(one) => {
            let summary = format!("{} {}", sign(&one.shown.change.action), one.shown.change.key);
            collapsed(&summary, &fenced("diff", &diff(&one.lines)))
        }
        Row::Equal(many) | Row::Varied(many) => {
            let Some(first) = many.first() else {
                return String::new();
            };
            let change = first.shown.change;
            let summary = format!("{} {} × {}", sign(&change.action), many.len(), change.key.kind);
            let body = if matches!(row, Row::Equal(_)) {
                diff(&first.lines)
            } else {
                diff(&each(many, most))
            };
            collapsed(
                &summary,
                &format!("{}\n{}", fenced("diff", &body), list(many, places, most)),
            )
        }
    }
}

/// Returns the lines of changes one after the other, each below the name of its object.
fn each(many: &[Entry<'_>], most: usize) -> Vec<Line> {
    let one = |entry: &Entry<'_>| {
        let name = Line {
            sign: Sign::Place,
            words: vec![(false, full_name(entry))],
        };
        std::iter::once(name)
            .chain(entry.lines.clone())
            .collect::<Vec<_>>()
    };
    many.iter().take(most).flat_map(one).collect()
}

/// Returns the names of all objects of a group, each with its place.
fn list(many: &[Entry<'_>], places: Places<'_>, most: usize) -> String {
    let item = |entry: &Entry<'_>| {
        let at = places.bracketed(entry.shown.change.source.as_ref());
        format!("- {}{at}\n", code(&full_name(entry)))
    };
    let mut text: String = many.iter().take(most).map(item).collect();
    if many.len() > most {
        text.push_str(&format!("- … and {} more\n", many.len() - most));
    }
    text
}

fn full_name(entry: &Entry<'_>) -> String {
    let key = &entry.shown.change.key;
    match &key.namespace {
        Some(namespace) => format!("{namespace}/{}", key.name),
        None => key.name.clone(),
    }
}

fn table_row(row: &Row<'_>, places: Places<'_>) -> String {
    match row {
        Row::One(one) => {
            let change = one.shown.change;
            let source = change.source.as_ref();
            let at = source.map(|at| places.line(at)).unwrap_or_default();
            let object = code(&change.key.to_string());
            let notes = Some(notes(&one.shown)).filter(|notes| !notes.is_empty());
            let notes: Vec<String> = images(&one.shown).into_iter().chain(notes).collect();
            format!(
                "| {} | {object} | {at} | {} |\n",
                symbol(&change.action),
                notes.join("<br>")
            )
        }
        Row::Equal(many) | Row::Varied(many) => {
            let Some(first) = many.first() else {
                return String::new();
            };
            let change = first.shown.change;
            let names: Vec<String> = many.iter().map(|one| code(&full_name(one))).collect();
            let what = if matches!(row, Row::Equal(_)) {
                same_values(first)
            } else {
                different_values(many)
            };
            let notes = Some(notes(&first.shown)).filter(|notes| !notes.is_empty());
            let notes: Vec<String> = std::iter::once(what).chain(notes).collect();
            format!(
                "| {} | {} × {}: {} | | {} |\n",
                symbol(&change.action),
                many.len(),
                code(&change.key.kind),
                named(&names, NAMED),
                notes.join("<br>")
            )
        }
    }
}

/// Returns which images an object gets instead of which: what a reader looks for first.
fn images(shown: &Shown<'_>) -> Option<String> {
    let images = shown.images().into_iter();
    let mut told: Vec<String> = images
        .map(|(before, after)| format!("image {} → {}", code(&before), code(&after)))
        .collect();
    told.dedup();
    (!told.is_empty()).then(|| named(&told, FIELDS))
}

/// Returns what changes, field by field where that is short.
fn same_values(first: &Entry<'_>) -> String {
    let is_short = first.lines.len() <= FIELDS && first.lines.iter().all(|line| line.sign == Sign::Changed);
    if !is_short {
        return fields(first);
    }
    let text = |line: &Line| {
        let words: Vec<&str> = line.words.iter().map(|(_, text)| text.as_str()).collect();
        code(&words.concat())
    };
    let lines: Vec<String> = first.lines.iter().map(text).collect();
    lines.join("<br>")
}

fn different_values(many: &[Entry<'_>]) -> String {
    let different: BTreeSet<String> = many.iter().map(|one| values(&one.lines)).collect();
    let fields = many.first().map(fields).unwrap_or_default();
    format!("{fields}: {} different values", different.len())
}

fn fields(entry: &Entry<'_>) -> String {
    let names: Vec<String> = entry.fields.iter().map(|name| code(name)).collect();
    named(&names, FIELDS)
}

/// Returns what is done, with its symbol.
fn symbol(action: &Action) -> String {
    let symbol = match action {
        Action::Create => "➕",
        Action::Configure => "✏️",
        Action::Unchanged => "=",
        Action::Delete => "🗑️",
        Action::Recreate { .. } => "♻️",
        Action::HeldBack { .. } => "⏸️",
        Action::Blocked { .. } => "⛔",
        Action::LeftBehind { .. } => "🍂",
    };
    format!("{symbol} {}", word(action))
}

pub(super) const fn word(action: &Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Configure => "change",
        Action::Unchanged => "unchanged",
        Action::Delete => "delete",
        Action::Recreate { .. } => "recreate",
        Action::HeldBack { .. } => "held back",
        Action::Blocked { .. } => "blocked",
        Action::LeftBehind { .. } => "left behind",
    }
}

/// Returns the cell with whatever else there is to say of a change.
pub(super) fn notes(shown: &Shown<'_>) -> String {
    let held = match &shown.change.action {
        Action::HeldBack { by } => Some(format!("by {by}")),
        _ => shown.reason().map(str::to_owned),
    };
    let unchecked = shown
        .change
        .unchecked
        .as_ref()
        .map(|why| format!("not tried on the server: {why}"));
    let warning = shown.change.warning.as_ref().map(|what| format!("⚠️ {what}"));
    let notes: Vec<String> = [held, shown.story(), warning, unchecked]
        .into_iter()
        .flatten()
        .map(|note| inline(&note))
        .collect();
    notes.join("<br>")
}

fn diff(lines: &[Line]) -> String {
    let mut body = String::new();
    for line in lines.iter().take(DETAIL) {
        body.push_str(match line.sign {
            Sign::Same => "  ",
            Sign::Added => "+ ",
            Sign::Removed => "- ",
            Sign::Changed => "! ",
            Sign::Place => "@@ ",
        });
        line.words
            .iter()
            .for_each(|(_, text)| body.push_str(&escape::line(text)));
        if line.sign == Sign::Place {
            body.push_str(" @@");
        }
        body.push('\n');
    }
    if lines.len() > DETAIL {
        body.push_str(&format!("@@ and {} more lines @@\n", lines.len() - DETAIL));
    }
    body
}
