//! The claim and the pin of a rollout: what keeps each cluster at what it has.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use super::versions::Keep;
use super::{Interrupt, Operation, PATIENCE};
use crate::api::{Finding, PinnedRule};
use crate::intent::custody::{self, Custody, Guest, Patience, Standing, Terms};
use crate::intent::pin::{self, Pin, Rule, Says};
use crate::intent::record::content;
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ClusterName;

/// The code of the finding that nothing kept the clusters apart for a while.
pub(super) const PIN_TAKEN_AWAY: &str = "PinTakenAway";

impl<'a> Operation<'a> {
    /// Claim, pin and markers say what the journal says: every Work is made with the pin in force.
    pub(super) fn hold(&mut self) -> Result<(), Interrupt> {
        self.rules()?;
        if let Some(guest) = self.guest()? {
            return self.hold_as_guest(&guest);
        }
        self.claim()?;
        if !self.is_pinned()? {
            return Ok(());
        }
        self.pin()?;
        self.markers()
    }

    /// Where a plan guards the workload, its pin includes what this one says.
    pub(super) fn guest(&self) -> Result<Option<Guest<'a>>, Interrupt> {
        let host = self.journal()?.host.as_ref();
        Ok(self.custody()?.guest(host)?)
    }

    fn hold_as_guest(&mut self, guest: &Guest<'_>) -> Result<(), Interrupt> {
        let pin = self.compile()?;
        let (clusters, all) = (
            self.snapshot().plane.clusters.get()?,
            self.snapshot().plane.overrides.get()?,
        );
        custody::is_effective(&pin, self.template()?, clusters, all)?;
        guest.says(&self.journal()?.rules)?;
        if self.journal()?.host.is_none() {
            self.journal_mut()?.host = Some(guest.host().clone());
            return Err(Interrupt::Requeue);
        }
        let works = self.snapshot().plane.works.get()?;
        let synced = custody::synced(self.binding()?);
        guest.markers(&synced, |cluster| works.get(cluster))?;
        Ok(guest.rests(&synced)?)
    }

    /// The end: nothing of this one is left in a pin that a Work is made with.
    pub(super) fn leave(&self, synced: &[ClusterName]) -> Result<(), Interrupt> {
        let works = self.snapshot().plane.works.get()?;
        let binding = self.snapshot().plane.binding.get()?.as_ref();
        let host = self.journal()?.host.as_ref();
        let works = custody::up_to_date(binding, works);
        Ok(self.custody()?.leave(host, synced, works.into_iter())?)
    }

    /// Returns whether there is something to keep apart, or was.
    pub(super) fn is_pinned(&self) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        Ok(!journal.rules.is_empty() || journal.pin.pinned || self.snapshot().plane.pin.get()?.is_some())
    }

    /// What the pin is to say follows from who was released; it stands in the journal, under a sequence of its own, first.
    fn rules(&mut self) -> Result<(), Interrupt> {
        let rules = self.wanted_rules()?;
        if rules == self.journal()?.rules {
            return Ok(());
        }
        let was_written = self.is_pinned()?;
        let journal = self.journal_mut()?;
        journal.rules = rules;
        if was_written {
            journal.pin.renew();
        }
        Err(Interrupt::Requeue)
    }

    fn wanted_rules(&self) -> Result<Vec<PinnedRule>, Interrupt> {
        let journal = self.journal()?;
        let template = self.template()?;
        let live = content(template);
        let mut possible = vec![&live];
        for name in &journal.possible {
            possible.push(&self.revision(name)?.content);
        }
        let left = journal.left.iter();
        let left: BTreeMap<&ClusterName, &Value> = left
            .map(|(cluster, name)| Ok((cluster, &self.revision(name)?.content)))
            .collect::<Result<_, Interrupt>>()?;
        let synced = custody::synced(self.binding()?);
        let name = pin::name(self.workload());
        let placement = self.binding()?.spec.placement.as_ref();
        let scheduling = placement.is_some_and(cutover_karmada::Placement::divides);
        let keep = Keep {
            template,
            possible,
            stable: &self.revision(&journal.stable)?.content,
            left,
            released: journal.released.keys().collect::<BTreeSet<_>>(),
            synced: &synced,
            clusters: self.snapshot().plane.clusters.get()?,
            overrides: self.snapshot().plane.overrides.get()?,
            pin: (self.workload().namespace.as_deref(), &name),
            divided: scheduling,
        };
        keep.rules().map_err(|error| Interrupt::Wait(error.to_string()))
    }

    pub(super) fn custody(&self) -> Result<Custody<'a>, Interrupt> {
        let attempt = self.journal()?.pin_attempt;
        let snapshot = self.snapshot();
        Ok(Custody::of(
            self.input.owner("Rollout"),
            attempt,
            &snapshot.workload,
            &snapshot.plane.claim,
            &snapshot.plane.pin,
            &snapshot.plane.overrides,
        ))
    }

    /// Where the workload runs is none of a rollout's business.
    fn claim(&self) -> Result<(), Interrupt> {
        let terms = Terms {
            binding_id: self.journal()?.binding.id.clone(),
            shared: true,
            unmarked: !self.is_pinned()?,
            ..Terms::default()
        };
        Ok(self.custody()?.claim(&self.journal()?.pin, terms)?)
    }

    fn pin(&mut self) -> Result<(), Interrupt> {
        let pin = self.compile()?;
        let (clusters, all) = (
            self.snapshot().plane.clusters.get()?,
            self.snapshot().plane.overrides.get()?,
        );
        custody::is_effective(&pin, self.template()?, clusters, all)?;
        let custody = self.custody()?;
        if custody.standing(&pin, &self.journal()?.pin)? == Standing::Tampered {
            self.find(taken_away());
        }
        Ok(custody.differ(&pin, &mut self.journal_mut()?.pin)?)
    }

    pub(super) fn compile(&self) -> Result<Pin, Interrupt> {
        let journal = self.journal()?;
        let says = Says::Differences(journal.rules.iter().map(Rule::from).collect());
        let version = &journal.workload.api_version;
        Ok(self.custody()?.compile(&journal.pin, version, says)?)
    }

    fn markers(&mut self) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let synced = custody::synced(self.binding()?);
        let works = self.snapshot().plane.works.get()?;
        let joined = self.snapshot().plane.clusters.get()?;
        let status = &mut self.status;
        let journal = status.journal.as_mut().ok_or(Interrupt::Requeue)?;
        let patience = Patience {
            wait: &mut status.common.waiting_for,
            now: self.input.now,
            limit: PATIENCE,
        };
        Ok(custody::markers_or_resend(
            &synced,
            joined,
            |cluster| works.get(cluster),
            &marker,
            &mut journal.pin,
            patience,
        )?)
    }

    /// Returns the marker of the pin that says what this one says.
    pub(super) fn marker(&self) -> Result<String, Interrupt> {
        if let Some(guest) = self.guest()? {
            return Ok(guest.marker().to_owned());
        }
        Ok(self.custody()?.marker(&self.journal()?.pin))
    }

    pub(super) fn template(&self) -> Result<&'a Value, Interrupt> {
        let template = self.snapshot().plane.template.get()?.as_ref();
        template.ok_or_else(|| Interrupt::Wait("the template is gone".to_owned()))
    }

    pub(super) fn binding(&self) -> Result<&'a ResourceBinding, Interrupt> {
        let binding = self.snapshot().plane.binding.get()?.as_ref();
        binding.ok_or_else(|| Interrupt::Wait("the workload has no binding: no policy claims it".to_owned()))
    }
}

fn taken_away() -> Finding {
    Finding::new(
        PIN_TAKEN_AWAY,
        "another client changed or deleted the pin, and cutover restores it: until it is in force again, a cluster gets the current \
         template before its turn",
        "check what the clusters got meanwhile; protect the pin with the admission fence (docs/how-to/operate.md#admission-fence)",
    )
}
