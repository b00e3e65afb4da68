//! The writer token of a migration: its claim, the pin that projects it, and what lets the pin name a writer.

use super::heir::LAPSE;
use super::{Machine, Phase, Stop};
use crate::api::{Assumption, Fact, Offered, PatchOp, RollBackStage, Strategy};
use crate::intent::custody::{self, Custody, Gives, Granted, Patience, Standing, Terms, Unmarked};
use crate::intent::pin::{self, Pin, Says, Tenure, Token};
use crate::intent::proof::{Facts, Inert, NotProved, Sole, Stateless};
use crate::profile::{Action, Variables};
use cutover_karmada::OverridePolicy;
use cutover_karmada::name::ClusterName;

impl<'a> Machine<'a> {
    /// Brings claim, pin and markers to what the journal says; returns when every Work shows the current sequence.
    pub(super) fn token(&mut self) -> Result<(), Stop> {
        self.claim()?;
        self.pin()?;
        self.markers()?;
        self.send_again()
    }

    fn send_again(&mut self) -> Result<(), Stop> {
        let mut late = Vec::new();
        for cluster in custody::synced(self.binding()?) {
            if let Err(NotProved::No(why)) = self.prove(&cluster, |facts| facts.current_copy().map(drop))?
                && matches!(self.world().member(&cluster)?.object.get(), Ok(Some(_)))
            {
                late.push(why);
            }
        }
        self.journal()?;
        let status = &mut self.status;
        let journal = status.journal.as_mut().ok_or(Stop::Again)?;
        let patience = Patience {
            wait: &mut status.waiting_for,
            now: self.input.now,
            limit: custody::ARRIVES_WITHIN,
        };
        Ok(custody::send_again(late, &mut journal.pin, patience)?)
    }

