//! What runs in a member cluster: simulated workload operators, one file or folder an operator.
//!
//! Each works through a kube client alone, so that it can also act in a real member that has no kubelet. Two halves,
//! as in life: the *runtime* (jobs and pods, garbage collection) goes on whatever happens to the *operators* (which can
//! be frozen, crash, and see an old state of the API server). Neither knows of Karmada or of cutover.

pub mod batch;
mod cache;
mod counter;
pub mod cron_job;
mod deployment;
pub mod flink;
mod frame;
pub mod kafka_connect;
mod kind;
mod mono_vertex;
pub mod pipeline;
mod pod_set;
mod pods;
mod ray_cluster;
mod ray_service;
pub mod savepoints;
mod scaled;
mod status;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::pods::{PodPhase, PodView, node_name};
use self::savepoints::Savepoints;
use crate::ledger::Ledger;
use cutover_karmada::name::ClusterName;

/// How long things take. The default is brisk; [`Timings::installed`] is what a plain installation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timings {
    /// From a pod's creation until it is ready.
    pub pod_start: Duration,
    /// From a ready `JobManager` until the job runs.
    pub job_start: Duration,
    /// From the request to stop with a savepoint until it is complete.
    pub savepoint: Duration,
    pub cancel: Duration,
    /// From the deletion of a cluster until its last pod is gone.
    pub teardown: Duration,
    pub checkpoint_interval: Duration,
    /// How long `TaskManager`s outlive their job.
    pub task_manager_idle: Duration,
    /// `kubernetes.operator.reconcile.interval`.
    pub reconcile_interval: Duration,
    /// `kubernetes.operator.observer.progress-check.interval`.
    pub progress_check: Duration,
    /// `kubernetes.operator.observer.rest-ready.delay`.
    pub rest_ready: Duration,
    /// Before a request that failed is tried again.
    pub retry: Duration,
    /// How often Flink's operator works on one object; without it, as often as there is something to do.
    pub rate_limit: Option<RateLimit>,
}

/// How often Flink's operator works on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// `kubernetes.operator.rate-limiter.limit`.
    pub passes: u32,
    /// `kubernetes.operator.rate-limiter.refresh-period`.
    pub period: Duration,
}

impl RateLimit {
    /// That of a plain installation.
    pub const INSTALLED: Self = Self {
        passes: 5,
        period: Duration::from_secs(15),
    };
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            pod_start: Duration::from_millis(100),
            job_start: Duration::from_millis(150),
            savepoint: Duration::from_millis(500),
            cancel: Duration::from_millis(150),
            teardown: Duration::from_millis(200),
            checkpoint_interval: Duration::from_secs(10),
            task_manager_idle: Duration::from_millis(100),
            reconcile_interval: Duration::from_millis(500),
            progress_check: Duration::from_millis(50),
            rest_ready: Duration::from_millis(50),
            retry: Duration::from_millis(250),
            rate_limit: None,
        }
    }
}

impl Timings {
    /// Returns the times of a plain installation of Flink and its operator, without its rate limit.
    pub fn installed() -> Self {
        Self {
            pod_start: Duration::from_secs(5),
            job_start: Duration::from_secs(5),
            savepoint: Duration::from_secs(8),
            cancel: Duration::from_secs(2),
            teardown: Duration::from_secs(5),
            checkpoint_interval: Duration::from_mins(1),
            task_manager_idle: Duration::from_secs(30),
            reconcile_interval: Duration::from_mins(1),
            progress_check: Duration::from_secs(10),
            rest_ready: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            rate_limit: None,
        }
    }
}

/// How far an operator's view of the API server is behind, asked for every event.
pub trait Lag: Send + Sync {
    /// `resource` is the plural of what is watched: `flinkdeployments`.
    fn behind(&self, cluster: &ClusterName, resource: &str) -> Duration;
}

impl<F: Fn(&ClusterName, &str) -> Duration + Send + Sync> Lag for F {
    fn behind(&self, cluster: &ClusterName, resource: &str) -> Duration {
        self(cluster, resource)
    }
}

/// Adds a duration to a time; the result is the last time there is when it would be later.
fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The time of the simulation: tokio's, counted from a fixed beginning.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Instant,
    epoch: Timestamp,
}

impl Clock {
    /// Starts a clock that reads `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self {
            begin: Instant::now(),
            epoch,
        }
    }

    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.begin.elapsed()).unwrap_or(SignedDuration::MAX);
        self.epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Waits until a time; for ever when it is the last there is.
    pub async fn sleep_until(&self, at: Timestamp) {
        if at == Timestamp::MAX {
            std::future::pending::<()>().await;
        }
        let wait = at.duration_since(self.now());
        tokio::time::sleep(Duration::try_from(wait).unwrap_or(Duration::ZERO)).await;
    }
}

/// What of a member the simulators look after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// One namespace; all of them without it.
    pub namespace: Option<String>,
    /// The member has nodes, and runs Deployments by itself: only Flink is simulated, and its pods are on no node.
    pub has_nodes: bool,
}

