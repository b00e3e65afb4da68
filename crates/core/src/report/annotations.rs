//! What GitHub shows beside the lines of a pull request: workflow commands, and no more of them than it shows.

use std::fmt::Write as _;

use crate::finding::{Finding, Severity};
use crate::plan::{Action, Shown, View};
use cutover_base::escape::workflow::{data, property};
use cutover_karmada::name::Location;

/// GitHub shows ten of each level a step, and drops the others without a word.
pub const MOST_ANNOTATIONS: usize = 10;

/// Something to be shown beside a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Annotation {
    pub level: Level,
    pub at: Option<Location>,
    pub title: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

/// Returns the commands of at most so many annotations, the worst first. The last one says how many are left out.
pub fn annotation_commands(annotations: &[Annotation], most: usize) -> String {
    let mut sorted: Vec<&Annotation> = annotations.iter().collect();
    sorted.sort_by_key(|annotation| annotation.level);
    let shown = if sorted.len() > most {
        most.saturating_sub(1)
    } else {
        sorted.len()
    };
    let mut text = String::new();
    for annotation in &sorted[..shown] {
        command(&mut text, annotation);
    }
    if let Some(first) = sorted.get(shown).filter(|_| most > 0) {
        let more = sorted.len() - shown;
        command(
            &mut text,
            &Annotation {
                level: first.level,
                at: None,
                title: "cutover".to_owned(),
                message: format!("{more} more are in the report"),
            },
        );
    }
    text
}

/// Returns what a plan has to say of lines: what can't be read, and every change.
pub fn plan_annotations(view: &View<'_>) -> Vec<Annotation> {
    let set = view.set();
    let problems = set.problems.iter().map(|problem| Annotation {
        level: Level::Error,
        at: problem.at.clone(),
        title: "cutover plan".to_owned(),
        message: with_hint(&problem.message, problem.hint.as_deref()),
    });
    let changes = view.pending().map(|shown| change(&shown));
    let mut summary = set.summary().to_string();
    if let Some(hash) = view.hash() {
        let _ = write!(summary, " Hash: {}", hash.short());
    }
    let summary = Annotation {
        level: Level::Notice,
        at: None,
        title: "cutover plan".to_owned(),
        message: summary,
    };
    problems.chain(changes).chain([summary]).collect()
}

impl From<&Finding> for Annotation {
    fn from(finding: &Finding) -> Self {
        Self {
            level: match finding.severity {
                Severity::Error => Level::Error,
                Severity::Warning => Level::Warning,
                Severity::Note => Level::Notice,
            },
            at: finding.location.clone(),
            title: finding.code.to_string(),
            message: with_hint(&finding.message, finding.hint.as_deref()),
        }
    }
}

pub(super) fn with_hint(message: &str, hint: Option<&str>) -> String {
    hint.map_or_else(|| message.to_owned(), |hint| format!("{message}\nhint: {hint}"))
}

fn change(shown: &Shown<'_>) -> Annotation {
    let (level, what) = told(&shown.change.action);
    let title = format!("{what}: {}", shown.change.key);
    let fields = shown.field_names();
    let fields = (!fields.is_empty()).then(|| fields.join(", "));
    let lines = [shown.reason().map(str::to_owned), shown.story(), fields];
    let message: Vec<String> = lines.into_iter().flatten().collect();
    let message = if message.is_empty() {
        title.clone()
    } else {
        message.join("\n")
    };
    Annotation {
        level,
        at: shown.change.source.clone(),
        title,
        message,
    }
}

const fn told(action: &Action) -> (Level, &'static str) {
    match action {
        Action::Create => (Level::Notice, "created"),
        Action::Configure => (Level::Notice, "changed"),
        Action::Unchanged => (Level::Notice, "unchanged"),
        Action::Delete => (Level::Warning, "deleted"),
        Action::Recreate { .. } => (Level::Warning, "deleted and recreated"),
        Action::HeldBack { .. } => (Level::Warning, "held back"),
        Action::Blocked { .. } => (Level::Error, "blocked"),
        Action::LeftBehind { .. } => (Level::Notice, "left behind"),
    }
}

fn command(text: &mut String, annotation: &Annotation) {
    let level = match annotation.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let mut properties = format!("title={}", property(&annotation.title));
    if let Some(at) = &annotation.at {
        let _ = write!(
            properties,
            ",file={},line={},col={}",
            property(&at.path),
            at.line,
            at.column
        );
    }
    let _ = writeln!(text, "::{level} {properties}::{}", data(&annotation.message));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(level: Level, title: &str) -> Annotation {
        Annotation {
            level,
            at: Some(Location {
                path: "a,b/c.yaml".to_owned(),
                line: 3,
                column: 7,
            }),
            title: title.to_owned(),
            message: "100% wrong\nhint: fix it".to_owned(),
        }
    }

    #[test]
    fn a_command_cannot_be_broken_out_of() {
        let text = annotation_commands(&[annotation(Level::Error, "a: b")], 10);
        insta::assert_snapshot!(text, @"::error title=a%3A b,file=a%2Cb/c.yaml,line=3,col=7::100%25 wrong%0Ahint: fix it");
    }

    #[test]
    fn no_more_are_written_than_are_shown_and_the_worst_come_first() {
        let mut all: Vec<Annotation> = (0..11)
            .map(|n| annotation(Level::Notice, &format!("n{n}")))
            .collect();
        all.push(annotation(Level::Error, "bad"));
        let text = annotation_commands(&all, MOST_ANNOTATIONS);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), MOST_ANNOTATIONS);
        assert!(lines[0].starts_with("::error title=bad"), "{text}");
        assert_eq!(lines[9], "::notice title=cutover::3 more are in the report");
        assert_eq!(
            annotation_commands(&all[..10], MOST_ANNOTATIONS).lines().count(),
            10
        );
    }
}
