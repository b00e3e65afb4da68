//! A copy has run, was deleted, and was made anew: it began from the handle of before, and lacks what the first one
//! wrote since. That is told, and ends well only on a person's word.

use super::{Interrupt, Operation};
use crate::api::{Fact, RunOrder};
use crate::intent::custody::starts;
use crate::intent::proof::Healthy;
use cutover_karmada::name::ClusterName;

/// A copy that ran since it was given the token, and the one that is there instead.
struct Recreated {
    first: String,
    now: String,
}

impl Operation<'_> {
    /// The target's copy is the one that was seen to run since it took over.
    pub(super) fn target_copy_stays(&mut self, target: &ClusterName) -> Result<(), Interrupt> {
        let first = self.journal()?.target_uid.clone();
        let Some(anew) = self.recreated(target, first)? else {
            return Ok(());
        };
        self.asks_for_what_is_there(target, &anew)?;
        self.journal_mut()?.target_uid = Some(anew.now);
        Err(Interrupt::Requeue)
    }

    /// The source's copy is the one that was let run again on the way back.
    pub(super) fn source_copy_stays(&mut self, source: &ClusterName) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        let restarts = journal.roll_back.as_ref().is_some_and(|back| back.restart);
        let first = journal
            .offered
            .get(source)
            .and_then(|offered| offered.uid.clone());
        // A person who lets it start from nothing may delete the copy for that.
        let Some(anew) = self
            .recreated(source, first)?
            .filter(|_| restarts && !self.was_said(Fact::FromNothing, source))
        else {
            return Ok(());
        };
        self.asks_for_what_is_there(source, &anew)?;
        if let Some(offered) = self.journal_mut()?.offered.get_mut(source) {
            (offered.uid, offered.order) = (Some(anew.now), RunOrder::Unknown);
        }
        Err(Interrupt::Requeue)
    }

    /// Tells of the loss; returns when a person has given it up.
    fn asks_for_what_is_there(&mut self, cluster: &ClusterName, anew: &Recreated) -> Result<(), Interrupt> {
        let Recreated { first, now } = anew;
        let finding = starts::recreated(cluster, first, now);
        let message = finding.message.clone();
        if self.raise(finding) {
            // Until the new one is seen running, none is.
            let now = self.input.now;
            self.journal_mut()?.goes_down(now);
            return Err(Interrupt::Requeue);
        }
        let mut words = [Fact::From, Fact::FromNothing].into_iter();
        if let Some(word) = words.find(|word| self.assumed(*word, cluster).is_some()) {
            let handle = self.captured()?.cloned().unwrap_or_default();
            self.note_handle(word, cluster, &handle)?;
            // Another one that is recreated later has to be spoken of again.
            return self.spend(word, cluster);
        }
        if self.prove(cluster, |facts| Healthy::prove(facts, None))?.is_ok() {
            let now = self.input.now;
            self.journal_mut()?.is_up(now);
        }
        let offer = self.offer_at(
            Fact::From,
            cluster,
            format!("what the copy that ran in {cluster} wrote since it took over"),
        );
        Err(Interrupt::Wait(format!(
            "manual intervention required: {message}: a person can give that up, and let the workload go on from the copy that is \
             there ({offer})"
        )))
    }

    /// Returns which copy is there instead of the first one, where that means a loss: the copy itself has the state, and a
    /// handle only what was saved.
    fn recreated(
        &self,
        cluster: &ClusterName,
        first: Option<String>,
    ) -> Result<Option<Recreated>, Interrupt> {
        let has_state = self.journal()?.copies_have_state();
        let Some(first) = first.filter(|_| has_state) else {
            return Ok(None);
        };
        // Of one that nobody sees, nothing is said here.
        if self.unseen(cluster)?.is_some() {
            return Ok(None);
        }
        let now = self.uid_in(cluster)?.filter(|now| *now != first);
        Ok(now.map(|now| Recreated { first, now }))
    }
}
