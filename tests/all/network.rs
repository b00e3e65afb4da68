//! Networks that fail without a word.

use std::io::copy;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cutover::cluster::{Cluster, ConnectOptions, KindState, Limits, Observer, Watched, connect};
use cutover::error::Kind;
use cutover::name::{GroupKind, Gvk};
use cutover::reconcile::intents::Records;
use cutover::reconcile::{self, GitRecords};
use cutover::repo::{Branch, Repo};
use cutover::sandbox::api::{ApiServer, Options, Resource, WriteOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::git::{Origin, Server, options};
use crate::support::proxy::Proxy;
use crate::support::server::On;
use crate::support::wait::until;

const SOON: Duration = Duration::from_secs(30);

fn create(server: &ApiServer, resource: &'static str, namespace: Option<&str>, object: Value) {
    let somebody = WriteOptions::manager("somebody");
    server
        .create(&Resource::new("", resource), namespace, object, &somebody)
        .unwrap();
}

fn config_map(server: &ApiServer, name: &str) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}});
    create(server, "configmaps", Some("shop"), map);
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_begun_again_from_where_it_stood() {
    let server = ApiServer::new(Options::new("karmada", 1));
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    create(&server, "namespaces", None, shop);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(listener.local_addr().unwrap()).await;
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, "system:admin").await });
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": format!("http://{}", proxy.address)}}],
        "users": [{"name": "it", "user": {}}], "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig),
        limits: Limits {
            idle_timeout: Duration::from_millis(300),
            // Connections that lie idle have fallen silent, too.
            request: Duration::from_secs(1),
            ..Limits::default()
        },
        ..ConnectOptions::default()
    };
    let observer = Observer::new(connect(&options).await.unwrap());
    observer.watch(Watched::all(Gvk::new("v1", "ConfigMap")));
    assert!(observer.heard(SOON).await);
    let sees = async |name: &str| {
        let key = GroupKind::new("", "ConfigMap").key(Some("shop"), name);
        observer.until(SOON, |observer| observer.contains(&key)).await
    };
    config_map(&server, "a");
    assert!(sees("a").await);
    for name in ["b", "c"] {
        proxy.silence();
        config_map(&server, name);
        assert!(sees(name).await, "{name} came while the watch was silent");
    }
    let state = observer.state("", "ConfigMap");
    assert!(matches!(state, Some(KindState::Synced { .. })), "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_run_ends_when_git_cannot_be_reached() {
    let server = On::Sandbox.server();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let state = tempfile::tempdir().unwrap();
    let url = format!("git://{address}/fleet.git").parse().unwrap();
    let cluster = Cluster::from_client(server.client(), Limits::default());
    let options = reconcile::Options::new(options(url, state.path()), cluster);
    let run = reconcile::once(options, CancellationToken::new());
    let error = tokio::time::timeout(SOON, run).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
}

/// Beside a remote that drips for as long as it may, everybody else's work needs threads, too.
#[test]
fn who_waits_for_a_remote_that_drips_holds_no_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (drips, state, cancel) = (
        Server::dripping(),
        tempfile::tempdir().unwrap(),
        CancellationToken::new(),
    );
    let over = cancel.clone().drop_guard();
    runtime.block_on(async {
        let repo = Repo::open(options(drips.status(), state.path()), cancel)
            .await
            .unwrap();
        for _ in 0..8 {
            let repo = repo.clone();
            tokio::spawn(async move { repo.read_fresh(Branch::Status, "STATUS.md").await.is_ok() });
        }
        until("the remote is asked", || drips.connections() > 0).await;
        let other = tokio::task::spawn_blocking(|| ());
        tokio::time::timeout(SOON, other).await.unwrap().unwrap();
    });
    drop(over);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_goes_on_beside_a_remote_that_drips_and_says_so() {
    let (drips, state, cancel) = (
        Server::dripping(),
        tempfile::tempdir().unwrap(),
        CancellationToken::new(),
    );
    let _over = cancel.clone().drop_guard();
    let repo = Repo::open(options(drips.status(), state.path()), cancel)
        .await
        .unwrap();
    let records = GitRecords::new(repo).waiting(Duration::from_millis(50));
    let key = GroupKind::new("cutover.dev", "Migration").key(Some("shop"), "orders");
    let read = tokio::time::timeout(SOON, records.read(&key)).await.unwrap();
    let error = read.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
    assert!(error.to_string().contains("has not answered within"), "{error}");
}

