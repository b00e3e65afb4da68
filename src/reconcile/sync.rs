//! Sync: from a revision in Git to objects in the API server.
//!
//! A new revision costs the blobs that it changes; a pass costs the objects that something happened to, in Git or in the
//! API server; and nothing happened costs nothing. Objects that an intent holds are left to it (`intent::hold_back`).

mod decide;
mod desired;
mod report;

pub use desired::{Desired, DesiredFeed, Selection};
pub use report::{ObjectReport, ObjectResult, Problem, SyncReport};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::cluster::{self, Cluster, Observer, Outcome, Watched, Write};
use crate::error::Error;
use crate::manifest::Manifest;
use crate::name::{Gvk, ObjectKey, Revision};
use crate::plan::{Action, Change, ChangeSet, Rank};
use crate::repo::{Polling, Repo, Tick};
use decide::{Decider, HOLDING, Held, Settled};
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

    /// Decides about every object that something happened to, and writes what is to be written.
    async fn pass(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        let started_at = Timestamp::now();
        self.observer.heard(LISTED_WITHIN).await;
        self.find_new_kinds(&revision).await;
        let held = Held::look(&self.observer, &self.placed.objects);
        self.dirty.extend(held.differences(&self.held));
        if held.is_known() && !self.held.is_known() {
            self.dirty.extend(self.placed.objects.keys().cloned());
        }
        self.held = held;
        let keys = std::mem::take(&mut self.dirty);
        let decider = Decider {
            observer: &self.observer,
            placed: &self.placed,
            kinds: &self.kinds,
            held: &self.held,
            settled: &self.settled,
        };
        let plan = ChangeSet::new(Some(revision.clone()), decider.changes(Some(&keys)));
        let outcomes = cluster::apply(&self.cluster, Some(&self.observer), self.waves(&plan)).await;
        let objects = self.results(&plan, outcomes, &keys);
        let report = Arc::new(SyncReport {
            revision,
            started_at,
            finished_at: Timestamp::now(),
            objects,
            desired: self.placed.objects.len(),
            problems: self.source.problems(),
            orphaned: self.orphaned(),
        });
        self.reports.send_replace(Some(Arc::clone(&report)));
        Ok(report)
    }

    /// A kind that wasn't served may be now: then its objects may belong into another namespace.
    async fn find_new_kinds(&mut self, revision: &Revision) {
        let wanted = self.source.kinds();
        if self.kinds.are_all_known(&wanted) {
            return;
        }
        self.kinds = Kinds::find_out(&self.cluster, wanted).await;
        self.placed = self.source.place(&self.kinds);
        self.share(revision);
    }

    fn waves(&self, plan: &ChangeSet) -> Vec<Vec<Write>> {
        let mut waves: BTreeMap<(Rank, i64), Vec<Write>> = BTreeMap::new();
        for change in &plan.changes {
            if !matches!(change.action, Action::Create | Action::Configure) {
                continue;
            }
            if let Some(manifest) = self.placed.objects.get(&change.key) {
                let live = self.observer.get(&change.key);
                let version =
                    live.and_then(|live| Some(live["metadata"]["resourceVersion"].as_str()?.to_owned()));
                let write = Write {
                    manifest: Arc::clone(manifest),
                    live: version,
                };
                waves
                    .entry((Rank::of(&change.gvk), change.wave()))
                    .or_default()
                    .push(write);
            }
        }
        waves.into_values().collect()
    }

    fn results(
        &mut self,
        plan: &ChangeSet,
        mut outcomes: BTreeMap<ObjectKey, Outcome>,
        keys: &BTreeSet<ObjectKey>,
    ) -> BTreeMap<ObjectKey, ObjectReport> {
        let mut objects = BTreeMap::new();
        for key in keys {
            self.standing.remove(key);
        }
        for change in &plan.changes {
            let Some(result) = result(change, outcomes.remove(&change.key)) else {
                continue;
            };
            let report = ObjectReport {
                source: change.source.clone(),
                result,
            };
            if let ObjectResult::Applied(outcome) = &report.result
                && outcome.is_in_sync()
            {
                self.remember(&change.key);
            } else {
                self.standing.insert(change.key.clone(), report.clone());
            }
            objects.insert(change.key.clone(), report);
        }
        for (key, report) in &self.standing {
            objects.entry(key.clone()).or_insert_with(|| report.clone());
        }
        objects
    }

    fn remember(&mut self, key: &ObjectKey) {
        if let (Some(manifest), Some(live)) = (self.placed.objects.get(key), self.observer.get(key)) {
            self.settled.remember(manifest, &live);
        }
    }

    fn orphaned(&self) -> Vec<ObjectKey> {
        if self.source.has_gaps() {
            return Vec::new();
        }
        self.dropped
            .iter()
            .filter(|key| self.observer.get(key).is_some())
            .cloned()
            .collect()
    }
}

fn result(change: &Change, outcome: Option<Outcome>) -> Option<ObjectResult> {
    Some(match (&change.action, outcome) {
        (_, Some(outcome)) => ObjectResult::Applied(outcome),
        (Action::HeldBack { by }, None) => ObjectResult::HeldBack { by: by.clone() },
        (Action::Blocked { reason }, None) => ObjectResult::Blocked {
            reason: reason.clone(),
        },
        (Action::Create | Action::Configure | Action::Unchanged | Action::Delete, None) => return None,
    })
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

/// What a revision would change, and what of it could not be read.
#[derive(Clone, Debug)]
pub struct Plan {
    pub changes: ChangeSet,
    pub problems: Vec<Problem>,
}

/// Compares a revision with the API server and writes nothing. What can't be decided here is tried by a dry-run there.
pub async fn plan_revision(
    repo: &Repo,
    cluster: &Cluster,
    revision: Revision,
    selection: Selection,
) -> Result<Plan, Error> {
    let observer = Observer::new(cluster.clone());
    let mut sync = Sync::new(repo.clone(), cluster.clone(), observer, selection);
    sync.advance(&revision).await?;
    sync.observer.heard(LISTED_WITHIN).await;
    sync.held = Held::look(&sync.observer, &sync.placed.objects);
    let decider = Decider {
        observer: &sync.observer,
        placed: &sync.placed,
        kinds: &sync.kinds,
        held: &sync.held,
        settled: &sync.settled,
    };
    let mut changes = decider.changes(None);
    for change in &mut changes {
        if change.action == Action::Configure
            && decider.is_undecided(change)
            && let Some(manifest) = sync.placed.objects.get(&change.key)
        {
            *change = rehearsed(cluster, &sync.observer, manifest, change.clone()).await;
        }
    }
    Ok(Plan {
        changes: ChangeSet::new(Some(revision), changes),
        problems: sync.source.problems(),
    })
}

async fn rehearsed(cluster: &Cluster, observer: &Observer, manifest: &Manifest, guess: Change) -> Change {
    match cluster::rehearse(cluster, manifest).await {
        Ok(preview) => {
            let live = observer.get(&manifest.key);
            Change::apply(manifest, live.as_deref(), Some(&preview), api::SYNC_MANAGER)
        }
        Err(Outcome::Conflict(fields)) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|own| format!("{} has {}", own.manager, own.field))
                .collect();
            guess.blocked(fields.join(", "))
        }
        Err(Outcome::Failed(failure)) => guess.blocked(failure.message),
        Err(_) => guess,
    }
}
