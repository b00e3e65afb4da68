//! Rollouts, as people are told of them: Events, lines on a terminal, a part of the page.

use std::fmt::Write;

use super::copies::WorkloadKey;
use super::summary::{Part, Summarized, Summary, found};
use super::{EventRecord, status};
use crate::api::{
    Rollout, RolloutCluster, RolloutClusterState as State, RolloutPhase as Phase, RolloutStatus,
};
use crate::units::{brief, instant};

/// Returns what is to be told once the journal says what `after` says.
pub fn rollout_events(before: &Rollout, after: &RolloutStatus) -> Vec<EventRecord> {
    let was = status(before);
    let mut told = Vec::new();
    let name = |status: &RolloutStatus| status.target.clone().unwrap_or_default();
    if was.phase != after.phase {
        let reason = after.journal.as_ref().and_then(|journal| {
            let halted = journal.halted.clone();
            halted.or_else(|| journal.undoing.clone())
        });
        let warning = matches!(after.phase, Phase::Halted | Phase::Undoing);
        let note = reason.unwrap_or_else(|| format!("revision {}", name(after)));
        told.push(EventRecord::new(warning, after.phase.name(), &note));
    }
    let released = |status: &RolloutStatus| {
        let journal = status.journal.as_ref();
        journal
            .map(|journal| (journal.target.clone(), journal.released.clone()))
            .unwrap_or_default()
    };
    let ((_, before_that), (target, now)) = (released(&was), released(after));
    for cluster in now.keys().filter(|cluster| !before_that.contains_key(*cluster)) {
        told.push(EventRecord::new(
            false,
            "Released",
            &format!("{cluster} gets revision {target}"),
        ));
    }
    told.extend(found(&was.common.findings, &after.common.findings));
    told
}

/// Returns what is rolled out: `Deployment web: 3f2a… to 91bc…, 2/5`.
pub(super) fn what(rollout: &Rollout) -> String {
    let (status, workload) = (status(rollout), rollout.workload_in_force());
    let mut text = format!("{} {}", workload.kind, workload.name);
    let revision = |name: &Option<String>| name.as_ref().map_or("?", String::as_str).to_owned();
    match (&status.journal, &status.stable) {
        (Some(journal), _) => {
            let _ = write!(text, ": {} to {}", journal.stable, journal.target);
        }
        (None, Some(_)) => {
            let _ = write!(text, ": {}", revision(&status.stable));
        }
        (None, None) => {}
    }
    if let Some(updated) = &status.updated {
        let _ = write!(text, ", {updated} good");
    }
    text
}

fn cluster_text(cluster: &RolloutCluster) -> String {
    let state = match cluster.state {
        State::Held => "held at",
        State::Released => "got",
        State::Soaking => "soaks with",
        State::Good => "good with",
    };
    let why = cluster
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {}", brief(why)));
    format!(
        "wave {}: {} {state} {}{why}",
        cluster.wave, cluster.name, cluster.revision
    )
}

/// Returns the wave that begins next.
fn wave(status: &RolloutStatus) -> Option<u32> {
    let held = status
        .clusters
        .iter()
        .filter(|cluster| cluster.state == State::Held);
    held.map(|cluster| cluster.wave).min()
}

impl Summarized for Rollout {
    const TITLE: &'static str = "Rollouts";

    fn summary(&self) -> Summary {
        let status = status(self);
        let began = status.common.started_at.filter(|_| status.journal.is_some());
        let attempt = status.common.attempt;
        let intro = began.map(|began| format!("attempt {attempt}, since {}", instant(began)));
        let clusters = status
            .clusters
            .iter()
            .map(|cluster| Part::new(cluster_text(cluster)));
        let undone = status.held_back.as_ref().map(|held_back| {
            let revision = held_back.revision.as_deref().unwrap_or("unknown");
            Part::new(format!(
                "the change of Git revision {revision} was undone, and waits for a commit that changes it"
            ))
        });
        let before = status.revisions.iter().skip(1).map(|revision| {
            let undone = revision.undone.as_ref();
            let undone = undone.map_or_else(String::new, |why| format!(", undone: {}", brief(why)));
            let git = revision.git.as_ref();
            let git = git.map_or_else(String::new, |git| format!(" of {git}"));
            Part::new(format!("before: {}{git}{undone}", revision.name)).on_terminal()
        });
        let all = Summary::of(self, what(self));
        let next = match status.phase {
            Phase::Halted => Some(format!(
                "cutover rollout retry {0} (the same again), or cutover abort {0} (undo it)",
                all.place
            )),
            Phase::Undone => Some("a commit that changes the template".to_owned()),
            _ => None,
        };
        Summary {
            next: all.next.clone().or(next),
            intro: intro.into_iter().collect(),
            parts: clusters.chain(undone).chain(before).collect(),
            workloads: vec![WorkloadKey::of(self, self.workload_in_force())],
            ..all
        }
        .approved_with(wave(&status).map(|wave| format!("--wave {wave}")))
    }
}
