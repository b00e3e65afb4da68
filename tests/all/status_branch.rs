//! The status branch while things move: few commits, and no reconcile that waits for them.

use std::time::{Duration, Instant};

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::{self, Options};
use cutover::repo::{Polling, RemoteUrl};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::git::{Http, Origin, options};
use crate::support::plane::CONFIG_MAPS;
use crate::support::server::{On, Server};

const STATUS: &str = "cutover-status";
/// Who is refused, and in which words, on whatever host.
const PROTECTED: &str = "[ \"$1\" != refs/heads/cutover-status ] || { echo 'GH006: Protected branch update failed' >&2; exit 1; }";

fn config(every: &str) -> String {
    format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nstatus: {{every: {every}}}\n")
}

fn map(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: shop}}\ndata: {{text: {text}}}\n"
    )
}

const NAMESPACE: (&str, &str) = (
    "ns.yaml",
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
);

/// A reconciler that runs until it is dropped.
struct Running {
    server: Server,
    _state: TempDir,
    _stop: DropGuard,
}

impl Running {
    fn on(url: RemoteUrl) -> Self {
        let server = On::Sandbox.server();
        let state = tempfile::tempdir().unwrap();
        let options = Options {
            polling: Some(Polling {
                interval: Duration::from_millis(50),
                ..Polling::default()
            }),
            ..Options::new(
                options(url, state.path()),
                Cluster::from_client(server.client(), Limits::default()),
            )
        };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        tokio::spawn(async move { reconcile::run(options, stop).await.unwrap() });
        Self {
            server,
            _state: state,
            _stop: cancel.drop_guard(),
        }
    }

    fn has(&self, text: &str) -> bool {
        let map = self.server.get(&CONFIG_MAPS, Some("shop"), "a");
        map.is_some_and(|map| map["data"]["text"] == text)
    }
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn status(origin: &Origin) -> Option<Value> {
    serde_yaml::from_str(&origin.read(STATUS, "status.yaml")?).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_status_branch_stops_nothing_and_is_used_when_it_may_be() {
    let origin = Origin::with(&[
        ("cutover.yaml", &config("1s")),
        NAMESPACE,
        ("a.yaml", &map("one")),
    ]);
    origin.hook("update", PROTECTED);
    let server = Http::of(origin.root()).start();
    let running = Running::on(server.http());
    until("it is applied", || running.has("one")).await;
    let tip = origin.commit("main", &[("a.yaml", &map("two"))]);
    until("the next one is applied, too", || running.has("two")).await;
    assert_eq!(origin.tip(STATUS), None);
    origin.hook("update", "exit 0");
    until("the branch says so", || {
        status(&origin).is_some_and(|status| status["revision"] == tip.as_str())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pushes_are_a_few_commits_and_the_last_one_is_told() {
    let origin = Origin::with(&[
        ("cutover.yaml", &config("2s")),
        NAMESPACE,
        ("a.yaml", &map("begin")),
    ]);
    let running = Running::on(origin.url());
    until("it is applied", || running.has("begin")).await;
    let began = Instant::now();
    let mut tip = None;
    for number in 0..100 {
        tip = Some(origin.commit("main", &[("a.yaml", &map(&format!("n{number}")))]));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let tip = tip.unwrap();
    until("the last one is told", || {
        status(&origin).is_some_and(|status| status["revision"] == tip.as_str())
    })
    .await;
    let took = began.elapsed();
    let repo = origin.repo();
    let mut walk = repo.revwalk().unwrap();
    walk.push_ref(&format!("refs/heads/{STATUS}")).unwrap();
    let commits = walk.count();
    let most = 2 + usize::try_from(took.as_secs()).unwrap() / 2 + 1;
    assert!(commits <= most, "{commits} commits in {took:?}");
}
