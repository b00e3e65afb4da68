//! The writer token of a migration: its claim, the pin that projects it, and what lets the pin name a writer.

use std::sync::Arc;

use jiff::SignedDuration;

use super::heir::LAPSE;
use super::{Machine, Phase, Stop};
use crate::api::{Assumption, ClaimSpec, Fact, Offered, PatchOp, RollBackStage, Strategy};
use crate::intent::effect::Effect;
use crate::intent::pin::{self, Authority, Pin, PinWrite, Says, Tenure, Token};
use crate::intent::proof::{Facts, Inert, NotProved, Release, Sole, Stateless};
use crate::intent::token::{self, Known, Standing, Unmarked};
use crate::profile::{Action, Variables};
use cutover_karmada::OverridePolicy;
use cutover_karmada::name::ClusterName;

/// How long a marker may take from a Work to its copy, for each sequence that there was.
const ARRIVES_WITHIN: SignedDuration = SignedDuration::from_secs(10);

impl Machine<'_> {
    /// Brings claim, pin and markers to what the journal says; returns when every Work shows the current sequence.
    pub(super) fn token(&mut self) -> Result<(), Stop> {
        self.claim()?;
        self.pin()?;
        self.markers()?;
        self.send_again()
    }

    /// Karmada may take a request to a member that timed out for one that was answered, and sends no other one by itself: a copy
    /// that doesn't get the marker which its Work has is sent a new one. Each time it is waited for longer.
    fn send_again(&mut self) -> Result<(), Stop> {
        let patience = ARRIVES_WITHIN.saturating_mul(self.journal()?.seq.try_into().unwrap_or(i32::MAX));
        for cluster in token::synced(self.binding()?) {
            let carries = self.prove(&cluster, |facts| facts.current_copy().map(drop))?;
            if let Err(NotProved::No(late)) = carries
                && self
                    .world()
                    .member(&cluster)?
                    .object
                    .get()
                    .is_ok_and(Option::is_some)
                && self.has_waited(&late, patience)
            {
                let journal = self.journal_mut()?;
                journal.seq += 1;
                return Err(Stop::Again);
            }
        }
        Ok(())
    }

    /// The claim says what the journal says: written by compare-and-swap, before what it allows.
    pub(super) fn claim(&self) -> Result<(), Stop> {
        let wanted = self.claim_spec()?;
        Ok(token::claim(
            self.world().claim.get()?.as_ref(),
            self.workload(),
            wanted,
        )?)
    }

    fn claim_spec(&self) -> Result<ClaimSpec, Stop> {
        let journal = self.journal()?;
        let workload = self.workload();
        Ok(ClaimSpec {
            workload: token::claimed(workload),
            binding_id: journal.binding.id.clone(),
            owner: self.input.owner("Migration"),
            attempt: self.status.attempt,
            seq: journal.seq,
            marker: if journal.unpinning {
                String::new()
            } else {
                self.marker()?
            },
            writer: journal.writer.clone(),
            shared: self.is_shared(),
            guards: false,
            lender: journal.lender.clone(),
            clusters: journal.clusters.clone(),
            standing: false,
        })
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
            journal.seq += 1;
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
        let live = self.world().pin.get()?.as_ref();
        match token::standing(&pin, live, self.known()?) {
            Standing::InForce if self.journal()?.repairing => {
                self.journal_mut()?.repairing = false;
                return Err(Stop::Again);
            }
            Standing::InForce => return Ok(()),
            Standing::Tampered => return Err(self.repair(&pin)?),
            Standing::Due => {}
        }
        let authority = self.authority(&pin)?;
        let authority = match &authority {
            Granted::Nobody => Authority::Nobody,
            Granted::Sole(sole) => Authority::Sole(sole),
            Granted::Release(release) => Authority::Release(release),
            Granted::Stateless(stateless) => Authority::Stateless(stateless),
        };
        match PinWrite::new(&pin, live, authority) {
            Ok(write) => Err(Stop::Act(vec![Effect::WritePin(Box::new(write))])),
            Err(error) => Err(Stop::Wait(error.to_string())),
        }
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
        journal.seq += 1;
        journal.repairing = true;
        Ok(Stop::Again)
    }

    /// A pin that this attempt wrote under an earlier sequence, unchanged since.
    pub(super) fn is_ours_from_before(&self, live: &OverridePolicy) -> Result<bool, Stop> {
        Ok(token::is_from_before(live, self.known()?))
    }

    fn known(&self) -> Result<Known<'_>, Stop> {
        let journal = self.journal()?;
        Ok(Known {
            owner_uid: self.input.uid,
            attempt: self.status.attempt,
            seq: journal.seq,
            pinned: journal.pinned,
            repairing: journal.repairing,
        })
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
        let Some(marker) = live.as_ref().and_then(pin::marker_of) else {
            return Err(Stop::Wait(
                "no pin is in force yet that holds everybody".to_owned(),
            ));
        };
        if says_the_same(pin, live.as_ref()) {
            return Ok(Granted::Nobody);
        }
        self.same_controllers()?;
        let nobody = Pin {
            says: Says::Token(Token {
                tenure: Tenure::Nobody,
                carry: Vec::new(),
                ..token.clone()
            }),
            marker: marker.to_owned(),
            ..pin.clone()
        };
        if !live.as_ref().is_some_and(|live| nobody.is_written_as(live)) {
            return Err(Stop::Wait("the pin in force does not hold everybody".to_owned()));
        }
        let mut proofs = Vec::new();
        for cluster in involved.iter().filter(|cluster| *cluster != writer) {
            proofs.push(self.inert_under(cluster, marker)??);
        }
        // The journal may have been edited since it gave the token away.
        if self.status.phase == Phase::Handoff {
            self.handle_is_safe(marker)?;
        }
        Ok(Granted::Release(Release::new(
            writer,
            Some(read),
            &involved,
            &proofs,
        )?))
    }

    /// Returns whether the pin in the API server names the writer of the journal, whatever its sequence: if not, what was
    /// decided was never sent.
    pub(super) fn names_the_writer(&self) -> Result<bool, Stop> {
        Ok(says_the_same(&self.compile()?, self.world().pin.get()?.as_ref()))
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
        let synced = token::synced(self.binding()?);
        match token::markers(&synced, self.world().works.get()?, &marker) {
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
        let workload = self.workload();
        Ok(Pin {
            namespace: workload.namespace.clone(),
            name: pin::name(workload),
            owner_uid: self.input.uid.to_owned(),
            owner: format!(
                "Migration {}/{}",
                self.input.namespace.unwrap_or_default(),
                self.input.name
            ),
            api_version: journal.spec.workload.api_version.clone(),
            versions: Arc::clone(&self.world().overrides.get()?.versions),
            kind: workload.kind.clone(),
            workload: workload.name.clone(),
            marker: self.marker()?,
            says: Says::Token(Token {
                tenure: self.tenure()?,
                hold: profile.patches(Action::Hold, &variables)?,
                suspended: journal.suspended.clone(),
                suspend: profile.patches(Action::Suspend, &variables)?,
                carry: self.carry(&variables)?,
            }),
        })
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

/// Returns whether a pin says what it shall but for its sequence.
fn says_the_same(pin: &Pin, live: Option<&OverridePolicy>) -> bool {
    let marker = live.and_then(pin::marker_of);
    live.zip(marker).is_some_and(|(live, marker)| {
        let renewed = Pin {
            marker: marker.to_owned(),
            ..pin.clone()
        };
        renewed.is_written_as(live)
    })
}

enum Granted {
    Nobody,
    Sole(Sole),
    Release(Release),
    Stateless(Stateless),
}