/// What the simulators of one member share with each other, and with those of other members.
#[derive(Clone)]
pub struct Context {
    pub cluster: ClusterName,
    pub scope: Scope,
    pub seed: u64,
    pub clock: Clock,
    pub ledger: Ledger,
    pub savepoints: Savepoints,
    pub timings: Timings,
    pub lag: Arc<dyn Lag>,
}

impl Context {
    /// Returns the generator of the n-th random thing in this member: the same in every run of the same seed.
    fn rng(&self, n: u64) -> fastrand::Rng {
        // FNV-1a: seeds of neighbouring members and numbers must not resemble each other.
        let bytes = self
            .cluster
            .as_str()
            .bytes()
            .chain(self.seed.to_le_bytes())
            .chain(n.to_le_bytes());
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        fastrand::Rng::with_seed(bytes.fold(0xcbf2_9ce4_8422_2325, mix))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("cluster", &self.cluster)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// Holds up a process while it is frozen.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    fn new() -> Self {
        Self(watch::Sender::new(true))
    }

    /// Waits until the gate is open.
    pub async fn open(&self) {
        // Fails only when the sender is gone, and this is it.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }

    fn set(&self, open: bool) {
        self.0.send_replace(open);
    }
}

/// The simulators of one member; dropped, they stop.
#[derive(Debug)]
pub struct Simulators {
    client: Connection,
    context: Arc<Context>,
    jobs: flink::Jobs,
    gate: Gate,
    operators: JoinSet<()>,
    /// Which kinds Flink's operator looks after.
    flink: Vec<flink::Kind>,
    runtime: JoinSet<()>,
}

/// Starts the simulators of a member on the current tokio runtime.
pub fn spawn(client: Client, context: Context) -> Simulators {
    let context = Arc::new(context);
    let jobs = flink::Jobs::new(Arc::clone(&context));
    let mut runtime = JoinSet::new();
    if !context.scope.has_nodes {
        runtime.spawn(pods::announce_node(client.clone(), Arc::clone(&context)));
    }
    runtime.spawn(flink::show_pods(
        client.clone(),
        Arc::clone(&context),
        jobs.clone(),
    ));
    runtime.spawn(flink::collect_garbage(
        client.clone(),
        Arc::clone(&context),
        jobs.clone(),
    ));
    if !context.scope.has_nodes {
        runtime.spawn(frame::run::<deployment::Rollout>(
            client.clone(),
            Arc::clone(&context),
            deployment::api_resource(),
            deployment::Controller::default(),
        ));
        runtime.spawn(kind::run(client.clone(), Arc::clone(&context), &batch::JOB));
        runtime.spawn(kind::run(client.clone(), Arc::clone(&context), &batch::CRON_JOB));
    }
    let mut simulators = Simulators {
        client: Connection(client),
        context,
        jobs,
        gate: Gate::new(),
        operators: JoinSet::new(),
        flink: vec![flink::Kind::Deployment],
        runtime,
    };
    simulators.restart();
    simulators
}

/// A client, which has no `Debug` of its own.
struct Connection(Client);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Simulators {
    /// Returns the truth about the member's Flink jobs.
    pub fn jobs(&self) -> &flink::Jobs {
        &self.jobs
    }

    /// Simulates a kind that the member has a definition of.
    pub fn simulate(&mut self, kind: &'static kind::Kind) {
        let (client, context) = (self.client.0.clone(), Arc::clone(&self.context));
        self.runtime.spawn(kind::run(client, context, kind));
    }

    /// Lets Flink's operator look after session jobs, too. The member has their definition.
    pub fn operate_session_jobs(&mut self) {
        self.flink.push(flink::Kind::SessionJob);
        self.operate_flink(flink::Kind::SessionJob);
    }

    /// Takes the savepoints that `FlinkStateSnapshot`s ask for, until the operators crash or restart. The member has their definition.
    pub fn take_snapshots(&mut self) {
        self.operators.spawn(flink::snapshots::run(
            self.client.0.clone(),
            Arc::clone(&self.context),
            self.jobs.clone(),
            self.gate.clone(),
        ));
    }

    /// Freezes the operators where they are; jobs run on.
    pub fn freeze(&self) {
        self.gate.set(false);
    }

    pub fn thaw(&self) {
        self.gate.set(true);
    }

    /// Kills the operators; what they remembered is lost, jobs run on.
    pub fn crash(&mut self) {
        self.operators.abort_all();
        self.operators = JoinSet::new();
    }

    /// Starts the operators, after a crash or instead of those that run.
    pub fn restart(&mut self) {
        self.crash();
        for kind in self.flink.clone() {
            self.operate_flink(kind);
        }
    }

    fn operate_flink(&mut self, kind: flink::Kind) {
        self.operators.spawn(flink::operate(
            self.client.0.clone(),
            Arc::clone(&self.context),
            self.jobs.clone(),
            self.gate.clone(),
            kind,
        ));
    }
}
