//! The one line that sums everything up, the worst first: "all is well" is what is left when nothing else is to be said. The page, the
//! terminal, notifications and the status beside a commit say it, each as much of it as is its business.

mod items;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::event::note_text;
use super::reconciler::SyncSummary;
use super::snapshot::SyncSnapshot;
use super::verdict::Outcome;
use super::{Overview, SyncOverview};

/// What a line is about, the most urgent first. Equal ones are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Down,
    WaitsForYou,
    Failed,
    RolledBack,
    Unhealthy,
    Problem,
    Halted,
    HeldBack,
    Waiting,
    Pruning,
    NoReconciler,
    BehindGit,
    Unread,
    Unknown,
    Suspended,
    Running,
}

impl Rank {
    /// Returns whether nothing is wrong.
    fn is_well(self) -> bool {
        self >= Self::Suspended
    }

    /// Returns whether only the number of what has it is said.
    const fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Unhealthy
                | Self::Problem
                | Self::Halted
                | Self::HeldBack
                | Self::Waiting
                | Self::Pruning
                | Self::Suspended
        )
    }

    /// Returns whether it goes on by itself, as far as that is known.
    const fn outcome(self) -> Outcome {
        match self {
            Self::WaitsForYou
            | Self::Failed
            | Self::RolledBack
            | Self::Unhealthy
            | Self::Problem
            | Self::Halted
            | Self::NoReconciler => Outcome::Failure,
            // A move goes on to let it run again; where it does not, another item says so.
            Self::Down
            | Self::HeldBack
            | Self::Waiting
            | Self::Pruning
            | Self::BehindGit
            | Self::Unread
            | Self::Unknown => Outcome::Pending,
            Self::Suspended | Self::Running => Outcome::Success,
        }
    }
}

/// How the objects of one sync stand, in numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct SyncCounts {
    name: String,
    problems: usize,
    held_back: usize,
    waiting: usize,
    pruning: usize,
    /// It was never applied.
    is_unapplied: bool,
    /// Since when it can't be read in Git.
    unread_since: Option<Timestamp>,
}

impl SyncCounts {
    fn of(sync: &SyncOverview) -> Self {
        let waiting = sync.waiting.iter().filter(|wait| !wait.overdue);
        Self {
            name: sync.name.clone(),
            problems: sync.problems.len(),
            held_back: sync.held_back.len(),
            waiting: waiting.map(|wait| wait.objects.len()).sum(),
            pruning: sync.pruning,
            ..Self::default()
        }
    }

    pub fn of_snapshot(sync: &SyncSnapshot) -> Self {
        let waiting = sync.waiting.iter().filter(|wait| !wait.overdue);
        Self {
            name: sync.name.clone(),
            problems: sync.problems.len(),
            held_back: sync.held_back.len(),
            waiting: waiting.map(|wait| wait.count).sum(),
            pruning: sync.pruning,
            ..Self::default()
        }
    }

    pub fn of_summary(sync: &SyncSummary) -> Self {
        Self {
            name: sync.name.clone(),
            problems: sync.problems,
            held_back: sync.held_back,
            waiting: sync.waiting,
            pruning: sync.pruning,
            is_unapplied: sync.revision.is_none(),
            unread_since: sync.unread_since,
        }
    }
}

/// What is known beside the intents.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub syncs: Vec<SyncCounts>,
    /// It is known how the syncs stand.
    pub has_syncs: bool,
    /// How many workloads have a copy that isn't as it should be.
    pub unhealthy: usize,
    /// When a reconciler was at work last, if none is.
    pub idle_since: Option<Timestamp>,
    /// By how much the status is behind Git, if it is.
    pub behind: Option<String>,
    /// What could not be seen.
    pub unknown: Vec<String>,
}

/// One thing to say, and how urgent it is.
#[derive(Clone, Debug)]
struct Item {
    rank: Rank,
    text: String,
    /// How many it stands for.
    number: usize,
    /// The intent, sync or workload that it is about: `Migration shop/orders-to-west`. Empty: everything.
    about: String,
    outcome: Outcome,
}

impl Item {
    /// Returns the namespace of what it is about.
    fn namespace(&self) -> Option<&str> {
        let (_, place) = self.about.split_once(' ')?;
        Some(place.split_once('/')?.0)
    }
}

impl Overview {
    /// Returns what has not been seen yet, so that nothing else may be wrong and not be known.
    pub(super) fn unknown(&self) -> Vec<String> {
        let all = [
            (self.has_unknown_intents, "how some intents stand is not known"),
            (
                self.has_unknown_health,
                "which workloads are healthy is not known",
            ),
        ];
        let unknown = all.into_iter().filter(|(is_so, _)| *is_so);
        unknown.map(|(_, text)| text.to_owned()).collect()
    }
}

/// What sums everything up.
#[derive(Clone, Debug)]
pub(super) struct Headline {
    /// Plain text without a full stop.
    pub text: String,
    /// The same without what goes on as it should.
    pub short: String,
    /// Nothing is wrong, and nothing waits for a person.
    pub is_well: bool,
    /// Whether somebody should look.
    pub outcome: Outcome,
}

