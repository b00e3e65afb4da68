//! What people and machines are told: the files of the status branch, and the lines on a terminal.
//!
//! The same state gives the same bytes, so that a pass in which nothing changed commits nothing: nothing here reads a
//! clock, and an [`Overview`] says how things stand, not what a pass did.

mod account;
mod annotations;
mod answer;
mod copies;
mod dashboard;
mod earlier;
mod event;
mod failover;
mod findings;
mod fold;
mod forecast;
mod gantt;
mod headline;
mod history;
#[cfg(test)]
mod hostile;
mod kinds;
mod many;
mod markdown;
mod next;
mod notice;
mod plain;
mod profile;
mod reconciler;
mod recorded;
pub mod review;
mod rollout;
mod rollout_policy;
mod shift;
mod snapshot;
mod summary;
mod suspension;
mod text;
mod told;
mod verdict;
mod web;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::api::{
    FailoverPlan, Finding, Intent, Migration, MigrationStatus, Phase, ReplicaShift, Rollout, RolloutPolicy,
    Suspension,
};
use crate::error::Error;
use crate::intent::record;
use crate::redact;
use crate::units::instant;
use cutover_karmada::name::{Location, ObjectKey, Revision};

pub use account::{Account, StepAccount};
pub use annotations::{Annotation, Level, MOST_ANNOTATIONS, annotation_commands, plan_annotations};
pub use copies::{Copies, CopyState, MemberCopy, UnhealthyWorkload, WorkloadCopies, WorkloadKey};
pub use dashboard::{Dashboard, Layout, migration_lines, on_a_screen};
pub use earlier::{Earlier, History};
pub use event::{EventRecord, LONG_WAIT, events, long_wait};
pub use failover::failover_events;
pub use findings::{findings_github, findings_json, findings_summary, findings_text};
pub use forecast::{
    DryRunOutcome, Where, failover_forecast, moves_forecast, rollout_forecast, rollout_policy_forecast,
    shift_forecast, suspension_forecast,
};
pub use headline::Headlines;
pub use history::{
    Ended, HISTORY_DIR, Id as HistoryId, appended, ended, failed_over, suspended, suspensions_gone,
};
pub use many::{MANY, Many, moves_events};
pub use notice::{Body, Notice};
pub use profile::{
    Trial, TrialAs, TrialProblem, built_in_profiles, explain_profile, profiles_document, profiles_text,
};
pub use reconciler::{Reconciler, SYNCS_ANNOTATION, SyncSummaries, SyncSummary};
pub use rollout::rollout_events;
pub use rollout_policy::rollout_policy_events;
pub use shift::shift_events;
pub use snapshot::{CommitText, Snapshot, TrailerKey, Urgency, commit_text, urgency};
pub use suspension::suspension_events;
pub use text::View;
pub use told::{finding_lines, step_line};
pub use verdict::{Outcome, Verdict, at_most as verdicts_at_most, verdicts};
pub use web::{Host, NoHost, Web};

use dashboard::Line;

/// The file for people.
pub const STATUS_FILE: &str = "STATUS.md";
/// The file for machines.
pub const SNAPSHOT_FILE: &str = "status.yaml";

/// How everything stands.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The revision of the desired state that was looked at last.
    pub revision: Option<Revision>,
    /// The branch that is synced, where it is one of the repository that has the status branch.
    pub branch: Option<String>,
    pub syncs: Vec<SyncOverview>,
    pub migrations: Vec<Migration>,
    pub rollouts: Vec<Rollout>,
    pub rollout_policies: Vec<RolloutPolicy>,
    pub suspensions: Vec<Suspension>,
    pub shifts: Vec<ReplicaShift>,
    pub many: Vec<Many>,
    pub failover_plans: Vec<FailoverPlan>,
    pub left_behind: Vec<LeftOverview>,
    /// Workloads with a copy that has not been healthy for a while, and that no migration starts or stops right now.
    pub unhealthy: Vec<UnhealthyWorkload>,
    /// The control plane has not told yet which intents of some kind there are.
    pub has_unknown_intents: bool,
    /// The control plane has not told yet how the copies of workloads are: that none is unhealthy is not known.
    pub has_unknown_health: bool,
    /// Where people see the repository, if that is known.
    pub web: Option<Web>,
}

/// How one sync stands. Counts are of objects as they are now, not of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncOverview {
    pub name: String,
    /// The revision that was applied last.
    pub revision: Option<Revision>,
    /// Objects in the API server that are as Git wants them.
    pub in_sync: usize,
    /// What an intent holds back, and which.
    pub held_back: Vec<HeldObject>,
    /// What waits for its turn.
    pub waiting: Vec<WaitOverview>,
    /// What somebody has changed, which stays until it changes in Git: the fields, and who.
    pub drifted: Vec<ObjectNote>,
    /// What is not in Git any more and stays, and why.
    pub kept: Vec<ObjectNote>,
    /// How many objects that are not in Git any more are still to be deleted, or to be gone.
    pub pruning: usize,
    pub problems: Vec<Problem>,
}

/// An object that Git has changed and that an intent takes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldObject {
    pub object: ObjectKey,
    /// For instance `Migration shop/orders-to-west`.
    pub by: String,
}

