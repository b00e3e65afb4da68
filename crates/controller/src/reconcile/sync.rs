//! Sync: from a revision in Git to objects in the API server.
//!
//! A new revision costs the blobs that it changes; a pass costs the objects that something happened to, in Git or in the
//! API server; and nothing happened costs nothing. Objects that an intent holds are left to it (`intent::hold_back`).

mod agreed;
mod batches;
mod decide;
mod depend;
mod desired;
mod dirty;
mod done;
mod doubt;
mod evacuations;
mod fights;
mod followed;
mod gate;
mod left_behind;
mod members;
mod moves;
mod namespaces;
mod occupied;
mod pass;
mod placed;
mod preview;
mod prune;
mod pruner;
mod report;
mod requests;
mod siblings;
mod source;
mod standing;
mod successors;
mod unfit;
mod waves;
mod whole;

pub(super) use left_behind::{Abandoned, stays, why};
pub(super) use preview::{Live, of_removed_sync, plan_part};

pub use desired::{Desired, DesiredFeed, Selection};
pub use left_behind::LeftBehind;
pub use preview::{Range, plan_revision};
pub use report::{Done, ObjectReport, ObjectResult, Problem, PruneReport, SyncReport, Wait, Waiting};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use agreed::Agreed;
use cutover_cluster::{
    self as cluster, Cluster, Form, Keep, KeepManagedFields, Observer, Watched, off_the_runtime,
};
use cutover_core::api;
use cutover_core::config::{self, Interval, UnknownKinds};
use cutover_core::error::Error;
use cutover_core::plan::ApplyOptions;
use cutover_git::{self as repo, Fetched, Polling, Repo, Tick};
use cutover_http::{Backoff, Delays};
use cutover_karmada::name::{Gvk, ObjectKey, Revision};
use decide::{HOLDING, Held, Settled};
use depend::Dependency;
use dirty::Dirty;
use evacuations::Evacuations;
use fights::Fights;
use placed::{Kinds, Moved, Placed};
use pruner::Pruner;
use requests::Requests;
use siblings::Siblings;
use source::Source;
use standing::PendingObjects;
use waves::Waves;

use crate::telemetry::SyncMeter;

/// How long a pass waits for the first list of a kind.
const LISTED_WITHIN: Duration = Duration::from_secs(20);
/// How long changes are gathered before they are looked at together.
const GATHER: Duration = Duration::from_millis(20);
/// After a pass that left something undone.
const AGAIN: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_mins(5));

/// The kind that says which other kinds are served.
const DEFINITION: &str = "CustomResourceDefinition";
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
    /// Objects that are not in sync.
    standing: PendingObjects,
    fights: Fights,
    waves: Waves,
    /// The syncs that have to be in sync first.
    dependencies: Vec<Dependency>,
    /// What is waited for of them.
    others: Option<Arc<Wait>>,
    /// How objects are applied that don't say so themselves.
    options: ApplyOptions,
    creates_namespaces: bool,
    /// What the gate makes of kinds without a profile.
    unknown_kinds: UnknownKinds,
    /// Templates that ask for a move by themselves.
    requests: Requests,
    /// Member clusters that are to be evacuated.
    evacuations: Evacuations,
    /// The content for which an object was deleted, to be created anew.
    recreated: BTreeMap<ObjectKey, String>,
    desired: watch::Sender<Option<Arc<Desired>>>,
    reports: watch::Sender<Option<Arc<SyncReport>>>,
    /// Since when Git can't be read.
    unread: watch::Sender<Option<Timestamp>>,
    /// Before what failed as a whole is tried again.
    delays: Delays,
    /// What its passes have done so far.
    total: Done,
    /// What is known of this sync's set, when it prunes.
    pruner: Option<Pruner>,
    /// The other syncs of the run: what moves to one of them has not left Git.
    siblings: Siblings,
    /// Whether `cutover.yaml` says what this sync was made from.
    settings: Option<doubt::Settings>,
    /// There are Migrations of which it isn't known yet whether Git has overtaken them.
    moves_in_doubt: bool,
    /// What committed Migrations wait for that Git has changed since.
    agreed: Agreed,
    meter: Option<SyncMeter>,
}

