//! Who scales the workload by itself while it is held. It is refused before anything begins; one that comes later is told for as
//! long as it is there, and the source isn't stopped beside it.

use serde_json::Value;

use super::{Interrupt, Operation};
use crate::api::{Finding, Strategy, WorkloadProfileSpec};
use crate::intent::scalers::{self, CODE};
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
        findings.extend(self.scaler_findings(profile)?);
        findings.extend(self.beside_findings());
        Ok(findings)
    }

    /// Returns who would start a held copy.
    pub(super) fn scaler_findings(&self, profile: &WorkloadProfileSpec) -> Result<Vec<Finding>, NotKnown> {
        let holds = self.input.spec.strategy != Strategy::StartFirst;
        if !holds || !scalers::concerns(profile) {
            return Ok(Vec::new());
        }
        Ok(scalers::findings(self.snapshot().scalers.get()?))
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
        self.status.common.findings.retain(|known| known.code != CODE);
        self.status.common.findings.extend(found);
    }

    /// The source runs: it isn't told to stop while somebody would start it, or the target, behind its back.
    pub(super) fn nobody_scales(&self) -> Result<(), Interrupt> {
        let found = self.scaler_findings(&self.journal()?.profile)?;
        match found.into_iter().next() {
            Some(Finding { message, hint, .. }) => Err(Interrupt::Wait(format!(
                "autoscalers to let go of what is held: {message} ({})",
                hint.unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }
}
