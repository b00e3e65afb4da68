//! Intents that want the same workload go one after the other, in one order for all kinds: the one that was created first,
//! then by name.
//!
//! Who has the workload is decided by the claim, by compare-and-swap. The order only says who asks for it next, so that what
//! a cache says is good enough: who is taken for the next by mistake finds the claim taken.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::custody;
use crate::api::{Claim, ClaimOwner, MigrationSpec, MovesPhase, Phase, ReplicaShiftSpec, WaitCode};
use cutover_karmada::LabelSelector;

/// The kinds that claim a workload until they have ended or come to rest. A `FailoverPlan` is none of them: it lends its claim.
pub const KINDS: [&str; 3] = ["Migration", "ReplicaShift", "Rollout"];

/// The place of an intent in the order: when it was created, its name, its kind. One that is yet to be created is the last.
pub type Place<'a> = (bool, Option<Timestamp>, &'a str, &'a str);

/// Returns what decides who goes first.
pub fn place(intent: &Value) -> Place<'_> {
    let text = |pointer: &str| {
        intent
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let created: Option<Timestamp> = text("/metadata/creationTimestamp").parse().ok();
    (created.is_none(), created, text("/metadata/name"), text("/kind"))
}

/// Returns the intent that wants the same workload as `own`, has not got it yet, and goes first. `others`: all that there are
/// in the namespace; `own` may be among them.
pub fn ahead<'a>(own: &Value, others: impl IntoIterator<Item = &'a Value>) -> Option<ClaimOwner> {
    let is_rival = |other: &&Value| {
        let differs = |pointer: &str| other.pointer(pointer) != own.pointer(pointer);
        differs("/metadata/uid") && !differs("/metadata/namespace") && !differs("/spec/workload")
    };
    others
        .into_iter()
        .filter(is_rival)
        .filter(|other| asks(other) && place(other) < place(own))
        .min_by(|one, other| place(one).cmp(&place(other)))
        .map(owner)
}

/// Returns what two intents want that only one of them can have: the workload in different clusters, or in one that the other
/// empties. One that begins where another one ends comes after it; one that is called off wants nothing.
pub fn exclude_each_other(one: &Value, other: &Value) -> Option<String> {
    let kinds = (one["kind"].as_str()?, other["kind"].as_str()?);
    if is_called_off(one) || is_called_off(other) {
        return None;
    }
    match kinds {
        ("Migration", "Migration") => {
            let is_same = |pointer: &str| one.pointer(pointer) == other.pointer(pointer);
            let (to, other_to) = (text(one, "/spec/to")?, text(other, "/spec/to")?);
            let rivals = is_same("/spec/workload") && is_same("/metadata/namespace") && to != other_to;
            let workload = (
                text(one, "/spec/workload/kind")?,
                text(one, "/spec/workload/name")?,
            );
            (rivals && !follows(one, other) && !follows(other, one))
                .then(|| format!("{} {} in {to} and in {other_to}", workload.0, workload.1))
        }
        ("Evacuation", "Migration") => exclude_each_other(other, one),
        ("Migration", "Evacuation") => {
            let to = text(one, "/spec/to")?;
            let workload = (
                text(one, "/spec/workload/kind")?,
                text(one, "/spec/workload/name")?,
            );
            (empties(other, to) && selects(other, one)).then(|| {
                format!(
                    "{} {} in {to}, and {to} without workloads",
                    workload.0, workload.1
                )
            })
        }
        _ => None,
    }
}

/// Returns whether an intent, as the control plane has it, has come to its end.
pub fn has_ended(intent: &Value) -> bool {
    let phase = intent.pointer("/status/phase").unwrap_or(&Value::Null);
    match intent["kind"].as_str() {
        Some("Evacuation" | "Rebalance") => MovesPhase::deserialize(phase).is_ok_and(MovesPhase::is_terminal),
        _ => Phase::deserialize(phase).is_ok_and(Phase::is_terminal),
    }
}

/// Returns whether a move begins where another one ends.
pub fn follows(intent: &Value, other: &Value) -> bool {
    let from = intent.pointer("/spec/from");
    from.is_some() && from == other.pointer("/spec/to")
}

/// Returns whether an intent is of a kind that claims its workload, and is not called off.
pub fn may_claim_ever(intent: &Value) -> bool {
    let kind = intent["kind"].as_str().unwrap_or_default();
    KINDS.contains(&kind) && intent.pointer("/spec/workload").is_some() && !is_called_off(intent)
}

/// Returns whether two intents want the same workload one after the other: neither is called off, nor begins where the other one
/// ends.
pub fn take_turns(one: &Value, other: &Value) -> bool {
    let is_same = |pointer: &str| one.pointer(pointer) == other.pointer(pointer);
    may_claim_ever(one)
        && may_claim_ever(other)
        && is_same("/spec/workload")
        && is_same("/metadata/namespace")
        && exclude_each_other(one, other).is_none()
        && !follows(one, other)
        && !follows(other, one)
}

pub fn is_called_off(intent: &Value) -> bool {
    intent.pointer("/spec/abort") == Some(&Value::Bool(true))
}

