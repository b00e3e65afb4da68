//! The claim, the pin that projects it, and what lets the pin name a writer.

use std::sync::Arc;

use super::{Machine, PATIENCE, Phase, Stop};
use crate::api::{ClaimOwner, ClaimSpec, FailoverGate, Finding, PatchOp};
use crate::intent::effect::Effect;
use crate::intent::pin::{self, Authority, Pin, PinWrite, Says, Tenure, Token};
use crate::intent::proof::{Inert, Loose, NotProved, Release, Sole};
use crate::intent::token::{self, Known, Standing, Unmarked};
use crate::profile::{Action, Variables};
use cutover_karmada::name::ClusterName;

impl Machine<'_> {
    /// Brings claim, pin and markers to what the journal says; returns when every Work shows the current sequence.
    pub(super) fn token(&mut self) -> Result<(), Stop> {
        self.claim()?;
        self.pin()?;
        self.markers()
    }

    /// The claim says what the journal says: written by compare-and-swap, before what it allows.
    pub(super) fn claim(&self) -> Result<(), Stop> {
        let claim = self.world().claim.get()?.as_ref();
        Ok(token::claim(claim, self.workload(), self.claim_spec()?)?)
    }

    pub(super) fn owner(&self) -> ClaimOwner {
        self.input.owner("FailoverPlan")
    }

    pub(super) fn claim_spec(&self) -> Result<ClaimSpec, Stop> {
        let journal = self.journal()?;
        // While it only guards, sync and Karmada do as they like; what that leads to elsewhere is held.
        let guards = !matches!(self.status.phase, Phase::Fencing | Phase::Releasing);
        Ok(ClaimSpec {
            workload: token::claimed(self.workload()),
            binding_id: journal.binding.id.clone(),
            owner: self.owner(),
            attempt: journal.round,
            seq: journal.seq,
            marker: if journal.unpinning {
                String::new()
            } else {
                self.marker()?
            },
            writer: journal.writer.clone(),
            shared: false,
            standing: false,
            guards,
            lender: None,
            clusters: if guards {
                Vec::new()
            } else {
                journal.clusters.clone()
            },
        })
    }

    /// The pin says what the journal says. One that was lost or edited is repaired under a new sequence.
    pub(super) fn pin(&mut self) -> Result<(), Stop> {
        let pin = self.compile()?;
        self.has_its_way(&pin)?;
        let live = self.world().pin.get()?.as_ref();
        match token::standing(&pin, live, self.known()?) {
            Standing::InForce => {
                let journal = self.journal()?;
                if journal.repairing || !journal.pinned {
                    let journal = self.journal_mut()?;
                    (journal.repairing, journal.pinned) = (false, true);
                    return Err(Stop::Again);
                }
                return Ok(());
            }
            Standing::Tampered => return self.repair(),
            Standing::Due => {}
        }
        let granted = self.authority(&pin)?;
        let authority = match &granted {
            Granted::Nobody => Authority::Nobody,
            Granted::Sole(sole) => Authority::Sole(sole),
            Granted::Release(release) => Authority::Release(release),
            Granted::Loose(loose) => Authority::Loose(loose),
        };
        match PinWrite::new(&pin, live, authority) {
            Ok(write) => Err(Stop::Act(vec![Effect::WritePin(Box::new(write))])),
            Err(error) => Err(Stop::Wait(error.to_string())),
        }
    }

    fn known(&self) -> Result<Known<'_>, Stop> {
        let journal = self.journal()?;
        Ok(Known {
            owner_uid: self.input.uid,
            attempt: journal.round,
            seq: journal.seq,
            pinned: journal.pinned,
            repairing: journal.repairing,
        })
    }

    /// What lets the pin name its writer: that nobody else has a share in the binding, or is proved harmless. A cluster that
    /// gets the token is named only after a pin that held everybody was in force.
    fn authority(&self, pin: &Pin) -> Result<Granted, Stop> {
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
        let (live, read) = self.world().pin.read()?;
        // What an old copy does is no reason to leave a pin as it is that names the writer already, or was changed.
        let keeps = self.journal()?.repairing || live.as_ref().is_some_and(|live| self.names(live, writer));
        if keeps
            && !is_release
            && let Ok(loose) = self.is_loose(writer)?
        {
            return Ok(Granted::Loose(loose));
        }
        let under = live.as_ref().and_then(pin::marker_of);
        let Some(under) = under else {
            // Nothing holds anybody: to name who may run already, and hold the rest, lets nobody go.
            return self.release(writer, read, &involved, &self.marker()?);
        };
        let renewed = Pin {
            marker: under.to_owned(),
            ..pin.clone()
        };
        if live.as_ref().is_some_and(|live| renewed.is_written_as(live)) {
            return Ok(Granted::Nobody);
        }
        if is_release {
            self.same_controllers()?;
            let nobody = Pin {
                marker: under.to_owned(),
                says: Says::Token(Token {
                    tenure: Tenure::Nobody,
                    carry: Vec::new(),
                    ..self.token_of_pin()?
                }),
                ..pin.clone()
            };
            let names_writer = live.as_ref().is_some_and(|live| self.names(live, writer));
            if !names_writer && !live.as_ref().is_some_and(|live| nobody.is_written_as(live)) {
                return Err(Stop::Wait("the pin in force does not hold everybody".to_owned()));
            }
        }
        self.release(writer, read, &involved, under)
    }

    /// Returns whether a pin of ours lets that cluster run already, whatever else it says.
    pub(super) fn names(&self, live: &cutover_karmada::OverridePolicy, writer: &ClusterName) -> bool {
        let ours = pin::owner_of(live).is_some_and(|uid| uid == self.input.uid);
        let excluded = live
            .spec
            .override_rules
            .iter()
            .filter_map(|rule| rule.target_cluster.as_ref());
        let mut excluded = excluded.filter_map(|target| target.exclude.as_ref());
        ours && excluded.any(|names| names.as_slice() == std::slice::from_ref(writer))
    }

    fn release(
        &self,
        writer: &ClusterName,
        read: crate::intent::Read,
        involved: &std::collections::BTreeSet<ClusterName>,
        under: &str,
    ) -> Result<Granted, Stop> {
        let mut proofs = Vec::new();
        for cluster in involved.iter().filter(|cluster| *cluster != writer) {
            proofs.push(self.harmless(cluster, under)??);
        }
        Ok(Granted::Release(Release::new(
            writer,
            Some(read),
            involved,
            &proofs,
        )?))
    }

    /// Proves that nothing in a cluster can write; what can't be seen of it, somebody must have vouched for. What is seen
    /// counts before any word.
    pub(super) fn harmless(
        &self,
        cluster: &ClusterName,
        under: &str,
    ) -> Result<Result<Inert, NotProved>, Stop> {
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
    ) -> Result<Result<Inert, NotProved>, Stop> {
        let old = self.status.old_copies.get(cluster);
        let meant = old
            .and_then(|old| old.identity.as_ref())
            .or_else(|| self.status.journal.as_ref()?.identities.get(cluster));
        let seen = if self.is_replaced(cluster, meant)? {
            Err(NotProved::Unknown(format!(
                "another cluster has joined as {cluster}: what the one of before does, nobody sees"
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

    /// Every Work that Karmada keeps up to date carries the current marker.
    pub(super) fn markers(&mut self) -> Result<(), Stop> {
        let marker = self.marker()?;
        let synced = token::synced(self.binding()?);
        match token::markers(&synced, self.world().works.get()?, &marker) {
            Ok(()) => Ok(()),
            Err(late @ Unmarked::Late(_)) => Err(Stop::Wait(late.wait())),
            Err(missing @ Unmarked::NoWork(cluster)) => {
                let reason = missing.wait();
                let cluster = cluster.clone();
                self.no_work(&cluster, reason)
            }
        }
    }

    /// A Work that somebody deleted is made anew only with the next change; the writer's must not begin from nothing.
    fn no_work(&mut self, cluster: &ClusterName, reason: String) -> Result<(), Stop> {
        if !self.has_waited(&reason, PATIENCE) {
            return Err(Stop::Wait(reason));
        }
        let is_writer = self.journal()?.writer.as_ref() == Some(cluster);
        if is_writer && self.journal()?.carried.is_none() && self.needs_state()? {
            let known = self.status.last_known.as_ref().map(|known| known.values.clone());
            match known {
                Some(values) => self.journal_mut()?.carried = Some(values),
                None if self.approved(FailoverGate::FromNothing, cluster).is_some() => {}
                None => {
                    let why = format!(
                        "{reason}, and no state of it is known: may it start from nothing in {cluster}?"
                    );
                    return Err(Stop::Ask(FailoverGate::FromNothing, cluster.clone(), why));
                }
            }
        }
        self.journal_mut()?.seq += 1;
        self.status.common.waiting_for = None;
        Err(Stop::Again)
    }

    /// Compiles the pin of the journal: pure, so that it can be compared without any right to write it.
    pub(super) fn compile(&self) -> Result<Pin, Stop> {
        let journal = self.journal()?;
        let workload = self.workload();
        Ok(Pin {
            namespace: workload.namespace.clone(),
            name: pin::name(workload),
            owner_uid: self.input.uid.to_owned(),
            owner: format!(
                "FailoverPlan {}/{}",
                self.input.namespace.unwrap_or_default(),
                self.input.name
            ),
            api_version: journal.spec.workload.api_version.clone(),
            versions: Arc::clone(&self.world().overrides.get()?.versions),
            kind: workload.kind.clone(),
            workload: workload.name.clone(),
            marker: self.marker()?,
            says: Says::Token(self.token_of_pin()?),
        })
    }

    fn token_of_pin(&self) -> Result<Token, Stop> {
        let journal = self.journal()?;
        let profile = self.profile()?;
        let variables = Variables {
            captured: journal.carried.as_ref(),
            attempt: self.status.common.attempt,
            object: None,
        };
        let carry: Vec<PatchOp> = match (&journal.writer, &journal.carried) {
            (Some(_), Some(values)) if !values.is_empty() => profile.patches(Action::Start, &variables)?,
            _ => Vec::new(),
        };
        Ok(Token {
            tenure: journal.writer.clone().map_or(Tenure::Nobody, Tenure::Only),
            hold: profile.patches(Action::Hold, &variables)?,
            suspended: journal.suspended.clone(),
            suspend: profile.patches(Action::Suspend, &variables)?,
            carry,
        })
    }

    /// A pin that others undo holds nobody.
    fn has_its_way(&mut self, pin: &Pin) -> Result<(), Stop> {
        let (Ok(Some(template)), Ok(clusters), Ok(all)) = (
            self.world().template.get(),
            self.world().clusters.get(),
            self.world().overrides.get(),
        ) else {
            return Ok(());
        };
        let fights = crate::intent::fight::fights(pin, template, clusters, all);
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
        Ok(())
    }

    /// Returns whether a copy that starts without a handle has lost something.
    pub(super) fn needs_state(&self) -> Result<bool, Stop> {
        let profile = &self.journal()?.profile;
        Ok(profile.stateful && profile.capture.iter().any(|rule| rule.required))
    }
}

enum Granted {
    Nobody,
    Sole(Sole),
    Release(Release),
    Loose(Loose),
}
