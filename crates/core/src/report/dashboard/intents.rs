//! Intents on a terminal: those under way and in force whole, those that have ended in a line each.

use std::cmp::Reverse;
use std::fmt::Write;

use anstyle::Style;
use jiff::{SignedDuration, Timestamp};

use super::lines::{Line, table};
use super::{Layout, migration};
use crate::api::{Migration, Standing, TimeSpan, WaitingFor};
use crate::report::fold::{Alike, folded};
use crate::report::plain::plain_words;
use crate::report::summary::Summary;
use crate::report::told::{BAD, BUSY, GOOD, NAME, QUIET, finding_line, styled};
use crate::report::{by_urgency, next};
use crate::units::{brief, duration, instant};

/// How many parts of an intent are shown: workloads, clusters, questions.
const PARTS: usize = 8;
/// How many of those that have ended are shown: of those that failed, and of the others.
const ENDED: (usize, usize) = (20, 10);
/// How many cells a bar of progress has.
const CELLS: i128 = 10;

/// An intent, and what only Migrations have.
pub struct Entry<'m> {
    pub summary: Summary,
    pub migration: Option<&'m Migration>,
}

impl<'m> Entry<'m> {
    /// Returns all intents, in the order in which they are shown.
    pub fn all(migrations: &'m [Migration], others: Vec<Summary>) -> Vec<Self> {
        let migrations = by_urgency(migrations).into_iter().map(|one| Self {
            summary: migration::summary(one),
            migration: Some(one),
        });
        let others = others.into_iter().map(|summary| Self {
            summary,
            migration: None,
        });
        let mut all: Vec<Self> = migrations.chain(others).collect();
        all.sort_by_key(|one| order(&one.summary));
        all
    }

    fn has_ended(&self) -> bool {
        has_ended(&self.summary)
    }

    fn lines(&self, layout: &Layout) -> Vec<Line> {
        match self.migration {
            Some(migration) => migration::lines(migration, &self.summary, layout),
            None => lines(&self.summary, layout),
        }
    }
}

/// What has halted has not ended, though it failed.
fn has_ended(one: &Summary) -> bool {
    one.has_ended || one.standing == Standing::Done
}

/// Who asks a person comes first, then what has halted, what is under way, what is in force, and what has ended.
fn order(one: &Summary) -> (bool, bool, u8) {
    let asks = one
        .common
        .waiting_for
        .as_ref()
        .is_some_and(WaitingFor::asks_a_person);
    let standing = match one.standing {
        Standing::Failed => 0,
        Standing::UnderWay => 1,
        Standing::InForce => 2,
        Standing::Done => 3,
    };
    (has_ended(one), !asks, standing)
}