/// Returns whether an evacuation empties a cluster: it names it, or has found it by its taint.
fn empties(evacuation: &Value, cluster: &str) -> bool {
    let found = evacuation.pointer("/status/clusters").and_then(Value::as_array);
    text(evacuation, "/spec/cluster") == Some(cluster)
        || found.is_some_and(|found| found.iter().any(|found| found == cluster))
}

/// Returns whether an evacuation may be about the workload of a move, as far as their specs tell; labels only of what a template asks for:
/// of that one they are known.
pub fn selects(evacuation: &Value, intent: &Value) -> bool {
    let within = |pointer: &str, is_meant: &dyn Fn(&str) -> bool| {
        let all = evacuation.pointer(pointer).and_then(Value::as_array);
        all.is_none_or(|all| all.is_empty() || all.iter().filter_map(Value::as_str).any(is_meant))
    };
    let kind = text(intent, "/spec/workload/kind").unwrap_or_default();
    let namespace = text(intent, "/metadata/namespace");
    within("/spec/select/kinds", &|named| {
        named.split('.').next() == Some(kind)
    }) && within("/spec/select/namespaces", &|named| {
        namespace.is_none_or(|namespace| named == namespace)
    }) && selects_labels(evacuation, intent).unwrap_or(true)
}

/// Returns whether the labels of a template are selected; `None`: they are not known, or a selector is not given or cannot be read.
fn selects_labels(evacuation: &Value, intent: &Value) -> Option<bool> {
    let selector: LabelSelector = text(evacuation, "/spec/select/labelSelector")?.parse().ok()?;
    let labels = intent.pointer("/template/metadata/labels")?;
    let labels = BTreeMap::<String, String>::deserialize(labels).ok()?;
    Some(selector.matches(&labels))
}

fn text<'a>(intent: &'a Value, pointer: &str) -> Option<&'a str> {
    intent.pointer(pointer).and_then(Value::as_str)
}

/// Who may claim the workload now: its owner, else the first of those that ask. Returns for whom the others wait.
pub fn may_claim(claim: Option<&Claim>, uid: &str, ahead: Option<&ClaimOwner>) -> Result<(), String> {
    match (claim, ahead) {
        (Some(claim), _) if claim.spec.owner.uid == uid => Ok(()),
        // Whoever lends it chooses by the same order, among those that can borrow.
        (Some(claim), _) => Err(custody::held(claim)),
        (None, Some(first)) => Err(format!(
            "{first} goes first with the workload: it was created first"
        )),
        (None, None) => Ok(()),
    }
}

/// The same for an intent that changes what runs, and not where: where a plan guards the workload, it can be its guest.
pub fn may_differ(claim: Option<&Claim>, uid: &str, ahead: Option<&ClaimOwner>) -> Result<(), String> {
    let claim = claim.filter(|claim| custody::may_enter(claim, uid).is_err());
    may_claim(claim, uid, ahead)
}

/// Returns whether an intent waits for nothing but the workload, or is about to find that out. One that a person, a time or
/// something in its way keeps from beginning keeps nobody else.
fn asks(intent: &Value) -> bool {
    let is_set = |pointer: &str| {
        intent
            .pointer(pointer)
            .is_some_and(|value| *value != Value::Bool(false))
    };
    if is_set("/metadata/deletionTimestamp") || is_set("/spec/paused") || is_set("/spec/abort") {
        return false;
    }
    let claim = WaitCode::Claim.to_string();
    match intent.pointer("/status/waitingFor/code").and_then(Value::as_str) {
        Some(code) => code == claim && (intent["kind"] == "Rollout" || is_about_to_begin(intent)),
        None => is_about_to_begin(intent),
    }
}

/// A rollout stands, and asks only when there is a change. What can't be read is never begun.
fn is_about_to_begin(intent: &Value) -> bool {
    let phase = intent.pointer("/status/phase").and_then(Value::as_str);
    if !matches!(phase, None | Some("Pending" | "Preflight")) {
        return false;
    }
    match intent["kind"].as_str() {
        Some("Migration") => reads::<MigrationSpec>(intent),
        Some("ReplicaShift") => reads::<ReplicaShiftSpec>(intent),
        _ => false,
    }
}

fn reads<S: DeserializeOwned>(intent: &Value) -> bool {
    S::deserialize(&intent["spec"]).is_ok()
}

