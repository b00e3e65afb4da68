//! What holds for intents of several kinds: times that are over, and two that want the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{Code, Context, Finding};
use crate::api::GROUP;
use crate::manifest::{Manifest, Set};

/// Kinds that stand for as long as their files are there: of a workload there can be one.
const STANDING: [&str; 2] = ["FailoverPlan", "Rollout"];

pub(super) fn check(set: &Set, context: &Context, findings: &mut Vec<Finding>) {
    for kind in STANDING {
        rivals(kind, set, findings);
    }
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
