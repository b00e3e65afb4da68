//! What holds for intents of several kinds: times that are over, and two that want the same.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::{Context, MayHaveEnded};
use crate::api::{GROUP, RolloutProgress, TimeSpan, Verify};
use crate::finding::{Code, Finding};
use crate::intent::requested;
use crate::intent::rivals::{exclude_each_other, follows, is_called_off, selects};
use crate::manifest::{Manifest, Set};

/// Kinds that move or change a workload once, and have to wait for each other.
const ONCE: [&str; 2] = ["Migration", "ReplicaShift"];

/// Kinds that stand for as long as their files are there: of a workload there can be one.
const STANDING: [&str; 2] = ["FailoverPlan", "Rollout"];

pub(super) fn check(set: &Set, context: &Context, findings: &mut Vec<Finding>) {
    for kind in STANDING {
        rivals(kind, set, findings);
    }
    turns(set, context, findings);
    goes_nowhere(set, findings);
    short_timeouts(set, findings);
    let Some(now) = context.now else { return };
    for intent in set.definitions().filter(|object| object.key.group == GROUP) {
        times(intent, now, findings);
    }
}

fn goes_nowhere(set: &Set, findings: &mut Vec<Finding>) {
    for migration in set.of_kind(GROUP, "Migration") {
        let of = |pointer| migration.value.pointer(pointer).and_then(Value::as_str);
        if let Some(to) = of("/spec/to").filter(|to| of("/spec/from") == Some(to)) {
            let message = format!("{} moves a workload from {to} to {to}", migration.key);
            let finding = Finding::new(Code::GoesNowhere, migration.location("/spec/from"), message);
            findings.push(finding.hint("leave spec.from out, or name the cluster in which it is"));
        }
    }
}

/// Kinds that wait until something is healthy, and then for it to stay so, and where they say for how long.
const HEALTH: [(&str, &str); 5] = [
    ("Evacuation", "verify"),
    ("Migration", "verify"),
    ("Rebalance", "verify"),
    ("Rollout", "progress"),
    ("RolloutPolicy", "progress"),
];

/// Whoever writes a time limit may take it for one of both together.
fn short_timeouts(set: &Set, findings: &mut Vec<Finding>) {
    for (kind, part) in HEALTH {
        for intent in set.of_kind(GROUP, kind) {
            let field = |name: &str| format!("/spec/{part}/{name}");
            let time = |name: &str| {
                intent
                    .value
                    .pointer(&field(name))?
                    .as_str()?
                    .parse::<TimeSpan>()
                    .ok()
            };
            let default = match part {
                "verify" => Verify::default().healthy_for,
                _ => RolloutProgress::default().healthy_for,
            };
            let healthy_for = time("healthyFor").unwrap_or(default);
            let Some(timeout) = time("timeout").filter(|timeout| timeout.length() < healthy_for.length())
            else {
                continue;
            };
            let message = format!(
                "{}: spec.{part}.timeout ({timeout}) is shorter than spec.{part}.healthyFor ({healthy_for})",
                intent.key
            );
            let hint =
                "timeout ends the wait until it is healthy; healthyFor begins then, and is not part of it";
            let at = intent.location(&field("timeout"));
            findings.push(Finding::new(Code::ShortTimeout, at, message).hint(hint));
        }
    }
}

