//! How an intent stands, said once whatever its kind: the terminal, the page, the headline and what is said beside a commit are
//! renderings of one [`Summary`].

use std::fmt::Write;

use anstyle::Style;
use jiff::Timestamp;

use super::answer::command;
use super::copies::WorkloadKey;
use super::fold::{Alike, folded};
use super::markdown::escape;
use super::told::{BAD, BUSY, GOOD, styled};
use super::{EventRecord, finding_text, path};
use crate::api::{Common, Finding, Intent, Lifecycle, Progress, Standing, WaitCode};
use crate::units::{brief, instant};

/// An intent of a kind that tells of itself by a [`Summary`].
pub(super) trait Summarized: Intent {
    /// What a list of them is called.
    const TITLE: &'static str;
    /// The columns of their table, between what it is about and its phase.
    const COLUMNS: &'static [&'static str] = &[];

    fn summary(&self) -> Summary;
}

/// How an intent stands.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub kind: &'static str,
    /// Namespace and name, or the name alone.
    pub place: String,
    /// Where on the status branch its record stands.
    pub record: String,
    /// What it is about, in a few words.
    pub what: String,
    pub phase: &'static str,
    pub standing: Standing,
    pub has_ended: bool,
    pub common: Common,
    /// What has gone wrong already, though it goes on.
    pub trouble: Option<String>,
    /// Since when nothing of its workload was seen running, while it goes on.
    pub down_since: Option<Timestamp>,
    /// What came of it, where that is a number: `downtime 1.2 s`.
    pub outcome: Option<String>,
    /// What a person can do so that it goes on, or ends; a command begins with `cutover`.
    pub next: Option<String>,
    /// The workloads that it is about.
    pub workloads: Vec<WorkloadKey>,
    /// What a terminal says below the head line.
    pub intro: Vec<String>,
    /// Its parts, in the order of importance.
    pub parts: Vec<Part>,
    /// A cell for each of the columns.
    pub cells: Vec<String>,
}

/// One of the parts of an intent: a workload, a cluster, a question.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// A mark that is put before the text on the page.
    symbol: &'static str,
    /// The same on a terminal.
    bullet: String,
    label: Option<(Style, &'static str)>,
    text: String,
    shown: Shown,
}

/// Where a part is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Everywhere,
    OnTerminal,
    OnPage,
}

impl Part {
    pub(super) fn new(text: String) -> Self {
        Self {
            symbol: "",
            bullet: String::new(),
            label: None,
            text,
            shown: Shown::Everywhere,
        }
    }

    pub(super) const fn labelled(mut self, style: Style, label: &'static str) -> Self {
        self.label = Some((style, label));
        self
    }

    /// Puts a bullet before it on a terminal.
    pub(super) fn bulleted(mut self, bullet: &str) -> Self {
        self.bullet = format!("{bullet} ");
        self
    }

    pub(super) const fn marked(mut self, symbol: &'static str) -> Self {
        self.symbol = symbol;
        self
    }

    pub(super) const fn on_terminal(mut self) -> Self {
        self.shown = Shown::OnTerminal;
        self
    }

    pub(super) const fn on_page(mut self) -> Self {
        self.shown = Shown::OnPage;
        self
    }
}

impl Summary {
    /// Returns what all kinds have in common.
    pub(super) fn of<I: Intent>(intent: &I, what: String) -> Self {
        let status = super::status(intent);
        let place = super::place(intent);
        let wait = status.waiting_for();
        Self {
            kind: I::KIND,
            next: wait.and_then(|wait| command(&place, wait)),
            outcome: None,
            down_since: None,
            workloads: Vec::new(),
            place,
            record: path(intent),
            what,
            phase: status.phase().name(),
            standing: status.standing(),
            has_ended: status.has_ended(),
            common: status.common().clone(),
            trouble: None,
            intro: Vec::new(),
            parts: Vec::new(),
            cells: Vec::new(),
        }
    }

    pub(super) const fn style(&self) -> Style {
        match self.standing {
            Standing::Done | Standing::InForce => GOOD,
            Standing::Failed => BAD,
            Standing::UnderWay => BUSY,
        }
    }

    /// Completes the command of an approval by what of the intent is approved.
    pub(super) fn approved_with(mut self, what: Option<String>) -> Self {
        let wait = self.common.waiting_for.as_ref();
        if let (Some(WaitCode::Approval), Some(next), Some(what)) =
            (wait.map(|wait| wait.code), &mut self.next, what)
        {
            let _ = write!(next, " {what}");
        }
        self
    }

    /// Returns its parts as a terminal shows them, each a line.
    pub(super) fn terminal_parts(&self) -> impl Iterator<Item = String> {
        let parts = self.parts.iter().filter(|part| part.shown != Shown::OnPage);
        parts.map(|part| match part.label {
            Some((style, label)) => format!("{}{} {}", part.bullet, styled(style, label), part.text),
            None => format!("{}{}", part.bullet, part.text),
        })
    }

