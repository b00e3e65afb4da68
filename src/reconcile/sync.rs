//! Sync: from a revision in Git to objects in the API server.
//!
//! A new revision costs the blobs that it changes; a pass costs the objects that something happened to, in Git or in the
//! API server; and nothing happened costs nothing. Objects that an intent holds are left to it (`intent::hold_back`).

mod decide;
mod desired;
mod pass;
mod preview;
mod report;

pub use desired::{Desired, DesiredFeed, Selection};
pub use preview::{Plan, plan_revision};
pub use report::{ObjectReport, ObjectResult, Problem, SyncReport};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::cluster::{self, Cluster, Observer, Watched};
use crate::error::Error;
use crate::name::{Gvk, ObjectKey, Revision};
use crate::repo::{Polling, Repo, Tick};
use decide::{HOLDING, Held, Settled};
use desired::{Kinds, Placed, Source};

/// How long a pass waits for the first list of a kind.
const LISTED_WITHIN: Duration = Duration::from_secs(20);
/// How long changes are gathered before they are looked at together.
const GATHER: Duration = Duration::from_millis(20);
/// After a pass that left something undone: the first delay, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));

/// Keeps the API server as one branch of one repository wants it.
#[derive(Debug)]
pub struct Sync {
    cluster: Cluster,
    observer: Observer,
    source: Source,
    kinds: Kinds,
    placed: Placed,
    held: Held,
    settled: Settled,
    changes: broadcast::Receiver<cluster::Change>,
    /// Objects that something happened to since they were looked at.
    dirty: BTreeSet<ObjectKey>,
    /// Objects that Git doesn't mention any more.
    dropped: BTreeSet<ObjectKey>,
    /// Objects that could not be brought in sync, with where they stand.
    standing: BTreeMap<ObjectKey, ObjectReport>,
    desired: watch::Sender<Option<Arc<Desired>>>,
    reports: watch::Sender<Option<Arc<SyncReport>>>,
    failures: u32,
}

impl Sync {
    pub fn new(repo: Repo, cluster: Cluster, observer: Observer, selection: Selection) -> Self {
        Self {
            changes: observer.changes(),
            cluster,
            observer,
            source: Source::new(repo, selection),
            kinds: Kinds::default(),
            placed: Placed::default(),
            held: Held::default(),
            settled: Settled::default(),
            dirty: BTreeSet::new(),
            dropped: BTreeSet::new(),
            standing: BTreeMap::new(),
            desired: watch::Sender::new(None),
            reports: watch::Sender::new(None),
            failures: 0,
        }
    }

    /// Returns what Git wants, as it changes. It is there before anything of a revision is applied.
    pub fn desired(&self) -> DesiredFeed {
        DesiredFeed(self.desired.subscribe())
    }

    /// Returns the report of the latest pass.
    pub fn reports(&self) -> watch::Receiver<Option<Arc<SyncReport>>> {
        self.reports.subscribe()
    }

    /// Fetches, and brings the API server to the newest revision. When nothing happened there and in Git, it sends nothing.
    pub async fn once(&mut self) -> Result<Arc<SyncReport>, Error> {
        let fetched = self.source.repo.fetch().await?;
        if self.source.revision.as_ref() != Some(&fetched.revision) {
            self.advance(&fetched.revision).await?;
        }
        self.look(fetched.revision).await
    }

