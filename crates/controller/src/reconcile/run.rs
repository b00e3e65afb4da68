//! A whole reconciler: the syncs that `cutover.yaml` names, the intents, the status branch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::intents::policies::claimed_by;
use super::intents::{
    self, Canaries, FailpointHook, Fits, Metrics, NoFailpoints, NoMetrics, Parts, Templates,
};
use super::lease::{self, LeaseOptions};
use super::notices;
use super::other_problems::other_problems;
use super::overview::{Reports, Seen};
use super::publish::Publisher;
use super::refusals::Refusals;
use super::running::{Running, Stop, apart};
use super::settings::Repos;
use super::summaries::Summaries;
use super::sync::{Abandoned, Done, LeftBehind, Selection, Sync, SyncReport};
use super::templates::AllTemplates;
use super::unhealthy::{self, Unhealthy};
use super::verdicts::{Pages, Saying, Statuses};
use super::{GitRecords, settings};
use crate::telemetry::Telemetry;
use cutover_cluster::{Cluster, Observer};
use cutover_core::api::{
    self, MovesPhase, Phase, RolloutPolicySpec, RolloutPolicyStatus, RolloutStatus, SYNC_MANAGER, ShiftPhase,
    SuspensionPhase, WaitCode,
};
use cutover_core::config::{self, Config, StatusBranches};
use cutover_core::error::Error;
use cutover_core::intent::driven::Driven;
use cutover_core::plan::{Decision, owned_matches};
use cutover_core::report::{self, Host, Web};
use cutover_forge::notify::Notifier;
use cutover_git::{self as repo, Credentials, Polling, RemoteUrl};
use cutover_karmada::name::{GroupKind, ObjectKey, Revision};
use cutover_leadership::Leadership;

/// How long [`once`] waits for rollouts to take up what was held back for them.
const TAKEN_UP: Duration = Duration::from_secs(10);

/// What a reconciler works on.
#[derive(Clone)]
pub struct Options {
    /// The status branch and the author are those of `cutover.yaml`.
    pub repo: repo::Options,
    /// The repository that status is committed to; `None`: the same.
    pub status_repo: Option<Elsewhere>,
    /// The branches that `cutover.yaml` may name for status.
    pub status_branches: StatusBranches,
    pub cluster: Cluster,
    /// The revision that [`once`] works with; `None`: the newest.
    pub at: Option<Revision>,
    /// Instead of what `cutover.yaml` says.
    pub polling: Option<Polling>,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + std::marker::Sync>,
    pub failpoints: Arc<dyn FailpointHook>,
    /// What checks with queries ask.
    pub metrics: Arc<dyn Metrics>,
    /// What is measured, for /metrics and /readyz.
    pub telemetry: Telemetry,
    /// Who is told what happens, beside the status branch and the Events.
    pub notifier: Option<Notifier>,
    /// Where people see the repository.
    pub web: Option<Web>,
    /// Who is told how commits fare.
    pub statuses: Option<Statuses>,
    /// What decides who works on a control plane; `None`: nobody else ever does.
    pub lease: Option<LeaseOptions>,
    /// How long [`once`] waits for the lease.
    pub patience: Duration,
    /// How long it may take to end in order.
    pub grace: Duration,
}

impl Options {
    /// Returns options for a reconciler that is alone.
    pub fn new(repo: repo::Options, cluster: Cluster) -> Self {
        Self {
            repo,
            status_repo: None,
            status_branches: StatusBranches::default(),
            cluster,
            at: None,
            polling: None,
            clock: Arc::new(Timestamp::now),
            failpoints: Arc::new(NoFailpoints),
            metrics: Arc::new(NoMetrics),
            telemetry: Telemetry::default(),
            notifier: None,
            web: None,
            statuses: None,
            lease: None,
            patience: Duration::from_secs(30),
            grace: Duration::from_secs(20),
        }
    }

    fn within(&self, leadership: &Leadership) -> Self {
        Self {
            cluster: self.cluster.within(leadership.clone()),
            ..self.clone()
        }
    }

