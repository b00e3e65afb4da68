//! A pin that somebody took away or changed: it is put back so that nobody is let go by it. A word that was given for a cluster
//! counts until that is seen.

use super::settle::of_flight;
use super::{Interrupt, Operation, PATIENCE, Phase};
use crate::api::{FailoverGate, LastKnown, StateSource};
use crate::intent::custody;
use crate::intent::proof::{Loose, NotProved};
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Plans a new sequence: the markers of the old one prove nothing any more. Where somebody is about to get the token, or
    /// the writer itself was held by the change, nobody has it first.
    pub(super) fn repair(&mut self) -> Result<(), Interrupt> {
        let writer = self.journal()?.writer.clone();
        let told = custody::let_go(&self.involved()?, writer.as_ref());
        let Some(writer) = writer else {
            self.journal_mut()?.pin.repair();
            self.untell(custody::LAPSE);
            self.status.common.findings.extend(told);
            return Err(Interrupt::Requeue);
        };
        if self.status.phase == Phase::Releasing {
            self.take_token_back("another client changed or deleted the pin")?;
        } else if told.is_some() && matches!(self.is_loose(&writer)?, Err(NotProved::No(_))) {
            // Another one may have been let go instead.
            let before = self.journal()?.clone();
            if let Some(flight) = &before.flight {
                // It had as good as ended.
                let done = of_flight(flight, &writer, self.status.common.attempt, self.input.now);
                self.status.history.push(done);
                self.trim_history();
            }
            let begun = self.begin(
                format!("another client changed the pin: {writer} was held"),
                None,
                None,
                None,
            );
            if before.flight.is_some() {
                self.journal_mut()?.fence = before.fence;
            }
            self.status.common.findings.extend(told);
            self.journal_mut()?.pin.repairing = true;
            return begun;
        } else {
            self.journal_mut()?.pin.renew();
        }
        self.journal_mut()?.pin.repairing = true;
        self.untell(custody::LAPSE);
        self.status.common.findings.extend(told);
        Err(Interrupt::Requeue)
    }

    /// Proves that nothing holds a cluster as it is.
    pub(super) fn is_loose(&self, name: &ClusterName) -> Result<Result<Loose, NotProved>, Interrupt> {
        let Some(template) = self.around().plane.template.get()? else {
            return Ok(Err(NotProved::Unknown("the template is gone".to_owned())));
        };
        let Some(cluster) = self.around().plane.clusters.get()?.get(name) else {
            return Ok(Err(NotProved::Unknown(format!("{name} is not joined"))));
        };
        let all = self.around().plane.overrides.get()?;
        Ok(Loose::prove(name, cluster, template, all, &self.profile()?))
    }

    /// As long as the pin doesn't name the new cluster, an old copy that is seen not to be harmless refutes whoever vouched for
    /// it; and one that is seen to have left a newer state is what the failover goes on from.
    pub(super) fn word_counts(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Interrupt> {
        let live = self.around().plane.pin.get()?.as_ref();
        let is_released = live.is_some_and(|live| self.names(live, to));
        if is_released || from == to {
            return Ok(());
        }
        if self.flight()?.fenced.is_none() {
            return self.old_copy_is_seen(from);
        }
        let marker = self.marker_in_force()?;
        if matches!(self.seen_harmless(from, &marker)?, Err(NotProved::No(_))) {
            let refuted = self.answers(FailoverGate::Fenced, from);
            self.take_token_back("the old copy is seen again, and is not proved harmless")?;
            self.flight_mut()?.refuted = refuted;
            return Err(Interrupt::Requeue);
        }
        match self.captured(from, &marker)? {
            Some(state) if !self.is_known(&state)? => {
                self.take_token_back("the old copy is seen again, with a newer state")?;
                Err(Interrupt::Requeue)
            }
            _ => Ok(()),
        }
    }

    /// What was seen of the old copy before nobody sees any more, and the token is with nobody: then a person is asked, as before
    /// any release.
    fn old_copy_is_seen(&mut self, from: &ClusterName) -> Result<(), Interrupt> {
        let marker = self.marker_in_force()?;
        let Err(NotProved::Unknown(why)) = self.seen_harmless(from, &marker)? else {
            return Ok(());
        };
        if !self.has_waited(&why, PATIENCE) {
            return Err(Interrupt::Wait(why));
        }
        self.take_token_back(&why)?;
        Err(Interrupt::Requeue)
    }

    /// Returns the marker of the pin that is there, which is what a proof is about until another one is.
    fn marker_in_force(&self) -> Result<String, Interrupt> {
        let live = self.around().plane.pin.get()?.as_ref();
        match live.and_then(crate::intent::pin::marker_of) {
            Some(marker) => Ok(marker.to_owned()),
            None => self.marker(),
        }
    }

    /// Nobody has the token any more, and what let the new cluster have it is to be proved anew. The state is, too, for the old
    /// copy may have run on; what it had left before is what is known of it last.
    fn take_token_back(&mut self, why: &str) -> Result<(), Interrupt> {
        let journal = self.journal_mut()?;
        journal.pin.renew();
        journal.writer = None;
        journal.carried = None;
        journal.redeploy = None;
        let flight = self.flight_mut()?;
        flight.fenced = None;
        (flight.unproved, flight.cut_off, flight.stopping) = (None, None, None);
        let state = flight
            .state
            .take()
            .filter(|state| state.source == StateSource::Captured);
        if let Some(state) = state {
            flight.preserved.clear();
            let cluster = flight.from.clone();
            self.status.last_known = Some(LastKnown::left(cluster, state.values, state.at));
        }
        self.enter(Phase::Fencing, vec![why.to_owned()]);
        Ok(())
    }
}
