//! A copy that may write begins again by itself, and nothing kept what it wrote since it was deployed: a `JobManager` of Flink
//! that starts again without high availability. That is the workload's own loss; it is reported, and a soak starts over.

use std::collections::BTreeSet;

use super::{Machine, Phase};
use crate::api::{Finding, Starts};
use crate::intent::world::Pod;
use crate::profile::Profile;
use cutover_karmada::LabelSelector;
use cutover_karmada::name::ClusterName;

const CODE: &str = "StartedOver";

impl Machine<'_> {
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
        // Its operator may have deployed what its spec has become, with the state of before; the pods follow the spec.
        let is_other_spec = is_told_to_run && known.generation != seen.generation;
        let new = seen.pods.difference(&known.pods).map(String::as_str);
        let new = new.collect::<Vec<_>>().join(", ");
        let is_news = known.pods != seen.pods;
        if !new.is_empty() && !is_other_spec {
            let message = format!("{runs}: {new} was started again: {}", rule.message);
            let hint = "this intent did not cause it: find out why it restarted, and what could keep its state over a restart";
            self.status.findings.push(Finding::new(CODE, message, hint));
        }
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
        let member = self.world().member(cluster).ok()?;
        let object = member.object.get().ok()?.as_ref()?;
        let pods = starts(profile.starts_over_with(object)?, member.pods.get().ok()?);
        let generation = object
            .pointer("/metadata/generation")
            .and_then(serde_json::Value::as_i64);
        let generation = generation.unwrap_or_default();
        (!pods.is_empty()).then_some(Starts { generation, pods })
    }
}

fn starts(of: &LabelSelector, pods: &[Pod]) -> BTreeSet<String> {
    let pods = pods.iter().filter(|pod| pod.began && of.matches(&pod.labels));
    pods.map(|pod| {
        format!(
            "pod {} (uid {}, restarted {} times)",
            pod.name, pod.uid, pod.restarts
        )
    })
    .collect()
}