    /// Lets everything that is sent be measured, the election too.
    fn measured(self) -> Self {
        if let Some(lease) = &self.lease {
            self.telemetry.follow(lease.standing.subscribe());
        }
        Self {
            cluster: self.cluster.observed(Arc::new(self.telemetry.clone())),
            ..self
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// Another repository, and what opens it.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    pub url: RemoteUrl,
    pub credentials: Credentials,
}

/// What one run to the end came to.
#[derive(Clone, Debug)]
pub struct Summary {
    pub syncs: Vec<(String, Arc<SyncReport>)>,
    /// What each sync did, in all of its passes.
    pub done: BTreeMap<String, Done>,
    /// Namespace, name and phase of every migration.
    pub migrations: Vec<(String, String, Phase)>,
    /// Namespace and name of those that failed and that this repository asks for, itself or by an intent that moves many.
    /// What another repository, or a person, asked the same control plane for says nothing of this one.
    pub failed: Vec<(String, String)>,
    /// What syncs applied and nobody looks after any more.
    pub left_behind: Vec<LeftBehind>,
}

impl Summary {
    /// Returns whether everything is as Git wants it: synced, and no intent that failed.
    pub fn is_clean(&self) -> bool {
        self.syncs.iter().all(|(_, report)| report.is_clean()) && self.failed.is_empty()
    }

    /// Returns why it isn't clean, each sync and each intent for itself; nothing when it is.
    pub fn undone(&self) -> Vec<String> {
        let unclean = self.syncs.iter().filter(|(_, report)| !report.is_clean());
        let syncs = unclean.map(|(name, report)| format!("sync {name}: {}", report.undone().join("; ")));
        let failed = self.failed.iter();
        let failed = failed.map(|(namespace, name)| format!("Migration {namespace}/{name} failed"));
        syncs.chain(failed).collect()
    }
}

/// Works whenever it leads, until it is cancelled; ends within the grace period.
pub fn run(options: Options, cancel: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
    let options = options.measured();
    Box::pin(async move {
        let working = async {
            match options.lease.clone() {
                Some(lease) => {
                    let work = |leadership, stop| Box::pin(work(options.clone(), leadership, stop));
                    lease::lead(&options.cluster, lease, &cancel, work).await
                }
                None => Box::pin(work(options.clone(), Leadership::unbounded(), cancel.clone())).await,
            }
        };
        let too_late = async {
            cancel.cancelled().await;
            tokio::time::sleep(options.grace).await;
        };
        tokio::select! {
            done = working => done,
            () = too_late => {
                tracing::warn!("the grace period has ended: unfinished work was left");
                Ok(())
            }
        }
    })
}

/// Brings everything to where it goes no further by itself, publishes, and returns.
pub fn once(options: Options, cancel: CancellationToken) -> BoxFuture<'static, Result<Summary, Error>> {
    Box::pin(async move {
        match options.lease.clone() {
            Some(lease) => {
                let work = |leadership, stop| until_left(options.clone(), leadership, stop);
                lease::once(&options.cluster, lease, options.patience, &cancel, work).await
            }
            None => until_left(options.clone(), Leadership::unbounded(), cancel.clone()).await,
        }
    })
}

/// Works once, until that is done or was left on the order to stop.
async fn until_left(
    options: Options,
    leadership: Leadership,
    cancel: CancellationToken,
) -> Result<Summary, Error> {
    let stop = Stop {
        cancel: cancel.clone(),
        grace: options.grace,
        leadership: leadership.clone(),
    };
    let interrupted = || Err(Error::user("interrupted"));
    tokio::select! {
        done = apart(Box::pin(work_once(options, leadership, cancel))) => done.unwrap_or_else(interrupted),
        () = stop.leave(1.0) => interrupted(),
    }
}

/// Runs the loops until it is cancelled. When `cutover.yaml` changes, everything is laid out anew.
async fn work(options: Options, leadership: Leadership, cancel: CancellationToken) -> Result<(), Error> {
    let options = options.within(&leadership);
    // The last conversation with Git begins after the order to stop.
    let talk = CancellationToken::new();
    let _until_the_end = talk.clone().drop_guard();
    let stop = Stop {
        cancel: cancel.clone(),
        grace: options.grace,
        leadership: leadership.clone(),
    };
    let begin = async {
        let settings = settings::first(&options, &talk).await?;
        let repos = settings.open(&options, &talk).await?;
        Ok::<_, Error>((settings, repos))
    };
    let (mut settings, mut repos) = tokio::select! {
        () = cancel.cancelled() => return Ok(()),
        begun = begin => begun?,
    };
    loop {
        let layout = Layout::new(&options, repos.within(&leadership), &settings.config);
        let Some(desired) = layout.syncs.first().map(|(_, sync)| sync.desired().subscribe()) else {
            return Err(Error::user("cutover.yaml names no sync"));
        };
        let source = layout.repos.source.clone();
        let attached = options.telemetry.attach(layout.observer.clone());
        let mut running = layout.spawn(&options, &settings.config);
        let changed = tokio::select! {
            () = cancel.cancelled() => None,
            () = running.broken() => return Err(Error::internal("one of the loops has ended by itself")),
            changed = settings.changed(&source, desired, &options) => Some(changed),
        };
        running.end(&stop).await;
        drop(attached);
        match changed {
            Some(changed) if !cancel.is_cancelled() => settings = changed,
            _ => return Ok(()),
        }
        drop(source);
        tracing::info!("cutover.yaml has changed");
        repos = settings.open(&options, &talk).await?;
    }
}

async fn work_once(
    options: Options,
    leadership: Leadership,
    cancel: CancellationToken,
) -> Result<Summary, Error> {
    let options = options.within(&leadership);
    let at = options.at.as_ref();
    let settings = match at {
        Some(revision) => settings::at_revision(&options.repo, revision, &cancel).await?,
        None => settings::newest(&options.repo, &cancel).await?,
    };
    let repos = settings.open(&options, &cancel).await?.within(&leadership);
    let source = repos.source.source();
    let mut layout = Layout::new(&options, repos, &settings.config);
    let going_through = async {
        let before = unhealthy::at_present(&layout.observer).await;
        let first = layout.sync(at, &cancel).await?;
        let stop = cancel.child_token();
        // Of unhealthy workloads nothing is said in between: one run knows at its end which of them were so all the time.
        let parts = layout.parts(&options, layout.seen());
        let running = tokio::spawn(intents::run(parts, stop.clone()));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = async {
                layout.taken_up(&first).await;
                settled(&layout.observer).await;
            } => {}
        }
        stop.cancel();
        let _ = running.await;
        // What intents held back may be free now.
        let syncs = layout.sync(at, &cancel).await?;
        let left_behind = layout.abandoned.once(&source).await;
        let migrations = migrations(&layout.observer);
        let failed = layout.failed();
        if let Some(lease) = &options.lease {
            lease.syncs.send_replace(Summaries::new(layout.reports()).text());
        }
        // What has been unhealthy all the time: what was only just changed may still be on its way.
        let still = unhealthy::at_present(&layout.observer).await;
        let still = before.zip(still).map(|(before, still)| {
            let still = still.into_iter().filter_map(|one| one.as_before(&before));
            still.collect::<Vec<_>>()
        });
        let (_, still) = watch::channel(still);
        if let Some(mut saying) = saying(&options, &settings.config) {
            saying.say(&layout.seen().with_unhealthy(still.clone()).overview());
        }
        let mut publisher = layout.publisher(&options).with_unhealthy(still);
        publisher.once().await?;
        let done = layout.syncs.iter();
        let done = done.map(|(name, sync)| (name.clone(), sync.total())).collect();
        Ok(Summary {
            syncs,
            done,
            migrations,
            failed,
            left_behind,
        })
    };
    going_through.await
}

