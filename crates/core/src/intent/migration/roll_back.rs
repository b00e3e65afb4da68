//! The way back, from everywhere before the commit point: the source runs again, from the newest state.

use jiff::SignedDuration;

use super::{Interrupt, Next, Operation, Phase};
use crate::api::{Fact, Finding, Offer, RollBack, RollBackStage};
use crate::intent::custody::LAPSE;
use crate::intent::fight::{Fight, How};
use crate::intent::pin;
use crate::intent::proof::{Healthy, Inert, NotProved, Stopped};
use cutover_karmada::name::ClusterName;

/// How long a target that never ran may take to be proved stopped before it is taken out instead.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// How long an operator that is well may take to act on a change: a person is not asked about a target sooner. Flink's works on an object
/// at most 5 times in 15 s, and then begins its next pass within twice that (apache/flink-kubernetes-operator@1.15.0,
/// `kubernetes.operator.rate-limiter`; java-operator-sdk@5.2.2, `LinearRateLimiter`); 8 to 22 s were measured.
pub(super) const PACE: SignedDuration = SignedDuration::from_secs(30);

/// How far behind an operator may be that says nothing of a copy to which the order to run may have come.
const BEHIND: SignedDuration = SignedDuration::from_mins(1);

/// After how long a person is asked about a target that ran and doesn't stop.
pub(super) const LONG: SignedDuration = SignedDuration::from_mins(5);

