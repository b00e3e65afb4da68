//! A copy that may write begins again by itself, and nothing kept what it wrote since it was deployed: a JobManager of Flink
//! that starts again without high availability. That is the workload's own loss; it is told, and a soak begins anew.

use std::collections::BTreeSet;

use super::Machine;
use crate::api::Finding;
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
        let (writer, rule) = (journal.writer.clone(), journal.profile.starts_over.clone());
        let Some((writer, rule)) = writer.zip(rule) else {
            self.forget_starts();
            return;
        };
        let seen = self
            .profile()
            .ok()
            .and_then(|profile| self.starts_in(&writer, &profile));
        let Some(seen) = seen else { return };
        let known = self
            .journal()
            .ok()
            .and_then(|journal| journal.starts.get(&writer));
        let Some(known) = known else {
            // What comes up until then comes up as it was told to.
            if matches!(self.healthy(&writer), Ok(Ok(_))) {
                self.keep_starts(&writer, seen);
            }
            return;
        };
        let new: Vec<&str> = seen.difference(known).map(String::as_str).collect();
        let (new, has_changed) = (new.join(", "), *known != seen);
        if !new.is_empty() {
            let message = format!(
                "{writer}: {new} began anew: {}; what it wrote since is lost",
                rule.message
            );
            let hint = "this was none of this intent's doing: see why it began anew, and what keeps the state over that";
            self.status.findings.push(Finding::new(CODE, message, hint));
        }
        if has_changed {
            self.keep_starts(&writer, seen);
        }
    }

    fn keep_starts(&mut self, writer: &ClusterName, seen: BTreeSet<String>) {
        if let Ok(journal) = self.journal_mut() {
            journal.starts.insert(writer.clone(), seen);
        }
    }

    /// Nobody is to run: what runs later begins because it is told to.
    fn forget_starts(&mut self) {
        if let Ok(journal) = self.journal_mut() {
            journal.starts.clear();
        }
    }

    /// Returns the starts of the pods with which the run of a copy would lose its state; nothing where it keeps that, or where
    /// they can't be seen, or none is there.
    pub(super) fn starts_in(&self, cluster: &ClusterName, profile: &Profile) -> Option<BTreeSet<String>> {
        let member = self.world().member(cluster).ok()?;
        let object = member.object.get().ok()?.as_ref()?;
        let starts = starts(profile.starts_over_with(object)?, member.pods.get().ok()?);
        (!starts.is_empty()).then_some(starts)
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
