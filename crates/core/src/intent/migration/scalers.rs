//! Who starts the workload by itself while it is held. It is refused before anything begins; one that comes later is told for as
//! long as it is there, and the source isn't stopped beside it.

use serde_json::Value;

use super::{Interrupt, Operation};
use crate::api::{Finding, Strategy, WorkloadProfileSpec};
use crate::intent::scalers::{self, Concerns, Scaler};
use crate::intent::seen::NotKnown;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Returns what others would undo: of the pins, of a copy that is held, of the template.
    pub(super) fn others_findings(
        &self,
        template: &Value,
        source: &ClusterName,
        profile: &WorkloadProfileSpec,
    ) -> Result<Vec<Finding>, Interrupt> {
        let mut findings = self.fight_findings(template, source, profile)?;
        findings.extend(self.overwritten_finding(template, profile)?);
        match self.scaler_findings(profile) {
            // A source that can't be seen is waited for next, which a person can end.
            Err(_) if self.unseen(source)?.is_some() => {}
            found => findings.extend(found?),
        }
        findings.extend(self.beside_findings());
        Ok(findings)
    }

    /// Returns who would start a held copy.
    pub(super) fn scaler_findings(&self, profile: &WorkloadProfileSpec) -> Result<Vec<Finding>, NotKnown> {
        let holds = self.input.spec.strategy != Strategy::StartFirst;
        let concerns = Concerns::of(profile);
        if !holds {
            return Ok(Vec::new());
        }
        let mut found = if concerns.any() {
            scalers::findings(self.snapshot().scalers.get()?)
        } else {
            Vec::new()
        };
        for (cluster, member) in self.snapshot().members.iter().filter(|_| concerns.suspends) {
            let copy = member.object.get().ok().and_then(Option::as_ref);
            let queue = copy.and_then(|copy| Scaler::queue_of(copy, cluster));
            found.extend(queue.and_then(|queue| queue.finding()));
        }
        Ok(found)
    }

    /// Tells who could start a held copy now. Where nobody could look, what was seen last stays.
    pub(super) fn note_scalers(&mut self) {
        let Some(journal) = self.status.journal_in_force() else {
            return;
        };
        if self.snapshot().scalers.get().is_err() {
            return;
        }
        let found = self.scaler_findings(&journal.profile).unwrap_or_default();
        let findings = &mut self.status.common.findings;
        findings.retain(|known| !scalers::is_told(&known.code));
        findings.extend(found);
    }

    /// The source runs: it isn't told to stop while somebody would start it, or the target, behind its back.
    pub(super) fn nobody_scales(&self) -> Result<(), Interrupt> {
        let found = self.scaler_findings(&self.journal()?.profile)?;
        match found.into_iter().next() {
            Some(finding) => Err(Interrupt::Wait(scalers::wait(finding))),
            None => Ok(()),
        }
    }
}
