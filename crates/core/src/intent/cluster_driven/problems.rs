//! What people have to know of a cluster that is tainted, deleted or cordoned: that it is not evacuated, and which workloads Karmada
//! evicts before they can have moved, or while nothing moves them.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{
    ANSWER_ANNOTATION, Member, View, Workload, counts, has_ended, has_state_to_lose, is_deleted,
    is_overtaken, is_turning_back, meant, name_of, under_way,
};
use crate::api::{Opening, Selection, WaitingFor, Window, WorkloadName};
use crate::intent::taint_eviction::{TaintEviction, eviction, turn};
use crate::profile::Immovable;
use cutover_karmada::Cluster;

/// How long a workload takes to move, beside the time for which it has to be healthy: an estimate.
const MOVE: SignedDuration = SignedDuration::from_mins(1);

/// What keeps a cluster from being evacuated, or a workload from being moved in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub hint: String,
}

/// Returns what people have to know: which clusters are not evacuated, and which workloads Karmada evicts before they can be moved.
pub fn problems(view: &View<'_>) -> Vec<Problem> {
    let members = view.clusters.iter().filter_map(Member::of);
    let told = members.flat_map(|member| problems_of(view, &member));
    told.chain(view.clusters.iter().filter_map(unreadable)).collect()
}

/// Returns that nothing is done about a cluster of which nothing is known.
fn unreadable(cluster: &Value) -> Option<Problem> {
    let why = Cluster::deserialize(cluster).err()?;
    Some(Problem {
        message: format!(
            "cluster {} is left as it is, whatever evicts from it: its Cluster cannot be read ({why})",
            name_of(cluster)
        ),
        hint: "correct what the Cluster says there".to_owned(),
    })
}

fn problems_of(view: &View<'_>, member: &Member<'_>) -> Vec<Problem> {
    let (name, causes) = (member.name(), member.causes(&view.settings.causes));
    let Some(cause) = causes.first() else {
        return Vec::new();
    };
    if let Some(Err(why)) = member.answer() {
        return vec![Problem {
            message: format!(
                "cluster {name} is not evacuated for {cause}: its annotation {ANSWER_ANNOTATION} cannot be read ({why})"
            ),
            hint: "remove the annotation: cutover writes it itself".to_owned(),
        }];
    }
    let answer = member.answer().and_then(Result::ok);
    let answer = answer.filter(|answer| answer.cluster == member.uid());
    let is_carried_out = answer
        .as_ref()
        .is_some_and(|answer| answer.created && causes.iter().all(|cause| answer.causes.contains(cause)));
    if let Some(answer) = answer.filter(|answer| !answer.created && answer.sync != view.sync) {
        return vec![Problem {
            message: format!(
                "cluster {name} is not evacuated for {cause} by this sync: another one is to create Evacuation {}",
                answer.evacuation
            ),
            hint: format!(
                "if there is no other sync, remove the annotation {ANSWER_ANNOTATION} of the Cluster"
            ),
        }];
    }
    if !member.cluster.is_ready() && !is_carried_out {
        let runs = has_state_to_lose(view, member);
        let told = Problem {
            message: format!(
                "cluster {name} is not evacuated for {cause}: it is not Ready, and nothing can be proved about the workloads there"
            ),
            hint: "a FailoverPlan guards a workload whose cluster is lost".to_owned(),
        };
        return runs.then_some(told).into_iter().collect();
    }
    let mut told = evictions(view, member);
    told.extend(emptied_in_part(view, member));
    told.extend(comes_to_its_end_first(view, member).filter(|_| !is_carried_out));
    told
}

/// Returns that nothing is created as long as an Evacuation of before goes on.
fn comes_to_its_end_first(view: &View<'_>, member: &Member<'_>) -> Option<Problem> {
    if !has_state_to_lose(view, member) {
        return None;
    }
    let mut all = view.evacuations.iter();
    let before = all.find(|one| {
        let is_called_off = is_deleted(one) || is_overtaken(one) || is_turning_back(one);
        member.is_of_former(one) || (is_called_off && !has_ended(one) && member.is_emptied_by(one))
    })?;
    let name = name_of(before);
    Some(Problem {
        message: format!(
            "cluster {} is not evacuated yet: the earlier Evacuation {name} has to end first",
            member.name()
        ),
        hint: format!("cutover status shows what {name} waits for"),
    })
}

/// Returns that a person's Evacuation is about a part of the workloads: the cause is answered all the same.
fn emptied_in_part(view: &View<'_>, member: &Member<'_>) -> Option<Problem> {
    let there = under_way(view, member).filter(|one| !member.set_off(one))?;
    let select = there.pointer("/spec/select").and_then(Value::as_object);
    let is_part = select.is_some_and(|select| !select.is_empty());
    let name = name_of(there);
    is_part.then(|| Problem {
        message: format!(
            "Evacuation {name} moves a part of what runs in {}: nothing else is created for the rest",
            member.name()
        ),
        hint: format!("remove spec.select of {name}, or create another Evacuation"),
    })
}

