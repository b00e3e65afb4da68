//! The real program as processes that are killed, stopped and told to end, at moments that come from seeds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cutover::api::Phase;
use cutover::cluster::Limits;
use cutover::sandbox::api::status::Reason;
use cutover::sandbox::api::{Admission, Resource, Review, Status};
use cutover::sandbox::faults::{Effect, Rule, Span};
use serde_json::{Value, json};

use crate::support::fleet::opened;
use crate::support::kubectl;
use crate::support::proxy::Proxy;
use crate::support::replica::{CONFIG_MAPS, LEASE, Stage, own};

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const OBJECTS: usize = 1000;
const ONE: &str = "one";
const TWO: &str = "two";
/// More than anything on the way to the end takes here, and less than the default grace period.
const IN_TIME: Duration = Duration::from_secs(15);

const CONFIG: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: all}]\ninterval: 1s\n";
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

/// A thousand objects in ten files; all of them say which version they are of.
fn files(version: &str) -> Vec<(String, String)> {
    let mut files = vec![
        ("cutover.yaml".to_owned(), CONFIG.to_owned()),
        ("namespace.yaml".to_owned(), NAMESPACE.to_owned()),
    ];
    for file in 0..10 {
        let mut text = String::new();
        for number in (file * OBJECTS / 10)..((file + 1) * OBJECTS / 10) {
            let _ = write!(
                text,
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number:04}, namespace: shop}}\n\
                 data: {{version: {version:?}, number: \"{number}\"}}\n"
            );
        }
        files.push((format!("maps-{file}.yaml"), text));
    }
    files
}

async fn stage(version: &str) -> Stage {
    let files = files(version);
    Stage::with(&borrowed(&files)).await
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect()
}

/// Writes of the objects take their time, so that what is to happen in the middle of them does.
fn slowly(stage: &Stage) {
    let delay = Effect::Delay(Span::millis(50, 50));
    let rule = Rule::new(delay).resource("configmaps").verb("patch");
    stage.world.faults().requests(rule);
}

/// After so many more writes of the objects a replica gets no more answers, until the faults end.
fn stalls_after(stage: &Stage, name: &str, writes: u32) -> Stalled {
    let rule = |delay| {
        let delay = Effect::Delay(Span::millis(delay, delay));
        Rule::new(delay).user(name).resource("configmaps").verb("patch")
    };
    let faults = stage.world.faults();
    faults.requests(rule(0).times(writes)).requests(rule(60_000));
    Stalled {
        name: name.to_owned(),
        at: patches(stage, name) + u64::from(writes) + Limits::default().in_flight as u64,
    }
}

fn patches(stage: &Stage, name: &str) -> u64 {
    let traffic = stage.world.traffic();
    traffic.count(|asked| asked.user == name && asked.resource == "configmaps" && asked.verb == "patch")
}

struct Stalled {
    name: String,
    at: u64,
}

impl Stalled {
    /// Waits until as many requests as may be under way at once are, and none is on its way to the server.
    async fn begins(&self, stage: &Stage) {
        stage
            .until("no more are sent", |stage| patches(stage, &self.name) == self.at)
            .await;
    }
}

fn of_version(stage: &Stage, version: &str) -> usize {
    let maps = stage.objects(&CONFIG_MAPS);
    maps.iter()
        .filter(|map| map["data"]["version"] == version)
        .count()
}