struct Layout {
    repos: Repos,
    observer: Observer,
    syncs: Vec<(String, Sync)>,
    abandoned: Abandoned,
}

impl Layout {
    fn new(options: &Options, repos: Repos, config: &Config) -> Self {
        let repo = &repos.source;
        let observer = Observer::new(options.cluster.clone());
        for kind in intents::watched() {
            observer.watch(kind);
        }
        // What all syncs have in common is there once, however many there are.
        let (common, ordered) = (Selection::common(config), config::in_order(&config.syncs));
        let mut syncs: Vec<(String, Sync)> = ordered
            .iter()
            .map(|sync| {
                let selection = common.beside(sync);
                let made = Sync::new(repo.clone(), options.cluster.clone(), observer.clone(), selection);
                (sync.name.clone(), made)
            })
            .collect();
        let feeds: Arc<[_]> = syncs
            .iter()
            .map(|(name, sync)| (name.clone(), sync.desired()))
            .collect();
        let reports: BTreeMap<String, _> = syncs
            .iter()
            .map(|(name, sync)| (name.clone(), sync.reports()))
            .collect();
        for ((_, sync), own) in syncs.iter_mut().zip(ordered) {
            sync.beside(Arc::clone(&feeds));
            for other in &own.depends_on {
                if let Some(reports) = reports.get(other) {
                    sync.depend_on(other, reports.clone());
                }
            }
        }
        let feeds = feeds.iter().map(|(_, feed)| feed.clone()).collect();
        let cluster = options.cluster.clone();
        Self {
            abandoned: Abandoned::new(cluster, observer.clone(), config.clone(), feeds),
            observer,
            syncs,
            repos,
        }
    }

