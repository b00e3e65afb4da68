//! Keeps changes from clusters by a pin, where the policy can't carry the suspension: what each of them has is set over
//! whatever the template becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::keep::{Keep, is_holdable, kept};
use super::{Beside, Machine, Stop, binding_id, covered};
use crate::api::{Claim, ClaimSpec, MARKER_ANNOTATION, PolicyName, SuspensionPin, claim_name};
use crate::intent::effect::Effect;
use crate::intent::fight::{How, fights};
use crate::intent::pin::{self, Authority, Pin, PinWrite, Rule, Says};
use crate::intent::record::digest;
use crate::intent::token::{self, Known, Standing};
use cutover_karmada::name::ObjectKey;
use cutover_karmada::{Placement, ResourceBinding, Work};

impl<'a> Machine<'a> {
    /// Returns whether a pin could hold the workload; unknown is waited for.
    pub(super) fn can_be_pinned(&self) -> Result<bool, Stop> {
        let template = self.beside()?.template.get()?.as_ref();
        let template = template.ok_or_else(|| Stop::Wait("the workload is not there yet".to_owned()))?;
        Ok(is_holdable(template))
    }

    /// Claim, pin and markers say what the journal says: from then on every Work is made under the pin.
    pub(super) fn hold_by_pin(&mut self) -> Result<(), Stop> {
        self.same_binding()?;
        self.claim()?;
        self.note_what_is_kept()?;
        let rules = self.rules()?;
        let said = digest(&json!(format!("{rules:?}")));
        if self.pinning()?.rules != said {
            let written = self.pinning()?.pinned || self.beside()?.pin.get()?.is_some();
            let journal = self.pinning_mut()?;
            journal.rules = said;
            journal.seq += u64::from(written);
            return Err(Stop::Again);
        }
        self.pin(rules)?;
        self.markers()
    }

    /// One that was deleted and made anew has another id, and its Works carry that one.
    fn same_binding(&mut self) -> Result<(), Stop> {
        let Some(binding) = self.world().bindings.get()?.first() else {
            return Err(Stop::Wait("the workload has no binding".to_owned()));
        };
        let id = binding_id(binding)
            .ok_or_else(|| Stop::Wait("Karmada has not marked the binding yet".to_owned()))?;
        if id == self.pinning()?.binding_id {
            return Ok(());
        }
        let journal = self.pinning_mut()?;
        id.clone_into(&mut journal.binding_id);
        journal.seq += 1;
        Err(Stop::Again)
    }

    fn claim(&self) -> Result<(), Stop> {
        let journal = self.pinning()?;
        let key = self.pinned_workload()?;
        let marker = if journal.unpinning {
            String::new()
        } else {
            self.marker()?
        };
        let wanted = ClaimSpec {
            workload: token::claimed(&key),
            binding_id: journal.binding_id.clone(),
            owner: self.input.owner("Suspension"),
            attempt: self.status.common.attempt,
            seq: journal.seq,
            marker,
            writer: None,
            shared: true,
            // Sync changes the template as ever: the pin keeps that from the clusters.
            guards: true,
            lender: None,
            clusters: Vec::new(),
            standing: false,
        };
        Ok(token::claim(self.claim_on(&key)?, &key, wanted)?)
    }

