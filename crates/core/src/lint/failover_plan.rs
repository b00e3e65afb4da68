//! Failover plans: what contradicts itself, and what the policy of the workload doesn't go with.

use serde_json::Value;

use super::state;
use super::suspension::{policies, takes};
use crate::api::{FailoverPlanSpec, GROUP, WorkloadProfile};
use crate::finding::{Code, Finding};
use crate::intent::failover;
use crate::manifest::{Manifest, Set};
use crate::profile;
use cutover_karmada::name::Gvk;

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    let profiles = state::profiles(set);
    for plan in set.of_kind(GROUP, "FailoverPlan") {
        let spec = plan.value.get("spec").cloned().unwrap_or_default();
        // What can't be read is the schema's to tell.
        let Ok(spec) = serde_json::from_value::<FailoverPlanSpec>(spec) else {
            continue;
        };
        if let Some(contradiction) = spec.source_unreachable.contradiction() {
            let at = plan.location("/spec/sourceUnreachable");
            findings.push(Finding::new(Code::PlanContradicts, at, contradiction));
        }
        if !spec.guard {
            let message = "a plan without its guard would let two copies write: it is refused";
            let at = plan.location("/spec/guard");
            findings.push(Finding::new(Code::PlanContradicts, at, message).hint("leave spec.guard out"));
        }
        by_profile(plan, &spec, &profiles, findings);
        for policy in over(plan, &spec, set) {
            purge(plan, &spec, policy, findings);
            labels(plan, &spec, policy, findings);
            clusters(plan, policy, findings);
            leaves(plan, policy, findings);
        }
    }
}

/// What the profile of the kind says against it, as far as one is built in or in the repository.
fn by_profile(
    plan: &Manifest,
    spec: &FailoverPlanSpec,
    profiles: &[WorkloadProfile],
    findings: &mut Vec<Finding>,
) {
    let gvk = Gvk::new(&spec.workload.api_version, &spec.workload.kind);
    let Ok(Some(profile)) = profile::find(profiles, spec.profile.as_deref(), &gvk) else {
        return;
    };
    for wrong in failover::validate(spec, &profile.spec) {
        let place = match (wrong.code.as_str(), &spec.profile) {
            ("UnknownHandle" | "SecretInLabel", _) => "/spec/preserved",
            (_, Some(_)) => "/spec/profile",
            (_, None) => "/spec/workload/kind",
        };
        let message = format!("{} is refused: {}", plan.key, wrong.message);
        let finding = Finding::new(Code::PlanContradicts, plan.location(place), message);
        findings.push(match wrong.hint {
            Some(hint) => finding.hint(hint),
            None => finding,
        });
    }
}

/// Returns the policies that select the workload.
fn over<'a>(plan: &Manifest, spec: &FailoverPlanSpec, set: &'a Set) -> Vec<&'a Manifest> {
    let gvk = Gvk::new(&spec.workload.api_version, &spec.workload.kind);
    let template = set.of_kind(&gvk.group, &gvk.kind).find(|object| {
        object.key.name == spec.workload.name
            && (object.key.namespace.is_none() || object.key.namespace == plan.key.namespace)
    });
    let Some(template) = template else {
        return Vec::new();
    };
    policies(set)
        .filter(|policy| takes(policy, template))
        .map(|policy| &**policy)
        .collect()
}

fn purge(plan: &Manifest, spec: &FailoverPlanSpec, policy: &Manifest, findings: &mut Vec<Finding>) {
    let mode = policy.value.pointer("/spec/failover/application/purgeMode");
    if spec.purge.confirm && mode.and_then(Value::as_str) != Some("Never") {
        let message = format!(
            "{} never leaves an old copy whose purge could be confirmed",
            policy.key
        );
        let at = plan.location("/spec/purge/confirm");
        let hint = "set spec.failover.application.purgeMode: Never in the policy, or leave spec.purge out";
        findings.push(Finding::new(Code::PlanUnserved, at, message).hint(hint));
    }
}