    /// Brings every sync to the given or the newest revision, the same for all; those that others depend on first.
    async fn sync(
        &mut self,
        at: Option<&Revision>,
        cancel: &CancellationToken,
    ) -> Result<Vec<(String, Arc<SyncReport>)>, Error> {
        let revision = match at {
            Some(revision) => revision.clone(),
            None => self.repos.source.fetch().await?.revision,
        };
        let mut reports = Vec::new();
        for (name, sync) in &mut self.syncs {
            reports.push((name.clone(), sync.finish(revision.clone(), cancel).await?));
        }
        Ok(reports)
    }

    /// `seen`: what notices tell of what else isn't well.
    fn parts(&self, options: &Options, seen: Seen) -> Parts {
        Parts {
            cluster: options.cluster.clone(),
            observer: self.observer.clone(),
            records: Arc::new(GitRecords::of(
                self.repos.source.clone(),
                self.repos.status.clone(),
            )),
            templates: Arc::new(self.templates()),
            clock: Arc::clone(&options.clock),
            failpoints: Arc::clone(&options.failpoints),
            canaries: Canaries::default(),
            fits: Fits::default(),
            metrics: Arc::clone(&options.metrics),
            telemetry: options.telemetry.clone(),
            notifier: options
                .notifier
                .clone()
                .map(|notifier| notifier.with(other_problems(seen))),
        }
    }

    /// Ends when every change that is left to rollouts is under way, waits, or was refused: one that rests doesn't show
    /// whether it has heard of it.
    async fn taken_up(&self, reports: &[(String, Arc<SyncReport>)]) {
        let held = reports.iter().flat_map(|(_, report)| report.held_back());
        let rolled = held.filter(|(_, by)| by.starts_with("Rollout"));
        let keys: BTreeSet<ObjectKey> = rolled.map(|(key, _)| key.clone()).collect();
        let templates = self.templates();
        let is_taken_up = |observer: &Observer, key: &ObjectKey| {
            let (Some(live), Ok(Some(wanted))) = (observer.get(key), templates.template(key)) else {
                return true;
            };
            let rollouts = observer.list(api::GROUP, "Rollout");
            let mut about = rollouts
                .iter()
                .filter(|rollout| intents::templates_of_rollout(rollout).contains(key));
            owned_matches(&wanted.manifest, &live, SYNC_MANAGER) != Decision::Differs
                || about.any(|rollout| {
                    let status = &rollout["status"];
                    let is_refused = status["heldBack"]["hash"] == wanted.hash.as_str();
                    is_refused || !status["journal"].is_null() || !status["waitingFor"].is_null()
                })
        };
        let all = |observer: &Observer| keys.iter().all(|key| is_taken_up(observer, key));
        self.observer.until(TAKEN_UP, all).await;
    }

