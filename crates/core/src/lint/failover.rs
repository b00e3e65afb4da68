//! Karmada's built-in failover: what silently keeps it from working.

use serde_json::Value;

use crate::finding::{Code, Finding};
use crate::manifest::Manifest;

pub(super) fn check(policy: &Manifest, findings: &mut Vec<Finding>) {
    if policy.key.group != "policy.karmada.io" {
        return;
    }
    let Some(failover) = policy.value.pointer("/spec/failover").and_then(Value::as_object) else {
        return;
    };
    if failover.contains_key("application")
        && policy.value.pointer("/spec/propagateDeps") != Some(&Value::Bool(true))
    {
        let message = "application failover without propagateDeps: true";
        let at = policy.key_location("/spec/failover/application");
        findings.push(Finding::new(Code::NoPropagateDeps, at, message).hint("set spec.propagateDeps: true"));
    }
    for (part, failover) in failover {
        let at = format!("/spec/failover/{part}");
        state_paths(policy, &at, failover, findings);
        purge_mode(policy, &at, failover, findings);
    }
}

/// Flink's field is `jobId`; a path that matches nothing makes Karmada skip the failover.
fn state_paths(policy: &Manifest, at: &str, failover: &Value, findings: &mut Vec<Finding>) {
    let rules = failover
        .pointer("/statePreservation/rules")
        .and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let Some(path) = rule.get("jsonPath").and_then(Value::as_str) else {
            continue;
        };
        let bare = path
            .trim()
            .trim_start_matches('{')
            .trim_end_matches('}')
            .trim()
            .trim_start_matches(['$', '.']);
        if bare == "jobStatus.jobID" {
            let at = policy.location(&format!("{at}/statePreservation/rules/{index}/jsonPath"));
            let message = format!("{path:?} matches nothing: this policy never fails over");
            findings.push(
                Finding::new(Code::DeadStatePath, at, message)
                    .hint("FlinkDeployment's field is jobStatus.jobId"),
            );
        }
    }
}

fn purge_mode(policy: &Manifest, at: &str, failover: &Value, findings: &mut Vec<Finding>) {
    let pointer = format!("{at}/purgeMode");
    let mode = failover.get("purgeMode").and_then(Value::as_str);
    let renamed = match mode {
        Some("Immediately") => Some("Directly"),
        Some("Graciously") => Some("Gracefully"),
        _ => None,
    };
    if let Some(new) = renamed {
        let message = format!("the purge mode {} is now called {new}", mode.unwrap_or_default());
        findings.push(
            Finding::new(Code::OldPurgeMode, policy.location(&pointer), message).hint(format!("write {new}")),
        );
    }
    let direct = matches!(mode, Some("Directly" | "Immediately"));
    if failover.get("statePreservation").is_some() && !direct {
        let message = format!(
            "state is preserved, but with purge mode {} never injected",
            mode.unwrap_or("Gracefully")
        );
        let at = policy.key_location(&format!("{at}/statePreservation"));
        findings.push(Finding::new(Code::StateNeverInjected, at, message).hint("set purgeMode: Directly"));
    }
}
