//! What the status says beside the phase.

use super::{Machine, Phase};
use crate::api::Progress;
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
        let standing = self.status.standing();
        let own = [
            ("Completed", phase == Phase::Completed),
            ("Progressing", !phase.is_at_rest() && phase != Phase::Halted),
            ("Halted", phase == Phase::Halted),
            ("Undone", phase == Phase::Undone),
        ];
        self.status.common.say(standing, phase.name(), &own, now);
    }
}
