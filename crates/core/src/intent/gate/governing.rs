//! Which policy places a workload, as Karmada's detector chooses it.

use std::cmp::Reverse;

use serde_json::Value;

use crate::api::PolicyName;
use cutover_karmada::{PropagationSpec, ResourceSelector, Specificity};

/// A policy that selects a workload, and how closely.
type Candidate<'a> = (&'a PolicyName, &'a PropagationSpec, Specificity);

/// Returns the policy that places a workload, of all that there are: its own, unless another one takes it over; any that selects it,
/// when it has none.
pub fn governing<'a>(
    own: Option<&PolicyName>,
    namespace: Option<&str>,
    template: &Value,
    policies: impl IntoIterator<Item = (&'a PolicyName, &'a PropagationSpec)>,
) -> Option<(&'a PolicyName, &'a PropagationSpec)> {
    let selecting: Vec<Candidate<'a>> = policies
        .into_iter()
        .filter_map(|(name, spec)| Some((name, spec, selects(name, spec, namespace, template)?)))
        .collect();
    let own = selecting.iter().find(|(name, ..)| Some(*name) == own);
    let takes = |candidate: &&Candidate<'a>| own.is_none_or(|own| preempts(candidate, own));
    let rank =
        |(name, spec, how): &&Candidate<'a>| (name.namespace.is_some(), spec.priority, *how, Reverse(*name));
    let best = selecting.iter().filter(takes).max_by_key(rank);
    best.or(own).map(|(name, spec, _)| (*name, *spec))
}

/// Returns whether a policy takes a workload from the one that has it.
fn preempts((name, spec, _): &Candidate<'_>, (own, own_spec, _): &Candidate<'_>) -> bool {
    spec.preemption == "Always"
        && match (name.namespace.is_some(), own.namespace.is_some()) {
            (true, false) => true,
            (false, true) => false,
            _ => spec.priority > own_spec.priority,
        }
}

/// Returns how closely a policy selects a workload, if it does.
pub(super) fn selects(
    name: &PolicyName,
    spec: &PropagationSpec,
    namespace: Option<&str>,
    template: &Value,
) -> Option<Specificity> {
    let in_reach = name.namespace.is_none() || name.namespace.as_deref() == namespace;
    let how = in_reach.then(|| ResourceSelector::closest(&spec.resource_selectors, template));
    how.flatten()
}