    /// Runs until it is cancelled: at every new revision, and whenever an object isn't as Git wants it any more.
    pub async fn run(mut self, polling: Polling, cancel: CancellationToken) {
        let mut git = self.source.repo.watch(polling);
        let mut again: Option<Instant> = None;
        let mut told: Vec<Problem> = Vec::new();
        loop {
            let due = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                () = cancel.cancelled() => return,
                tick = git.next() => {
                    let outcome = self.once().await;
                    git.outcome(outcome.is_ok());
                    log(tick, &outcome);
                    outcome
                }
                change = self.changes.recv() => {
                    match change {
                        Ok(change) => self.hear(change.key),
                        Err(RecvError::Lagged(_)) => self.hear_all(),
                        Err(RecvError::Closed) => return,
                    }
                    tokio::time::sleep(GATHER).await;
                    self.look_again().await
                }
                () = due => {
                    let undone = self.standing.iter().filter(|(_, report)| is_worth_repeating(report));
                    self.dirty.extend(undone.map(|(key, _)| key.clone()));
                    self.look_again().await
                }
            };
            if let Ok(report) = &outcome
                && report.problems != told
            {
                told.clone_from(&report.problems);
                tell(&told);
            }
            again = self.next_try(outcome.is_ok(), again);
        }
    }

    /// Returns when to try again what was left undone.
    fn next_try(&mut self, ok: bool, planned: Option<Instant>) -> Option<Instant> {
        let undone = !ok || !self.held.is_known() || self.standing.values().any(is_worth_repeating);
        if !undone {
            self.failures = 0;
            return None;
        }
        if planned.is_some_and(|at| at > Instant::now()) {
            return planned;
        }
        let delay = AGAIN.0.saturating_mul(1 << self.failures.min(16)).min(AGAIN.1);
        self.failures += 1;
        Some(Instant::now() + delay)
    }

    fn hear(&mut self, key: ObjectKey) {
        let holds = key.group == api::GROUP && HOLDING.contains(&key.kind.as_str());
        if holds || self.placed.objects.contains_key(&key) {
            self.dirty.insert(key);
        }
    }

    fn hear_all(&mut self) {
        self.dirty.extend(self.placed.objects.keys().cloned());
    }

    async fn look_again(&mut self) -> Result<Arc<SyncReport>, Error> {
        match self.source.revision.clone() {
            Some(revision) => self.look(revision).await,
            None => self.once().await,
        }
    }

    /// Looks at what something happened to, if anything did.
    async fn look(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.hear(change.key),
                Err(TryRecvError::Lagged(_)) => self.hear_all(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let last = self.reports.borrow().clone();
        match last.filter(|last| self.dirty.is_empty() && last.revision == revision && self.held.is_known()) {
            Some(last) => Ok(last),
            None => self.pass(revision).await,
        }
    }

    async fn advance(&mut self, revision: &Revision) -> Result<(), Error> {
        let touched = self.source.advance(revision).await?;
        self.watch();
        self.kinds = Kinds::find_out(&self.cluster, self.source.kinds()).await;
        let before = std::mem::replace(&mut self.placed, self.source.place(&self.kinds));
        let touched = touched.iter().map(|key| self.source.placed_key(key, &self.kinds));
        self.dirty
            .extend(touched.filter(|key| self.placed.objects.contains_key(key)));
        self.dirty.extend(
            self.placed
                .objects
                .keys()
                .filter(|key| !before.objects.contains_key(key))
                .cloned(),
        );
        let gone = before
            .objects
            .into_keys()
            .filter(|key| !self.placed.may_want(key) && !self.source.mentions(key));
        for key in gone {
            self.standing.remove(&key);
            self.dropped.insert(key);
        }
        self.dropped.retain(|key| !self.placed.may_want(key));
        self.share(revision);
        Ok(())
    }

    fn watch(&self) {
        for kind in HOLDING {
            self.observer
                .watch(Watched::all(Gvk::new(api::API_VERSION, kind)));
        }
        for gvk in self.source.kinds() {
            self.observer.watch(Watched::all(gvk));
        }
    }

    fn share(&self, revision: &Revision) {
        self.desired.send_replace(Some(Arc::new(Desired {
            revision: revision.clone(),
            objects: self.placed.objects.clone(),
            frozen: self.placed.frozen.clone(),
        })));
    }
}

/// What can't be read in Git is for whoever wrote it: where it is, and what to do.
fn tell(problems: &[Problem]) {
    for problem in problems {
        tracing::warn!(hint = problem.hint.as_deref(), "{problem}");
    }
}

fn log(tick: Tick, outcome: &Result<Arc<SyncReport>, Error>) {
    match outcome {
        Ok(report) => tracing::debug!(?tick, revision = report.revision.short(), "in sync with Git"),
        Err(error) => tracing::warn!(?tick, %error, hint = error.hint_text(), "cannot sync"),
    }
}

/// Held-back objects are looked at when their intent changes; blocked and failed ones may go better later.
fn is_worth_repeating(report: &ObjectReport) -> bool {
    match &report.result {
        ObjectResult::Applied(outcome) => outcome.is_worth_repeating(),
        ObjectResult::HeldBack { .. } => false,
        ObjectResult::Blocked { .. } => true,
    }
}
