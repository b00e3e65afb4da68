//! What the status says beside the phase: conditions, what is kept back, which fields don't come to rest.

use super::held::held;
use super::{MOST, Operation, names};
use crate::api::Contested;

impl Operation<'_> {
    pub(super) fn note_author(&mut self) {
        if let Some(author) = &self.snapshot().author {
            self.status.by = Some(author.clone());
        }
    }

    pub(super) fn note_workloads(&mut self) {
        if let Ok(bindings) = self.snapshot().bindings.get() {
            let all: Vec<String> = names(bindings)
                .into_iter()
                .map(|(_, key)| key.to_string())
                .collect();
            let more = all.len().saturating_sub(MOST);
            let mut named: Vec<String> = all.into_iter().take(MOST).collect();
            if more > 0 {
                named.push(format!("and {more} more"));
            }
            self.status.workloads = named;
        }
        self.note_held();
    }

    pub(super) fn note_held(&mut self) {
        if let Some(copies) = &self.snapshot().copies {
            let mut held: Vec<_> = copies.iter().filter_map(held).collect();
            held.sort();
            held.truncate(MOST);
            self.status.held = held;
        }
    }

    /// What was seen changing stays in the status, for who comes later to look for it.
    pub(super) fn note_contest(&mut self) {
        for news in &self.snapshot().contested {
            self.contest(news.clone());
        }
    }

    pub(super) fn contest(&mut self, news: Contested) {
        let known = &mut self.status.contested;
        known.retain(|known| known.object != news.object || known.field != news.field);
        known.push(news);
        known.sort_by(|one, other| other.times.cmp(&one.times).then_with(|| one.cmp(other)));
        known.truncate(MOST);
    }
}
