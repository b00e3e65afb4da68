//! A plan for a terminal: a header for each object, the lines that change, and a summary.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::lines::{DiffStyle, Line, Sign, of_change};
use super::view::{Shown, View};
use cutover_base::escape::line;

use super::{Action, Forecast, Outcome, count};

/// How a plan is shown.
#[derive(Clone, Debug)]
pub struct TextOptions {
    pub palette: Palette,
    pub style: DiffStyle,
    /// Unchanged lines around a changed one.
    pub context: usize,
    /// Whether objects in sync are listed.
    pub unchanged: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            palette: Palette::plain(),
            style: DiffStyle::Auto,
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
    pub changed: Style,
    /// The words of a line that differ from its counterpart.
    pub added_word: Style,
    pub removed_word: Style,
    pub changed_word: Style,
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
            changed: none,
            added_word: none,
            removed_word: none,
            changed_word: none,
            warning: none,
        }
    }

    pub const fn coloured() -> Self {
        Self {
            header: Style::new().bold(),
            dim: Style::new().dimmed(),
            added: AnsiColor::Green.on_default(),
            removed: AnsiColor::Red.on_default(),
            changed: Style::new(),
            added_word: AnsiColor::Green.on_default().bold().underline(),
            removed_word: AnsiColor::Red.on_default().bold().underline(),
            changed_word: AnsiColor::Yellow.on_default().bold(),
            warning: AnsiColor::Yellow.on_default().bold(),
        }
    }
}

/// Returns what stands before a change.
pub(crate) const fn sign(action: &Action) -> char {
    match action {
        Action::Create => '+',
        Action::Configure => '~',
        Action::Unchanged => '=',
        Action::Delete => '-',
        Action::Recreate { .. } => '±',
        Action::HeldBack { .. } => '!',
        Action::Blocked { .. } => 'x',
        Action::LeftBehind { .. } => '*',
    }
}

impl View<'_> {
    /// Returns the form for a terminal: what changes of every object, and the summary.
    pub fn text(&self, options: &TextOptions) -> String {
        let mut out = Out {
            text: String::new(),
            options,
        };
        for change in &self.set.changes {
            if change.action != Action::Unchanged || options.unchanged {
                out.change(&Self::shown(change));
            }
        }
        out.end(self);
        out.text
    }
}

/// Returns lines as a plan shows them.
pub(super) fn lines(lines: &[Line], options: &TextOptions) -> String {
    let mut out = Out {
        text: String::new(),
        options,
    };
    for line in lines {
        out.line(line);
    }
    out.text
}

struct Out<'a> {
    text: String,
    options: &'a TextOptions,
}

impl Out<'_> {
    fn change(&mut self, shown: &Shown<'_>) {
        self.header(shown);
        for line in of_change(shown, self.options.style, self.options.context) {
            self.line(&line);
        }
        if shown.change.action != Action::Unchanged {
            self.text.push('\n');
        }
    }

    fn header(&mut self, shown: &Shown<'_>) {
        let palette = &self.options.palette;
        let change = shown.change;
        let style = match change.action {
            Action::Create => palette.added,
            Action::Configure => palette.header,
            Action::Unchanged | Action::LeftBehind { .. } => palette.dim,
            Action::HeldBack { .. } => palette.warning,
            Action::Delete | Action::Recreate { .. } | Action::Blocked { .. } => palette.removed,
        };
        self.styled(style, &format!("{} {}", sign(&change.action), change.key));
        if let Some(source) = &change.source {
            self.styled(palette.dim, &format!("  ({source})"));
        }
        self.text.push('\n');
        if let Some(reason) = shown.reason() {
            let deletion = if change.is_deletion() { "deletion " } else { "" };
            let verb = match change.action {
                Action::HeldBack { .. } => "held back by",
                Action::Recreate { .. } => "deleted and recreated:",
                Action::LeftBehind { .. } => "left behind:",
                _ => "blocked:",
            };
            self.note(palette.warning, &format!("{deletion}{verb} {reason}"));
        }
        if let Some(story) = shown.story() {
            self.note(palette.header, &story);
        }
        if let Some(effect) = &change.effect {
            self.note(palette.warning, effect);
        }
        if let Some(forecast) = &change.forecast {
            self.forecast(forecast);
        }
        if let Some(warning) = &change.warning {
            self.note(palette.warning, &format!("warning: {warning}"));
        }
        if let Some(unchecked) = &change.unchecked {
            self.note(palette.warning, &format!("not tried on the server: {unchecked}"));
        }
    }

    fn forecast(&mut self, forecast: &Forecast) {
        let palette = &self.options.palette;
        let style = match forecast.outcome {
            Outcome::Begins | Outcome::Nothing | Outcome::UnderWay => palette.header,
            Outcome::Waits | Outcome::Unknown => palette.warning,
            Outcome::Refused => palette.removed,
        };
        self.note(style, &forecast.headline());
        if forecast.outcome == Outcome::Refused {
            for why in &forecast.because {
                self.note(style, &format!("  {why}"));
            }
        }
        for step in &forecast.steps {
            self.note(palette.dim, &format!("  {}: {}", step.name, step.what));
        }
        for remark in &forecast.remarks {
            self.note(palette.warning, &format!("  note: {remark}"));
        }
    }

    /// Further lines of what a server says are notes, too.
    fn note(&mut self, style: Style, text: &str) {
        for line in text.lines() {
            self.text.push_str("  ");
            self.styled(style, line);
            self.text.push('\n');
        }
    }

    fn line(&mut self, line: &Line) {
        let palette = &self.options.palette;
        let (sign, style, word) = match line.sign {
            Sign::Same => ("    ", palette.dim, palette.dim),
            Sign::Removed => ("  - ", palette.removed, palette.removed_word),
            Sign::Added => ("  + ", palette.added, palette.added_word),
            Sign::Changed => ("  ~ ", palette.changed, palette.changed_word),
            Sign::Place => ("  @ ", palette.dim, palette.dim),
        };
        self.styled(style, sign);
        for (emphasised, text) in &line.words {
            self.styled(if *emphasised { word } else { style }, text);
        }
        self.text.push('\n');
    }

    fn end(&mut self, view: &View<'_>) {
        let _ = writeln!(self.text, "{}", view.set.summary());
        if view.set.elsewhere > 0 {
            let others = count(view.set.elsewhere, "other object");
            let _ = writeln!(
                self.text,
                "Not shown: {others} that this range leaves alone and that may differ from Git all the same."
            );
        }
        if let Some(hash) = view.hash.filter(|_| !view.set.is_noop()) {
            let palette = &self.options.palette;
            self.styled(palette.dim, &format!("Hash: {}", hash.short()));
            self.text.push('\n');
        }
    }

    /// The only way of what others wrote into the text.
    fn styled(&mut self, style: Style, text: &str) {
        if !text.is_empty() {
            let _ = write!(self.text, "{style}{}{style:#}", line(text));
        }
    }
}