    /// Returns the migrations that failed and that this repository asks for.
    fn failed(&self) -> Vec<(String, String)> {
        let wanted: Vec<_> = self
            .syncs
            .iter()
            .filter_map(|(_, sync)| sync.desired().latest())
            .collect();
        let is_wanted = |key: &ObjectKey| wanted.iter().any(|desired| desired.may_want(key));
        let list = |kind: &str| self.observer.list(api::GROUP, kind);
        let of_kind = |kind: &&'static str| {
            let kind = *kind;
            list(kind).into_iter().map(move |object| (kind, object))
        };
        let parents: Vec<_> = report::MANY.iter().flat_map(of_kind).collect();
        failed(&list("Migration"), &parents, is_wanted)
    }

    fn templates(&self) -> AllTemplates {
        AllTemplates(self.syncs.iter().map(|(_, sync)| sync.desired()).collect())
    }

    fn publisher(&self, options: &Options) -> Publisher {
        let (repo, observer) = (self.repos.status.clone(), self.observer.clone());
        let is_here = options.status_repo.is_none();
        Publisher::new(repo, observer, self.reports())
            .with(self.abandoned.told())
            .at(options.web.clone())
            .of_branch(is_here.then(|| options.repo.branch.clone()))
    }

    fn seen(&self) -> Seen {
        Seen::new(self.observer.clone(), self.reports())
    }

    fn reports(&self) -> Vec<Reports> {
        let reports = |(name, sync): &(String, Sync)| Reports {
            name: name.clone(),
            latest: sync.reports(),
            unread: sync.unread(),
        };
        self.syncs.iter().map(reports).collect()
    }

    fn spawn(self, options: &Options, config: &Config) -> Running {
        let mut running = Running::default();
        let polling = options.polling.unwrap_or_else(|| Polling {
            interval: config.interval.duration(),
            ..Polling::default()
        });
        let unhealthy = Unhealthy::new(self.observer.clone());
        let seen = || self.seen().with_unhealthy(unhealthy.reported());
        let parts = self.parts(options, seen());
        let notifier = parts.notifier.clone();
        if let Some(notifier) = notifier.clone() {
            let (reports, clock) = (self.reports(), Arc::clone(&options.clock));
            running.spawn(|stop| notices::run(reports, notifier, clock, stop));
        }
        running.spawn(|stop| intents::run(parts, stop));
        if let Some(lease) = &options.lease {
            let (summaries, noted) = (Summaries::new(self.reports()), lease.syncs.clone());
            running.spawn(|stop| summaries.run(noted, stop));
        }
        let refusals = Refusals::new(
            options.cluster.clone(),
            notifier,
            options.lease.as_ref(),
            Arc::clone(&options.clock),
        );
        if let Some(saying) = saying(options, config) {
            let seen = seen();
            running.spawn(|stop| saying.run(seen, stop));
        }
        let publisher = self
            .publisher(options)
            .with_unhealthy(unhealthy.reported())
            .every(config.status.every.duration())
            .keeping(config.status.keep_days, Arc::clone(&options.clock))
            .telling(refusals)
            .measured(options.telemetry.clone());
        running.spawn(|stop| unhealthy.run(stop));
        let (abandoned, source) = (self.abandoned, self.repos.source.source());
        running.spawn(|stop| abandoned.run(source, stop));
        running.publish(|finish| publisher.run(finish));
        for (name, sync) in self.syncs {
            let sync = sync.measured(options.telemetry.sync(&name));
            running.spawn(|stop| sync.run(polling, stop));
        }
        running
    }
}

/// Returns who says how commits fare, if that is asked for.
fn saying(options: &Options, config: &Config) -> Option<Saying> {
    let statuses = options.statuses.clone()?;
    Some(Saying::new(statuses, pages(options, config), (options.clock)()))
}

/// Returns where people see the status branch, as far as that is known.
fn pages(options: &Options, config: &Config) -> Option<Pages> {
    let (web, branch) = match &options.status_repo {
        Some(elsewhere) => {
            let (server, page) = elsewhere.url.page()?;
            let branch = config.status.branch.as_deref().unwrap_or(config::STATUS_BRANCH);
            (Web::new(Host::of(server)?, &page)?, branch)
        }
        None => {
            let branch = config.status.branch_beside(&options.repo.branch);
            (options.web.clone()?, branch)
        }
    };
    Some(Pages {
        web,
        branch: branch.to_owned(),
        directory: config.status.directory.clone(),
    })
}

/// Ends when no intent goes on by itself: ended, paused, or waiting for somebody's approval.
async fn settled(observer: &Observer) {
    let still = |observer: &Observer| {
        suspensions_rest(observer)
            && rollouts_rest(observer)
            && policies_rest(observer)
            && shifts_rest(observer)
            && report::MANY
                .iter()
                .all(|kind| observer.list(api::GROUP, kind).iter().all(|one| rests(one)))
            && migrations_rest(observer)
    };
    while !observer.until(Duration::from_hours(1), still).await {}
}