/// Objects whose turn has not come, and what they all wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitOverview {
    pub objects: Vec<ObjectKey>,
    /// For instance `Deployment shop/web: 1 of 3 replicas updated`.
    pub what: String,
    pub since: jiff::Timestamp,
    /// How long that is as it should be.
    pub until: Option<jiff::Timestamp>,
    pub overdue: bool,
}

impl WaitOverview {
    /// Returns the wait as a sentence without its end: `ConfigMap shop/a waits since … for …`.
    pub fn sentence(&self) -> String {
        sentence(self.objects.first(), self.objects.len(), self.since, &self.what)
    }
}

/// Returns why `count` objects wait, of which the first is named.
fn sentence(
    first: Option<&impl std::fmt::Display>,
    count: usize,
    since: jiff::Timestamp,
    what: &str,
) -> String {
    let waits = match (first, count) {
        (Some(first), 2..) => format!("{first} and {} more wait", count - 1),
        (Some(only), _) => format!("{only} waits"),
        (None, _) => "nothing waits".to_owned(),
    };
    format!("{waits} since {} for {what}", instant(since))
}

/// Objects that a sync applied and nobody looks after any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOverview {
    /// For instance `sync apps is not in cutover.yaml any more`.
    pub why: String,
    pub hint: String,
    pub objects: Vec<ObjectKey>,
}

/// Something about an object that is no problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectNote {
    pub object: ObjectKey,
    pub note: String,
}

/// Why a file or an object is not as Git wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub location: Option<Location>,
    pub hint: Option<String>,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self {
            message: error.to_string(),
            location: error.location().cloned(),
            hint: error.hint_text().map(str::to_owned),
        }
    }
}

/// Returns the files of the status branch. Records of intents that are gone stay there: these files are additions and
/// replacements, never the whole branch.
pub fn status_tree(overview: &Overview) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut files = BTreeMap::from([
        (STATUS_FILE.to_owned(), markdown::page(overview).into_bytes()),
        (
            SNAPSHOT_FILE.to_owned(),
            yaml(&snapshot::Snapshot::of(overview))?.into_bytes(),
        ),
    ]);
    overview.records(&mut files)?;
    for content in files.values_mut() {
        if let Cow::Owned(clean) = redact::text(&String::from_utf8_lossy(content)) {
            *content = clean.into_bytes();
        }
    }
    Ok(files)
}

fn yaml(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_yaml::to_string(value)
        .map_err(|error| Error::internal(format!("the status cannot be written as YAML: {error}")))
}

/// Returns namespace and name; the first is empty where the kind is of cluster scope.
fn names<I: Intent>(intent: &I) -> (&str, &str) {
    let meta = intent.meta();
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Returns namespace and name as commands take them; the name alone where the kind is of cluster scope.
fn place<I: Intent>(intent: &I) -> String {
    match names(intent) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// Returns where on the status branch the record of an intent stands.
fn path<I: Intent>(intent: &I) -> String {
    let (_, name) = names(intent);
    record::path(I::KIND, intent.meta().namespace.as_deref(), name)
}

/// Returns the status of an intent; the default where no pass has looked at it yet.
fn status<I: Intent>(intent: &I) -> Cow<'_, I::Status> {
    intent.status().map_or_else(Cow::default, Cow::Borrowed)
}

/// Returns when the present phase began.
fn since(status: &MigrationStatus) -> Option<jiff::Timestamp> {
    if status.phase.is_terminal() && status.common.finished_at.is_some() {
        return status.common.finished_at;
    }
    let journal = status.journal.as_ref().and_then(|journal| journal.phase_since);
    journal.or_else(|| status.common.steps.last().map(|step| step.started_at))
}

/// Returns the clusters a migration goes from and to; the first is unknown until it was looked at.
fn route(migration: &Migration) -> (&str, &str) {
    let status = migration.status.as_ref();
    let source = status.and_then(|status| status.source.as_ref());
    let source = source.or(migration.spec.from.as_ref());
    (
        source.map_or("?", |cluster| cluster.as_str()),
        migration.spec.to.as_str(),
    )
}

/// Returns what is running first, then what ended, the last first; ties by name.
fn by_urgency(migrations: &[Migration]) -> Vec<&Migration> {
    let mut all: Vec<&Migration> = migrations.iter().collect();
    all.sort_by(|&one, &other| {
        let (a, b) = (status(one), status(other));
        let ended = a.phase.is_terminal().cmp(&b.phase.is_terminal());
        ended
            .then_with(|| b.common.finished_at.cmp(&a.common.finished_at))
            .then_with(|| names(one).cmp(&names(other)))
    });
    all
}

/// Returns the word that sums a phase up at a glance.
const fn symbol(phase: Phase) -> &'static str {
    match phase {
        Phase::Completed => "✅",
        Phase::RolledBack | Phase::Aborted => "↩️",
        Phase::Failed => "❌",
        Phase::EndedBefore => "❔",
        Phase::RollingBack => "⏪",
        Phase::Pending => "⏳",
        _ => "🔄",
    }
}

/// Returns what a finding says, hint included, in one line.
fn finding_text(finding: &Finding) -> String {
    match &finding.hint {
        Some(hint) => format!("{}: {} ({hint})", finding.code, finding.message),
        None => format!("{}: {}", finding.code, finding.message),
    }
}

#[cfg(test)]
mod tests;