    /// Writes what there is to say of it below the table of its kind; `with_wait`: why it waits, too.
    fn items(&self, page: &mut String, with_wait: bool) {
        let place = escape(&self.place);
        let mut item = |text: &str| {
            let _ = writeln!(page, "- {place}: {}", escape(text));
        };
        if let Some(wait) = self.common.waiting_for.as_ref().filter(|_| with_wait) {
            let since = instant(wait.since);
            let warning = wait.last_warning.as_ref();
            let warning = warning.map_or_else(String::new, |said| format!(". Last warning: {said}"));
            item(&format!(
                "⏳ waits since {since}: {}{warning}",
                brief(&wait.reason)
            ));
        }
        for part in self.parts.iter().filter(|part| part.shown != Shown::OnTerminal) {
            let label = part
                .label
                .map_or_else(String::new, |(_, label)| format!("{label} "));
            item(&format!("{}{label}{}", part.symbol, part.text));
        }
        for finding in &self.common.findings {
            item(&format!("⚠️ {}", finding_text(finding)));
        }
    }

    /// Returns why it stands as it does, if it says so.
    pub(super) fn why(&self) -> Option<String> {
        if let Some(finding) = self.common.findings.first() {
            return Some(finding.message.clone());
        }
        let last = self.common.steps.last().filter(|step| !step.evidence.is_empty());
        last.map(|step| step.evidence.join("; "))
    }

    /// Returns what it asks of a person, if it goes on only when one says so.
    pub(super) fn asks(&self) -> Option<String> {
        let (kind, place) = (self.kind, &self.place);
        let wait = self.common.waiting_for.as_ref()?;
        if !wait.asks_a_person() {
            return None;
        }
        Some(if wait.code == WaitCode::Pause && wait.offers.is_empty() {
            format!("{kind} {place} is paused")
        } else {
            format!("{kind} {place} waits for you: {}", brief(&wait.reason))
        })
    }
}

/// Writes the part of the page that is about the intents of one kind: a table, and what there is to say of each. Those under way
/// come first.
pub(super) fn section<I: Summarized>(page: &mut String, all: &[I]) {
    let summaries = all.iter().map(Summarized::summary).collect();
    section_of(page, I::TITLE, I::COLUMNS, summaries);
}

pub(super) fn section_of(page: &mut String, title: &str, columns: &[&str], mut all: Vec<Summary>) {
    if all.is_empty() {
        return;
    }
    all.sort_by(|one, other| order(one).cmp(&order(other)));
    let cells = columns
        .iter()
        .fold(String::new(), |cells, column| cells + column + " | ");
    let rule = "|---".repeat(columns.len() + 3);
    let _ = write!(page, "## {title}\n\n| Intent | What | {cells}Phase |\n{rule}|\n");
    for one in &all {
        let cells = one.cells.iter();
        let cells = cells.fold(String::new(), |cells, cell| cells + &escape(cell) + " | ");
        let _ = writeln!(
            page,
            "| [{}]({}) | {} | {cells}{} |",
            escape(&one.place),
            one.record,
            escape(&one.what),
            one.phase
        );
    }
    page.push('\n');
    for group in folded(all, |one| one) {
        if let [one] = group.as_slice() {
            one.items(page, true);
            continue;
        }
        let several: Vec<&Summary> = group.iter().collect();
        if let Some(alike) = Alike::of(&several) {
            wait_of_several(page, &alike);
        }
        for one in &group {
            one.items(page, false);
        }
    }
    page.push('\n');
}

/// Writes once what several wait for alike.
fn wait_of_several(page: &mut String, alike: &Alike) {
    let Some(wait) = &alike.each.common.waiting_for else {
        return;
    };
    let (mut names, more) = alike.names();
    if more > 0 {
        let _ = write!(names, ", and {more} more");
    }
    let since = instant(wait.since);
    let first = if alike.waits_differ {
        " (the first of them)"
    } else {
        ""
    };
    let text = format!("{names}: ⏳ wait since {since}{first}: {}", brief(&wait.reason));
    let _ = writeln!(page, "- {}", escape(&text));
}

fn order(one: &Summary) -> (bool, bool, &str, &str) {
    (
        one.has_ended,
        one.standing == Standing::InForce,
        one.kind,
        &one.place,
    )
}

/// Returns the Events of findings that a status has and the one before had not.
pub(super) fn found<'f>(
    before: &[Finding],
    after: &'f [Finding],
) -> impl Iterator<Item = EventRecord> + use<'f> {
    let new: Vec<_> = after.iter().filter(|finding| !before.contains(finding)).collect();
    new.into_iter().map(|finding| {
        let hint = finding.hint.as_ref();
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        EventRecord::new(true, &finding.code, &format!("{}{hint}", finding.message))
    })
}

/// Returns what was observed that let a phase end.
pub(super) fn evidence(common: &Common, phase: &str) -> String {
    let mut steps = common.steps.iter().rev();
    let step = steps.find(|step| step.name == phase);
    step.map(|step| step.evidence.join("; ")).unwrap_or_default()
}
