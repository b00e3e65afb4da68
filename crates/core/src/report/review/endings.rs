//! Workloads whose templates a change takes out of Git: where they end, and what ends with them.

use super::links::Places;
use super::page::{Page, code, count, inline, named};
use crate::intent::gate::State;
use crate::plan::{Action, Change};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::{ClusterName, Location, ObjectKey};

/// A workload that Git has no more.
#[derive(Clone, Debug)]
pub struct Ending {
    pub workload: ObjectKey,
    pub at: Option<Location>,
    /// Where Karmada lists it, with how many replicas; none: it has no replicas, or Karmada counts none.
    pub clusters: Vec<(ClusterName, Option<i32>)>,
    pub state: State,
    pub course: Course,
    /// The copies are left in the clusters when the template goes (`preserveResourcesOnDeletion`).
    pub is_preserved: bool,
}

/// When it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// When the change is carried out.
    Now,
    /// When this intent has ended.
    After(String),
    /// Not at all, for this reason.
    Stays(String),
}

impl Ending {
    /// Returns what becomes of a workload, if a change takes its template out of Git. One whose deletion is blocked stays, which the
    /// blocker says.
    pub fn of(change: &Change, binding: &ResourceBinding, state: State) -> Option<Self> {
        let course = match &change.action {
            Action::Delete => Course::Now,
            Action::HeldBack { by } if change.is_deletion() => Course::After(by.clone()),
            Action::LeftBehind { reason } => Course::Stays(reason.clone()),
            _ => return None,
        };
        let counts = binding.spec.replicas > 0;
        let clusters = binding.spec.clusters.iter();
        let clusters = clusters.map(|one| (one.name.clone(), counts.then_some(one.replicas)));
        Some(Self {
            workload: change.key.clone(),
            at: change.source.clone(),
            clusters: clusters.collect(),
            state,
            course,
            is_preserved: binding.spec.preserve_resources_on_deletion == Some(true),
        })
    }

    /// Returns whether this is about what a binding is for, and it ends.
    pub(super) fn ends(&self, binding: &ResourceBinding) -> bool {
        let (workload, resource) = (&self.workload, &binding.spec.resource);
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        !matches!(self.course, Course::Stays(_))
            && (namespace, &workload.kind, &workload.name)
                == (resource.namespace.as_str(), &resource.kind, &resource.name)
    }

    /// Says what becomes of it, in plain words.
    pub fn effect(&self) -> String {
        let clusters = self.places();
        match (&self.course, self.is_preserved) {
            (Course::Stays(_), _) => format!("runs on in {clusters}"),
            (_, true) => format!(
                "leaves its copies in {clusters}, which run on unmanaged: preserveResourcesOnDeletion is set"
            ),
            (Course::Now, false) => format!("ends in {clusters}{}", self.with_it()),
            (Course::After(by), false) => {
                format!("ends in {clusters} when {by} has ended{}", self.with_it())
            }
        }
    }

    const fn with_it(&self) -> &'static str {
        match self.state {
            State::Kept => ", with its state",
            State::Elsewhere => "; its state is kept elsewhere",
            State::None => "; no profile knows of state in it",
            State::Unsaid => "; whether it has state is not known",
        }
    }

    fn places(&self) -> String {
        let place = |(name, replicas): &(ClusterName, Option<i32>)| match replicas {
            Some(1) => format!("{name} (1 replica)"),
            Some(replicas) => format!("{name} ({replicas} replicas)"),
            None => name.to_string(),
        };
        let places: Vec<String> = self.clusters.iter().map(place).collect();
        match places.as_slice() {
            [] => "no cluster".to_owned(),
            [only] => only.clone(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        }
    }

    /// Returns why it stays, if it does.
    fn reason(&self) -> &str {
        match &self.course {
            Course::Stays(reason) => reason,
            Course::Now | Course::After(_) => "",
        }
    }

    fn symbol(&self) -> &'static str {
        match (&self.course, self.state) {
            (Course::Stays(_), _) => "🍂",
            (_, State::None | State::Elsewhere) => "🗑️",
            (_, State::Kept | State::Unsaid) => "⚠️",
        }
    }
}

/// So many workloads that end alike are one line.
const ALIKE: usize = 3;
/// Of workloads that end alike so many are named.
const NAMED: usize = 8;

/// Adds what ends; returns how many lines are left out.
pub(super) fn section(page: &mut Page, endings: &[Ending], places: Places<'_>) -> usize {
    let mut sorted: Vec<&Ending> = endings.iter().collect();
    let fate = |ending: &Ending| (rank(ending), ending.effect(), ending.reason().to_owned());
    sorted.sort_by_cached_key(|ending| (fate(ending), ending.workload.to_string()));
    let alike = sorted.chunk_by(|a, b| fate(a) == fate(b));
    let lines: Vec<String> = alike.flat_map(|alike| lines(alike, places)).collect();
    let ends = endings
        .iter()
        .any(|ending| !matches!(ending.course, Course::Stays(_)));
    let how = if ends {
        "cutover deletes the template, as Git has it no more and the sync prunes; Karmada then deletes the copies.\n\n"
    } else {
        ""
    };
    page.list(
        &format!("\n### Workloads that leave Git\n\n{how}"),
        &lines,
        |more| format!("- … and {more} more\n"),
    )
}

/// What loses most comes first.
const fn rank(ending: &Ending) -> u8 {
    match (&ending.course, ending.state) {
        (Course::Stays(_), _) => 3,
        (_, State::Kept) => 0,
        (_, State::Unsaid) => 1,
        (_, State::None | State::Elsewhere) => 2,
    }
}

fn lines(alike: &[&Ending], places: Places<'_>) -> Vec<String> {
    let line = |names: &str, one: &Ending| {
        let why = match one.reason() {
            "" => String::new(),
            reason => format!(": {}", inline(reason)),
        };
        format!("- {} {names} {}{why}\n", one.symbol(), inline(&one.effect()))
    };
    let name = |one: &&Ending| {
        format!(
            "{}{}",
            code(&one.workload.to_string()),
            places.bracketed(one.at.as_ref())
        )
    };
    match alike {
        [first, ..] if alike.len() >= ALIKE => {
            let names: Vec<String> = alike.iter().map(name).collect();
            let names = format!(
                "{}, {}, each",
                count(alike.len(), "workload"),
                named(&names, NAMED)
            );
            vec![line(&names, first)]
        }
        _ => alike.iter().map(|one| line(&name(one), one)).collect(),
    }
}
