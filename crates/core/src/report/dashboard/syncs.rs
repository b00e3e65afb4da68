//! Syncs on a terminal: a row each, and below it what is held back, waits, or is wrong.

use anstyle::Style;

use super::Layout;
use super::intents::ago;
use super::lines::{Line, table};
use crate::report::reconciler::{SyncSummaries, SyncSummary};
use crate::report::snapshot::{LeftSnapshot, NAMED, SyncSnapshot};
use crate::report::told::{BAD, BUSY, HINT, NAME, QUIET, styled};
use crate::units::instant;
use cutover_karmada::name::Revision;

/// Adds the syncs, and what they left behind.
pub fn add(syncs: &[SyncSnapshot], left_behind: &[LeftSnapshot], layout: &Layout, page: &mut Vec<Line>) {
    if !syncs.is_empty() {
        if !page.is_empty() {
            page.push(Line::new(""));
        }
        let head = ["SYNC", "REVISION", "IN SYNC", "HELD BACK", "WAITING", "PROBLEMS"];
        let rows: Vec<Vec<String>> = syncs.iter().map(row).collect();
        page.extend(table(&head, &rows, QUIET, layout.fitting()));
        let is_one = syncs.len() == 1;
        for sync in syncs {
            details(sync, is_one, page);
        }
    }
    for left in left_behind {
        let text = format!("left behind, as {}: {}", left.why, left.objects.join(", "));
        page.push(Line::new(text));
    }
}

/// Adds the syncs as the Lease of the reconcilers has them: in numbers.
pub fn add_summaries(all: &SyncSummaries, layout: &Layout, page: &mut Vec<Line>) {
    if !page.is_empty() {
        page.push(Line::new(""));
    }
    let head = [
        "SYNC",
        "REVISION",
        "SINCE",
        "IN SYNC",
        "HELD BACK",
        "WAITING",
        "PROBLEMS",
    ];
    let rows: Vec<Vec<String>> = all.syncs.iter().map(|sync| summary(sync, layout)).collect();
    page.extend(table(&head, &rows, QUIET, layout.fitting()));
    let s = if all.more == 1 { "" } else { "s" };
    let text = match (all.more, all.syncs.iter().all(SyncSummary::is_clean)) {
        (0, true) => return,
        (0, false) => "details: cutover status --recorded".to_owned(),
        (more, _) => format!("and {more} more sync{s}: cutover status --recorded"),
    };
    page.push(Line::new(styled(QUIET, text)).hanging(0));
}

fn summary(sync: &SyncSummary, layout: &Layout) -> Vec<String> {
    let since = sync.since.map(|since| ago(since, layout.now));
    vec![
        styled(NAME, &sync.name),
        applied(sync.revision.as_ref()),
        since.unwrap_or_else(|| "-".to_owned()),
        sync.in_sync.to_string(),
        counted(sync.held_back, BUSY),
        counted(sync.waiting, BUSY),
        counted(sync.problems, BAD),
    ]
}

fn applied(revision: Option<&Revision>) -> String {
    revision
        .map_or("never applied", |revision| revision.short())
        .to_owned()
}

fn counted(number: usize, style: Style) -> String {
    match number {
        0 => "0".to_owned(),
        number => styled(style, number),
    }
}

fn row(sync: &SyncSnapshot) -> Vec<String> {
    vec![
        styled(NAME, &sync.name),
        applied(sync.revision.as_ref()),
        sync.in_sync.to_string(),
        counted(sync.held_back.len(), BUSY),
        counted(sync.waiting.iter().map(|wait| wait.count).sum(), BUSY),
        counted(sync.problems.len(), BAD),
    ]
}

/// Adds what is wrong in a sync, is held back or waits; below its name, where there are several.
fn details(sync: &SyncSnapshot, is_one: bool, page: &mut Vec<Line>) {
    let mut lines = Vec::new();
    for problem in &sync.problems {
        lines.push(Line::new(format!("  {}", styled(BAD, &problem.message))));
        if let Some(location) = &problem.location {
            lines.push(Line::new(format!("  --> {location}")).whole());
        }
        if let Some(hint) = &problem.hint {
            lines.push(Line::new(format!("  {} {hint}", styled(HINT, "hint:"))));
        }
    }
    for held in &sync.held_back {
        let text = format!(
            "  {} is held back until {} applies the change",
            held.object, held.by
        );
        lines.push(Line::new(text));
    }
    for wait in sync.waiting.iter().filter(|wait| !wait.overdue) {
        let until = wait.until;
        let until = until.map_or_else(String::new, |until| format!(", until {}", instant(until)));
        lines.push(Line::new(format!("  {}{until}", styled(BUSY, wait.sentence()))));
    }
    if sync.pruning > 0 {
        for kept in sync.kept.iter().take(NAMED) {
            let text = format!(
                "  {} is not in Git any more and stays: {}",
                kept.object, kept.note
            );
            lines.push(Line::new(text));
        }
    }
    if !lines.is_empty() && !is_one {
        page.push(Line::new(format!("{}:", styled(NAME, &sync.name))));
    }
    page.extend(lines);
}
