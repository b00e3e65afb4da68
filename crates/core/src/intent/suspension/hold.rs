//! Puts a suspension up, keeps it up, takes it off: by compare-and-swap on the policy and on the bindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{AT_ONCE, Interrupt, NotKnown, Operation, Phase, binding_id, covered, workload};
use crate::api::{Contested, Finding, PolicyName, SuspensionSpec};
use crate::intent::effect::{Effect, Exactly};
use crate::intent::holders::Holders;
use crate::intent::owners;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{PropagationPolicy, ResourceBinding};

/// The name of no cluster: what is suspended for it is suspended for all.
const ANY: &str = "";

impl Operation<'_> {
    /// Puts up whatever is missing; says who took it away.
    pub(super) fn hold(&mut self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let (spec, name) = (journal.spec.clone(), journal.policy.clone());
        if journal.pin.is_some() {
            self.hold_by_pin()?;
        } else if spec.scope.dispatching() {
            let Some(policy) = self.snapshot().policy.get()?.clone() else {
                return Err(Interrupt::Wait(format!(
                    "{name} is gone: there is nothing to suspend"
                )));
            };
            let there = Holders::of(&policy.metadata)?;
            let was_there = there.contains(self.input.uid);
            let with_own = |holders: Holders| holders.with(self.input.uid, self.own_name(), &spec);
            // What another one has left behind is nobody's doing.
            let undone = with_own(there.clone()).on_policy(&policy)?.is_some();
            if let Some(patch) = with_own(self.alive(there)?).on_policy(&policy)? {
                let told = undone && self.status.phase == Phase::Suspended;
                if told && self.told_off(&name, &policy, was_there) {
                    return Err(Interrupt::Requeue);
                }
                return Err(Interrupt::Act(vec![patch_policy(
                    "suspend dispatching",
                    &policy,
                    patch,
                )]));
            }
        }
        if spec.scope.scheduling() {
            let mut effects = Vec::new();
            for binding in self.snapshot().bindings.get()? {
                let holders = self.alive(Holders::of(&binding.metadata)?)?;
                let holders = holders.with(self.input.uid, self.own_name(), &spec);
                if let Some(patch) = holders.on_binding(binding, false)? {
                    effects.push(patch_binding("suspend scheduling", binding, patch));
                }
            }
            if !effects.is_empty() {
                // Whatever was proved before was proved of other bindings.
                if self.journal()?.fence.over.is_some() {
                    return self.renew_barrier(None);
                }
                effects.truncate(AT_ONCE);
                return Err(Interrupt::Act(effects));
            }
            self.past_scheduler()?;
        }
        Ok(())
    }

    /// Takes off what is this intent's alone, and waits until it shows.
    pub(super) fn release(&mut self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let (spec, by_pin) = (journal.spec.clone(), journal.pin.is_some());
        let mut left = None;
        if by_pin {
            self.take_pin_off()?;
        }
        // A policy that is gone has taken its part along; what it propagated is nobody's until another one takes it up.
        if let Some(policy) = self.snapshot().policy.get()? {
            let holders = self
                .alive(Holders::of(&policy.metadata)?)?
                .without(self.input.uid);
            left = holders.dispatching();
            if Holders::of(&policy.metadata)?.contains(self.input.uid)
                && let Some(patch) = holders.on_policy(policy)?
            {
                return Err(Interrupt::Act(vec![patch_policy(
                    "resume dispatching",
                    policy,
                    patch,
                )]));
            }
        }
        let mut effects = Vec::new();
        for binding in self
            .snapshot()
            .bindings
            .get()?
            .iter()
            .filter(|_| spec.scope.scheduling())
        {
            let there = Holders::of(&binding.metadata)?;
            if !there.contains(self.input.uid) {
                continue;
            }
            let claimed = self.claim_of(binding)?.is_some();
            if let Some(patch) = self
                .alive(there)?
                .without(self.input.uid)
                .on_binding(binding, claimed)?
            {
                effects.push(patch_binding("resume scheduling", binding, patch));
            }
        }
        if !effects.is_empty() {
            effects.truncate(AT_ONCE);
            return Err(Interrupt::Act(effects));
        }
        if spec.scope.scheduling() {
            self.remove_canary()?;
        }
        if self.snapshot().policy.get()?.is_none() || !spec.scope.dispatching() || by_pin {
            return Ok(());
        }
        self.shows(&spec, |cluster| {
            left.as_ref().is_some_and(|left| left.covers(cluster.as_str()))
        })
    }

    pub(super) fn is_in_force(&self) -> Result<(), Interrupt> {
        let spec = &self.journal()?.spec;
        // With a pin, the markers have said so.
        if !spec.scope.dispatching() || self.journal()?.pin.is_some() {
            return Ok(());
        }
        if self.snapshot().bindings.get()?.is_empty() {
            // What it will compute for the first one, it may compute from the policy as it was.
            return Err(Interrupt::Wait(format!(
                "no workload follows {} yet, so nothing shows that Karmada has observed it",
                self.journal()?.policy
            )));
        }
        self.shows(spec, |_| true)
    }

    /// Every binding and every Work says what the policy says of its cluster, and who writes to the members has seen it. From
    /// then on Karmada computes nothing from an older policy, and sends nothing older: its caches don't go back.
    fn shows(
        &self,
        spec: &SuspensionSpec,
        is_suspended: impl Fn(&ClusterName) -> bool,
    ) -> Result<(), Interrupt> {
        let works = self.snapshot().works.get()?;
        for binding in self.snapshot().bindings.get()? {
            let workload = workload(&binding.spec.resource);
            // One that is in none of the clusters yet has to follow as well.
            let clusters = covered(spec, binding);
            let named = if spec.clusters.is_empty() && clusters.is_empty() {
                vec![ClusterName::new(ANY)]
            } else if spec.clusters.is_empty() {
                clusters.clone()
            } else {
                spec.clusters.clone()
            };
            let follows = |cluster: &ClusterName| {
                binding.spec.dispatching_suspended(cluster.as_str()) == is_suspended(cluster)
            };
            if !named.iter().all(follows) {
                return Err(Interrupt::Wait(format!(
                    "the binding of {workload} does not follow its policy yet"
                )));
            }
            for cluster in clusters {
                let wanted = is_suspended(&cluster);
                let id = binding_id(binding).unwrap_or_default().to_owned();
                let Some(work) = works.get(&(id, cluster.clone())) else {
                    return Err(Interrupt::Wait(format!(
                        "{workload} has no Work for {cluster} yet"
                    )));
                };
                if work.spec.suspend_dispatching.unwrap_or_default() != wanted {
                    return Err(Interrupt::Wait(format!(
                        "the Work of {workload} for {cluster} does not follow its binding yet"
                    )));
                }
                // What the Work says, the controller that writes to the member may not have read yet.
                if work.is_held().unwrap_or_default() != wanted {
                    return Err(Interrupt::Wait(format!(
                        "Karmada has not observed the Work of {workload} for {cluster} yet"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Leaves out whose intent is gone: nobody else would ever take them off.
    pub(super) fn alive(&self, holders: Holders) -> Result<Holders, NotKnown> {
        Ok(holders.only(self.snapshot().suspensions.get()?))
    }

    /// Notes that somebody has changed the suspension; returns whether that is news.
    fn told_off(&mut self, name: &PolicyName, policy: &PropagationPolicy, was_there: bool) -> bool {
        // One that was tried already, or is the doing of another suspension that comes or goes.
        if self.input.trouble.is_some() {
            return false;
        }
        let (object, field) = (name.to_string(), "/spec/suspension".to_owned());
        let foreign: Vec<String> = managers(policy)
            .into_iter()
            .filter(|manager| manager != crate::api::INTENT_MANAGER)
            .collect();
        let managers = if foreign.is_empty() {
            vec!["unknown: the field has no owner any more".to_owned()]
        } else {
            foreign
        };
        let mut known = self.status.contested.iter();
        let before = known.find(|known| known.object == object && known.field == field);
        let version = policy.metadata.resource_version.clone().unwrap_or_default();
        let finding = Finding::new(
            "PutBack",
            format!(
                "{name}: {} was changed by {} (version {version}), and is put back",
                if was_there {
                    "spec.suspension"
                } else {
                    "the suspension with its annotation"
                },
                managers.join(", "),
            ),
            "end the suspension in Git: cutover resume",
        );
        if self.status.common.findings.contains(&finding) {
            return false;
        }
        let times = before.map_or(0, |known| known.times) + 1;
        self.contest(Contested {
            object,
            field,
            managers,
            times,
        });
        self.status
            .common
            .findings
            .retain(|finding| finding.code != "PutBack");
        self.status.common.findings.push(finding);
        true
    }
}

/// Returns what takes off a policy what intents hold there that are not among those `alive`, if any does.
pub fn policy_without_dead(
    policy: &PropagationPolicy,
    alive: &BTreeSet<String>,
) -> Result<Option<Effect>, NotKnown> {
    let there = Holders::of(&policy.metadata)?;
    let left = there.clone().only(alive);
    if left == there {
        return Ok(None);
    }
    let patch = left.on_policy(policy)?;
    Ok(patch.map(|patch| patch_policy("take off what an intent left that is gone", policy, patch)))
}

/// The same for a binding; `claimed`: another intent has suspended its scheduling too, and resumes it.
pub fn binding_without_dead(
    binding: &ResourceBinding,
    alive: &BTreeSet<String>,
    claimed: bool,
) -> Result<Option<Effect>, NotKnown> {
    let there = Holders::of(&binding.metadata)?;
    let left = there.clone().only(alive);
    if left == there {
        return Ok(None);
    }
    let patch = left.on_binding(binding, claimed)?;
    Ok(patch.map(|patch| patch_binding("take off what an intent left that is gone", binding, patch)))
}

/// Returns who owns the suspension of a policy, the one that wrote last first.
pub(super) fn managers(policy: &PropagationPolicy) -> Vec<String> {
    owners::managers(&json!({"metadata": policy.metadata}), "/spec/suspension")
}

fn patch_policy(why: &'static str, policy: &PropagationPolicy, patch: Vec<Value>) -> Effect {
    Effect::PatchPolicy {
        why,
        policy: exactly(&policy.metadata),
        patch,
    }
}

fn patch_binding(why: &'static str, binding: &ResourceBinding, patch: Vec<Value>) -> Effect {
    Effect::PatchBinding {
        why,
        binding: exactly(&binding.metadata),
        patch,
        rehearse: false,
    }
}

/// As it was read: what stands on an object is changed by whoever saw it last.
fn exactly(meta: &kube::core::ObjectMeta) -> Exactly {
    Exactly {
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone(),
    }
}