/// A label that Karmada doesn't preserve comes to no handle.
fn labels(plan: &Manifest, spec: &FailoverPlanSpec, policy: &Manifest, findings: &mut Vec<Finding>) {
    let parts =
        ["application", "cluster"].map(|part| format!("/spec/failover/{part}/statePreservation/rules"));
    let rules = parts.iter().filter_map(|at| policy.value.pointer(at)?.as_array());
    let preserved: Vec<&str> = rules
        .flatten()
        .filter_map(|rule| rule.get("aliasLabelName")?.as_str())
        .collect();
    for (index, rule) in spec.preserved.iter().enumerate() {
        if !preserved.contains(&rule.label.as_str()) {
            let message = format!("{} preserves no label {}", policy.key, rule.label);
            let at = plan.location(&format!("/spec/preserved/{index}/label"));
            let hint = "name the aliasLabelName of one of the policy's statePreservation rules";
            findings.push(Finding::new(Code::PlanUnserved, at, message).hint(hint));
        }
    }
}

/// One cluster may run it, with all its replicas.
fn clusters(plan: &Manifest, policy: &Manifest, findings: &mut Vec<Finding>) {
    let divided = policy
        .value
        .pointer("/spec/placement/replicaScheduling/replicaSchedulingType");
    let constraints = policy
        .value
        .pointer("/spec/placement/spreadConstraints")
        .and_then(Value::as_array);
    let limited = constraints.into_iter().flatten().any(|constraint| {
        constraint
            .get("spreadByField")
            .and_then(Value::as_str)
            .unwrap_or("cluster")
            == "cluster"
            && constraint.get("maxGroups").and_then(Value::as_i64) == Some(1)
    });
    let names = policy
        .value
        .pointer("/spec/placement/clusterAffinity/clusterNames")
        .and_then(Value::as_array);
    let one = names.is_some_and(|names| names.len() == 1);
    let is_divided = divided.and_then(Value::as_str) == Some("Divided");
    if !one && (is_divided || !limited) {
        let message = format!(
            "{} may spread the workload over several clusters, and {} guards one writer: it would be refused",
            policy.key, plan.key
        );
        let at = plan.location("/spec/workload/name");
        let hint = "set spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}] in the policy, and no Divided";
        findings.push(Finding::new(Code::PlanUnserved, at, message).hint(hint));
    }
}

/// What never leaves a cluster is never failed over: nothing decides that it has failed, or everything is tolerated for ever.
fn leaves(plan: &Manifest, policy: &Manifest, findings: &mut Vec<Finding>) {
    let at = || plan.location("/spec/workload/name");
    let failover = policy.value.pointer("/spec/failover");
    if failover.is_none() {
        let message = format!(
            "{} has no spec.failover: Karmada fails the workload over only by its defaults, when a taint evicts it",
            policy.key
        );
        let hint = "set spec.failover.application with decisionConditions, or ask for a failover yourself: cutover failover";
        findings.push(Finding::new(Code::PlanUnserved, at(), message).hint(hint));
    }
    let seconds = policy
        .value
        .pointer("/spec/failover/application/decisionConditions/tolerationSeconds");
    if let Some(seconds) = seconds.and_then(Value::as_i64).filter(|seconds| *seconds < 1) {
        let message = format!(
            "{} treats {seconds} s of being unhealthy as a failure: a restart would move the workload",
            policy.key
        );
        let hint = "give decisionConditions.tolerationSeconds more than a restart of the workload takes";
        findings.push(Finding::new(Code::PlanUnserved, at(), message).hint(hint));
    }
    let tolerations = policy.value.pointer("/spec/placement/clusterTolerations");
    let for_ever = tolerations
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|toleration| {
            let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
            let all = text("key").is_empty() && text("operator") == "Exists";
            all && ["", "NoExecute"].contains(&text("effect"))
                && toleration.get("tolerationSeconds").is_none()
        });
    if for_ever {
        let message = format!(
            "{} tolerates every taint for ever: a cluster that fails keeps the workload",
            policy.key
        );
        let hint = "name the taints that it tolerates, or give tolerationSeconds";
        findings.push(Finding::new(Code::PlanUnserved, at(), message).hint(hint));
    }
}