fn rivals(kind: &str, set: &Set, findings: &mut Vec<Finding>) {
    let mut known: BTreeMap<Workload<'_>, &Manifest> = BTreeMap::new();
    for intent in set.of_kind(GROUP, kind) {
        let Some(workload) = workload_of(intent).filter(|[.., name]| name.is_some()) else {
            continue;
        };
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

/// Files don't say what has ended: whoever keeps the files of moves that are over is told once for each. Two of which neither
/// can have ended, and of which only one can have its way, are an error.
fn turns(set: &Set, context: &Context, findings: &mut Vec<Finding>) {
    let once: Vec<&Manifest> = ONCE
        .iter()
        .flat_map(|kind| set.of_kind(GROUP, kind))
        .map(|intent| &**intent)
        .filter(|intent| !is_over(intent, context))
        .collect();
    let mut by_workload: BTreeMap<Workload<'_>, Vec<&Manifest>> = BTreeMap::new();
    for intent in &once {
        if let Some(workload) = workload_of(intent) {
            by_workload.entry(workload).or_default().push(intent);
        }
    }
    beside_rollouts(set, &by_workload, findings);
    beside_requests(set, &by_workload, context, findings);
    for rivals in by_workload.values_mut() {
        rivals.sort_by(|one, other| {
            one.key
                .name
                .cmp(&other.key.name)
                .then(one.key.kind.cmp(&other.key.kind))
        });
        // One of each sort is enough: there may be thousands that want the same.
        let (mut sorts, mut earlier) = (BTreeSet::new(), Vec::<&Manifest>::new());
        for (place, intent) in rivals.iter().enumerate() {
            let excluded = earlier.iter().find_map(|first| exclusive(intent, first, context));
            let wants = |pointer: &str| intent.value.pointer(pointer).and_then(Value::as_str);
            let over = may_have_ended(intent, context);
            if sorts.insert((&intent.key.kind, wants("/spec/to"), wants("/spec/from"), over)) {
                earlier.push(*intent);
            }
            if let Some(finding) = excluded {
                findings.push(finding);
                continue;
            }
            if place == 0 {
                continue;
            }
            let first = rivals[place - 1];
            // One after the other, as their files say.
            if follows(&intent.value, &first.value) || follows(&first.value, &intent.value) {
                continue;
            }
            findings.push(takes_turns(intent, first));
        }
    }
    let evacuations = set.of_kind(GROUP, "Evacuation");
    for evacuation in evacuations.filter(|intent| !is_over(intent, context)) {
        covered(evacuation, &once, findings);
        findings.extend(
            once.iter()
                .filter_map(|intent| exclusive(intent, evacuation, context)),
        );
    }
}

/// A workload as an intent names it: namespace, API version, kind and name.
type Workload<'a> = [Option<&'a str>; 4];

fn workload_of(intent: &Manifest) -> Option<Workload<'_>> {
    let workload = intent.value.pointer("/spec/workload")?;
    let of = |field: &str| workload[field].as_str();
    Some([
        intent.key.namespace.as_deref(),
        of("apiVersion"),
        of("kind"),
        of("name"),
    ])
}

/// A Rollout stands for as long as its file does, so that this is no mistake.
fn beside_rollouts(set: &Set, moves: &BTreeMap<Workload<'_>, Vec<&Manifest>>, findings: &mut Vec<Finding>) {
    for rollout in set.of_kind(GROUP, "Rollout") {
        let of_workload = workload_of(rollout).and_then(|workload| moves.get(&workload));
        for intent in of_workload.into_iter().flatten() {
            let message = format!(
                "{} and {} are about the same workload: they take turns, and the one that has begun ends first",
                intent.key, rollout.key
            );
            let hint = format!("nothing has to be done; the rollout is at {}", rollout.source);
            let at = intent.location("/spec/workload");
            findings.push(Finding::new(Code::BesideRollout, at, message).hint(hint));
        }
    }
}

