//! A plan for people: one header an object, the lines of YAML that change, and a summary.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use similar::{ChangeTag, DiffOp, TextDiff};

use super::mask::mask;
use super::yaml::{path_of, to_yaml};
use super::{Action, Change, ChangeSet};

/// How a plan is shown.
#[derive(Clone, Debug)]
pub struct TextOptions {
    pub palette: Palette,
    /// Unchanged lines around a changed one.
    pub context: usize,
    /// Whether objects in sync are listed.
    pub unchanged: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            palette: Palette::plain(),
            context: 3,
            unchanged: false,
        }
    }
}

/// The styles of a plan's parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Palette {
    pub header: Style,
    pub dim: Style,
    pub added: Style,
    pub removed: Style,
    /// The words of a line that differ from its counterpart.
    pub added_word: Style,
    pub removed_word: Style,
    pub warning: Style,
}

impl Palette {
    pub const fn plain() -> Self {
        let none = Style::new();
        Self {
            header: none,
            dim: none,
            added: none,
            removed: none,
            added_word: none,
            removed_word: none,
            warning: none,
        }
    }

    pub fn coloured() -> Self {
        Self {
            header: Style::new().bold(),
            dim: Style::new().dimmed(),
            added: AnsiColor::Green.on_default(),
            removed: AnsiColor::Red.on_default(),
            added_word: AnsiColor::Green.on_default().bold().underline(),
            removed_word: AnsiColor::Red.on_default().bold().underline(),
            warning: AnsiColor::Yellow.on_default(),
        }
    }
}

pub(super) fn text(set: &ChangeSet, options: &TextOptions) -> String {
    let mut out = Out {
        text: String::new(),
        options,
    };
    for change in &set.changes {
        if change.action != Action::Unchanged || options.unchanged {
            out.change(change);
        }
    }
    let _ = writeln!(out.text, "{}", set.summary());
    out.text
}

struct Out<'a> {
    text: String,
    options: &'a TextOptions,
}

impl Out<'_> {
    fn change(&mut self, change: &Change) {
        self.header(change);
        if !change.is_deletion() {
            let (before, after) = mask(change.before.as_ref(), change.after.as_ref());
            self.diff(before.as_ref(), after.as_ref());
        }
        if change.action != Action::Unchanged {
            self.text.push('\n');
        }
    }

    fn header(&mut self, change: &Change) {
        let palette = &self.options.palette;
        let (sign, style, note) = match &change.action {
            Action::Create => ('+', palette.added, None),
            Action::Configure => ('~', palette.header, None),
            Action::Unchanged => ('=', palette.dim, None),
            Action::Delete => ('-', palette.removed, None),
            Action::Recreate { reason } => ('±', palette.removed, Some(format!("recreated: {reason}"))),
            Action::HeldBack { by } => ('!', palette.warning, Some(format!("held back by {by}"))),
            Action::Blocked { reason } => ('x', palette.removed, Some(format!("blocked: {reason}"))),
        };
        self.styled(style, &format!("{sign} {}", change.key));
        if let Some(source) = &change.source {
            self.styled(palette.dim, &format!("  ({source})"));
        }
        if let Some(note) = note {
            let verb = if change.is_deletion() { "deletion " } else { "" };
            self.styled(palette.warning, &format!("  {verb}{note}"));
        }
        self.text.push('\n');
    }

    fn diff(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let (before, after) = (
            before.map(to_yaml).unwrap_or_default(),
            after.map(to_yaml).unwrap_or_default(),
        );
        let diff = TextDiff::from_lines(before.as_str(), after.as_str());
        let lines = (
            before.lines().collect::<Vec<_>>(),
            after.lines().collect::<Vec<_>>(),
        );
        for group in diff.grouped_ops(self.options.context) {
            self.place(&lines.0, &lines.1, &group);
            for change in group
                .iter()
                .flat_map(|op| diff.iter_inline_changes_deadline(op, None))
            {
                self.line(change.tag(), change.values());
            }
        }
    }

    /// Says where in the object a group of lines is, unless it begins at the top.
    fn place(&mut self, before: &[&str], after: &[&str], group: &[DiffOp]) {
        let Some(first) = group.first() else { return };
        let path = if after.is_empty() {
            path_of(before, first.old_range().start)
        } else {
            path_of(after, first.new_range().start)
        };
        if !path.is_empty() {
            self.styled(self.options.palette.dim, &format!("  @ {path}"));
            self.text.push('\n');
        }
    }

    fn line(&mut self, tag: ChangeTag, words: &[(bool, &str)]) {
        let palette = &self.options.palette;
        let (sign, line, word) = match tag {
            ChangeTag::Equal => ("    ", palette.dim, palette.dim),
            ChangeTag::Delete => ("  - ", palette.removed, palette.removed_word),
            ChangeTag::Insert => ("  + ", palette.added, palette.added_word),
        };
        self.styled(line, sign);
        for (emphasised, text) in words {
            let style = if *emphasised { word } else { line };
            self.styled(style, text.trim_end_matches('\n'));
        }
        self.text.push('\n');
    }

    fn styled(&mut self, style: Style, text: &str) {
        if !text.is_empty() {
            let _ = write!(self.text, "{style}{text}{style:#}");
        }
    }
}