fn suspensions_rest(observer: &Observer) -> bool {
    observer.list(api::GROUP, "Suspension").iter().all(|object| {
        let phase =
            serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(SuspensionPhase::Pending);
        let code: Option<WaitCode> =
            serde_json::from_value(object["status"]["waitingFor"]["code"].clone()).ok();
        let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        // One that waits for its policy or for another intent isn't waited for: it goes on with the next run.
        let waits = phase == SuspensionPhase::Pending && code.is_some();
        let rests = phase.is_terminal() || phase == SuspensionPhase::Suspended;
        seen && (rests || waits || code.is_some_and(WaitCode::is_for_a_person))
    })
}

fn policies_rest(observer: &Observer) -> bool {
    observer.list(api::GROUP, "RolloutPolicy").iter().all(|object| {
        let status = RolloutPolicyStatus::deserialize(&object["status"]).unwrap_or_default();
        let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        // One that waits for what can't be read goes on with the next run.
        seen && (status.queued == 0 || is_full(observer, object))
    })
}

fn rollouts_rest(observer: &Observer) -> bool {
    observer.list(api::GROUP, "Rollout").iter().all(|object| {
        let status = RolloutStatus::deserialize(&object["status"]).unwrap_or_default();
        let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let code = status.common.waiting_for.map(|wait| wait.code);
        let rests = match code {
            Some(WaitCode::Turn) => has_to_wait_for_its_turn(observer, object),
            _ => status.phase.is_at_rest(),
        };
        seen && (rests || code.is_some_and(WaitCode::is_for_a_person))
    })
}

fn shifts_rest(observer: &Observer) -> bool {
    observer.list(api::GROUP, "ReplicaShift").iter().all(|object| {
        let phase = serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(ShiftPhase::Pending);
        let code: Option<WaitCode> =
            serde_json::from_value(object["status"]["waitingFor"]["code"].clone()).ok();
        let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        // What rests waits for Git, which this run has read.
        let rests = phase.is_terminal() || phase == ShiftPhase::Shifted && code.is_some();
        seen && (rests || code.is_some_and(WaitCode::is_for_a_person))
    })
}

fn migrations_rest(observer: &Observer) -> bool {
    observer.list(api::GROUP, "Migration").iter().all(|object| {
        let phase = serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(Phase::Pending);
        let code: Option<WaitCode> =
            serde_json::from_value(object["status"]["waitingFor"]["code"].clone()).ok();
        let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let waits = || waits_for_its_policy(observer, object, phase);
        seen && (phase.is_terminal() || code.is_some_and(WaitCode::is_for_a_person) || waits())
    })
}

/// Returns whether a Migration that a change of policy set off waits for what the next sync does: it brings the policy, or takes the
/// one away whose workload this one gets. The next run goes on.
fn waits_for_its_policy(observer: &Observer, migration: &serde_json::Value, phase: Phase) -> bool {
    let waits = phase == Phase::Cleanup && !migration["status"]["waitingFor"].is_null();
    let Some(driven) = Driven::of(migration).filter(|_| waits) else {
        return false;
    };
    let is_taken_up = driven.successor.as_ref().is_none_or(|successor| {
        let template = driven.workload().and_then(|workload| observer.get(&workload));
        template.is_some_and(|template| claimed_by(&template).as_ref() == Some(successor))
    });
    let policy = driven.successor.as_ref().unwrap_or(&driven.policy);
    let live = observer.get(&policy.key());
    !is_taken_up || live.is_none_or(|live| driven.is_overtaken(&live, None))
}

/// Returns whether the policy of a rollout has no turn to give. Without a policy a person has said that it waits.
fn has_to_wait_for_its_turn(observer: &Observer, rollout: &serde_json::Value) -> bool {
    let parent = &rollout["metadata"]["labels"][api::PARENT_LABEL];
    let mut policies = observer.list(api::GROUP, "RolloutPolicy").into_iter();
    let policy = policies.find(|policy| policy["metadata"]["uid"] == *parent);
    policy.is_none_or(|policy| is_full(observer, &policy))
}

