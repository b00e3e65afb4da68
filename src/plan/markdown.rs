//! A plan for a comment of a pull request: a table of what changes, and collapsed details while there is room.

use std::fmt::Write as _;

use super::lines::{DiffStyle, Line, Sign, of_change};
use super::text::sign;
use super::view::{Shown, View};
use super::{Action, count};

/// By this a comment is found again, to be replaced.
const MARKER: &str = "<!-- cutover plan -->";
/// What the last line may take.
const REST: usize = 200;
/// The lines of one object's details; more is left out.
const DETAIL: usize = 300;

pub(super) fn markdown(view: &View<'_>, limit: usize) -> String {
    let mut page = Page {
        text: head(view),
        limit: limit.saturating_sub(REST),
    };
    // What hurts most is told first, and is the last to be left out.
    let mut shown: Vec<Shown<'_>> = view.pending().collect();
    shown.sort_by_key(|shown| danger(&shown.change.action));
    page.problems(view);
    page.table(&shown);
    let left_out = page.details(&shown);
    if left_out > 0 {
        let _ = writeln!(
            page.text,
            "\n_{} left out: `cutover plan` shows them all._",
            count(left_out, "detail")
        );
    }
    page.text
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

fn head(view: &View<'_>) -> String {
    let mut text = format!("{MARKER}\n### {}\n", view.set.summary());
    let mut facts = Vec::new();
    if let Some(revision) = &view.set.revision {
        facts.push(match &view.set.base {
            Some(base) => format!("`{}..{}`", base.short(), revision.short()),
            None => format!("`{}`", revision.short()),
        });
    }
    if let Some(hash) = view.hash.filter(|_| !view.set.is_noop()) {
        facts.push(format!("hash `{}`", hash.short()));
    }
    if view.set.elsewhere > 0 {
        facts.push(format!(
            "{} may differ besides",
            count(view.set.elsewhere, "other object")
        ));
    }
    if !facts.is_empty() {
        let _ = writeln!(text, "\n{}", facts.join(" · "));
    }
    text
}

struct Page {
    text: String,
    /// In characters, as GitHub counts.
    limit: usize,
}

impl Page {
    /// Adds a part if it fits.
    fn add(&mut self, part: &str) -> bool {
        let fits = self.text.chars().count() + part.chars().count() <= self.limit;
        if fits {
            self.text.push_str(part);
        }
        fits
    }

    fn problems(&mut self, view: &View<'_>) {
        for (place, problem) in view.set.problems.iter().enumerate() {
            let gap = if place == 0 { "\n" } else { "" };
            let mut line = format!("{gap}- ❌ {}", inline(&problem.to_string()));
            if let Some(hint) = &problem.hint {
                let _ = write!(line, " ({})", inline(hint));
            }
            line.push('\n');
            if !self.add(&line) {
                let more = count(view.set.problems.len() - place, "more problem");
                self.add(&format!("- {more}\n"));
                return;
            }
        }
    }

    fn table(&mut self, shown: &[Shown<'_>]) {
        if shown.is_empty() || !self.add("\n| | object | where | |\n|---|---|---|---|\n") {
            return;
        }
        for (place, shown_one) in shown.iter().enumerate() {
            if !self.add(&row(shown_one)) {
                let more = count(shown.len() - place, "more object");
                self.add(&format!("| … | {more} | | |\n"));
                return;
            }
        }
    }

    /// Adds the details of as many as fit; returns how many don't.
    fn details(&mut self, shown: &[Shown<'_>]) -> usize {
        let mut left_out = 0;
        for one in shown {
            let lines = of_change(one, DiffStyle::Auto, 3);
            if lines.is_empty() {
                continue;
            }
            if left_out > 0 || !self.add(&detail(one, &lines)) {
                left_out += 1;
            }
        }
        left_out
    }
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
        .map(|at| format!("`{}:{}`", code(&at.path), at.line))
        .unwrap_or_default();
    format!(
        "| {symbol} {} | `{}` | {source} | {} |\n",
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
    let notes: Vec<String> = [held, shown.story(), unchecked]
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
        line.words.iter().for_each(|(_, text)| body.push_str(text));
        if line.sign == Sign::Place {
            body.push_str(" @@");
        }
        body.push('\n');
    }
    if lines.len() > DETAIL {
        let _ = writeln!(body, "@@ and {} more lines @@", lines.len() - DETAIL);
    }
    let fence = fence(&body);
    format!(
        "\n<details><summary>{} {}</summary>\n\n{fence}diff\n{body}{fence}\n\n</details>\n",
        sign(&shown.change.action),
        html(&shown.change.key.to_string())
    )
}

/// Returns a fence that no line of the text can end.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat(longest.max(2) + 1)
}

/// A text within a cell or a line: what Markdown, HTML and mentions would make of it is taken away.
fn inline(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let mut safe = String::new();
    for c in html(&line.join(" ")).chars() {
        match c {
            '|' | '*' | '_' | '[' | '`' | '\\' | '~' => safe.extend(['\\', c]),
            // Nobody is to be called by what a server says.
            '@' => safe.push_str("@\u{200b}"),
            c => safe.push(c),
        }
    }
    safe
}

/// A text within a span of code in a cell.
fn code(text: &str) -> String {
    text.replace('`', "'")
        .replace('|', "\\|")
        .replace(['\r', '\n'], " ")
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
