//! Turns what the other loops observed into commits on the status branch. Nobody waits for it: see [`super::GitRecords`]
//! for what a phase waits for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::overview::{Reports, Seen, Unwell};
use super::records::{parse, to_yaml};
use super::refusals::Refusals;
use super::sync::LeftBehind;
use crate::telemetry::{PUBLISH, Telemetry};
use cutover_cluster::{Observer, off_the_runtime};
use cutover_core::api;
use cutover_core::error::Error;
use cutover_core::intent::record;
use cutover_core::redact;
use cutover_core::report::{self, CommitText, Ended, Overview, TrailerKey, Urgency, Web};
use cutover_git::{self as repo, Branch, Draft, Files, Message, Published, Repo, Squashed, Trailer};
use cutover_http::Backoff;

/// How long changes are gathered into one commit.
const GATHER: Duration = Duration::from_millis(300);
/// How often at most what can't wait is published: a hundred ends that come together are a few commits.
const AT_ONCE: Duration = Duration::from_secs(2);
/// How often it is looked whether the history has grown old.
const LOOK_AT_HISTORY: Duration = Duration::from_hours(24);
/// How long a publish may take that is under way when the order to end comes.
const SLOW: Duration = Duration::from_secs(2);
/// Before a publish that failed is tried again. Not longer: the push may be allowed at any time.
const AGAIN: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

/// Keeps the status branch up to date.
#[derive(Debug)]
pub struct Publisher {
    repo: Repo,
    seen: Seen,
    /// Who is told in the cluster when the branch can't be written.
    refusals: Option<Refusals>,
    telemetry: Telemetry,
    keep: Option<Keep>,
    /// What the branch holds of ours, so that nothing new costs nothing.
    published: BTreeMap<String, Vec<u8>>,
    /// How often at most is published while things move.
    every: Duration,
    /// What was published last, and when.
    last: Option<(Overview, Instant)>,
    /// The attempts that the branch has in its history.
    told: BTreeSet<report::HistoryId>,
}

impl Publisher {
    pub fn new(repo: Repo, observer: Observer, reports: Vec<Reports>) -> Self {
        Self {
            repo,
            seen: Seen::new(observer, reports),
            refusals: None,
            telemetry: Telemetry::default(),
            keep: None,
            published: BTreeMap::new(),
            every: Duration::from_secs(10),
            last: None,
            told: BTreeSet::new(),
        }
    }

    /// Publishes what is left behind, too.
    #[must_use]
    pub fn with(self, left_behind: watch::Receiver<Vec<LeftBehind>>) -> Self {
        Self {
            seen: self.seen.with(left_behind),
            ..self
        }
    }

    /// Publishes which workloads are unhealthy, too.
    #[must_use]
    pub(super) fn with_unhealthy(self, unhealthy: watch::Receiver<Unwell>) -> Self {
        Self {
            seen: self.seen.with_unhealthy(unhealthy),
            ..self
        }
    }

    /// Publishes which branch is synced, too; `None`: it is one of another repository.
    #[must_use]
    pub(super) fn of_branch(self, branch: Option<String>) -> Self {
        Self {
            seen: self.seen.of_branch(branch),
            ..self
        }
    }

    /// Links commits to their pages.
    #[must_use]
    pub fn at(self, web: Option<Web>) -> Self {
        Self {
            seen: self.seen.at(web),
            ..self
        }
    }

    /// Sets how often at most is published while things move.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Tells in the cluster when the branch can't be written.
    #[must_use]
    pub(super) fn telling(self, refusals: Refusals) -> Self {
        Self {
            refusals: Some(refusals),
            ..self
        }
    }

