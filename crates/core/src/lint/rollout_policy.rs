//! Rollout policies: selectors that take nothing or can't be read, and workloads that somebody else is in charge of.

use std::collections::BTreeMap;

use super::gradual::{gates, named_twice};
use crate::api::{GROUP, RolloutPolicySpec, WorkloadRef, WorkloadSelector};
use crate::finding::{Code, Finding};
use crate::intent::selected::{Labels, Selected};
use crate::manifest::{Manifest, Set};
use cutover_base::nearest::did_you_mean;
use cutover_karmada::LabelSelector;
use cutover_karmada::name::{Gvk, ObjectKey};

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    let mut in_charge = in_charge(set);
    // What can't be read is the schema's to tell.
    for policy in set.of_kind(GROUP, "RolloutPolicy") {
        let spec = policy.value.get("spec").cloned().unwrap_or_default();
        let Ok(spec) = serde_json::from_value::<RolloutPolicySpec>(spec) else {
            continue;
        };
        named_twice(policy, &spec.strategy, findings);
        gates(policy, &spec.strategy, findings);
        for (index, select) in spec.select.iter().enumerate() {
            if selector(policy, index, select, findings) {
                selection(policy, index, select, set, &mut in_charge, findings);
            }
        }
        controls(policy, &spec, set, findings);
    }
}

/// Returns the intents that are about one workload for good.
fn in_charge(set: &Set) -> BTreeMap<ObjectKey, &Manifest> {
    let about = set.of_kind(GROUP, "Rollout").filter_map(|intent| {
        let workload = intent.value.pointer("/spec/workload")?.clone();
        let workload: WorkloadRef = serde_json::from_value(workload).ok()?;
        Some((workload.key(intent.key.namespace.as_deref()), &**intent))
    });
    about.collect()
}

/// Returns whether a label selector can be read.
fn selector(policy: &Manifest, index: usize, select: &WorkloadSelector, findings: &mut Vec<Finding>) -> bool {
    let read = select
        .label_selector
        .as_ref()
        .map(|text| text.parse::<LabelSelector>());
    let Some(Err(error)) = read else { return true };
    let at = policy.location(&format!("/spec/select/{index}/labelSelector"));
    let message = format!(
        "{}: {error}: every {} counts as selected",
        policy.key, select.kind
    );
    let hint = "write it as kubectl -l takes it: tier=web,team in (a, b)";
    findings.push(Finding::new(Code::BadSelector, at, message).hint(hint));
    false
}

fn selection<'a>(
    policy: &'a Manifest,
    index: usize,
    select: &WorkloadSelector,
    set: &'a Set,
    in_charge: &mut BTreeMap<ObjectKey, &'a Manifest>,
    findings: &mut Vec<Finding>,
) {
    let namespace = policy.key.namespace.as_deref().unwrap_or_default();
    let selected = Selected::new(namespace, std::slice::from_ref(select));
    let gvk = Gvk::new(&select.api_version, &select.kind);
    let at = policy.location(&format!("/spec/select/{index}"));
    let of_kind: Vec<_> = set.of_kind(&gvk.group, &gvk.kind).collect();
    let taken: Vec<_> = of_kind
        .iter()
        .filter(|object| selected.takes(&object.key, Some(&labels(object)), None))
        .collect();
    if taken.is_empty() {
        let what = select
            .name
            .iter()
            .fold(select.kind.clone(), |kind, name| format!("{kind} {name}"));
        let message = format!(
            "{} selects {what}, but no file defines such an object",
            policy.key
        );
        let names = of_kind.iter().map(|object| object.key.name.as_str());
        let hint = select.name.as_deref().and_then(|name| did_you_mean(name, names));
        findings.push(Finding::new(Code::SelectsNothing, at.clone(), message).maybe_hint(hint));
    }
    for object in taken {
        let other = *in_charge.entry(object.key.clone()).or_insert(policy);
        if other.key == policy.key {
            continue;
        }
        let (what, hint) = match other.key.kind.as_str() {
            "Rollout" => ("is about it", "that one takes its changes along, not the policy"),
            _ => (
                "selects it, too",
                "the one that was there first takes its changes along",
            ),
        };
        let message = format!("{} selects {}, but {} {what}", policy.key, object.key, other.key);
        findings.push(Finding::new(Code::RolledTwice, at.clone(), message).hint(hint));
    }
}

/// What is said to a workload that the policy doesn't select is heard by nobody.
fn controls(policy: &Manifest, spec: &RolloutPolicySpec, set: &Set, findings: &mut Vec<Finding>) {
    let namespace = policy.key.namespace.as_deref().unwrap_or_default();
    let selected = Selected::new(namespace, &spec.select);
    let taken: Vec<&ObjectKey> = selected
        .kinds()
        .into_iter()
        .flat_map(|kind| set.of_kind(&kind.group, &kind.kind))
        .filter(|object| selected.takes(&object.key, Some(&labels(object)), None))
        .map(|object| &object.key)
        .collect();
    for (index, said) in spec.controls.iter().enumerate() {
        if taken
            .iter()
            .any(|key| key.kind == said.kind && key.name == said.name)
        {
            continue;
        }
        let message = format!(
            "{} has a control for {} {}, which it does not select",
            policy.key, said.kind, said.name
        );
        let at = policy.location(&format!("/spec/controls/{index}"));
        let names = taken
            .iter()
            .filter(|key| key.kind == said.kind)
            .map(|key| key.name.as_str());
        let hint = did_you_mean(&said.name, names);
        findings.push(Finding::new(Code::SelectsNothing, at, message).maybe_hint(hint));
    }
}

fn labels(object: &Manifest) -> Labels {
    let labels = object.value.pointer("/metadata/labels");
    let fields = labels
        .and_then(serde_json::Value::as_object)
        .into_iter()
        .flatten();
    fields
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
