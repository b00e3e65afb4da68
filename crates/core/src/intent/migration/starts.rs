//! A copy that may write begins again by itself, and nothing kept what it wrote since it was deployed: a `JobManager` of Flink
//! that starts again without high availability. That is the workload's own loss; it is reported, and a soak starts over.

use super::{Operation, Phase};
use crate::api::Starts;
use crate::intent::custody::starts;
use crate::profile::Profile;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Keeps which pods the run of the one that may write goes with, and tells those that have started since.
    pub(super) fn note_starts(&mut self) {
        let Some(journal) = self.status.journal_in_force() else {
            return;
        };
        let rule = journal.profile.starts_over.clone();
        let Some((runs, rule)) = self.may_run_still().zip(rule) else {
            if let Ok(journal) = self.journal_mut() {
                journal.starts.clear();
            }
            return;
        };
        let is_told_to_run = journal.writer.as_ref() == Some(&runs);
        let seen = self.profile().ok();
        let Some(seen) = seen.and_then(|profile| self.starts_in(&runs, &profile)) else {
            return;
        };
        let Some(known) = journal.starts.get(&runs) else {
            // What comes up until then comes up as it was told to.
            if is_told_to_run && matches!(self.healthy(&runs), Ok(Ok(_))) {
                self.keep_starts(runs, seen);
            }
            return;
        };
        let is_news = known.pods != seen.pods;
        self.status
            .common
            .findings
            .extend(starts::started_over(&runs, known, &seen, is_told_to_run, &rule));
        if is_news {
            self.keep_starts(runs, seen);
        }
    }

    /// Returns who may write; or who did, until it is seen to have stopped.
    fn may_run_still(&self) -> Option<ClusterName> {
        let journal = self.status.journal_in_force()?;
        let stops = match (self.status.phase, &journal.roll_back) {
            (Phase::Capture, _) if journal.captured.is_none() => Some(&journal.source),
            (Phase::RollingBack, Some(back)) if back.handed_over && !back.target_captured => {
                Some(&journal.target)
            }
            _ => None,
        };
        journal.writer.as_ref().or(stops).cloned()
    }

    fn keep_starts(&mut self, cluster: ClusterName, seen: Starts) {
        if let Ok(journal) = self.journal_mut() {
            journal.starts.insert(cluster, seen);
        }
    }

    /// Returns the starts of the pods with which the run of a copy would lose its state; nothing where it keeps that, or where
    /// they can't be seen, or none is there.
    pub(super) fn starts_in(&self, cluster: &ClusterName, profile: &Profile) -> Option<Starts> {
        starts::starts_in(self.snapshot().member(cluster).ok()?, profile)
    }
}
