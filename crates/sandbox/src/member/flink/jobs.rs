//! All Flink clusters of one member, and the jobs in its session clusters: where jobs really run, whatever the operator believes.
//!
//! Knows no Kubernetes: the simulator's shell shows its pods to an API server. Reports to the ledger who can write.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::job::{Cluster, Form, Found, Handle, Happened, Restore, Submission};
use super::resource::Kind;
use super::status::Job as JobState;
use crate::ledger::{Group, Ledger, Origin, Start, Writer};
use crate::member::savepoints::Savepoint;
use crate::member::{Context, PodView, later};
use cutover_karmada::name::ObjectKey;

/// Namespace and name of a `FlinkDeployment` or a `FlinkSessionJob`.
pub type Key = (String, String);

/// What the operator sees when it looks at a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Of the spec that was deployed.
    pub generation: i64,
    pub job_id: String,
    pub deleting: bool,
    pub available: bool,
    /// Its `JobManager` was up before, and is restarted.
    pub restarted: bool,
    /// Whether the `JobManager`'s REST API answers.
    pub reachable: bool,
    /// Why a pod doesn't start.
    pub pull_error: Option<String>,
    pub job: JobState,
    pub job_error: Option<String>,
    pub started_at: Option<Timestamp>,
    pub last_checkpoint: Option<String>,
}

/// Everything about a workload's runtime that the operator's decisions depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// The `JobManager`'s Deployment; `None` when there is none. Of a session job: the job in its session cluster.
    pub cluster: Option<Seen>,
    /// Of a session job: whether the REST API of its session cluster answers.
    pub session_answers: bool,
    /// Whether HA metadata exists in this member.
    pub ha_available: bool,
    /// Whether that metadata holds a checkpoint.
    pub ha_checkpoint: bool,
}

impl Runtime {
    /// `FlinkUtils.jmPodNeverStarted`.
    pub fn never_started(&self) -> bool {
        self.cluster
            .as_ref()
            .is_some_and(|cluster| !cluster.available && !cluster.restarted)
    }
}

#[derive(Debug, Default)]
struct State {
    clusters: BTreeMap<Key, Cluster>,
    /// HA metadata that outlived its cluster; `None` inside when no checkpoint was completed.
    metadata: BTreeMap<Key, Option<Handle>>,
    /// Clusters whose HA metadata is to be kept when they are gone.
    keep_metadata: BTreeMap<Key, bool>,
    ids: u64,
}

impl State {
    /// Returns the jobs of a session cluster.
    fn in_session(&self, (namespace, name): &Key) -> Vec<Key> {
        let form = Form::InSession(name.clone());
        let all = self.clusters.iter();
        let own = all.filter(|(key, job)| key.0 == *namespace && job.submission.form == form);
        own.map(|(key, _)| key.clone()).collect()
    }
}

/// The member's Flink clusters; clones share them.
#[derive(Clone)]
pub struct Jobs {
    context: Arc<Context>,
    kind: Kind,
    /// The jobs in those that are session clusters.
    hosted: Option<Box<Jobs>>,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs")
            .field("cluster", &self.context.cluster)
            .finish_non_exhaustive()
    }
}

impl Jobs {
    pub fn new(context: Arc<Context>) -> Self {
        let changed = watch::Sender::new(());
        // Both draw from the member's generators, which have numbers.
        let state = State {
            ids: 1 << 32,
            ..State::default()
        };
        let hosted = Self {
            context: Arc::clone(&context),
            kind: Kind::SessionJob,
            hosted: None,
            state: Arc::new(Mutex::new(state)),
            changed: changed.clone(),
        };
        Self {
            context,
            kind: Kind::Deployment,
            hosted: Some(Box::new(hosted)),
            state: Arc::default(),
            changed,
        }
    }

    /// Returns what belongs to the resources of a kind: clusters, or the jobs in session clusters.
    pub fn of_kind(&self, kind: Kind) -> &Self {
        match self.hosted.as_deref() {
            Some(hosted) if hosted.kind == kind => hosted,
            _ => self,
        }
    }

    /// Returns the jobs in the member's session clusters.
    pub fn in_sessions(&self) -> &Self {
        self.of_kind(Kind::SessionJob)
    }

