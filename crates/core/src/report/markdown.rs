//! `STATUS.md`: what a person wants to know first is on top; details follow; what ended long ago is a link.

use std::fmt::Write;

use super::dashboard::migration_summary;
use super::fold::{Alike, folded};
use super::summary::Summary;
use super::{
    Account, LeftOverview, ObjectNote, Overview, Problem, SyncOverview, UnhealthyWorkload, Web, by_urgency,
    finding_text, gantt, headline, names, path, route, since, status, symbol,
};
use crate::api::{Migration, StepRecord, WaitingFor};
use crate::units::{brief, duration, instant, milliseconds};
use cutover_base::escape::markdown::code;
pub(super) use cutover_base::escape::markdown::text as escape;
use cutover_karmada::name::Revision;

/// How many migrations that have ended are told in full.
const TOLD: usize = 10;
/// How many objects of a sort are named.
const LISTED: usize = 20;

pub(super) fn page(overview: &Overview) -> String {
    let mut page = format!("# Status\n\n**{}.**\n\n", escape(&headline::headline(overview)));
    if let Some(revision) = &overview.revision {
        let revision = linked(overview.web.as_ref(), revision, revision.as_str());
        let _ = writeln!(page, "Desired state: revision {revision}.\n");
    }
    syncs(&mut page, &overview.syncs, overview.web.as_ref());
    unhealthy(&mut page, &overview.unhealthy);
    left_behind(&mut page, &overview.left_behind);
    overview.sections(&mut page);
    let migrations = by_urgency(&overview.migrations);
    if !migrations.is_empty() {
        table(&mut page, &migrations);
    }
    let mut ended = 0;
    let all = migrations.into_iter().map(|one| (one, migration_summary(one)));
    for group in folded(all.collect(), |(_, summary)| summary) {
        let [(migration, summary)] = group.as_slice() else {
            let several: Vec<&Summary> = group.iter().map(|(_, summary)| summary).collect();
            if let Some(alike) = Alike::of(&several) {
                story_of_several(&mut page, &alike);
            }
            continue;
        };
        ended += usize::from(summary.has_ended);
        if ended <= TOLD {
            story(&mut page, migration, overview.web.as_ref());
        }
    }
    page
}

