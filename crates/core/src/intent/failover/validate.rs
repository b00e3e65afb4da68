//! What a plan asks for and can't be had, by its profile.

use crate::api::{FailoverPlanSpec, Finding, WorkloadProfileSpec};

/// Returns why a plan doesn't fit the kind of its workload, wherever that runs.
pub fn validate(spec: &FailoverPlanSpec, profile: &WorkloadProfileSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !profile.stateful {
        findings.push(Finding::new(
            "Stateless",
            "by its profile the workload has no state: Karmada's own failover does not harm it",
            "remove the plan, or give the workload a profile that says stateful: true",
        ));
    }
    if !profile.born_held {
        findings.push(Finding::new(
            "NotBornHeld",
            "a new copy of this kind can't be held before it has run, by its profile: the guard would not keep it from \
             writing",
            "leave the failover to Karmada with purge mode Directly, or move it by Migrations",
        ));
    }
    if profile.finished_when.is_some() {
        findings.push(Finding::new(
            "RunsToCompletion",
            "it is a run to completion: one that had ended when its cluster was lost would run again",
            "leave the failover to Karmada, or move it by Migrations",
        ));
    }
    if profile.settle_for.is_some() {
        findings.push(settles_by_time());
    }
    if profile.hold.is_empty() {
        findings.push(Finding::new(
            "NoHold",
            "the profile has no patch that holds a copy: nothing would keep a second one from writing",
            "give the profile a patch in spec.hold",
        ));
    }
    let known = |handle: &str| profile.capture.iter().any(|rule| rule.name == handle);
    for preserved in spec
        .preserved
        .iter()
        .filter(|preserved| !known(&preserved.handle))
    {
        findings.push(Finding::new(
            "UnknownHandle",
            format!("the profile has no handle {}", preserved.handle),
            "fix spec.preserved: handles are the names of the profile's capture rules",
        ));
    }
    let preserved = spec.preserved.iter();
    for preserved in preserved.filter(|preserved| profile.is_secret(&preserved.handle)) {
        findings.push(Finding::new(
            "SecretInLabel",
            format!(
                "the profile marks the handle {} as a secret, and Karmada preserves it as a label, which every client can read",
                preserved.handle
            ),
            "leave it out of spec.preserved, and of the statePreservation of the policy",
        ));
    }
    findings
}

fn settles_by_time() -> Finding {
    Finding::new(
        "SettlesByTime",
        "by its profile (settleFor) that a copy has stopped is known only once it has been watched for a while: a plan keeps no such watch",
        "leave the failover to Karmada, or move it by Migrations",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_profile_that_holds_no_copy_guards_nothing() {
        let spec = json!({"workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}});
        let spec: FailoverPlanSpec = serde_json::from_value(spec).unwrap();
        let mut profile = crate::profile::built_in().unwrap()[0].spec.clone();
        assert_eq!(validate(&spec, &profile), []);
        profile.hold.clear();
        assert_eq!(validate(&spec, &profile)[0].code, "NoHold");
    }

    #[test]
    fn a_secret_handle_is_not_preserved_as_a_label() {
        let spec = json!({
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "preserved": [{"label": "savepoint", "handle": "savepoint", "value": "${value}"}],
        });
        let spec: FailoverPlanSpec = serde_json::from_value(spec).unwrap();
        let mut profile = crate::profile::built_in().unwrap()[0].spec.clone();
        assert_eq!(validate(&spec, &profile), []);
        profile.capture[0].secret = true;
        assert_eq!(validate(&spec, &profile)[0].code, "SecretInLabel");
    }
}
