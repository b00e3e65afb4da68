//! The one line that sums everything up, the worst first: "all is well" is what is left when nothing else is to be said.

use jiff::Timestamp;

use super::reconciler::SyncSummary;
use super::snapshot::SyncSnapshot;
use super::summary::Summary;
use super::{Overview, account::reason, instant, names, status};
use crate::api::{Migration, Phase, RolloutPhase, Standing, SuspensionPhase};

/// What a line is about, the most urgent first. Equal ones are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Down,
    WaitsForYou,
    Failed,
    RolledBack,
    Ailing,
    Problem,
    Halted,
    HeldBack,
    Waiting,
    NoReconciler,
    BehindGit,
    Unread,
    Unknown,
    Suspended,
    Running,
}

/// How the objects of all syncs stand, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SyncCounts {
    problems: usize,
    held_back: usize,
    waiting: usize,
    /// How many were never applied.
    unapplied: usize,
    /// Since when one can't be read in Git.
    unread_since: Option<Timestamp>,
}

impl SyncCounts {
    fn of(overview: &Overview) -> Self {
        let mut all = Self::default();
        for sync in &overview.syncs {
            let waiting = sync.waiting.iter().filter(|wait| !wait.overdue);
            let waiting = waiting.map(|wait| wait.objects.len()).sum();
            all.add(sync.problems.len(), sync.held_back.len(), waiting);
        }
        all
    }

    pub fn of_snapshot(syncs: &[SyncSnapshot]) -> Self {
        let mut all = Self::default();
        for sync in syncs {
            let waiting = sync.waiting.iter().filter(|wait| !wait.overdue);
            all.add(
                sync.problems.len(),
                sync.held_back.len(),
                waiting.map(|wait| wait.count).sum(),
            );
        }
        all
    }

    pub fn of_summaries(syncs: &[SyncSummary]) -> Self {
        let mut all = Self::default();
        for sync in syncs {
            all.add(sync.problems, sync.held_back, sync.waiting);
            all.unapplied += usize::from(sync.revision.is_none());
            let since = [all.unread_since, sync.unread_since];
            all.unread_since = since.into_iter().flatten().min();
        }
        all
    }

    const fn add(&mut self, problems: usize, held_back: usize, waiting: usize) {
        self.problems += problems;
        self.held_back += held_back;
        self.waiting += waiting;
    }
}

/// What is known beside the intents.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub syncs: SyncCounts,
    /// It is known how the syncs stand.
    pub has_syncs: bool,
    /// How many workloads have a copy that isn't as it should be.
    pub ailing: usize,
    /// When a reconciler was at work last, if none is.
    pub idle_since: Option<Timestamp>,
    /// By how much the status is behind Git, if it is.
    pub behind: Option<String>,
    /// What could not be seen.
    pub unknown: Option<&'static str>,
}

/// One thing to say, and how urgent it is.
struct Item {
    rank: Rank,
    text: String,
}

/// Returns the line, as plain text without a full stop.
pub(super) fn headline(overview: &Overview) -> String {
    let known = Known {
        syncs: SyncCounts::of(overview),
        has_syncs: true,
        ailing: overview.unhealthy.len(),
        idle_since: None,
        behind: None,
        unknown: None,
    };
    of(overview, &known).text
}

/// What sums everything up.
#[derive(Clone, Debug)]
pub(super) struct Headline {
    /// Plain text without a full stop.
    pub text: String,
    /// Nothing is wrong, and nothing waits for a person.
    pub is_well: bool,
}

