//! The claim is lent to a Migration of the same workload, pin and all, and taken up again with the writer that it left.

use super::{Borrower, Interrupt, Operation, Phase};
use crate::api::{Capture, Claim, ClaimOwner, ClaimSpec, LastKnown, Relocation};
use crate::intent::custody;
use crate::intent::effect::Effect;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// A Migration that waits for the workload gets the claim. Nothing else of it changes: until the Migration writes its own,
    /// the guard's pin holds.
    pub(super) fn lend(&mut self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let at_rest = journal.carried.is_none() && !journal.pin.repairing && !self.has_guests()?;
        let asked = self
            .input
            .snapshot
            .migrations
            .get()?
            .iter()
            .find(|borrower| self.wants(borrower));
        let (Some(borrower), true) = (asked, at_rest) else {
            return Ok(());
        };
        let owner = borrower.owner.clone();
        let evidence = format!("{owner} asks for it");
        self.journal_mut()?.lent = Some(owner);
        self.enter(Phase::Lent, vec![evidence]);
        Err(Interrupt::Requeue)
    }

    fn wants(&self, borrower: &Borrower) -> bool {
        let journal = self.status.journal.as_ref();
        borrower.waits && journal.is_some_and(|journal| journal.spec.workload == borrower.workload)
    }

    pub(super) fn lent(&mut self) -> Result<(), Interrupt> {
        let Some(to) = self.journal()?.lent.clone() else {
            self.enter(Phase::Arming, Vec::new());
            return Err(Interrupt::Requeue);
        };
        let migrations = self.input.snapshot.migrations.get()?;
        let mut all = migrations.iter();
        let borrower = all.find(|borrower| borrower.owner.uid == to.uid);
        let Some(claim) = self.around().plane.claim.get()? else {
            // Gone with whoever had it, or swept: what is there now is looked at from the beginning.
            if borrower.is_some_and(|borrower| !borrower.ended) {
                return Err(Interrupt::Wait(format!(
                    "{} {}/{} to claim the workload again",
                    to.kind, to.namespace, to.name
                )));
            }
            self.status.journal = None;
            self.enter(
                Phase::Pending,
                vec!["the claim was given up by its borrower".to_owned()],
            );
            return Err(Interrupt::Requeue);
        };
        if claim.spec.owner.uid == to.uid {
            if borrower.is_some_and(|borrower| !borrower.ended) {
                return Err(Interrupt::Wait(format!(
                    "{} {}/{} moves the workload",
                    to.kind, to.namespace, to.name
                )));
            }
            // One that ended without having begun leaves it where it is.
            let spec = ClaimSpec {
                owner: self.owner(),
                lender: None,
                ..claim.spec.clone()
            };
            return Err(replace(claim, spec));
        }
        if claim.spec.owner.uid != self.input.uid {
            return Err(Interrupt::Wait(custody::held(claim)));
        }
        // Not yet handed out, or given back: the claim says which.
        let ours = self.marker()? == claim.spec.marker;
        if ours {
            self.keep_for_guests()?;
        }
        if ours && borrower.is_some_and(|borrower| !borrower.ended && borrower.waits) {
            let spec = ClaimSpec {
                owner: to,
                lender: Some(self.owner()),
                ..claim.spec.clone()
            };
            return Err(replace(claim, spec));
        }
        let captured = borrower.and_then(|borrower| borrower.captured.clone());
        if let Some(borrower) = borrower {
            self.journal_mut()?.secrets.extend(&borrower.secrets);
        }
        self.take_back(&to, claim.spec.writer.clone(), captured)
    }

    /// Guards what the borrower left.
    fn take_back(
        &mut self,
        to: &ClaimOwner,
        writer: Option<ClusterName>,
        captured: Option<Capture>,
    ) -> Result<(), Interrupt> {
        let Some(writer) = writer else {
            return Err(Interrupt::Wait(
                "the claim came back without a writer: manual intervention required".to_owned(),
            ));
        };
        let identity = self.identity(&writer)?;
        let now = self.input.now;
        let since = self
            .status
            .common
            .steps
            .last()
            .map_or(now, |step| step.started_at);
        self.status.old_copies.remove(&writer);
        let journal = self.journal_mut()?;
        let from = journal.writer.replace(writer.clone());
        journal.lent = None;
        journal.suspended.clear();
        journal.pin.renew();
        journal
            .identities
            .extend(identity.map(|identity| (writer.clone(), identity)));
        // What it took along is newer than whatever was seen before; of another copy nothing else is known.
        if let Some(captured) = captured {
            self.status.last_known = Some(LastKnown::left(writer.clone(), captured.values, captured.at));
        } else if from.as_ref() != Some(&writer) {
            self.status.last_known = None;
        }
        if let Some(from) = from.filter(|from| *from != writer) {
            self.status.history.push(Relocation {
                what: format!("{} {}", to.kind, to.name),
                attempt: 0,
                at: since,
                finished_at: now,
                from,
                to: writer.clone(),
                reason: "planned".to_owned(),
                by: None,
                purge_mode: None,
                state: None,
                evidence: vec![format!(
                    "its own record says more: {} {}/{}",
                    to.kind, to.namespace, to.name
                )],
                downtime_ms: None,
            });
            self.trim_history();
        }
        self.enter(
            Phase::Arming,
            vec![format!("the claim is back: {writer} may run it")],
        );
        Err(Interrupt::Requeue)
    }
}

fn replace(claim: &Claim, spec: ClaimSpec) -> Interrupt {
    Interrupt::Act(vec![Effect::ReplaceClaim {
        claim: custody::exactly(claim),
        spec,
    }])
}
