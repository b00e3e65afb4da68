//! Those who apply the template beside this tool. What they change is in every cluster at once, in the middle of a wave too: a
//! rollout begins only when they are kept from that.

use serde_json::Value;

use super::{Finding, Interrupt, Operation};
use crate::intent::other_managers::{account, appliers};

const CODE: &str = "AppliedByAnother";

impl Operation<'_> {
    pub(super) fn others_are_held(&mut self, template: &Value) -> Result<(), Interrupt> {
        let others = account(template, &self.snapshot().other_managers);
        let Some(others) = others.filter(|others| !others.held) else {
            self.status.common.findings.retain(|known| known.code != CODE);
            return Ok(());
        };
        let hint = others.hint.unwrap_or_default();
        self.find(Finding::new(CODE, others.message.clone(), hint));
        Err(Interrupt::Wait(format!("{} ({hint})", others.message)))
    }

    /// Nothing is rolled out of a template that Git doesn't have: who else applies it should be known.
    pub(super) fn note_who_applies(&mut self, template: Option<&Value>) {
        self.status.common.findings.retain(|known| known.code != CODE);
        let found = template.map(appliers).unwrap_or_default();
        if let Some(applier) = found.first() {
            self.find(Finding::new(
                CODE,
                format!(
                    "{applier} applies the template, and the Git repository here doesn't have it: its changes are in every \
                     cluster at once"
                ),
                "let sync apply the template instead (docs/explanation/argocd-flux.md)",
            ));
        }
    }
}
