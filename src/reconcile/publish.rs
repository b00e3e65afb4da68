//! Turns what the other loops observed into commits on the status branch. Nobody waits for it: see [`super::GitRecords`]
//! for what a phase waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::records::parse;
use super::sync::{LeftBehind, ObjectReport, ObjectResult, PruneReport, SyncReport};
use crate::api::{self, MigrationStatus};
use crate::cluster::Observer;
use crate::error::Error;
use crate::intent::record;
use crate::name::ObjectKey;
use crate::repo::{Branch, Draft, Files, Message, Published, Repo, Trailer};
use crate::report::{
    self, CommitText, Ended, HeldObject, LeftOverview, Many, ObjectNote, Overview, Problem, SyncOverview,
    TrailerKey, Urgency, WaitOverview,
};

/// How long changes are gathered into one commit.
const GATHER: Duration = Duration::from_millis(300);
/// How often at most what can't wait is published: a hundred ends that come together are a few commits.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Before a publish that failed is tried again; twice as long each time.
const AGAIN: Duration = Duration::from_secs(5);
/// As long at most: somebody may be about to allow it.
const AGAIN_AT_MOST: Duration = Duration::from_mins(5);

/// One sync's reports, under its name.
#[derive(Clone, Debug)]
pub struct Reports {
    pub name: String,
    pub latest: watch::Receiver<Option<Arc<SyncReport>>>,
}

/// Keeps the status branch up to date.
#[derive(Debug)]
pub struct Publisher {
    repo: Repo,
    observer: Observer,
    reports: Vec<Reports>,
    left_behind: watch::Receiver<Vec<LeftBehind>>,
    /// What the branch holds of ours, so that nothing new costs nothing.
    published: BTreeMap<String, Vec<u8>>,
    /// How often at most is published while things move.
    every: Duration,
    /// What was published last, and when.
    last: Option<(Overview, Instant)>,
    /// The attempts that the branch has in its history.
    told: BTreeSet<(String, u32)>,
}

impl Publisher {
    pub fn new(repo: Repo, observer: Observer, reports: Vec<Reports>) -> Self {
        let (_nobody, left_behind) = watch::channel(Vec::new());
        Self {
            repo,
            observer,
            reports,
            left_behind,
            published: BTreeMap::new(),
            every: Duration::from_secs(10),
            last: None,
            told: BTreeSet::new(),
        }
    }

    /// Publishes what is left behind, too.
    #[must_use]
    pub fn with(self, left_behind: watch::Receiver<Vec<LeftBehind>>) -> Self {
        Self { left_behind, ..self }
    }

    /// Sets how often at most is published while things move.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Publishes whenever something has changed, until it is cancelled, and then once more.
    pub async fn run(mut self, cancel: CancellationToken) {
        self.follow(&cancel).await;
        if let Err(error) = self.once().await {
            tracing::warn!(%error, "the status cannot be published a last time");
        }
    }

    async fn follow(&mut self, cancel: &CancellationToken) {
        let mut news = self.observer.news();
        let mut again = AGAIN;
        loop {
            let mut wait = self.rest();
            if wait.is_zero() {
                wait = Duration::MAX;
                if let Err(error) = self.once().await {
                    tracing::warn!(%error, hint = error.hint_text(), "the status cannot be published");
                    wait = again;
                    again = (again * 2).min(AGAIN_AT_MOST);
                } else {
                    again = AGAIN;
                }
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = news.heard(|change| change.key.group == api::GROUP) => {}
                () = self.reported() => {}
                () = tokio::time::sleep(wait) => continue,
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(GATHER) => {}
            }
            news.forget();
        }
    }

    /// Returns how long to wait before what there is may be published: when something has ended or failed, nobody waits for
    /// the next round.
    fn rest(&mut self) -> Duration {
        let now = self.overview();
        let Some((last, at)) = &self.last else {
            return Duration::ZERO;
        };
        let apart = match report::urgency(last, &now) {
            Urgency::Ended => AT_ONCE.min(self.every),
            Urgency::Moves => self.every,
        };
        apart.saturating_sub(at.elapsed())
    }