/// The same with what is known beside the intents.
pub(super) fn of(overview: &Overview, known: &Known) -> Headline {
    let mut items = Vec::new();
    migrations(overview, &mut items);
    failovers(overview, &mut items);
    others(overview, &mut items);
    counts(overview, known, &mut items);
    items.sort_by_key(|item| item.rank);
    let (worst, is_well) = match items.first() {
        Some(item) if item.rank < Rank::Suspended => (item.rank, false),
        _ => (Rank::Running, true),
    };
    let mut parts = Vec::new();
    if is_well {
        // Of what isn't known nothing is said.
        let well = if known.has_syncs {
            "all is well"
        } else {
            "all intents are well"
        };
        parts.push(well.to_owned());
    }
    for group in items.chunk_by(|one, other| one.rank == other.rank) {
        let Some((first, rest)) = group.split_first() else {
            continue;
        };
        // What is worst is said; of what else there is, how much.
        // These are counted already.
        let is_count = first.rank >= Rank::Ailing;
        parts.push(match rest.len() {
            0 if first.rank == worst || is_count => first.text.clone(),
            more if first.rank == worst => format!("{}, and {more} more like it", first.text),
            _ => several(first.rank, group.len()),
        });
    }
    Headline {
        text: capitalized(&parts.join("; ")),
        is_well,
    }
}

/// Returns the first of several reasons, with short uids.
fn in_short(why: &str) -> String {
    super::brief(why.split("; ").next().unwrap_or(why))
}

/// Returns whether the workload of a Migration was moved by another one after it had ended: it runs where it was asked for since.
fn has_moved_since(all: &[Migration], ended: &Migration) -> bool {
    let at = |one: &Migration| status(one).common.finished_at;
    let is_later = |one: &&Migration| {
        one.spec.workload == ended.spec.workload
            && one.metadata.namespace == ended.metadata.namespace
            && status(*one).phase == Phase::Completed
            && at(one) > at(ended)
    };
    all.iter().any(|one| is_later(&one))
}

fn migrations(overview: &Overview, items: &mut Vec<Item>) {
    let mut running = 0;
    for migration in &overview.migrations {
        let status = status(migration);
        let (namespace, name) = names(migration);
        let who = format!("Migration {namespace}/{name}");
        let workload = &migration.spec.workload;
        let workload = format!("{} {namespace}/{}", workload.kind, workload.name);
        if !status.phase.is_terminal() {
            running += 1;
            let journal = status.journal.as_ref();
            let down = journal.filter(|journal| journal.up_since.is_none());
            if let Some(since) = down.and_then(|journal| journal.down_since) {
                push(
                    items,
                    Rank::Down,
                    format!("{workload} has not been seen running since {}", instant(since)),
                );
            }
            if status.phase == Phase::RollingBack {
                push(items, Rank::RolledBack, format!("{who} is being rolled back"));
            }
            if let Some(text) = Summary::of(migration, workload).asks() {
                push(items, Rank::WaitsForYou, text);
            }
            continue;
        }
        match status.phase {
            Phase::Failed => push(items, Rank::Failed, format!("{who} failed")),
            Phase::RolledBack if !has_moved_since(&overview.migrations, migration) => {
                let why = reason(migration).map_or_else(String::new, |why| format!(": {}", in_short(&why)));
                push(items, Rank::RolledBack, format!("{who} was rolled back{why}"));
            }
            _ if status.held_back.is_some() || !status.held_policies.is_empty() => push(
                items,
                Rank::RolledBack,
                format!(
                    "changes of {workload} in Git are not applied: {who} ended {}",
                    status.phase
                ),
            ),
            _ => {}
        }
    }
    if running > 0 {
        let all = overview.migrations.len();
        let s = if all == 1 { "" } else { "s" };
        push(
            items,
            Rank::Running,
            format!("{running} of {all} migration{s} running"),
        );
    }
}

fn failovers(overview: &Overview, items: &mut Vec<Item>) {
    for plan in &overview.failover_plans {
        let status = status(plan);
        let (namespace, name) = names(plan);
        let who = format!("FailoverPlan {namespace}/{name}");
        let flight = status
            .journal
            .as_ref()
            .and_then(|journal| journal.flight.as_ref());
        if let Some(flight) = flight.filter(|_| status.phase.in_flight()) {
            let text = format!(
                "{who} moves its workload out of {} since {}",
                flight.from,
                instant(flight.since)
            );
            push(items, Rank::Down, text);
        }
    }
}