    /// Returns how the runtime of a workload looks now.
    pub fn look(&self, key: &Key) -> Runtime {
        let now = self.context.clock.now();
        let state = self.advance(now);
        let cluster = state.clusters.get(key);
        let live = cluster.filter(|cluster| {
            cluster.submission.high_availability
                && cluster.is_available(now)
                && !cluster.job_state().is_terminal()
        });
        let kept = state.metadata.get(key);
        Runtime {
            cluster: cluster.map(|cluster| Seen {
                generation: cluster.submission.generation,
                job_id: cluster.submission.job_id.clone(),
                deleting: cluster.is_deleting(),
                available: cluster.is_available(now),
                restarted: cluster.is_restarted(),
                reachable: cluster.is_reachable(),
                pull_error: cluster.pull_error(now),
                job: cluster.job_state(),
                job_error: cluster.job_error().map(str::to_owned),
                started_at: cluster.job_started_at(),
                last_checkpoint: cluster.checkpoint(now).map(|handle| handle.path),
            }),
            session_answers: false,
            ha_available: live.is_some() || kept.is_some(),
            ha_checkpoint: live.is_some_and(|cluster| cluster.checkpoint(now).is_some())
                || kept.is_some_and(Option::is_some),
        }
    }

    /// Returns how many records the job of a workload has processed; `None` when it has no cluster here.
    pub fn records(&self, key: &Key) -> Option<u64> {
        let now = self.context.clock.now();
        self.advance(now)
            .clusters
            .get(key)
            .map(|cluster| cluster.records(now))
    }

    /// Returns whether the job of a workload can write in this member now.
    pub fn can_write(&self, key: &Key) -> bool {
        let now = self.context.clock.now();
        self.advance(now)
            .clusters
            .get(key)
            .is_some_and(Cluster::can_write)
    }

    /// Returns a new job id: 32 hexadecimal digits.
    pub fn job_id(&self) -> String {
        let mut rng = self.draw();
        format!("{:032x}", rng.u128(..))
    }

    /// Deploys a cluster, or submits a session job; refused while one of that name exists. A session job that has ended is replaced.
    pub fn submit(&self, key: &Key, submission: Submission) -> Result<(), String> {
        let now = self.context.clock.now();
        let mut state = self.advance(now);
        let is_over = |job: &Cluster| self.kind == Kind::SessionJob && job.job_state().is_terminal();
        if state.clusters.get(key).is_some_and(|cluster| !is_over(cluster)) {
            return Err(format!("The Flink cluster {} already exists.", key.1));
        }
        if submission.restore != Restore::LastState {
            state.metadata.remove(key);
        }
        let cluster = Cluster::new(submission, now, self.context.timings.clone());
        state.clusters.insert(key.clone(), cluster);
        drop(state);
        self.changed.send_replace(());
        Ok(())
    }

    /// Stops a job with a savepoint and returns its path when it is complete.
    pub async fn stop_with_savepoint(&self, key: &Key) -> Result<String, String> {
        let mut rng = self.draw();
        let now = self.context.clock.now();
        {
            let mut state = self.advance(now);
            let cluster = state.clusters.get_mut(key).ok_or("there is no JobManager")?;
            let path = savepoint_path(&cluster.submission, &mut rng);
            cluster.stop_with_savepoint(path, now)?;
        }
        self.changed.send_replace(());
        self.until(key, |cluster| match cluster {
            None => Some(Err("the JobManager went away".to_owned())),
            Some(cluster) if cluster.can_write() => None,
            Some(cluster) => Some(match (cluster.job_state(), cluster.checkpoint(Timestamp::MAX)) {
                (JobState::Finished, Some(handle)) => Ok(handle.path),
                (state, _) => Err(format!("the job is {state:?}")),
            }),
        })
        .await
    }

    /// Takes a savepoint of a job that goes on, and returns its path when it is complete.
    pub async fn savepoint(&self, key: &Key) -> Result<String, String> {
        let mut rng = self.draw();
        let now = self.context.clock.now();
        let answers = |cluster: &&Cluster| cluster.job_state() == JobState::Running && cluster.is_reachable();
        let (job_id, path) = {
            let state = self.advance(now);
            let cluster = state.clusters.get(key).filter(answers);
            let submission = &cluster.ok_or("no JobManager answers whose job runs")?.submission;
            (submission.job_id.clone(), savepoint_path(submission, &mut rng))
        };
        let done = later(now, self.context.timings.savepoint);
        self.context.clock.sleep_until(done).await;
        let now = self.context.clock.now();
        let mut state = self.advance(now);
        let cluster = state.clusters.get(key).filter(answers);
        let cluster = cluster.filter(|cluster| cluster.submission.job_id == job_id);
        let cluster = cluster.ok_or("the job ended before its savepoint was complete")?;
        let (submission, records) = (cluster.submission.clone(), cluster.records(now));
        let handle = Handle {
            path: path.clone(),
            records,
        };
        self.report(
            &mut state,
            key,
            &submission,
            vec![Happened::Retained { at: now, handle }],
        );
        Ok(path)
    }