    /// Commits how things stand now, if that is news.
    pub async fn once(&mut self) -> Result<Published, Error> {
        let overview = self.overview();
        let no_intents = overview.migrations.is_empty()
            && overview.suspensions.is_empty()
            && overview.shifts.is_empty()
            && overview.many.is_empty()
            && overview.failover_plans.is_empty();
        if overview.revision.is_none() && no_intents {
            return Ok(Published::Unchanged(None));
        }
        let files = report::status_tree(&overview)?;
        if self.published == files {
            return Ok(Published::Unchanged(None));
        }
        let (ours, last) = (files.clone(), overview.clone());
        let mut ended = report::ended(&overview.migrations)?;
        ended.extend(report::failed_over(&overview.failover_plans));
        ended.retain(|ended| !self.told.contains(&ended.id));
        let told: Vec<_> = ended.iter().map(|ended| ended.id.clone()).collect();
        let published = self
            .repo
            .publish(Branch::Status, move |tip| {
                let mut edits = BTreeMap::new();
                for (path, bytes) in &ours {
                    if !is_behind(path, bytes, tip.read(path)?.as_deref())? {
                        edits.insert(path.clone(), Some(bytes.clone()));
                    }
                }
                edits.extend(history(&ended, |path| tip.read(path).map_err(Error::from))?);
                let before = tip.read(report::SNAPSHOT_FILE)?;
                let message = message(report::commit_text(before.as_deref(), &overview));
                Ok(Draft {
                    message,
                    files: Files::Edit(edits),
                })
            })
            .await?;
        self.published = files;
        self.told.extend(told);
        self.last = Some((last, Instant::now()));
        Ok(published)
    }

    /// Returns every intent of a kind; one that this release can't read is left out.
    fn intents<I: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned>(&self) -> Vec<I> {
        let objects = self.observer.list(api::GROUP, &I::kind(&()));
        let read = objects
            .iter()
            .map(|object| serde_json::from_value(Value::clone(object)));
        read.filter_map(Result::ok).collect()
    }

    async fn reported(&self) {
        let latest = self.reports.iter().map(|reports| changed(reports.latest.clone()));
        let left = std::iter::once(changed(self.left_behind.clone()));
        let _ = futures::future::select_all(left.chain(latest)).await;
    }

    fn overview(&mut self) -> Overview {
        let syncs: Vec<SyncOverview> = self
            .reports
            .iter_mut()
            .map(|reports| sync_overview(&reports.name, reports.latest.borrow_and_update().as_deref()))
            .collect();
        let (migrations, rollouts) = (self.intents(), self.intents());
        let (suspensions, shifts) = (self.intents(), self.intents());
        let many = report::MANY
            .into_iter()
            .flat_map(|kind| self.observer.list(api::GROUP, kind));
        let many = many.filter_map(|object| Many::read(&object)).collect();
        let revision = syncs.iter().find_map(|sync| sync.revision.clone());
        let left_behind = self.left_behind.borrow_and_update().clone();
        Overview {
            revision,
            syncs,
            migrations,
            rollouts,
            suspensions,
            shifts,
            many,
            failover_plans: self.intents(),
            left_behind: left_behind.into_iter().map(left_overview).collect(),
        }
    }
}

/// Returns whether what is recorded of an intent has come further than our copy of it.
fn is_further<S: Default + serde::de::DeserializeOwned>(
    ours: &Value,
    recorded: Option<&Value>,
    is_newer: fn(&Value, &str, &S) -> bool,
) -> bool {
    let uid = ours.pointer("/metadata/uid").and_then(Value::as_str);
    let status = ours.get("status").cloned().unwrap_or_default();
    let Ok(status) = serde_json::from_value::<Option<S>>(status) else {
        return true;
    };
    let status = status.unwrap_or_default();
    recorded.is_some_and(|recorded| is_newer(recorded, uid.unwrap_or_default(), &status))
}

/// Returns when there is something new. One that never says anything again is waited for.
fn changed<T: Send + Sync + 'static>(mut news: watch::Receiver<T>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        if news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

