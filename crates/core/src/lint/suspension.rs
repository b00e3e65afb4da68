//! Suspensions: what they are about, whom else they stop, whether they are over already.

use super::Context;
use super::references::selects;
use crate::api::{GROUP, PolicyKind, SuspensionSpec, WorkloadRef};
use crate::finding::{Code, Finding};
use crate::intent::suspension::{carries, is_holdable};
use crate::manifest::{Manifest, Set};
use cutover_base::nearest::did_you_mean;
use cutover_karmada::PropagationPolicy;
use cutover_karmada::name::{ClusterName, Gvk};

const POLICIES: [PolicyKind; 2] = [
    PolicyKind::PropagationPolicy,
    PolicyKind::ClusterPropagationPolicy,
];

pub(super) fn check(set: &Set, context: &Context, findings: &mut Vec<Finding>) {
    for suspension in set.of_kind(GROUP, "Suspension") {
        let spec = suspension.value.get("spec").cloned().unwrap_or_default();
        // What can't be read is the schema's to tell.
        let Ok(spec) = serde_json::from_value::<SuspensionSpec>(spec) else {
            continue;
        };
        let over = spec.until.zip(context.now).filter(|(until, now)| until <= now);
        if let Some((until, _)) = over {
            let message = format!("{} ended at {until}: it suspends nothing", suspension.key);
            let at = suspension.location("/spec/until");
            findings.push(
                Finding::new(Code::OverAlready, at, message).hint("give it a later time, or remove the file"),
            );
        }
        if let Some(target) = &spec.target.policy {
            policy(suspension, &spec, target.kind, &target.name, set, findings);
        }
        if let Some(target) = &spec.target.workload {
            workload(suspension, &spec, target, set, findings);
        }
    }
}

pub(super) fn policies(set: &Set) -> impl Iterator<Item = &std::sync::Arc<Manifest>> {
    POLICIES
        .into_iter()
        .flat_map(|kind| set.of_kind("policy.karmada.io", kind.name()))
}

fn policy(
    suspension: &Manifest,
    spec: &SuspensionSpec,
    kind: PolicyKind,
    name: &str,
    set: &Set,
    findings: &mut Vec<Finding>,
) {
    let there = |policy: &&std::sync::Arc<Manifest>| {
        kind == PolicyKind::ClusterPropagationPolicy || policy.key.namespace == suspension.key.namespace
    };
    let named: Vec<_> = set
        .of_kind("policy.karmada.io", kind.name())
        .filter(there)
        .collect();
    let at = suspension.location("/spec/target/policy/name");
    let Some(policy) = named.iter().find(|policy| policy.key.name == name) else {
        let message = format!(
            "no file defines {} {name}, which {} is about",
            kind.name(),
            suspension.key
        );
        let hint = did_you_mean(name, named.iter().map(|policy| policy.key.name.as_str()));
        findings.push(Finding::new(Code::UnknownPolicy, at, message).maybe_hint(hint));
        return;
    };
    let all = selected(policy, set);
    if all.len() > 1 {
        let message = format!(
            "{} suspends every workload of {}: {}",
            suspension.key,
            policy.key,
            all.join(", ")
        );
        let hint = "give a workload a policy that names it alone to suspend it alone";
        findings.push(Finding::new(Code::SuspendsSeveral, at, message).hint(hint));
    }
    nowhere(suspension, spec, policy, findings);
}

/// A workload is suspended by its policy where that is its own, else by a pin, which can't hold everything.
fn workload(
    suspension: &Manifest,
    spec: &SuspensionSpec,
    target: &WorkloadRef,
    set: &Set,
    findings: &mut Vec<Finding>,
) {
    let gvk = Gvk::new(&target.api_version, &target.kind);
    let template = set.of_kind(&gvk.group, &gvk.kind).find(|object| {
        object.key.name == target.name
            && (object.key.namespace.is_none() || object.key.namespace == suspension.key.namespace)
    });
    let Some(template) = template else {
        return;
    };
    let over: Vec<_> = policies(set).filter(|policy| takes(policy, template)).collect();
    for policy in over {
        nowhere(suspension, spec, policy, findings);
        let by_policy = serde_json::from_value::<PropagationPolicy>(policy.value.clone())
            .is_ok_and(|policy| carries(&policy, target));
        if by_policy || !spec.scope.dispatching() || is_holdable(&template.value) {
            continue;
        }
        let others: Vec<String> = selected(policy, set)
            .into_iter()
            .filter(|other| *other != template.key.to_string())
            .collect();
        let others = if others.is_empty() {
            "others that may come".to_owned()
        } else {
            others.join(", ")
        };
        let message = format!(
            "{} would suspend {others} too: {} is not the workload's own, and a pin can't hold a {}, so it is refused",
            suspension.key, policy.key, target.kind
        );
        let hint =
            "give the workload a policy that names it alone, or suspend the whole policy: target.policy";
        let at = suspension.location("/spec/target/workload/name");
        findings.push(Finding::new(Code::SharedPolicy, at, message).hint(hint));
    }
}

/// A cluster that the policy doesn't name is suspended in vain.
fn nowhere(suspension: &Manifest, spec: &SuspensionSpec, policy: &Manifest, findings: &mut Vec<Finding>) {
    let Ok(policy_spec) = serde_json::from_value::<PropagationPolicy>(policy.value.clone()) else {
        return;
    };
    let Some(affinity) = &policy_spec.spec.placement.cluster_affinity else {
        return;
    };
    let names = affinity.cluster_names.as_deref().unwrap_or_default();
    for (index, cluster) in spec.clusters.iter().enumerate() {
        if !names.is_empty() && !names.contains(cluster) {
            let message = format!("{} never places anything in {cluster}", policy.key);
            let at = suspension.location(&format!("/spec/clusters/{index}"));
            let hint = did_you_mean(cluster.as_str(), names.iter().map(ClusterName::as_str));
            findings.push(Finding::new(Code::SuspendsNowhere, at, message).maybe_hint(hint));
        }
    }
}

/// Returns what a policy selects among the objects of the files.
fn selected(policy: &Manifest, set: &Set) -> Vec<String> {
    let all = set.definitions().filter(|object| takes(policy, object));
    let mut names: Vec<String> = all.map(|object| object.key.to_string()).collect();
    names.sort();
    names
}

pub(super) fn takes(policy: &Manifest, object: &Manifest) -> bool {
    let selectors = policy.value.pointer("/spec/resourceSelectors");
    let selectors = selectors.and_then(serde_json::Value::as_array);
    selectors.into_iter().flatten().any(|selector| {
        let text = |field: &str| selector.get(field).and_then(serde_json::Value::as_str);
        let gvk = Gvk::new(
            text("apiVersion").unwrap_or_default(),
            text("kind").unwrap_or_default(),
        );
        gvk == object.gvk && selects(selector, policy, object)
    })
}