/// Every object is there once, as Git wants it, and nobody but sync has written it.
async fn assert_in_sync(stage: &Stage, version: &str) {
    stage
        .until("all objects are in sync", |stage| {
            of_version(stage, version) == OBJECTS
        })
        .await;
    let maps = stage.objects(&CONFIG_MAPS);
    assert_eq!(maps.len(), OBJECTS);
    for (number, map) in maps.iter().enumerate() {
        assert_eq!(map["metadata"]["name"], format!("map-{number:04}"));
        assert_eq!(map["data"]["number"], number.to_string());
        let owners = cutover::sandbox::api::owners::of(map).unwrap().into_owned();
        let managers = owners.as_array().unwrap();
        assert_eq!(managers.len(), 1, "{managers:?}");
        assert_eq!(managers[0]["manager"], "cutover");
    }
    let revision = stage.origin.tip("main").unwrap();
    stage
        .until("the status branch says so", |stage| {
            let said: Option<Value> = stage.status().and_then(|text| serde_yaml::from_str(&text).ok());
            said.is_some_and(|said| {
                said["revision"] == revision.as_str() && said["syncs"][0]["inSync"] == OBJECTS + 1
            })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moments_of_an_apply_of_a_thousand_objects_the_end_is_the_same() {
    for seed in 0..2 {
        let mut random = fastrand::Rng::with_seed(seed);
        let stage = stage("1").await;
        let mut known: Vec<(String, String)> = Vec::new();
        for part in 0..3 {
            let at = random.usize(part * OBJECTS / 3..(part + 1) * OBJECTS / 3);
            let replica = stage.start(ONE);
            stage
                .until("some of it is applied", |stage| {
                    stage.objects(&CONFIG_MAPS).len() >= at
                })
                .await;
            replica.kill();
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let maps = stage.objects(&CONFIG_MAPS);
            // What was there is the same object now, and nothing was gained by writing it again.
            for (uid, version) in &known {
                let still = |map: &&_| -> bool {
                    let map: &Value = map;
                    map["metadata"]["uid"] == **uid && map["metadata"]["resourceVersion"] == **version
                };
                assert!(
                    maps.iter().map(|map| &**map).any(|map| still(&map)),
                    "{uid} was written again"
                );
            }
            known = maps
                .iter()
                .map(|map| {
                    (
                        text(&map["metadata"]["uid"]),
                        text(&map["metadata"]["resourceVersion"]),
                    )
                })
                .collect();
        }
        let _last = stage.start(ONE);
        assert_in_sync(&stage, "1").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_thousand_objects_are_changed_the_end_is_the_same() {
    let stage = stage("1").await;
    let replica = stage.start(ONE);
    assert_in_sync(&stage, "1").await;
    let stalled = stalls_after(&stage, ONE, 300);
    stage.origin.commit("main", &borrowed(&files("2")));
    stalled.begins(&stage).await;
    replica.kill();
    stage.world.faults().end();
    assert_eq!(of_version(&stage, "2"), 300);
    let _next = stage.start(ONE);
    assert_in_sync(&stage, "2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_end_in_the_middle_it_ends_in_time_and_the_next_one_goes_on_at_once() {
    let stage = stage("1").await;
    slowly(&stage);
    let replica = stage.start(ONE);
    stage
        .until("some are applied", |stage| {
            stage.objects(&CONFIG_MAPS).len() > 200
        })
        .await;
    replica.signal("TERM");
    let (status, took) = replica.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(took < IN_TIME, "{took:?}");
    let applied = stage.objects(&CONFIG_MAPS).len();
    assert!(applied < OBJECTS, "the end came too late to show anything");
    assert_eq!(stage.leader(), None, "the lease was given back");

    let next = stage.start(TWO);
    assert_in_sync(&stage, "1").await;
    assert!(!next.said().contains("waiting"), "{}", next.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_replica_waits_says_for_whom_and_takes_over_within_the_lease_time() {
    let stage = stage("1").await;
    let one = stage.start(ONE);
    stage.leads(ONE).await;
    let two = stage.start(TWO);
    assert_in_sync(&stage, "1").await;
    stage
        .until("the second one says for whom it waits", |_| {
            two.said().contains("waiting: one_")
        })
        .await;
    assert_eq!(stage.writes(TWO), 0);

    one.kill();
    let took = stage.leads(TWO).await;
    // One look more than the lease; the rest is for a busy machine.
    assert!(took < LEASE + Duration::from_secs(4), "{took:?}");
    assert!(
        took + LEASE / 3 > LEASE / 3 * 2,
        "taken before the first one would have noticed: {took:?}"
    );
    stage.origin.commit("main", &borrowed(&files("2")));
    assert_in_sync(&stage, "2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_stopped_for_longer_than_its_lease_writes_nothing_until_it_leads_again() {
    let stage = stage("1").await;
    let stalled = stalls_after(&stage, ONE, 300);
    let one = stage.start(ONE);
    stage.leads(ONE).await;
    let two = stage.start(TWO);
    // Nothing is on its way when it is stopped; there is more to be written when it goes on.
    stalled.begins(&stage).await;
    one.signal("STOP");
    stage.leads(TWO).await;
    let before = stage.writes(ONE);
    stage.world.faults().end();
    one.signal("CONT");
    assert_in_sync(&stage, "1").await;
    stage
        .until("it says that it lost", |_| one.said().contains("waiting"))
        .await;
    stage.origin.commit("main", &borrowed(&files("2")));
    assert_in_sync(&stage, "2").await;
    assert_eq!(stage.writes(ONE), before, "{}", one.said());

    two.kill();
    stage.leads(ONE).await;
    stage.origin.commit("main", &borrowed(&files("3")));
    assert_in_sync(&stage, "3").await;
    assert!(stage.writes(ONE) >= before + OBJECTS as u64);
}

/// Connections break with requests on them, and nobody listens for a moment; what the server had, it still has.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_is_killed_and_started_again_in_the_middle_of_an_apply() {
    let stage = stage("1").await;
    slowly(&stage);
    let mut proxy = Proxy::before(stage.address()).await;
    let replica = stage.start_at(ONE, proxy.address);
    let mut known: Vec<(Value, Value)> = Vec::new();
    for at in [100, 400, 700] {
        stage
            .until("some of it is applied", |stage| {
                stage.objects(&CONFIG_MAPS).len() >= at
            })
            .await;
        proxy.down().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let maps = stage.objects(&CONFIG_MAPS);
        assert!(maps.len() < OBJECTS, "it went away too late to show anything");
        let versions = |map: &Value| {
            (
                map["metadata"]["uid"].clone(),
                map["metadata"]["resourceVersion"].clone(),
            )
        };
        known.extend(maps.iter().map(|map| versions(map)));
        proxy.up().await;
    }
    assert_in_sync(&stage, "1").await;
    let maps = stage.objects(&CONFIG_MAPS);
    for (uid, version) in &known {
        let still = maps
            .iter()
            .any(|map| map["metadata"]["uid"] == *uid && map["metadata"]["resourceVersion"] == *version);
        assert!(still, "{uid} was written again");
    }
    // It is the same process that goes on, and it hears of what comes.
    stage.origin.commit("main", &borrowed(&files("2")));
    assert_in_sync(&stage, "2").await;
    replica.signal("TERM");
    assert_eq!(replica.ended().await.0.code(), Some(0));
}

fn hang(stage: &Stage) {
    let minute = Effect::Delay(Span::millis(60_000, 60_000));
    stage.world.faults().requests(Rule::new(minute));
}

/// A second signal is for those who don't want to wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let stage = stage("1").await;
    let replica = stage.start(ONE);
    stage
        .until("some are applied", |stage| stage.objects(&CONFIG_MAPS).len() > 50)
        .await;
    // What it waits for never comes: the server doesn't answer any more.
    hang(&stage);
    tokio::time::sleep(Duration::from_millis(100)).await;
    replica.signal("TERM");
    tokio::time::sleep(Duration::from_millis(300)).await;
    replica.signal("TERM");
    let (status, took) = replica.ended().await;
    assert_eq!(status.code(), Some(130));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// The server hangs: what is under way is left when the time is over.
#[tokio::test(flavor = "multi_thread")]
async fn it_ends_in_time_even_when_the_server_does_not_answer() {
    let stage = stage("1").await;
    let replica = stage.start(ONE);
    stage
        .until("some are applied", |stage| stage.objects(&CONFIG_MAPS).len() > 50)
        .await;
    hang(&stage);
    replica.signal("TERM");
    let (status, took) = replica.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(22), "{took:?}");
}

fn migration_files() -> Vec<(&'static str, String)> {
    cutover::cli::EXAMPLE_FILES
        .iter()
        .map(|(path, text)| (*path, text.replace("healthyFor: 60s", "healthyFor: 2s")))
        .collect()
}

pub async fn with_a_running_job() -> Stage {
    let files = migration_files();
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    Stage::with(&files).await
}

pub fn migrate(stage: &Stage) {
    let files = migration_files();
    let (_, intent) = files
        .iter()
        .find(|(path, _)| path.ends_with("orders-to-west.yaml"))
        .unwrap();
    stage
        .origin
        .commit("main", &[("intents/orders-to-west.yaml", intent)]);
}

pub fn migration(stage: &Stage) -> Value {
    let server = stage.world.control_plane();
    let found = server.get(&MIGRATIONS, Some("shop"), "orders-to-west");
    found
        .map(|migration| opened(&migration["status"]))
        .unwrap_or_default()
}

fn phase(stage: &Stage) -> Option<Phase> {
    serde_json::from_value(migration(stage)["phase"].clone()).ok()
}

pub async fn job_runs(stage: &Stage) {
    stage
        .until("the job runs", |stage| {
            let verdict = stage.world.ledger().verdict();
            verdict
                .runs
                .iter()
                .any(|run| run.workload.name == "orders" && run.until.is_none())
        })
        .await;
}

/// Returns the lines of all files of the history on the status branch.
fn history(stage: &Stage) -> Vec<Value> {
    let repo = stage.origin.repo();
    let Some(tree) = repo
        .find_reference("refs/heads/cutover-status")
        .ok()
        .and_then(|branch| branch.peel_to_tree().ok())
    else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let _ = tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        if let (true, Ok(blob)) = (folder == "history/", repo.find_blob(entry.id())) {
            let text = String::from_utf8(blob.content().to_vec()).unwrap();
            lines.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap()),
            );
        }
        git2::TreeWalkResult::Ok
    });
    lines
}

pub async fn assert_completed(stage: &Stage) {
    stage
        .until("the migration ends", |stage| {
            phase(stage).is_some_and(Phase::is_terminal)
        })
        .await;
    assert_eq!(phase(stage), Some(Phase::Completed), "{:#}", migration(stage));
    let verdict = stage.world.ledger().verdict();
    assert!(verdict.is_clean(), "{verdict}\n{}", stage.world.ledger());
    stage
        .until("the record is in Git", |stage| {
            let path = "intents/shop/migrations/orders-to-west.yaml";
            let recorded = stage.status().is_some_and(|status| status.contains("Completed"));
            recorded
                || stage
                    .origin
                    .read("cutover-status", path)
                    .is_some_and(|text| text.contains("Completed"))
        })
        .await;
    stage
        .until("the history has it", |stage| !history(stage).is_empty())
        .await;
    let lines = history(stage);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["name"], &lines[0]["phase"]),
        (&json!("orders-to-west"), &json!("Completed"))
    );
}

/// A webhook that lets no journal past a phase: whoever carries out the migration does all of that phase, and stays in it.
struct UpTo {
    last: Mutex<Phase>,
    refused: AtomicUsize,
}

impl UpTo {
    /// Lets the migration go on to a phase, waits until it is at the end of it, and holds it there.
    async fn reached(&self, stage: &Stage, last: Phase) {
        *self.last.lock().unwrap() = last;
        let before = self.refused.load(Ordering::SeqCst);
        stage
            .until(&format!("the end of {last}"), |stage| {
                phase(stage) == Some(last) && self.refused.load(Ordering::SeqCst) > before
            })
            .await;
    }
}

impl Admission for UpTo {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        let said = review.new.map(|new| new["status"]["phase"].clone());
        let phase = said.and_then(|phase| serde_json::from_value::<Phase>(phase).ok());
        let last = *self.last.lock().unwrap();
        if *review.resource == MIGRATIONS && phase.is_some_and(|phase| phase > last) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Status::new(503, Reason::ServiceUnavailable, "not yet"));
        }
        Ok(None)
    }
}