fn sync_overview(name: &str, report: Option<&SyncReport>) -> SyncOverview {
    let Some(report) = report else {
        return SyncOverview {
            name: name.to_owned(),
            ..SyncOverview::default()
        };
    };
    let problems = report.all_problems().into_iter().map(|problem| Problem {
        message: problem.message,
        location: problem.at,
        hint: problem.hint,
    });
    let waiting = report.waits().into_iter().map(|waiting| WaitOverview {
        what: waiting.wait.what.clone(),
        since: waiting.wait.since,
        until: waiting.wait.until,
        overdue: waiting.wait.overdue,
        objects: waiting.objects,
    });
    let is_done = |object: &&ObjectReport| matches!(&object.result, ObjectResult::Applied(outcome) if outcome.is_in_sync());
    let undone = report.objects.values().filter(|object| !is_done(object)).count();
    let staying = report.pruned.iter().flat_map(PruneReport::staying);
    let no_prune = |key| (key, "this sync does not prune".to_owned());
    let orphaned = report.orphaned.iter().map(no_prune);
    let note = |(object, note): (&ObjectKey, String)| ObjectNote {
        object: object.clone(),
        note,
    };
    let held_back = report
        .held_back()
        .map(|(object, by)| HeldObject {
            object: object.clone(),
            by: by.to_owned(),
        })
        .collect();
    SyncOverview {
        name: name.to_owned(),
        revision: Some(report.revision.clone()),
        in_sync: report.desired.saturating_sub(undone),
        held_back,
        waiting: waiting.collect(),
        drifted: report.drifted().map(note).collect(),
        kept: staying.chain(orphaned).map(note).collect(),
        problems: problems.collect(),
    }
}

fn left_overview(left: LeftBehind) -> LeftOverview {
    LeftOverview {
        why: left.why,
        hint: left.hint,
        objects: left.objects,
    }
}

/// Returns the files of the history that grow: from what the branch has now, so that nobody's lines are lost.
fn history(
    ended: &[Ended],
    read: impl Fn(&str) -> Result<Option<Vec<u8>>, Error>,
) -> Result<BTreeMap<String, Option<Vec<u8>>>, Error> {
    let mut by_file: BTreeMap<&str, Vec<&Ended>> = BTreeMap::new();
    for one in ended {
        by_file.entry(&one.path).or_default().push(one);
    }
    let mut edits = BTreeMap::new();
    for (path, new) in by_file {
        if let Some(grown) = report::appended(read(path)?.as_deref(), &new) {
            edits.insert(path.to_owned(), Some(grown));
        }
    }
    Ok(edits)
}

/// A record that has come further than our copy of the intent stays: the copy is from a cache.
fn is_behind(path: &str, ours: &[u8], recorded: Option<&[u8]>) -> Result<bool, Error> {
    let Some(recorded) = recorded.filter(|_| path.starts_with("intents/")) else {
        return Ok(false);
    };
    let ours = parse(path, ours)?;
    let there = parse(path, recorded).ok();
    match ours.get("kind").and_then(Value::as_str) {
        Some("ReplicaShift") => return Ok(is_further(&ours, there.as_ref(), record::is_newer_shift)),
        Some("FailoverPlan") => return Ok(is_further(&ours, there.as_ref(), record::is_newer_plan)),
        Some("Rollout") => return Ok(is_further(&ours, there.as_ref(), record::is_newer_rollout)),
        Some("Suspension") => return Ok(is_further(&ours, there.as_ref(), record::is_newer_suspension)),
        _ => {}
    }
    let kind = ours.get("kind").and_then(Value::as_str).unwrap_or_default();
    if report::MANY.contains(&kind) {
        let recorded = parse(path, recorded).ok();
        return Ok(recorded.is_some_and(|recorded| record::is_newer_moves(&recorded, &ours)));
    }
    let uid = ours
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let status = ours
        .get("status")
        .cloned()
        .and_then(|status| serde_json::from_value(status).ok());
    let Some(status): Option<MigrationStatus> = status else {
        return Ok(true);
    };
    // One that somebody made unreadable is written anew.
    Ok(parse(path, recorded).is_ok_and(|recorded| record::is_newer(&recorded, uid, &status)))
}

fn message(text: CommitText) -> Message {
    let message = Message::new(text.subject).body(text.body);
    text.trailers.into_iter().fold(message, |message, (key, value)| {
        let trailer = match key {
            TrailerKey::Revision => Trailer::Revision,
            TrailerKey::Intent => Trailer::Intent,
            TrailerKey::Phase => Trailer::Phase,
        };
        message.trailer(trailer, value)
    })
}
