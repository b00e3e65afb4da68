//! What guests of the claim say of the workload: the pin includes it, before whatever the guard says itself.

use std::collections::BTreeMap;

use super::{Interrupt, Operation, Phase};
use crate::api::{Differences, Finding};
use crate::intent::fight;
use crate::intent::pin::{Pin, Rule, lacking};
use cutover_karmada::name::ClusterName;

/// The finding that what guests say by now is not taken in.
const BLOCKS: &str = "GuestBlocks";

impl Operation<'_> {
    /// What guests say by now is what the pin is to say, under a sequence of its own. In the middle of a failover nobody comes here:
    /// the pin says of them what it said when that began.
    pub(super) fn take_in_guests(&mut self) -> Result<(), Interrupt> {
        let Some(claim) = self.custody()?.own_claim()? else {
            return Ok(());
        };
        let said = claim.spec.differences.clone();
        if said == self.journal()?.guests {
            return Ok(());
        }
        // The template may have changed as well: the guest is judged beside a pin that fits it.
        let now = self.compile()?;
        self.fits(&now)?;
        let then = Pin {
            differences: rules(&said),
            ..now.clone()
        };
        if let Some(cluster) = self.would_block(&now, &then)? {
            return self.tell(guests_block(&said, &cluster));
        }
        self.untell(BLOCKS);
        let journal = self.journal_mut()?;
        journal.guests = said;
        journal.pin.renew();
        Err(Interrupt::Requeue)
    }

    /// A pin beside guests goes on creating a parent that the template has by now, where the hold would reach a cluster no more without:
    /// what guests say may take the parent away. Returns whether that is so.
    pub(super) fn guests_need_parents(&self, pin: &Pin) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        let template = self.around().plane.template.get().ok().and_then(Option::as_ref);
        let Some(template) = template.filter(|_| !journal.guests.is_empty()) else {
            return Ok(false);
        };
        let then = Pin {
            created: lacking(template, &journal.profile),
            ..pin.clone()
        };
        Ok(then.created != pin.created && self.would_block(pin, &then)?.is_some())
    }

    /// Returns a cluster that nothing would reach any more, the hold included, if the pin said something else than now.
    fn would_block(&self, now: &Pin, then: &Pin) -> Result<Option<ClusterName>, Interrupt> {
        let (Some(template), clusters) = (
            self.around().plane.template.get()?,
            self.around().plane.clusters.get()?,
        ) else {
            return Ok(None);
        };
        let all = self.around().plane.overrides.get()?;
        let fails = |pin: &Pin, name: &ClusterName| {
            let of = clusters
                .get(name)
                .map(|cluster| fight::with_pin(template, cluster, all, &pin.policy()));
            of.is_some_and(|made| made.is_err())
        };
        let mut names = clusters.keys();
        Ok(names.find(|name| fails(then, name) && !fails(now, name)).cloned())
    }

    /// As long as a guest says something, the guard stays: nobody else holds others while the pin says it.
    pub(super) fn guests_have_left(&mut self) -> Result<(), Interrupt> {
        if self.is_lost()? && self.is_up()? {
            self.take_in_guests()?;
            self.claim()?;
        }
        if !self.is_up()? || !self.has_guests()? {
            return Ok(());
        }
        let journal = self.journal()?;
        let names: Vec<String> = journal
            .guests
            .values()
            .map(|said| said.owner.to_string())
            .collect();
        Err(Interrupt::Wait(format!(
            "{} to end: the pin of this plan carries the changes of that intent; abort or delete it, and the plan ends",
            names.join(" and ")
        )))
    }

    pub(super) fn has_guests(&self) -> Result<bool, Interrupt> {
        let claim = self.custody()?.own_claim()?;
        let asked = claim.is_some_and(|claim| !claim.spec.differences.is_empty());
        Ok(asked || !self.journal()?.guests.is_empty())
    }

    /// A guest that came first is not moved on purpose: the borrower waits until it has left.
    pub(super) fn keep_for_guests(&mut self) -> Result<(), Interrupt> {
        if !self.has_guests()? {
            return Ok(());
        }
        self.journal_mut()?.lent = None;
        self.enter(Phase::Arming, vec!["another intent changes what runs".to_owned()]);
        Err(Interrupt::Requeue)
    }
}

fn guests_block(said: &BTreeMap<String, Differences>, cluster: &ClusterName) -> Finding {
    let names: Vec<String> = said.values().map(|said| said.owner.to_string()).collect();
    Finding::new(
        BLOCKS,
        format!(
            "the changes of {} cannot be applied in {cluster}, and would prevent the hold there: the pin stays as it is",
            names.join(" and ")
        ),
        "change the template so that they can be applied, or abort that intent",
    )
}

/// Returns what guests say, as a pin compiles it.
pub(super) fn rules(guests: &BTreeMap<String, Differences>) -> Vec<Rule> {
    let rules = guests.values().flat_map(|said| &said.rules);
    rules.map(Rule::from).collect()
}
