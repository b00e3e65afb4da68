//! The way back, from everywhere before the commit point: the source runs again, from the newest state.

use jiff::SignedDuration;

use super::heir::LAPSE;
use super::{Machine, Next, Stop};
use crate::api::{Fact, RollBack, RollBackStage};
use crate::intent::pin;
use crate::intent::proof::{Healthy, Inert, NotProved, Stopped};
use cutover_karmada::name::ClusterName;

/// How long a target that never ran may take to be proved stopped before it is taken out instead.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// How far behind an operator may be that says nothing of a copy to which the order to run may have come.
const BEHIND: SignedDuration = SignedDuration::from_mins(1);

/// After how long a person is asked about a target that ran and doesn't stop.
const LONG: SignedDuration = SignedDuration::from_mins(5);

impl Machine<'_> {
    pub(super) fn roll_back(&mut self) -> Result<Next, Stop> {
        let (source, target) = self.ends()?;
        if self.journal()?.pin.unpinning {
            let end = self.back()?.ends_as;
            return self.finish(&source, end);
        }
        if !self.journal()?.pin.pinned && pin::not_blank(self.world().pin.get()?.as_ref()).is_none() {
            return self.unfence();
        }
        self.claim()?;
        match self.stage()? {
            RollBackStage::Begun | RollBackStage::Kept => self.decide(&source, &target),
            RollBackStage::Taken => self.stop_target(&source, &target),
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
        journal.pin.unpinning = true;
        journal.run_id = None;
        Ok(Next::Again)
    }

    /// While the source still has the token nothing is taken from it; else the token becomes nobody's first.
    fn decide(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Stop> {
        let lapse = self.is_lapse()?;
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
        let was_kept = self.stage()? == RollBackStage::Kept;
        let has_token = writer.as_ref() == Some(target) && self.names_the_writer()?;
        if !lapse && (was_kept || has_token) {
            if let Some(why) = self.no_heir(source, target)? {
                return self.keep(source, target, &why);
            }
        } else if writer.as_ref() == Some(target) {
            self.source_can_resume(source)?;
        }
        let now = self.input.now;
        let journal = self.journal_mut()?;
        journal.pin.renew();
        journal.writer = None;
        journal.suspended = vec![journal.source.clone(), journal.target.clone()];
        journal.goes_down(now);
        if let Some(back) = &mut journal.roll_back {
            back.restart = true;
            back.own_state = false;
            back.handed_over |= was_kept;
            if was_kept {
                back.since = now;
            }
        }
        self.enter_stage(RollBackStage::Taken)
    }

    /// A fresh read: the source has the copy that it had, or can begin anew from a handle.
    pub(super) fn source_can_resume(&self, source: &ClusterName) -> Result<(), Stop> {
        let from_handle = self.journal()?.captured.is_some() || !self.journal()?.profile.stateful;
        let from_nothing = self.assumed(Fact::NoState, source).is_some();
        if from_handle || from_nothing || self.source_is_intact()? {
            Ok(())
        } else {
            Err(Stop::Wait(format!(
                "{source} has lost its copy and no state handle was taken: a person must look, and can let it start from \
                 nothing ({})",
                self.offer(Fact::NoState, source)
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
    fn stop_target(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Stop> {
        self.renew_barrier()?;
        self.fence()?;
        self.token()?;
        self.note_target_ran(target)?;
        let proof = self.inert(target)?;
        let may_have_run = self.has_state_of_its_own(source)?;
        let ran = may_have_run && self.journal()?.target_ran;
        match proof {
            Ok(Inert::Stopped(stopped)) if ran => self.capture_from_target(source, target, &stopped),
            // One that never ran, where another one may have, was recreated.
            Ok(Inert::Held(_) | Inert::Stopped(_))
                if !(ran || may_have_run && self.is_recreated(target)?) =>
            {
                self.give_back()
            }
            // One that is gone without having been seen may have run.
            Ok(Inert::Gone(_) | Inert::Assumed { .. }) if !may_have_run => self.give_back(),
            // A person gives up what it wrote.
            Ok(_) if self.assumed(Fact::NoState, target).is_some() => self.give_back(),
            Ok(_) => Err(self.gone_without_a_handle(target)),
            Err(why) => self.not_stopped(source, target, why),
        }
    }

    /// Returns whether the copy in a cluster is another one than that which was offered the token.
    fn is_recreated(&self, cluster: &ClusterName) -> Result<bool, Stop> {
        let offered = self
            .journal()?
            .offered
            .get(cluster)
            .and_then(|offered| offered.uid.clone());
        Ok(offered.is_some() && offered != self.uid_in(cluster)?)
    }

    /// A workload without state leaves nothing that could be lost, nor does a copy that never had the workload's; and a person
    /// may have chosen the source's.
    fn has_state_of_its_own(&self, source: &ClusterName) -> Result<bool, Stop> {
        let profile = &self.journal()?.profile;
        Ok(profile.stateful
            && !profile.capture.is_empty()
            && self.back()?.handed_over
            && self.assumed(Fact::Newest, source).is_none())
    }

    fn not_stopped(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        why: NotProved,
    ) -> Result<Next, Stop> {
        let waited = self.input.now.duration_since(self.back()?.since);
        let fight = self.fight_in(target);
        // One that somebody's policy lets run doesn't stop by itself.
        let patience = if fight.is_some() {
            SignedDuration::ZERO
        } else {
            PATIENCE
        };
        let may_have_run = self.has_state_of_its_own(source)?;
        if waited >= patience && (!may_have_run || self.is_seen_not_to_have_run(target)?) {
            return self.enter_stage(RollBackStage::Evicting);
        }
        if let Some(fight) = fight {
            return Err(Stop::Wait(format!("{why}; {fight}")));
        }
        if self.world().member(target)?.object.get().is_err() {
            return Err(Stop::Wait(format!(
                "{why}; it was let run, and {target} can't be looked into: a person who knows that none of it runs there can \
                 say so ({})",
                self.offer(Fact::Stopped, target)
            )));
        }
        // Where something is known to be wrong nobody is kept waiting for what may never come.
        let symptoms = self.symptoms(target);
        if waited >= LONG || waited >= PATIENCE && !symptoms.is_empty() {
            return Err(Stop::Wait(format!(
                "{why}{symptoms}: where its operator doesn't come to that, such as for a job that can't start, a person must say \
                 that what {source} left is kept, and what {target} wrote since it took over is given up, if it wrote anything \
                 ({})",
                self.offer(Fact::Newest, source)
            )));
        }
        Err(why.into())
    }

    /// A copy that is taken out is deleted, with what it may have written: only what this pass has seen never to have run. It
    /// carries the order to stop, and no pod is there; or all that is there are pods of which their kubelets say that they can't
    /// start. One that has just not begun yet may begin until then.
    fn is_seen_not_to_have_run(&self, target: &ClusterName) -> Result<bool, Stop> {
        if self.journal()?.target_ran {
            return Ok(false);
        }
        let member = self.world().member(target)?;
        let (Ok(Some(copy)), Ok(pods)) = (member.object.get(), member.pods.get()) else {
            return Ok(false);
        };
        let profile = self.profile()?;
        if profile.ran(copy)? {
            return Ok(false);
        }
        if pods.is_empty() {
            // An operator that is behind is about to act on the order to run; one that had nothing to do for it says nothing.
            let never_began = self.prove(target, |facts| facts.never_began(copy))?;
            let waited = self.input.now.duration_since(self.back()?.since);
            return Ok(profile.carries_hold(copy) && (never_began.is_ok() || waited >= BEHIND));
        }
        Ok(pods.iter().all(|pod| !pod.began && pod.trouble.is_some()))
    }

    /// What the target's stop has left is the newest state. A stop without a handle, such as one that fell back to what lies in
    /// that cluster, doesn't mean that there is nothing newer: then the target runs again from its own.
    fn capture_from_target(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        stopped: &Stopped,
    ) -> Result<Next, Stop> {
        let profile = self.profile()?;
        let captured = self.journal()?.captured.as_ref();
        let before = captured
            .map(|captured| captured.values.clone())
            .unwrap_or_default();
        // What the source wrote after it has been chosen since.
        let is_anothers = captured.is_some_and(|captured| captured.from != *target);
        if is_anothers && self.back()?.target_captured {
            return self.give_back();
        }
        match stopped.capture(&profile, &before, self.input.now) {
            Ok(newer) => {
                let journal = self.journal_mut()?;
                journal.capture(newer);
                if let Some(back) = &mut journal.roll_back {
                    back.target_captured = true;
                }
                Err(Stop::Again)
            }
            // It is the one that was captured in an earlier pass.
            Err(NotProved::No(_)) if self.back()?.target_captured => self.give_back(),
            Err(NotProved::No(_)) if self.assumed(Fact::NoState, target).is_some() => self.give_back(),
            Err(NotProved::No(why)) if !self.has_waited(&why, PATIENCE) => Err(Stop::Wait(why)),
            Err(NotProved::No(why)) if self.is_lapse()? => Err(Stop::Wait(format!(
                "{why}: a person must choose whose state is kept ({}; or {})",
                self.offer(Fact::Newest, source),
                self.offer(Fact::NoState, target)
            ))),
            Err(NotProved::No(_)) => {
                if let Some(back) = &mut self.journal_mut()?.roll_back {
                    back.own_state = true;
                }
                self.enter_stage(RollBackStage::Kept)
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
        self.left_is_in_git(target)?;
        self.unbelt()?;
        self.listed(std::slice::from_ref(source), "take the target out")?;
        self.token()?;
        if let Some(why) = self.left_behind(target)? {
            return Err(Stop::Wait(why));
        }
        if self.world().member(target)?.object.get().is_ok() {
            self.note_target_ran(target)?;
        }
        self.is_gone(target)?;
        let ran = self.journal()?.target_ran && self.has_state_of_its_own(source)?;
        if ran && self.assumed(Fact::NoState, target).is_none() {
            return Err(self.gone_without_a_handle(target));
        }
        self.give_back()
    }

    fn give_back(&mut self) -> Result<Next, Stop> {
        let (source, target) = self.ends()?;
        if let Err(unseen) = self.world().member(&source)?.object.get()
            && self.journal()?.captured.is_some()
        {
            return if self.assumed(Fact::Stopped, &source).is_some() {
                // Nobody runs, as far as anybody can see: a lapse is over.
                if let Some(back) = &mut self.journal_mut()?.roll_back {
                    back.reason = back.reason.replacen(LAPSE, "after a lapse", 1);
                }
                self.enter_stage(RollBackStage::Kept)
            } else {
                Err(self.unseen_source(&source, &target, &unseen.to_string()))
            };
        }
        self.source_can_resume(&source)?;
        self.list_source(&source)?;
        if self.uid_in(&source)?.is_none() {
            return Err(Stop::Wait(format!("{source}: no copy yet")));
        }
        let from_handle = self.newest_is_captured(&source)?;
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.from_handle = from_handle;
        }
        // A source that goes on from its own needs nothing of the kind.
        let from = self
            .journal()?
            .captured
            .as_ref()
            .map(|captured| captured.from.clone());
        if let Some(from) = from.filter(|from| from_handle || *from != source) {
            // The target's copy shows it, until the source is seen running from it.
            let shown = from == target && self.copy_has_handle(&target, &self.marker()?)?.is_ok();
            if !shown {
                self.handle_in_git()?;
            }
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
            journal.is_up(now);
            journal.run_id = healthy.run_id().map(str::to_owned);
        }
        self.take_out(source, target)?;
        let end = self.back()?.ends_as;
        self.finish(source, end)
    }

    pub(super) fn enter_stage(&mut self, stage: RollBackStage) -> Result<Next, Stop> {
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.stage = stage;
        }
        Ok(Next::Again)
    }

    /// Returns whether two copies may have run: then nobody keeps the token while that is found out.
    fn is_lapse(&self) -> Result<bool, Stop> {
        Ok(self.back()?.reason.starts_with(LAPSE))
    }

    fn gone_without_a_handle(&self, target: &ClusterName) -> Stop {
        Stop::Wait(format!(
            "{target} ran, or may have, and is gone without a state handle: a person must look, and can give up what it wrote since \
             it took over ({})",
            self.offer(Fact::NoState, target)
        ))
    }

    fn back(&self) -> Result<&RollBack, Stop> {
        self.journal()?.roll_back.as_ref().ok_or(Stop::Again)
    }
}
