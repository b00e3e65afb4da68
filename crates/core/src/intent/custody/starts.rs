//! A copy that may write begins again with less than it had written: its pods start again where nothing kept its state (a
//! `JobManager` of Flink without high availability), or it is deleted and made anew. Neither is the tool's doing, and both are
//! told.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::{Finding, Starts, StartsOver};
use crate::intent::member::{Member, Pod};
use crate::profile::Profile;
use cutover_karmada::LabelSelector;
use cutover_karmada::name::ClusterName;

/// The code of the finding that a copy started over by itself.
pub const STARTED_OVER: &str = "StartedOver";
/// The code of the finding that another copy is there than the one that ran.
pub const MADE_ANEW: &str = "CopyMadeAnew";

/// Returns the starts of the pods with which the run of a copy would lose its state; nothing where it keeps that, or where they
/// can't be seen, or none is there.
pub fn starts_in(member: &Member, profile: &Profile) -> Option<Starts> {
    let object = member.object.get().ok()?.as_ref()?;
    let pods = starts(profile.starts_over_with(object)?, member.pods.get().ok()?);
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let generation = generation.unwrap_or_default();
    (!pods.is_empty()).then_some(Starts { generation, pods })
}

/// Returns the finding of pods that have started since, where what they ran begins from what was deployed.
///
/// `is_told_to_run`: its operator may have deployed what its spec has become, with the state of before; the pods follow the spec.
pub fn started_over(
    cluster: &ClusterName,
    known: &Starts,
    seen: &Starts,
    is_told_to_run: bool,
    rule: &StartsOver,
) -> Option<Finding> {
    let is_other_spec = is_told_to_run && known.generation != seen.generation;
    let new: Vec<&str> = seen.pods.difference(&known.pods).map(String::as_str).collect();
    if new.is_empty() || is_other_spec {
        return None;
    }
    Some(Finding::new(
        STARTED_OVER,
        format!(
            "{cluster}: {} was started again: {}",
            new.join(", "),
            rule.message
        ),
        "this intent did not cause it: find out why it restarted, and what could keep its state over a restart",
    ))
}

/// Returns the finding of a copy that is there instead of the one that ran.
pub fn recreated(cluster: &ClusterName, first: &str, now: &str) -> Finding {
    Finding::new(
        MADE_ANEW,
        format!(
            "{cluster}: the copy that ran (uid {first}) was deleted and recreated (uid {now}): what it had not saved is lost"
        ),
        "find out who deleted it; the state handles that are known stand in the status",
    )
}

fn starts(of: &LabelSelector, pods: &[Pod]) -> BTreeSet<String> {
    let pods = pods.iter().filter(|pod| pod.began && of.matches(&pod.labels));
    pods.map(|pod| {
        format!(
            "pod {} (uid {}, restarted {} times)",
            pod.name, pod.uid, pod.restarts
        )
    })
    .collect()
}
