//! What the status says beside the phase.

use super::{Machine, Phase};
use crate::intent::effect::Effect;

impl Machine<'_> {
    pub(super) fn note(&mut self, effects: &[Effect]) {
        if let Some(journal) = &mut self.status.journal {
            journal.planned = effects.iter().map(ToString::to_string).collect();
        }
        if self.status.journal.is_none() {
            self.status.clusters.clear();
            self.status.updated = None;
        }
        let (phase, now) = (self.status.phase, self.input.now);
        let common = &mut self.status.common;
        let message = match (&common.waiting_for, common.findings.first()) {
            (Some(wait), _) => format!("waits: {}", wait.reason),
            (None, Some(finding)) => finding.message.clone(),
            (None, None) => String::new(),
        };
        let reason = phase.name();
        let mut say = |type_, holds| common.set_condition(type_, holds, reason, &message, now);
        say("Completed", phase == Phase::Completed);
        say("Progressing", !phase.is_at_rest() && phase != Phase::Halted);
        say("Halted", phase == Phase::Halted);
        say("Undone", phase == Phase::Undone);
    }
}
