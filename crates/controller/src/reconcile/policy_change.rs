//! What a change of a plan does to a policy.

use serde_json::Value;

use cutover_core::plan::{Action, Change};
use cutover_core::report::review::PolicyChange;
use cutover_karmada::{ClusterPropagationPolicy, PropagationPolicy, PropagationSpec};

/// Returns what a change does to a policy; `None`: it is about something else, does nothing, or can't be understood.
pub(super) fn policy_change(change: &Change) -> Option<PolicyChange> {
    let is_policy = change.key.group == "policy.karmada.io"
        && matches!(
            change.key.kind.as_str(),
            "PropagationPolicy" | "ClusterPropagationPolicy"
        );
    let held_back = match &change.action {
        Action::HeldBack { by } => Some(by.clone()),
        _ => None,
    };
    if !is_policy || !(change.is_written() || held_back.is_some() || change.action == Action::Delete) {
        return None;
    }
    let spec = |side: &Option<Value>| -> Option<PropagationSpec> {
        let value = side.clone()?;
        if change.key.namespace.is_some() {
            return Some(serde_json::from_value::<PropagationPolicy>(value).ok()?.spec);
        }
        let policy: ClusterPropagationPolicy = serde_json::from_value(value).ok()?;
        Some(policy.spec.spec)
    };
    // One that can't be read is shown as a change of an object: its policy is not guessed.
    if change.after.is_some() && spec(&change.after).is_none() {
        return None;
    }
    Some(PolicyChange {
        policy: change.key.clone(),
        at: change.source.clone(),
        held_back,
        before: spec(&change.before),
        after: spec(&change.after),
    })
}
