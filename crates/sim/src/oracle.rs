//! What is promised of workloads without state: judged where it could be broken.

use crate::Sim;
use crate::actor::Running;
use crate::kinds::{ReplicaShift, Rollout, Suspension};
use cutover_core::api::{RolloutPhase, SuspensionPhase};

impl Sim {
    /// A copy has got another spec.
    pub(crate) fn judge_spec(&mut self, workload: usize, place: usize) {
        let breaches: Vec<String> = (0..self.actors.len())
            .filter(|nth| self.actors[*nth].workload() == workload)
            .filter_map(|nth| self.early(nth, place).or_else(|| self.let_through(nth, place)))
            .collect();
        self.breaches.extend(breaches);
    }

    /// No cluster gets what is rolled out before the journal says that it may.
    fn early(&self, nth: usize, place: usize) -> Option<String> {
        let running = self.actors[nth].any().downcast_ref::<Running<Rollout>>()?;
        let status = &running.intent.status;
        let journal = status.journal.as_ref()?;
        let member = &self.members[place];
        let ends = matches!(status.phase, RolloutPhase::Undoing | RolloutPhase::Finishing);
        let may =
            ends || journal.released.contains_key(&member.name) || journal.left.contains_key(&member.name);
        let object = member.copies[running.intent.workload].object.as_ref()?;
        let (target, stable) = (
            status.revision(&journal.target)?,
            status.revision(&journal.stable)?,
        );
        let has = object["spec"] == target.content["spec"] && target.content != stable.content;
        (has && !may).then(|| format!("{} has revision {} before its turn", member.name, target.name))
    }

    /// Nothing reaches a cluster from which changes are kept.
    fn let_through(&self, nth: usize, place: usize) -> Option<String> {
        let running = self.actors[nth].any().downcast_ref::<Running<Suspension>>()?;
        let status = &running.intent.status;
        let journal = status.journal.as_ref()?;
        let name = &self.members[place].name;
        let is_meant = journal.spec.clusters.is_empty() || journal.spec.clusters.contains(name);
        let is_kept = status.phase == SuspensionPhase::Suspended && journal.spec.scope.dispatching();
        (is_kept && is_meant).then(|| format!("{name} was changed while changes are kept from it"))
    }

    /// Pods have come or gone.
    pub(crate) fn judge_floor(&mut self, workload: usize) {
        if self.pods_were_lost {
            return;
        }
        for nth in 0..self.actors.len() {
            let Some(running) = self.actors[nth].any().downcast_ref::<Running<ReplicaShift>>() else {
                continue;
            };
            let Some(journal) = running.intent.status.journal.as_ref() else {
                continue;
            };
            let is_meant = running.intent.workload == workload && !running.intent.status.phase.is_terminal();
            let ready: usize = self.members.iter().map(|member| member.ready(workload)).sum();
            if is_meant && ready < journal.floor as usize {
                self.breaches.push(format!(
                    "{ready} replicas are ready, of {} that must",
                    journal.floor
                ));
            }
        }
    }
}