/// A Git server that is as slow as the test wants, and the records on it.
struct Slow {
    origin: Origin,
    records: GitRecords,
    /// Whether conversations go on.
    is_open: Arc<(Mutex<bool>, Condvar)>,
    /// How many conversations have begun.
    begun: Arc<AtomicUsize>,
    /// How many conversations have ended: who asked may have the answer before.
    ended: Arc<AtomicUsize>,
    _state: tempfile::TempDir,
}

const RECORD: &str = "intents/shop/migration-orders.yaml";
const PATIENCE: Duration = Duration::from_millis(100);

impl Slow {
    async fn new() -> Self {
        let (origin, state) = (Origin::empty(), tempfile::tempdir().unwrap());
        origin.commit("cutover-status", &[(RECORD, "version: one")]);
        let daemon = Server::daemon(origin.root());
        let is_open = Arc::<(Mutex<bool>, Condvar)>::default();
        let (begun, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let gate = Arc::clone(&is_open);
        let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
        let slow = Server::start(move |client| {
            begins.fetch_add(1, Ordering::SeqCst);
            let open = gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap();
            drop(open);
            carry(client, TcpStream::connect(("127.0.0.1", daemon.port)).unwrap());
            ends.fetch_add(1, Ordering::SeqCst);
        });
        let url = format!("git://127.0.0.1:{}/fleet.git", slow.port)
            .parse()
            .unwrap();
        let mut options = options(url, state.path());
        "cutover-status".clone_into(&mut options.status_branch);
        let repo = Repo::open(options, CancellationToken::new()).await.unwrap();
        Self {
            records: GitRecords::new(repo).waiting(PATIENCE),
            origin,
            is_open,
            begun,
            ended,
            _state: state,
        }
    }

    fn open(&self) {
        *self.is_open.0.lock().unwrap() = true;
        self.is_open.1.notify_all();
    }

    async fn read(&self) -> Result<Option<Value>, cutover::error::Error> {
        let key = GroupKind::new("cutover.dev", "Migration").key(Some("shop"), "orders");
        self.records.document(&key).await
    }
}

fn carry(client: TcpStream, server: TcpStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let asking = std::thread::spawn(move || {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (server, client);
    let _ = copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = asking.join();
}

/// Every look gives up before the answer comes: one conversation is enough all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_is_there_for_the_next_look() {
    let mut slow = Slow::new().await;
    for _ in 0..3 {
        assert!(slow.read().await.is_err());
    }
    // From here on nobody gives up, however little time the machine has for the conversation.
    slow.records = slow.records.clone().waiting(Duration::from_mins(1));
    slow.open();
    assert_eq!(slow.read().await.unwrap(), Some(json!({"version": "one"})));
    assert_eq!(slow.begun.load(Ordering::SeqCst), 1, "it was asked again");
}

/// Nobody came for it: by now something else may stand there.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_came_long_ago_is_none() {
    let slow = Slow::new().await;
    assert!(slow.read().await.is_err());
    slow.open();
    until("the conversation ends", || slow.ended.load(Ordering::SeqCst) == 1).await;
    slow.origin.commit("cutover-status", &[(RECORD, "version: two")]);
    tokio::time::sleep(PATIENCE * 5).await;
    let mut read = slow.read().await;
    while read.is_err() {
        read = slow.read().await;
    }
    assert_eq!(read.unwrap(), Some(json!({"version": "two"})));
}
