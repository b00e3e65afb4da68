//! Who takes over. From a target that runs the token is taken only towards a source that was seen able to have it in the same
//! pass; abort, deletion, a deadline and a failed check are wishes. Nobody is not a place to stay: where the source can't have
//! it, the target keeps it, or gets it again.

use super::{Machine, Next, Phase, Stop};
use crate::api::{Fact, RollBackStage};
use crate::intent::proof::{Gone, Healthy, NotProved};
use cutover_karmada::name::ClusterName;

/// How the reason of a roll back begins after which two copies may have run: nobody keeps the token then.
pub(super) const LAPSE: &str = "SingleWriterLapse";

impl Machine<'_> {
    /// Returns why the source can't have the token now, if so: its member is seen, its copy is held there under the marker in
    /// force, so that the next one will reach it, and it has a state to run from that isn't older than the target's.
    pub(super) fn no_heir(&self, source: &ClusterName, target: &ClusterName) -> Result<Option<String>, Stop> {
        let back = self.journal()?.roll_back.as_ref();
        let given_up =
            self.assumed(Fact::NoState, target).is_some() || self.assumed(Fact::Newest, source).is_some();
        if back.is_some_and(|back| back.own_state) && !given_up {
            return Ok(Some(format!(
                "{target} has stopped without a state handle, so what it wrote is there alone"
            )));
        }
        match self.steered(source) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Ok(Some(why.to_string())),
            Err(Stop::Wait(why)) => return Ok(Some(why)),
            Err(stop) => return Err(stop),
        }
        if let Ok(pods) = self.world().member(source)?.pods.get()
            && let Some(pod) = pods.first()
        {
            return Ok(Some(format!("{source}: pod {} is there again", pod.name)));
        }
        match self.source_can_resume(source) {
            Ok(()) => Ok(None),
            Err(Stop::Wait(why)) => Ok(Some(why)),
            Err(stop) => Err(stop),
        }
    }

    /// What is told to a cluster reaches it: its copy carries the hold under the marker in force, or there is none. An operator
    /// that says nothing new about a held copy is no reason to keep the token from it: it stopped before the hand-over, and who
    /// lets it run proves what has to be proved of the others.
    fn steered(&self, cluster: &ClusterName) -> Result<Result<(), NotProved>, Stop> {
        if let Some(why) = self.left_behind(cluster)? {
            return Ok(Err(NotProved::Unknown(why)));
        }
        self.prove(cluster, |facts| {
            if facts.member.object.get()?.is_none() {
                return Gone::prove(facts).map(drop);
            }
            let copy = facts.current_copy()?;
            if facts.profile.carries_hold(copy) {
                Ok(())
            } else {
                Err(NotProved::No(format!(
                    "{cluster}: the copy does not carry the hold"
                )))
            }
        })
    }

    /// Returns whether a phase takes longer than it may for nothing that the target does: that runs as it should, and either
    /// goes on in this pass or waits for a source that couldn't have the token either.
    pub(super) fn target_is_good(&self) -> bool {
        let Ok((source, target)) = self.ends() else {
            return false;
        };
        let has_token = self
            .journal()
            .is_ok_and(|journal| journal.writer.as_ref() == Some(&target));
        let runs = match self.status.phase {
            Phase::Handoff => matches!(self.healthy(&target), Ok(Ok(_))),
            Phase::Verify => matches!(self.soaks(&target), Ok(Ok(_))),
            _ => false,
        };
        // What can't be known of the source is no fault of the target.
        let goes_on = matches!(self.inert(&source), Ok(Ok(_) | Err(NotProved::Unknown(_))));
        has_token && runs && (goes_on || !matches!(self.steered(&source), Ok(Ok(()))))
    }

    /// The target keeps the token, or gets it again, until the source can have it or a person says that it may stay.
    pub(super) fn keep(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        why: &str,
    ) -> Result<Next, Stop> {
        if self.stage()? != RollBackStage::Kept {
            return self.enter_stage(RollBackStage::Kept);
        }
        match self.keeps_running(source, target) {
            Err(Stop::RollBack(reason)) if reason.starts_with(LAPSE) => {
                if let Some(back) = &mut self.journal_mut()?.roll_back {
                    back.reason = reason;
                }
                return self.enter_stage(RollBackStage::Begun);
            }
            Err(Stop::RollBack(reason)) => return Err(Stop::Wait(reason)),
            Err(stop) => return Err(stop),
            Ok(()) => {}
        }
        // It may run from what it wrote itself, not from what it was given.
        let healthy = self.prove(target, |facts| Healthy::prove(facts, None))?;
        let now = self.input.now;
        if healthy.is_ok() {
            self.journal_mut()?.is_up(now);
        }
        match (healthy, self.assumed(Fact::Newest, target)) {
            (Ok(healthy), Some(word)) => {
                let by = word.by.clone().unwrap_or_else(|| "a person".to_owned());
                let evidence = format!("{by} lets it stay in {target} ({why})");
                Ok(Next::Enter(
                    Phase::Cleanup,
                    vec![healthy.evidence().to_owned(), evidence],
                ))
            }
            (Ok(_), None) => Err(Stop::Wait(format!(
                "{why}: {target} is healthy and keeps the token until {source} can have it; {}",
                self.words_for_staying(target)?
            ))),
            (Err(ill), _) => Err(Stop::Wait(format!(
                "{why}: {target} keeps the token ({ill}); once it is healthy, {}",
                self.words_for_staying(target)?
            ))),
        }
    }

    fn words_for_staying(&self, target: &ClusterName) -> Result<String, Stop> {
        let back = self.journal()?.roll_back.as_ref();
        let gives_up = if back.is_some_and(|back| back.own_state) {
            let offer = self.offer(Fact::NoState, target);
            format!(", or give up what it wrote since it took over ({offer})")
        } else {
            String::new()
        };
        let offer = self.offer(Fact::Newest, target);
        Ok(format!("a person can let it stay there ({offer}){gives_up}"))
    }

    fn keeps_running(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Stop> {
        self.claim()?;
        self.renew_barrier()?;
        self.fence()?;
        self.expanded_for_handoff(source, target)?;
        let given = self.give_token(target);
        if let Err(Stop::Wait(_)) = given
            && (self.journal()?.writer.is_none() || !self.names_the_writer()?)
            && let Err(NotProved::Unknown(why)) = self.inert(source)?
        {
            return Err(self.unseen_source(source, target, &why));
        }
        given?;
        self.note_target_ran(target)
    }

    /// Nobody runs, and the source that should can't be seen: the target may, on a person's word.
    pub(super) fn unseen_source(&self, source: &ClusterName, target: &ClusterName, why: &str) -> Stop {
        Stop::Wait(format!(
            "{why}; no copy is let run. A person who knows that none runs in {source}, or will by itself, can say so, and \
             {target} runs again from the last state handle ({})",
            self.offer(Fact::Stopped, source)
        ))
    }
}
