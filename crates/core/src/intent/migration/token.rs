//! The writer token of a migration: its claim, the pin that projects it, and what lets the pin name a writer.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::Value;

use super::{Interrupt, Operation, Phase, go_back};
use crate::api::{Fact, Offered, PatchOp, RollBackStage, RunOrder, Strategy};
use crate::intent::custody::{self, Custody, Gives, Granted, LAPSE, Patience, Standing, Terms, Unmarked};
use crate::intent::pin::{self, Holds, Pin, Says, Token, Writer};
use crate::intent::proof::{Facts, Healthy, Held, Inert, NotProved, Sole, Stateless};
use crate::profile::{Action, Site, Variables};
use cutover_karmada::OverridePolicy;
use cutover_karmada::name::ClusterName;

/// How long a source is left running for a target that nobody sees, before the move is given up.
pub(super) const UNSEEN: SignedDuration = SignedDuration::from_mins(1);

/// After how long the journal's moment of the stop is set anew, where the pin that stops the source was not written yet.
const OLD: SignedDuration = SignedDuration::from_mins(1);

impl<'a> Operation<'a> {
    /// Brings claim, pin and markers to what the journal says; returns when every Work shows the current sequence.
    pub(super) fn token(&mut self) -> Result<(), Interrupt> {
        self.claim()?;
        self.pin()?;
        self.markers()?;
        self.send_again()
    }

