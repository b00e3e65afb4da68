//! A failover whose target is lost before it is well is sent on to another cluster, when a person asks for it. As long as the
//! target never had the token, it is as harmless as on the day it was born held; from then on it is an old copy like any other.

use super::{Interrupt, Operation, PATIENCE, question};
use crate::api::{FailoverGate, FailoverRequest, Finding, LastKnown, OldCopy, WaitCode};
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Nobody has the token, and it is about to be given to `to`: not to a cluster that nobody sees.
    pub(super) fn target_is_there(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Interrupt> {
        if let Some(request) = self.wanted_elsewhere(from, to)? {
            return self.send_elsewhere(from, to, &request);
        }
        if let Err(Interrupt::Wait(why)) = self.copy(to).map(drop) {
            self.tell(Finding::new(
                "TargetLost",
                format!("{to} was chosen, but cannot be observed: it does not get the token"),
                "wait until it is back, or send it on: cutover failover with --to another cluster",
            ))?;
            return Err(self.asks_to_go_back(from, to, why)?);
        }
        self.untell("TargetLost");
        Ok(())
    }

    /// Nobody sees the new cluster, and the old one can have the workload again: whoever knows that nothing of it writes in the new
    /// one can say so. `Interrupt::Requeue`: somebody has.
    pub(super) fn asks_to_go_back(
        &mut self,
        from: &ClusterName,
        to: &ClusterName,
        why: String,
    ) -> Result<Interrupt, Interrupt> {
        let joined = self.around().plane.clusters.get()?.get(from);
        let is_able = joined.is_some_and(cutover_karmada::Cluster::is_ready) && self.copy(from).is_ok();
        if from == to || !is_able || !self.has_waited_for(&why) {
            return Ok(Interrupt::Wait(why));
        }
        let Some(by) = self.approved(FailoverGate::Fenced, to) else {
            let lost = if self.flight()?.released {
                ", from the state that it left, and what was written since is lost"
            } else {
                ""
            };
            return Ok(question(
                FailoverGate::Fenced,
                to.clone(),
                format!(
                    "{why}: is it certain that no copy in {to} writes? If so, {from} gets the workload again{lost}"
                ),
            ));
        };
        let request = FailoverRequest {
            attempt: self.status.common.attempt + 1,
            to: from.clone(),
            reason: format!("{to} is lost"),
            by: Some(by.clone()),
        };
        if self.flight()?.released {
            match self.send_from(from, to, request) {
                Ok(()) | Err(Interrupt::Requeue) => {}
                Err(stop) => return Err(stop),
            }
            if let Ok(flight) = self.flight_mut()
                && flight.from == *to
            {
                flight.fenced = Some(by);
            }
            return Ok(Interrupt::Requeue);
        }
        self.instead_of(to, &request)?;
        let from = from.clone();
        let journal = self.journal_mut()?;
        journal.clusters = vec![from.clone()];
        journal.suspended = vec![from];
        self.flight_mut()?.with_source = Some(false);
        Ok(Interrupt::Requeue)
    }

    /// It has been so for a while, whether a person is asked already or not.
    fn has_waited_for(&self, why: &str) -> bool {
        let why = self.without_secrets(why.to_owned());
        let waits = self.status.common.waiting_for.as_ref();
        waits.is_some_and(|wait| {
            let asks = wait.code == WaitCode::Approval && wait.reason.starts_with(&why);
            asks || self.has_waited(&why, PATIENCE)
        })
    }

    /// Another cluster takes its place; its own copy is looked after like every old one.
    fn send_elsewhere(
        &mut self,
        from: &ClusterName,
        to: &ClusterName,
        request: &FailoverRequest,
    ) -> Result<(), Interrupt> {
        if self.flight()?.released {
            // It had the token, which was taken back since: whether it ran, nobody knows.
            return self.send_from(from, to, request.clone());
        }
        self.instead_of(to, request)?;
        Err(Interrupt::Requeue)
    }

    /// The target, which never had the token, is replaced by another one.
    fn instead_of(&mut self, to: &ClusterName, request: &FailoverRequest) -> Result<(), Interrupt> {
        let (now, attempt, marker) = (self.input.now, self.status.common.attempt, self.marker()?);
        let known = self.identity(&request.to)?;
        let journal = self.journal_mut()?;
        let identity = journal.identities.get(to).cloned();
        if let Some(known) = known {
            journal.identities.insert(request.to.clone(), known);
        }
        for cluster in journal.clusters.iter_mut().filter(|cluster| *cluster == to) {
            cluster.clone_from(&request.to);
        }
        journal.pin.renew();
        let flight = self.flight_mut()?;
        flight.reason = format!("{}; sent on from {to}: {}", flight.reason, request.reason);
        flight.to = Some(request.to.clone());
        flight.requested = true;
        flight.by.clone_from(&request.by);
        let old = OldCopy {
            attempt,
            since: now,
            kept: false,
            fenced: Some("it was created under the pin and never had the token".to_owned()),
            identity,
            marker: Some(marker),
            refuted: 0,
            purged_by: None,
            fetching_since: None,
        };
        self.status.old_copies.insert(to.clone(), old);
        self.status.common.attempt += 1;
        self.keep_only_missing();
        Ok(())
    }

    /// The target has had the token, and is lost before it was seen well: that is a failover of its own, from there. The state
    /// that it was given is the last that is known.
    pub(super) fn sent_on(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Interrupt> {
        let mut told = self.status.common.findings.iter();
        let is_lost = self.copy(to).is_err() || told.any(|finding| finding.code == "NotHealthy");
        if !is_lost {
            return Ok(());
        }
        let Some(request) = self.wanted_elsewhere(from, to)? else {
            return Ok(());
        };
        self.send_from(from, to, request)
    }

    fn send_from(
        &mut self,
        from: &ClusterName,
        to: &ClusterName,
        request: FailoverRequest,
    ) -> Result<(), Interrupt> {
        self.remember_old_copy(from, to)?;
        let flight = self.flight()?.clone();
        if let Some(state) = flight.state.as_ref().filter(|state| !state.values.is_empty()) {
            self.status.last_known = Some(LastKnown::left(from.clone(), state.values.clone(), state.at));
        }
        let mut record = super::settle::of_flight(&flight, to, self.status.common.attempt, self.input.now);
        record.evidence.push(format!(
            "{to}: not seen well before it was sent on to {}",
            request.to
        ));
        self.status.history.push(record);
        self.trim_history();
        // The binding is as the flight before has left it: what was taken off it, and who is past what, is still so.
        let fence = self.journal()?.fence.clone();
        self.journal_mut()?.writer = Some(to.clone());
        let begun = self.begin(request.reason, Some(request.to), None, request.by);
        self.journal_mut()?.fence = fence;
        begun
    }

    /// Returns the request that sends a failover under way to another cluster, if that one can take it.
    fn wanted_elsewhere(
        &mut self,
        from: &ClusterName,
        to: &ClusterName,
    ) -> Result<Option<FailoverRequest>, Interrupt> {
        let Some(request) = self.input.spec.request.clone() else {
            return Ok(None);
        };
        if request.attempt != self.status.common.attempt + 1 {
            return Ok(None);
        }
        let why = if request.to == *to {
            Some(format!("it is on its way to {to} already"))
        } else if request.to == *from {
            Some(format!("the workload comes from {from}"))
        } else {
            self.cannot_take(&request)?
        };
        match why {
            Some(why) => {
                self.refuse(&request, why)?;
                Ok(None)
            }
            None => Ok(Some(request)),
        }
    }
}
