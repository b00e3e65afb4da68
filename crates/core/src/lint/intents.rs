//! What holds for intents of several kinds: times that are over, and two that want the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{Code, Context, Finding};
use crate::api::GROUP;
use crate::manifest::{Manifest, Set};

/// Kinds that move or change a workload once, and have to wait for each other.
const ONCE: [&str; 2] = ["Migration", "ReplicaShift"];

/// Kinds that stand for as long as their files are there: of a workload there can be one.
const STANDING: [&str; 2] = ["FailoverPlan", "Rollout"];

pub(super) fn check(set: &Set, context: &Context, findings: &mut Vec<Finding>) {
    for kind in STANDING {
        rivals(kind, set, findings);
    }
    turns(set, findings);
    let Some(now) = context.now else { return };
    for intent in set.definitions().filter(|object| object.key.group == GROUP) {
        times(intent, now, findings);
    }
}

fn rivals(kind: &str, set: &Set, findings: &mut Vec<Finding>) {
    let mut known: BTreeMap<[Option<&str>; 4], &Manifest> = BTreeMap::new();
    for intent in set.of_kind(GROUP, kind) {
        let of = |field: &str| {
            intent
                .value
                .pointer(&format!("/spec/workload/{field}"))
                .and_then(Value::as_str)
        };
        let workload = [
            intent.key.namespace.as_deref(),
            of("apiVersion"),
            of("kind"),
            of("name"),
        ];
        if of("name").is_none() {
            continue;
        }
        if let Some(first) = known.get(&workload) {
            let message = format!("{} and {} are about the same workload", intent.key, first.key);
            let at = intent.location("/spec/workload");
            let hint = format!("keep one of them; the other one is at {}", first.source);
            findings.push(Finding::new(Code::RivalIntents, at, message).hint(hint));
        } else {
            known.insert(workload, intent);
        }
    }
}

/// Files don't say what has ended: whoever keeps the files of moves that are over is told once for each.
fn turns(set: &Set, findings: &mut Vec<Finding>) {
    let once: Vec<&Manifest> = ONCE
        .iter()
        .flat_map(|kind| set.of_kind(GROUP, kind))
        .map(|intent| &**intent)
        .collect();
    let mut by_workload: BTreeMap<(Option<&str>, String), Vec<&Manifest>> = BTreeMap::new();
    for intent in once.iter().filter(|intent| !is_called_off(intent)) {
        let Some(workload) = intent.value.pointer("/spec/workload") else {
            continue;
        };
        let workload = (intent.key.namespace.as_deref(), workload.to_string());
        by_workload.entry(workload).or_default().push(intent);
    }
    for rivals in by_workload.values_mut() {
        rivals.sort_by(|one, other| {
            one.key
                .name
                .cmp(&other.key.name)
                .then(one.key.kind.cmp(&other.key.kind))
        });
        for (place, intent) in rivals.iter().enumerate().skip(1) {
            let first = rivals[place - 1];
            // One after the other, as their files say.
            if follows(intent, first) || follows(first, intent) {
                continue;
            }
            let message = format!(
                "{} and {} want the same workload: if neither has ended they take turns, the one that is created first, then by \
                 name",
                intent.key, first.key
            );
            let hint = format!(
                "delete the file of the one that has ended or is not meant; the other one is at {}",
                first.source
            );
            let at = intent.location("/spec/workload");
            findings.push(Finding::new(Code::TakesTurns, at, message).hint(hint));
        }
    }
    for evacuation in set
        .of_kind(GROUP, "Evacuation")
        .filter(|intent| !is_called_off(intent))
    {
        covered(evacuation, &once, findings);
    }
}

/// A move out of a cluster that an evacuation empties would be done by the evacuation as well, and perhaps to elsewhere.
fn covered(evacuation: &Manifest, once: &[&Manifest], findings: &mut Vec<Finding>) {
    let text = |intent: &Manifest, pointer: &str| {
        let text = intent.value.pointer(pointer).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    let Some(cluster) = text(evacuation, "/spec/cluster") else {
        return;
    };
    let leaves = |intent: &&&Manifest| {
        !is_called_off(intent) && text(intent, "/spec/from").as_deref() == Some(&cluster)
    };
    for intent in once.iter().filter(leaves) {
        let kinds = evacuation
            .value
            .pointer("/spec/select/kinds")
            .and_then(Value::as_array);
        let kind = text(intent, "/spec/workload/kind").unwrap_or_default();
        let is_named = |name: &Value| {
            name.as_str()
                .is_some_and(|name| name.split('.').next() == Some(&kind))
        };
        if kinds.is_some_and(|kinds| !kinds.is_empty() && !kinds.iter().any(is_named)) {
            continue;
        }
        let message = format!(
            "{} moves a workload out of {cluster}, and so may {}: whichever claims it first moves it",
            intent.key, evacuation.key
        );
        let hint = format!(
            "let one of them do it; the evacuation is at {}",
            evacuation.source
        );
        let at = intent.location("/spec/from");
        findings.push(Finding::new(Code::TakesTurns, at, message).hint(hint));
    }
}

/// Returns whether a move begins where another one ends.
fn follows(intent: &Manifest, other: &Manifest) -> bool {
    let from = intent.value.pointer("/spec/from");
    from.is_some() && from == other.value.pointer("/spec/to")
}

fn is_called_off(intent: &Manifest) -> bool {
    intent.value.pointer("/spec/abort") == Some(&Value::Bool(true))
}

fn times(intent: &Manifest, now: Timestamp, findings: &mut Vec<Finding>) {
    for (field, what) in [
        ("/spec/deadline", "deadline"),
        ("/spec/window/notAfter", "window"),
    ] {
        let time = intent.value.pointer(field).and_then(Value::as_str);
        let time: Option<Timestamp> = time.and_then(|time| time.parse().ok());
        if let Some(time) = time.filter(|time| *time <= now) {
            let message = format!(
                "the {what} of {} was over at {time}: it begins nothing any more",
                intent.key
            );
            let at = intent.location(field);
            let hint = "leave it if it is done; else give it a later time";
            findings.push(Finding::new(Code::TooLate, at, message).hint(hint));
        }
    }
}