    fn send_again(&mut self) -> Result<(), Interrupt> {
        let mut late = Vec::new();
        for cluster in custody::synced(self.binding()?) {
            if let Err(NotProved::No(why)) = self.prove(&cluster, |facts| facts.current_copy().map(drop))?
                && matches!(self.snapshot().member(&cluster)?.object.get(), Ok(Some(_)))
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

    pub(super) fn custody(&self) -> Custody<'a> {
        let snapshot = self.snapshot();
        Custody::of(
            self.input.owner("Migration"),
            self.status.common.attempt,
            &snapshot.workload,
            &snapshot.plane.claim,
            &snapshot.plane.pin,
            &snapshot.plane.overrides,
        )
    }

    pub(super) fn claim(&self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let terms = Terms {
            binding_id: journal.binding.id.clone(),
            writer: journal.writer.clone(),
            shared: self.is_shared(),
            lender: journal.lender.clone(),
            clusters: journal.clusters.clone(),
            format: journal.format(),
            ..Terms::default()
        };
        Ok(self.custody().claim(&journal.pin, terms)?)
    }

    /// Gives the token to a cluster: from nobody, under a new sequence, when every other cluster is proved inert.
    pub(super) fn give_token(&mut self, to: &ClusterName) -> Result<(), Interrupt> {
        if !self.is_shared() && self.journal()?.writer.as_ref() != Some(to) {
            // Whatever Git says, everybody is held: a pin that somebody removed is repaired first.
            self.token()?;
            if self.status.phase == Phase::Handoff {
                self.handle_is_safe(&self.marker()?)?;
                // What a source that is lost has can't be compared any more: it was before it stopped.
                if self.unseen(&self.journal()?.source)?.is_none() {
                    self.template_still_moves()?;
                    self.selected_is_there(to)?;
                }
            }
            for cluster in self.involved()?.iter().filter(|cluster| *cluster != to) {
                self.inert(cluster)??;
            }
            // From now on it is this cluster that runs it: whoever said that nothing does has not said so of that.
            self.spend(Fact::Stopped, to)?;
            let known = self.identities([to])?;
            let offered = Offered {
                order: self.order_before(to)?,
                ..self.offered(to)?
            };
            let journal = self.journal_mut()?;
            journal.identities.extend(known);
            journal.offered.insert(to.clone(), offered);
            journal.pin.renew();
            journal.writer = Some(to.clone());
            // What it writes from now on no handle has.
            if let Some(back) = &mut journal.roll_back {
                back.target_captured &= journal.target != *to;
                back.source_captured &= journal.source != *to;
            }
            return Err(Interrupt::Requeue);
        }
        self.token()?;
        self.note_order_seen(to)
    }

    /// What the profile requires of a template was true of it before the move began, and another client may have changed it since.
    fn template_still_moves(&self) -> Result<(), Interrupt> {
        let Some(template) = self.snapshot().plane.template.get()? else {
            return Ok(());
        };
        let change = self.journal()?.template_change.as_ref();
        let to_be = change.map(|change| pin::patched(template, &change.overlay));
        let profile = self.profile()?;
        match profile.unmet(to_be.as_ref().unwrap_or(template))?.first() {
            None => Ok(()),
            Some(lacks) => Err(go_back(format!(
                "the template was changed meanwhile, and cannot be moved as it is now: {}",
                lacks.message
            ))),
        }
    }

    /// Returns what is known of an order to run that is about to be given: of a copy that has not stopped before, nothing will tell
    /// whether what its operator says is about that order.
    fn order_before(&self, to: &ClusterName) -> Result<RunOrder, Interrupt> {
        if !self.journal()?.profile.state_elsewhere {
            return Ok(RunOrder::Unknown);
        }
        let had_no_order = match self.snapshot().member(to)?.object.get() {
            Ok(Some(copy)) => {
                let generation = copy.pointer("/metadata/generation").and_then(Value::as_i64);
                generation == Some(1) && self.profile()?.carries_hold(copy, to)
            }
            Ok(None) => true,
            Err(_) => false,
        };
        let has_stopped = matches!(self.inert(to)?, Ok(Inert::Held(_) | Inert::Stopped(_)));
        Ok(if had_no_order || has_stopped {
            RunOrder::Awaited
        } else {
            RunOrder::Unknown
        })
    }

    /// Notes that a copy was seen to run by the order that it was given.
    fn note_order_seen(&mut self, to: &ClusterName) -> Result<(), Interrupt> {
        let offered = self.journal()?.offered.get(to);
        if offered.is_none_or(|offered| offered.order != RunOrder::Awaited) {
            return Ok(());
        }
        let runs = self.prove(to, Healthy::as_told)?;
        let journal = self.journal_mut()?;
        // On the way back it is compared which copy the source has.
        let keeps_first = journal.source == *to && journal.copies_have_state();
        if let (Ok(uid), Some(offered)) = (runs, journal.offered.get_mut(to)) {
            offered.note_seen(uid, keeps_first);
        }
        Ok(())
    }

    /// Returns what is to be remembered of a copy before it is let run, or when its stop is proved.
    pub(super) fn offered(&self, cluster: &ClusterName) -> Result<Offered, Interrupt> {
        let copy = self
            .snapshot()
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
            order: RunOrder::Unknown,
        })
    }

    /// The pin says what the journal says. One that was lost or edited is repaired under a new sequence, because the markers
    /// of the old one prove nothing any more; where that would name a writer beside other copies, it isn't repaired blindly.
    pub(super) fn pin(&mut self) -> Result<(), Interrupt> {
        let pin = self.compile()?;
        self.fits(&pin)?;
        self.check_effective(&pin)?;
        let custody = self.custody();
        match custody.standing(&pin, &self.journal()?.pin)? {
            Standing::InForce => return Ok(()),
            Standing::Confirmed => {
                self.journal_mut()?.pin.confirm();
                return Err(Interrupt::Requeue);
            }
            Standing::Tampered => return Err(self.repair(&pin)?),
            Standing::Due => {}
        }
        if pin.writer().is_none() && !self.stop_is_due()? {
            self.source_may_be_stopped()?;
        }
        let granted = self.authority(&pin)?;
        Err(custody.write(&pin, granted.authority()).into())
    }

    fn fits(&mut self, pin: &Pin) -> Result<(), Interrupt> {
        let (custody, template) = (self.custody(), &self.snapshot().plane.template);
        let journal = self.journal_mut()?;
        Ok(custody.fits(pin, template, &journal.profile, &mut journal.pin)?)
    }

    /// Returns whether nothing has to be looked at before everybody is held: the source has been told to stop already, or there is
    /// no state that it could lose.
    pub(super) fn stop_is_due(&self) -> Result<bool, Interrupt> {
        let (source, _) = self.ends()?;
        let stops = self.status.phase == Phase::Capture && self.journal()?.writer.is_none();
        Ok(!stops || !self.runs_by_the_pin(&source)? || !self.journal()?.profile.stateful)
    }

    /// Whatever leads to the pin that stops the source: it is written while the source is seen, up and not in the middle of a
    /// restart, which could not be stopped with its state, and while the target can take over. Or a person vouches that nothing
    /// runs in a source that nobody sees. Until then the source ran.
    pub(super) fn source_may_be_stopped(&mut self) -> Result<(), Interrupt> {
        let (source, target) = self.ends()?;
        if let Some(why) = self.unseen(&source)? {
            if self.assumed(Fact::Stopped, &source).is_none() {
                return Err(self.unseen_tenant(&source, &target, &why));
            }
            let now = self.input.now;
            self.journal_mut()?.goes_down(now);
            return Ok(());
        }
        let now = self.input.now;
        if let Err(held_back) = self.both_are_seen_able(&source, &target) {
            self.journal_mut()?.down_since = None;
            return Err(held_back);
        }
        // One that is replaced before each of its writes comes to the pin all the same.
        let down_since = &mut self.journal_mut()?.down_since;
        if down_since.is_none_or(|since| now.duration_since(since) >= OLD) {
            *down_since = Some(now);
        }
        Ok(())
    }

    fn both_are_seen_able(&self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        self.prove(source, Healthy::as_it_is)??;
        self.ready_pods(source)??;
        self.selected_is_there(target)?;
        self.target_can_take_over(target)
    }

    /// The target has all that the profile selects beside the source: its operator may delete what the absence of one stands for.
    fn selected_is_there(&self, target: &ClusterName) -> Result<(), Interrupt> {
        let dependencies = &self.snapshot().dependencies;
        if let Some(missing) = dependencies.missing(target) {
            return Err(go_back(missing.message));
        }
        match dependencies.awaited(&self.journal()?.profile, target) {
            Some(awaited) => Err(Interrupt::Wait(awaited)),
            None => Ok(()),
        }
    }

    /// The target's copy is held, or still to be created. The source isn't stopped for a target that nobody sees.
    fn target_can_take_over(&self, target: &ClusterName) -> Result<(), Interrupt> {
        if !self.journal()?.profile.born_held {
            return Ok(());
        }
        match self.snapshot().member(target)?.object.get() {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                let live = self.snapshot().plane.pin.get()?.as_ref();
                let marker = live.and_then(pin::marker_of).unwrap_or_default();
                self.prove(target, |facts| Held::prove(&Facts { marker, ..*facts }))??;
                Ok(())
            }
            Err(unseen) => {
                let why = unseen.to_string();
                Err(if self.has_waited(&why, UNSEEN) {
                    go_back(format!("{target} can't take over: {why}"))
                } else {
                    Interrupt::Wait(why)
                })
            }
        }
    }

    /// Returns whether the pin in the API server lets a cluster run, whatever the journal says by now.
    pub(super) fn runs_by_the_pin(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let live = self.snapshot().plane.pin.get()?.as_ref();
        Ok(live.is_some_and(|live| custody::names(live, self.input.uid, cluster)))
    }

    /// Plans a new sequence where that is safe; else both copies may have been let go, and only the way back is open.
    fn repair(&mut self, pin: &Pin) -> Result<Interrupt, Interrupt> {
        let involved = self.involved()?;
        let writer = pin.writer();
        let safe = writer.is_none_or(|writer| Sole::new(writer, &involved).is_ok());
        self.raise_let_go(&involved, writer);
        if !safe {
            return Ok(go_back(format!(
                "{LAPSE}: the pin was edited or removed by another client"
            )));
        }
        let journal = self.journal_mut()?;
        journal.pin.repair();
        Ok(Interrupt::Requeue)
    }

    /// Reports a changed pin while the other cluster still has a copy: the pin is put back only once that is out, when it holds no
    /// copy any more.
    pub(super) fn report_changed_pin(&mut self, other: &ClusterName) -> Result<(), Interrupt> {
        let pin = self.compile()?;
        let standing = self.custody().standing(&pin, &self.journal()?.pin)?;
        let is_gone = matches!(self.snapshot().member(other)?.object.get(), Ok(None));
        if standing != Standing::Tampered || is_gone {
            return Ok(());
        }
        let involved = self.involved()?.into_iter().chain([other.clone()]).collect();
        if self.raise_let_go(&involved, pin.writer()) {
            return Err(Interrupt::Requeue);
        }
        Ok(())
    }

    /// Raises the finding of a changed pin; returns whether it is new. Copies of a workload that shares its writers are not held.
    fn raise_let_go(&mut self, involved: &BTreeSet<ClusterName>, writer: Option<&ClusterName>) -> bool {
        let finding = custody::let_go(involved, writer).filter(|_| !self.is_shared());
        finding.is_some_and(|finding| self.raise(finding))
    }

    /// A pin that this attempt wrote under an earlier sequence, unchanged since.
    pub(super) fn is_ours_from_before(&self, live: &OverridePolicy) -> Result<bool, Interrupt> {
        Ok(self.custody().is_from_before(live, &self.journal()?.pin))
    }

    fn authority(&mut self, pin: &Pin) -> Result<Granted, Interrupt> {
        let Says::Token(token) = &pin.says else {
            return Ok(Granted::Nobody);
        };
        let writer = match &token.may_run {
            Writer::Nobody => return Ok(Granted::Nobody),
            Writer::Shared { .. } => return Ok(Granted::Stateless(Stateless::new(&self.profile()?)?)),
            Writer::Only(writer) => writer,
        };
        let involved = self.involved()?;
        if let Ok(sole) = Sole::new(writer, &involved) {
            return Ok(Granted::Sole(sole));
        }
        let (live, read) = self.snapshot().plane.pin.read()?;
        if custody::says_the_same(pin, live.as_ref()) {
            return Ok(Granted::Nobody);
        }
        let gives = self.status.phase != Phase::Hold;
        if gives && self.custody().was_loosened(pin, &self.journal()?.pin)? {
            return Err(self.repair(pin)?);
        }
        self.same_controllers()?;
        let prove = |cluster: &ClusterName, under: &str| self.inert_under(cluster, under);
        // Before the source was told to stop it runs, whatever the control plane has forgotten of a copy that is held elsewhere.
        let gives = if self.status.phase == Phase::Hold {
            Gives::Already
        } else {
            Gives::Now
        };
        let granted = self.custody().release(pin, read, gives, &involved, prove)?;
        // The journal may have been edited since it gave the token away.
        if self.status.phase == Phase::Handoff {
            self.handle_is_safe(live.as_ref().and_then(pin::marker_of).unwrap_or_default())?;
        }
        Ok(granted)
    }

    /// Returns whether the pin in the API server names the writer of the journal, whatever its sequence: if not, what was
    /// decided was never sent.
    pub(super) fn names_the_writer(&self) -> Result<bool, Interrupt> {
        Ok(custody::says_the_same(
            &self.compile()?,
            self.snapshot().plane.pin.get()?.as_ref(),
        ))
    }

    /// Proves that nothing in a cluster can write, under the current sequence.
    pub(super) fn inert(&self, cluster: &ClusterName) -> Result<Result<Inert, NotProved>, Interrupt> {
        self.inert_under(cluster, &self.marker()?)
    }

    fn inert_under(
        &self,
        cluster: &ClusterName,
        marker: &str,
    ) -> Result<Result<Inert, NotProved>, Interrupt> {
        let proved = match self.left_behind(cluster)? {
            Some(why) => Err(NotProved::Unknown(why)),
            None => self.prove(cluster, |facts| Inert::prove(&Facts { marker, ..*facts }))?,
        };
        let Err(NotProved::Unknown(why)) = proved else {
            return Ok(proved);
        };
        Ok(match self.assumed(Fact::Stopped, cluster) {
            Some(by) => Ok(Inert::Assumed {
                cluster: cluster.clone(),
                by,
            }),
            None => Err(NotProved::Unknown(why)),
        })
    }

    /// Every Work that Karmada keeps for the workload carries the current marker.
    pub(super) fn markers(&mut self) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let works = self.snapshot().plane.works.get()?;
        let all = custody::synced(self.binding()?);
        let mut synced = Vec::new();
        for cluster in &all {
            if works.contains_key(cluster) || !self.is_done_without(cluster)? {
                synced.push(cluster.clone());
            }
        }
        // Without any Work nothing shows that the pin is in force, which is needed as long as something may come of it.
        if synced.is_empty() && !self.is_settled() {
            synced = all;
        }
        match custody::markers(&synced, |cluster| works.get(cluster), &marker) {
            Ok(()) => Ok(()),
            Err(Unmarked::NoWork(cluster)) => self.no_work(cluster),
            Err(late @ Unmarked::Late(_)) => Err(Interrupt::Wait(late.wait())),
        }
    }

    /// Compiles the pin of the journal: pure, so that it can be compared without any right to write it.
    pub(super) fn compile(&self) -> Result<Pin, Interrupt> {
        let journal = self.journal()?;
        let profile = self.profile()?;
        let variables = Variables {
            captured: self.captured()?,
            secrets: Some(&journal.secrets),
            attempt: self.status.common.attempt,
            ..Variables::default()
        };
        let clusters = [&journal.source, &journal.target];
        let holds = Holds::of(&profile, &variables, self.workload(), clusters)?;
        let says = Says::Token(Token {
            may_run: self.may_run()?,
            hold: holds.hold,
            suspended: journal.suspended.clone(),
            suspend: holds.suspend,
            named: holds.named,
            carry: self.carry(&variables)?,
        });
        let version = &journal.spec.workload.api_version;
        Ok(self.custody().compile(&journal.pin, version, says)?)
    }

    /// The workload runs in both clusters for a while: it has no state, and the intent says so.
    pub(super) fn is_shared(&self) -> bool {
        self.status.spec_in_force(self.input.spec).strategy == Strategy::StartFirst
    }

    /// Returns whether a person has let a cluster start without a state handle, where none was taken.
    pub(super) fn begins_from_nothing(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        Ok(self.journal()?.captured.is_none() && self.was_said(Fact::FromNothing, cluster))
    }

    fn may_run(&self) -> Result<Writer, Interrupt> {
        let journal = self.journal()?;
        Ok(match &journal.writer {
            _ if self.is_shared() => Writer::Shared {
                carrier: journal.target.clone(),
            },
            Some(writer) => Writer::Only(writer.clone()),
            None => Writer::Nobody,
        })
    }

    /// What the writer runs with beyond the template.
    fn carry(&self, variables: &Variables<'_>) -> Result<Vec<PatchOp>, Interrupt> {
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
        let variables = &Variables {
            site: Some(Site::new(self.workload(), writer.as_str())),
            ..*variables
        };
        if *writer == journal.target {
            let start = if self.begins_from_nothing(writer)? {
                profile.from_nothing(Action::Start, variables)?
            } else {
                profile.patches(Action::Start, variables)?
            };
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
        let restart = if self.begins_from_nothing(writer)? {
            profile.from_nothing(Action::Restart, variables)?
        } else {
            profile.patches(action, variables)?
        };
        if journal.captured.is_none() {
            return Ok(restart);
        }
        // A copy that is deleted and made anew, now or later, has no state of its own: it starts as a first one does. One that
        // is still the same isn't asked.
        Ok(pin::besides(profile.patches(Action::Start, variables)?, restart))
    }
}
