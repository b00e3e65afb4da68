//! Karmada's deletion protection, for as long as a cluster may hold state.
//!
//! Karmada deletes everything in a cluster as soon as its Cluster is deleted: no Evacuation is fast enough. So where a deletion is a cause,
//! it is refused until the cluster was tainted or cordoned and emptied. What a person decides about the label stands.

use serde_json::Value;

use super::{Change, Member, Step, View, annotation, has_ended, is_under_way};
use crate::config::{EvacuationCause, EvacuationsMode};
use crate::intent::effect::{entry_path, remove, set_entry};
use cutover_karmada::meta::{DELETION_PROTECTED, PROTECTED_ALWAYS};

/// On a Cluster: the uid of the cluster that cutover has protected, and the sync that asks for it.
pub(super) const PROTECTED_ANNOTATION: &str = "cutover.dev/deletion-protected";

/// Returns the changes of Clusters that protect them from deletion, or no longer do. Empty: all is as it should be.
pub fn protections(view: &View<'_>) -> Vec<Step> {
    let members = view.clusters.iter().filter_map(Member::of);
    members
        .filter_map(|member| protection(view, &member).map(Step::Answer))
        .collect()
}

fn protection(view: &View<'_>, member: &Member<'_>) -> Option<Change> {
    if member.is_deleted() {
        return None;
    }
    match (is_wanted(view, member), sync_of(member)) {
        // A label that a person has set is left alone, and one that a person has removed is not set again.
        (true, None) if label(member.read).is_none() => Some(protected(view, member)),
        // As long as the note stands.
        (false, Some(sync)) if sync == view.sync && is_labelled(member) => Some(released(member)),
        _ => None,
    }
}

/// Returns whether a deletion of the cluster is to be refused. Where something evicts from it, only as long as there is state, of whatever
/// is selected: a deletion takes everything.
fn is_wanted(view: &View<'_>, member: &Member<'_>) -> bool {
    let settings = view.settings;
    let is_on =
        settings.mode != EvacuationsMode::Manual && settings.causes.contains(&EvacuationCause::Deletion);
    is_on && !(is_being_emptied(view, member) && is_empty(view, member))
}

/// Returns whether a cause stands that the settings mean: what runs in the cluster is read then.
fn is_being_emptied(view: &View<'_>, member: &Member<'_>) -> bool {
    !member.causes(&view.settings.causes).is_empty()
}

fn is_empty(view: &View<'_>, member: &Member<'_>) -> bool {
    let name = member.name();
    let mut there = view
        .workloads
        .iter()
        .flat_map(|one| one.clusters.iter().chain(&one.leaving));
    let mut all = view.evacuations.iter();
    !there.any(|cluster| *cluster == name) && !all.any(|one| is_at_work(one) && member.is_emptied_by(one))
}

/// Returns whether an Evacuation has a move under way, which may still bring its workload back. One that is paused or called off may have;
/// what has not begun leaves its workload where it is.
fn is_at_work(evacuation: &Value) -> bool {
    let moves = evacuation.pointer("/status/moves").and_then(Value::as_array);
    !has_ended(evacuation) && moves.is_some_and(|moves| moves.iter().any(is_under_way))
}

/// Returns whether a cluster is still protected that something evicts from: that it is empty is not told by any change.
pub(super) fn is_open(view: &View<'_>, member: &Member<'_>) -> bool {
    sync_of(member) == Some(view.sync) && is_labelled(member) && is_being_emptied(view, member)
}

fn protected(view: &View<'_>, member: &Member<'_>) -> Change {
    let note = format!("{} {}", member.uid(), view.sync);
    let note = set_entry(member.read, "annotations", PROTECTED_ANNOTATION, &note);
    let label = set_entry(member.read, "labels", DELETION_PROTECTED, PROTECTED_ALWAYS);
    let what = "its deletion is refused until it has been emptied".to_owned();
    member.change(vec![note, label], what)
}

fn released(member: &Member<'_>) -> Change {
    let note = remove(&entry_path("annotations", PROTECTED_ANNOTATION));
    let label = remove(&entry_path("labels", DELETION_PROTECTED));
    member.change(vec![note, label], "its deletion is no longer refused".to_owned())
}

fn is_labelled(member: &Member<'_>) -> bool {
    label(member.read) == Some(PROTECTED_ALWAYS)
}

/// Returns the sync that has protected this very cluster: one that was restored has the annotations of another.
fn sync_of<'a>(member: &Member<'a>) -> Option<&'a str> {
    let (uid, sync) = annotation(member.read, PROTECTED_ANNOTATION)?.split_once(' ')?;
    (uid == member.uid()).then_some(sync)
}

pub(super) fn label(cluster: &Value) -> Option<&str> {
    cluster
        .pointer("/metadata/labels")?
        .get(DELETION_PROTECTED)?
        .as_str()
}
