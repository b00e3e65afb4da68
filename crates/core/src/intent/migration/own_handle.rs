//! A source that is started again with the handle of its own stop, where its profile says so: that handle is known before the source
//! gets the token, as a target's is.

use super::roll_back::LONG;
use super::{Interrupt, Operation, restored};
use crate::api::{Capture, Fact};
use crate::intent::proof::{NotProved, Stopped};
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Nothing is left to find out where the journal has what the source's stop left, whatever its operator shows of it by now, and
    /// the source was not let run since; nor where the target's state is newer. Else a source that was told to stop has to come to
    /// that first, and its handle is taken: a move that is aborted in the middle of the stop has none.
    pub(super) fn own_handle_is_known(&mut self, source: &ClusterName) -> Result<(), Interrupt> {
        let profile = self.profile()?;
        if !profile.restarts_by_handle() || self.starts_without_handle(source)? {
            return Ok(());
        }
        let goes_on = self.assumed(Fact::From, source).is_some();
        let may_have_run = self.may_have_run_since(source)?;
        let journal = self.journal()?;
        let captured = journal.captured.as_ref();
        let is_anothers = captured.is_some_and(|captured| captured.from != *source) && !goes_on;
        let is_its_own = captured
            .is_some_and(|captured| captured.from == *source && captured.values == journal.source_handle);
        if !may_have_run && (is_anothers || is_its_own) {
            return Ok(());
        }
        let stopped = match self.prove(source, Stopped::prove)? {
            Ok(stopped) => stopped,
            Err(why) => return self.does_not_stop(source, &why.to_string()),
        };
        let left = match self.left_by(source, &stopped)? {
            Ok(left) => left,
            Err(why) => return self.left_none(source, &why.to_string()),
        };
        // Which of two states is newer is found out as always.
        if is_anothers || self.captured()? == Some(&left.values) && is_its_own {
            return Ok(());
        }
        self.journal_mut()?.capture_source(left);
        Err(Interrupt::Requeue)
    }

    /// Returns what the source's last stop has left. Of one that may have been let run on the way back, whatever was known before is
    /// not that: what it wrote since is in none of it.
    fn left_by(
        &self,
        source: &ClusterName,
        stopped: &Stopped,
    ) -> Result<Result<Capture, NotProved>, Interrupt> {
        let profile = self.profile()?;
        let journal = self.journal()?;
        let capture = |before| stopped.capture(&profile, before, self.input.now);
        let left = capture(&journal.handle_before);
        let was_told_to_run = || {
            self.prove(source, |facts| {
                let offered = facts.offered;
                Ok(offered.is_some_and(|offered| !facts.was_never_told_to_run(offered, stopped.object())))
            })
        };
        // What two copies did at once, or what is forgotten, no generation of the source tells.
        let may_have_run = self.is_lapse()? || self.went_back() || was_told_to_run()?.unwrap_or(true);
        if self.back()?.source_captured || !may_have_run {
            return Ok(left);
        }
        let captured = journal.captured.as_ref().map(|captured| &captured.values);
        let known = [Some(&journal.source_handle), captured];
        let mut known = known.into_iter().flatten();
        Ok(left.and_then(|left| known.try_fold(left, |_, before| capture(before))))
    }

    /// A source that doesn't come to its stop, and may have written since: after a while a person may let the workload go on from what is
    /// known.
    fn does_not_stop(&self, source: &ClusterName, why: &str) -> Result<(), Interrupt> {
        let captured = self.journal()?.captured.as_ref();
        let Some(from) = captured.map(|captured| &captured.from) else {
            return Err(self.has_to_leave_a_handle(source, why));
        };
        // Its handle was taken, and it was not let run since: it is to be seen stopped again.
        if self.back()?.source_captured && self.assumed(Fact::From, from).is_none() {
            return Err(Interrupt::Wait(why.to_owned()));
        }
        let reason = format!(
            "{why}: {source} may have run since {} was left",
            known_from(source, from)
        );
        let is_late = self.has_waited(&reason, LONG) || self.offers_before(Fact::From, from);
        if !is_late && self.assumed(Fact::From, from).is_none() {
            return Err(Interrupt::Wait(reason));
        }
        self.left_none(source, why)
    }

    /// Returns whether a person lets a source start without the handle that its stop didn't leave.
    fn starts_without_handle(&mut self, source: &ClusterName) -> Result<bool, Interrupt> {
        if self.journal()?.captured.is_some() {
            return Ok(false);
        }
        if self.was_said(Fact::FromNothing, source) {
            return Ok(true);
        }
        let Some(by) = self.assumed(Fact::FromNothing, source) else {
            return Ok(false);
        };
        self.gives_up(format!(
            "{by} lets {source} start again without the state handle that its stop would leave"
        ));
        Err(Interrupt::Requeue)
    }

    /// Returns whether a source may have written after what the journal has of it: it was given the token on the way back, two
    /// copies may have run, or the journal has forgotten something.
    fn may_have_run_since(&self, source: &ClusterName) -> Result<bool, Interrupt> {
        let was_let_run = self.journal()?.offered.contains_key(source);
        Ok(was_let_run || self.is_lapse()? || self.went_back())
    }

    /// Returns whether the journal has forgotten something: the API server was restored from an older state.
    pub(super) fn went_back(&self) -> bool {
        let mut findings = self.status.common.findings.iter();
        findings.any(|finding| finding.code == restored::CODE)
    }

    /// A source whose stop has left no handle: where one is known from before, a person may let the workload go on from that.
    fn left_none(&self, source: &ClusterName, why: &str) -> Result<(), Interrupt> {
        let known = self.journal()?.captured.as_ref();
        let Some(from) = known.map(|captured| &captured.from) else {
            return Err(self.has_to_leave_a_handle(source, why));
        };
        if self.assumed(Fact::From, from).is_some() {
            return Ok(());
        }
        let gives_up = if from == source {
            "what it wrote since".to_owned()
        } else {
            format!("what {source} wrote after that")
        };
        let offer = self.offer_at(Fact::From, from, gives_up);
        Err(Interrupt::Wait(format!(
            "{why}, and {source} may have run since {} was left: a person can let the workload go on from that one ({offer})",
            known_from(source, from)
        )))
    }

    /// Says that a source whose stop has left no handle is waited for, where none is known from before.
    fn has_to_leave_a_handle(&self, source: &ClusterName, why: &str) -> Interrupt {
        let reason =
            format!("{why}: {source} can be started again only with the state handle that its stop leaves");
        let is_late = self.has_waited(&reason, LONG) || self.offers_before(Fact::FromNothing, source);
        if !is_late {
            return Interrupt::Wait(reason);
        }
        let offer = self.offer_at(
            Fact::FromNothing,
            source,
            format!("the state handle that the stop of {source} would leave"),
        );
        Interrupt::Wait(format!(
            "{reason}: if it never leaves one, a person can let it start without ({offer})"
        ))
    }
}

/// Names the last state handle that is known.
fn known_from(source: &ClusterName, from: &ClusterName) -> String {
    if from == source {
        "the last state handle of it that is known".to_owned()
    } else {
        format!("the last state handle that is known, that of {from},")
    }
}
