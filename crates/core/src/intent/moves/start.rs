//! Before the first write: what is asked for, what can be done of it, and the gates.

use std::time::Duration;

use super::{
    AT_ONCE, Chosen, Interrupt, LATER, MoveStrategy, NOW_AND_THEN, Operation, Phase, SOON, listed, unchecked,
};
use crate::api::{Move, MoveState, MovesJournal, MovesStatus, Stay, WaitCode};
use crate::intent::effect::Effect;
use crate::intent::moves::PreflightResult;

impl<A: MoveStrategy> Operation<'_, A> {
    /// Takes the spec down, unless Git has it that this was done already.
    pub(super) fn pending(&mut self) -> Result<(), Interrupt<A>> {
        let spec = self.input.spec;
        if self.status.common.attempt == 0
            && let Some(record) = self.snapshot().record.get()?
            && let Some(status) = ended(record, spec)
        {
            self.status = status;
            return Err(Interrupt::Requeue);
        }
        let refused = spec.refused();
        if !refused.is_empty() {
            return Err(Interrupt::Fail(refused));
        }
        if let Err(findings) = Chosen::of(spec.moves()) {
            return Err(Interrupt::Fail(findings));
        }
        self.requeue_after = Some(NOW_AND_THEN);
        if spec.moves().paused {
            return Err(Interrupt::wait_for(
                WaitCode::Pause,
                "paused by the spec".to_owned(),
            ));
        }
        if !self.input.has_finalizer {
            return Err(Interrupt::Act(vec![Effect::AddFinalizer]));
        }
        let (now, revision) = (self.input.now, self.input.revision.map(str::to_owned));
        let common = &mut self.status.common;
        common.attempt += 1;
        common.started_at = Some(now);
        common.revision = revision;
        self.status.journal = Some(MovesJournal {
            spec: Box::new(spec.clone()),
            cordoned: Vec::new(),
            round: 0,
            forgotten: 0,
            because: None,
            known: Vec::new(),
            ending: None,
            planned: Vec::new(),
        });
        self.enter(Phase::Preflight, Vec::new());
        Err(Interrupt::Requeue)
    }

    /// Says what would move and what can't, and goes on when a person has had the chance to say no.
    pub(super) fn preflight(&mut self) -> Result<(), Interrupt<A>> {
        self.take_new_spec()?;
        self.survey()?;
        let open = unchecked(&self.status, false).len();
        if open > 0 {
            // Why it takes long stands in the notes of the moves.
            self.status.common.waiting_for = None;
            self.look_again(SOON);
            return Ok(());
        }
        self.requeue_after = Some(NOW_AND_THEN);
        let (movable, planned) = (self.movable(), self.plan_in_words());
        let (dry, stands) = (self.spec().is_dry_run(), self.spec().stands());
        if dry {
            self.status.common.waiting_for = None;
            if stands {
                self.note_known()?;
                self.enter(Phase::Watching, vec![format!("dry run: {planned}")]);
            } else {
                self.end(
                    Phase::Completed,
                    vec![format!("dry run: {planned}; nothing was touched")],
                );
            }
            return Err(Interrupt::Requeue);
        }
        if stands && movable == 0 && self.blocked().is_empty() {
            self.note_known()?;
            self.enter(Phase::Watching, vec![planned]);
            return Err(Interrupt::Requeue);
        }
        self.all_can_be_looked_at()?;
        self.nothing_is_in_the_way()?;
        self.may_go_on()?;
        self.is_approved(&planned)?;
        let (cordons, _) = self.spec().cordons();
        if cordons {
            let clusters = self.status.clusters.clone();
            self.journal_mut()?.cordoned = clusters;
        }
        self.enter(Phase::Moving, vec![planned]);
        Err(Interrupt::Requeue)
    }

    /// While nothing is under way, what is asked for can change.
    fn take_new_spec(&mut self) -> Result<(), Interrupt<A>> {
        let spec = self.input.spec;
        if self.spec().bare() == spec.bare() {
            return Ok(());
        }
        let refused = spec.refused();
        let mut wrong = Chosen::of(spec.moves()).err().unwrap_or_default();
        wrong.extend(refused);
        if !wrong.is_empty() {
            let messages: Vec<String> = wrong.iter().map(|finding| finding.message.clone()).collect();
            self.status.common.findings = wrong;
            return Err(Interrupt::Wait(format!(
                "the new spec cannot be carried out: {}",
                messages.join("; ")
            )));
        }
        *self.journal_mut()?.spec = spec.clone();
        self.status.moves.clear();
        self.status.stays.clear();
        (self.status.later, self.status.more_stays) = (0, 0);
        self.journal_mut()?.forgotten = 0;
        if self.status.phase == Phase::Watching {
            self.enter(
                Phase::Preflight,
                vec!["the spec asks for something else".to_owned()],
            );
        }
        Err(Interrupt::Requeue)
    }

    /// Looks at what there is to do, and takes it down if that has changed.
    pub(super) fn survey(&mut self) -> Result<(), Interrupt<A>> {
        if self.status.phase == Phase::Moving && self.spec().plans_once() {
            let mut moves = self.status.moves.clone();
            let waiting = moves.iter_mut().filter(|one| one.state == MoveState::Waiting);
            waiting.for_each(|one| self.take_verdict(one));
            self.status.moves = moves;
            return Ok(());
        }
        let spec = self.spec().clone();
        let chosen = Chosen::of(spec.moves()).map_err(Interrupt::Fail)?;
        let snapshot = self.snapshot();
        let clusters = spec.clusters(snapshot)?;
        let mut begun: Vec<Move> = self
            .status
            .moves
            .iter()
            .filter(|one| one.state != MoveState::Waiting)
            .cloned()
            .collect();
        let found = spec.survey(snapshot, &chosen, &begun)?;
        self.forget(&mut begun);
        let mut moves = begun;
        for mut one in self.list_first(found.moves) {
            let mut known = self.status.moves.iter();
            if let Some(known) = known.find(|known| {
                known.state == MoveState::Waiting
                    && (&known.workload, &known.from, known.means) == (&one.workload, &one.from, one.means)
                    // A place that would do is kept, as long as it would.
                    && known.to == one.to
            }) {
                one = known.clone();
            }
            self.take_verdict(&mut one);
            moves.push(one);
        }
        let blocked = moves.iter().filter_map(|one| {
            let why = one.blocked.clone().filter(|_| one.state == MoveState::Waiting)?;
            Some(Stay {
                workload: one.workload.clone(),
                cluster: one.from.clone(),
                why,
                runs: true,
            })
        });
        let mut stays: Vec<Stay> = blocked.chain(found.stays).collect();
        stays.sort_by(|one, other| (!one.runs, &one.workload).cmp(&(!other.runs, &other.workload)));
        self.name_first(&mut stays);
        let clusters: Vec<_> = clusters.into_iter().collect();
        self.status.common.findings = found.findings;
        let is_news =
            self.status.clusters != clusters || self.status.moves != moves || self.status.stays != stays;
        if is_news {
            (self.status.clusters, self.status.moves, self.status.stays) = (clusters, moves, stays);
            if unchecked(&self.status, false).is_empty() {
                return Ok(());
            }
            return Err(Interrupt::Requeue);
        }
        Ok(())
    }

    fn take_verdict(&self, one: &mut Move) {
        let Some(to) = &one.to else {
            one.checked = true;
            return;
        };
        let key = (one.workload.key(), to.clone());
        match self.snapshot().verdicts.get(&key) {
            None => {}
            Some(PreflightResult::Clear) => (one.checked, one.blocked, one.note) = (true, None, None),
            Some(PreflightResult::Waits(why)) => {
                (one.checked, one.blocked, one.note) = (true, None, Some(why.clone()));
            }
            Some(PreflightResult::Blocked(findings)) => {
                (one.checked, one.blocked, one.note) = (true, findings.first().cloned(), None);
            }
            // It is asked again, and nothing is concluded.
            Some(PreflightResult::Unknown(why)) => one.note = Some(why.clone()),
        }
    }

    pub(super) fn movable(&self) -> usize {
        let moves = self.status.moves.iter();
        moves
            .filter(|one| one.state == MoveState::Waiting && one.blocked.is_none())
            .count()
    }

    /// Returns what stays, though it was meant to leave.
    pub(super) fn blocked(&self) -> Vec<String> {
        let stays = self.status.stays.iter().filter(|stay| stay.runs);
        stays
            .map(|stay| format!("{}: {}", stay.workload, stay.why.message))
            .collect()
    }

    /// What isn't listed hasn't been looked at.
    fn all_can_be_looked_at(&self) -> Result<(), Interrupt<A>> {
        if self.status.later == 0 || !self.spec().needs_all() {
            return Ok(());
        }
        Err(Interrupt::Wait(format!(
            "{} are more than the {AT_ONCE} that can be checked before the first move: select fewer, or set spec.unmovable: Leave",
            count(self.status.later as usize + self.status.moves.len(), "workload")
        )))
    }

    pub(super) fn nothing_is_in_the_way(&self) -> Result<(), Interrupt<A>> {
        let blocked = self.blocked();
        if blocked.is_empty() || !self.spec().needs_all() {
            return Ok(());
        }
        Err(Interrupt::Wait(format!(
            "{} can't be moved, and spec.unmovable is Wait: {}",
            count(blocked.len(), "workload"),
            listed(&blocked)
        )))
    }

    /// Nothing begins while it is paused, or outside of its window.
    pub(super) fn may_go_on(&self) -> Result<(), Interrupt<A>> {
        let spec = self.input.spec.moves();
        if spec.paused {
            return Err(Interrupt::wait_for(
                WaitCode::Pause,
                "paused by the spec".to_owned(),
            ));
        }
        self.wait_for_window(spec.window.as_ref(), |ended| {
            Interrupt::Wait(format!("{ended}; give it another one, or abort it"))
        })
    }

    fn is_approved(&self, planned: &str) -> Result<(), Interrupt<A>> {
        let attempt = self.status.common.attempt;
        let spec = self.spec().moves();
        let gated = spec
            .approval
            .iter()
            .any(|gate| gate.before.contains(&Phase::Moving));
        let mut approvals = self.input.spec.moves().approvals.iter();
        let approved =
            approvals.any(|approval| approval.phase == Phase::Moving && approval.attempt == attempt);
        if !gated || approved {
            return Ok(());
        }
        Err(Interrupt::wait_for(
            WaitCode::Approval,
            format!("approval of Moving for attempt {attempt}: {planned}"),
        ))
    }

    /// Says in a sentence what there is to do.
    fn plan_in_words(&self) -> String {
        let waiting = self.movable() + self.status.later as usize;
        let blocked = self.blocked().len() + self.status.more_stays as usize;
        let clusters: Vec<String> = self.status.clusters.iter().map(ToString::to_string).collect();
        let about = if clusters.is_empty() {
            String::new()
        } else {
            format!(" of {}", listed(&clusters))
        };
        match blocked {
            0 => format!("{}{about} to move", count(waiting, "workload")),
            _ => format!(
                "{}{about} to move, {blocked} can't be moved",
                count(waiting, "workload")
            ),
        }
    }

    pub(super) fn note_known(&mut self) -> Result<(), Interrupt<A>> {
        let known = self.snapshot().clusters.get()?.keys().cloned().collect();
        self.journal_mut()?.known = known;
        Ok(())
    }

    /// It stands, and begins again when there is an occasion.
    pub(super) fn watching(&mut self) -> Result<(), Interrupt<A>> {
        self.take_new_spec()?;
        self.requeue_after = Some(LATER);
        self.status.common.waiting_for = None;
        let clusters = self.spec().clusters(self.snapshot())?;
        self.lift_cordons(|cluster| !clusters.contains(cluster))?;
        // Moves to a cluster that it no longer empties are refused no more.
        self.status.clusters = clusters.into_iter().collect();
        if !self.snapshot().looked {
            return Ok(());
        }
        let now = self.input.now;
        let occasion = self.spec().occasion(self.snapshot(), &self.status, now)?;
        let Some(because) = occasion else {
            return Ok(());
        };
        // What was told of the last round is in its record.
        let journal = self.journal_mut()?;
        journal.round += 1;
        journal.forgotten = 0;
        journal.because = Some(because.clone());
        self.status.moves.clear();
        self.status.stays.clear();
        (self.status.later, self.status.more_stays) = (0, 0);
        self.enter(Phase::Preflight, vec![because]);
        Err(Interrupt::Requeue)
    }

    /// Looks again as soon as there can be something new.
    pub(super) const fn look_again(&mut self, after: Duration) {
        self.requeue_after = Some(after);
    }
}

/// Returns the status of a record, if it is the end of what a spec asks for.
fn ended<A: MoveStrategy>(record: &serde_json::Value, spec: &A) -> Option<MovesStatus<A>> {
    let asked: A = serde_json::from_value(record.get("spec")?.clone()).ok()?;
    let status: MovesStatus<A> = serde_json::from_value(record.get("status")?.clone()).ok()?;
    (status.phase.is_terminal() && asked.bare() == spec.bare()).then_some(status)
}

pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}
