//! The steps: more there until all of it is ready, then fewer here, as far as there is room.

use super::{Interrupt, Next, Operation, Phase, Side};
use crate::api::{Finding, ReplicaShiftSpec, TimeSpan, WaitCode, percent_of};
use crate::intent::scalers::Scaler;

const AUTOSCALED: &str = "Autoscaled";

/// How many steps the status tells of.
const MOST: usize = 60;

impl Operation<'_> {
    pub(super) fn shifting(&mut self) -> Result<Next, Interrupt> {
        self.stand()?;
        self.nobody_scales()?;
        if self.journal()?.rests_since.is_some() {
            return self.next_step();
        }
        let (from, to) = (self.from()?, self.to()?);
        let goal = self.journal()?.goal;
        let more = self.at_start(&to)? + goal;
        if self.wanted(&to)? < more {
            self.want(&to, more)?;
            return Ok(Next::Requeue);
        }
        let grown = self.arrived(&to)?;
        let fewer = self.at_start(&from)? - goal;
        if self.wanted(&from)? > fewer {
            self.take(&from, fewer)?;
            return Ok(Next::Requeue);
        }
        let shrunk = self.arrived(&from)?;
        self.rest(vec![grown, shrunk])?;
        Ok(Next::Requeue)
    }

    /// Whoever else sets replicas undoes what the pin says, or never sees it: as long as he is there, nothing more is moved.
    fn nobody_scales(&mut self) -> Result<(), Interrupt> {
        let scalers: Vec<Scaler> = self.autoscalers()?.cloned().collect();
        let findings = &mut self.status.common.findings;
        findings.retain(|finding| finding.code != AUTOSCALED);
        let Some(first) = scalers.first() else {
            return Ok(());
        };
        findings.extend(scalers.iter().map(autoscaled));
        Err(Interrupt::Wait(format!(
            "{first} to be removed: it sets the replicas of the workload, and the shift moves none meanwhile"
        )))
    }

    /// Plans fewer replicas for a side, if what is ready now leaves room for that. It is looked at once more before it is
    /// written.
    pub(super) fn take(&mut self, side: &Side, replicas: u32) -> Result<(), Interrupt> {
        self.room_for(Some((side, replicas)))?;
        self.want(side, replicas)
    }

    /// Notes that a step is over, with what was seen.
    fn rest(&mut self, mut evidence: Vec<String>) -> Result<(), Interrupt> {
        let now = self.input.now;
        let journal = self.journal_mut()?;
        journal.rests_since = Some(now);
        let moved = format!("{} of {}", journal.goal, journal.amount);
        let room = self.room_for(None);
        evidence.extend(room.ok().map(|room| room.evidence().to_owned()));
        let common = &mut self.status.common;
        common.enter(&format!("Shifting {moved}"), Vec::new(), now);
        if let Some(step) = common.steps.last_mut() {
            step.finished_at = Some(now);
            step.evidence = evidence;
        }
        // The story of a thousand steps is told by the last of them.
        if common.steps.len() > MOST {
            common.steps.remove(MOST / 10);
        }
        Ok(())
    }

    /// Goes on when the pause is over and a person has approved, where that is asked for.
    fn next_step(&mut self) -> Result<Next, Interrupt> {
        let journal = self.journal()?;
        let (spec, goal, amount) = (journal.spec.clone(), journal.goal, journal.amount);
        if let Some(gate) = self.closed_gate(&spec, goal, amount) {
            let attempt = self.status.common.attempt;
            return Err(Interrupt::wait_for(
                WaitCode::Approval,
                format!("approval of {gate}% for attempt {attempt}"),
            ));
        }
        let last = goal >= last_goal(&spec, amount);
        if last {
            let evidence = vec![format!("{goal} of {amount} have gone to {}", spec.to)];
            let then = if spec.then.suspend.is_empty() {
                Phase::Shifted
            } else {
                Phase::Suspending
            };
            return Ok(Next::Enter(then, evidence));
        }
        let since = journal.rests_since.unwrap_or(self.input.now);
        let pause = spec.pause.each.as_ref().map(TimeSpan::length).unwrap_or_default();
        let until = since.checked_add(pause).unwrap_or(since);
        if until > self.input.now {
            return Err(Interrupt::wait_until(
                format!("pauses after {goal} of {amount}"),
                until,
                "go on with the next step",
            ));
        }
        let now = self.input.now;
        let journal = self.journal_mut()?;
        journal.goal = next_goal(&spec, goal, amount);
        journal.rests_since = None;
        journal.step_since = Some(now);
        Ok(Next::Requeue)
    }

    /// Returns the percentage that a person has to approve before it goes on.
    fn closed_gate(&self, spec: &ReplicaShiftSpec, goal: u32, amount: u32) -> Option<u32> {
        let reached = |percent: &u32| u64::from(goal) * 100 >= u64::from(*percent) * u64::from(amount);
        let attempt = self.status.common.attempt;
        let is_approved = |percent: u32| {
            let mut approvals = self.input.spec.approvals.iter();
            approvals.any(|approval| approval.percent == percent && approval.attempt == attempt)
        };
        let mut gates: Vec<u32> = spec.pause.approval.iter().copied().filter(reached).collect();
        gates.sort_unstable();
        gates.into_iter().find(|percent| !is_approved(*percent))
    }
}

