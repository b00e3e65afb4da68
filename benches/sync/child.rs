//! A reconciler in a process of its own, and what its parent asks of it: the memory and the time of the one are not
//! those of the server and the bench.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use cutover::cluster::{Cluster, Limits, Observer};
use cutover::config::Config;
use cutover::reconcile::intents::{self, NoFailpoints, Parts};
use cutover::reconcile::sync::{Selection, Sync};
use cutover::reconcile::{GitRecords, Publisher, Reports};
use cutover::repo::{Options, Polling, Repo};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(30);

/// How a reconciler stands; times count from its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// When Git was read.
    pub read_ms: f64,
    /// When the first lists were complete.
    pub listed_ms: f64,
    /// When everything was in sync first.
    pub synced_ms: f64,
    /// How many objects were in sync at last.
    pub in_sync: usize,
    /// All that were sent but watches.
    pub requests: u64,
    pub writes: u64,
    pub last_write_micros: u64,
    pub polls: u64,
    pub cpu_ms: f64,
    pub resident_kib: u64,
    pub peak_kib: u64,
}

/// The parent's end.
pub struct Child {
    process: std::process::Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Child {
    pub fn start(kubeconfig: &Path, url: &str, state: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg("child")
            .arg(kubeconfig)
            .arg(url)
            .arg(state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pipes = (
            process.stdin.take().unwrap(),
            BufReader::new(process.stdout.take().unwrap()),
        );
        Self {
            process,
            pipes: Mutex::new(pipes),
        }
    }

    pub fn state(&self) -> State {
        let mut pipes = self.pipes.lock().unwrap();
        writeln!(pipes.0, "state").unwrap();
        let mut line = String::new();
        pipes.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub async fn synced(&self, objects: usize) -> State {
        self.until(|state| state.in_sync == objects && state.synced_ms > 0.0)
            .await
    }

    pub async fn until(&self, holds: impl Fn(&State) -> bool) -> State {
        let begun = Instant::now();
        loop {
            let state = self.state();
            if holds(&state) {
                return state;
            }
            assert!(begun.elapsed() < PATIENCE, "{state:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    writes: AtomicU64,
    last_write_micros: AtomicU64,
}

fn named(sync: &Sync) -> Reports {
    Reports {
        name: "main".to_owned(),
        latest: sync.reports(),
        unread: sync.unread(),
    }
}

/// The reconciler: what `cutover run` is made of.
#[expect(clippy::too_many_lines, reason = "a whole reconciler, part by part")]
pub async fn run(kubeconfig: &str, url: &str, state: &str) {
    let begun = Instant::now();
    let counts = Arc::new(Counts::default());
    let cluster = cluster(kubeconfig, &counts).await;
    let options = Options::new(url.parse().unwrap(), "main", state);
    let repo = Repo::open(options, CancellationToken::new()).await.unwrap();
    let observer = Observer::new(cluster.clone());
    for kind in intents::watched() {
        observer.watch(kind);
    }
    let config = Config::default();
    let selection = Selection::of(&config, &config.syncs[0]);
    let sync = Sync::new(repo.clone(), cluster.clone(), observer.clone(), selection);
    let (mut desired, mut reports) = (sync.desired().subscribe(), sync.reports());
    let latest = reports.clone();
    let parts = Parts {
        cluster,
        observer: observer.clone(),
        records: Arc::new(GitRecords::new(repo.clone())),
        templates: Arc::new(sync.desired()),
        metrics: Arc::new(intents::NoMetrics),
        notifier: None,
        clock: Arc::new(jiff::Timestamp::now),
        failpoints: Arc::new(NoFailpoints),
        canaries: intents::Canaries::default(),
        fits: intents::Fits::default(),
        telemetry: cutover::telemetry::Telemetry::default(),
    };
    tokio::spawn(intents::run(parts, CancellationToken::new()));
    let reported = vec![named(&sync)];
    tokio::spawn(Publisher::new(repo, observer.clone(), reported).run(CancellationToken::new()));
    let polling = Polling {
        interval: Duration::from_secs(1),
        ..Polling::default()
    };
    tokio::spawn(sync.run(polling, CancellationToken::new()));

    let times = Arc::new(Mutex::new(State::default()));
    let noted = Arc::clone(&times);
    tokio::spawn(async move {
        let ms = || begun.elapsed().as_secs_f64() * 1e3;
        desired.changed().await.unwrap();
        noted.lock().unwrap().read_ms = ms();
        observer.settled(PATIENCE).await;
        noted.lock().unwrap().listed_ms = ms();
        let synced = |report: &Option<Arc<_>>| {
            report
                .as_ref()
                .is_some_and(|report: &Arc<cutover::reconcile::sync::SyncReport>| report.is_clean())
        };
        reports.wait_for(synced).await.unwrap();
        noted.lock().unwrap().synced_ms = ms();
    });

    let answer = move || {
        let in_sync = latest
            .borrow()
            .as_ref()
            .map_or(0, |report| if report.is_clean() { report.desired } else { 0 });
        let (resident_kib, peak_kib) = memory();
        State {
            in_sync,
            requests: counts.requests.load(Ordering::SeqCst),
            writes: counts.writes.load(Ordering::SeqCst),
            last_write_micros: counts.last_write_micros.load(Ordering::SeqCst),
            polls: begun.elapsed().as_secs(),
            cpu_ms: cpu_ms(),
            resident_kib,
            peak_kib,
            ..times.lock().unwrap().clone()
        }
    };
    let talk = move || {
        for _ in std::io::stdin().lock().lines() {
            println!("{}", serde_json::to_string(&answer()).unwrap());
        }
    };
    tokio::task::spawn_blocking(talk).await.unwrap();
    std::process::exit(0);
}

async fn cluster(kubeconfig: &str, counts: &Arc<Counts>) -> Cluster {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let inner: kube::Client = ClientBuilder::try_from(config).unwrap().build();
    let counts = Arc::clone(counts);
    let counting = tower::service_fn(move |request: http::Request<Body>| {
        let is_read = request.method() == http::Method::GET;
        let query = request.uri().query().unwrap_or_default();
        if !(is_read && query.contains("watch=true")) {
            counts.requests.fetch_add(1, Ordering::SeqCst);
        }
        if !is_read {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let micros = u64::try_from(now.as_micros()).unwrap();
            counts.last_write_micros.store(micros, Ordering::SeqCst);
            counts.writes.fetch_add(1, Ordering::SeqCst);
        }
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Cluster::from_client(kube::Client::new(counting, "default"), Limits::default())
}

/// Returns resident memory now and at its highest, in KiB.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// Returns the processor time of the process so far; it counts in hundredths of a second.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap() * 10.0).sum()
}
