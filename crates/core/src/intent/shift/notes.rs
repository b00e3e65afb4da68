//! What the status says beside the phase: conditions, how far it is, how many are ready.

use super::{Operation, Phase};

impl Operation<'_> {
    pub(super) fn close(&mut self) {
        let changed = self
            .status
            .journal_in_force()
            .is_some_and(|journal| !journal.spec.asks_the_same(self.input.spec));
        self.note_moved();
        let (phase, now) = (self.status.phase, self.input.now);
        self.say(&[
            ("Shifted", matches!(phase, Phase::Shifted | Phase::Completed)),
            ("Completed", phase == Phase::Completed),
            ("Progressing", !phase.is_terminal()),
        ]);
        self.status.common.say_ignored(
            changed,
            "the spec was changed while the shift runs; the change has no effect",
            now,
        );
    }

    fn note_moved(&mut self) {
        let Some(journal) = &self.status.journal else {
            return;
        };
        let (had, has) = match &journal.spec.from.cluster {
            Some(cluster) => (journal.start.get(cluster), journal.wanted.get(cluster)),
            None => (Some(&journal.template_replicas), journal.template_wanted.as_ref()),
        };
        let gone = had
            .copied()
            .unwrap_or_default()
            .saturating_sub(has.copied().unwrap_or_default());
        self.status.moved = Some(format!("{}/{}", gone.min(journal.amount), journal.amount));
    }

    /// How many are ready in all is told only where all can be counted.
    pub(super) fn note_counts(&mut self) {
        let watched = matches!(
            self.status.phase,
            Phase::Hold | Phase::Shifting | Phase::Suspending | Phase::RollingBack
        );
        if !watched {
            return;
        }
        let counts = self.counts();
        let ready = counts
            .values()
            .map(|count| count.as_ref().ok().map(|count| count.ready));
        let Some(ready) = ready.sum::<Option<u32>>() else {
            return;
        };
        self.status.ready = Some(ready);
        self.status.lowest = Some(self.status.lowest.map_or(ready, |lowest| lowest.min(ready)));
    }

    /// The time that a step may take stands still during a pause.
    pub(super) fn note_pause(&mut self) {
        let (now, paused) = (self.input.now, self.is_paused());
        let Some(journal) = &mut self.status.journal else {
            return;
        };
        if paused {
            journal.paused_since.get_or_insert(now);
        } else if let Some(since) = journal.paused_since.take() {
            let long = now.duration_since(since);
            journal.step_since = journal.step_since.map(|began| began + long);
            journal.rests_since = journal.rests_since.map(|began| began + long);
        }
    }
}