impl Sync {
    pub fn new(repo: Repo, cluster: Cluster, observer: Observer, selection: Selection) -> Self {
        let own = selection.own();
        let pruner = own.and_then(|own| Pruner::of(own, repo.source()));
        let siblings = Siblings::of(selection.sync.clone());
        Self {
            changes: observer.changes(),
            waves: Waves::new(own.and_then(|own| own.wait.as_ref()).map(Interval::duration)),
            dependencies: Vec::new(),
            others: None,
            options: own.map(apply_options).unwrap_or_default(),
            creates_namespaces: own.is_some_and(|own| own.create_namespaces),
            unknown_kinds: own.map(|own| own.gate.unknown_kinds).unwrap_or_default(),
            requests: Requests::default(),
            evacuations: own
                .map(|own| Evacuations::of(&own.gate.evacuations))
                .unwrap_or_default(),
            recreated: BTreeMap::new(),
            delays: AGAIN.seeded(cluster.limits().seed),
            standing: PendingObjects::new(cluster.limits().seed),
            fights: Fights::default(),
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
            desired: watch::Sender::new(None),
            reports: watch::Sender::new(None),
            unread: watch::Sender::new(None),
            total: Done::default(),
            pruner,
            siblings,
            settings: None,
            moves_in_doubt: false,
            agreed: Agreed::default(),
            meter: None,
        }
    }

