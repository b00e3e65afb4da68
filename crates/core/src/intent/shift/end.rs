//! The end: what was asked for afterwards, and the pin, which goes when the policies say the same without it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::predict::{Before, predicted};
use super::{Interrupt, LATER, Next, Operation, Phase, SELDOM, suspension_name};
use crate::api::{self, Finding, Suspension, SuspensionPhase};
use crate::intent::custody;
use crate::intent::effect::Effect;
use crate::intent::fence::observed_generation;
use crate::intent::pin;
use crate::intent::replicas::replicas_of;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ClusterOverridePolicy, OverridePolicy, Placement, meta, overrides};

impl Operation<'_> {
    /// The Suspension that was asked for is in force: it stays when this intent has ended, until a person ends it.
    pub(super) fn suspending(&mut self) -> Result<Next, Interrupt> {
        self.stand()?;
        let name = suspension_name(self.input.name);
        let Some(suspension) = self.snapshot().suspension.get()? else {
            return Err(Interrupt::Act(vec![Effect::CreateIntent {
                manifest: Box::new(self.suspension(&name)?),
            }]));
        };
        if !self.is_ours(suspension) {
            return Err(Interrupt::Wait(format!(
                "there is a Suspension {name} of another client: remove it, or end it and rename it"
            )));
        }
        let status = suspension.status.clone().unwrap_or_default();
        let evidence = match status.phase {
            SuspensionPhase::Suspended => format!("Suspension {name} is in force"),
            SuspensionPhase::Completed | SuspensionPhase::Aborted => {
                format!("Suspension {name} was ended already")
            }
            SuspensionPhase::Failed => {
                let why = status.common.findings.first();
                let why = why.map_or("it does not say why", |finding| finding.message.as_str());
                self.status.common.findings.push(Finding::new(
                    "NotSuspended",
                    format!("Suspension {name} has failed: {why}"),
                    "suspend the workload by hand: cutover suspend",
                ));
                format!("Suspension {name} has failed")
            }
            SuspensionPhase::Pending | SuspensionPhase::Suspending | SuspensionPhase::Resuming => {
                let why = status.common.waiting_for.map(|wait| wait.reason);
                return Err(Interrupt::Wait(format!(
                    "Suspension {name} to be in force: {}",
                    why.unwrap_or_else(|| status.phase.to_string())
                )));
            }
        };
        Ok(Next::Enter(Phase::Shifted, vec![evidence]))
    }

    fn suspension(&self, name: &str) -> Result<serde_json::Value, Interrupt> {
        let spec = &self.journal()?.spec;
        Ok(json!({
            "apiVersion": api::API_VERSION, "kind": "Suspension",
            "metadata": {
                "name": name, "namespace": self.input.namespace, "labels": {pin::OWNER_LABEL: self.input.uid},
            },
            "spec": {
                "target": {"workload": spec.workload}, "clusters": spec.then.suspend,
                "reason": format!(
                    "ReplicaShift {}/{} has moved its replicas to {}",
                    self.input.namespace.unwrap_or_default(), self.input.name, spec.to
                ),
            },
        }))
    }

    pub(super) fn is_ours(&self, suspension: &Suspension) -> bool {
        let labels = suspension.metadata.labels.as_ref();
        labels.is_some_and(|labels| {
            labels
                .get(pin::OWNER_LABEL)
                .is_some_and(|uid| uid == self.input.uid)
        })
    }

    /// The replicas have gone. The pin stays as long as something would change without it.
    pub(super) fn shifted(&mut self) -> Result<Next, Interrupt> {
        self.requeue_after = Some(LATER);
        if !self.journal()?.pin.unpinning && !self.journal()?.fence.lowered {
            self.follow_scale()?;
            self.stand()?;
        }
        let outcome = self.finish(Phase::Completed);
        if matches!(outcome, Err(Interrupt::Wait(_))) && !self.journal()?.fence.lowered {
            self.requeue_after = Some(SELDOM);
        }
        outcome
    }

    /// While it rests, what Git changes of the workload goes through, for that is what it waits for. Where the template runs
    /// itself, only once Git has no other replicas than it has: they would come back.
    pub(super) fn is_standing(&self) -> Result<bool, Interrupt> {
        // Only a claim that lists the clusters lets the API server refuse what the scheduler has queued.
        let fence = &self.journal()?.fence;
        let needs_barrier = fence.barrier.is_none() && !fence.lowered;
        if self.status.phase != Phase::Shifted || needs_barrier {
            return Ok(false);
        }
        match self.journal()?.template_wanted {
            None => Ok(true),
            Some(wanted) => {
                let in_git = self.snapshot().wanted_in_git.get()?;
                Ok(in_git.is_none_or(|in_git| in_git == wanted))
            }
        }
    }

    /// Somebody has scaled the template: what has the replicas now gets more or fewer.
    fn follow_scale(&mut self) -> Result<(), Interrupt> {
        if self.journal()?.template_wanted.is_some() {
            return Ok(());
        }
        let now = replicas_of(self.template()?);
        let now = now.ok_or_else(|| Interrupt::Wait("the template's replicas are no number".to_owned()))?;
        let before = self.journal()?.template_replicas;
        if now == before {
            return Ok(());
        }
        let divides = self
            .binding()?
            .spec
            .placement
            .as_ref()
            .is_some_and(Placement::divides);
        let journal = self.journal_mut()?;
        let to = journal.spec.to.clone();
        let from = journal.spec.from.cluster.clone();
        for (cluster, wanted) in &mut journal.wanted {
            let follows = if divides {
                *cluster == to
            } else {
                from.as_ref() != Some(cluster)
            };
            if follows {
                *wanted = (*wanted + now).saturating_sub(before);
            }
        }
        // On the way back it is the same for those that had the replicas.
        for (cluster, start) in &mut journal.start {
            let follows = if divides {
                from.as_ref() == Some(cluster)
            } else {
                *start > 0
            };
            if follows {
                *start = (*start + now).saturating_sub(before);
            }
        }
        let total = total(&journal.wanted, None);
        journal.floor = journal.spec.floor.of(total).min(total);
        journal.template_replicas = now;
        journal.pin.renew();
        Err(Interrupt::Requeue)
    }

    /// Scheduler on, pin off, claim given up: in this order, and only when that changes no replicas anywhere.
    pub(super) fn finish(&mut self, end: Phase) -> Result<Next, Interrupt> {
        if !self.journal()?.pin.unpinning {
            if self.journal()?.pin.pinned || self.has_pin()? {
                let listed = self.needless()?;
                self.resume_scheduling()?;
                self.settled_on(&listed)?;
            } else if self.journal()?.fence.suspending.is_some() {
                self.resume_scheduling()?;
            }
            self.journal_mut()?.pin.unpinning = true;
            return Ok(Next::Requeue);
        }
        let (works, binding) = (
            self.snapshot().plane.works.get()?,
            self.snapshot().plane.binding.get()?.as_ref(),
        );
        let own = self.custody();
        own.unpin()?;
        own.are_unmarked(custody::up_to_date(binding, works))?;
        self.remove_canary()?;
        own.give_up()?;
        let reason = self.journal()?.back.as_ref().map(|back| back.reason.clone());
        let mut evidence: Vec<String> = reason.into_iter().collect();
        evidence.push("no pin, no suspended scheduling, no claim is left".to_owned());
        self.end(end, evidence);
        Ok(Next::Requeue)
    }

    /// Returns the clusters that the scheduler will list, once it is known that without the pin each of them gets what it has.
    fn needless(&mut self) -> Result<BTreeSet<ClusterName>, Interrupt> {
        let needless = self.without_pin();
        if let Err(Interrupt::Wait(_)) = &needless
            && self.journal()?.fence.lowered
        {
            self.journal_mut()?.fence.lowered = false;
            return Err(Interrupt::Requeue);
        }
        needless
    }

    fn without_pin(&self) -> Result<BTreeSet<ClusterName>, Interrupt> {
        let (binding, template) = (self.binding()?, self.template()?);
        let clusters = self.snapshot().plane.clusters.get()?;
        let journal = self.journal()?;
        let before = Before {
            placement: &journal.placement,
            replicas: journal.template_replicas,
            listed: &journal.listed,
        };
        let next = predicted(&binding.spec, clusters, before)
            .map_err(|why| Interrupt::Wait(format!("the pin stays: {why}")))?;
        self.works_are_current()?;
        let works = self.snapshot().plane.works.get()?;
        let all = self.other_overrides()?;
        for (name, share) in &next {
            let held = binding.spec.dispatching_suspended(name.as_str())
                && works.get(name).is_some_and(|work| work.is_held() == Some(true));
            let Some(cluster) = clusters.get(name).filter(|_| !held) else {
                continue;
            };
            let mut manifest = template.clone();
            manifest["spec"]["replicas"] = json!(share);
            let becomes = overrides::effective(&manifest, cluster, &all.0, &all.1);
            let becomes = becomes.map_err(|error| Interrupt::Wait(error.to_string()))?;
            let gets = replicas_of(&becomes);
            let has = journal.wanted.get(name).copied().unwrap_or_default();
            if gets != Some(has) {
                return Err(Interrupt::Wait(format!(
                    "the pin stays: without it {name} would have {} replicas and not {has}; change the policies in Git so that \
                     they say the same",
                    gets.map_or_else(|| "other".to_owned(), |gets| gets.to_string())
                )));
            }
        }
        let lost = journal
            .wanted
            .iter()
            .find(|(name, has)| **has > 0 && !next.contains_key(*name));
        if let Some((name, has)) = lost {
            return Err(Interrupt::Wait(format!(
                "the pin stays: the policy doesn't keep the {has} replicas in {name}; add the cluster to its placement"
            )));
        }
        Ok(next.into_keys().collect())
    }

    /// Karmada computes Works from caches: one made from an older template would show through when the pin goes.
    fn works_are_current(&self) -> Result<(), Interrupt> {
        let current = self
            .template()?
            .pointer("/metadata/generation")
            .map(ToString::to_string);
        for (cluster, work) in self.snapshot().plane.works.get()? {
            match (work.manifest_annotation(meta::TEMPLATE_GENERATION), &current) {
                (Some(made_from), Some(current)) if made_from != current => {
                    return Err(Interrupt::Wait(format!(
                        "{cluster}: the Work to be made from the current template"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The scheduler has looked at the binding, and lists what was expected. Else it is kept off again, with the pin on.
    fn settled_on(&mut self, expected: &BTreeSet<ClusterName>) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let generation = binding.metadata.generation.unwrap_or_default();
        if observed_generation(binding) < generation {
            return Err(Interrupt::Wait(
                "the scheduler to look at the resumed binding".to_owned(),
            ));
        }
        let listed: BTreeSet<ClusterName> = binding
            .spec
            .clusters
            .iter()
            .map(|cluster| cluster.name.clone())
            .collect();
        if listed == *expected && binding.spec.graceful_eviction_tasks.is_empty() {
            return Ok(());
        }
        self.journal_mut()?.fence.lowered = false;
        Err(Interrupt::Requeue)
    }

    /// Returns every override policy but the pin.
    pub(super) fn other_overrides(
        &self,
    ) -> Result<(Vec<ClusterOverridePolicy>, Vec<OverridePolicy>), Interrupt> {
        let all = self.snapshot().plane.overrides.get()?;
        let name = pin::name(self.workload());
        let mut namespaced = all.namespaced.to_vec();
        namespaced.retain(|policy| policy.metadata.name.as_deref() != Some(&name));
        Ok((all.cluster_wide.to_vec(), namespaced))
    }
}

/// Returns how many replicas there are in all.
pub(super) fn total(wanted: &BTreeMap<ClusterName, u32>, template: Option<u32>) -> u32 {
    wanted
        .values()
        .copied()
        .chain(template)
        .fold(0, u32::saturating_add)
}
