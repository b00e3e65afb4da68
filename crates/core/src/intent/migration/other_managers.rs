//! Those who apply the template beside this tool: whether they are kept from changing it in mid-flight, and that somebody did.
//! Where nobody but the token's holder runs doesn't hang on it: the pin holds whatever the template becomes.

use serde_json::Value;

use super::{Interrupt, Operation};
use crate::api::{Finding, HeldPolicy};
use crate::intent::other_managers::{Account, account, last_writer};
use crate::intent::record::{content, digest};
use crate::intent::seen::NotKnown;

/// Whether all who apply the template are kept from changing it until the move is over.
pub(super) const HELD_CONDITION: &str = "OthersHeldBack";

const CHANGED: &str = "TemplateChanged";

/// Returns the digest of what a template says beside its name and metadata.
pub(super) fn fingerprint(template: &Value) -> String {
    digest(&content(template))
}

impl Operation<'_> {
    /// Returns why what the intent writes into the template would not stay there: Git has it from elsewhere.
    pub(super) fn beside_findings(&self) -> Option<Finding> {
        let besides = &self.snapshot().other_managers;
        if besides.is_empty() || self.input.spec.changes.patches.is_empty() {
            return None;
        }
        let names: Vec<String> = besides.iter().map(|one| one.applier.to_string()).collect();
        let message = format!(
            "spec.changes.patches would be undone: {} applies the template",
            names.join(" and ")
        );
        let hint = "change the template in the source of that tool (docs/explanation/argocd-flux.md)";
        Some(Finding::new("AppliedByAnother", message, hint))
    }

    /// A change that is taken along is applied at the end of the move: who would put the old template back has to be held.
    pub(super) fn others_are_held(&self, template: &Value) -> Result<(), Interrupt> {
        let takes_along = self.input.spec.changes.template && self.snapshot().desired.get()?.change.is_some();
        match account(template, &self.snapshot().other_managers) {
            Some(others) if takes_along && !others.held => Err(Interrupt::Wait(format!(
                "the template change in Git would be undone: {} ({})",
                others.message,
                others.hint.unwrap_or_default()
            ))),
            _ => Ok(()),
        }
    }

    /// Says whether those beside are held; returns it for the evidence.
    pub(super) fn note_beside(&mut self, template: &Value) -> Option<String> {
        let Account {
            held,
            reason,
            message,
            hint,
        } = account(template, &self.snapshot().other_managers)?;
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        self.set_condition(HELD_CONDITION, held, reason, &format!("{message}{hint}"));
        Some(message)
    }

    /// Applied while nothing holds the workload, a policy of another placement would have Karmada move it: without its state.
    /// So would another one that takes the workload up. It is noted before anything else, and stays unapplied unless the move
    /// is committed.
    pub(super) fn note_policy_change(&mut self) -> Result<(), NotKnown> {
        let own = self.snapshot().policy.get()?.as_ref().and_then(|policy| {
            let change = policy.change.as_ref()?;
            Some(HeldPolicy {
                policy: policy.name.clone(),
                hash: change.hash.clone(),
            })
        });
        let arriving = self.snapshot().arriving.get()?;
        self.status.held_policies = own.into_iter().chain(arriving.iter().cloned()).collect();
        Ok(())
    }

    /// A template that somebody changes in mid-flight is not put back: what runs has it by then. It is told.
    pub(super) fn note_template_change(&mut self) {
        let Ok(Some(template)) = self.snapshot().plane.template.get() else {
            return;
        };
        if self.committed() || self.status.journal_in_force().is_none() {
            return;
        }
        let now = fingerprint(template);
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        let before = journal.template_spec.replace(now.clone());
        if before.is_none_or(|before| before == now) {
            return;
        }
        let who = last_writer(template).unwrap_or("somebody");
        let message = format!(
            "{who} changed the template during {}: running copies already have the change, and the target gets it too",
            self.status.phase
        );
        let hint =
            "keep that tool from applying it until the move has ended (docs/explanation/argocd-flux.md)";
        self.status.common.findings.retain(|known| known.code != CHANGED);
        self.set_condition(HELD_CONDITION, false, "Changed", &message);
        self.status
            .common
            .findings
            .push(Finding::new(CHANGED, message, hint));
    }
}