    /// Lets it be measured.
    #[must_use]
    pub fn measured(self, meter: SyncMeter) -> Self {
        Self {
            meter: Some(meter),
            ..self
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

    /// Returns since when Git can't be read, if so.
    pub fn unread(&self) -> watch::Receiver<Option<Timestamp>> {
        self.unread.subscribe()
    }

    /// Lets this one wait for another one, whenever there is a new revision.
    pub fn depend_on(&mut self, name: &str, reports: watch::Receiver<Option<Arc<SyncReport>>>) {
        self.dependencies.push(Dependency {
            name: name.to_owned(),
            reports,
        });
    }

    /// Fetches, and brings the API server to the newest revision. When nothing happened there and in Git, it sends nothing.
    pub fn once(&mut self) -> BoxFuture<'_, Result<Arc<SyncReport>, Error>> {
        Box::pin(async move {
            let fetched = self.source.repo.fetch().await;
            self.note_fetch(&fetched);
            self.reach(fetched?.revision).await
        })
    }

    /// Brings the API server to a revision and goes on until nothing is left that comes by itself within its time.
    pub fn finish<'a>(
        &'a mut self,
        revision: Revision,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<SyncReport>, Error>> {
        Box::pin(async move {
            self.source.stop = cancel.clone();
            let mut report = self.reach(revision).await?;
            while let Some(deadline) = self.waves.next_deadline().filter(|_| self.standing.has_waiting()) {
                tokio::select! {
                    () = cancel.cancelled() => break,
                    change = self.changes.recv() => {
                        self.take_change(change)?;
                        tokio::time::sleep(GATHER).await;
                    }
                    () = tokio::time::sleep_until(deadline) => {}
                }
                report = self.look_again().await?;
            }
            Ok(report)
        })
    }

    fn note_fetch(&mut self, fetched: &Result<Fetched, repo::Error>) {
        self.unread.send_if_modified(|since| {
            let before = *since;
            *since = fetched.is_err().then(|| before.unwrap_or_else(Timestamp::now));
            *since != before
        });
        if let Some(pruner) = &mut self.pruner {
            pruner.unreachable = fetched.as_ref().err().map(ToString::to_string);
        }
        if let Some(meter) = &mut self.meter {
            let fetched = fetched.as_ref().map(|fetched| &fetched.revision);
            meter.fetched(fetched.map_err(ToString::to_string));
        }
    }

    async fn reach(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        if self.source.revision.as_ref() == Some(&revision) {
            if self.source.is_back() {
                return self.pass(revision).await;
            }
        } else {
            let advanced = self.advance(&revision).await;
            if let (Err(_), Some(before)) = (&advanced, self.source.in_force(&revision)) {
                return self.stay_at(before).await;
            }
            advanced?;
        }
        self.look(revision).await
    }

    /// Goes on with a revision because a newer one is over the budget, and reports that.
    async fn stay_at(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        let problem = self.source.problems().next();
        let is_reported = self
            .reports
            .borrow()
            .as_ref()
            .is_some_and(|report| report.problems.first() == problem.as_ref());
        if is_reported {
            self.look(revision).await
        } else {
            self.pass(revision).await
        }
    }

    /// Runs until it is cancelled: at every new revision, and whenever an object isn't as Git wants it any more.
    pub fn run(mut self, polling: Polling, cancel: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.source.stop = cancel.clone();
            let mut git = self.source.repo.watch(polling);
            let mut again: Option<Instant> = None;
            let mut told = BTreeSet::new();
            loop {
                let next = self.next_look(again);
                let due = async {
                    match next {
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
                        self.note_fetch(&fetched);
                        let outcome = match fetched {
                            Ok(fetched) => self.reach(fetched.revision).await,
                            Err(error) => Err(error.into()),
                        };
                        git.outcome(outcome.is_ok());
                        if cancel.is_cancelled() {
                            return;
                        }
                        log(tick, &outcome);
                        outcome
                    }
                    change = self.changes.recv() => {
                        if self.take_change(change).is_err() {
                            return;
                        }
                        tokio::time::sleep(GATHER).await;
                        self.look_again().await
                    }
                    () = depend::reported(&mut self.dependencies) => self.look_again().await,
                    () = due => {
                        if let Some(pruner) = &mut self.pruner
                            && again.is_some_and(|at| at <= Instant::now())
                        {
                            pruner.try_again();
                        }
                        self.look_again().await
                    }
                };
                match (&outcome, &mut self.meter) {
                    (Ok(report), _) => told = tell(report, &told),
                    (Err(_), Some(meter)) => meter.failed(),
                    (Err(_), None) => {}
                }
                again = self.next_try(outcome.is_ok(), again);
            }
        })
    }

    /// Returns when something is looked at again though nothing is heard.
    fn next_look(&self, again: Option<Instant>) -> Option<Instant> {
        let moving = self.pruner.as_ref().and_then(|pruner| pruner.moving.next_look());
        let next = [
            again,
            self.standing.next_try(),
            self.waves.next_deadline(),
            self.agreed.next_look(),
            moving,
        ];
        next.into_iter().flatten().min()
    }

    /// Returns when to try again what failed as a whole; what failed of an object is tried again on its own.
    fn next_try(&mut self, ok: bool, planned: Option<Instant>) -> Option<Instant> {
        let again = self.requests.want_again()
            || self.evacuations.want_again()
            || self.moves_in_doubt
            || self.agreed.want_again();
        if ok && self.held.is_known() && !self.prune_wants_again() && !again {
            self.delays.reset();
            return None;
        }
        if planned.is_some_and(|at| at > Instant::now()) {
            return planned;
        }
        Some(Instant::now() + self.delays.next_delay())
    }

    fn take_change(&mut self, change: Result<cluster::Change, RecvError>) -> Result<(), Error> {
        match change {
            Ok(change) => self.hear(change.key),
            Err(RecvError::Lagged(_)) => self.hear_all(),
            Err(RecvError::Closed) => return Err(Error::internal("the watches have ended")),
        }
        Ok(())
    }

    fn hear(&mut self, key: ObjectKey) {
        self.evacuations.hear(&key, &self.observer);
        match (key.group.as_str(), key.kind.as_str()) {
            (api::GROUP, kind) if HOLDING.contains(&kind) => {
                self.intents_moved = true;
                if kind == "Migration" && !self.observer.contains(&key) {
                    self.standing.may_move(Instant::now());
                }
                return self.dirty.insert(key);
            }
            ("apiextensions.k8s.io", DEFINITION) => {
                let group = key.name.split_once('.').map(|(_, group)| group);
                self.standing.may_be_served(group, Instant::now());
                self.observer.look_again();
            }
            // One of another client may be what was to take up a workload that is on its way.
            ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy")
                if self.held.something_moves =>
            {
                self.dirty.insert(key.clone());
            }
            ("work.karmada.io", "ResourceBinding") if self.waves.care() => {
                let template = self.observer.get(&key).and_then(|binding| template_of(&binding));
                let objects = &self.placed.objects;
                self.dirty
                    .extend(template.filter(|key| objects.contains_key(key)));
            }
            _ => {}
        }
        if let Some(pruner) = &mut self.pruner {
            pruner.hear_awaited(&key);
        }
        if self.placed.objects.contains_key(&key) {
            self.dirty.insert(key);
        } else if let Some(pruner) = &mut self.pruner {
            pruner.hear(&key, &self.observer);
        }
    }

    fn hear_all(&mut self) {
        self.intents_moved = true;
        self.evacuations.hear_all();
        self.standing.may_be_served(None, Instant::now());
        if let Some(pruner) = &mut self.pruner {
            pruner.hear_all();
        }
        self.dirty.insert_all();
    }

    async fn look_again(&mut self) -> Result<Arc<SyncReport>, Error> {
        match self.source.revision.clone() {
            Some(revision) => self.look(revision).await,
            None => self.once().await,
        }
    }

    /// Says that the folder of a sync that has nothing is not in the commit. Where it had something, that is a deletion, which is
    /// looked at as such.
    async fn missing_folder(&self, revision: &Revision) -> Option<Problem> {
        let own = self.source.selection.own()?;
        let had = self
            .pruner
            .as_ref()
            .and_then(Pruner::record)
            .is_some_and(|record| !record.kinds.is_empty());
        if !self.placed.objects.is_empty() || self.source.has_gaps() || own.path == "." || had {
            return None;
        }
        // A tree that can't be read is reported where it is read for its files.
        let is_there = self
            .source
            .repo
            .has(revision.clone(), own.path.as_str())
            .await
            .unwrap_or(true);
        (!is_there).then(|| Problem {
            message: format!(
                "sync {} has no folder {} in the repository: nothing is applied",
                own.name, own.path
            ),
            hint: Some("fix its path in cutover.yaml, or remove the sync".to_owned()),
            at: None,
        })
    }

    /// Takes in what was told of changes so far.
    fn listen(&mut self) {
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.hear(change.key),
                Err(TryRecvError::Lagged(_)) => self.hear_all(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
    }

    /// Looks at what something happened to, if anything did.
    async fn look(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        self.listen();
        self.dirty.extend(self.standing.due(Instant::now()));
        self.evacuations.tick();
        if let Some(pruner) = &mut self.pruner {
            pruner.tick(Instant::now());
        }
        let last = self.reports.borrow().clone();
        let prunes = self.pruner.as_ref().is_some_and(Pruner::is_due);
        let is_idle = self.dirty.is_empty()
            && self.held.is_known()
            && !self.standing.has_waiting()
            && !self.requests.want_again()
            && !self.evacuations.is_due()
            && !self.moves_in_doubt
            && !self.agreed.is_due(Instant::now())
            && !prunes;
        match last.filter(|last| is_idle && last.revision == revision) {
            Some(last) => Ok(last),
            None => self.pass(revision).await,
        }
    }

    async fn advance(&mut self, revision: &Revision) -> Result<(), Error> {
        let is_first = self.source.revision.is_none();
        self.watch_intents();
        // The first lists come while the rest is read.
        let (observer, care) = (&self.observer, self.waves.care());
        let touched = self
            .source
            .advance(revision, |gvk| watch_kind(observer, gvk, care))
            .await?;
        if let Some(meter) = &mut self.meter {
            let commit = self.source.repo.commit(revision.clone()).await;
            let committed = commit.ok().map(|commit| commit.time);
            meter.begins(revision, committed.filter(|_| !is_first));
        }
        if let Some(pruner) = &mut self.pruner {
            pruner.advance();
        }
        self.watch();
        self.find_out_kinds().await;
        if is_first {
            self.dirty.insert_all();
        }
        self.waves.begin();
        // It may be this very revision that what failed was in need of.
        self.dirty.extend(self.standing.try_all());
        for some in touched.chunks(TOGETHER) {
            off_the_runtime(|| {
                let keys = some.iter().map(|entry| &entry.key);
                let moved = self.placed.update(self.source.written(), &self.kinds, keys);
                self.take_in(moved);
            });
            // What is left of the thread's turn belongs to others.
            tokio::task::yield_now().await;
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
            let moved = self.placed.rescope(self.source.written(), &self.kinds, &news);
            self.take_in(moved);
        }
        // While Git has kinds that nobody serves, a word on every CRD that comes.
        if !self.kinds.are_all_known(&self.source.kinds()) {
            self.watch_beside(Gvk::new("apiextensions.k8s.io/v1", DEFINITION), Form::Version);
        }
    }

    fn take_in(&mut self, moved: Moved) {
        if self.waves.care() || !self.dependencies.is_empty() {
            self.waves.pending.extend(moved.changed.iter().cloned());
        }
        moved.changed.iter().for_each(|key| self.fights.forget(key));
        self.dirty.extend(moved.changed);
        if let Some(pruner) = &mut self.pruner {
            pruner.drop(moved.gone.iter().cloned());
        }
        let (placed, source) = (&self.placed, &self.source);
        let gone = moved.gone.into_iter();
        for key in gone.filter(|key| !placed.may_want(key) && !source.mentions(key)) {
            self.standing.remove(&key);
            self.waves.forget(&key);
            self.recreated.remove(&key);
            self.requests.forget(&key);
            self.fights.forget(&key);
            self.dropped.insert(key);
        }
    }

    /// Watches what says what is held back, before a kind of those in Git is watched for less.
    fn watch_intents(&self) {
        for kind in HOLDING {
            self.observer.watch(Watched {
                form: Form::Tree,
                ..Watched::all(Gvk::new(api::API_VERSION, kind))
            });
        }
    }

    fn watch(&self) {
        for gvk in self.source.set.kinds() {
            watch_kind(&self.observer, gvk, self.waves.care());
        }
        if self.waves.care() {
            self.watch_beside(
                Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding"),
                Form::Packed,
            );
        }
        if self.creates_namespaces {
            self.watch_beside(Gvk::new("v1", namespaces::KIND), Form::Version);
        }
        self.evacuations.watch(&self.observer);
    }

    /// Watches what isn't compared with Git.
    fn watch_beside(&self, gvk: Gvk, form: Form) {
        self.observer.watch(Watched {
            keep: Keep {
                managed_fields: KeepManagedFields::None,
                status: form != Form::Version,
            },
            form,
            ..Watched::all(gvk)
        });
    }

    /// Tells what Git wants now. Objects that stand somewhere else in it than was reported are looked at again.
    fn share(&mut self, revision: &Revision) {
        self.intents_moved = true;
        let namespace = self.source.written().namespace;
        let news = self.placed.freeze(namespace, &self.kinds, self.source.frozen());
        self.dirty.extend(news);
        let (placed, dirty) = (&self.placed, &mut self.dirty);
        self.standing.retain(|key| placed.may_want(key));
        self.dropped.retain(|key| !placed.may_want(key));
        for (key, report) in self.standing.reports() {
            if placed.objects.get(key).map(|entry| entry.source()) != report.source {
                dirty.insert(key.clone());
            }
        }
        self.desired.send_replace(Some(Arc::new(Desired {
            revision: revision.clone(),
            objects: self.placed.objects.clone(),
            frozen: Arc::clone(&self.placed.frozen),
            doubt: self.git_doubt(),
            context: Arc::clone(&self.source.selection.context),
            observer: self.observer.clone(),
        })));
    }
}

