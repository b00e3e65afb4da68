//! Who starts the workload by itself: wherever a failover brings it, it is born held, and would be started there.

use super::{Interrupt, Operation};
use crate::api::WorkloadProfileSpec;
use crate::intent::scalers::{self, Concerns};

impl Operation<'_> {
    /// Nothing is guarded beside somebody who would start a held copy.
    pub(super) fn nobody_scales(&self, profile: &WorkloadProfileSpec) -> Result<(), Interrupt> {
        if !Concerns::of(profile).any() {
            return Ok(());
        }
        match scalers::findings(self.around().scalers.get()?).into_iter().next() {
            Some(finding) => Err(Interrupt::Wait(scalers::wait(finding))),
            None => Ok(()),
        }
    }

    /// Tells who could start a held copy now. Where nobody could look, what was seen last stays.
    pub(super) fn note_scalers(&mut self) {
        let Some(journal) = &self.status.journal else {
            return;
        };
        let concerns = Concerns::of(&journal.profile).any();
        let Ok(seen) = self.around().scalers.get() else {
            return;
        };
        if concerns {
            let found = scalers::findings(seen);
            let findings = &mut self.status.common.findings;
            findings.retain(|known| !scalers::is_told(&known.code));
            findings.extend(found);
        }
    }
}
