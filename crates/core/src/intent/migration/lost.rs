//! A workload that was deleted while it was moved: nothing is left to move, and nothing of the tool's may stay.

use std::collections::BTreeSet;

use super::{Interrupt, Next, Operation, Phase};
use crate::api::{Finding, RollBack};
use crate::intent::effect::Effect;
use crate::intent::proof::{Gone, NotProved};
use cutover_karmada::name::ClusterName;

const WHY: &str = "the workload was deleted";

impl Operation<'_> {
    /// Neither template nor binding is there any more: seen, not guessed. A template without a binding may get one again.
    pub(super) fn is_lost(&self) -> bool {
        let snapshot = self.snapshot();
        let no_template = matches!(snapshot.plane.template.get(), Ok(None));
        let no_binding = matches!(snapshot.plane.binding.get(), Ok(None));
        self.status.journal_in_force().is_some() && no_template && no_binding
    }

    /// Ends when no copy is left anywhere: until then the pin holds what Karmada has not deleted yet.
    pub(super) fn dissolve(&mut self) -> Result<Next, Interrupt> {
        if !self.committed() && self.journal()?.roll_back.is_none() {
            self.begin_roll_back(WHY.to_owned(), Phase::Failed);
            return Ok(Next::Requeue);
        }
        // What was lent is back where it came from: the rest is its lender's.
        if self.is_given_back()? {
            let end = self.journal()?.roll_back.as_ref().map(|back| back.ends_as);
            return self.return_lent(end.unwrap_or(Phase::Completed), WHY.to_owned());
        }
        let (source, target) = self.ends()?;
        let works = self.snapshot().plane.works.get()?;
        let joined = self.snapshot().plane.clusters.get()?;
        // Those, too, that somebody listed for a while: what the belt has kept there has no Work.
        let mut clusters: BTreeSet<ClusterName> = self.journal()?.identities.keys().cloned().collect();
        clusters.retain(|cluster| joined.contains_key(cluster));
        clusters.extend(works.keys().cloned().chain([source, target]));
        let mut unseen = BTreeSet::new();
        for cluster in &clusters {
            if let Err(why) = self.prove(cluster, Gone::prove)? {
                self.left_in(cluster, &why)?;
                self.vouched_for(cluster, why)?;
                unseen.insert(cluster.clone());
            }
        }
        if !self.journal()?.pin.unpinning {
            self.journal_mut()?.pin.unpinning = true;
            return Ok(Next::Requeue);
        }
        self.remove_canary()?;
        self.custody().unpin()?;
        self.custody().give_up()?;
        let asked = self.journal()?.roll_back.as_ref();
        let end = asked.map_or(Phase::Failed, |back: &RollBack| match back.ends_as {
            Phase::Aborted => Phase::Aborted,
            _ => Phase::Failed,
        });
        let left = what_is_left(&unseen);
        let finding = Finding::new(
            "WorkloadDeleted",
            format!("the workload was deleted while it was moved: {left}"),
            "its last state handle stands in the journal: apply the workload again and start it from there",
        );
        self.raise(finding);
        self.finish_record(end)?;
        self.end(end, vec![format!("{WHY}; {left}; no pin, no claim is left")]);
        Ok(Next::Requeue)
    }

    /// Karmada deletes the binding first, and with the belt on the copies stay and run on: nobody but a person can end them.
    fn left_in(&self, cluster: &ClusterName, why: &NotProved) -> Result<(), Interrupt> {
        if !self.forgotten(cluster).is_ok_and(|copy| copy.is_some()) {
            return Ok(());
        }
        Err(Interrupt::Wait(format!(
            "{why}: {WHY}, and Karmada has left the copy in {cluster} as it was, which may run on: a person must delete it in \
             {cluster}"
        )))
    }

    /// Returns whether the claim was lent, and is its lender's again.
    fn is_given_back(&self) -> Result<bool, Interrupt> {
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        let is_anothers = claim.is_some_and(|claim| claim.spec.owner.uid != self.input.uid);
        let journal = self.journal()?;
        Ok(journal.lender.is_some() && journal.pin.unpinning && is_anothers)
    }

    pub(super) fn remove_canary(&self) -> Result<(), Interrupt> {
        match self.snapshot().plane.canary.get()? {
            Some(_) => Err(Interrupt::Act(vec![Effect::DeleteCanary {
                name: self.canary()?,
            }])),
            None => Ok(()),
        }
    }
}

/// `unseen`: the clusters for which a person's word was taken.
fn what_is_left(unseen: &BTreeSet<ClusterName>) -> String {
    let names: Vec<&str> = unseen.iter().map(ClusterName::as_str).collect();
    match names.as_slice() {
        [] => "no copy of it is left".to_owned(),
        names => format!(
            "no copy of it is left in the clusters that could be observed; {} was not observed, and a person confirmed that nothing runs",
            names.join(" and ")
        ),
    }
}