/// Watches a kind that is in Git. What is decided doesn't depend on a status; whether something is healthy, or a kind
/// served, does.
fn watch_kind(observer: &Observer, gvk: &Gvk, care: bool) {
    let keep = Keep {
        status: care || gvk.kind == DEFINITION,
        ..Keep::ALL
    };
    observer.watch(Watched {
        keep,
        ..Watched::all(gvk.clone())
    });
}

/// Logs what is wrong and what waits, each thing once. Returns what is so now.
fn tell(report: &SyncReport, told: &BTreeSet<String>) -> BTreeSet<String> {
    let mut now = BTreeSet::new();
    for problem in report.all_problems() {
        let text = problem.to_string();
        if !told.contains(&text) {
            tracing::warn!(hint = problem.hint.as_deref(), "{text}");
        }
        now.insert(text);
    }
    for waiting in report.waits() {
        let text = waiting.to_string();
        if !told.contains(&text) {
            tracing::info!("{text}");
        }
        now.insert(text);
    }
    if let Some(text) = report.left_unpruned() {
        if !told.contains(&text) {
            tracing::info!("{text}");
        }
        now.insert(text);
    }
    now
}

fn log(tick: Tick, outcome: &Result<Arc<SyncReport>, Error>) {
    match outcome {
        Ok(report) => tracing::debug!(?tick, revision = report.revision.short(), "in sync with Git"),
        Err(error) => tracing::warn!(?tick, %error, hint = error.hint_text(), "cannot sync"),
    }
}

const fn apply_options(own: &config::Sync) -> ApplyOptions {
    ApplyOptions {
        force: own.force,
        recreate: own.recreate,
    }
}

/// Returns the key of the object that a binding is for.
fn template_of(binding: &Value) -> Option<ObjectKey> {
    let resource = &binding["spec"]["resource"];
    let gvk = Gvk::new(resource["apiVersion"].as_str()?, resource["kind"].as_str()?);
    Some(ObjectKey {
        group: gvk.group,
        kind: gvk.kind,
        namespace: resource["namespace"].as_str().map(str::to_owned),
        name: resource["name"].as_str()?.to_owned(),
    })
}