/// A template and an intent that want the workload in different clusters, or one without workloads: the template's word is refused.
fn beside_requests(
    set: &Set,
    moves: &BTreeMap<Workload<'_>, Vec<&Manifest>>,
    context: &Context,
    findings: &mut Vec<Finding>,
) {
    let is_standing = |intent: &&Manifest| !is_over(intent, context) && !may_have_ended(intent, context);
    let evacuations = set.of_kind(GROUP, "Evacuation").map(|intent| &**intent);
    let evacuations: Vec<&Manifest> = evacuations.filter(is_standing).collect();
    for template in set.definitions() {
        let Some(target) = requested::target_of(&template.value) else {
            continue;
        };
        let key = &template.key;
        let workload = [
            key.namespace.as_deref(),
            template.value["apiVersion"].as_str(),
            Some(&key.kind),
            Some(&key.name),
        ];
        let elsewhere = moves.get(&workload).into_iter().flatten().find(|intent| {
            let to = intent.value.pointer("/spec/to").and_then(Value::as_str);
            to.is_some_and(|to| to != target) && !may_have_ended(intent, context)
        });
        if let Some(intent) = elsewhere {
            findings.push(contradicted(template, target, intent, "moves it elsewhere"));
        }
        let asked = requested::asked_for(&template.value, key.namespace.as_deref());
        let empties = |intent: &&&Manifest| {
            let asked = asked.as_ref();
            asked.is_some_and(|asked| exclude_each_other(asked, &intent.value).is_some())
        };
        if let Some(intent) = evacuations.iter().find(empties) {
            findings.push(contradicted(template, target, intent, "empties that cluster"));
        }
    }
}

/// Says that a template's word is refused, because of what an intent does.
fn contradicted(template: &Manifest, target: &str, intent: &Manifest, does: &str) -> Finding {
    let message = format!(
        "{} asks to be moved to {target}, and {} {does}: only one of them can have it",
        template.key, intent.key
    );
    let hint = format!(
        "remove the annotation {}, or the file of the intent at {}",
        requested::TARGET_ANNOTATION,
        intent.source
    );
    let at = template.location(&requested::pointer());
    Finding::new(Code::ExclusiveIntents, at, message).hint(hint)
}

fn takes_turns(intent: &Manifest, first: &Manifest) -> Finding {
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
    Finding::new(Code::TakesTurns, at, message).hint(hint)
}

fn is_over(intent: &Manifest, context: &Context) -> bool {
    is_called_off(&intent.value) || context.ended.contains(&intent.key)
}

fn may_have_ended(intent: &Manifest, context: &Context) -> bool {
    match &context.may_have_ended {
        MayHaveEnded::None => false,
        MayHaveEnded::These(keys) => keys.contains(&intent.key),
        MayHaveEnded::All => true,
    }
}

/// Says that only one of two can have what it wants. What stood in the commit before may have ended.
fn exclusive(intent: &Manifest, other: &Manifest, context: &Context) -> Option<Finding> {
    let want = exclude_each_other(&intent.value, &other.value)?;
    let at = intent.location("/spec/to");
    let hint = format!(
        "delete the file of the one that is not meant or has ended, or say with spec.from that one begins where the other ends; the \
         other one is at {}",
        other.source
    );
    let which = format!("{} and {}", intent.key, other.key);
    let finding = if may_have_ended(intent, context) || may_have_ended(other, context) {
        let message = format!("{which} want {want}: unless one has ended, only one of them can have it");
        Finding::new(Code::TakesTurns, at, message)
    } else {
        let message = format!("{which} want {want}: only one of them can have it");
        Finding::new(Code::ExclusiveIntents, at, message)
    };
    Some(finding.hint(hint))
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
        text(intent, "/spec/from").as_deref() == Some(&cluster) && selects(&evacuation.value, &intent.value)
    };
    for intent in once.iter().filter(leaves) {
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

fn times(intent: &Manifest, now: Timestamp, findings: &mut Vec<Finding>) {
    for (field, what) in [
        ("/spec/deadline", "deadline"),
        ("/spec/window/notAfter", "window"),
    ] {
        let time = intent.value.pointer(field).and_then(Value::as_str);
        let time: Option<Timestamp> = time.and_then(|time| time.parse().ok());
        if let Some(time) = time.filter(|time| *time <= now) {
            let message = format!(
                "the {what} of {} ended at {time}: the intent starts nothing",
                intent.key
            );
            let at = intent.location(field);
            let hint = "leave it if it is done; else give it a later time";
            findings.push(Finding::new(Code::TooLate, at, message).hint(hint));
        }
    }
}