/// `CUTOVER_OTHER_VERSION` names another program: the two take turns then, and each begins once (`tools/upgrade.sh`).
#[tokio::test(flavor = "multi_thread")]
async fn killed_in_each_phase_a_migration_completes_with_never_two_writers() {
    match std::env::var_os("CUTOVER_OTHER_VERSION").map(PathBuf::from) {
        None => killed_in_each_phase([own(), own()]).await,
        Some(other) => {
            killed_in_each_phase([&other, own()]).await;
            killed_in_each_phase([own(), &other]).await;
        }
    }
}

async fn killed_in_each_phase(programs: [&Path; 2]) {
    let stage = with_a_running_job().await;
    let up_to = Arc::new(UpTo {
        last: Mutex::new(Phase::Pending),
        refused: AtomicUsize::new(0),
    });
    let server = stage.world.control_plane();
    server.admit(Arc::clone(&up_to) as Arc<dyn Admission>);
    let mut turns = programs.into_iter().cycle();
    let mut next = || stage.start_program(turns.next().unwrap(), ONE);
    let mut replica = next();
    job_runs(&stage).await;
    migrate(&stage);
    for last in [
        Phase::Preflight,
        Phase::Hold,
        Phase::Expand,
        Phase::Capture,
        Phase::Handoff,
        Phase::Verify,
        Phase::Cleanup,
    ] {
        up_to.reached(&stage, last).await;
        replica.kill();
        replica = next();
    }
    *up_to.last.lock().unwrap() = Phase::Completed;
    assert_completed(&stage).await;
}

