//! What changes: a table, the most dangerous first, and collapsed details.

use super::page::{Page, code, collapsed, count, fenced, inline};
use crate::plan::{Action, DiffStyle, Line, Shown, Sign, View, of_change, sign};
use cutover_base::escape;

/// The lines of one object's details; more is left out.
const DETAIL: usize = 300;

/// Returns what is not simply in sync: what hurts most first, so that it is the last to be left out.
pub(super) fn by_danger<'a>(view: &'a View<'_>) -> Vec<Shown<'a>> {
    let mut shown: Vec<Shown<'_>> = view.pending().collect();
    shown.sort_by_key(|shown| danger(&shown.change.action));
    shown
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
pub(super) fn table(page: &mut Page, shown: &[Shown<'_>]) -> usize {
    let rows: Vec<String> = shown.iter().map(row).collect();
    let head = "\n### Changes\n\n| | object | where | |\n|---|---|---|---|\n";
    page.list(head, &rows, |more| {
        format!("| … | {} | | |\n", count(more, "more object"))
    })
}

/// Adds the details of as many as fit; returns how many don't.
pub(super) fn details(page: &mut Page, shown: &[Shown<'_>]) -> usize {
    let mut left_out = 0;
    for one in shown {
        let lines = of_change(one, DiffStyle::Auto, 3);
        if lines.is_empty() {
            continue;
        }
        if left_out > 0 || !page.add(&detail(one, &lines)) {
            left_out += 1;
        }
    }
    left_out
}

fn row(shown: &Shown<'_>) -> String {
    let change = shown.change;
    let symbol = match change.action {
        Action::Create => "➕",
        Action::Configure => "✏️",
        Action::Unchanged => "=",
        Action::Delete => "🗑️",
        Action::Recreate { .. } => "♻️",
        Action::HeldBack { .. } => "⏸️",
        Action::Blocked { .. } => "⛔",
        Action::LeftBehind { .. } => "🍂",
    };
    let source = change
        .source
        .as_ref()
        .map(|at| code(&format!("{}:{}", at.path, at.line)))
        .unwrap_or_default();
    format!(
        "| {symbol} {} | {} | {source} | {} |\n",
        word(&change.action),
        code(&change.key.to_string()),
        notes(shown)
    )
}

const fn word(action: &Action) -> &'static str {
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

fn notes(shown: &Shown<'_>) -> String {
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

fn detail(shown: &Shown<'_>, lines: &[Line]) -> String {
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
    let summary = format!("{} {}", sign(&shown.change.action), shown.change.key);
    collapsed(&summary, &fenced("diff", &body))
}
