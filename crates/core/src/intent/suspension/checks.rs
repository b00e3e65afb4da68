//! What is looked at before anything is written: what makes a suspension impossible or harmful, and what a person should know.

use std::collections::BTreeSet;

use super::hold::managers;
use super::pin::why_not;
use super::{Interrupt, Operation, carries, listed, names, workload};
use crate::api::{Finding, PolicyName};
use crate::intent::holders::Holders;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{DispatchSuspension, PropagationPolicy, ResourceBinding};

impl Operation<'_> {
    /// Returns whether a pin has to carry what the policy can't.
    pub(super) fn is_by_pin(&self, policy: &PropagationPolicy) -> bool {
        let spec = self.input.spec;
        let workload = spec.target.workload.as_ref();
        spec.scope.dispatching() && workload.is_some_and(|workload| !carries(policy, workload))
    }

    /// Returns what makes it impossible, or harmful to others.
    pub(super) fn refused(
        &self,
        name: &PolicyName,
        policy: &PropagationPolicy,
        bindings: &[ResourceBinding],
        by_pin: bool,
    ) -> Result<Vec<Finding>, Interrupt> {
        let spec = self.input.spec;
        let by_policy = spec.scope.dispatching() && !by_pin;
        let mut found = Vec::new();
        let pins_for = spec.target.workload.as_ref().filter(|_| by_pin);
        if let Some(workload) = pins_for
            && (self.snapshot().parent.is_some() || !self.can_be_pinned()?)
        {
            let about = if self.snapshot().parent.is_some() {
                "what another intent has claimed".to_owned()
            } else {
                format!("a {}, which is not made of a spec alone", workload.kind)
            };
            found.push(Finding::new(
                "SharedPolicy",
                why_not(name, &about),
                "give the workload a policy that names it alone, or suspend the whole policy: target.policy",
            ));
        }
        if policy.spec.activation_preference.as_deref() == Some("Lazy") && by_policy {
            found.push(Finding::new(
                "LazyPolicy",
                format!("{name} is lazy: its changes reach its workloads only when their templates change"),
                "take activationPreference off the policy",
            ));
        }
        let joined = self.snapshot().clusters.get()?;
        for cluster in spec.clusters.iter().filter(|cluster| !joined.contains(cluster)) {
            found.push(unknown(cluster, joined));
        }
        let foreign = policy.spec.suspension.as_ref();
        let foreign = foreign.filter(|there| **there != DispatchSuspension::default());
        if foreign.is_some() && by_policy && Holders::of(&policy.metadata)?.is_empty() {
            found.push(Finding::new(
                "SuspendedElsewhere",
                format!("{name} is suspended already, by {}", who(policy)),
                "remove spec.suspension from the policy, in Git if it is defined there",
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
                        "scheduling of {} is suspended already, by another client",
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
        by_pin: bool,
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
        if by_pin {
            found.push(Finding::new(
                "HeldByPin",
                format!(
                    "{name} cannot carry the suspension without suspending other workloads, so a pin keeps the workload as it is: \
                     Karmada still reverts what other clients change in a member, and still writes the template's generation to the \
                     copies, which raises the generation of a Deployment's copies without changing what they run"
                ),
                "give the workload a policy that names it alone: then no write at all reaches the members",
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

fn unknown(cluster: &ClusterName, joined: &BTreeSet<ClusterName>) -> Finding {
    let known: Vec<String> = joined.iter().map(ToString::to_string).collect();
    Finding::new(
        "UnknownCluster",
        format!("{cluster} is not a cluster of this control plane"),
        format!("the clusters are {}", listed(&known)),
    )
}

fn who(policy: &PropagationPolicy) -> String {
    let managers = managers(policy);
    if managers.is_empty() {
        "an unknown client".to_owned()
    } else {
        managers.join(", ")
    }
}
