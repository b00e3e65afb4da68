//! The status branch while things move: few commits, and no reconcile that waits for them.

use std::time::{Duration, Instant};

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::lease::LeaseOptions;
use cutover::reconcile::{self, Elsewhere, Options};
use cutover::repo::{Credentials, Polling, RemoteUrl, Trigger};
use cutover::sandbox::api::Resource;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::git::{Http, Origin, options};
use crate::support::plane::CONFIG_MAPS;
use crate::support::server::{On, Server};
use crate::support::wait::wait_for;

const EVENTS: Resource = Resource::new("", "events");
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
        Self::with(url, |_| {})
    }

    fn with(url: RemoteUrl, change: impl FnOnce(&mut Options)) -> Self {
        let server = On::Sandbox.server();
        let state = tempfile::tempdir().unwrap();
        let mut options = Options {
            polling: Some(Polling {
                interval: Duration::from_millis(50),
                ..Polling::default()
            }),
            ..Options::new(
                options(url, state.path()),
                Cluster::from_client(server.client(), Limits::default()),
            )
        };
        change(&mut options);
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        tokio::spawn(async move { reconcile::run(options, stop).await.unwrap() });
        Self {
            server,
            _state: state,
            _stop: cancel.drop_guard(),
        }
    }

    /// Returns reason and note of what was told of the reconciler itself.
    fn told(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.server.list(&EVENTS, Some("cutover-system"));
        let own = events
            .iter()
            .filter(|event| event["involvedObject"]["kind"] == "Lease");
        own.map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect()
    }

    fn has(&self, text: &str) -> bool {
        let map = self.server.get(&CONFIG_MAPS, Some("shop"), "a");
        map.is_some_and(|map| map["data"]["text"] == text)
    }
}

