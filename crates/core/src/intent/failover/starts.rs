//! The copy that is guarded begins again with less than it had written: it is told.

use super::look::uid;
use super::{Operation, Phase};
use crate::api::{Finding, WriterCopy};
use crate::intent::custody::starts;

impl Operation<'_> {
    /// Keeps which copy may write, and which pods its run goes with; tells what is there instead. While a new copy takes over,
    /// what comes up comes up as it was told to.
    pub(super) fn note_copy(&mut self) {
        let Some(journal) = &self.status.journal else {
            return;
        };
        let known = journal.copy.clone();
        let guards = !matches!(self.status.phase, Phase::Pending | Phase::Lent | Phase::Releasing);
        let Some(writer) = journal.writer.clone().filter(|_| guards) else {
            self.keep_copy(None);
            return;
        };
        let (Ok(Some(object)), Ok(profile)) = (self.copy(&writer), self.profile()) else {
            return;
        };
        let Ok(member) = self.around().member(&writer) else {
            return;
        };
        let seen = WriterCopy {
            cluster: writer.clone(),
            uid: uid(object),
            starts: starts::starts_in(member, &profile),
        };
        let is_well = profile.observed(object).unwrap_or(false) && profile.healthy(object).unwrap_or(false);
        let Some(known) = known.filter(|known| known.cluster == writer) else {
            if is_well {
                self.keep_copy(Some(seen));
            }
            return;
        };
        if known.uid != seen.uid {
            let has_state = journal.profile.stateful && !journal.profile.capture.is_empty();
            if has_state {
                self.tell_last(starts::recreated(&writer, &known.uid, &seen.uid));
            }
            self.keep_copy(Some(seen));
            return;
        }
        let rule = journal.profile.starts_over.as_ref();
        let news = match (&known.starts, &seen.starts, rule) {
            (Some(before), Some(now), Some(rule)) => starts::started_over(&writer, before, now, true, rule),
            _ => None,
        };
        if let Some(news) = news {
            self.tell_last(news);
        }
        // Where its operator has acted on another spec and left the pods, they go with that one from now on.
        let is_news = match (&known.starts, &seen.starts) {
            (_, None) => false,
            (None, Some(_)) => is_well,
            (Some(before), Some(now)) => before.pods != now.pods || is_well && before != now,
        };
        if is_news {
            self.keep_copy(Some(seen));
        }
    }

    fn keep_copy(&mut self, copy: Option<WriterCopy>) {
        if let Some(journal) = &mut self.status.journal {
            journal.copy = copy;
        }
    }

    /// A plan stands for long: of each kind the last is enough, and Events tell of all.
    fn tell_last(&mut self, news: Finding) {
        self.untell(&news.code);
        self.status.common.findings.push(news);
    }
}
