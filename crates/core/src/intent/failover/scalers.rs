//! Who scales the workload by itself: wherever a failover brings it, it is born held, and would be started there.

use super::{Interrupt, Operation};
use crate::api::WorkloadProfileSpec;
use crate::intent::scalers::{self, CODE};

impl Operation<'_> {
    /// Nothing is guarded beside somebody who would start a held copy.
    pub(super) fn nobody_scales(&self, profile: &WorkloadProfileSpec) -> Result<(), Interrupt> {
        if !scalers::concerns(profile) {
            return Ok(());
        }
        match scalers::findings(self.around().scalers.get()?).into_iter().next() {
            Some(finding) => Err(Interrupt::Wait(format!(
                "autoscalers to let go of what is held: {} ({})",
                finding.message,
                finding.hint.unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }

    /// Tells who could start a held copy now. Where nobody could look, what was seen last stays.
    pub(super) fn note_scalers(&mut self) {
        let Some(journal) = &self.status.journal else {
            return;
        };
        let concerns = scalers::concerns(&journal.profile);
        let Ok(seen) = self.around().scalers.get() else {
            return;
        };
        if concerns {
            let found = scalers::findings(seen);
            self.untell(CODE);
            self.status.common.findings.extend(found);
        }
    }
}