    /// Begins to cancel a job.
    pub fn cancel(&self, key: &Key) {
        let now = self.context.clock.now();
        if let Some(cluster) = self.advance(now).clusters.get_mut(key) {
            cluster.cancel(now);
        }
        self.changed.send_replace(());
    }

    /// Deletes a cluster and waits until its last pod is gone; HA metadata goes too unless it is to be kept.
    pub async fn delete(&self, key: &Key, keep_metadata: bool) {
        self.begin_delete(key, keep_metadata);
        self.until(key, |cluster| cluster.is_none().then_some(())).await;
    }

    /// Takes a cluster away whose owner is gone, as garbage collection does, without asking the operator.
    pub fn orphan(&self, key: &Key, uid: &str) {
        let now = self.context.clock.now();
        let owned = self
            .advance(now)
            .clusters
            .get(key)
            .is_some_and(|cluster| cluster.submission.uid == uid);
        if owned {
            self.begin_delete(key, false);
        }
    }

    /// Ends everything at once, as when the machines of the member are gone; nobody is told, and no state stays.
    pub fn vanish(&self) {
        if let Some(hosted) = &self.hosted {
            hosted.vanish();
        }
        let now = self.context.clock.now();
        let mut state = self.advance(now);
        for (key, mut cluster) in std::mem::take(&mut state.clusters) {
            let happened = cluster.fail("the cluster is gone", now);
            let stopped = happened
                .into_iter()
                .filter(|what| matches!(what, Happened::Stopped { .. }));
            self.report(&mut state, &key, &cluster.submission.clone(), stopped.collect());
        }
        state.metadata.clear();
        state.keep_metadata.clear();
        drop(state);
        self.changed.send_replace(());
    }

