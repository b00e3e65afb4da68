//! A repository with `cutover.yaml`, a control plane without controllers, and reconcilers that run to the end and are
//! gone: whatever the next one knows, it has from Git and from the API server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover_cluster::{Cluster, Limits};
use cutover_controller::reconcile::sync::{PruneReport, SyncReport};
use cutover_controller::reconcile::{self, Options, Summary};
use cutover_core::error::Error;
use cutover_core::plan::{Change, ChangeSet};
use cutover_git::{self as repo, Polling};
use cutover_sandbox::api::{ApiServer, Patch, Resource};
use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::git::{Origin, options};
use crate::server::{On, Server};

pub const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
pub const NAMESPACES: Resource = Resource::new("", "namespaces");

/// Which requests are refused: those whose method and path hold this text.
type Refusals = Arc<Mutex<Vec<&'static str>>>;

pub struct Plane {
    pub origin: Origin,
    pub server: Server,
    state: TempDir,
    /// Method and path of every write so far.
    writes: Arc<Mutex<Vec<String>>>,
    refused: Refusals,
    /// The same, but for those that are only tried.
    refused_writes: Refusals,
}

impl Plane {
    pub fn with(on: On, files: &[(&str, &str)]) -> Self {
        Self::of(on.server(), files)
    }

    /// On the control plane of a world, which gets cutover's kinds.
    pub fn on(server: &ApiServer, files: &[(&str, &str)]) -> Self {
        for crd in cutover_core::api::crds() {
            server.install(&serde_json::to_value(crd).unwrap()).unwrap();
        }
        Self::of(Server::from(server.clone()), files)
    }

    fn of(server: Server, files: &[(&str, &str)]) -> Self {
        Self {
            origin: Origin::with(files),
            server,
            state: tempfile::tempdir().unwrap(),
            writes: Arc::default(),
            refused: Arc::default(),
            refused_writes: Arc::default(),
        }
    }

    pub fn push(&self, files: &[(&str, &str)]) {
        self.origin.commit("main", files);
    }

    /// A new reconciler does all there is to do.
    pub async fn run(&self) -> Summary {
        self.try_run().await.unwrap()
    }

    /// A new reconciler does all there is to do, or says why it can't begin.
    pub async fn try_run(&self) -> Result<Summary, Error> {
        run_with(self.repo(), self.client(usize::MAX, Arc::default())).await
    }

    /// A new reconciler runs until it is dropped.
    pub fn start(&self) -> Running {
        let client = self.client(usize::MAX, Arc::default());
        let options = Options {
            polling: Some(Polling {
                interval: Duration::from_millis(50),
                ..Polling::default()
            }),
            ..Options::new(self.repo(), Cluster::from_client(client, Limits::default()))
        };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        Running {
            task: tokio::spawn(async move { reconcile::run(options, stop).await.unwrap() }),
            stop: cancel.drop_guard(),
        }
    }

    /// A new reconciler runs until a write that it never gets to send, or whose answer it never gets: then it and all of its tasks are
    /// gone, as with a process. Returns whether it came so far.
    pub async fn run_until(&self, write: usize, answered: bool) -> bool {
        let own = Builder::new_current_thread().enable_all().build().unwrap();
        let stopped = Arc::new(Notify::new());
        let client = {
            let _entered = own.enter();
            self.stopping_client(write, answered, Arc::clone(&stopped))
        };
        let run = run_with(self.repo(), client);
        let process = tokio::task::spawn_blocking(move || {
            own.block_on(async {
                tokio::select! {
                    done = run => {
                        done.unwrap();
                        false
                    }
                    () = stopped.notified() => true,
                }
            })
        });
        process.await.unwrap()
    }

    /// Runs and returns what became of the sync.
    pub async fn sync(&self, name: &str) -> Arc<SyncReport> {
        let summary = self.run().await;
        let found = summary.syncs.into_iter().find(|(sync, _)| sync == name);
        found.unwrap().1
    }

    pub async fn pruned(&self, name: &str) -> PruneReport {
        self.sync(name).await.pruned.clone().unwrap()
    }

    pub async fn plan(&self) -> Vec<Change> {
        self.planned().await.changes
    }

