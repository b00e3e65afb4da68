//! A plan as workflow commands: GitHub shows them beside the lines of a pull request.

use std::fmt::Write;

use super::Action;
use super::view::{Shown, View};
use crate::name::Location;

pub(super) fn annotations(view: &View<'_>) -> String {
    let mut text = String::new();
    for problem in &view.set.problems {
        let mut message = problem.message.clone();
        if let Some(hint) = &problem.hint {
            let _ = write!(message, "\nhint: {hint}");
        }
        command(&mut text, "error", "cutover plan", problem.at.as_ref(), &message);
    }
    for shown in view.pending() {
        let (level, what) = told(&shown);
        let title = format!("{what}: {}", shown.change.key);
        let lines = [shown.reason().map(str::to_owned), shown.story(), fields(&shown)];
        let message: Vec<String> = lines.into_iter().flatten().collect();
        let message = if message.is_empty() {
            title.clone()
        } else {
            message.join("\n")
        };
        command(&mut text, level, &title, shown.change.source.as_ref(), &message);
    }
    let mut summary = view.set.summary().to_string();
    if let Some(hash) = view.hash {
        let _ = write!(summary, " Hash: {}", hash.short());
    }
    command(&mut text, "notice", "cutover plan", None, &summary);
    text
}

fn told(shown: &Shown<'_>) -> (&'static str, &'static str) {
    match shown.change.action {
        Action::Create => ("notice", "created"),
        Action::Configure => ("notice", "changed"),
        Action::Unchanged => ("notice", "unchanged"),
        Action::Delete => ("warning", "deleted"),
        Action::Recreate { .. } => ("warning", "deleted and created anew"),
        Action::HeldBack { .. } => ("warning", "held back"),
        Action::Blocked { .. } => ("error", "blocked"),
        Action::LeftBehind { .. } => ("notice", "left behind"),
    }
}

fn fields(shown: &Shown<'_>) -> Option<String> {
    let fields: Vec<String> = shown
        .fields()
        .iter()
        .map(|field| field.path.to_string())
        .collect();
    (!fields.is_empty()).then(|| fields.join(", "))
}

fn command(text: &mut String, level: &str, title: &str, at: Option<&Location>, message: &str) {
    let mut properties = format!("title={}", property(title));
    if let Some(at) = at {
        let _ = write!(
            properties,
            ",file={},line={},col={}",
            property(&at.path),
            at.line,
            at.column
        );
    }
    let _ = writeln!(text, "::{level} {properties}::{}", escaped(message));
}

/// A command ends at a line's end, and `%` begins an escape.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}
