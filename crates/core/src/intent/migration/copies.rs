//! The target's copy has run, was deleted, and was made anew: it began from the handle of before, and lacks what the first one
//! wrote since. That is told, and ends well only on a person's word.

use super::{Machine, Stop};
use crate::api::{Fact, Finding};
use crate::intent::proof::Healthy;
use cutover_karmada::name::ClusterName;

const CODE: &str = "CopyMadeAnew";

impl Machine<'_> {
    /// The target's copy is the one that was seen to run since it took over.
    pub(super) fn target_copy_stays(&mut self, target: &ClusterName) -> Result<(), Stop> {
        let Some((first, now)) = self.made_anew(target)? else {
            return Ok(());
        };
        let message = format!(
            "{target}: the copy that ran (uid {first}) was deleted and made anew (uid {now}): what it wrote since it took over is \
             lost but for what its state handle has"
        );
        if !self.status.findings.iter().any(|known| known.message == message) {
            let hint = "find out who deleted it; the state handles stand in the journal";
            self.status.findings.push(Finding::new(CODE, &message, hint));
            // Until the new one is seen running, none is.
            let now = self.input.now;
            self.journal_mut()?.goes_down(now);
            return Err(Stop::Again);
        }
        if self.assumed(Fact::NoState, target).is_some() {
            self.journal_mut()?.target_uid = Some(now);
            return Err(Stop::Again);
        }
        if self.prove(target, |facts| Healthy::prove(facts, None))?.is_ok() {
            let now = self.input.now;
            self.journal_mut()?.is_up(now);
        }
        Err(Stop::Wait(format!(
            "{message}: a person must look, and can give that up ({})",
            self.offer(Fact::NoState, target)
        )))
    }

    /// Returns the uids of the copy that ran and of the one that is there instead, where that means a loss: the copy itself has
    /// the state, and a handle only what was saved.
    fn made_anew(&self, target: &ClusterName) -> Result<Option<(String, String)>, Stop> {
        let journal = self.journal()?;
        let has_state = journal.profile.stateful && !journal.profile.capture.is_empty();
        let Some(first) = journal.target_uid.clone().filter(|_| has_state) else {
            return Ok(None);
        };
        let now = self.uid_in(target)?.filter(|now| *now != first);
        Ok(now.map(|now| (first, now)))
    }
}