    /// Returns the whole plan, with what is wrong with the files.
    pub async fn planned(&self) -> ChangeSet {
        let client = self.client(usize::MAX, Arc::default());
        let cluster = Cluster::from_client(client, Limits::default());
        let repo = self.repo();
        reconcile::plan(
            &repo,
            &cluster,
            reconcile::Target::Newest,
            &CancellationToken::new(),
        )
        .await
        .unwrap()
        .changes
    }

    pub fn repo(&self) -> repo::Options {
        options(self.origin.url(), self.state.path())
    }

    fn client(&self, stop: usize, stopped: Arc<Notify>) -> kube::Client {
        self.stopping_client(stop, false, stopped)
    }

    fn stopping_client(&self, stop: usize, answered: bool, stopped: Arc<Notify>) -> kube::Client {
        let (client, writes) = (self.server.client(), Arc::clone(&self.writes));
        let (count, refused) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&self.refused));
        let refused_writes = Arc::clone(&self.refused_writes);
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            let is_among = |texts: &Refusals| texts.lock().unwrap().iter().any(|text| line.contains(text));
            let is_tried = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("dryRun"));
            let refuse = is_among(&refused) || !is_tried && is_among(&refused_writes);
            let is_write = *request.method() != Method::GET && !is_tried;
            let number = if is_write {
                count.fetch_add(1, Ordering::SeqCst)
            } else {
                0
            };
            let stops = is_write && number >= stop;
            if is_write && (!stops || answered) {
                writes
                    .lock()
                    .unwrap()
                    .push(format!("{} {}", request.method(), request.uri().path()));
            }
            let (client, stopped) = (client.clone(), Arc::clone(&stopped));
            async move {
                if refuse {
                    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"it is forbidden","reason":"Forbidden","code":403}"#;
                    return Ok(http::Response::builder()
                        .status(403)
                        .body(Body::from(status.as_bytes().to_vec()))
                        .unwrap());
                }
                let is_sent = !stops || answered && number == stop;
                let answer = if is_sent {
                    Some(client.send(request).await)
                } else {
                    None
                };
                if stops {
                    stopped.notify_one();
                    std::future::pending::<()>().await;
                }
                answer.unwrap()
            }
        });
        kube::Client::new(service, "default")
    }

    /// Refuses requests from now on; none when empty.
    pub fn refuse(&self, texts: &[&'static str]) {
        *self.refused.lock().unwrap() = texts.to_vec();
    }

    /// The same, of requests that are not only tried.
    pub fn refuse_writes(&self, texts: &[&'static str]) {
        *self.refused_writes.lock().unwrap() = texts.to_vec();
    }

    /// What was written since the last time.
    pub fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    pub fn get(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.server.get(resource, namespace, name)
    }

    /// Returns a ConfigMap of namespace `shop`.
    pub fn config(&self, name: &str) -> Option<Value> {
        self.get(&CONFIG_MAPS, Some("shop"), name)
    }

    pub fn uid(&self, name: &str) -> String {
        self.config(name).unwrap()["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Merges something into a ConfigMap of namespace `shop`, as somebody.
    pub fn edit(&self, name: &str, patch: Value) {
        self.edit_as("kubectl-edit", name, patch);
    }

    pub fn edit_as(&self, manager: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.server
            .patch(&CONFIG_MAPS, Some("shop"), name, None, &patch, manager);
    }
}

async fn run_with(repo: repo::Options, client: kube::Client) -> Result<Summary, Error> {
    let options = Options::new(repo, Cluster::from_client(client, Limits::default()));
    let run = reconcile::once(options, CancellationToken::new());
    tokio::time::timeout(Duration::from_mins(1), run).await.unwrap()
}

/// A reconciler at work; it ends when this is dropped.
pub struct Running {
    task: JoinHandle<()>,
    stop: DropGuard,
}

impl Running {
    /// Stops it, and waits until it has let go of its directory.
    pub async fn stop(self) {
        let Self { task, stop } = self;
        drop(stop);
        task.await.unwrap();
    }
}

pub const NAMESPACE: (&str, &str) = (
    "apps/shop.yaml",
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
);

pub fn config(name: &str) -> String {
    config_with(name, "{}")
}

/// A ConfigMap with more metadata.
pub fn config_with(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: shop, name: {name}, annotations: {annotations}}}\ndata: {{key: x}}\n"
    )
}

/// `cutover.yaml` with these syncs.
pub fn settings(syncs: &str) -> String {
    format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n{syncs}\n")
}
