//! Keeps changes from clusters by a pin, where the policy can't carry the suspension: what each of them has is set over
//! whatever the template becomes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::keep::{Keep, is_holdable, kept, without_pin};
use super::{Interrupt, Operation, PATIENCE, binding_id, covered};
use crate::api::{Claim, PinnedRule, PolicyName, SuspensionPin, claim_name};
use crate::intent::ControlPlane;
use crate::intent::custody::{self, Custody, Guest, Patience, Terms};
use crate::intent::pin::{self, Pin, Rule, Says};
use crate::intent::record::digest;
use crate::intent::seen::NotKnown;
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Placement, ResourceBinding, Work};

impl<'a> Operation<'a> {
    /// Returns whether a pin could hold the workload; unknown is waited for.
    pub(super) fn can_be_pinned(&self) -> Result<bool, Interrupt> {
        let template = self.pin_context()?.template.get()?.as_ref();
        let template = template.ok_or_else(|| Interrupt::Wait("the workload is not there yet".to_owned()))?;
        Ok(is_holdable(template))
    }

    /// Claim, pin and markers say what the journal says: from then on every Work is made under the pin.
    pub(super) fn hold_by_pin(&mut self) -> Result<(), Interrupt> {
        self.same_binding()?;
        let guest = self.guest()?;
        match &guest {
            Some(guest) => guest.enter()?,
            None => self.claim()?,
        }
        self.note_what_is_kept(guest.as_ref())?;
        let rules = self.rules()?;
        let said = digest(&json!(format!("{rules:?}")));
        if self.pinning()?.rules != said {
            let written = self.pinning()?.state.pinned || self.pin_context()?.pin.get()?.is_some();
            let journal = self.pinning_mut()?;
            journal.rules = said;
            if written {
                journal.state.renew();
            }
            return Err(Interrupt::Requeue);
        }
        match guest {
            Some(guest) => self.hold_as_guest(&guest, rules),
            None => {
                self.pin(rules)?;
                self.markers()
            }
        }
    }