    /// Makes a job fail for good.
    pub fn fail(&self, key: &Key, reason: &str) {
        let now = self.context.clock.now();
        let mut state = self.advance(now);
        if let Some(cluster) = state.clusters.get_mut(key) {
            let happened = cluster.fail(reason, now);
            let submission = cluster.submission.clone();
            self.report(&mut state, key, &submission, happened);
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Ends the `JobManager`'s process, which Kubernetes starts again in the same pod: the job goes on from its last checkpoint
    /// where HA metadata names it, else from what was deployed. The jobs of a session cluster go on, or are lost.
    pub fn restart_job_manager(&self, key: &Key) {
        let now = self.context.clock.now();
        let mut state = self.advance(now);
        if let Some(cluster) = state.clusters.get_mut(key) {
            let happened = cluster.restart(now);
            let (submission, checkpoint) = (cluster.submission.clone(), cluster.resumes_from().cloned());
            let restarted = !happened.is_empty();
            self.report(&mut state, key, &submission, happened);
            if submission.high_availability && restarted {
                self.named_by_metadata(key, &submission.uid, checkpoint.as_ref());
                state.metadata.insert(key.clone(), checkpoint);
            }
            match self.hosts(&submission) {
                Some(hosted) if submission.high_availability => hosted.restart_all(key),
                Some(hosted) => hosted.lose_all(key, now),
                None => {}
            }
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Lets a `JobManager`'s REST API fall silent, or answer again; the job runs on.
    pub fn set_reachable(&self, key: &Key, reachable: bool) {
        let now = self.context.clock.now();
        if let Some(cluster) = self.advance(now).clusters.get_mut(key) {
            cluster.set_reachable(reachable);
        }
        if let Some(hosted) = &self.hosted {
            let jobs = hosted.advance(now).in_session(key);
            for job in jobs {
                hosted.set_reachable(&job, reachable);
            }
        }
        self.changed.send_replace(());
    }

    /// Returns the jobs in what was submitted, if that is a session cluster.
    fn hosts(&self, submission: &Submission) -> Option<&Self> {
        let hosted = self.hosted.as_deref();
        hosted.filter(|_| submission.form == Form::Session)
    }

    /// Starts the jobs of a session cluster again with its `JobManager`.
    fn restart_all(&self, session: &Key) {
        let now = self.context.clock.now();
        let jobs = self.advance(now).in_session(session);
        for job in jobs {
            self.restart_job_manager(&job);
        }
    }

    /// Ends the jobs of a session cluster that is gone; it was the only one that knew of them.
    fn lose_all(&self, session: &Key, at: Timestamp) {
        let mut state = self.advance(at);
        for key in state.in_session(session) {
            if let Some(mut job) = state.clusters.remove(&key) {
                let happened = job.lose(at);
                self.report(&mut state, &key, &job.submission, happened);
            }
            state.metadata.remove(&key);
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Records that the operator has told the world of a handle.
    pub fn told(&self, key: &Key, uid: &str, handle: &str) {
        let now = self.context.clock.now();
        self.context
            .ledger
            .handle_told(&self.workload(key), &self.writer(uid), now, handle);
    }

    /// Returns all pods that exist now, in the order of their names.
    pub fn pods(&self) -> Vec<PodView> {
        self.pods_until().0
    }

    /// Returns the pods, and until when they stay as they are by themselves.
    pub fn pods_until(&self) -> (Vec<PodView>, Timestamp) {
        let now = self.context.clock.now();
        let state = self.advance(now);
        let pods = state.clusters.iter();
        let pods = pods.flat_map(|((namespace, name), cluster)| cluster.pods(namespace, name, now));
        let looks = state.clusters.values();
        let looks = looks.filter_map(|cluster| cluster.next_look(now));
        let hosted = self.hosted.as_ref().and_then(|hosted| hosted.next_change());
        let next = looks.chain(hosted).min();
        (pods.collect(), next.unwrap_or(Timestamp::MAX))
    }

    /// Lets everything happen that is due, and returns when more does.
    fn next_change(&self) -> Option<Timestamp> {
        let state = self.advance(self.context.clock.now());
        state.clusters.values().filter_map(Cluster::next_change).min()
    }

    /// Waits until something is requested, or until a moment from [`Self::pods_until`], which may be over: what has changed by
    /// itself since then, whoever looked meanwhile, is not slept through.
    pub async fn changed(&self, watch: &mut watch::Receiver<()>, until: Timestamp) {
        tokio::select! {
            () = self.context.clock.sleep_until(until) => {}
            _ = watch.changed() => {}
        }
    }

    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    async fn until<T>(&self, key: &Key, ready: impl Fn(Option<&Cluster>) -> Option<T>) -> T {
        let mut watch = self.subscribe();
        loop {
            watch.mark_unchanged();
            let now = self.context.clock.now();
            let next = {
                let state = self.advance(now);
                let cluster = state.clusters.get(key);
                if let Some(value) = ready(cluster) {
                    return value;
                }
                cluster.and_then(Cluster::next_change)
            };
            tokio::select! {
                () = self.context.clock.sleep_until(next.unwrap_or(Timestamp::MAX)) => {}
                _ = watch.changed() => {}
            }
        }
    }

    fn begin_delete(&self, key: &Key, keep_metadata: bool) {
        let now = self.context.clock.now();
        let mut state = self.advance(now);
        if let Some(cluster) = state.clusters.get_mut(key) {
            cluster.delete(now);
            state.keep_metadata.insert(key.clone(), keep_metadata);
        }
        if !keep_metadata {
            state.metadata.remove(key);
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Lets everything happen that is due and reports it.
    fn advance(&self, now: Timestamp) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due =
            |cluster: &Cluster| cluster.next_change().is_some_and(|due| due <= now) || cluster.is_gone(now);
        let due = state.clusters.iter().filter(|(_, cluster)| is_due(cluster));
        let due: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            let Some(mut cluster) = state.clusters.remove(&key) else {
                continue;
            };
            let happened = cluster.advance(now, |restore| self.find(restore, state.metadata.get(&key)));
            self.report(&mut state, &key, &cluster.submission, happened);
            if cluster.is_gone(now) {
                self.bury(&mut state, &key, &cluster, now);
            } else {
                state.clusters.insert(key, cluster);
            }
        }
        state
    }

    fn find(&self, restore: &Restore, metadata: Option<&Option<Handle>>) -> Found {
        match restore {
            Restore::Empty => Found::Nothing,
            Restore::Savepoint(path) => match self.context.savepoints.get(path) {
                Some(savepoint) => Found::State(Handle {
                    path: path.clone(),
                    records: savepoint.records,
                }),
                None => Found::Missing(format!(
                    "Cannot find checkpoint or savepoint file/directory '{path}'"
                )),
            },
            Restore::LastState => match metadata {
                Some(Some(handle)) => Found::State(handle.clone()),
                Some(None) => Found::Nothing,
                None => Found::Missing("there is no HA metadata to restore from".to_owned()),
            },
        }
    }

    fn report(&self, state: &mut State, key: &Key, submission: &Submission, happened: Vec<Happened>) {
        let (ledger, workload, writer): (&Ledger, _, _) = (
            &self.context.ledger,
            self.workload(key),
            self.writer(&submission.uid),
        );
        let store = |at, handle: &Handle| {
            self.context.savepoints.put(
                &handle.path,
                Savepoint {
                    job_id: submission.job_id.clone(),
                    records: handle.records,
                    taken_at: at,
                },
            );
        };
        for fact in happened {
            match fact {
                Happened::Started { at, from, by_itself } => {
                    // The running JobManager holds the metadata from now on.
                    state.metadata.remove(key);
                    ledger.writer_started(Start {
                        workload: workload.clone(),
                        writer: writer.clone(),
                        group: Group::Stateful,
                        at,
                        handle_given: submission.handle_given.clone(),
                        writes: from.as_ref().map_or(0, |handle| handle.records),
                        restored_from: from.map_or(Origin::Empty, |handle| Origin::Handle(handle.path)),
                        by_itself,
                    });
                }
                Happened::Stopped { at } => ledger.writer_stopped(&workload, &writer, at),
                Happened::Taken { at, handle } => {
                    store(at, &handle);
                    ledger.handle_taken(&workload, &writer, at, &handle.path, handle.records);
                }
                Happened::Retained { at, handle } => {
                    store(at, &handle);
                    ledger.handle_retained(&workload, &writer, at, &handle.path, handle.records);
                }
            }
        }
    }

    /// Keeps the HA metadata of a cluster that is gone, if it is to be kept and its job could come back.
    fn bury(&self, state: &mut State, key: &Key, cluster: &Cluster, now: Timestamp) {
        if let Some(hosted) = self.hosts(&cluster.submission) {
            hosted.lose_all(key, cluster.gone_at().unwrap_or(now));
        }
        let keep = state.keep_metadata.remove(key).unwrap_or(false);
        let dies_alive = cluster.job_state() == JobState::Suspended && cluster.came_up();
        if !keep || !cluster.submission.high_availability || !dies_alive {
            return;
        }
        let handle = cluster
            .checkpoint(now)
            .or_else(|| state.metadata.get(key).cloned().flatten());
        self.named_by_metadata(key, &cluster.submission.uid, handle.as_ref());
        state.metadata.insert(key.clone(), handle);
    }

    /// What HA metadata names is the newest state that a job goes back to by itself, even where that is what it was started from.
    fn named_by_metadata(&self, key: &Key, uid: &str, handle: Option<&Handle>) {
        let Some(handle) = handle else { return };
        let now = self.context.clock.now();
        self.context.ledger.handle_retained(
            &self.workload(key),
            &self.writer(uid),
            now,
            &handle.path,
            handle.records,
        );
    }

    fn workload(&self, (namespace, name): &Key) -> ObjectKey {
        ObjectKey {
            group: "flink.apache.org".to_owned(),
            kind: self.kind.name().to_owned(),
            namespace: Some(namespace.clone()),
            name: name.clone(),
        }
    }

    fn writer(&self, uid: &str) -> Writer {
        Writer {
            cluster: self.context.cluster.clone(),
            uid: uid.to_owned(),
        }
    }

    /// Returns a generator for one name, the same in every run of the same seed.
    fn draw(&self) -> fastrand::Rng {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ids += 1;
        self.context.rng(state.ids)
    }
}

/// The name has the first digits of the job's id (Flink, `AbstractFsCheckpointStorageAccess`).
fn savepoint_path(submission: &Submission, rng: &mut fastrand::Rng) -> String {
    let id = submission.job_id.get(..6).unwrap_or("000000");
    let suffix = rng.u64(..1 << 48);
    format!("{}/savepoint-{id}-{suffix:012x}", submission.savepoint_dir)
}
