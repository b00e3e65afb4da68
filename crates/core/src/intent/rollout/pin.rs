//! The claim and the pin of a rollout: what keeps each cluster at what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::versions::{Keep, content};
use super::{Machine, PATIENCE, Stop};
use crate::api::{ClaimSpec, PinnedRule};
use crate::intent::effect::Effect;
use crate::intent::fight::{How, fights};
use crate::intent::pin::{self, Authority, Pin, PinWrite, Place, Rule, Says};
use crate::intent::token::{self, Known, Standing, Unmarked};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ClusterName;

impl<'a> Machine<'a> {
    /// Claim, pin and markers say what the journal says: every Work is made with the pin in force.
    pub(super) fn hold(&mut self) -> Result<(), Stop> {
        self.rules()?;
        self.claim()?;
        if !self.is_pinned()? {
            return Ok(());
        }
        self.pin()?;
        self.markers()
    }

    /// Returns whether there is something to keep apart, or was.
    pub(super) fn is_pinned(&self) -> Result<bool, Stop> {
        let journal = self.journal()?;
        Ok(!journal.rules.is_empty() || journal.pinned || self.world().pin.get()?.is_some())
    }

    /// What the pin is to say follows from who was released; it stands in the journal, under a sequence of its own, first.
    fn rules(&mut self) -> Result<(), Stop> {
        let rules = self.wanted_rules()?;
        if rules == self.journal()?.rules {
            return Ok(());
        }
        let was_written = self.is_pinned()?;
        let journal = self.journal_mut()?;
        journal.rules = rules;
        journal.seq += u64::from(was_written);
        Err(Stop::Again)
    }

    fn wanted_rules(&self) -> Result<Vec<PinnedRule>, Stop> {
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
            .collect::<Result<_, Stop>>()?;
        let synced = token::synced(self.binding()?);
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
            clusters: self.world().clusters.get()?,
            overrides: self.world().overrides.get()?,
            pin: (self.workload().namespace.as_deref(), &name),
            divided: scheduling,
        };
        keep.rules().map_err(|error| Stop::Wait(error.to_string()))
    }

    pub(super) fn claim(&self) -> Result<(), Stop> {
        let journal = self.journal()?;
        let marker = if journal.unpinning || !self.is_pinned()? {
            String::new()
        } else {
            self.marker()?
        };
        let wanted = ClaimSpec {
            workload: token::claimed(self.workload()),
            binding_id: journal.binding.id.clone(),
            owner: self.input.owner("Rollout"),
            attempt: journal.pin_attempt,
            seq: journal.seq,
            marker,
            writer: None,
            shared: true,
            guards: false,
            lender: None,
            // Where it runs is none of a rollout's business.
            clusters: Vec::new(),
            standing: false,
        };
        Ok(token::claim(
            self.world().claim.get()?.as_ref(),
            self.workload(),
            wanted,
        )?)
    }

    /// A pin that was lost or edited is written anew under another sequence: it lets nobody run who is held.
    fn pin(&mut self) -> Result<(), Stop> {
        let pin = self.compile()?;
        self.has_its_way(&pin)?;
        let live = self.world().pin.get()?.as_ref();
        let journal = self.journal()?;
        let known = Known {
            owner_uid: self.input.uid,
            attempt: journal.pin_attempt,
            seq: journal.seq,
            pinned: journal.pinned,
            repairing: journal.repairing,
        };
        match token::standing(&pin, live, known) {
            Standing::InForce if journal.repairing || !journal.pinned => {
                let journal = self.journal_mut()?;
                (journal.repairing, journal.pinned) = (false, true);
                Err(Stop::Again)
            }
            Standing::InForce => Ok(()),
            Standing::Tampered => {
                let journal = self.journal_mut()?;
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

    /// Nothing is built on a pin that somebody undoes.
    fn has_its_way(&self, pin: &Pin) -> Result<(), Stop> {
        let template = self.template()?;
        let found = fights(
            pin,
            template,
            self.world().clusters.get()?,
            self.world().overrides.get()?,
        );
        // A cluster that is blocked shows it by the marker that doesn't come.
        match found.iter().find(|fight| matches!(fight.how, How::Undoes(_))) {
            Some(fight) => Err(Stop::Wait(format!(
                "nobody to interfere: {fight} (let it sort before zzzz-cutover-, or take its selector's name away, until the \
                 rollout is complete)"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn compile(&self) -> Result<Pin, Stop> {
        let journal = self.journal()?;
        let workload = self.workload();
        let rule = |rule: &PinnedRule| Rule {
            place: match (&rule.all_but, &rule.only) {
                (_, Some(these)) => Place::Only(these.clone()),
                (others, None) => Place::AllBut(others.clone().unwrap_or_default()),
            },
            patches: rule.patches.clone(),
        };
        Ok(Pin {
            namespace: workload.namespace.clone(),
            name: pin::name(workload),
            owner_uid: self.input.uid.to_owned(),
            owner: format!(
                "Rollout {}/{}",
                self.input.namespace.unwrap_or_default(),
                self.input.name
            ),
            api_version: journal.workload.api_version.clone(),
            versions: Arc::clone(&self.world().overrides.get()?.versions),
            kind: workload.kind.clone(),
            workload: workload.name.clone(),
            marker: self.marker()?,
            says: Says::Differences(journal.rules.iter().map(rule).collect()),
        })
    }

    fn markers(&mut self) -> Result<(), Stop> {
        let marker = self.marker()?;
        let synced = token::synced(self.binding()?);
        match token::markers(&synced, self.world().works.get()?, &marker) {
            Ok(()) => Ok(()),
            Err(missing @ Unmarked::NoWork(_)) if self.has_waited(&missing.wait()) => {
                // Karmada makes a Work that somebody deleted anew only with the next change.
                self.journal_mut()?.seq += 1;
                self.status.common.waiting_for = None;
                Err(Stop::Again)
            }
            Err(unmarked) => Err(Stop::Wait(unmarked.wait())),
        }
    }

    fn has_waited(&self, reason: &str) -> bool {
        let wait = self.status.common.waiting_for.as_ref();
        wait.is_some_and(|wait| {
            wait.reason == reason && self.input.now.duration_since(wait.since) >= PATIENCE
        })
    }

    pub(super) fn marker(&self) -> Result<String, Stop> {
        let journal = self.journal()?;
        Ok(pin::marker(self.input.uid, journal.pin_attempt, journal.seq))
    }

    pub(super) fn template(&self) -> Result<&'a Value, Stop> {
        let template = self.world().template.get()?.as_ref();
        template.ok_or_else(|| Stop::Wait("the template is gone".to_owned()))
    }

    pub(super) fn binding(&self) -> Result<&'a ResourceBinding, Stop> {
        let binding = self.world().binding.get()?.as_ref();
        binding.ok_or_else(|| Stop::Wait("the workload has no binding: no policy takes it up".to_owned()))
    }
}