    /// Where a plan guards the workload, its pin includes what this one says.
    fn guest(&self) -> Result<Option<Guest<'a>>, Interrupt> {
        let host = self.pinning()?.host.as_ref();
        Ok(self.custody()?.guest(host)?)
    }

    fn hold_as_guest(&mut self, guest: &Guest<'_>, rules: Vec<Rule>) -> Result<(), Interrupt> {
        let said: Vec<PinnedRule> = rules.iter().cloned().map(PinnedRule::from).collect();
        self.is_effective(&self.compile(rules)?)?;
        guest.says(&said)?;
        if self.pinning()?.host.is_none() {
            self.pinning_mut()?.host = Some(guest.host().clone());
            return Err(Interrupt::Requeue);
        }
        let Some(binding) = self.snapshot().bindings.get()?.first() else {
            return Ok(());
        };
        let covered = covered(&self.journal()?.spec, binding);
        let (works, id) = (self.snapshot().works.get()?, &self.pinning()?.binding_id);
        Ok(guest.markers(&covered, |cluster| works.get(&(id.clone(), cluster.clone())))?)
    }

    /// What the guard gives a copy, a hold or a state, is not to be kept: a guest keeps what the cluster would have without a pin.
    fn without_guard(&self, binding: &ResourceBinding, cluster: &ClusterName) -> Result<Value, Interrupt> {
        let (pin_context, key) = (self.pin_context()?, self.pinned_workload()?);
        let template = pin_context.template.get()?.as_ref();
        let joined = pin_context.clusters.get()?.get(cluster);
        let mut targets = binding.spec.synced_clusters().into_iter();
        let target = targets.find(|target| target.name == *cluster);
        let (Some(template), Some(joined), Some(target)) = (template, joined, target) else {
            return Err(Interrupt::Wait(format!("{cluster} is not joined")));
        };
        let name = (key.namespace.as_deref(), &*pin::name(&key));
        let made = without_pin(template, &target, joined, pin_context.overrides.get()?, name);
        made.ok_or_else(|| Interrupt::Wait(format!("{cluster}: an override policy can't be applied")))
    }

    /// One that was deleted and made anew has another id, and its Works carry that one.
    fn same_binding(&mut self) -> Result<(), Interrupt> {
        let Some(binding) = self.snapshot().bindings.get()?.first() else {
            return Err(Interrupt::Wait("the workload has no binding".to_owned()));
        };
        let id = binding_id(binding)
            .ok_or_else(|| Interrupt::Wait("Karmada has not marked the binding yet".to_owned()))?;
        if id == self.pinning()?.binding_id {
            return Ok(());
        }
        let journal = self.pinning_mut()?;
        id.clone_into(&mut journal.binding_id);
        journal.state.renew();
        Err(Interrupt::Requeue)
    }

    fn custody(&self) -> Result<Custody<'a>, Interrupt> {
        let (key, pin_context) = (self.pinned_workload()?, self.pin_context()?);
        Ok(Custody {
            owner: self.input.owner("Suspension"),
            attempt: self.status.common.attempt,
            claim: self.claim_on(&key),
            workload: Cow::Owned(key),
            pin: pin_context.pin.get().map(Option::as_ref),
            versions: pin_context.overrides.get().map(|all| Arc::clone(&all.versions)),
        })
    }

    fn claim(&self) -> Result<(), Interrupt> {
        let journal = self.pinning()?;
        let terms = Terms {
            binding_id: journal.binding_id.clone(),
            shared: true,
            // Sync changes the template as ever: the pin keeps that from the clusters.
            guards: true,
            ..Terms::default()
        };
        Ok(self.custody()?.claim(&journal.state, terms)?)
    }

    /// What a cluster has is what stands in its Work, with the replicas that the scheduler gave it.
    fn note_what_is_kept(&mut self, guest: Option<&Guest<'_>>) -> Result<(), Interrupt> {
        if self.pinning()?.base.is_some() {
            return Ok(());
        }
        let template = self.pin_context()?.template.get()?.as_ref();
        let template = template.ok_or_else(|| Interrupt::Wait("the template is gone".to_owned()))?;
        let (works, bindings) = (self.snapshot().works.get()?, self.snapshot().bindings.get()?);
        let Some(binding) = bindings.first() else {
            return Err(Interrupt::Wait("the workload has no binding".to_owned()));
        };
        if let Some(guest) = guest {
            guest.rests(&custody::synced(binding))?;
        }
        let mut base = kept(template, template);
        // To a cluster that is chosen while it is held, the scheduler gives replicas that run elsewhere still.
        if binding.spec.placement.as_ref().is_some_and(Placement::divides)
            && let Some(replicas) = base.pointer_mut("/spec/replicas")
        {
            *replicas = 0.into();
        }
        let id = self.pinning()?.binding_id.clone();
        let mut held = Vec::new();
        let mut apart = BTreeMap::new();
        for cluster in covered(&self.journal()?.spec, binding) {
            let work = works.get(&(id.clone(), cluster.clone()));
            let Some(manifest) = work.and_then(Work::manifest) else {
                return Err(Interrupt::Wait(format!("{cluster}: no Work yet")));
            };
            let there = match guest {
                Some(_) => kept(&self.without_guard(binding, &cluster)?, template),
                None => kept(manifest, template),
            };
            if there != base {
                apart.insert(cluster.clone(), there);
            }
            held.push(cluster);
        }
        let journal = self.pinning_mut()?;
        (journal.base, journal.held, journal.kept) = (Some(base), held, apart);
        Err(Interrupt::Requeue)
    }

    fn rules(&self) -> Result<Vec<Rule>, Interrupt> {
        let (journal, pin_context) = (self.pinning()?, self.pin_context()?);
        let key = self.pinned_workload()?;
        let template = pin_context.template.get()?.as_ref();
        let (Some(template), Some(base)) = (template, journal.base.as_ref()) else {
            return Err(Interrupt::Wait("the template is gone".to_owned()));
        };
        let keep = Keep {
            pin: journal,
            base,
            clusters: &self.journal()?.spec.clusters,
            template,
            joined: pin_context.clusters.get()?,
            overrides: pin_context.overrides.get()?,
            name: (key.namespace.as_deref(), &pin::name(&key)),
        };
        Ok(keep.rules())
    }

    fn pin(&mut self, rules: Vec<Rule>) -> Result<(), Interrupt> {
        let pin = self.compile(rules)?;
        self.is_effective(&pin)?;
        let custody = self.custody()?;
        Ok(custody.differ(&pin, &mut self.pinning_mut()?.state)?)
    }

    fn compile(&self, rules: Vec<Rule>) -> Result<Pin, Interrupt> {
        let target = self.journal()?.spec.target.workload.as_ref();
        let version = target.map_or("", |target| target.api_version.as_str());
        let says = Says::Differences(rules);
        Ok(self.custody()?.compile(&self.pinning()?.state, version, says)?)
    }

    fn is_effective(&self, pin: &Pin) -> Result<(), Interrupt> {
        let pin_context = self.pin_context()?;
        if let Some(template) = pin_context.template.get()? {
            custody::is_effective(
                pin,
                template,
                pin_context.clusters.get()?,
                pin_context.overrides.get()?,
            )?;
        }
        Ok(())
    }

    /// Karmada computes a Work from caches: only the marker shows that it knew the pin. What it computes afterwards is newer.
    fn markers(&mut self) -> Result<(), Interrupt> {
        let Some(binding) = self.snapshot().bindings.get()?.first() else {
            return Ok(());
        };
        let covered = covered(&self.journal()?.spec, binding);
        let marker = self.custody()?.marker(&self.pinning()?.state);
        let (works, id) = (self.snapshot().works.get()?, self.pinning()?.binding_id.clone());
        let joined = self.pin_context()?.clusters.get()?;
        let status = &mut self.status;
        let journal = status.journal.as_mut().and_then(|journal| journal.pin.as_mut());
        let patience = Patience {
            wait: &mut status.common.waiting_for,
            now: self.input.now,
            limit: PATIENCE,
        };
        let state = &mut journal.ok_or(Interrupt::Requeue)?.state;
        Ok(custody::markers_or_resend(
            &covered,
            joined,
            |cluster| works.get(&(id.clone(), cluster.clone())),
            &marker,
            state,
            patience,
        )?)
    }

    /// The pin goes, and with it what was kept back.
    pub(super) fn take_pin_off(&mut self) -> Result<(), Interrupt> {
        if !self.pinning()?.state.unpinning {
            self.pinning_mut()?.state.unpinning = true;
            return Err(Interrupt::Requeue);
        }
        let pinning = self.pinning()?;
        let works = self.snapshot().works.get()?.iter();
        let own = works.filter(|((of, _), _)| *of == pinning.binding_id);
        let own = own.map(|((_, cluster), work)| (cluster, work));
        let binding = self.snapshot().bindings.get()?.first();
        let spec = &self.journal()?.spec;
        let covered = binding.map(|binding| covered(spec, binding)).unwrap_or_default();
        Ok(self.custody()?.leave(pinning.host.as_ref(), &covered, own)?)
    }

    fn pinned_workload(&self) -> Result<ObjectKey, Interrupt> {
        let (journal, pin) = (self.journal()?, self.pinning()?);
        let target = journal.spec.target.workload.as_ref();
        let target = target.ok_or_else(|| Interrupt::Wait("the journal names no workload".to_owned()))?;
        Ok(target.key(self.input.namespace.filter(|_| !pin.cluster_scoped)))
    }

    fn claim_on(&self, key: &ObjectKey) -> Result<Option<&'a Claim>, NotKnown> {
        let name = claim_name(key);
        let mut claims = self.snapshot().claims.get()?.iter();
        Ok(claims.find(|claim| claim.metadata.name.as_deref() == Some(&name)))
    }

    fn pin_context(&self) -> Result<&'a ControlPlane, Interrupt> {
        let pin_context = self.snapshot().pin_context.as_ref();
        pin_context.ok_or_else(|| Interrupt::Wait("what stands beside the pin was not read".to_owned()))
    }

    fn pinning(&self) -> Result<&SuspensionPin, Interrupt> {
        let pin = self.journal()?.pin.as_ref();
        pin.ok_or_else(|| Interrupt::Wait("the journal has no pin".to_owned()))
    }

    fn pinning_mut(&mut self) -> Result<&mut SuspensionPin, Interrupt> {
        let pin = self.journal_mut()?.pin.as_mut();
        pin.ok_or_else(|| Interrupt::Wait("the journal has no pin".to_owned()))
    }
}

/// Begins the journal of a pin; which clusters keep what is noted when the claim is there.
pub(super) fn begin(bindings: &[ResourceBinding]) -> Result<SuspensionPin, Interrupt> {
    let Some(binding) = bindings.first() else {
        return Err(Interrupt::Wait(
            "no policy has claimed the workload yet: it has no binding".to_owned(),
        ));
    };
    let id = binding_id(binding)
        .ok_or_else(|| Interrupt::Wait("Karmada has not marked the binding yet".to_owned()))?;
    Ok(SuspensionPin {
        binding_id: id.to_owned(),
        cluster_scoped: binding.metadata.namespace.is_none(),
        ..SuspensionPin::default()
    })
}

/// Says why a workload can be suspended neither by its policy nor by a pin.
pub(super) fn why_not(name: &PolicyName, workload: &str) -> String {
    format!(
        "{name} is not the workload's own: suspended there, the others that it selects would be suspended too; on the binding \
         alone, Karmada drops it at the next change of the template, and the change goes out; and a pin can't hold {workload}"
    )
}
