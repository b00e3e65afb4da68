//! `status.yaml`: the overview for machines, and what changed since the last one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    ObjectNote, Overview, Problem, SyncOverview, WaitOverview, names, record_path, route, since, status,
};
use crate::api::{Migration, Phase, WaitingFor, WorkloadRef};
use crate::name::{Location, Revision};

/// Raised when a field changes its meaning or goes away; new fields don't raise it.
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Snapshot {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<Revision>,
    syncs: Vec<SyncSnapshot>,
    intents: Vec<IntentSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SyncSnapshot {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<Revision>,
    in_sync: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held_back: Vec<HeldSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drifted: Vec<NoteSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept: Vec<NoteSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    problems: Vec<ProblemSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NoteSnapshot {
    object: String,
    note: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WaitSnapshot {
    #[serde(rename = "for")]
    what: String,
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overdue: bool,
    /// How many objects wait; the first of them follow.
    count: usize,
    objects: Vec<String>,
}

/// How many objects that wait for the same are named.
const NAMED: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldSnapshot {
    object: String,
    by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProblemSnapshot {
    message: String,
    #[serde(flatten)]
    location: Option<Location>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IntentSnapshot {
    kind: String,
    namespace: String,
    name: String,
    workload: WorkloadRef,
    from: String,
    to: String,
    phase: Phase,
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting_for: Option<WaitingFor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    downtime_ms: Option<u64>,
    /// Where on the branch the whole record stands.
    record: String,
}

impl Snapshot {
    pub(super) fn of(overview: &Overview) -> Self {
        let mut intents: Vec<IntentSnapshot> = overview.migrations.iter().map(IntentSnapshot::of).collect();
        intents.sort_by(|a, b| a.record.cmp(&b.record));
        Self {
            version: VERSION,
            revision: overview.revision.clone(),
            syncs: overview.syncs.iter().map(SyncSnapshot::of).collect(),
            intents,
        }
    }
}

impl SyncSnapshot {
    fn of(sync: &SyncOverview) -> Self {
        Self {
            name: sync.name.clone(),
            revision: sync.revision.clone(),
            in_sync: sync.in_sync,
            held_back: sync
                .held_back
                .iter()
                .map(|held| HeldSnapshot {
                    object: held.object.to_string(),
                    by: held.by.clone(),
                })
                .collect(),
            waiting: sync.waiting.iter().map(WaitSnapshot::of).collect(),
            drifted: sync.drifted.iter().map(NoteSnapshot::of).collect(),
            kept: sync.kept.iter().map(NoteSnapshot::of).collect(),
            problems: sync.problems.iter().map(ProblemSnapshot::of).collect(),
        }
    }
}

impl WaitSnapshot {
    fn of(wait: &WaitOverview) -> Self {
        Self {
            what: wait.what.clone(),
            since: wait.since,
            until: wait.until,
            overdue: wait.overdue,
            count: wait.objects.len(),
            objects: wait.objects.iter().take(NAMED).map(ToString::to_string).collect(),
        }
    }
}

impl NoteSnapshot {
    fn of(note: &ObjectNote) -> Self {
        Self {
            object: note.object.to_string(),
            note: note.note.clone(),
        }
    }
}

impl ProblemSnapshot {
    fn of(problem: &Problem) -> Self {
        Self {
            message: problem.message.clone(),
            location: problem.location.clone(),
            hint: problem.hint.clone(),
        }
    }
}

impl IntentSnapshot {
    fn of(migration: &Migration) -> Self {
        let status = status(migration);
        let (namespace, name) = names(migration);
        let (from, to) = route(migration);
        Self {
            kind: "Migration".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            workload: migration.spec.workload.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            phase: status.phase,
            attempt: status.attempt,
            since: since(status),
            waiting_for: status.waiting_for.clone(),
            downtime_ms: status.downtime_ms,
            record: record_path(migration),
        }
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// What a commit on the status branch says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitText {
    pub subject: String,
    pub body: String,
    pub trailers: Vec<(TrailerKey, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailerKey {
    Revision,
    Intent,
    Phase,
}

/// Returns whether something has happened that people are told of at once: a revision, a phase, a problem, a finding. Why
/// something waits, and what the journal notes on the way, is not.
pub fn is_news(before: &Overview, after: &Overview) -> bool {
    let told = |overview: &Overview| {
        let mut snapshot = Snapshot::of(overview);
        snapshot.syncs.iter_mut().for_each(|sync| sync.waiting.clear());
        snapshot
    };
    let (was, is) = (told(before), told(after));
    let findings = |overview: &Overview| -> Vec<_> {
        let of = |migration| status(migration).findings.clone();
        overview.migrations.iter().map(of).collect()
    };
    was.revision != is.revision
        || was.syncs != is.syncs
        || was.intents.len() != is.intents.len()
        || is
            .intents
            .iter()
            .any(|intent| change(Some(&was), intent).is_some())
        || findings(before) != findings(after)
}

/// Returns the message of the commit that takes the status branch from `before`, its [`super::SNAPSHOT_FILE`], to
/// `overview`. A snapshot that can't be read counts as none.
pub fn commit_text(before: Option<&[u8]>, overview: &Overview) -> CommitText {
    let before: Option<Snapshot> = before.and_then(|bytes| serde_yaml::from_slice(bytes).ok());
    let after = Snapshot::of(overview);
    let moved: Vec<String> = after
        .intents
        .iter()
        .filter_map(|intent| change(before.as_ref(), intent))
        .collect();
    let subject = match moved.as_slice() {
        [] => sync_subject(before.as_ref(), &after),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    };
    let body = match moved.as_slice() {
        [] | [_] => String::new(),
        lines => format!("- {}\n", lines.join("\n- ")),
    };
    let mut trailers = Vec::new();
    if let Some(revision) = &after.revision {
        trailers.push((TrailerKey::Revision, revision.to_string()));
    }
    for intent in &after.intents {
        if change(before.as_ref(), intent).is_some() {
            trailers.push((TrailerKey::Intent, intent.full_name()));
            trailers.push((TrailerKey::Phase, intent.phase.to_string()));
        }
    }
    CommitText {
        subject,
        body,
        trailers,
    }
}

/// Returns how an intent's phase or attempt changed; `None` if neither did.
fn change(before: Option<&Snapshot>, now: &IntentSnapshot) -> Option<String> {
    let was = before.and_then(|snapshot| snapshot.intents.iter().find(|was| was.record == now.record));
    let name = now.full_name();
    match was {
        Some(was) if was.phase == now.phase && was.attempt == now.attempt => None,
        Some(was) if was.attempt == now.attempt => Some(format!("{name}: {} → {}", was.phase, now.phase)),
        _ => Some(format!("{name}: {}", now.phase)),
    }
}

fn sync_subject(before: Option<&Snapshot>, after: &Snapshot) -> String {
    let problems: usize = after.syncs.iter().map(|sync| sync.problems.len()).sum();
    if problems > 0 {
        return format!("sync: {problems} problem{}", if problems == 1 { "" } else { "s" });
    }
    let objects: usize = after.syncs.iter().map(|sync| sync.in_sync).sum();
    match &after.revision {
        Some(revision) if before.is_none_or(|before| before.revision != after.revision) => {
            format!("sync: {objects} objects at {}", revision.short())
        }
        _ => "status: as observed".to_owned(),
    }
}