async fn until(what: &str, is: impl FnMut() -> bool) {
    wait_for(what).within(Duration::from_mins(1)).until(is).await;
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
    let running = Running::with(server.http(), |options| {
        options.lease = Some(LeaseOptions::new("it".to_owned()));
    });
    until("it is applied", || running.has("one")).await;
    let tip = origin.commit("main", &[("a.yaml", &map("two"))]);
    until("the next one is applied, too", || running.has("two")).await;
    assert_eq!(origin.tip(STATUS), None);
    until("the cluster is told", || {
        let told = running.told();
        told.iter()
            .any(|(reason, note)| reason == "StatusRefused" && note.contains("GH006"))
    })
    .await;
    origin.hook("update", "exit 0");
    until("the branch says so", || {
        status(&origin).is_some_and(|status| status["revision"] == tip.as_str())
    })
    .await;
    until("the cluster is told that it is over", || {
        running
            .told()
            .iter()
            .any(|(reason, _)| reason == "StatusPublished")
    })
    .await;
    let told = running.told();
    assert_eq!(told.len(), 2, "each once, however often it was tried: {told:?}");
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

/// Returns the messages of a branch, the newest first.
fn messages(origin: &Origin, branch: &str) -> Vec<String> {
    let repo = origin.repo();
    let mut walk = repo.revwalk().unwrap();
    walk.push_ref(&format!("refs/heads/{branch}")).unwrap();
    let commits = walk.map(|id| repo.find_commit(id.unwrap()).unwrap());
    commits
        .map(|commit| commit.message().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn status_in_a_folder_of_the_branch_that_is_synced_is_no_news_and_is_not_synced() {
    let config =
        "apiVersion: cutover.dev/v1alpha1\nkind: Config\nstatus: {directory: fleet/told, every: 1s}\n";
    let origin = Origin::with(&[("cutover.yaml", config), NAMESPACE, ("a.yaml", &map("one"))]);
    let http = Http::of(origin.root()).start();
    let trigger = Trigger::default();
    let running = Running::with(http.http(), |options| options.repo.trigger = trigger.clone());
    let told = |origin: &Origin| -> Option<Value> {
        serde_yaml::from_str(&origin.read("main", "fleet/told/status.yaml")?).ok()
    };
    let says = |revision: &str| told(&origin).is_some_and(|told| told["revision"] == revision);
    let mut pushed = vec![origin.tip("main").unwrap()];
    until("the first commit is told of", || says(pushed[0].as_str())).await;
    for text in ["two", "three"] {
        // Somebody pushes onto what was committed last, as after `git pull`.
        let tip = origin.tip("main").unwrap();
        // What stands in the folder is nobody's desired state, whoever wrote it.
        let stray = map("stray").replace("name: a", "name: stray");
        let files = [("a.yaml", map(text)), ("fleet/told/stray.yaml", stray)];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        pushed.push(origin.commit_on("main", Some(&tip), &files));
        until("it is applied", || running.has(text)).await;
        until("it is told of", || says(pushed[pushed.len() - 1].as_str())).await;
        // As a webhook says it of our own commit.
        let looks = http.connections();
        trigger.now();
        until("it is looked at", || http.connections() > looks + 2).await;
    }
    let stray = running.server.get(&CONFIG_MAPS, Some("shop"), "stray");
    assert_eq!(stray, None);
    for message in messages(&origin, "main")
        .iter()
        .filter(|message| message.contains("Cutover-"))
    {
        let revision = message
            .lines()
            .find_map(|line| line.strip_prefix("Cutover-Revision: "));
        let of_somebody = pushed.iter().any(|pushed| Some(pushed.as_str()) == revision);
        assert!(of_somebody, "it tells of a commit of its own:\n{message}");
    }
    assert_eq!(origin.tip(STATUS), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_goes_to_another_repository_which_the_operator_names() {
    let config = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nstatus: {branch: cutover-status, directory: east, every: 1s}\n";
    let origin = Origin::with(&[("cutover.yaml", config), NAMESPACE, ("a.yaml", &map("one"))]);
    let first = origin.tip("main").unwrap();
    let elsewhere = Origin::with(&[("README.md", "what clusters do")]);
    elsewhere.commit(STATUS, &[("west/status.yaml", "of another one")]);
    let (source, there) = (
        Http::of(origin.root()).start(),
        Http::of(elsewhere.root()).start(),
    );
    let running = Running::with(source.http(), |options| {
        options.status_repo = Some(Elsewhere {
            url: there.http(),
            credentials: Credentials::default(),
        });
    });
    until("it is applied", || running.has("one")).await;
    until("the other repository says so", || {
        let told = elsewhere.read(STATUS, "east/status.yaml");
        told.is_some_and(|told| told.contains(first.as_str()))
    })
    .await;
    assert_eq!(
        elsewhere.read(STATUS, "west/status.yaml").as_deref(),
        Some("of another one")
    );
    assert_eq!(origin.tip("main").unwrap(), first);
    assert_eq!(origin.tip(STATUS), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_names_somebody_elses_branch_for_status_changes_nothing_there() {
    let origin = Origin::with(&[
        ("cutover.yaml", &config("1s")),
        NAMESPACE,
        ("a.yaml", &map("one")),
    ]);
    for number in 0..3 {
        origin.commit("production", &[("release", &number.to_string())]);
    }
    let production = origin.tip("production");
    let running = Running::on(origin.url());
    until("it is told", || status(&origin).is_some()).await;
    let bad = config("1s").replace("every", "branch: production, keepDays: 1, every");
    let tip = origin.commit("main", &[("cutover.yaml", &bad), ("a.yaml", &map("two"))]);
    until("what else it changes is applied", || running.has("two")).await;
    until("it is told where it was told before", || {
        status(&origin).is_some_and(|status| status["revision"] == tip.as_str())
    })
    .await;
    assert_eq!(origin.tip("production"), production);
    // And a reconciler doesn't begin with it.
    let state = tempfile::tempdir().unwrap();
    let cluster = Cluster::from_client(running.server.client(), Limits::default());
    let anew = Options::new(options(origin.url(), state.path()), cluster);
    let error = reconcile::once(anew, CancellationToken::new()).await.unwrap_err();
    assert!(
        error.to_string().contains("\"production\" is none of those"),
        "{error}"
    );
    assert_eq!(origin.tip("production"), production);
}
