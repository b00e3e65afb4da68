//! The claim, the pin that projects it, and what lets the pin name a writer.

use super::{Interrupt, Operation, PATIENCE, Phase, guests, question};
use crate::api::{ClaimOwner, FailoverGate, Finding, PatchOp};
use crate::intent::custody::{self, Custody, Gives, Granted, Patience, Standing, Terms, Unmarked};
use crate::intent::fight;
use crate::intent::pin::{Holds, Pin, Says, Token, Writer, besides};
use crate::intent::proof::{Inert, NotProved, Sole};
use crate::profile::{Action, Site, Variables};
use cutover_karmada::name::ClusterName;

impl<'a> Operation<'a> {
    /// Brings claim, pin and markers to what the journal says; returns when every Work shows the current sequence.
    pub(super) fn token(&mut self) -> Result<(), Interrupt> {
        self.claim()?;
        self.pin()?;
        self.markers()
    }

    fn send_again(&mut self) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let mut late = Vec::new();
        for cluster in custody::synced(self.binding()?) {
            let carries = self.prove(&cluster, &marker, |facts| facts.current_copy().map(drop))?;
            if let Err(NotProved::No(why)) = carries
                && matches!(self.copy(&cluster), Ok(Some(_)))
            {
                late.push(why);
            }
        }
        self.journal()?;
        let status = &mut self.status;
        let journal = status.journal.as_mut().ok_or(Interrupt::Requeue)?;
        let patience = Patience {
            wait: &mut status.common.waiting_for,
            now: self.input.now,
            limit: custody::ARRIVES_WITHIN,
        };
        Ok(custody::send_again(late, &mut journal.pin, patience)?)
    }

    pub(super) fn custody(&self) -> Result<Custody<'a>, Interrupt> {
        let snapshot = self.around();
        Ok(Custody::of(
            self.owner(),
            self.journal()?.round,
            &snapshot.workload,
            &snapshot.plane.claim,
            &snapshot.plane.pin,
            &snapshot.plane.overrides,
        ))
    }

    pub(super) fn claim(&self) -> Result<(), Interrupt> {
        Ok(self.custody()?.claim(&self.journal()?.pin, self.terms()?)?)
    }

    pub(super) fn owner(&self) -> ClaimOwner {
        self.input.owner("FailoverPlan")
    }

    pub(super) fn terms(&self) -> Result<Terms, Interrupt> {
        let journal = self.journal()?;
        // While it only guards, sync and Karmada do as they like; what that leads to elsewhere is held.
        let guards = !matches!(self.status.phase, Phase::Fencing | Phase::Releasing);
        Ok(Terms {
            binding_id: journal.binding.id.clone(),
            writer: journal.writer.clone(),
            guards,
            clusters: if guards {
                Vec::new()
            } else {
                journal.clusters.clone()
            },
            guests: journal.guests.clone(),
            format: journal.format(),
            ..Terms::default()
        })
    }

    /// The pin says what the journal says. One that was lost or edited is repaired under a new sequence.
    pub(super) fn pin(&mut self) -> Result<(), Interrupt> {
        let pin = self.compile()?;
        self.fits(&pin)?;
        self.check_effective(&pin)?;
        let custody = self.custody()?;
        match custody.standing(&pin, &self.journal()?.pin)? {
            Standing::InForce => return Ok(()),
            Standing::Confirmed => {
                self.journal_mut()?.pin.confirm();
                return Err(Interrupt::Requeue);
            }
            Standing::Tampered => return self.repair(),
            Standing::Due => {}
        }
        if self.gives_now(&pin)? && custody.was_loosened(&pin, &self.journal()?.pin)? {
            return self.repair();
        }
        let granted = self.authority(&pin)?;
        Err(custody.write(&pin, granted.authority()).into())
    }

    pub(super) fn fits(&mut self, pin: &Pin) -> Result<(), Interrupt> {
        if self.guests_need_parents(pin)? {
            return Ok(());
        }
        let (custody, template) = (self.custody()?, &self.around().plane.template);
        let journal = self.journal_mut()?;
        Ok(custody.fits(pin, template, &journal.profile, &mut journal.pin)?)
    }

    /// Returns whether the pin lets a cluster run that may not run yet.
    fn gives_now(&self, pin: &Pin) -> Result<bool, Interrupt> {
        let Some(writer) = pin.writer().filter(|_| self.status.phase == Phase::Releasing) else {
            return Ok(false);
        };
        let live = self.around().plane.pin.get()?.as_ref();
        Ok(!live.is_some_and(|live| self.names(live, writer)))
    }

    /// What lets the pin name its writer: that nobody else has a share in the binding, or is proved harmless. A cluster that
    /// gets the token is named only after a pin that held everybody was in force.
    fn authority(&self, pin: &Pin) -> Result<Granted, Interrupt> {
        let Some(writer) = pin.writer() else {
            return Ok(Granted::Nobody);
        };
        let involved = self.involved()?;
        let is_release = self.status.phase == Phase::Releasing;
        if let Ok(sole) = Sole::new(writer, &involved)
            && !is_release
        {
            return Ok(Granted::Sole(sole));
        }
        let (live, read) = self.around().plane.pin.read()?;
        // What an old copy does is no reason to leave a pin as it is that names the writer already, or was changed.
        let names = live.as_ref().is_some_and(|live| self.names(live, writer));
        if (names || self.journal()?.pin.repairing)
            && !is_release
            && let Ok(loose) = self.is_loose(writer)?
        {
            return Ok(Granted::Loose(loose));
        }
        let gives = if is_release && !names {
            Gives::Now
        } else {
            Gives::Already
        };
        if is_release && !custody::says_the_same(pin, live.as_ref()) {
            let barrier = self.journal()?.fence.barrier.as_ref();
            self.scheduler()?.is_the_same(barrier)?;
        }
        let prove = |cluster: &ClusterName, under: &str| self.harmless(cluster, under);
        self.custody()?.release(pin, read, gives, &involved, prove)
    }

    /// Returns whether a pin of ours lets that cluster run already, whatever else it says.
    pub(super) fn names(&self, live: &cutover_karmada::OverridePolicy, writer: &ClusterName) -> bool {
        custody::names(live, self.input.uid, writer)
    }

    /// Proves that nothing in a cluster can write; what can't be seen of it, somebody must have vouched for. What is seen
    /// counts before any word.
    pub(super) fn harmless(
        &self,
        cluster: &ClusterName,
        under: &str,
    ) -> Result<Result<Inert, NotProved>, Interrupt> {
        let flight = self.flight().ok().filter(|flight| flight.from == *cluster);
        let word = flight.and_then(|flight| flight.fenced.as_ref()).or_else(|| {
            let old = self.status.old_copies.get(cluster)?;
            old.fenced.as_ref()
        });
        Ok(match (self.seen_harmless(cluster, under)?, word) {
            (Err(NotProved::Unknown(_)), Some(by)) => Ok(Inert::assumed(cluster, by.clone())),
            (proved, _) => proved,
        })
    }

    /// Proves that nothing in a cluster can write, from what is seen of it alone.
    pub(super) fn seen_harmless(
        &self,
        cluster: &ClusterName,
        under: &str,
    ) -> Result<Result<Inert, NotProved>, Interrupt> {
        let old = self.status.old_copies.get(cluster);
        let meant = old
            .and_then(|old| old.identity.as_ref())
            .or_else(|| self.status.journal.as_ref()?.identities.get(cluster));
        let seen = if self.is_replaced(cluster, meant)? {
            Err(NotProved::Unknown(format!(
                "another cluster has joined as {cluster}: the copy in the old cluster cannot be observed"
            )))
        } else {
            self.prove(cluster, under, Inert::prove)?
        };
        let told_before = old
            .and_then(|old| old.marker.as_deref())
            .filter(|marker| *marker != under);
        Ok(match (seen, told_before) {
            (Err(NotProved::No(why)), Some(marker)) => {
                // Karmada writes nothing to it any more: it was told to hold before, and does.
                match self.prove(cluster, marker, Inert::prove)? {
                    Err(NotProved::No(_)) => Err(NotProved::No(why)),
                    still => still,
                }
            }
            (proved, _) => proved,
        })
    }

    /// Every Work that Karmada keeps up to date carries the current marker, and what it doesn't bring to its copy is sent again.
    pub(super) fn markers(&mut self) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let synced = custody::synced(self.binding()?);
        let works = self.around().plane.works.get()?;
        match custody::markers(&synced, |cluster| works.get(cluster), &marker) {
            Ok(()) => self.send_again(),
            Err(late @ Unmarked::Late(_)) => {
                let reason = late.wait();
                self.write_in_present_words(reason)
            }
            Err(missing @ Unmarked::NoWork(cluster)) => {
                let reason = missing.wait();
                let cluster = cluster.clone();
                self.no_work(&cluster, reason)
            }
        }
    }

    /// A pin that Karmada can't apply, as an earlier version wrote it, comes to no Work: it is written as it is written now, under a new
    /// sequence.
    fn write_in_present_words(&mut self, reason: String) -> Result<(), Interrupt> {
        let live = self.around().plane.pin.get()?.as_ref();
        let pin = self.compile()?;
        let is_old = live.is_some_and(|live| pin.is_worded_as_before(live));
        if !(is_old && self.has_waited(&reason, PATIENCE)) {
            return Err(Interrupt::Wait(reason));
        }
        self.journal_mut()?.pin.renew();
        self.status.common.waiting_for = None;
        Err(Interrupt::Requeue)
    }

    /// A Work that somebody deleted is made anew only with the next change; the writer's must not begin from nothing.
    fn no_work(&mut self, cluster: &ClusterName, reason: String) -> Result<(), Interrupt> {
        if !self.has_waited(&reason, PATIENCE) {
            return Err(Interrupt::Wait(reason));
        }
        let is_writer = self.journal()?.writer.as_ref() == Some(cluster);
        if is_writer && self.journal()?.carried.is_none() && self.needs_state()? {
            let known = self.status.last_known.as_ref().map(|known| known.values.clone());
            match known.filter(|values| self.can_give(values)) {
                Some(values) => self.journal_mut()?.carried = Some(values),
                None if self.approved(FailoverGate::FromNothing, cluster).is_some() => {}
                None => {
                    let why = format!(
                        "{reason}, and no state of it is known: may it start from nothing in {cluster}?"
                    );
                    return Err(question(FailoverGate::FromNothing, cluster.clone(), why));
                }
            }
        }
        self.journal_mut()?.pin.renew();
        self.status.common.waiting_for = None;
        Err(Interrupt::Requeue)
    }

    /// Compiles the pin of the journal: pure, so that it can be compared without any right to write it.
    pub(super) fn compile(&self) -> Result<Pin, Interrupt> {
        let journal = self.journal()?;
        let says = Says::Token(self.token_of_pin()?);
        let version = &journal.spec.workload.api_version;
        let pin = self.custody()?.compile(&journal.pin, version, says)?;
        Ok(Pin {
            differences: guests::rules(&journal.guests),
            ..pin
        })
    }

    fn token_of_pin(&self) -> Result<Token, Interrupt> {
        let journal = self.journal()?;
        let profile = self.profile()?;
        let variables = Variables {
            captured: journal.carried.as_ref(),
            secrets: Some(&journal.secrets),
            attempt: self.status.common.attempt,
            ..Variables::default()
        };
        let workload = &self.around().workload;
        // These are the same for as long as a sequence lasts, and after it is given to another cluster.
        let holds = Holds::of(&profile, &variables, workload, &journal.suspended)?;
        let writer = journal.writer.as_ref();
        let variables = Variables {
            site: writer.map(|writer| Site::new(workload, writer.as_str())),
            ..variables
        };
        let mut carry: Vec<PatchOp> = match (&journal.writer, &journal.carried) {
            (Some(_), Some(values)) if !values.is_empty() => profile.patches(Action::Start, &variables)?,
            _ => Vec::new(),
        };
        if let Some(number) = journal.redeploy.filter(|_| !carry.is_empty()) {
            let variables = Variables {
                attempt: number,
                ..variables
            };
            let again = profile.patches(Action::RestartFrom, &variables)?;
            // One that is deleted and made anew has no state of its own, and starts as a first one does.
            carry = besides(carry, again);
        }
        Ok(Token {
            may_run: journal.writer.clone().map_or(Writer::Nobody, Writer::Only),
            hold: holds.hold,
            suspended: journal.suspended.clone(),
            suspend: holds.suspend,
            named: holds.named,
            carry,
        })
    }

    /// A pin that others undo holds nobody.
    fn check_effective(&mut self, pin: &Pin) -> Result<(), Interrupt> {
        let (Ok(Some(template)), Ok(clusters), Ok(all)) = (
            self.around().plane.template.get(),
            self.around().plane.clusters.get(),
            self.around().plane.overrides.get(),
        ) else {
            return Ok(());
        };
        // What guests say they look after themselves.
        let guard = Pin {
            differences: Vec::new(),
            ..pin.clone()
        };
        let fights = fight::fights(&guard, template, clusters, all);
        match fights.first() {
            None => self.untell("OverrideFight"),
            Some(fight) => {
                let finding = Finding::new(
                    "OverrideFight",
                    format!("the guard does not hold everywhere: {fight}"),
                    "give that policy a name that sorts before the pin's, or let it leave these fields alone",
                );
                self.tell(finding)?;
            }
        }
        let place = (pin.namespace.as_deref(), pin.name.as_str());
        let overwritten = fight::overwritten(template, &self.journal()?.profile, clusters, all, place);
        match overwritten {
            None => self.untell(fight::OVERWRITTEN),
            Some(finding) => self.tell(finding)?,
        }
        Ok(())
    }

    /// Returns whether a copy that starts without a handle has lost something.
    pub(super) fn needs_state(&self) -> Result<bool, Interrupt> {
        let profile = &self.journal()?.profile;
        Ok(profile.stateful && profile.capture.iter().any(|rule| rule.required))
    }
}
