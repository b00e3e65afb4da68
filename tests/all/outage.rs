//! An API server that restarts, throttles, is slow or fails for a while: nothing is lost, and it is not stormed.

use std::fmt::Write as _;
use std::time::Duration;

use cutover::api::{self, Phase};
use cutover::cluster::{Cluster, Limits};
use cutover::error::Error;
use cutover::reconcile::intents::NoFailpoints;
use cutover::reconcile::lease::LeaseOptions;
use cutover::reconcile::{self, Options};
use cutover::repo::Polling;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::faults::{Effect, Rule, ServerFaults, Span};
use cutover::sandbox::karmada::Latencies;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::fleet::{Fleet, job};
use crate::support::git::{Origin, options};
use crate::support::plane::{NAMESPACE, Plane};
use crate::support::wait::wait_for;

const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const OBJECTS: usize = 300;
/// How long a trouble lasts.
const MINUTE: u64 = 60;
/// What is asked of a server in trouble within any second, once that it is in trouble is known: retries that are on their
/// way, and the Lease.
const CALM: u64 = 20;
/// After how long a server that is well again is known to be so, and everything that was left undone is done.
const SOON: Duration = Duration::from_secs(15);

/// A sandbox, a repository of many objects and a reconciler at work on both, in this process.
struct Scene {
    world: World,
    origin: Origin,
    cancel: CancellationToken,
    reconciler: JoinHandle<Result<(), Error>>,
    _state: TempDir,
}

fn files(version: &str) -> Vec<(String, String)> {
    let mut maps = String::new();
    for number in 0..OBJECTS {
        let _ = write!(
            maps,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number:03}, namespace: shop}}\n\
             data: {{version: {version:?}}}\n"
        );
    }
    let config = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: all}]\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    [
        ("cutover.yaml", config),
        ("namespace.yaml", namespace),
        ("maps.yaml", maps.as_str()),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .to_vec()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect()
}

impl Scene {
    fn start(version: &str) -> Self {
        Self::with(version, Some(LeaseOptions::new("scene")))
    }

    fn with(version: &str, lease: Option<LeaseOptions>) -> Self {
        let world = World::start(WorldOptions {
            members: Vec::new(),
            latencies: Latencies {
                request: Span::millis(10, 30),
                ..Latencies::fast()
            },
            ..WorldOptions::fast()
        });
        for crd in api::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            world.control_plane().install(&crd).unwrap();
        }
        let origin = Origin::with(&borrowed(&files(version)));
        let state = tempfile::tempdir().unwrap();
        let cluster = Cluster::from_client(world.client(), Limits::default());
        let second = Duration::from_secs(1);
        let options = Options {
            lease,
            polling: Some(Polling {
                interval: second,
                slowest: second,
            }),
            ..Options::new(options(origin.url(), state.path()), cluster)
        };
        let cancel = CancellationToken::new();
        let reconciler = tokio::spawn(reconcile::run(options, cancel.clone()));
        Self {
            world,
            origin,
            cancel,
            reconciler,
            _state: state,
        }
    }

    fn maps(&self) -> Vec<Value> {
        let list = self
            .world
            .control_plane()
            .list(&CONFIG_MAPS, Some("shop"), &ListOptions::default());
        let items = list.unwrap().items;
        items.iter().map(|map| (**map).clone()).collect()
    }

    fn of_version(&self, version: &str) -> usize {
        self.maps()
            .iter()
            .filter(|map| map["data"]["version"] == version)
            .count()
    }

    async fn until(&self, what: &str, within: Duration, holds: impl Fn(&Self) -> bool) -> Duration {
        let story = || format!("{} of {OBJECTS}", self.maps().len());
        wait_for(what)
            .within(within)
            .every(Duration::from_millis(20))
            .until_or(|| holds(self), story)
            .await
    }

    async fn in_sync(&self, version: &str, within: Duration) -> Duration {
        self.until("everything is in sync", within, |scene| {
            scene.of_version(version) == OBJECTS
        })
        .await
    }

    fn edit(&self, name: &str, manager: &str) {
        let patch = Patch::Merge(json!({"data": {"version": "mine"}}));
        let server = self.world.control_plane();
        let writer = WriteOptions::manager(manager);
        server
            .patch(&CONFIG_MAPS, Some("shop"), name, None, &patch, &writer)
            .unwrap();
    }

    fn delete(&self, name: &str) {
        let server = self.world.control_plane();
        let gone = DeleteOptions::default();
        server.delete(&CONFIG_MAPS, Some("shop"), name, &gone).unwrap();
    }

    async fn end(self) {
        self.cancel.cancel();
        self.reconciler.await.unwrap().unwrap();
    }
}

