//! Something runs again beside the writer, after it was proved stopped. It is looked for in every pass until the end, and
//! told. Nobody new is let run, and a healthy writer keeps the token: taking it away would only add to what was lost.

use super::{Operation, Phase, RollBackStage};
use crate::api::{ConditionStatus, Finding};
use crate::intent::proof::Healthy;
use cutover_karmada::name::ClusterName;

/// The condition that holds while it is seen.
const CONDITION: &str = "SingleWriterLapse";
/// The finding that stays.
const CODE: &str = "RunsAgain";

impl Operation<'_> {
    /// Says what runs beside the writer. Returns whether the writer is healthy all the same: then time spent on it is no
    /// reason to take the token away.
    pub(super) fn note_lapse(&mut self) -> bool {
        let Some(writer) = self.sole_writer() else {
            self.set_condition(CONDITION, false, CODE, "");
            return false;
        };
        let seen: Vec<(ClusterName, String)> = self.runs_beside(&writer);
        let mut others = self
            .snapshot()
            .members
            .iter()
            .filter(|(cluster, _)| **cluster != writer);
        // That it has ended is said by nobody who can't look.
        if seen.is_empty() && self.is_told() && others.any(|(_, member)| member.pods.get().is_err()) {
            return self.is_well(&writer);
        }
        let all: Vec<&str> = seen.iter().map(|(_, pod)| pod.as_str()).collect();
        let message = all.join("; ");
        self.set_condition(CONDITION, !seen.is_empty(), CODE, &message);
        for (cluster, pod) in &seen {
            let told =
                format!("{cluster}: {pod}, after it was proved stopped: what it writes is beside {writer}");
            if !self.has_run_again(cluster) {
                let hint =
                    "find out what started it there and stop it; no cluster is allowed to run because of it";
                self.status.common.findings.push(Finding::new(CODE, told, hint));
            }
        }
        !seen.is_empty() && self.is_well(&writer)
    }

    /// Returns whether something was seen to run in a cluster after it was proved stopped.
    pub(super) fn has_run_again(&self, cluster: &ClusterName) -> bool {
        let begins = format!("{cluster}: ");
        let mut findings = self.status.common.findings.iter();
        findings.any(|known| known.code == CODE && known.message.starts_with(&begins))
    }

    fn is_well(&self, writer: &ClusterName) -> bool {
        let healthy = self.prove(writer, |facts| Healthy::prove(facts, None));
        matches!(healthy, Ok(Ok(_)))
    }

    fn is_told(&self) -> bool {
        let mut conditions = self.status.common.conditions.iter();
        conditions.any(|condition| condition.type_ == CONDITION && condition.status == ConditionStatus::True)
    }

    /// Returns who has the token, where every other cluster was proved inert before.
    fn sole_writer(&self) -> Option<ClusterName> {
        let journal = self.status.journal_in_force()?;
        let writer = journal.writer.as_ref().filter(|_| !self.is_shared())?;
        let was_taken = match (self.status.phase, &journal.roll_back) {
            (Phase::Handoff | Phase::Verify | Phase::Cleanup, _) => *writer == journal.target,
            (Phase::RollingBack, Some(back)) => back.restart && back.stage == RollBackStage::Returned,
            _ => false,
        };
        was_taken.then(|| writer.clone())
    }

    fn runs_beside(&self, writer: &ClusterName) -> Vec<(ClusterName, String)> {
        let members = self.snapshot().members.iter();
        let others = members.filter(|(cluster, _)| *cluster != writer);
        others
            .filter_map(|(cluster, member)| {
                let pod = member.pods.get().ok()?.first()?;
                Some((cluster.clone(), format!("pod {} is there again", pod.name)))
            })
            .collect()
    }
}
