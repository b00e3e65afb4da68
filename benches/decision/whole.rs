//! From a push that changes one policy among many to the request that creates its Migration, with every read that the decision
//! needs: Git is on this machine, and the API server, the sandbox's, in this process. There are no controllers of Karmada.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::{self, Options};
use cutover::repo::Polling;
use cutover::sandbox::api::{Patch, Resource, Subresource};
use cutover_testing::plane::{self, Plane, config, settings};
use cutover_testing::server::On;
use cutover_testing::wait::until;
use http::Method;
use kube::client::Body;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::push::{NAMESPACE, binding, cluster, job, manifest, own, owned_by};
use super::{at, millis};

const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const KARMADA: &str = "karmada";
/// Each on a control plane and with a repository of its own.
const ROUNDS: usize = 5;
const POLLS: Duration = Duration::from_millis(5);

/// What was asked of the API server.
#[derive(Clone, Copy, Default)]
struct Asked {
    requests: usize,
    /// When a Migration was, and the number of that request.
    created: Option<(Instant, usize)>,
}

type Trace = Arc<Mutex<Asked>>;

fn asked(trace: &Trace) -> std::sync::MutexGuard<'_, Asked> {
    trace.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn row(sizes: &[usize]) {
    println!(
        "\n| workloads | from the push to the Migration p50 | most | requests until then |\n|---|---|---|---|"
    );
    for &size in sizes {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| Runtime::new().unwrap().block_on(round(size)))
            .collect();
        let mut times: Vec<Duration> = rounds.iter().map(|(took, _)| *took).collect();
        times.sort_unstable();
        let requests = rounds.iter().map(|(_, requests)| *requests).max();
        println!(
            "| {size} | {} | {} | {} |",
            millis(at(&times, 50)),
            millis(at(&times, 100)),
            requests.unwrap_or_default(),
        );
    }
}

async fn round(size: usize) -> (Duration, usize) {
    let plane = fleet(size);
    plane.run().await;
    place(&plane, size);
    let trace = Trace::default();
    let options = Options {
        polling: Some(Polling {
            interval: POLLS,
            ..Polling::default()
        }),
        ..Options::new(
            plane.repo(),
            Cluster::from_client(client(&plane, &trace), Limits::default()),
        )
    };
    let cancel = CancellationToken::new();
    let running = tokio::spawn(reconcile::run(options, cancel.clone()));
    // What there is to do at the beginning comes before it.
    plane.push(&[("ready.yaml", &config("ready"))]);
    until("the reconciler is at work", || plane.config("ready").is_some()).await;
    let changed = own(0, "west").to_string();
    plane.push(&[(&policy_file(0), &changed)]);
    let pushed = Instant::now();
    let before = asked(&trace).requests;
    until("a Migration is created", || asked(&trace).created.is_some()).await;
    let (created, number) = asked(&trace).created.unwrap();
    cancel.cancel();
    running.await.unwrap().unwrap();
    (created.duration_since(pushed), number - before)
}

fn policy_file(number: usize) -> String {
    format!("policies/{}.yaml", job(number))
}

/// So many workloads in Git, each with a policy of its own.
fn fleet(size: usize) -> Plane {
    let settings = settings("- {name: main, gate: {migrations: {mode: Auto}}}");
    let mut files = vec![
        (plane::NAMESPACE.0.to_owned(), plane::NAMESPACE.1.to_owned()),
        ("cutover.yaml".to_owned(), settings),
    ];
    for number in 0..size {
        files.push((policy_file(number), own(number, "east").to_string()));
        files.push((format!("jobs/{}.yaml", job(number)), manifest(number).to_string()));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    Plane::with(On::Sandbox, &files)
}

/// Does what Karmada would: its members are joined, and each workload is in east.
fn place(plane: &Plane, size: usize) {
    let server = &plane.server;
    for name in ["east", "west", "north"] {
        let cluster = cluster(name);
        let status = Patch::Merge(json!({"status": cluster["status"]}));
        server.create(&CLUSTERS, None, cluster, KARMADA);
        let part = Some(Subresource::Status);
        server.patch(&CLUSTERS, None, name, part, &status, KARMADA);
    }
    for number in 0..size {
        server.create(&BINDINGS, Some(NAMESPACE), binding(number), KARMADA);
        let name = job(number);
        let owner = Patch::Merge(json!({"metadata": {"annotations": owned_by(&name)}}));
        server.patch(&JOBS, Some(NAMESPACE), &name, None, &owner, KARMADA);
    }
}

/// Returns a client that writes down what it asks for, other than watches.
fn client(plane: &Plane, trace: &Trace) -> kube::Client {
    let (inner, trace) = (plane.server.client(), Arc::clone(trace));
    let tracing = tower::service_fn(move |request: http::Request<Body>| {
        let uri = request.uri();
        let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
        let creates = *request.method() == Method::POST && uri.path().ends_with("/migrations");
        if !watches {
            let mut asked = asked(&trace);
            asked.requests += 1;
            if creates {
                let number = asked.requests;
                asked.created.get_or_insert((Instant::now(), number));
            }
        }
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    kube::Client::new(tracing, "default")
}