fn troubles() -> Vec<(&'static str, Effect)> {
    vec![
        ("answers 500", Effect::Refuse(500)),
        ("answers 503", Effect::Refuse(503)),
        ("throttles", Effect::Throttle(1)),
        ("says to come again in a day", Effect::Throttle(86_400)),
        ("says to come again at once", Effect::Throttle(0)),
        ("is away", Effect::Lose),
        ("loses answers", Effect::LoseAnswer),
        ("hangs", Effect::Delay(Span::millis(60_000, 60_000))),
    ]
}

/// Begun in the middle of an apply; a commit, an edit and a deletion by hand come while it lasts.
#[tokio::test(start_paused = true)]
#[allow(
    clippy::print_stderr,
    reason = "the figures are part of what is shown: cargo test outage -- --nocapture"
)]
async fn after_a_minute_of_trouble_everything_is_in_sync_and_there_was_no_storm() {
    // Without a lease the loops go on all the while; with one they end after ten seconds, and only ask for it.
    let runs = troubles()
        .into_iter()
        .flat_map(|(what, effect)| [(what, effect.clone(), None), (what, effect, Some("scene"))]);
    for (what, effect, lease) in runs {
        let scene = Scene::with("1", lease.map(LeaseOptions::new));
        let some = |scene: &Scene| scene.maps().len() > OBJECTS / 3;
        scene.until("some are applied", SOON, some).await;
        assert!(
            scene.maps().len() < OBJECTS,
            "the trouble comes too late to show anything"
        );
        let faults = scene.world.faults();
        faults.requests(Rule::new(effect)).restart(ServerFaults::PROCESS);
        tokio::time::sleep(Duration::from_secs(MINUTE / 2)).await;
        scene.origin.commit("main", &borrowed(&files("2")));
        scene.edit("map-001", "kubectl-edit");
        scene.delete("map-002");
        tokio::time::sleep(Duration::from_secs(MINUTE / 2)).await;
        let seconds = scene.world.traffic().last_seconds(MINUTE + 1);
        let (all, first) = (seconds.iter().sum::<u64>(), seconds.iter().max().unwrap());
        let busiest = *seconds.iter().skip(3).max().unwrap();
        assert!(busiest <= CALM, "{what}: {busiest} requests in a second");
        scene.world.faults().end();
        // A request that hangs is given up after 15 s, though the server is well again.
        let took = scene.in_sync("2", SOON * 2).await;
        assert_eq!(scene.maps().len(), OBJECTS, "{what}");
        eprintln!(
            "the server {what} for {MINUTE} s, lease {lease:?}: {all} requests, {first} in the busiest second, at \
             most {busiest} in any later one; in sync {:.1} s afterwards",
            took.as_secs_f64()
        );
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_only_slow_is_waited_for() {
    let scene = Scene::start("1");
    let slow = Effect::Delay(Span::millis(500, 1500));
    scene.world.faults().requests(Rule::new(slow));
    scene.in_sync("1", Duration::from_mins(3)).await;
    scene.end().await;
}

/// All watches break off, the listener is away for a while, and the history is gone: 410 for those who ask for it.
#[tokio::test(start_paused = true)]
async fn what_happened_while_the_server_was_restarted_is_seen_afterwards() {
    for seconds in [1, 5, 30] {
        let scene = Scene::start("1");
        scene.in_sync("1", SOON).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let faults = scene.world.faults();
        faults
            .requests(Rule::new(Effect::Lose))
            .restart(ServerFaults::PROCESS);
        scene.edit("map-001", "kubectl-edit");
        scene.delete("map-002");
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        scene.world.control_plane().compact();
        faults.end();
        // A watch is tried again after 30 s at most.
        scene.in_sync("1", Duration::from_secs(45)).await;
        assert_eq!(scene.maps().len(), OBJECTS);
        scene.end().await;
    }
}

/// Somebody's script takes a field back as soon as it is corrected: the first few corrections come at once.
#[tokio::test(start_paused = true)]
async fn a_fight_over_a_field_is_bounded() {
    let scene = Scene::start("1");
    scene.in_sync("1", SOON).await;
    let writes = |scene: &Scene| scene.world.traffic().count(|asked| asked.verb == "patch");
    let before = writes(&scene);
    let begun = Instant::now();
    let mut edits = 0;
    while begun.elapsed() < Duration::from_secs(MINUTE) {
        if scene.of_version("1") == OBJECTS {
            scene.edit("map-001", "kubectl-edit");
            edits += 1;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let corrections = writes(&scene) - before;
    // Each correction is an apply that conflicts, and one that takes the field.
    assert!((8..=12).contains(&edits), "{edits} edits, {corrections} writes");
    assert!(corrections <= 2 * edits, "{edits} edits, {corrections} writes");
    // Others are corrected at once all the while.
    scene.edit("map-002", "kubectl-edit");
    let is_corrected = |scene: &Scene| scene.maps()[2]["data"]["version"] == "1";
    scene
        .until("another one is corrected", Duration::from_secs(1), is_corrected)
        .await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_migration_gets_through_half_a_minute_of_trouble_in_any_phase() {
    for (what, effect) in troubles() {
        let fleet = Fleet::start(WorldOptions::fast()).await;
        fleet.want(job("orders:2.0"));
        let _controller = fleet.controller(std::sync::Arc::new(NoFailpoints));
        fleet.migrate("move", "west");
        for phase in [Phase::Hold, Phase::Capture, Phase::Handoff] {
            let reached = |fleet: &Fleet| {
                let now: Option<Phase> = serde_json::from_value(fleet.status("move")["phase"].clone()).ok();
                now.is_some_and(|now| now >= phase)
            };
            fleet.until(&format!("{what}: {phase}"), reached).await;
            fleet.world.faults().requests(Rule::new(effect.clone()));
            tokio::time::sleep(Duration::from_secs(MINUTE / 2)).await;
            let seconds = fleet.world.traffic().last_seconds(MINUTE / 2);
            let busiest = seconds.into_iter().skip(3).max().unwrap();
            assert!(
                busiest <= CALM,
                "{what} in {phase}: {busiest} requests in a second"
            );
            fleet.world.faults().end();
        }
        let ended = fleet.ended("move").await;
        assert!(
            matches!(ended, Phase::Completed | Phase::RolledBack),
            "{what}: {ended}"
        );
        fleet.assert_one_writer();
    }
}

/// Guards the headline: where bindings can't be listed, no workload is known to be unhealthy, and none to be healthy.
#[tokio::test]
async fn all_is_not_said_to_be_well_while_bindings_cannot_be_listed() {
    let world = World::start(WorldOptions::fast());
    let plane = Plane::on(world.control_plane(), &[NAMESPACE]);
    let headline = || {
        let page = plane.origin.read("cutover-status", "STATUS.md").unwrap();
        page.lines().nth(2).unwrap_or_default().to_owned()
    };
    plane.refuse(&["GET /apis/work.karmada.io/v1alpha2/resourcebindings"]);
    plane.run().await;
    assert_eq!(headline(), "**Which workloads are healthy is not known.**");
    plane.refuse(&[]);
    plane.run().await;
    assert_eq!(headline(), "**All is well.**");
}