    pub(super) fn custody(&self) -> Custody<'a> {
        let world = self.world();
        Custody::of(
            self.input.owner("Migration"),
            self.status.attempt,
            &world.workload,
            &world.claim,
            &world.pin,
            &world.overrides,
        )
    }

    pub(super) fn claim(&self) -> Result<(), Stop> {
        let journal = self.journal()?;
        let terms = Terms {
            binding_id: journal.binding.id.clone(),
            writer: journal.writer.clone(),
            shared: self.is_shared(),
            lender: journal.lender.clone(),
            clusters: journal.clusters.clone(),
            ..Terms::default()
        };
        Ok(self.custody().claim(&journal.pin, terms)?)
    }

    /// Gives the token to a cluster: from nobody, under a new sequence, when every other cluster is proved inert.
    pub(super) fn give_token(&mut self, to: &ClusterName) -> Result<(), Stop> {
        if !self.is_shared() && self.journal()?.writer.as_ref() != Some(to) {
            // Whatever Git says, everybody is held: a pin that somebody removed is repaired first.
            self.token()?;
            if self.status.phase == Phase::Handoff {
                self.handle_is_safe(&self.marker()?)?;
            }
            for cluster in self.involved()?.iter().filter(|cluster| *cluster != to) {
                self.inert(cluster)??;
            }
            // From now on it is this cluster that runs it.
            let known = self.identities([to])?;
            let offered = self.offered(to)?;
            let journal = self.journal_mut()?;
            journal.identities.extend(known);
            journal.offered.insert(to.clone(), offered);
            journal.pin.renew();
            journal.writer = Some(to.clone());
            // What it writes from now on no handle has.
            if let Some(back) = journal.roll_back.as_mut().filter(|_| journal.target == *to) {
                back.target_captured = false;
            }
            return Err(Stop::Again);
        }
        self.token()
    }

    /// Returns what is to be remembered of a copy before it is let run.
    fn offered(&self, cluster: &ClusterName) -> Result<Offered, Stop> {
        let copy = self
            .world()
            .member(cluster)?
            .object
            .get()
            .ok()
            .and_then(Option::as_ref);
        let generation = copy.and_then(|copy| copy.pointer("/metadata/generation")?.as_i64());
        let uid = copy.and_then(|copy| copy.pointer("/metadata/uid")?.as_str());
        Ok(Offered {
            uid: uid.map(str::to_owned),
            generation: generation.unwrap_or_default(),
        })
    }

    /// The pin says what the journal says. One that was lost or edited is repaired under a new sequence, because the markers
    /// of the old one prove nothing any more; where that would name a writer beside other copies, it isn't repaired blindly.
    pub(super) fn pin(&mut self) -> Result<(), Stop> {
        let pin = self.compile()?;
        self.has_its_way(&pin)?;
        let custody = self.custody();
        match custody.standing(&pin, &self.journal()?.pin)? {
            Standing::InForce => return Ok(()),
            Standing::Confirmed => {
                self.journal_mut()?.pin.confirm();
                return Err(Stop::Again);
            }
            Standing::Tampered => return Err(self.repair(&pin)?),
            Standing::Due => {}
        }
        let granted = self.authority(&pin)?;
        Err(custody.write(&pin, granted.authority()).into())
    }

    /// Plans a new sequence where that is safe; else both copies may have been let go, and only the way back is open.
    fn repair(&mut self, pin: &Pin) -> Result<Stop, Stop> {
        let involved = self.involved()?;
        let writer = pin.writer();
        let safe = writer.is_none_or(|writer| Sole::new(writer, &involved).is_ok());
        if !safe {
            return Ok(Stop::RollBack(format!(
                "{LAPSE}: the pin was edited or removed by somebody else"
            )));
        }
        let journal = self.journal_mut()?;
        journal.pin.repair();
        Ok(Stop::Again)
    }

    /// A pin that this attempt wrote under an earlier sequence, unchanged since.
    pub(super) fn is_ours_from_before(&self, live: &OverridePolicy) -> Result<bool, Stop> {
        Ok(self.custody().is_from_before(live, &self.journal()?.pin))
    }

    fn authority(&mut self, pin: &Pin) -> Result<Granted, Stop> {
        let Says::Token(token) = &pin.says else {
            return Ok(Granted::Nobody);
        };
        let writer = match &token.tenure {
            Tenure::Nobody => return Ok(Granted::Nobody),
            Tenure::Shared { .. } => return Ok(Granted::Stateless(Stateless::new(&self.profile()?)?)),
            Tenure::Only(writer) => writer,
        };
        let involved = self.involved()?;
        if let Ok(sole) = Sole::new(writer, &involved) {
            return Ok(Granted::Sole(sole));
        }
        let (live, read) = self.world().pin.read()?;
        if custody::says_the_same(pin, live.as_ref()) {
            return Ok(Granted::Nobody);
        }
        self.same_controllers()?;
        let prove = |cluster: &ClusterName, under: &str| self.inert_under(cluster, under);
        let granted = self.custody().release(pin, read, Gives::Now, &involved, prove)?;
        // The journal may have been edited since it gave the token away.
        if self.status.phase == Phase::Handoff {
            self.handle_is_safe(live.as_ref().and_then(pin::marker_of).unwrap_or_default())?;
        }
        Ok(granted)
    }

    /// Returns whether the pin in the API server names the writer of the journal, whatever its sequence: if not, what was
    /// decided was never sent.
    pub(super) fn names_the_writer(&self) -> Result<bool, Stop> {
        Ok(custody::says_the_same(
            &self.compile()?,
            self.world().pin.get()?.as_ref(),
        ))
    }

    /// Proves that nothing in a cluster can write, under the current sequence.
    pub(super) fn inert(&self, cluster: &ClusterName) -> Result<Result<Inert, NotProved>, Stop> {
        self.inert_under(cluster, &self.marker()?)
    }

    fn inert_under(&self, cluster: &ClusterName, marker: &str) -> Result<Result<Inert, NotProved>, Stop> {
        let assumed = self.assumed(Fact::Stopped, cluster);
        let proved = match self.left_behind(cluster)? {
            Some(why) => Err(NotProved::Unknown(why)),
            None => self.prove(cluster, |facts| Inert::prove(&Facts { marker, ..*facts }))?,
        };
        Ok(match (proved, assumed) {
            (Err(NotProved::Unknown(_)), Some(assumption)) => Ok(Inert::Assumed {
                cluster: cluster.clone(),
                by: assumption.by.clone().unwrap_or_else(|| "a person".to_owned()),
            }),
            (proved, _) => proved,
        })
    }

    /// Returns a person's word for a fact about a cluster, in this attempt and phase.
    pub(super) fn assumed(&self, fact: Fact, cluster: &ClusterName) -> Option<&Assumption> {
        self.input.spec.assume.iter().find(|assumption| {
            assumption.fact == fact
                && assumption.cluster == *cluster
                && assumption.attempt == self.status.attempt
                && assumption.phase == self.status.phase
        })
    }

    /// Every Work that Karmada keeps for the workload carries the current marker.
    pub(super) fn markers(&mut self) -> Result<(), Stop> {
        let marker = self.marker()?;
        let synced = custody::synced(self.binding()?);
        let works = self.world().works.get()?;
        match custody::markers(&synced, |cluster| works.get(cluster), &marker) {
            Ok(()) => Ok(()),
            Err(Unmarked::NoWork(cluster)) => self.no_work(cluster),
            Err(late @ Unmarked::Late(_)) => Err(Stop::Wait(late.wait())),
        }
    }

    /// Compiles the pin of the journal: pure, so that it can be compared without any right to write it.
    pub(super) fn compile(&self) -> Result<Pin, Stop> {
        let journal = self.journal()?;
        let profile = self.profile()?;
        let variables = Variables {
            captured: self.captured()?,
            attempt: self.status.attempt,
            object: None,
        };
        let says = Says::Token(Token {
            tenure: self.tenure()?,
            hold: profile.patches(Action::Hold, &variables)?,
            suspended: journal.suspended.clone(),
            suspend: profile.patches(Action::Suspend, &variables)?,
            carry: self.carry(&variables)?,
        });
        let version = &journal.spec.workload.api_version;
        Ok(self.custody().compile(&journal.pin, version, says)?)
    }

    /// The workload runs in both clusters for a while: it has no state, and the intent says so.
    pub(super) fn is_shared(&self) -> bool {
        self.status.spec_in_force(self.input.spec).strategy == Strategy::StartFirst
    }

    fn tenure(&self) -> Result<Tenure, Stop> {
        let journal = self.journal()?;
        Ok(match &journal.writer {
            _ if self.is_shared() => Tenure::Shared {
                carrier: journal.target.clone(),
            },
            Some(writer) => Tenure::Only(writer.clone()),
            None => Tenure::Nobody,
        })
    }

    /// What the writer runs with beyond the template.
    fn carry(&self, variables: &Variables<'_>) -> Result<Vec<PatchOp>, Stop> {
        let journal = self.journal()?;
        let profile = self.profile()?;
        let change = journal
            .template_change
            .iter()
            .flat_map(|change| change.overlay.clone());
        if self.is_shared() {
            return Ok(change.collect());
        }
        let Some(writer) = &journal.writer else {
            return Ok(Vec::new());
        };
        if *writer == journal.target {
            let start = profile.patches(Action::Start, variables)?;
            return Ok(change.chain(start).collect());
        }
        let Some(back) = &journal.roll_back else {
            return Ok(Vec::new());
        };
        if !back.restart || back.stage < RollBackStage::Returned {
            return Ok(Vec::new());
        }
        let action = if back.from_handle {
            Action::RestartFrom
        } else {
            Action::Restart
        };
        let restart = profile.patches(action, variables)?;
        if journal.captured.is_none() {
            return Ok(restart);
        }
        // A copy that is deleted and made anew, now or later, has no state of its own: it starts as a first one does. One that
        // is still the same isn't asked.
        let mut carried = profile.patches(Action::Start, variables)?;
        carried.retain(|start| restart.iter().all(|patch| patch.path != start.path));
        carried.extend(restart);
        Ok(carried)
    }
}