/// Returns the line, as plain text without a full stop.
pub(super) fn headline(overview: &Overview) -> String {
    of_overview(overview).text
}

/// Sums up what a reconciler knows.
pub(super) fn of_overview(overview: &Overview) -> Headline {
    Headlines::of(overview).sum_up(true)
}

/// The same with what is known beside the intents.
pub(super) fn of(overview: &Overview, known: &Known) -> Headline {
    Headlines::new(overview, known).sum_up(known.has_syncs)
}

/// All that a headline can be made of.
#[derive(Clone, Debug, Default)]
pub struct Headlines {
    items: Vec<Item>,
    /// The workloads of each intent.
    workloads: BTreeMap<String, Vec<String>>,
}

impl Headlines {
    /// Returns what a reconciler knows.
    pub fn of(overview: &Overview) -> Self {
        let known = Known {
            syncs: overview.syncs.iter().map(SyncCounts::of).collect(),
            has_syncs: true,
            unhealthy: 0,
            idle_since: None,
            behind: None,
            unknown: overview.unknown(),
        };
        let mut all = Self::new(overview, &known);
        for one in &overview.unhealthy {
            all.count(Rank::Unhealthy, 1, &one.workload.to_string());
        }
        all
    }

    fn new(overview: &Overview, known: &Known) -> Self {
        let mut all = Self::default();
        all.migrations(overview);
        all.failovers(overview);
        all.others(overview);
        all.counts(overview, known);
        all
    }

    /// Returns what isn't well beside an intent or a sync, `Migration shop/orders-to-west`, and beside its workloads; nothing where
    /// all else is well. `reaches` says of which namespaces it may be; what is in none has none.
    pub fn besides(&self, subject: &str, reaches: impl Fn(Option<&str>) -> bool) -> Option<String> {
        let own = self.workloads.get(subject);
        let is_own =
            |about: &String| about == subject || own.is_some_and(|workloads| workloads.contains(about));
        let rest = self
            .items
            .iter()
            .filter(|item| !item.rank.is_well() && !is_own(&item.about) && reaches(item.namespace()));
        let said = parts(rest.collect()).join("; ");
        (!said.is_empty()).then(|| note_text(&capitalized(&said)))
    }

    fn sum_up(&self, has_syncs: bool) -> Headline {
        let (well, unwell): (Vec<&Item>, Vec<&Item>) =
            self.items.iter().partition(|item| item.rank.is_well());
        let is_well = unwell.is_empty();
        let outcomes = || unwell.iter().map(|item| item.outcome);
        let outcome = if is_well {
            Outcome::Success
        } else if outcomes().any(|outcome| outcome == Outcome::Failure) {
            Outcome::Failure
        } else {
            Outcome::Pending
        };
        let short = match (is_well, has_syncs) {
            (false, _) => parts(unwell).join("; "),
            (true, true) => "all is well".to_owned(),
            // Of what isn't known nothing is said.
            (true, false) => "all intents are well".to_owned(),
        };
        let all = std::iter::once(short.clone()).chain(parts(well));
        Headline {
            text: capitalized(&all.collect::<Vec<_>>().join("; ")),
            short: capitalized(&short),
            is_well,
            outcome,
        }
    }
}

/// Returns what there is to say, the worst first. What is worst is said; of what else there is, how much.
fn parts(mut items: Vec<&Item>) -> Vec<String> {
    items.sort_by_key(|item| item.rank);
    let worst = items.first().map(|item| item.rank);
    let groups = items.chunk_by(|one, other| one.rank == other.rank);
    let part = |group: &[&Item]| {
        let (first, rest) = group.split_first()?;
        let is_worst = Some(first.rank) == worst;
        Some(match rest.len() {
            _ if first.rank.is_counted() => several(first.rank, group.iter().map(|item| item.number).sum()),
            // Of these there is one, or their text says how many.
            0 if is_worst || first.rank >= Rank::Unhealthy => first.text.clone(),
            more if is_worst => format!("{}, and {more} more like it", first.text),
            _ => several(first.rank, group.len()),
        })
    };
    groups.filter_map(part).collect()
}

fn several(rank: Rank, number: usize) -> String {
    let (s, verb) = if number == 1 { ("", "s") } else { ("s", "") };
    match rank {
        Rank::Down => format!("{number} workload{s} not seen running"),
        Rank::WaitsForYou => format!("{number} intent{s} wait{verb} for you"),
        Rank::Failed => format!("{number} intent{s} failed"),
        Rank::RolledBack => format!("{number} intent{s} rolled back"),
        Rank::Unhealthy => format!("{number} workload{s} unhealthy in a cluster"),
        Rank::Problem => format!("{number} problem{s} in the desired state"),
        Rank::Halted => format!("{number} rollout{s} halted"),
        Rank::HeldBack => format!("{number} change{s} held back"),
        Rank::Waiting => format!("{number} object{s} waiting for a turn"),
        Rank::Pruning => format!("{number} deletion{s} pending"),
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
