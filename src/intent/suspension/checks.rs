//! What is looked at before anything is written: what makes a suspension impossible or harmful, and what a person should know.

use super::hold::managers;
use super::{Holders, Machine, NotKnown, is_own, listed, names, workload};
use crate::api::{Finding, PolicyName};
use crate::karmada::{DispatchSuspension, PropagationPolicy, ResourceBinding};

impl Machine<'_> {
    /// Returns what makes it impossible, or harmful to others.
    pub(super) fn refused(
        &self,
        name: &PolicyName,
        policy: &PropagationPolicy,
        bindings: &[ResourceBinding],
    ) -> Result<Vec<Finding>, NotKnown> {
        let spec = self.input.spec;
        let mut found = Vec::new();
        if let Some(workload) = spec
            .target
            .workload
            .as_ref()
            .filter(|workload| !is_own(policy, workload))
        {
            let others: Vec<String> = names(bindings)
                .into_iter()
                .filter(|(reference, _)| reference.name != workload.name || reference.kind != workload.kind)
                .map(|(_, key)| key.to_string())
                .collect();
            let others = if others.is_empty() {
                "others that may come".to_owned()
            } else {
                listed(&others)
            };
            found.push(Finding::new(
                "SharedPolicy",
                format!(
                    "{name} is not the workload's own: suspended there, {others} would be suspended too; on the binding \
                     alone, Karmada drops it at the next change of the template, and the change goes out"
                ),
                "give the workload a policy that names it alone, or suspend the whole policy: target.policy",
            ));
        }
        if policy.spec.activation_preference.as_deref() == Some("Lazy") && spec.scope.dispatching() {
            found.push(Finding::new(
                "LazyPolicy",
                format!(
                    "{name} is lazy: what it says reaches its workloads only when their templates change"
                ),
                "take activationPreference off the policy",
            ));
        }
        let joined = self.world().clusters.get()?;
        for cluster in spec.clusters.iter().filter(|cluster| !joined.contains(cluster)) {
            let known: Vec<String> = joined.iter().map(ToString::to_string).collect();
            found.push(Finding::new(
                "UnknownCluster",
                format!("{cluster} is not a cluster of this control plane"),
                format!("there is {}", listed(&known)),
            ));
        }
        let foreign = policy.spec.suspension.as_ref();
        let foreign = foreign.filter(|there| **there != DispatchSuspension::default());
        if foreign.is_some() && spec.scope.dispatching() && Holders::of(&policy.metadata)?.is_empty() {
            found.push(Finding::new(
                "SuspendedElsewhere",
                format!("{name} is suspended already, by {}", who(policy)),
                "take spec.suspension off the policy, in Git if it stands there",
            ));
        }
        for binding in bindings.iter().filter(|_| spec.scope.scheduling()) {
            if binding.spec.scheduling_suspended()
                && Holders::of(&binding.metadata)?.is_empty()
                && self.claim_of(binding)?.is_none()
            {
                found.push(Finding::new(
                    "SuspendedElsewhere",
                    format!(
                        "scheduling of {} is suspended already, by somebody else",
                        workload(&binding.spec.resource)
                    ),
                    "end that suspension first: it would be lifted at the end of this one",
                ));
            }
        }
        Ok(found)
    }

    /// Returns what a person should know, though it stands in no way.
    pub(super) fn remarks(
        &self,
        name: &PolicyName,
        policy: &PropagationPolicy,
        bindings: &[ResourceBinding],
    ) -> Vec<Finding> {
        let spec = self.input.spec;
        let mut found = Vec::new();
        if spec.target.policy.is_some() && bindings.len() > 1 {
            let all: Vec<String> = names(bindings)
                .into_iter()
                .map(|(_, key)| key.to_string())
                .collect();
            found.push(Finding::new(
                "SuspendsSeveral",
                format!("{name} is shared: it suspends {}", listed(&all)),
                "give a workload a policy of its own to suspend it alone",
            ));
        }
        if policy.spec.propagate_deps && spec.scope.dispatching() {
            found.push(Finding::new(
                "DependenciesGoOut",
                format!("{name} propagates dependencies, which are not suspended: changes of ConfigMaps, Secrets and the \
                     like that its workloads use still reach the members"),
                "suspend a policy that selects them, or leave them alone",
            ));
        }
        found
    }
}

fn who(policy: &PropagationPolicy) -> String {
    let managers = managers(policy);
    if managers.is_empty() {
        "somebody unknown".to_owned()
    } else {
        managers.join(", ")
    }
}