    /// Counts what is published there.
    #[must_use]
    pub(super) fn measured(self, telemetry: Telemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Makes one commit of those that are older than so many days, now and then.
    #[must_use]
    pub(super) fn keeping(self, days: Option<u32>, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        let keep = days.map(|days| Keep {
            days,
            clock,
            next: Some(Instant::now()),
        });
        Self { keep, ..self }
    }

    /// Publishes whenever something has changed, until it is cancelled, and then once more, unless the remote is slow.
    pub fn run(mut self, cancel: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if self.follow(&cancel).await.is_break() {
                tracing::warn!("the remote is slow: the status is not published a last time");
                return;
            }
            if let Err(error) = self.once().await {
                tracing::warn!(%error, "the status cannot be published a last time");
            }
        })
    }

    /// Returns on the order to end; breaks if a conversation goes on then that is not worth waiting for.
    async fn follow(&mut self, cancel: &CancellationToken) -> ControlFlow<()> {
        let mut news = self.seen.news();
        let mut delays = AGAIN.delays();
        loop {
            let mut wait = self.rest();
            if wait.is_zero() {
                wait = Duration::MAX;
                let since = Instant::now();
                let slow = async {
                    cancel.cancelled().await;
                    tokio::time::sleep_until(since + SLOW).await;
                };
                let published = tokio::select! {
                    published = self.once() => published,
                    () = slow => return ControlFlow::Break(()),
                };
                match &published {
                    // Nothing was sent.
                    Ok(Published::Unchanged(_)) => {}
                    Ok(_) => self.telemetry.git(PUBLISH, Ok(())),
                    Err(error) => self.telemetry.git(PUBLISH, Err(error.to_string())),
                }
                if let Some(refusals) = &mut self.refusals {
                    match &published {
                        Ok(_) => refusals.published(),
                        Err(error) => refusals.failed(error),
                    }
                }
                if let Err(error) = published {
                    tracing::warn!(%error, hint = error.hint_text(), "the status cannot be published");
                    wait = delays.next_delay();
                } else {
                    delays.reset();
                    if let Some(keep) = &mut self.keep {
                        keep.tidy(&self.repo).await;
                    }
                }
            }
            tokio::select! {
                () = cancel.cancelled() => return ControlFlow::Continue(()),
                () = news.heard(|change| change.key.group == api::GROUP) => {}
                () = self.seen.reported() => {}
                () = tokio::time::sleep(wait) => continue,
            }
            tokio::select! {
                () = cancel.cancelled() => return ControlFlow::Continue(()),
                () = tokio::time::sleep(GATHER) => {}
            }
            news.forget();
        }
    }

    /// Returns how long to wait before what there is may be published: when something has ended or failed, nobody waits for
    /// the next round.
    fn rest(&mut self) -> Duration {
        let now = self.seen.overview();
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
    pub fn once(&mut self) -> BoxFuture<'_, Result<Published, Error>> {
        Box::pin(async move {
            let overview = self.seen.overview();
            let no_intents = overview.migrations.is_empty()
                && overview.suspensions.is_empty()
                && overview.shifts.is_empty()
                && overview.many.is_empty()
                && overview.failover_plans.is_empty();
            if overview.revision.is_none() && no_intents {
                return Ok(Published::Unchanged(None));
            }
            let files = off_the_runtime(|| report::status_tree(&overview))?;
            if self.published == files {
                return Ok(Published::Unchanged(None));
            }
            let (ours, last) = (files.clone(), overview.clone());
            let mut ended = report::ended(&overview.migrations)?;
            ended.extend(report::failed_over(&overview.failover_plans));
            ended.extend(report::suspended(&overview.suspensions));
            if let Some((before, _)) = &self.last {
                ended.extend(report::suspensions_gone(
                    &before.suspensions,
                    &overview.suspensions,
                ));
            }
            ended.retain(|ended| !self.told.contains(&ended.id));
            let told: Vec<_> = ended.iter().map(|ended| ended.id.clone()).collect();
            let published = self
                .repo
                .publish(Branch::Status, move |tip| {
                    let mut edits = BTreeMap::new();
                    for (path, bytes) in &ours {
                        if let Some(bytes) = to_write(path, bytes, tip.read(path)?.as_deref())? {
                            edits.insert(path.clone(), Some(bytes.into_owned()));
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
        })
    }
}

/// How long the commits of the status branch are kept.
struct Keep {
    days: u32,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// When to look; never again where histories may not be rewritten.
    next: Option<Instant>,
}

impl Keep {
    /// Looks at the history, if it is time.
    async fn tidy(&mut self, repo: &Repo) {
        if self.next.is_none_or(|next| Instant::now() < next) {
            return;
        }
        self.next = Some(Instant::now() + LOOK_AT_HISTORY);
        let before = (self.clock)().saturating_sub(SignedDuration::from_hours(24 * i64::from(self.days)));
        let Ok(before) = before else { return };
        match repo.squash(before).await {
            Ok(Squashed::Kept | Squashed::Moved) => {}
            Ok(Squashed::Foreign(commit)) => {
                let commit = commit.short();
                tracing::warn!(
                    commit,
                    "the history of the status branch grows on: it has a commit that cutover did not make"
                );
                self.next = None;
            }
            Ok(Squashed::Done(commits)) => {
                tracing::info!(commits, "old commits of the status branch are one now");
            }
            Err(error @ (repo::Error::Refused { .. } | repo::Error::NotOurs { .. })) => {
                tracing::warn!(%error, "the history of the status branch grows on: it may not be rewritten");
                self.next = None;
            }
            Err(error) => tracing::warn!(%error, "the history of the status branch can't be looked at"),
        }
    }
}

impl std::fmt::Debug for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keep")
            .field("days", &self.days)
            .finish_non_exhaustive()
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

/// Returns what a file is to be. A record that has come further than our copy of the intent stays: the copy is from a cache. So does
/// the journal that only the record has.
fn to_write<'b>(
    path: &str,
    bytes: &'b [u8],
    recorded: Option<&[u8]>,
) -> Result<Option<Cow<'b, [u8]>>, Error> {
    let Some(recorded) = recorded.filter(|_| path.starts_with("intents/")) else {
        return Ok(Some(Cow::Borrowed(bytes)));
    };
    let ours = parse(path, bytes)?;
    let kind = ours.get("kind").and_then(Value::as_str);
    let Some(kind) = kind.and_then(api::kind) else {
        return Ok(None);
    };
    // One that was edited so that it can't be read is written again.
    let Ok(recorded) = parse(path, recorded) else {
        return Ok(Some(Cow::Borrowed(bytes)));
    };
    if kind.is_newer(&recorded, &ours) {
        return Ok(None);
    }
    Ok(Some(match record::completed(&ours, &recorded) {
        Some(completed) => Cow::Owned(clean(&to_yaml(&completed)?)),
        None => Cow::Borrowed(bytes),
    }))
}

/// Takes out what is recognisable as a credential, as out of every file of the branch.
fn clean(yaml: &[u8]) -> Vec<u8> {
    redact::text(&String::from_utf8_lossy(yaml))
        .into_owned()
        .into_bytes()
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
