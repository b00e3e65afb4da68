//! Rollouts and replica shifts: what can be told of them from the files alone.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rollout_policy;
use super::suspension::{policies, takes};
use crate::api::{GROUP, ReplicaShiftSpec, RolloutSpec, RolloutStrategy, WorkloadRef};
use crate::finding::{Code, Finding};
use crate::intent::shift;
use crate::manifest::{Manifest, Set};
use cutover_karmada::meta;
use cutover_karmada::name::Gvk;

/// What sets replicas by itself, by group and kind.
const SCALERS: [(&str, &str); 4] = [
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("autoscaling.karmada.io", "FederatedHPA"),
    ("autoscaling.karmada.io", "CronFederatedHPA"),
    ("keda.sh", "ScaledObject"),
];

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    // What can't be read is the schema's to tell.
    for rollout in set.of_kind(GROUP, "Rollout") {
        let spec = rollout.value.get("spec").cloned().unwrap_or_default();
        if let Ok(spec) = serde_json::from_value::<RolloutSpec>(spec) {
            named_twice(rollout, &spec.strategy, findings);
            gates(rollout, &spec.strategy, findings);
        }
    }
    rollout_policy::check(set, findings);
    for shift in set.of_kind(GROUP, "ReplicaShift") {
        let spec = shift.value.get("spec").cloned().unwrap_or_default();
        if let Ok(spec) = serde_json::from_value::<ReplicaShiftSpec>(spec) {
            contradictions(shift, &spec, findings);
            if let Some(template) = template(shift, &spec.workload, set) {
                scaled_besides(shift, template, set, findings);
                failover(shift, template, set, findings);
            }
        }
    }
}

pub(super) fn named_twice(rollout: &Manifest, strategy: &RolloutStrategy, findings: &mut Vec<Finding>) {
    let order = strategy.order.iter().enumerate();
    let order = order.map(|(index, name)| (format!("/spec/order/{index}"), name));
    let waves = strategy.waves.iter().enumerate().flat_map(|(wave, named)| {
        let names = named.clusters.iter().enumerate();
        names.map(move |(index, name)| (format!("/spec/waves/{wave}/clusters/{index}"), name))
    });
    let mut known = BTreeSet::new();
    for (at, name) in order.chain(waves) {
        if !known.insert(name) {
            let message = format!("{} names {name} twice: only the first place counts", rollout.key);
            let finding = Finding::new(Code::NamedTwice, rollout.location(&at), message);
            findings.push(finding.hint("take it out of one of them"));
        }
    }
}

/// Clusters that aren't named come in waves of their own after the others: which, no file says.
pub(super) fn gates(rollout: &Manifest, strategy: &RolloutStrategy, findings: &mut Vec<Finding>) {
    let named = strategy.order.len() + strategy.waves.len();
    let gates = strategy.approval.iter().flat_map(|gate| &gate.before_waves);
    for (index, wave) in gates.enumerate() {
        if named > 0 && usize::try_from(*wave).is_ok_and(|wave| wave > named) {
            let waves = if named == 1 { "wave" } else { "waves" };
            let message = format!(
                "{} names {named} {waves}, and waits before wave {wave}",
                rollout.key
            );
            let at = rollout.location(&format!("/spec/approval/beforeWaves/{index}"));
            let hint = "waves are counted from 1; clusters that aren't named come after, one by one";
            findings.push(Finding::new(Code::NoSuchWave, at, message).hint(hint));
        }
    }
}

/// The machine would say the same.
fn contradictions(shift: &Manifest, spec: &ReplicaShiftSpec, findings: &mut Vec<Finding>) {
    for wrong in shift::validate(spec) {
        let field = match wrong.code.as_str() {
            "PercentagesNotAscending" => "/spec/percentages",
            "StepAndPercentages" => "/spec/step",
            "SameCluster" => "/spec/to",
            _ => "/spec",
        };
        let message = format!("{}: {}", shift.key, wrong.message);
        findings.push(Finding::new(Code::BadShift, shift.location(field), message).maybe_hint(wrong.hint));
    }
    for (index, cluster) in spec.then.suspend.iter().enumerate() {
        if spec.from.cluster.as_ref() != Some(cluster) {
            let message = format!("{}: the replicas don't come from {cluster}", shift.key);
            let at = shift.location(&format!("/spec/then/suspend/{index}"));
            let hint = "name the cluster of spec.from; others are suspended by a Suspension of their own";
            findings.push(Finding::new(Code::BadShift, at, message).hint(hint));
        }
    }
    let last = spec.percentages.last().copied().unwrap_or(100);
    for (index, percent) in spec.pause.approval.iter().enumerate() {
        if *percent > last {
            let message = format!("{}: no step brings {percent}%", shift.key);
            let at = shift.location(&format!("/spec/pause/approval/{index}"));
            let hint = format!("the last one brings {last}%");
            findings.push(Finding::new(Code::BadShift, at, message).hint(hint));
        }
    }
}

fn template<'a>(intent: &Manifest, workload: &WorkloadRef, set: &'a Set) -> Option<&'a Manifest> {
    let gvk = Gvk::new(&workload.api_version, &workload.kind);
    let mut of_kind = set.of_kind(&gvk.group, &gvk.kind);
    let template = of_kind
        .find(|object| object.key.name == workload.name && object.key.namespace == intent.key.namespace)?;
    Some(template)
}

fn scaled_besides(shift: &Manifest, template: &Manifest, set: &Set, findings: &mut Vec<Finding>) {
    let labels = template.value.pointer("/metadata/labels");
    let retains = labels.and_then(|labels| labels.get(meta::RETAIN_REPLICAS)?.as_str());
    if retains == Some("true") {
        let message = format!(
            "{} lets each cluster keep its own replicas, by the label {}: {} is refused",
            template.key,
            meta::RETAIN_REPLICAS,
            shift.key
        );
        let at = shift.location("/spec/workload/name");
        let hint = "remove the label for the duration of the shift";
        findings.push(Finding::new(Code::ScaledBesides, at, message).hint(hint));
    }
    for scaler in SCALERS
        .into_iter()
        .flat_map(|(group, kind)| set.of_kind(group, kind))
    {
        let target = scaler.value.pointer("/spec/scaleTargetRef");
        let text = |field: &str| {
            target
                .and_then(|target| target.get(field))
                .and_then(Value::as_str)
        };
        // KEDA takes a Deployment where no kind is said.
        let kind = text("kind").unwrap_or("Deployment");
        let is_it = text("name") == Some(&template.key.name) && kind == template.key.kind;
        if is_it && scaler.key.namespace == template.key.namespace {
            let message = format!(
                "{} sets the replicas that {} moves: it is refused",
                scaler.key, shift.key
            );
            let at = shift.location("/spec/workload/name");
            let hint = "remove it for the duration of the shift; spec.floor keeps the capacity meanwhile";
            findings.push(Finding::new(Code::ScaledBesides, at, message).hint(hint));
        }
    }
}

fn failover(shift: &Manifest, template: &Manifest, set: &Set, findings: &mut Vec<Finding>) {
    let over = policies(set).filter(|policy| takes(policy, template));
    for policy in over.filter(|policy| policy.value.pointer("/spec/failover").is_some()) {
        let message = format!(
            "{} has failover, by which a side could be evicted in the middle of a step: {} is refused",
            policy.key, shift.key
        );
        let at = policy.location("/spec/failover");
        let hint = "remove spec.failover from the policy for the duration of the shift";
        findings.push(Finding::new(Code::FailoverMeanwhile, at, message).hint(hint));
    }
}
