//! The way back, from everywhere before the commit point: the source runs again, from the newest state.

use jiff::SignedDuration;

use super::{Machine, Next, Stop};
use crate::api::{Fact, RollBack, RollBackStage};
use crate::intent::pin;
use crate::intent::proof::{Healthy, Inert, NotProved, Stopped};
use crate::name::ClusterName;

/// How long a target that never ran may take to be proved stopped before it is taken out instead.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// After how long a person is asked about a target that ran and doesn't stop.
const LONG: SignedDuration = SignedDuration::from_mins(5);

impl Machine<'_> {
    pub(super) fn roll_back(&mut self) -> Result<Next, Stop> {
        let (source, target) = self.ends()?;
        if self.journal()?.unpinning {
            let end = self.back()?.ends_as;
            return self.finish(&source, end);
        }
        if !self.journal()?.pinned && pin::not_blank(self.world().pin.get()?.as_ref()).is_none() {
            return self.unfence();
        }
        self.claim()?;
        match self.stage()? {
            RollBackStage::Begun => self.decide(&source, &target),
            RollBackStage::Taken => self.stop_target(&target),
            RollBackStage::Evicting => self.evict_target(&source, &target),
            RollBackStage::Returned => self.restore_source(&source, &target),
        }
    }

    /// No pin was ever written, or one that says nothing: only the fence has to come down, if it was begun.
    fn unfence(&mut self) -> Result<Next, Stop> {
        if self.journal()?.fence.recorded {
            self.lower()?;
            self.resume_scheduling()?;
        }
        let journal = self.journal_mut()?;
        journal.unpinning = true;
        journal.run_id = None;
        Ok(Next::Again)
    }

    /// While the source still has the token nothing is taken from it; else the token becomes nobody's first.
    fn decide(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Stop> {
        let lapse = self.back()?.reason.starts_with("SingleWriterLapse");
        let writer = self.journal()?.writer.clone();
        if self.is_shared() {
            return self.enter_stage(RollBackStage::Returned);
        }
        // Made anew by Karmada it runs already, or will: stopping it would bring nothing back. Without a Work it isn't, and
        // what is still to be seen there is about to be deleted.
        let work = self.world().works.get()?.get(source);
        let has_work = work.is_some_and(|work| work.metadata.deletion_timestamp.is_none());
        let runs_there = !self.journal()?.profile.stateful || (self.is_listed(source)? && has_work);
        if writer.as_ref() == Some(source) && !lapse && runs_there {
            return self.enter_stage(RollBackStage::Returned);
        }
        // What can't be brought back isn't worth taking from the target.
        if writer.as_ref() == Some(target) {
            self.source_can_resume(source)?;
        }
        let now = self.input.now;
        let journal = self.journal_mut()?;
        journal.seq += 1;
        journal.writer = None;
        journal.suspended = vec![journal.source.clone(), journal.target.clone()];
        journal.down_since.get_or_insert(now);
        if let Some(back) = &mut journal.roll_back {
            back.restart = true;
        }
        self.enter_stage(RollBackStage::Taken)
    }

    /// A fresh read: the source has the copy that it had, or can begin anew from a handle.
    fn source_can_resume(&self, source: &ClusterName) -> Result<(), Stop> {
        let from_handle = self.journal()?.captured.is_some() || !self.journal()?.profile.stateful;
        let from_nothing = self.assumed(Fact::NoState, source).is_some();
        if from_handle || from_nothing || self.source_is_intact()? {
            Ok(())
        } else {
            Err(Stop::Wait(format!(
                "{source} has lost its copy and no state handle was taken: a person must look, and can let it start from \
                 nothing (spec.assume: NoState)"
            )))
        }
    }

    /// A source that Karmada doesn't list, by somebody's doing, is listed again: held, for nobody has the token.
    fn list_source(&mut self, source: &ClusterName) -> Result<(), Stop> {
        if self.is_listed(source)? {
            return Ok(());
        }
        let clusters = self.journal()?.clusters.clone();
        self.listed(&clusters, "list the source again")
    }

    /// Nobody has the token. A target that ran gives the newest state; one that never ran is taken out if it doesn't stop.
    fn stop_target(&mut self, target: &ClusterName) -> Result<Next, Stop> {
        self.renew_barrier()?;
        self.fence()?;
        self.token()?;
        self.note_target_ran(target)?;
        let proof = self.inert(target)?;
        // A workload without state leaves nothing that could be lost, nor does a copy that never had the workload's; and a
        // person may have chosen the source's.
        let source = &self.journal()?.source;
        let ran = self.journal()?.target_ran
            && self.journal()?.profile.stateful
            && self.back()?.handed_over
            && self.assumed(Fact::Newest, source).is_none();
        match proof {
            Ok(Inert::Stopped(_)) if ran => {
                self.capture_from_target(target)?;
                self.give_back()
            }
            Ok(Inert::Held(_) | Inert::Stopped(_)) => self.give_back(),
            Ok(Inert::Gone(_) | Inert::Assumed { .. }) if !ran => self.give_back(),
            // A person gives up what it wrote.
            Ok(_) if self.assumed(Fact::NoState, target).is_some() => self.give_back(),
            Ok(_) => Err(Stop::Wait(format!(
                "{target} ran and is gone without a state handle: a person must look, and can give up what it wrote since it \
                 took over (spec.assume: NoState in {target})"
            ))),
            Err(why) => {
                let since = self.back()?.since;
                let fight = self.fight_in(target);
                // One that somebody's policy lets run doesn't stop by itself.
                let patience = if fight.is_some() {
                    SignedDuration::ZERO
                } else {
                    PATIENCE
                };
                if !ran && self.input.now.duration_since(since) >= patience {
                    return self.enter_stage(RollBackStage::Evicting);
                }
                match fight {
                    Some(fight) => Err(Stop::Wait(format!("{why}; {fight}"))),
                    None if self.input.now.duration_since(since) >= LONG => Err(Stop::Wait(format!(
                        "{why}: where its operator doesn't come to that, such as in the middle of an upgrade, a person must \
                         remove the copy in {target}, and can then give up what it wrote since it took over (spec.assume: \
                         NoState in {target})"
                    ))),
                    None => Err(why.into()),
                }
            }
        }
    }

    fn capture_from_target(&mut self, target: &ClusterName) -> Result<(), Stop> {
        let stopped = self.prove(target, Stopped::prove)??;
        let profile = self.profile()?;
        if profile.spec().capture.is_empty() {
            return Ok(());
        }
        let given = self
            .journal()?
            .captured
            .as_ref()
            .map(|captured| captured.values.clone());
        let before = given.unwrap_or_default();
        match stopped.capture(&profile, &before, self.input.now) {
            Ok(newer) => {
                self.journal_mut()?.captured = Some(newer);
                Err(Stop::Again)
            }
            // The handle is the one it was given, or one that was captured in an earlier pass.
            Err(NotProved::No(_)) if profile.handles(stopped.object()).ok().as_ref() == Some(&before) => {
                Ok(())
            }
            Err(why) => Err(why.into()),
        }
    }

    /// The target never ran and can't be proved stopped: out of the binding, and gone.
    fn evict_target(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Stop> {
        self.renew_barrier()?;
        self.fence()?;
        self.fetch(source, target)?;
        if self.journal()?.clusters != [source.clone()] {
            self.journal_mut()?.clusters = vec![source.clone()];
            return Ok(Next::Again);
        }
        self.unbelt()?;
        self.listed(std::slice::from_ref(source), "take the target out")?;
        self.token()?;
        if let Some(why) = self.left_behind(target)? {
            return Err(Stop::Wait(why));
        }
        self.is_gone(target)?;
        self.give_back()
    }

    fn give_back(&mut self) -> Result<Next, Stop> {
        let source = self.journal()?.source.clone();
        self.source_can_resume(&source)?;
        self.list_source(&source)?;
        if self.uid_in(&source)?.is_none() {
            return Err(Stop::Wait(format!("{source}: no copy yet")));
        }
        let from_handle = self.newest_is_captured(&source)?;
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.from_handle = from_handle;
        }
        // The newest handle is in Git before anybody may run from it.
        if let Some(captured) = self.journal()?.captured.clone() {
            self.recorded(self.status.clone(), |record| {
                let journal = record.status.journal.as_ref();
                journal
                    .and_then(|journal| journal.captured.as_ref())
                    .is_some_and(|known| known.values == captured.values)
            })?;
        }
        self.enter_stage(RollBackStage::Returned)
    }

    /// The source has the token again and is healthy; then the target goes, and everything comes down.
    fn restore_source(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Stop> {
        if !self.journal()?.fence.lowered {
            self.renew_barrier()?;
            self.fence()?;
        }
        // It was seen before it was listed again, perhaps.
        if self.journal()?.writer.is_none() {
            self.source_can_resume(source)?;
        }
        self.give_token(source)?;
        // A source that was never told to stop is as healthy as it was: nothing is asked of it.
        if self.back()?.restart {
            let given = self.handle_in_force()?;
            let healthy = self.prove(source, |facts| Healthy::prove(facts, given.as_deref()))??;
            let now = self.input.now;
            let journal = self.journal_mut()?;
            journal.up_since.get_or_insert(now);
            journal.run_id = healthy.run_id().map(str::to_owned);
        }
        self.take_out(source, target)?;
        let end = self.back()?.ends_as;
        self.finish(source, end)
    }

    fn enter_stage(&mut self, stage: RollBackStage) -> Result<Next, Stop> {
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.stage = stage;
        }
        Ok(Next::Again)
    }

    fn back(&self) -> Result<&RollBack, Stop> {
        self.journal()?.roll_back.as_ref().ok_or(Stop::Again)
    }
}
