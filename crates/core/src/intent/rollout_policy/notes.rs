//! What the status of a policy says: counts, and those workloads of which there is something to say.

use super::turns::waits_for_its_turn;
use super::{Operation, is_ending};
use crate::api::{Rollout, RolloutPhase, RolloutPolicyPhase as Phase, SelectedWorkload, WorkloadRef};

/// How many workloads are named in the status.
const MOST: usize = 50;

const QUEUED: &str = "waits for its turn";

impl Operation<'_> {
    /// Takes down how the workloads stand. Of those that rest there is nothing to say.
    pub(super) fn count(&mut self, selected: usize, mut rows: Vec<SelectedWorkload>) {
        let count = |holds: &dyn Fn(&SelectedWorkload) -> bool| {
            u32::try_from(rows.iter().filter(|row| holds(row)).count()).unwrap_or(u32::MAX)
        };
        self.status.selected = u32::try_from(selected).unwrap_or(u32::MAX);
        self.status.rolling = count(&|row| row.phase.is_some_and(|phase| !phase.is_at_rest()));
        self.status.halted = count(&|row| row.phase == Some(RolloutPhase::Halted));
        self.status.left_out = count(&|row| row.phase.is_none());
        rows.sort_by_key(|row| {
            let urgency = match row.phase {
                Some(RolloutPhase::Halted) => 0,
                _ if row.note.as_deref() == Some(QUEUED) => 3,
                _ if row.note.is_some() => 1,
                _ => 2,
            };
            (urgency, row.kind.clone(), row.name.clone())
        });
        rows.truncate(MOST);
        self.status.workloads = rows;
    }

    pub(super) fn close(&mut self) {
        let (phase, rolling, halted) = (self.status.phase, self.status.rolling, self.status.halted);
        self.say(&[
            ("Standing", phase == Phase::Standing),
            ("Progressing", rolling > 0),
            ("Halted", halted > 0),
        ]);
    }
}

/// Returns what there is to say of a workload whose change waits for its turn, and which has no Rollout yet.
pub(super) fn queued(workload: &WorkloadRef) -> SelectedWorkload {
    SelectedWorkload {
        kind: workload.kind.clone(),
        name: workload.name.clone(),
        by: None,
        phase: Some(RolloutPhase::Pending),
        note: Some(QUEUED.to_owned()),
    }
}

/// Returns what there is to say of a workload. `in_charge`: who is, if it isn't the policy.
pub(super) fn row(
    workload: &WorkloadRef,
    in_charge: Option<String>,
    child: Option<&Rollout>,
) -> Option<SelectedWorkload> {
    let row = |by, phase, note| SelectedWorkload {
        kind: workload.kind.clone(),
        name: workload.name.clone(),
        by,
        phase,
        note,
    };
    if let Some(other) = in_charge {
        return Some(row(None, None, Some(format!("left to {other}"))));
    }
    let child = child?;
    let status = child.status.as_ref();
    let phase = status.map(|status| status.phase).unwrap_or_default();
    let waits = status.and_then(|status| status.common.waiting_for.as_ref());
    let waits = waits.map(|wait| wait.reason.clone());
    let note = match phase {
        _ if is_ending(child) => Some("its rollout is ending".to_owned()),
        RolloutPhase::Pending if waits_for_its_turn(child) => Some(QUEUED.to_owned()),
        RolloutPhase::Pending | RolloutPhase::Halted => waits,
        RolloutPhase::Undone => Some("what Git asks for was undone, and waits for another commit".to_owned()),
        _ => None,
    };
    let rests = phase.is_at_rest() && note.is_none() && phase != RolloutPhase::Pending;
    (!rests).then(|| row(child.metadata.name.clone(), Some(phase), note))
}