fn owner(intent: &Value) -> ClaimOwner {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &intent["metadata"];
    ClaimOwner {
        kind: text(&intent["kind"]),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        uid: text(&metadata["uid"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn migration(name: &str, created: &str, more: &Value) -> Value {
        let mut intent = json!({
            "kind": "Migration",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created},
            "spec": {"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "to": "west"},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            intent[field] = value.clone();
        }
        intent
    }

    fn ahead_of(own: &Value, others: &[Value]) -> Option<String> {
        ahead(own, others).map(|owner| owner.name)
    }

    #[test]
    fn the_one_that_was_created_first_goes_first_then_the_name_decides() {
        let early = migration("z", "2026-01-01T00:00:00Z", &json!({}));
        let (one, other) = (
            migration("a", "2026-01-01T00:00:01Z", &json!({})),
            migration("b", "2026-01-01T00:00:01Z", &json!({})),
        );
        let all = [other.clone(), one.clone(), early.clone()];
        assert_eq!(ahead_of(&early, &all), None);
        assert_eq!(ahead_of(&one, &all), Some("z".to_owned()));
        assert_eq!(
            ahead_of(&other, &[one.clone(), other.clone()]),
            Some("a".to_owned())
        );
        assert_eq!(ahead_of(&one, &[other]), None);
    }

    #[test]
    fn one_that_waits_for_something_else_keeps_nobody_waiting() {
        let own = migration("late", "2026-01-02T00:00:00Z", &json!({}));
        let early = |more: Value| migration("early", "2026-01-01T00:00:00Z", &more);
        let waits = |code: &str| json!({"status": {"phase": "Pending", "waitingFor": {"code": code}}});
        assert_eq!(ahead_of(&own, &[early(waits("Claim"))]), Some("early".to_owned()));
        assert_eq!(ahead_of(&own, &[early(waits("Evidence"))]), None);
        assert_eq!(
            ahead_of(&own, &[early(json!({"status": {"phase": "Completed"}}))]),
            None
        );
        assert_eq!(
            ahead_of(
                &own,
                &[early(json!({"spec": {"workload": own["spec"]["workload"]}}))]
            ),
            None
        );
        let mut paused = early(json!({}));
        paused["spec"]["paused"] = json!(true);
        assert_eq!(ahead_of(&own, &[paused]), None);
        let mut elsewhere = early(json!({}));
        elsewhere["spec"]["workload"]["name"] = json!("orders");
        assert_eq!(ahead_of(&own, &[elsewhere]), None);
    }

    #[test]
    fn two_that_want_different_clusters_exclude_each_other_unless_one_begins_where_the_other_ends() {
        let to = |to: &str, more: Value| {
            let mut intent = migration(to, "2026-01-01T00:00:00Z", &json!({}));
            intent["spec"]["to"] = json!(to);
            for (field, value) in more.as_object().into_iter().flatten() {
                intent["spec"][field] = value.clone();
            }
            intent
        };
        let (west, north) = (to("west", json!({})), to("north", json!({})));
        let wants = exclude_each_other(&west, &north);
        assert_eq!(wants.as_deref(), Some("Deployment web in west and in north"));
        assert_eq!(exclude_each_other(&west, &to("west", json!({}))), None);
        assert_eq!(
            exclude_each_other(&west, &to("north", json!({"from": "west"}))),
            None
        );
        assert_eq!(
            exclude_each_other(&west, &to("north", json!({"abort": true}))),
            None
        );
        let empties = |cluster: &str, select: Value| json!({"kind": "Evacuation", "metadata": {"name": "e"}, "spec": {"cluster": cluster, "select": select}});
        assert!(exclude_each_other(&west, &empties("west", json!({}))).is_some());
        assert!(exclude_each_other(&empties("west", json!({})), &west).is_some());
        assert_eq!(exclude_each_other(&west, &empties("east", json!({}))), None);
        let by_taint = json!({"kind": "Evacuation", "spec": {"taint": {"key": "maintenance"}}, "status": {"clusters": ["west"]}});
        assert!(exclude_each_other(&west, &by_taint).is_some());
        assert_eq!(exclude_each_other(&north, &by_taint), None);
        let jobs = empties("west", json!({"kinds": ["FlinkDeployment.flink.apache.org"]}));
        assert_eq!(exclude_each_other(&west, &jobs), None);
        // Of a file it is not known which labels its template has.
        let critical = empties("west", json!({"labelSelector": "tier=critical"}));
        assert!(exclude_each_other(&west, &critical).is_some());
        for (labels, is_excluded) in [
            (json!({"tier": "critical"}), true),
            (json!({"tier": "low"}), false),
            (json!({}), false),
        ] {
            let mut asked = west.clone();
            asked["template"] = json!({"metadata": {"labels": labels}});
            assert_eq!(
                exclude_each_other(&asked, &critical).is_some(),
                is_excluded,
                "{asked}"
            );
        }
    }

    #[test]
    fn whoever_has_the_claim_waits_for_nobody() {
        let owner = |uid: &str| ClaimOwner {
            kind: "Migration".to_owned(),
            namespace: "shop".to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
        };
        let spec = json!({
            "workload": "w", "bindingId": "b", "owner": owner("a"), "attempt": 1, "seq": 1, "marker": "m", "clusters": [],
        });
        let claim = Claim::new("claim", serde_json::from_value(spec).unwrap());
        assert_eq!(may_claim(Some(&claim), "a", Some(&owner("b"))), Ok(()));
        assert!(
            may_claim(Some(&claim), "b", None)
                .unwrap_err()
                .contains("shop/a holds")
        );
        assert!(
            may_claim(None, "b", Some(&owner("a")))
                .unwrap_err()
                .contains("shop/a goes first")
        );
        assert_eq!(may_claim(None, "b", None), Ok(()));
    }
}