/// Returns the workloads that no `FailoverPlan` guards and that Karmada evicts before they can have moved, or while nothing moves them.
fn evictions(view: &View<'_>, member: &Member<'_>) -> Vec<Problem> {
    let evicted = meant(view, member).filter_map(|workload| {
        let eviction = eviction(&workload.applied, &member.cluster, view.now)?;
        Some((workload, eviction))
    });
    let mut evicted: Vec<(&Workload, TaintEviction)> = evicted.collect();
    // As an Evacuation moves them.
    evicted.sort_by_cached_key(|(workload, eviction)| turn(Some(eviction), workload.key.clone()));
    let at_once = view.settings.max_parallel.max(1);
    let soak = view.settings.verify.clone().unwrap_or_default();
    let each = soak.healthy_for.length().saturating_add(MOVE);
    let told = (0_u32..)
        .zip(evicted)
        .filter_map(|(place, (workload, eviction))| {
            let rounds = i32::try_from(place / at_once + 1).unwrap_or(i32::MAX);
            let takes = each.saturating_mul(rounds);
            if workload.is_guarded {
                None
            } else if eviction.left < takes {
                Some(too_early(member, workload, &eviction))
            } else {
                let at = eviction.at?;
                let why = standstill(view, member, workload)?;
                Some(in_vain(member, workload, at, takes, (&why, &eviction.why)))
            }
        });
    told.collect()
}

impl Workload {
    /// Returns what a person can do: of a kind that cannot be moved what is known of that one.
    fn hint_or(&self, hint: &str) -> String {
        self.immovable.map_or_else(|| hint.to_owned(), Immovable::hint)
    }
}

/// Karmada evicts it before it can have moved.
fn too_early(member: &Member<'_>, workload: &Workload, eviction: &TaintEviction) -> Problem {
    let when = match eviction.at {
        Some(at) if eviction.left.is_positive() => format!("at {at}"),
        _ => "at once".to_owned(),
    };
    let toleration = "let its policy tolerate the taint for as long as the moves take (clusterTolerations with tolerationSeconds), or \
                      guard it with a FailoverPlan";
    let too_late = "guard it with a FailoverPlan; evacuate a cluster before its Cluster is deleted";
    Problem {
        message: format!(
            "{} may lose its state: Karmada{} takes it out of {} {when} for {}, before it can have moved, and no FailoverPlan guards it",
            workload.key,
            if member.is_deleted() {
                ""
            } else {
                ", where it evicts for taints,"
            },
            member.name(),
            eviction.why
        ),
        hint: workload.hint_or(if member.is_deleted() { too_late } else { toleration }),
    }
}

/// There is time until it is evicted, and nothing moves it.
fn in_vain(
    member: &Member<'_>,
    workload: &Workload,
    at: Timestamp,
    takes: SignedDuration,
    (why, cause): (&str, &str),
) -> Problem {
    let begun_by = at.checked_sub(takes).unwrap_or(at);
    Problem {
        message: format!(
            "{} is not being moved out of {}: {why}; Karmada, where it evicts for taints, takes it out at {at} for {cause}",
            workload.key,
            member.name(),
        ),
        hint: workload.hint_or(&format!(
            "its move has to begin before {begun_by}, or a FailoverPlan has to guard it"
        )),
    }
}

/// Returns why nothing moves a workload out of a cluster at present, if that is so.
fn standstill(view: &View<'_>, member: &Member<'_>, workload: &Workload) -> Option<String> {
    let is_it = |one: &Value| {
        WorkloadName::deserialize(&one["workload"]).is_ok_and(|named| named.key() == workload.key)
    };
    let entry = |of: &str, one: &Value| {
        let all = one.pointer(of).and_then(Value::as_array)?;
        all.iter().find(|one| is_it(one)).cloned()
    };
    let moves_it = |one: &&Value| {
        let select = one
            .pointer("/spec/select")
            .map_or_else(|| Ok(Selection::default()), Selection::deserialize);
        let takes = |select: Selection| {
            let key = &workload.key;
            // Which labels a template has isn't known here.
            let is_labelled = select.label_selector.is_none() || entry("/status/moves", one).is_some();
            is_labelled && select.may_take(&key.group, &key.kind, key.namespace.as_deref())
        };
        counts(one) && member.is_emptied_by(one) && select.is_ok_and(takes)
    };
    let Some(there) = view.evacuations.iter().find(moves_it) else {
        return Some("no Evacuation empties the cluster".to_owned());
    };
    let name = name_of(there);
    let waiting = there
        .pointer("/status/waitingFor")
        .and_then(|wait| WaitingFor::deserialize(wait).ok());
    // What others carry out, or what has yet to be seen, goes on by itself.
    if let Some(wait) = waiting.filter(|wait| wait.code.is_for_a_person() || wait.until.is_some()) {
        return Some(format!("Evacuation {name} {}", wait.phrase()));
    }
    let window = there
        .pointer("/spec/window")
        .and_then(|window| Window::deserialize(window).ok());
    if window.is_some_and(|window| window.at(view.now) == Opening::Never) {
        return Some(format!("the time window of Evacuation {name} has ended"));
    }
    if let Some(stay) = entry("/status/stays", there) {
        let why = stay.pointer("/why/message").and_then(Value::as_str);
        let why = why.unwrap_or_default();
        return Some(format!("Evacuation {name} leaves it where it is: {why}"));
    }
    let one = entry("/status/moves", there)?;
    (one["state"] == "Failed").then(|| format!("its move by Evacuation {name} has failed"))
}

/// Returns whether Karmada takes something out of a tainted cluster some time that no `FailoverPlan` guards: as time goes by, that is to
/// be reported.
pub(super) fn may_be_evicted(view: &View<'_>, member: &Member<'_>) -> bool {
    let is_evicted = |workload: &Workload| eviction(&workload.applied, &member.cluster, view.now).is_some();
    !member.causes(&view.settings.causes).is_empty()
        && meant(view, member).any(|one| !one.is_guarded && is_evicted(one))
}