/// Returns whether as many are under way as may be; those that don't rest are waited for by themselves. What the policy itself
/// says of that comes later than what its rollouts say.
fn is_full(observer: &Observer, policy: &serde_json::Value) -> bool {
    let is_under_way = |rollout: &&Arc<serde_json::Value>| {
        let is_its = rollout["metadata"]["labels"][api::PARENT_LABEL] == policy["metadata"]["uid"];
        let status = RolloutStatus::deserialize(&rollout["status"]).unwrap_or_default();
        is_its && !status.phase.is_at_rest()
    };
    let rollouts = observer.list(api::GROUP, "Rollout");
    let under_way = rollouts.iter().filter(is_under_way).count();
    let spec = RolloutPolicySpec::deserialize(&policy["spec"]);
    spec.is_ok_and(|spec| u32::try_from(under_way).is_ok_and(|under_way| under_way >= spec.max_parallel))
}

/// Returns whether an intent that moves many workloads goes on only when something happens, or somebody does something.
fn rests(object: &serde_json::Value) -> bool {
    let status = &object["status"];
    let phase = serde_json::from_value(status["phase"].clone()).unwrap_or(MovesPhase::Pending);
    let code: Option<WaitCode> = serde_json::from_value(status["waitingFor"]["code"].clone()).ok();
    let moving = status["progress"]["moving"].as_u64().unwrap_or_default();
    let seen = status["observedGeneration"] == object["metadata"]["generation"];
    // One that can't begin goes on with the next run.
    let waits = code.is_some_and(|code| code.is_for_a_person() || phase == MovesPhase::Preflight);
    seen && (phase.is_terminal() || phase == MovesPhase::Watching || (moving == 0 && waits))
}

/// Returns the migrations that failed, of those that are wanted, themselves or an intent that made them.
fn failed(
    migrations: &[Arc<serde_json::Value>],
    parents: &[(&str, Arc<serde_json::Value>)],
    is_wanted: impl Fn(&ObjectKey) -> bool,
) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let is_own = |kind: &str, object: &serde_json::Value| {
        let (kind, metadata) = (GroupKind::new(api::GROUP, kind), &object["metadata"]);
        is_wanted(&kind.key(metadata["namespace"].as_str(), &text(&metadata["name"])))
    };
    let is_made_by_own = |object: &serde_json::Value| {
        let parent = &object["metadata"]["labels"][api::PARENT_LABEL];
        let mut of_it = parents
            .iter()
            .filter(|(_, other)| other["metadata"]["uid"] == *parent);
        parent.is_string() && of_it.any(|(kind, other)| is_own(kind, other))
    };
    let has_failed = |object: &serde_json::Value| {
        let phase = serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(Phase::Pending);
        matches!(phase, Phase::Failed | Phase::RolledBack | Phase::Aborted)
    };
    let failed = migrations
        .iter()
        .filter(|object| has_failed(object) && (is_own("Migration", object) || is_made_by_own(object)));
    failed
        .map(|object| {
            let metadata = &object["metadata"];
            (text(&metadata["namespace"]), text(&metadata["name"]))
        })
        .collect()
}

fn migrations(observer: &Observer) -> Vec<(String, String, Phase)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    observer
        .list(api::GROUP, "Migration")
        .iter()
        .map(|object| {
            let phase = serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(Phase::Pending);
            (
                text(&object["metadata"]["namespace"]),
                text(&object["metadata"]["name"]),
                phase,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_repository_asked_for_and_failed_is_no_failure_of_this_one() {
        let object = |name: &str, parent: Option<&str>, phase: &str| {
            Arc::new(serde_json::json!({
                "status": {"phase": phase},
                "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {api::PARENT_LABEL: parent}},
            }))
        };
        let migrations = [
            object("own", None, "Failed"),
            object("own-done", None, "Completed"),
            object("child", Some("own-evacuation"), "RolledBack"),
            object("theirs", None, "Failed"),
            object("their-child", Some("evacuation"), "Aborted"),
        ];
        let parents = [
            ("Evacuation", object("own-evacuation", None, "Failed")),
            ("Evacuation", object("evacuation", None, "Failed")),
        ];
        let failed = failed(&migrations, &parents, |key| key.name.starts_with("own"));
        let names: Vec<_> = failed.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["own", "child"]);
    }
}
