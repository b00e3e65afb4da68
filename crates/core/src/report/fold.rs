//! Intents that wait for the same are shown once: their names, the reason, and what comes next for each of them.

use std::collections::HashMap;
use std::hash::Hash;

use jiff::Timestamp;

use super::summary::Summary;
use crate::api::{ConditionStatus, Offer, Standing, WaitCode, WaitingFor};
use crate::units::brief;

/// How many have to wait for the same to be shown once.
const LEAST: usize = 3;
/// How many of them are named.
const NAMED: usize = 5;

/// What intents have in common that wait alike.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    kind: &'static str,
    phase: &'static str,
    /// Nothing of its workload was seen running.
    is_down: bool,
    wait: Option<Wait<'a>>,
    next: Option<String>,
    /// Code, message and hint of each finding.
    findings: Vec<[&'a str; 3]>,
}

#[derive(PartialEq, Eq, Hash)]
struct Wait<'a> {
    code: WaitCode,
    reason: String,
    offers: &'a [Offer],
    approval: Option<&'static str>,
    then: Option<&'a str>,
    has_limit: bool,
}

impl<'a> Key<'a> {
    /// Returns the key of one that waits or has not been reconciled yet; `None`: it is shown alone. A failed one has a reason of its
    /// own, and one that is under way or in force, parts of its own.
    fn of(one: &'a Summary) -> Option<Self> {
        let wait = one.common.waiting_for.as_ref();
        let ignores_spec = one.common.conditions.iter().any(|condition| {
            condition.type_ == "SpecChangeIgnored" && condition.status == ConditionStatus::True
        });
        let is_waiting =
            wait.is_some() || (one.standing == Standing::UnderWay && one.common.steps.is_empty());
        let is_alone = one.has_ended
            || matches!(one.standing, Standing::Done | Standing::Failed)
            || one.trouble.is_some()
            || ignores_spec;
        (is_waiting && !is_alone).then(|| Self {
            kind: one.kind,
            phase: one.phase,
            is_down: one.down_since.is_some(),
            wait: wait.map(Wait::of),
            next: one.next.as_deref().map(|next| for_each(next, &one.place)),
            findings: one
                .common
                .findings
                .iter()
                .map(|finding| {
                    [
                        finding.code.as_str(),
                        &finding.message,
                        finding.hint.as_deref().unwrap_or_default(),
                    ]
                })
                .collect(),
        })
    }
}

impl<'a> Wait<'a> {
    fn of(wait: &'a WaitingFor) -> Self {
        Self {
            code: wait.code,
            reason: brief(&wait.reason),
            offers: &wait.offers,
            approval: wait.approval.map(crate::api::Lifecycle::name),
            then: wait.then.as_deref(),
            has_limit: wait.until.is_some(),
        }
    }
}

/// Returns a command for one intent as one for whichever is meant: `cutover resume NAMESPACE/NAME`.
fn for_each(command: &str, place: &str) -> String {
    let words = command
        .split(' ')
        .map(|word| if word == place { any(place) } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn any(place: &str) -> &'static str {
    if place.contains('/') {
        "NAMESPACE/NAME"
    } else {
        "NAME"
    }
}

/// Returns everything in its order; those that are equal by `summary` stand together, where the first of them stood.
pub(super) fn folded<T>(all: Vec<T>, summary: impl Fn(&T) -> &Summary) -> Vec<Vec<T>> {
    let keys: Vec<Option<Key<'_>>> = all.iter().map(|one| Key::of(summary(one))).collect();
    let mut sizes: HashMap<&Key<'_>, usize> = HashMap::new();
    for key in keys.iter().flatten() {
        *sizes.entry(key).or_default() += 1;
    }
    // The group of each, by its place in the list.
    let (mut groups, mut begun) = (HashMap::new(), 0);
    let places = keys.iter().map(|key| {
        let shared = key.as_ref().filter(|key| sizes.get(key) >= Some(&LEAST));
        let place = shared.map_or(begun, |key| *groups.entry(key).or_insert(begun));
        begun += usize::from(place == begun);
        place
    });
    let places: Vec<usize> = places.collect();
    let mut folded: Vec<Vec<T>> = Vec::new();
    for (one, place) in all.into_iter().zip(places) {
        match folded.get_mut(place) {
            Some(group) => group.push(one),
            None => folded.push(vec![one]),
        }
    }
    folded
}

/// Several intents that wait for the same.
#[derive(Clone, Debug)]
pub(super) struct Alike {
    /// What is said of each of them; the earliest of their times.
    pub each: Summary,
    count: usize,
    names: Vec<String>,
    /// Their waits didn't all begin at one time.
    pub waits_differ: bool,
    /// Their limits are not all one time.
    pub limits_differ: bool,
}

impl Alike {
    /// Returns what is said of several that wait alike; `None`: there are none.
    pub(super) fn of(all: &[&Summary]) -> Option<Self> {
        let first = *all.first()?;
        let mut each = first.clone();
        each.next = first.next.as_deref().map(|next| for_each(next, &first.place));
        any(&first.place).clone_into(&mut each.place);
        each.down_since = all.iter().filter_map(|one| one.down_since).min();
        let waits = || all.iter().filter_map(|one| one.common.waiting_for.as_ref());
        let (began, waits_differ) = earliest(waits().map(|wait| wait.since));
        let (until, limits_differ) = earliest(waits().filter_map(|wait| wait.until));
        if let (Some(wait), Some(began)) = (&mut each.common.waiting_for, began) {
            wait.since = began;
            wait.until = until;
            // Each has its own, as a rule.
            if waits().any(|other| other.last_warning != wait.last_warning) {
                wait.last_warning = None;
            }
        }
        let of_all = |part: &String| all.iter().all(|one| one.terminal_parts().any(|its| its == *part));
        let parts: Vec<String> = first.terminal_parts().filter(of_all).collect();
        each.parts = parts.into_iter().map(super::summary::Part::new).collect();
        Some(Self {
            each,
            count: all.len(),
            names: all.iter().take(NAMED).map(|one| one.place.clone()).collect(),
            waits_differ,
            limits_differ,
        })
    }

    /// Returns how many they are: `36 Migrations`.
    pub(super) fn title(&self) -> String {
        let plural = match self.each.kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{}s", self.each.kind),
        };
        format!("{} {plural}", self.count)
    }

    /// Returns the names of the first of them, and how many more there are.
    pub(super) fn names(&self) -> (String, usize) {
        (self.names.join(", "), self.count - self.names.len())
    }
}

/// Returns the earliest, and whether there are others.
fn earliest(times: impl Iterator<Item = Timestamp>) -> (Option<Timestamp>, bool) {
    let mut first = None;
    let mut differ = false;
    for at in times {
        differ |= first.is_some_and(|first| first != at);
        first = Some(first.map_or(at, |first: Timestamp| first.min(at)));
    }
    (first, differ)
}