/// Tells once of several that wait alike; the table has each of them.
fn story_of_several(page: &mut String, alike: &Alike) {
    let each = &alike.each;
    let (names, more) = alike.names();
    let more = match more {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let _ = writeln!(page, "### ⏳ {}: {}\n", alike.title(), each.phase);
    let _ = writeln!(page, "{}{more}.\n", escape(&names));
    if let Some(waiting) = &each.common.waiting_for {
        let text = wait(waiting, alike.waits_differ, alike.limits_differ);
        let _ = writeln!(page, "> ⏳ {}\n", escape(&text));
    }
    if let Some(next) = &each.next {
        let _ = writeln!(page, "*Next:* {}\n", escape(next));
    }
    for finding in &each.common.findings {
        let _ = writeln!(page, "- ⚠️ {}", escape(&finding_text(finding)));
    }
    if !each.common.findings.is_empty() {
        page.push('\n');
    }
}

fn syncs(page: &mut String, syncs: &[SyncOverview], web: Option<&Web>) {
    if syncs.is_empty() {
        return;
    }
    page.push_str("## Syncs\n\n| Sync | Revision | In sync | Held back | Waiting | Problems |\n|---|---|--:|--:|--:|--:|\n");
    for sync in syncs {
        let revision = match &sync.revision {
            Some(revision) => linked(web, revision, revision.short()),
            None => "never".to_owned(),
        };
        let _ = writeln!(
            page,
            "| {} | {revision} | {} | {} | {} | {} |",
            escape(&sync.name),
            sync.in_sync,
            sync.held_back.len(),
            sync.waiting.iter().map(|wait| wait.objects.len()).sum::<usize>(),
            sync.problems.len()
        );
    }
    page.push('\n');
    for sync in syncs {
        for held in &sync.held_back {
            let _ = writeln!(
                page,
                "- {} is held back until {} applies the change.",
                escape(&held.object.to_string()),
                escape(&held.by)
            );
        }
        for wait in sync.waiting.iter().filter(|wait| !wait.overdue) {
            let until = wait
                .until
                .map_or_else(String::new, |until| format!(", until {}", instant(until)));
            let _ = writeln!(page, "- ⏳ {}{until}.", escape(&wait.sentence()));
        }
        notes(page, &sync.drifted, |object, note| {
            format!("- ⚠️ {object} has drifted, which is not corrected: {note}.")
        });
        notes(page, &sync.kept, |object, note| {
            format!("- {object} is not in Git any more and stays: {note}.")
        });
        for problem in &sync.problems {
            page.push_str(&problem_item(problem));
        }
        let told = [&sync.drifted, &sync.kept].iter().any(|notes| !notes.is_empty());
        if told || !sync.held_back.is_empty() || !sync.waiting.is_empty() || !sync.problems.is_empty() {
            page.push('\n');
        }
    }
}

fn unhealthy(page: &mut String, all: &[UnhealthyWorkload]) {
    if all.is_empty() {
        return;
    }
    page.push_str("## Unhealthy workloads\n\n");
    for one in all.iter().take(LISTED) {
        let _ = writeln!(page, "- ❌ {}", escape(&one.to_string()));
    }
    if let Some(more) = all.len().checked_sub(LISTED + 1) {
        let _ = writeln!(page, "- … and {} more.", more + 1);
    }
    page.push('\n');
}

fn left_behind(page: &mut String, left: &[LeftOverview]) {
    if left.is_empty() {
        return;
    }
    page.push_str("## Left behind\n\n");
    for left in left {
        let _ = writeln!(
            page,
            "{}; {} of it stay as they are:\n",
            escape(&left.why),
            count(left.objects.len(), "object")
        );
        for object in left.objects.iter().take(LISTED) {
            let _ = writeln!(page, "- {}", escape(&object.to_string()));
        }
        if let Some(more) = left.objects.len().checked_sub(LISTED + 1) {
            let _ = writeln!(page, "- … and {} more.", more + 1);
        }
        let _ = writeln!(page, "\n*Hint:* {}.\n", escape(&left.hint));
    }
}

fn notes(page: &mut String, notes: &[ObjectNote], line: impl Fn(&str, &str) -> String) {
    for note in notes.iter().take(LISTED) {
        let _ = writeln!(
            page,
            "{}",
            line(&escape(&note.object.to_string()), &escape(&note.note))
        );
    }
    if let Some(more) = notes.len().checked_sub(LISTED + 1) {
        let _ = writeln!(page, "- … and {} more like this.", more + 1);
    }
}

fn problem_item(problem: &Problem) -> String {
    let mut item = "- ❌ ".to_owned();
    if let Some(location) = &problem.location {
        let _ = write!(item, "{}: ", code(&location.to_string()));
    }
    item.push_str(&escape(&problem.message));
    if let Some(hint) = &problem.hint {
        let _ = write!(item, "  \n  *Hint:* {}", escape(hint));
    }
    item.push('\n');
    item
}

fn table(page: &mut String, migrations: &[&Migration]) {
    page.push_str(
        "## Migrations\n\n| Migration | Workload | Route | Phase | Since | Downtime |\n|---|---|---|---|---|--:|\n",
    );
    for &migration in migrations {
        let status = status(migration);
        let (namespace, name) = names(migration);
        let (from, to) = route(migration);
        let workload = &migration.spec.workload;
        let downtime = status.downtime_ms.map_or_else(String::new, milliseconds);
        let _ = writeln!(
            page,
            "| [{}/{}]({}) | {} {} | {} → {} | {} {} | {} | {downtime} |",
            escape(namespace),
            escape(name),
            path(migration),
            escape(&workload.kind),
            escape(&workload.name),
            escape(from),
            escape(to),
            symbol(status.phase),
            status.phase,
            since(&status).map_or_else(String::new, instant),
        );
    }
    page.push('\n');
}

fn story(page: &mut String, migration: &Migration, web: Option<&Web>) {
    let (status, account) = (status(migration), Account::of(migration));
    begin_story(page, migration, &account, web);
    if let Some(reason) = &account.reason {
        let _ = writeln!(page, "> ⏪ Rolled back: {}\n", escape(&brief(reason)));
    }
    if let Some(waiting) = &status.common.waiting_for {
        let _ = writeln!(page, "> ⏳ {}\n", escape(&wait(waiting, false, false)));
    }
    if let Some(next) = &account.next {
        let _ = writeln!(page, "*Next:* {}\n", escape(next));
    }
    for finding in &status.common.findings {
        let _ = writeln!(page, "- ⚠️ {}", escape(&finding_text(finding)));
    }
    if !status.common.findings.is_empty() {
        page.push('\n');
    }
    if let Some(chart) = gantt::chart(migration) {
        page.push_str(&chart);
        page.push('\n');
    }
    if !status.common.steps.is_empty() {
        page.push_str("| Step | Began | Took | Evidence |\n|---|---|--:|---|\n");
        for step in &status.common.steps {
            row(page, step);
        }
        page.push('\n');
    }
}

/// Writes which migration it is, what it moves where, and what that has taken.
fn begin_story(page: &mut String, migration: &Migration, account: &Account, web: Option<&Web>) {
    let status = status(migration);
    let (namespace, name) = names(migration);
    let (from, to) = route(migration);
    let _ = writeln!(
        page,
        "### {} {}/{}: {}\n",
        symbol(status.phase),
        escape(namespace),
        escape(name),
        status.phase
    );
    let _ = write!(
        page,
        "{} {} from {} to {}",
        escape(&migration.spec.workload.kind),
        escape(&migration.spec.workload.name),
        escape(from),
        escape(to)
    );
    if status.common.attempt > 1 {
        let _ = write!(page, ", attempt {}", status.common.attempt);
    }
    let revision = status.common.revision.clone();
    let revision: Option<Revision> = revision.and_then(|revision| revision.try_into().ok());
    if let (Some(revision), Some(_)) = (revision, web) {
        let _ = write!(page, ", begun at {}", linked(web, &revision, revision.short()));
    }
    if let Some(took) = account.took_ms {
        let _ = write!(page, "; took {}", milliseconds(took));
    }
    if let Some(downtime) = account.downtime_ms {
        let _ = write!(page, "; downtime {}", milliseconds(downtime));
    }
    page.push_str(".\n\n");
}

/// Returns a revision as a link to its page, where that is known.
fn linked(web: Option<&Web>, revision: &Revision, text: &str) -> String {
    match web {
        Some(web) => format!("[`{text}`]({})", web.commit(revision)),
        None => format!("`{text}`"),
    }
}

fn row(page: &mut String, step: &StepRecord) {
    let took = step
        .finished_at
        .map_or_else(String::new, |at| duration(at.duration_since(step.started_at)));
    let evidence: Vec<String> = step.evidence.iter().map(|line| escape(&brief(line))).collect();
    let _ = writeln!(
        page,
        "| {} | {} | {took} | {} |",
        escape(&step.name),
        instant(step.started_at),
        evidence.join("<br>")
    );
}

/// Returns why something waits, since when, until when, and what happens then; of several, whether these times are the first of
/// theirs.
fn wait(waiting: &WaitingFor, is_first: bool, ends_first: bool) -> String {
    let first = |is_first: bool| if is_first { " (the first of them)" } else { "" };
    let since = instant(waiting.since);
    let mut text = format!("Waits since {since}{}: {}", first(is_first), waiting.reason);
    if let Some(until) = waiting.until {
        let _ = write!(text, ". At {}{}", instant(until), first(ends_first));
        match &waiting.then {
            Some(then) => {
                let _ = write!(text, ": {then}");
            }
            None => text.push_str(" it ends"),
        }
    }
    if let Some(warning) = &waiting.last_warning {
        let _ = write!(text, ". Last warning: {warning}");
    }
    text
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