    /// What a cluster has is what stands in its Work, with the replicas that the scheduler gave it.
    fn note_what_is_kept(&mut self) -> Result<(), Stop> {
        if self.pinning()?.base.is_some() {
            return Ok(());
        }
        let template = self.beside()?.template.get()?.as_ref();
        let template = template.ok_or_else(|| Stop::Wait("the template is gone".to_owned()))?;
        let (works, bindings) = (self.world().works.get()?, self.world().bindings.get()?);
        let Some(binding) = bindings.first() else {
            return Err(Stop::Wait("the workload has no binding".to_owned()));
        };
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
            let manifest = works.get(&(id.clone(), cluster.clone())).and_then(Work::manifest);
            let Some(manifest) = manifest else {
                return Err(Stop::Wait(format!("{cluster}: no Work yet")));
            };
            let there = kept(manifest, template);
            if there != base {
                apart.insert(cluster.clone(), there);
            }
            held.push(cluster);
        }
        let journal = self.pinning_mut()?;
        (journal.base, journal.held, journal.kept) = (Some(base), held, apart);
        Err(Stop::Again)
    }

    fn rules(&self) -> Result<Vec<Rule>, Stop> {
        let (journal, beside) = (self.pinning()?, self.beside()?);
        let key = self.pinned_workload()?;
        let template = beside.template.get()?.as_ref();
        let (Some(template), Some(base)) = (template, journal.base.as_ref()) else {
            return Err(Stop::Wait("the template is gone".to_owned()));
        };
        let keep = Keep {
            pin: journal,
            base,
            clusters: &self.journal()?.spec.clusters,
            template,
            joined: beside.clusters.get()?,
            overrides: beside.overrides.get()?,
            name: (key.namespace.as_deref(), &pin::name(&key)),
        };
        Ok(keep.rules())
    }

    /// A pin that was lost or edited is written anew under another sequence.
    fn pin(&mut self, rules: Vec<Rule>) -> Result<(), Stop> {
        let pin = self.compile(rules)?;
        let beside = self.beside()?;
        if let Some(template) = beside.template.get()? {
            let found = fights(&pin, template, beside.clusters.get()?, beside.overrides.get()?);
            if let Some(fight) = found.iter().find(|fight| matches!(fight.how, How::Undoes(_))) {
                return Err(Stop::Wait(format!(
                    "nobody to interfere: {fight} (let it sort before zzzz-cutover-, or take its selector's name away)"
                )));
            }
        }
        let live = beside.pin.get()?.as_ref();
        let journal = self.pinning()?;
        let known = Known {
            owner_uid: self.input.uid,
            attempt: self.status.common.attempt,
            seq: journal.seq,
            pinned: journal.pinned,
            repairing: journal.repairing,
        };
        match token::standing(&pin, live, known) {
            Standing::InForce if journal.repairing || !journal.pinned => {
                let journal = self.pinning_mut()?;
                (journal.repairing, journal.pinned) = (false, true);
                Err(Stop::Again)
            }
            Standing::InForce => Ok(()),
            Standing::Tampered => {
                let journal = self.pinning_mut()?;
                journal.seq += 1;
                journal.repairing = true;
                Err(Stop::Again)
            }
            Standing::Due => match PinWrite::new(&pin, live, Authority::Nobody) {
                Ok(write) => Err(Stop::Act(vec![Effect::WritePin(Box::new(write))])),
                Err(error) => Err(Stop::Wait(error.to_string())),
            },
        }
    }

    fn versions(&self) -> Result<Arc<Vec<String>>, Stop> {
        Ok(Arc::clone(&self.beside()?.overrides.get()?.versions))
    }

    fn compile(&self, rules: Vec<Rule>) -> Result<Pin, Stop> {
        let key = self.pinned_workload()?;
        let spec = &self.journal()?.spec;
        let api_version = spec
            .target
            .workload
            .as_ref()
            .map(|target| target.api_version.clone());
        Ok(Pin {
            namespace: key.namespace.clone(),
            name: pin::name(&key),
            owner_uid: self.input.uid.to_owned(),
            owner: format!("Suspension {}", self.own_name()),
            api_version: api_version.unwrap_or_default(),
            versions: self.versions()?,
            kind: key.kind.clone(),
            workload: key.name,
            marker: self.marker()?,
            says: Says::Differences(rules),
        })
    }

    /// Karmada computes a Work from caches: only the marker shows that it knew the pin. What it computes afterwards is newer.
    fn markers(&self) -> Result<(), Stop> {
        let Some(binding) = self.world().bindings.get()?.first() else {
            return Ok(());
        };
        let (marker, id) = (self.marker()?, &self.pinning()?.binding_id);
        let works = self.world().works.get()?;
        for cluster in covered(&self.journal()?.spec, binding) {
            let work = works.get(&(id.clone(), cluster.clone()));
            if work.and_then(|work| work.manifest_annotation(MARKER_ANNOTATION)) != Some(&marker) {
                return Err(Stop::Wait(format!(
                    "{cluster}: the Work has not the current marker yet"
                )));
            }
        }
        Ok(())
    }

    /// The claim says first that there will be no marker; then the pin goes, and with it what was kept back.
    pub(super) fn take_pin_off(&mut self) -> Result<(), Stop> {
        if !self.pinning()?.unpinning {
            self.pinning_mut()?.unpinning = true;
            return Err(Stop::Again);
        }
        let (uid, key) = (self.input.uid, self.pinned_workload()?);
        let claim = self.claim_on(&key)?;
        let is_ours = claim.is_some_and(|claim| claim.spec.owner.uid == uid);
        if is_ours && claim.is_some_and(|claim| !claim.spec.marker.is_empty()) {
            self.claim()?;
        }
        let live = self.beside()?.pin.get()?.as_ref();
        token::unpin(live.filter(|live| pin::owner_of(live).is_some_and(|owner| owner == uid)))?;
        let id = &self.pinning()?.binding_id;
        let of_it = self.world().works.get()?.iter().filter(|((of, _), _)| of == id);
        for ((_, cluster), work) in of_it {
            let marker = work.manifest_annotation(MARKER_ANNOTATION);
            if marker.is_some_and(|marker| pin::sequence(marker, uid).is_some()) {
                return Err(Stop::Wait(format!(
                    "{cluster}: the Work still carries the marker"
                )));
            }
        }
        Ok(token::give_up(self.claim_on(&key)?, uid)?)
    }

    pub(super) fn marker(&self) -> Result<String, Stop> {
        let (journal, attempt) = (self.pinning()?, self.status.common.attempt);
        Ok(pin::marker(self.input.uid, attempt, journal.seq))
    }

    fn pinned_workload(&self) -> Result<ObjectKey, Stop> {
        let (journal, pin) = (self.journal()?, self.pinning()?);
        let target = journal.spec.target.workload.as_ref();
        let target = target.ok_or_else(|| Stop::Wait("the journal names no workload".to_owned()))?;
        Ok(target.key(self.input.namespace.filter(|_| !pin.cluster_scoped)))
    }

    fn claim_on(&self, key: &ObjectKey) -> Result<Option<&'a Claim>, Stop> {
        let name = claim_name(key);
        let mut claims = self.world().claims.get()?.iter();
        Ok(claims.find(|claim| claim.metadata.name.as_deref() == Some(&name)))
    }

    fn beside(&self) -> Result<&'a Beside, Stop> {
        let beside = self.world().beside.as_ref();
        beside.ok_or_else(|| Stop::Wait("what stands beside the pin was not read".to_owned()))
    }

    fn pinning(&self) -> Result<&SuspensionPin, Stop> {
        let pin = self.journal()?.pin.as_ref();
        pin.ok_or_else(|| Stop::Wait("the journal has no pin".to_owned()))
    }

    fn pinning_mut(&mut self) -> Result<&mut SuspensionPin, Stop> {
        let pin = self.journal_mut()?.pin.as_mut();
        pin.ok_or_else(|| Stop::Wait("the journal has no pin".to_owned()))
    }
}

/// Begins the journal of a pin; which clusters keep what is noted when the claim is there.
pub(super) fn begin(bindings: &[ResourceBinding]) -> Result<SuspensionPin, Stop> {
    let Some(binding) = bindings.first() else {
        return Err(Stop::Wait(
            "no policy has taken the workload up yet: it has no binding".to_owned(),
        ));
    };
    let id =
        binding_id(binding).ok_or_else(|| Stop::Wait("Karmada has not marked the binding yet".to_owned()))?;
    Ok(SuspensionPin {
        binding_id: id.to_owned(),
        cluster_scoped: binding.metadata.namespace.is_none(),
        seq: 1,
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