/// As a person sees it, without its Events; Git keeps what is not shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_has_ended_fits_a_screen_of_kubectl_describe() {
    if !kubectl::is_there(0).await {
        return;
    }
    let stage = with_a_running_job().await;
    let _replica = stage.start(ONE);
    job_runs(&stage).await;
    migrate(&stage);
    assert_completed(&stage).await;
    let is_let_go = |stage: &Stage| {
        let finalizers = stage.objects(&MIGRATIONS)[0]["metadata"]["finalizers"].clone();
        finalizers.as_array().is_none_or(Vec::is_empty)
    };
    stage.until("its finalizer is gone", is_let_go).await;
    let described = tokio::process::Command::new("kubectl")
        .args([
            "-n",
            "shop",
            "describe",
            "migration",
            "orders-to-west",
            "--kubeconfig",
        ])
        .arg(stage.kubeconfig("person", stage.address()))
        .env("HOME", stage.dir())
        .output()
        .await
        .unwrap();
    let described = String::from_utf8(described.stdout).unwrap();
    let (shown, _) = described.split_once("\nEvents:").expect("it has Events");
    assert!(shown.lines().count() <= 60, "{shown}");
    assert!(shown.lines().all(|line| line.len() < 1000), "{shown}");
    for part in [
        "Timeline:",
        " Hold: scheduling suspended",
        " Verify: west was watched healthy",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let path = "intents/shop/migration-orders-to-west.yaml";
    let record = stage.origin.read("cutover-status", path).unwrap();
    let status = serde_yaml::from_str::<Value>(&record).unwrap()["status"].clone();
    assert_eq!(status["finishedAt"], migration(&stage)["finishedAt"]);
    assert_eq!(
        status["journal"]["profile"]["appliesTo"]["kinds"],
        json!(["FlinkDeployment"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_end_in_the_middle_of_a_migration_the_next_one_completes_it() {
    let stage = with_a_running_job().await;
    let replica = stage.start(ONE);
    job_runs(&stage).await;
    migrate(&stage);
    stage
        .until("Capture", |stage| {
            phase(stage).is_some_and(|phase| phase >= Phase::Capture)
        })
        .await;
    let asked = Instant::now();
    replica.signal("TERM");
    let (status, _) = replica.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(asked.elapsed() < IN_TIME);
    let said = stage.status().unwrap();
    let now = phase(&stage).unwrap();
    assert!(
        said.contains(&now.to_string()),
        "published a last time: {now} not in {said}"
    );
    let _next = stage.start(TWO);
    assert_completed(&stage).await;
}