impl Operation<'_> {
    pub(super) fn roll_back(&mut self) -> Result<Next, Interrupt> {
        let (source, target) = self.ends()?;
        if self.journal()?.pin.unpinning {
            let end = self.back()?.ends_as;
            return self.finish(&source, end);
        }
        if !self.journal()?.pin.pinned && pin::not_blank(self.snapshot().plane.pin.get()?.as_ref()).is_none()
        {
            return self.unfence();
        }
        if self.journal()?.dropped {
            return self.unfence();
        }
        if let Some(why) = self.has_left_alone(&source)? {
            self.has_nothing_running(&source, &why)?;
            return self.leaves_what_was_dropped(&source);
        }
        self.claim()?;
        match self.stage()? {
            RollBackStage::Begun | RollBackStage::Kept => self.decide(&source, &target),
            RollBackStage::Taken => self.stop_target(&source, &target),
            RollBackStage::Evicting => self.evict_target(&source, &target),
            RollBackStage::Recreating => self.recreate_source(&source, &target),
            RollBackStage::Returned => self.restore_source(&source, &target),
        }
    }

    /// Only the fence has to come down, if it was begun: no pin was ever written, or one that says nothing, or nothing is left that
    /// it could say anything of.
    fn unfence(&mut self) -> Result<Next, Interrupt> {
        if self.journal()?.fence.recorded {
            self.lower()?;
            self.resume_scheduling()?;
        }
        let journal = self.journal_mut()?;
        journal.pin.unpinning = true;
        journal.run_id = None;
        Ok(Next::Requeue)
    }

    /// While the source still has the token nothing is taken from it; else the token becomes nobody's first.
    fn decide(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Interrupt> {
        let lapse = self.is_lapse()?;
        let writer = self.journal()?.writer.clone();
        if self.is_shared() {
            return self.enter_stage(RollBackStage::Returned);
        }
        if writer.is_none() && !lapse && self.was_never_stopped(source)? {
            return self.leave_it_the_token(source);
        }
        // Made anew by Karmada it runs already, or will: stopping it would bring nothing back. Without a Work it isn't, and
        // what is still to be seen there is about to be deleted.
        let work = self.snapshot().plane.works.get()?.get(source);
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
                self.forget_heir()?;
                return self.keep(source, target, &why);
            }
            if was_kept && let Some(why) = self.is_new_heir(source, target)? {
                return self.keep(source, target, &why);
            }
            self.refute(Fact::To, target)?;
        } else if writer.as_ref() == Some(target) {
            self.source_can_resume(source)?;
        }
        self.take_token(was_kept)
    }

    /// Returns whether the pin that was to stop the source was decided on and never written.
    fn was_never_stopped(&self, source: &ClusterName) -> Result<bool, Interrupt> {
        let from = self.back()?.from_phase;
        let nothing_left = self.journal()?.captured.is_none() && !self.back()?.handed_over;
        if !(from == Phase::Capture && nothing_left && self.runs_by_the_pin(source)?) {
            return Ok(false);
        }
        match self.source_is_intact() {
            Ok(is_intact) => Ok(is_intact || !self.journal()?.profile.stateful),
            // Nothing is taken from what nobody sees.
            Err(Interrupt::Wait(_)) => Ok(true),
            Err(stop) => Err(stop),
        }
    }

    /// The source keeps the token that it never lost, under a sequence at which a pin that is sent late comes to nothing.
    fn leave_it_the_token(&mut self, source: &ClusterName) -> Result<Next, Interrupt> {
        let journal = self.journal_mut()?;
        journal.pin.renew();
        journal.writer = Some(source.clone());
        journal.suspended.clear();
        (journal.down_since, journal.up_since) = (None, None);
        if let Some(back) = &mut journal.roll_back {
            back.restart = false;
        }
        Ok(Next::Requeue)
    }

    /// Leaves no cluster with the token. `was_kept`: the target had it on the way back.
    fn take_token(&mut self, was_kept: bool) -> Result<Next, Interrupt> {
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
                back.heir = None;
                back.returns = back.returns.saturating_add(1);
            }
        }
        self.enter_stage(RollBackStage::Taken)
    }

    /// A fresh read: the source has the copy that it had, or can begin anew from a handle.
    pub(super) fn source_can_resume(&self, source: &ClusterName) -> Result<(), Interrupt> {
        let from_handle = self.journal()?.captured.is_some() || !self.journal()?.profile.stateful;
        let from_nothing = self.assumed(Fact::FromNothing, source).is_some();
        if from_handle || from_nothing || self.source_is_intact()? {
            Ok(())
        } else {
            let offer = self.offer_at(
                Fact::FromNothing,
                source,
                format!("all the state that {source} had"),
            );
            Err(Interrupt::Wait(format!(
                "manual intervention required: {source} has lost its copy, and no state handle was taken: a person can let the \
                 workload start from nothing there ({offer})"
            )))
        }
    }

    /// A source that Karmada doesn't list, by somebody's doing, is listed again: held, for nobody has the token.
    fn list_source(&mut self, source: &ClusterName) -> Result<(), Interrupt> {
        if self.is_listed(source)? {
            return Ok(());
        }
        if self.is_leaving(source)? {
            let (_, target) = self.ends()?;
            self.source_is_gone(source, &target)?;
        }
        let clusters = self.journal()?.clusters.clone();
        self.listed(&clusters, "list the source again")
    }

    /// A source that was to be taken out, to be created again, stays until it is known again which state is the newest: whoever takes
    /// it out of the binding does not delete its copy.
    fn keep_source(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        if self.journal()?.clusters.contains(source) {
            return Ok(());
        }
        let journal = self.journal_mut()?;
        journal.clusters = vec![source.clone(), target.clone()];
        if let Some(belt) = &mut journal.fence.belt {
            (belt.off, belt.shown) = (false, false);
        }
        Err(Interrupt::Requeue)
    }

    /// Nobody has the token. A target that ran gives the newest state; one that never ran is taken out if it doesn't stop.
    fn stop_target(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Interrupt> {
        self.keep_source(source, target)?;
        self.renew_barrier()?;
        self.fence()?;
        self.token()?;
        self.note_target_ran(target)?;
        let proof = self.inert(target)?;
        let may_have_run = self.has_state_of_its_own(source)?;
        let ran = may_have_run && self.journal()?.target_ran;
        match proof {
            Ok(Inert::Stopped(stopped)) if ran || self.left_more(&stopped)? => {
                self.capture_from_target(source, target, &stopped)
            }
            // One that never ran, where another one may have, was recreated.
            Ok(Inert::Held(_) | Inert::Stopped(_))
                if !(ran || may_have_run && self.is_recreated(target)?) =>
            {
                self.give_back()
            }
            // One that is gone without having been seen may have run.
            Ok(Inert::Gone(_) | Inert::Assumed { .. }) if !may_have_run => self.give_back(),
            Ok(Inert::Held(_) | Inert::Gone(_) | Inert::Assumed { .. }) if self.left_all()? => {
                self.give_back()
            }
            // A person gives up what it wrote.
            Ok(_) if self.assumed(Fact::FromNothing, target).is_some() => self.give_back(),
            Ok(_) => Err(self.gone_without_a_handle(target)),
            Err(why) => self.not_stopped(source, target, why),
        }
    }

    /// Returns whether a target that a person gave up, because it didn't stop, has stopped all the same, with a state that is
    /// not known yet: nothing is given up then.
    fn left_more(&self, stopped: &Stopped) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        let leaves_handles = journal.profile.stateful && !journal.profile.capture.is_empty();
        if !(leaves_handles && journal.target_ran && self.back()?.handed_over) {
            return Ok(false);
        }
        let known = journal.captured.as_ref().map(|captured| captured.values.clone());
        let left = stopped.capture(&self.profile()?, &known.unwrap_or_default(), self.input.now);
        Ok(left.is_ok())
    }

    /// Returns whether all that the target wrote is in the handle that its last stop has left, whatever has become of its copy since.
    /// If another client took the pin away, or the API server was restored from an older state, it may have run after that.
    pub(super) fn left_all(&self) -> Result<bool, Interrupt> {
        let mut findings = self.status.common.findings.iter();
        let was_loose = self.is_lapse()? || findings.any(|finding| finding.code == LAPSE);
        Ok(self.back()?.target_captured && !was_loose && !self.went_back())
    }

    /// Returns whether the copy in a cluster is another one than that which was offered the token.
    fn is_recreated(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let offered = self
            .journal()?
            .offered
            .get(cluster)
            .and_then(|offered| offered.uid.clone());
        Ok(offered.is_some() && offered != self.uid_in(cluster)?)
    }

    /// A workload without state leaves nothing that could be lost, nor does a copy that never had the workload's; and a person
    /// may have chosen the source's.
    fn has_state_of_its_own(&self, source: &ClusterName) -> Result<bool, Interrupt> {
        let profile = &self.journal()?.profile;
        Ok(profile.stateful
            && !profile.capture.is_empty()
            && self.back()?.handed_over
            && self.assumed(Fact::From, source).is_none())
    }

    fn not_stopped(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        why: NotProved,
    ) -> Result<Next, Interrupt> {
        let waited = self.input.now.duration_since(self.back()?.since);
        let fight = self.fight_in(target);
        // One that somebody's policy lets run doesn't stop by itself.
        let patience = if fight.is_some() {
            SignedDuration::ZERO
        } else {
            PATIENCE
        };
        // What is taken out ends at once, and the source would repeat what it has just done: a stop that only time tells is waited for,
        // unless a person gives up what the target does.
        let settles =
            self.journal()?.profile.settle_for.is_some() && self.assumed(Fact::From, source).is_none();
        let may_have_run = settles || self.has_state_of_its_own(source)?;
        if waited >= patience && (!may_have_run || self.is_seen_not_to_have_run(target)?) {
            return self.enter_stage(RollBackStage::Evicting);
        }
        if let Some(fight) = fight {
            return Err(Interrupt::Wait(format!("{why}; {fight}")));
        }
        if self.snapshot().member(target)?.object.get().is_err() {
            return Err(Interrupt::Wait(format!(
                "{why}; the copy in {target} was allowed to run, and cannot be observed: if you know that no copy runs there, confirm it \
                 ({})",
                self.offer(Fact::Stopped, target)
            )));
        }
        // Where something is known to be wrong nobody is kept waiting for what may never come.
        let symptoms = self.symptoms(target);
        if waited >= LONG || waited >= PACE && !symptoms.is_empty() {
            let offer = self.goes_on_from_source(source, target);
            return Err(Interrupt::Wait(format!(
                "{why}{symptoms}: if its operator never does so, for instance because the job cannot start, manual intervention is \
                 required: confirm that the workload continues from what {source} left, and that what {target} wrote since it took over \
                 is given up, if it wrote anything ({offer})"
            )));
        }
        Err(why.into())
    }

    /// A copy that is taken out is deleted, with what it may have written: only what this pass has seen never to have run. It
    /// carries the order to stop, and no pod is there; or all that is there are pods of which their kubelets say that they can't
    /// start. One that has just not begun yet may begin until then.
    fn is_seen_not_to_have_run(&self, target: &ClusterName) -> Result<bool, Interrupt> {
        // What is seen in another cluster under that name says nothing of it.
        if self.journal()?.target_ran || self.left_behind(target)?.is_some() {
            return Ok(false);
        }
        let member = self.snapshot().member(target)?;
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
            return Ok(profile.carries_hold(copy, target) && (never_began.is_ok() || waited >= BEHIND));
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
    ) -> Result<Next, Interrupt> {
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
                Err(Interrupt::Requeue)
            }
            // It is the one that was captured in an earlier pass.
            Err(NotProved::No(_)) if self.back()?.target_captured => self.give_back(),
            Err(NotProved::No(_)) if self.assumed(Fact::FromNothing, target).is_some() => self.give_back(),
            Err(NotProved::No(why)) if !self.has_waited(&why, PATIENCE) => Err(Interrupt::Wait(why)),
            Err(NotProved::No(why)) if self.is_lapse()? => Err(Interrupt::Wait(format!(
                "manual intervention required: {why}: a person can let the workload go on from what {source} left ({})",
                self.goes_on_from_source(source, target)
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
    fn evict_target(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Interrupt> {
        self.renew_barrier()?;
        self.fence()?;
        self.fetch(source, target)?;
        if self.journal()?.clusters != [source.clone()] {
            self.journal_mut()?.clusters = vec![source.clone()];
            return Ok(Next::Requeue);
        }
        self.left_is_in_git(target)?;
        self.unbelt()?;
        self.listed(std::slice::from_ref(source), "take the target out")?;
        self.token()?;
        if let Some(why) = self.left_behind(target)?
            && self.assumed(Fact::Stopped, target).is_none()
        {
            return Err(Interrupt::Wait(why));
        }
        if self.snapshot().member(target)?.object.get().is_ok() {
            self.note_target_ran(target)?;
        }
        self.is_gone(target)?;
        // Where there is another object of that name, it is none of the move's.
        let is_absent = matches!(self.snapshot().member(target)?.object.get(), Ok(None));
        if is_absent && self.journal()?.profile.settle_for.is_some() {
            self.inert(target)??;
        }
        let ran = self.journal()?.target_ran && self.has_state_of_its_own(source)?;
        if ran && self.assumed(Fact::FromNothing, target).is_none() {
            return Err(self.gone_without_a_handle(target));
        }
        self.give_back()
    }

    fn give_back(&mut self) -> Result<Next, Interrupt> {
        let (source, target) = self.ends()?;
        if let Err(unseen) = self.snapshot().member(&source)?.object.get() {
            self.source_is_given_up(&source, &target, &unseen.to_string())?;
            return self.leave_it_to_target();
        }
        self.source_can_resume(&source)?;
        self.list_source(&source)?;
        if self.uid_in(&source)?.is_none() {
            return Err(Interrupt::Wait(format!("{source}: no copy yet")));
        }
        self.runs_no_more(&source, &target)?;
        self.own_handle_is_known(&source)?;
        let from_handle = self.newest_is_captured(&source)?;
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.from_handle = from_handle;
        }
        // A source that goes on from its own needs nothing of the kind, unless it is started with it and may show it no more.
        let by_handle = self.profile()?.restarts_by_handle();
        let from = self
            .journal()?
            .captured
            .as_ref()
            .map(|captured| captured.from.clone());
        if let Some(from) = from.filter(|from| from_handle || by_handle || *from != source) {
            // The target's copy shows it, until the source is seen running from it.
            let shown = from == target && self.copy_has_handle(&target, &self.marker()?)?.is_ok();
            if !shown {
                self.handle_in_git()?;
            }
        }
        // Whoever gave up what the target wrote has said nothing of what the source writes from now on.
        self.refute(Fact::From, &source)?;
        let stage = if from_handle && self.keeps_its_own_state(&source)? {
            RollBackStage::Recreating
        } else {
            RollBackStage::Returned
        };
        self.enter_stage(stage)
    }

    /// The target has the workload for as long as the source can't have it. No copy is seen running: a lapse is over.
    fn leave_it_to_target(&mut self) -> Result<Next, Interrupt> {
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.reason = back.reason.replacen(LAPSE, "after a lapse", 1);
        }
        self.enter_stage(RollBackStage::Kept)
    }

    /// Returns whether the copy in a cluster ran, and would go on from its own state whatever handle it is given.
    pub(super) fn keeps_its_own_state(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let profile = self.profile()?;
        let Some(copy) = self.snapshot().member(cluster)?.object.get()?.as_ref() else {
            return Ok(false);
        };
        Ok(profile.recreates_for_handle() && profile.ran(copy)?)
    }

    /// The source is to start from another handle than its own, which only a copy does that never ran: the one that is there goes,
    /// and the next one is born held. Nobody has the token, and Git has the handle.
    fn recreate_source(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Interrupt> {
        if self.unseen(source)?.is_some() {
            // What may be done without a look at it is found out from the beginning.
            return self.enter_stage(RollBackStage::Taken);
        }
        self.renew_barrier()?;
        self.fence()?;
        // Git may take long: meanwhile, too, everybody is held.
        self.token()?;
        self.handle_in_git()?;
        self.fetch(target, source)?;
        if self.keeps_its_own_state(source)? {
            self.take_source_out(source, target)?;
        }
        self.expanded_for_handoff(source, target)?;
        let Some(uid) = self.uid_in(source)? else {
            return Err(Interrupt::Wait(format!("{source}: no copy yet")));
        };
        self.proved_inert(source)?;
        self.journal_mut()?.source_uid = Some(uid);
        // The target may have run on, if another client took the pin away meanwhile.
        self.enter_stage(RollBackStage::Taken)
    }

    fn take_source_out(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        if self.is_listed(source)?
            && let Err(doubt) = self.may_be_taken_out(source)
        {
            self.keep_source(source, target)?;
            return Err(self.or_by_hand(doubt, source)?);
        }
        if self.journal()?.clusters != [target.clone()] {
            self.journal_mut()?.clusters = vec![target.clone()];
            return Err(Interrupt::Requeue);
        }
        self.unbelt()?;
        self.listed(
            std::slice::from_ref(target),
            "take the source out, to create it again",
        )?;
        self.source_is_gone(source, target)
    }

    /// A copy that is seen to be held, and whose operator never says that it has stopped, a person can take out by hand.
    fn or_by_hand(&self, doubt: Interrupt, source: &ClusterName) -> Result<Interrupt, Interrupt> {
        Ok(match (doubt, self.inert(source)?) {
            (Interrupt::Wait(why), Err(NotProved::No(_))) => Interrupt::Wait(format!(
                "{why}; if that never comes, and you know that it does not run, delete the copy in {source}: it is created again, held"
            )),
            (doubt, _) => doubt,
        })
    }

    /// Only what is proved stopped is taken out, and shows no handle that is not known: its deletion would end what runs, and lose what
    /// it wrote.
    fn may_be_taken_out(&mut self, source: &ClusterName) -> Result<(), Interrupt> {
        self.proved_inert(source)?;
        if self.newest_is_captured(source)? {
            return Ok(());
        }
        self.enter_stage(RollBackStage::Taken)?;
        Err(Interrupt::Requeue)
    }

    /// The source's copy, which is on its way out, is gone. Where that takes long a person may let the target have the workload, which
    /// goes on from what it has left itself.
    fn source_is_gone(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        let why = match self.is_gone(source) {
            Err(Interrupt::Wait(why)) => why,
            gone => return gone,
        };
        let has_newest = self.left_newest(target)?;
        let is_late = self.has_waited(&why, LONG) || self.offers_before(Fact::To, target);
        if !has_newest || !is_late {
            return Err(Interrupt::Wait(why));
        }
        if self.assumed(Fact::To, target).is_some() {
            self.leave_it_to_target()?;
            return Err(Interrupt::Requeue);
        }
        let offer = self.offer_at(Fact::To, target, format!("the way back to {source}"));
        Err(Interrupt::Wait(format!(
            "{why}: if that never comes, a person can let the workload stay in {target} ({offer})"
        )))
    }

    /// Returns whether the newest state that is known is what the target's last stop has left.
    fn left_newest(&self, target: &ClusterName) -> Result<bool, Interrupt> {
        let captured = self.journal()?.captured.as_ref();
        let is_its_own = captured.is_some_and(|captured| captured.from == *target);
        Ok(is_its_own && self.back()?.target_captured)
    }

    /// Returns whose policy lets a source run that was told to stop, which it won't do by itself; what the target has left is newer
    /// than what it began from.
    fn runs_by_a_policy(
        &self,
        source: &ClusterName,
        target: &ClusterName,
    ) -> Result<Option<Fight>, Interrupt> {
        let captured = self.journal()?.captured.as_ref();
        let has_targets = captured.is_some_and(|captured| captured.from == *target);
        let copy = self.snapshot().member(source)?.object.get()?.as_ref();
        let is_held = match copy {
            Some(copy) => self.profile()?.carries_hold(copy, source),
            None => true,
        };
        if !has_targets || is_held {
            return Ok(None);
        }
        let fight = self.fight_in(source);
        Ok(fight.filter(|fight| matches!(fight.how, How::Undoes(_))))
    }

    /// What a copy that still runs says of its last stop is older than what it writes.
    fn runs_no_more(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        // Without a handle to go on from, the source has the newest state, be it stopped or not.
        let goes_by_handle = self.journal()?.profile.stateful && self.journal()?.captured.is_some();
        // One that is started by a handle can't go on from what it has as long as it leaves none.
        let by_handle = self.profile()?.restarts_by_handle();
        let known = self.journal()?.captured.as_ref();
        let known = known.map(|captured| captured.from.clone());
        let from = known.filter(|_| by_handle).unwrap_or_else(|| source.clone());
        if !goes_by_handle || !self.is_seen_running(source) || self.assumed(Fact::From, &from).is_some() {
            return Ok(());
        }
        if let Some(undone) = self.runs_by_a_policy(source, target)? {
            let told = Finding::new(
                LAPSE,
                format!(
                    "{source} ran again ({undone}): what it wrote beside {target} is not in the state that stays"
                ),
                "check what it wrote; change that policy so that it leaves alone what the pin sets",
            );
            return if self.raise(told) {
                Err(Interrupt::Requeue)
            } else {
                Ok(())
            };
        }
        let reason = format!("{source}: the copy that runs there again to stop");
        if !self.has_waited(&reason, LONG) && !self.offers_before(Fact::From, &from) {
            return Err(Interrupt::Wait(reason));
        }
        let (offer, has) = if by_handle {
            let gives_up = format!("what {source} wrote after that");
            (self.offer_at(Fact::From, &from, gives_up), "left")
        } else {
            (self.goes_on_from_source(source, target), "has")
        };
        Err(Interrupt::Wait(format!(
            "{reason}: if it never does, a person can let the workload go on from what {from} {has} ({offer})"
        )))
    }

    /// The source has the token again and is healthy; then the target goes, and everything comes down.
    fn restore_source(&mut self, source: &ClusterName, target: &ClusterName) -> Result<Next, Interrupt> {
        if !self.journal()?.fence.lowered {
            self.renew_barrier()?;
            self.fence()?;
        }
        // It was seen before it was listed again, perhaps.
        if self.journal()?.writer.is_none() {
            self.source_can_resume(source)?;
        }
        if self.goes_forward(source, target)? || self.was_stopped_late(source)? {
            return self.take_token(false);
        }
        // What was said of a source that nobody sees is not about one that is seen.
        if self.unseen(source)?.is_none() {
            self.refute(Fact::To, target)?;
        }
        self.give_token(source)?;
        self.source_copy_stays(source)?;
        // A source that was never told to stop is as healthy as it was: nothing is asked of it.
        if self.back()?.restart {
            let given = self.handle_in_force()?;
            if !self.is_settled_unseen(source)? {
                let healthy = self.prove(source, |facts| Healthy::or_ended(facts, given.as_deref()))?;
                let healthy = healthy.map_err(|why| self.does_not_come_up(source, why))?;
                let now = self.input.now;
                let journal = self.journal_mut()?;
                journal.is_up(now);
                journal.run_id = healthy.run_id().map(str::to_owned);
            }
        }
        self.take_out(source, target)?;
        let end = self.back()?.ends_as;
        self.finish(source, end)
    }

    /// Returns whether a pin that was sent before the way back began has stopped a source of which it was thought that it
    /// was never told to.
    fn was_stopped_late(&self, source: &ClusterName) -> Result<bool, Interrupt> {
        let journal = self.journal()?;
        let is_as_it_was = !self.back()?.restart && !journal.fence.lowered && !self.is_shared();
        let live = pin::not_blank(self.snapshot().plane.pin.get()?.as_ref());
        let is_ours = match live {
            Some(live) => self.is_ours_from_before(live)?,
            None => false,
        };
        Ok(is_as_it_was && is_ours && !self.runs_by_the_pin(source)?)
    }

    /// A copy that was to start from nothing, and is there from before, may not come up: its operator looks for a state that is
    /// lost. A recreated copy has none.
    fn does_not_come_up(&self, source: &ClusterName, why: NotProved) -> Interrupt {
        let late = self.starts_late(source, &why);
        if late.is_empty() {
            return why.into();
        }
        Interrupt::Wait(format!("manual intervention required: {why}{late}"))
    }

    /// Returns what has to be done about a copy that was to start from nothing, and doesn't come up; nothing where that may take
    /// its time.
    pub(super) fn starts_late(&self, cluster: &ClusterName, why: &NotProved) -> String {
        let said = self.said_at(Fact::FromNothing, cluster);
        let is_late = said.is_some_and(|at| self.input.now.duration_since(at) >= BEHIND);
        if !is_late || matches!(why, NotProved::Unknown(_)) {
            return String::new();
        }
        format!(
            "{}: it does not start from nothing, and a person must delete it in {cluster}, where Karmada recreates it",
            self.symptoms(cluster)
        )
    }

    pub(super) fn enter_stage(&mut self, stage: RollBackStage) -> Result<Next, Interrupt> {
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.stage = stage;
        }
        Ok(Next::Requeue)
    }

    /// Returns whether two copies may have run: then nobody keeps the token while that is found out.
    pub(super) fn is_lapse(&self) -> Result<bool, Interrupt> {
        Ok(self.back()?.reason.starts_with(LAPSE))
    }

    fn gone_without_a_handle(&self, target: &ClusterName) -> Interrupt {
        let captured = self
            .status
            .journal
            .as_ref()
            .and_then(|journal| journal.captured.as_ref());
        if let Ok((source, _)) = self.ends()
            && captured.is_some_and(|captured| captured.from == *target)
        {
            let offer = self.goes_on_from_source(&source, target);
            return Interrupt::Wait(format!(
                "manual intervention required: {target} may have run since it left the last state handle of it that is known, and is gone: a \
                 person can give up what it wrote, and let the workload go on in {source} ({offer})"
            ));
        }
        let goes_on = self.ends().map(|(source, _)| {
            let offer = self.goes_on_from_source(&source, target);
            format!("let the workload go on from what {source} left ({offer})")
        });
        Interrupt::Wait(format!(
            "manual intervention required: {target} ran, or may have, and is gone without a state handle: a person can give up what \
             it wrote since it took over, and {}",
            goes_on.unwrap_or_default()
        ))
    }

    /// The word by which what the target wrote since it took over is given up.
    pub(super) fn goes_on_from_source(&self, source: &ClusterName, target: &ClusterName) -> Offer {
        self.offer_at(
            Fact::From,
            source,
            format!("what {target} wrote since it took over"),
        )
    }

    pub(super) fn back(&self) -> Result<&RollBack, Interrupt> {
        self.journal()?.roll_back.as_ref().ok_or(Interrupt::Requeue)
    }
}