fn others(overview: &Overview, items: &mut Vec<Item>) {
    for one in overview.summaries() {
        let who = format!("{} {}", one.kind, one.place);
        if let Some(text) = one.asks() {
            push(items, Rank::WaitsForYou, text);
        }
        let why = || {
            one.why()
                .map_or_else(String::new, |why| format!(": {}", in_short(&why)))
        };
        match (one.standing, one.phase) {
            (Standing::Failed, "Failed") => push(items, Rank::Failed, format!("{who} failed{}", why())),
            (Standing::Failed, "RolledBack" | "Undone") => {
                push(items, Rank::RolledBack, format!("{who} was rolled back{}", why()));
            }
            (Standing::UnderWay | Standing::InForce, _) => {
                if let Some(trouble) = &one.trouble {
                    push(items, Rank::Failed, format!("{who} {trouble}"));
                }
            }
            _ => {}
        }
    }
}

fn counts(overview: &Overview, known: &Known, items: &mut Vec<Item>) {
    let syncs = known.syncs;
    let halted = overview.rollouts.iter();
    let halted = halted.filter(|one| status(*one).phase == RolloutPhase::Halted);
    let suspended = overview.suspensions.iter();
    let suspended = suspended.filter(|one| status(*one).phase == SuspensionPhase::Suspended);
    for (rank, number) in [
        (Rank::Ailing, known.ailing),
        (Rank::Problem, syncs.problems),
        (Rank::Halted, halted.count()),
        (Rank::HeldBack, syncs.held_back),
        (Rank::Waiting, syncs.waiting),
        (Rank::Suspended, suspended.count()),
    ] {
        if number > 0 {
            push(items, rank, several(rank, number));
        }
    }
    if let Some(since) = known.idle_since {
        let text = format!("no reconciler at work since {}", instant(since));
        push(items, Rank::NoReconciler, text);
    }
    if let Some(behind) = &known.behind {
        push(items, Rank::BehindGit, format!("behind Git: {behind}"));
    }
    if let Some(since) = syncs.unread_since {
        let text = format!("Git has not been read since {}", instant(since));
        push(items, Rank::Unread, text);
    }
    if syncs.unapplied > 0 {
        let s = if syncs.unapplied == 1 { "" } else { "s" };
        push(
            items,
            Rank::Unknown,
            format!("{} sync{s} never applied", syncs.unapplied),
        );
    }
    if let Some(unknown) = known.unknown {
        push(items, Rank::Unknown, unknown.to_owned());
    }
}

fn push(items: &mut Vec<Item>, rank: Rank, text: String) {
    items.push(Item { rank, text });
}

fn several(rank: Rank, number: usize) -> String {
    let (s, verb) = if number == 1 { ("", "s") } else { ("s", "") };
    match rank {
        Rank::Down => format!("{number} workload{s} not seen running"),
        Rank::WaitsForYou => format!("{number} intent{s} wait{verb} for you"),
        Rank::Failed => format!("{number} intent{s} failed"),
        Rank::RolledBack => format!("{number} intent{s} rolled back"),
        Rank::Ailing => format!("{number} workload{s} unhealthy in a cluster"),
        Rank::Problem => format!("{number} problem{s} in the desired state"),
        Rank::Halted => format!("{number} rollout{s} halted"),
        Rank::HeldBack => format!("{number} change{s} held back"),
        Rank::Waiting => format!("{number} object{s} waiting for a turn"),
        Rank::NoReconciler => "no reconciler at work".to_owned(),
        Rank::BehindGit => "behind Git".to_owned(),
        Rank::Unread => "Git not read".to_owned(),
        Rank::Unknown => format!("{number} thing{s} not known"),
        Rank::Suspended => format!("{number} suspension{s} in force"),
        Rank::Running => format!("{number} migration{s} running"),
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