/// Adds all intents.
pub fn add(all: &[Entry<'_>], layout: &Layout, page: &mut Vec<Line>) {
    let is_whole = |one: &&Entry<'_>| layout.all || !one.has_ended();
    let whole: Vec<&Entry<'_>> = all.iter().filter(is_whole).collect();
    let groups = if layout.all {
        whole.into_iter().map(|one| vec![one]).collect()
    } else {
        folded(whole, |one| &one.summary)
    };
    for group in groups {
        if !page.is_empty() {
            page.push(Line::new(""));
        }
        match group.as_slice() {
            [one] => page.extend(one.lines(layout)),
            several => {
                let several: Vec<&Summary> = several.iter().map(|one| &one.summary).collect();
                page.extend(
                    Alike::of(&several)
                        .iter()
                        .flat_map(|all| alike_lines(all, layout)),
                );
            }
        }
    }
    let mut ended: Vec<&Entry<'_>> = all.iter().filter(|one| !is_whole(one)).collect();
    if ended.is_empty() {
        return;
    }
    if !page.is_empty() {
        page.push(Line::new(""));
    }
    ended.sort_by_key(|one| Reverse(one.summary.common.finished_at));
    let (failed, well): (Vec<&Entry<'_>>, Vec<_>) = ended
        .into_iter()
        .partition(|one| one.summary.standing == Standing::Failed);
    for (some, most) in [(failed, ENDED.0), (well, ENDED.1)] {
        for one in some.iter().take(most) {
            page.extend(ended_lines(&one.summary, layout));
        }
        if let Some(more) = some.len().checked_sub(most).filter(|more| *more > 0) {
            let text = format!("and {more} more that have ended (--all)");
            page.push(Line::new(format!("  {}", styled(QUIET, text))));
        }
    }
}

/// Returns one that has ended as a line, and what can be done about it where it failed.
fn ended_lines(one: &Summary, layout: &Layout) -> Vec<Line> {
    let mark = if one.standing == Standing::Failed {
        styled(BAD, "✗")
    } else {
        styled(GOOD, "✓")
    };
    let mut text = format!("{mark} {}", head(one));
    if let Some(at) = one.common.finished_at {
        let _ = write!(text, " {} ago", ago(at, layout.now));
    }
    if let Some(outcome) = &one.outcome {
        let _ = write!(text, ", {outcome}");
    }
    let failed = one.standing == Standing::Failed;
    if let Some(why) = one.trouble.clone().or_else(|| one.why()).filter(|_| failed) {
        let _ = write!(text, ": {}", layout.words(&why));
    }
    let next = next::lines(one, layout.now);
    std::iter::once(Line::new(text).hanging(4)).chain(next).collect()
}

/// Returns what stands above an intent: which it is, what it is about, and its phase.
pub fn head(one: &Summary) -> String {
    format!(
        "{}  {}  {}  {}",
        styled(NAME, &one.place),
        one.kind,
        one.what,
        styled(one.style(), one.phase)
    )
}

/// Returns an intent of any kind but Migration: a head line, what it waits for, its parts, findings, what comes next.
fn lines(one: &Summary, layout: &Layout) -> Vec<Line> {
    let mut lines = vec![Line::new(head(one))];
    let intro = one.intro.iter();
    lines.extend(intro.map(|line| Line::new(format!("  {}", layout.words(line)))));
    lines.extend(wait_lines(one, layout));
    let parts: Vec<String> = one.terminal_parts().collect();
    let most = if layout.all { parts.len() } else { PARTS };
    let shown = parts.iter().take(most);
    lines.extend(shown.map(|part| Line::new(format!("  {}", layout.words(part)))));
    if parts.len() > most {
        let text = format!("and {} more (--all)", parts.len() - most);
        lines.push(Line::new(format!("  {}", styled(QUIET, text))));
    }
    lines.extend(findings(one));
    lines.extend(next::lines(one, layout.now));
    lines
}

/// Returns several that wait alike: how many, the names of the first, why they wait, what comes next for each.
fn alike_lines(all: &Alike, layout: &Layout) -> Vec<Line> {
    let each = &all.each;
    let title = styled(NAME, all.title());
    let (mut names, more) = all.names();
    if more > 0 {
        let _ = write!(names, ", {}", styled(QUIET, format!("and {more} more (--all)")));
    }
    let mut lines = vec![
        Line::new(format!("{title}  {}", styled(each.style(), each.phase))),
        Line::new(format!("  {names}")).hanging(2),
    ];
    let down = each
        .down_since
        .map(|down| migration::not_running(down, layout.now));
    lines.extend(down.map(|down| Line::new(format!("{down}, the first of them"))));
    if let Some(wait) = &each.common.waiting_for {
        lines.extend(wait_reason(wait, all.waits_differ, layout));
    }
    let parts = each.terminal_parts();
    lines.extend(parts.map(|part| Line::new(format!("  {}", layout.words(&part)))));
    lines.extend(findings(each));
    lines.extend(if all.limits_differ {
        next::first_lines(each, layout.now)
    } else {
        next::lines(each, layout.now)
    });
    lines
}

pub fn findings(one: &Summary) -> impl Iterator<Item = Line> {
    one.common.findings.iter().flat_map(finding_line).map(Line::new)
}

/// Returns why it waits, since when, and how much of the time that it may take has gone.
pub fn wait_lines(one: &Summary, layout: &Layout) -> Vec<Line> {
    let Some(wait) = &one.common.waiting_for else {
        return Vec::new();
    };
    let mut lines = wait_reason(wait, false, layout);
    // What has to stay so counts from where that began; a limit, from the beginning of the phase.
    let phase = one.common.steps.last().map(|step| step.started_at);
    let stays = wait.is_a_matter_of_time();
    let from = phase.filter(|_| !stays).unwrap_or(wait.since);
    lines.extend(wait.until.and_then(|until| bar(from, until, stays, layout.now)));
    lines
}

/// Returns why something waits, and since when; `is_first`: others like it have begun to wait later.
fn wait_reason(wait: &WaitingFor, is_first: bool, layout: &Layout) -> Vec<Line> {
    let reason = layout.words(&wait.reason);
    let which = if is_first { ", the first of them" } else { "" };
    let since = instant(wait.since);
    let ago = ago(wait.since, layout.now);
    let warning = wait.last_warning.as_deref().map(|said| layout.words(said));
    let warning = warning.map(|said| format!("    {} {said}", styled(BUSY, "last warning:")));
    let lines = [
        Some(format!("  {} {reason}", styled(BUSY, "waits:"))),
        warning,
        Some(format!("    since {since} ({ago}){which}")),
    ];
    lines.into_iter().flatten().map(Line::new).collect()
}

/// Returns how much of a time has gone: green where its end is good, red where it is not and near.
fn bar(from: Timestamp, until: Timestamp, is_good: bool, now: Timestamp) -> Option<Line> {
    let (whole, gone) = (until.duration_since(from), now.duration_since(from));
    if !whole.is_positive() {
        return None;
    }
    let gone = gone.clamp(SignedDuration::ZERO, whole);
    let full = gone.as_millis() * CELLS / whole.as_millis().max(1);
    let style = match (is_good, full) {
        (true, _) => GOOD,
        (false, 8..) => BAD,
        (false, _) => BUSY,
    };
    let cells: String = (0..CELLS)
        .map(|cell| if cell < full { '▰' } else { '▱' })
        .collect();
    Some(Line::new(format!(
        "    {} {} of {}",
        styled(style, cells),
        duration(gone),
        duration(whole)
    )))
}

pub fn ago(since: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(since))
}

/// Returns a line for each intent, whatever its kind and however it stands.
pub fn wide(all: &[Entry<'_>], layout: &Layout, quiet: Style) -> Vec<Line> {
    let head = [
        "INTENT", "KIND", "WHAT", "PHASE", "ATTEMPT", "SINCE", "REVISION", "WHY",
    ];
    let rows: Vec<Vec<String>> = all.iter().map(|one| wide_row(&one.summary, layout)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    table(&head, &rows, quiet, None)
}

fn wide_row(one: &Summary, layout: &Layout) -> Vec<String> {
    let common = &one.common;
    let began = common.steps.last().map(|step| step.started_at);
    let since = common.finished_at.or(began).map(instant);
    let wait = common.waiting_for.as_ref().map(|wait| wait.reason.clone());
    let why = wait.or_else(|| one.trouble.clone()).or_else(|| one.why());
    let short = |revision: &String| revision.chars().take(8).collect();
    vec![
        one.place.clone(),
        one.kind.to_owned(),
        one.what.clone(),
        styled(one.style(), one.phase),
        common.attempt.to_string(),
        since.unwrap_or_else(|| "-".to_owned()),
        common.revision.as_ref().map_or_else(|| "-".to_owned(), short),
        why.map_or_else(String::new, |why| layout.words(&why)),
    ]
}

impl Layout {
    /// Returns words as they are shown: whole only on request.
    pub(super) fn words(&self, text: &str) -> String {
        let text = brief(text);
        spelt(&if self.verbose { text } else { plain_words(&text) })
    }
}

/// Spells lengths of time as the rest of a screen does: `for 60s` as in a spec is `for 1 min 0 s`.
fn spelt(text: &str) -> String {
    let mut before = "";
    let words = text.split(' ').map(|word| {
        let is_length = std::mem::replace(&mut before, word) == "for";
        let length = word.parse::<TimeSpan>().ok().filter(|_| is_length);
        length.map_or_else(|| word.to_owned(), |length| duration(length.length()))
    });
    let words: Vec<String> = words.collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_spelt_as_the_rest_of_a_screen() {
        assert_eq!(
            spelt("west to stay healthy for 60s"),
            "west to stay healthy for 1 min 0 s"
        );
        assert_eq!(
            spelt("wait for 1h30m or for  80m"),
            "wait for 1 h 30 min or for  80m"
        );
        assert_eq!(spelt("pod web-1 for orders, 60s"), "pod web-1 for orders, 60s");
    }
}
