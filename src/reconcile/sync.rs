//! Sync: from a revision in Git to objects in the API server.
//!
//! A new revision costs the blobs that it changes; a pass costs the objects that something happened to, in Git or in the
//! API server; and nothing happened costs nothing. Objects that an intent holds are left to it (`intent::hold_back`).

mod decide;
mod desired;
mod dirty;
mod pass;
mod placed;
mod preview;
mod report;
mod source;

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
use crate::cluster::{self, Cluster, Form, Keep, Observer, Watched};
use crate::error::Error;
use crate::name::{Gvk, ObjectKey, Revision};
use crate::repo::{Polling, Repo, Tick};
use decide::{HOLDING, Held, Settled};
use dirty::Dirty;
use placed::{Kinds, Moved, Placed};
use source::Source;

/// How long a pass waits for the first list of a kind.
const LISTED_WITHIN: Duration = Duration::from_secs(20);
/// How long changes are gathered before they are looked at together.
const GATHER: Duration = Duration::from_millis(20);
/// After a pass that left something undone: the first delay, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(5));

/// How many objects of a new revision are placed at a time.
const TOGETHER: usize = 1024;

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
    dirty: Dirty,
    /// Something happened that what intents hold back may depend on.
    intents_moved: bool,
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
            dirty: Dirty::default(),
            intents_moved: true,
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
        self.reach(fetched.revision).await
    }

    async fn reach(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        if self.source.revision.as_ref() != Some(&revision) {
            self.advance(&revision).await?;
        }
        self.look(revision).await
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
                    let fetched = tokio::select! {
                        () = cancel.cancelled() => return,
                        fetched = self.source.repo.fetch() => fetched,
                    };
                    let outcome = match fetched {
                        Ok(fetched) => self.reach(fetched.revision).await,
                        Err(error) => Err(error.into()),
                    };
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
        self.intents_moved |= holds;
        if holds || self.placed.objects.contains_key(&key) {
            self.dirty.insert(key);
        }
    }

    fn hear_all(&mut self) {
        self.intents_moved = true;
        self.dirty.insert_all();
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
        let is_first = self.source.revision.is_none();
        let touched = self.source.advance(revision).await?;
        self.watch();
        self.find_out_kinds().await;
        if is_first {
            self.dirty.insert_all();
        }
        for some in touched.chunks(TOGETHER) {
            let keys = some.iter().map(|entry| &entry.key);
            let moved = self.placed.update(&self.source, &self.kinds, keys);
            self.take_in(moved);
        }
        self.share(revision);
        Ok(())
    }

    /// Finds out how the kinds in Git are served, and moves the objects of those about which that is news.
    async fn find_out_kinds(&mut self) {
        let kinds = Kinds::find_out(&self.cluster, self.source.kinds()).await;
        let before = std::mem::replace(&mut self.kinds, kinds);
        let news = self.kinds.differences(&before);
        if !self.placed.objects.is_empty() && !news.is_empty() {
            let moved = self.placed.rescope(&self.source, &self.kinds, &news);
            self.take_in(moved);
        }
    }

    fn take_in(&mut self, moved: Moved) {
        self.dirty.extend(moved.changed);
        let (placed, source) = (&self.placed, &self.source);
        let gone = moved.gone.into_iter();
        for key in gone.filter(|key| !placed.may_want(key) && !source.mentions(key)) {
            self.standing.remove(&key);
            self.dropped.insert(key);
        }
    }

    fn watch(&self) {
        for kind in HOLDING {
            self.observer.watch(Watched {
                form: Form::Tree,
                ..Watched::all(Gvk::new(api::API_VERSION, kind))
            });
        }
        // What is decided here doesn't depend on a status; whether something is healthy does.
        let keep = Keep {
            status: self.source.selection.waits(),
            ..Keep::ALL
        };
        for gvk in self.source.set.kinds() {
            self.observer.watch(Watched {
                keep,
                ..Watched::all(gvk.clone())
            });
        }
    }

    /// Tells what Git wants now. Objects that stand somewhere else in it than was reported are looked at again.
    fn share(&mut self, revision: &Revision) {
        self.intents_moved = true;
        let thawed = self.placed.freeze(&self.source, &self.kinds);
        self.dirty.extend(thawed);
        let (placed, dirty) = (&self.placed, &mut self.dirty);
        self.dropped.retain(|key| !placed.may_want(key));
        for (key, report) in &self.standing {
            if placed.objects.get(key).map(|entry| entry.source()) != report.source {
                dirty.insert(key.clone());
            }
        }
        self.desired.send_replace(Some(Arc::new(Desired {
            revision: revision.clone(),
            objects: self.placed.objects.clone(),
            frozen: Arc::clone(&self.placed.frozen),
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
