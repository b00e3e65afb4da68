//! What a plan asks for and can't be had, by its profile.

use crate::api::{FailoverPlanSpec, Finding, WorkloadProfileSpec};

/// Returns why a plan doesn't fit the kind of its workload, wherever that runs.
pub fn validate(spec: &FailoverPlanSpec, profile: &WorkloadProfileSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !profile.stateful {
        findings.push(Finding::new(
            "Stateless",
            "by its profile the workload has no state: Karmada's own failover does it no harm",
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
    findings
}
