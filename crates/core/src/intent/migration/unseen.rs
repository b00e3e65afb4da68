//! Clusters that are lost for good: nobody looks into them any more. What a person says of them ends the wait, and no word makes
//! a second writer: the pin holds everybody else, and an unseen copy counts as running until a person vouches that it doesn't.

use super::{Interrupt, Next, Operation, Phase};
use crate::api::{Capture, Fact, Finding};
use crate::intent::custody;
use crate::intent::proof::{Facts, Suspended};
use cutover_karmada::name::ClusterName;

const GIVEN_UP: &str = "StateGivenUp";
const SETTLED: &str = "Settled";

impl Operation<'_> {
    /// Returns why a cluster can't be looked into, if so.
    pub(super) fn unseen(&self, cluster: &ClusterName) -> Result<Option<String>, Interrupt> {
        let object = self.snapshot().member(cluster)?.object.get();
        Ok(object.err().map(|unknown| unknown.to_string()))
    }

    /// Returns whether a person has said that nothing runs in a cluster that nobody sees, or that it doesn't matter: Karmada needs to
    /// keep nothing there.
    pub(super) fn is_done_without(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let is_said = || {
            let mut facts = [Fact::Stopped, Fact::Settle].into_iter();
            facts.any(|fact| self.assumed(fact, cluster).is_some())
        };
        Ok(self.unseen(cluster)?.is_some() && is_said())
    }

    /// Returns whether a person ends the migration without a look at the cluster that has the workload: told, and so in force.
    pub(super) fn is_settled(&self) -> bool {
        self.status
            .journal
            .as_ref()
            .is_some_and(|journal| journal.settled)
    }

    /// The cluster that has the workload is looked at again, or another one is to have it.
    fn is_not_settled_any_more(&mut self) -> Result<(), Interrupt> {
        self.journal_mut()?.settled = false;
        self.status
            .common
            .findings
            .retain(|finding| finding.code != SETTLED);
        Ok(())
    }

    /// Karmada keeps nothing for a cluster any more, which can't be looked into: it is waited for, or done without.
    pub(super) fn dropped_unseen(&self, cluster: &ClusterName, why: &str) -> Interrupt {
        Interrupt::Wait(format!(
            "{why}: Karmada has dropped {cluster}, which cannot be observed. If you know that no copy runs there, or will by itself, \
             confirm it ({})",
            self.offer(Fact::Stopped, cluster)
        ))
    }

    /// Returns why a source can't be looked into that has left Karmada while nothing of the workload is anywhere else, if so: nothing
    /// shows what is in force, and nothing is left to move.
    pub(super) fn has_left_alone(&self, source: &ClusterName) -> Result<Option<String>, Interrupt> {
        let is_there = self.snapshot().plane.clusters.get()?.contains_key(source)
            || !self.snapshot().plane.works.get()?.is_empty();
        let synced = custody::synced(self.binding()?);
        if self.committed() || is_there || synced.iter().any(|listed| listed != source) {
            return Ok(None);
        }
        let (_, target) = self.ends()?;
        // What Karmada has let go runs on without a Work.
        if !matches!(self.snapshot().member(&target)?.object.get(), Ok(None)) {
            return Ok(None);
        }
        self.unseen(source)
    }

    /// A person vouches that nothing runs in a source that has left Karmada, which ends the migration.
    pub(super) fn has_nothing_running(&self, source: &ClusterName, why: &str) -> Result<String, Interrupt> {
        if let Some(by) = self.assumed(Fact::Stopped, source) {
            return Ok(by);
        }
        let gives_up = if self.journal()?.profile.stateful {
            format!(
                "all the state that {source} had: Karmada may create the workload in another cluster, from nothing"
            )
        } else {
            format!("the copy in {source}: Karmada may create the workload in another cluster")
        };
        Err(Interrupt::Wait(format!(
            "manual intervention required: {why}: Karmada has dropped {source}, which had the workload. If you know that no copy runs \
             there, or will by itself, confirm it, and the migration ends ({})",
            self.offer_at(Fact::Stopped, source, gives_up)
        )))
    }

    /// From then on it ends, whatever Karmada makes of the workload; people are told of what nobody has got.
    pub(super) fn leaves_what_was_dropped(&mut self, source: &ClusterName) -> Result<Next, Interrupt> {
        let journal = self.journal_mut()?;
        journal.dropped = true;
        let values = journal
            .captured
            .iter()
            .flat_map(|captured| captured.values.values());
        let handles: Vec<&str> = values.map(String::as_str).collect();
        let what = match (journal.profile.stateful, handles.is_empty()) {
            (false, _) => "its copy there is left".to_owned(),
            (true, true) => "what it wrote there is not handed over".to_owned(),
            (true, false) => format!("the state handle {} is not handed over", handles.join(", ")),
        };
        let gives_up = Finding::new(
            GIVEN_UP,
            format!("Karmada has dropped {source}, which had the workload: {what}"),
            "check that cluster, if it exists: its copy has the state",
        );
        self.raise(gives_up);
        Ok(Next::Requeue)
    }

    /// The source can't be seen when its state was to be taken: with nobody running elsewhere that is waited for, until a person
    /// vouches that nothing runs there and says what the target starts from.
    pub(super) fn capture_unseen(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        why: &str,
    ) -> Result<Next, Interrupt> {
        self.source_is_given_up(source, target, why)?;
        let from = if self.journal()?.captured.is_some() {
            "from the last state handle that it showed"
        } else {
            "from nothing"
        };
        Ok(Next::Enter(
            Phase::Handoff,
            vec![format!(
                "{source} could not be observed ({why}); a person vouches that nothing runs there, and lets {target} start {from}"
            )],
        ))
    }

    /// A person vouches that nothing runs in a source that nobody sees, and it is known what the target starts from.
    pub(super) fn source_is_given_up(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        why: &str,
    ) -> Result<(), Interrupt> {
        if self.assumed(Fact::Stopped, source).is_none() {
            return Err(self.unseen_source(source, target, why));
        }
        let journal = self.journal()?;
        if journal.captured.is_some() || !journal.profile.stateful || self.was_said(Fact::FromNothing, target)
        {
            return Ok(());
        }
        let last = journal.handle_before.clone();
        if !last.is_empty()
            && let Some(by) = self.assumed(Fact::From, source)
        {
            self.note_handle(Fact::From, source, &last)?;
            let evidence =
                format!("{by} lets the workload go on from the last state handle that {source} showed");
            self.gives_up(format!("{evidence}: what {source} wrote after it is lost"));
            let now = self.input.now;
            let journal = self.journal_mut()?;
            journal.capture(Capture {
                from: source.clone(),
                values: last,
                evidence,
                at: now,
            });
            return Err(Interrupt::Requeue);
        }
        if let Some(by) = self.assumed(Fact::FromNothing, target) {
            self.gives_up(format!(
                "{by} lets {target} start from nothing: what {source} wrote is lost"
            ));
            return Err(Interrupt::Requeue);
        }
        Err(Interrupt::Wait(self.what_to_start_from(source, target, why)?))
    }

    fn what_to_start_from(
        &self,
        source: &ClusterName,
        target: &ClusterName,
        why: &str,
    ) -> Result<String, Interrupt> {
        let all = format!("all the state that {source} had");
        let from_nothing = self.offer_at(Fact::FromNothing, target, all);
        let last = &self.journal()?.handle_before;
        let values: Vec<String> = last
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let handle = if values.is_empty() {
            String::new()
        } else {
            let since = format!("what {source} wrote after {}", values.join(", "));
            let offer = self.offer_at(Fact::From, source, since);
            format!(
                "the last state handle that {source} showed, {} ({offer}), which gives up what it wrote since; or ",
                values.join(", ")
            )
        };
        Ok(format!(
            "manual intervention required: {why}, and no state handle was taken from {source}: choose what {target} starts from: \
             {handle}nothing ({from_nothing}), which gives up all of it"
        ))
    }

    /// A source that a person has given up is back before the target was let run, stopped, with a state that nobody knew of: that
    /// is the newest, and nothing is given up. `marker`: of the pin in force.
    pub(super) fn take_what_came_back(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        marker: &str,
    ) -> Result<(), Interrupt> {
        let was_given_up = self.was_said(Fact::From, source) || self.was_said(Fact::FromNothing, target);
        if !was_given_up || !self.journal()?.source_handle.is_empty() {
            return Ok(());
        }
        let Ok(suspended) = self.prove(source, |facts| Suspended::prove(&Facts { marker, ..*facts }))? else {
            return Ok(());
        };
        let before = &self.journal()?.handle_before;
        let Ok(newer) = suspended.capture(&self.profile()?, before, self.input.now) else {
            return Ok(());
        };
        self.status
            .common
            .findings
            .retain(|finding| finding.code != GIVEN_UP);
        self.journal_mut()?.capture_source(newer);
        Err(Interrupt::Requeue)
    }

    pub(super) fn gives_up(&mut self, message: String) {
        let hint = "the journal has the words that were used, who gave them and what they gave up: status.journal.words, and \
                    status.trimmedJournal after the end";
        self.status
            .common
            .findings
            .push(Finding::new(GIVEN_UP, message, hint));
    }

    /// Returns whether a person ends the migration although the cluster that has the workload can't be looked into.
    pub(super) fn is_settled_unseen(&mut self, keep: &ClusterName) -> Result<bool, Interrupt> {
        let Some(why) = self.unseen(keep)? else {
            // What was said of a cluster that nobody sees is not about one that is seen.
            self.refute(Fact::Settle, keep)?;
            self.is_not_settled_any_more()?;
            return Ok(false);
        };
        // Who was not seen running since it was let run may never run.
        let may_end = self.committed() || self.journal()?.up_since.is_some();
        if let Some(by) = self.assumed(Fact::Settle, keep).filter(|_| may_end) {
            let message = format!(
                "{by} ended it while {keep} could not be observed ({why}): whether the workload runs there was not seen"
            );
            if !self.is_settled() {
                self.journal_mut()?.settled = true;
                let hint =
                    "check the cluster when it can be reached; if it is lost for good, fail over from it";
                self.status
                    .common
                    .findings
                    .push(Finding::new(SETTLED, message, hint));
                return Err(Interrupt::Requeue);
            }
            return Ok(true);
        }
        let mut ways = Vec::new();
        if may_end {
            let again = if self.is_kept_by_karmada(keep)? {
                ""
            } else {
                "; Karmada may create the workload in another cluster, from nothing"
            };
            let offer = self.offer_at(
                Fact::Settle,
                keep,
                format!("the check of the copy in {keep}: whether it runs stays unknown{again}"),
            );
            ways.push(format!("end the migration without that ({offer})"));
        }
        if let Some(other) = self.other_way(keep)? {
            let offer = self.offer_at(
                Fact::To,
                &other,
                format!(
                    "what {keep} wrote since it has the workload, unless it can be stopped with its state"
                ),
            );
            ways.push(format!("give the workload to {other} ({offer})"));
        }
        Err(Interrupt::Wait(if ways.is_empty() {
            why
        } else {
            format!(
                "{why}: {keep} has the workload, and cannot be observed; a person can {}",
                ways.join(", or ")
            )
        }))
    }

    fn is_kept_by_karmada(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let is_joined = self.snapshot().plane.clusters.get()?.contains_key(cluster);
        Ok(is_joined && self.is_listed(cluster)?)
    }

    /// Returns which cluster can still get the workload where the one that has it is lost: for as long as the fence stands.
    fn other_way(&self, keep: &ClusterName) -> Result<Option<ClusterName>, Interrupt> {
        let (source, target) = self.ends()?;
        let other = if *keep == source { target } else { source };
        let journal = self.journal()?;
        let is_fenced = !journal.fence.lowered && !journal.pin.unpinning && journal.profile.stateful;
        Ok((is_fenced && self.unseen(&other)?.is_none()).then_some(other))
    }

    /// Returns whether a person lets a target run again whose source is lost on the way back.
    pub(super) fn goes_forward(&self, source: &ClusterName, target: &ClusterName) -> Result<bool, Interrupt> {
        let is_lost = self
            .journal()?
            .roll_back
            .as_ref()
            .is_some_and(|back| back.restart)
            && self.unseen(source)?.is_some();
        Ok(is_lost && self.other_way(source)?.is_some() && self.assumed(Fact::To, target).is_some())
    }

    /// A person gives a committed workload back to its source, because the target is lost.
    pub(super) fn goes_back(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        let Some(why) = self.unseen(target)? else {
            return self.refute(Fact::To, source);
        };
        if self.other_way(target)?.is_none() {
            return Ok(());
        }
        let Some(by) = self.assumed(Fact::To, source) else {
            return Ok(());
        };
        self.spend(Fact::To, source)?;
        let now = self.input.now;
        let journal = self.journal_mut()?;
        journal.committed = false;
        journal.clusters = vec![source.clone(), target.clone()];
        if let Some(belt) = &mut journal.fence.belt {
            (belt.off, belt.shown) = (false, false);
        }
        journal.goes_down(now);
        self.is_not_settled_any_more()?;
        self.begin_roll_back(
            format!("{by} gives the workload back to {source}, after the commit: {why}"),
            Phase::RolledBack,
        );
        Err(Interrupt::Requeue)
    }
}