/// Returns how many have gone when the step after this one is over.
pub(super) fn next_goal(spec: &ReplicaShiftSpec, goal: u32, amount: u32) -> u32 {
    if spec.percentages.is_empty() {
        return goal.saturating_add(spec.step.unwrap_or(1)).min(amount);
    }
    let mut goals = spec
        .percentages
        .iter()
        .map(|percent| percent_of(*percent, amount));
    goals.find(|next| *next > goal).unwrap_or(goal)
}

/// Returns how many have gone at the end.
pub(super) fn last_goal(spec: &ReplicaShiftSpec, amount: u32) -> u32 {
    spec.percentages
        .iter()
        .map(|percent| percent_of(*percent, amount))
        .max()
        .unwrap_or(amount)
}

/// Returns how many have gone after each step.
pub fn goals(spec: &ReplicaShiftSpec, amount: u32) -> Vec<u32> {
    let last = last_goal(spec, amount);
    let next = |goal: &u32| (*goal < last).then(|| next_goal(spec, *goal, amount));
    std::iter::successors(Some(next_goal(spec, 0, amount)), next).collect()
}

/// Says of what scales the workload by itself why it can't stay.
pub(super) fn autoscaled(scaler: &Scaler) -> Finding {
    Finding::new(
        AUTOSCALED,
        format!("{scaler} sets the replicas of the workload, and would undo the shift"),
        "remove it for the duration of the shift; spec.floor keeps the capacity meanwhile",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn spec(more: serde_json::Value) -> ReplicaShiftSpec {
        let mut spec = json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "from": {"cluster": "blue"}, "to": "green",
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn steps_and_percentages_come_to_all_of_it() {
        assert_eq!(goals(&spec(json!({})), 3), [1, 2, 3]);
        assert_eq!(goals(&spec(json!({"step": 2})), 5), [2, 4, 5]);
        assert_eq!(goals(&spec(json!({"percentages": [10, 50, 100]})), 8), [1, 4, 8]);
        assert_eq!(goals(&spec(json!({"percentages": [10, 20, 100]})), 2), [1, 2]);
        assert_eq!(goals(&spec(json!({"percentages": [50]})), 8), [4]);
    }

    proptest! {
        #[test]
        fn goals_only_grow_and_end(step in 1..9u32, amount in 1..40u32) {
            let goals = goals(&spec(json!({"step": step})), amount);
            prop_assert!(goals.is_sorted_by(|one, next| one < next));
            prop_assert_eq!(goals.last(), Some(&amount));
        }
    }
}
