//! Sequences that readers of the code found, played through requests that fail or arrive late. A failure prints the timeline.
//! What doesn't hold yet stands here as a promise that is seen to be broken: docs/explanation/safety.md lists it.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{Patch, Resource, WriteOptions};
use http::Method;
use serde_json::json;

use crate::handover::{MOVE, abort, asks, assume};
use crate::support::fleet::{Controller, Fleet};
use crate::support::rules::{Action, Between, Rule};

const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const BINDING: &str = "/resourcebindings/orders-flinkdeployment";
const A_WHILE: Duration = Duration::from_mins(5);

/// A move from east to west by a controller that knows the control plane through rules.
struct Scene {
    fleet: Fleet,
    between: Between,
    _controller: Controller,
}

impl Scene {
    async fn new() -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        let between = Between::new();
        let cluster = Cluster::from_client(between.before(fleet.world.client()), Limits::default());
        Self {
            _controller: fleet.controller_on(cluster, Arc::new(NoFailpoints)),
            fleet,
            between,
        }
    }

    async fn moving() -> Self {
        let scene = Self::new().await;
        scene.fleet.migrate_with(
            MOVE,
            json!({"to": "west", "verify": {"healthyFor": "20s", "timeout": "60s"}}),
        );
        scene
    }

    /// From when the target runs.
    async fn handed_over() -> Self {
        let scene = Self::moving().await;
        let fleet = &scene.fleet;
        fleet
            .until("the target runs", |fleet| fleet.runs_in("west"))
            .await;
        scene
    }

    fn unread(&self, cluster: &'static str) {
        let path = match cluster {
            "east" => "/clusters/east/proxy",
            _ => "/clusters/west/proxy",
        };
        self.between.add(Rule::new(Method::GET, path, "", Action::Fail));
    }

    fn holds(&self, promise: bool, what: &str) {
        let status = self.fleet.status(MOVE);
        assert!(promise, "{what}\n{}\n{status:#}", self.between.timeline());
    }

    async fn ended(&self) -> Phase {
        let ended = self.fleet.ended(MOVE).await;
        self.between.note(format!("ends {ended}"));
        self.fleet.assert_one_writer();
        ended
    }
}

/// Finding 2.
#[tokio::test(start_paused = true)]
async fn a_source_whose_reads_fail_from_the_handoff_on_stops_no_healthy_target() {
    let scene = Scene::handed_over().await;
    scene.unread("east");
    tokio::time::sleep(A_WHILE).await;
    scene.holds(scene.fleet.runs_in("west"), "the target runs on");
    asks(&scene.fleet, "Stopped in east").await;
    scene.between.clear();
    assert_eq!(scene.ended().await, Phase::Completed);
    scene.fleet.assert_clean_in("west");
}

/// Finding 2: the word that the status offers ends it.
#[tokio::test(start_paused = true)]
async fn a_source_whose_reads_fail_for_ever_is_left_behind_on_a_word() {
    let scene = Scene::handed_over().await;
    scene.fleet.phase(MOVE, Phase::Verify).await;
    scene.unread("east");
    asks(&scene.fleet, "Stopped in east").await;
    assume(&scene.fleet, &[("Stopped", "east", "Verify")]);
    scene
        .fleet
        .until("it goes on", |fleet| fleet.status(MOVE)["phase"] == "Cleanup")
        .await;
    // Nothing was seen to run there since it was said.
    assert_eq!(scene.ended().await, Phase::Completed);
    scene.holds(scene.fleet.runs_in("west"), "the target runs");
}

/// Finding 5.
#[tokio::test(start_paused = true)]
async fn a_target_whose_reads_fail_from_its_release_on_is_not_deleted_with_what_it_wrote() {
    let scene = Scene::handed_over().await;
    scene.unread("west");
    tokio::time::sleep(A_WHILE).await;
    scene.holds(scene.fleet.copy("west").is_some(), "the copy in the target stays");
    scene.between.clear();
    scene.ended().await;
    let somewhere = scene.fleet.runs_in("west") || scene.fleet.runs_in("east");
    scene.holds(somewhere, "somebody runs");
}

/// Finding 9: what suspends scheduling arrives when the migration has been called off, and fits.
#[tokio::test(start_paused = true)]
async fn a_suspension_of_scheduling_that_arrives_after_the_end_is_refused_or_taken_away() {
    let scene = Scene::new().await;
    let raise = Rule::new(Method::PATCH, BINDING, "scheduling", Action::Hold);
    scene.between.add(raise.times(1));
    scene.fleet.migrate(MOVE, "west");
    scene.between.holds(1).await;
    abort(&scene.fleet);
    assert_eq!(scene.ended().await, Phase::Aborted);
    let is_suspended = |fleet: &Fleet| fleet.binding()["spec"]["suspension"]["scheduling"] == true;
    assert!(!is_suspended(&scene.fleet));
    scene.between.release();
    tokio::time::sleep(A_WHILE).await;
    scene.holds(
        !is_suspended(&scene.fleet),
        "a patch that arrives after the end is refused or taken away",
    );
    scene.fleet.assert_nothing_is_left();
}

/// Finding 26, as far as it is told: the backup is from when the source ran.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_restored_in_place_in_mid_move_is_told_and_takes_nothing_from_the_target() {
    let scene = Scene::new().await;
    let fleet = &scene.fleet;
    tokio::time::sleep(Duration::from_secs(10)).await;
    fleet.save("east", "backup");
    tokio::time::sleep(A_WHILE).await;
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "20s", "timeout": "60s"}}),
    );
    fleet.phase(MOVE, Phase::Verify).await;
    fleet.restore("east", "backup");
    let tells = |fleet: &Fleet| {
        let status = fleet.status(MOVE);
        let findings = status["findings"].as_array().cloned().unwrap_or_default();
        findings
            .iter()
            .any(|finding| finding["message"].to_string().contains("east: pod"))
    };
    fleet.until("it is told", tells).await;
    tokio::time::sleep(A_WHILE).await;
    scene.holds(fleet.runs_in("west"), "the target runs on");
    assert_ne!(fleet.status(MOVE)["phase"], "Completed");
}

/// Finding 26: it would be told to hold its copy and to run it, in one place.
#[tokio::test(start_paused = true)]
async fn a_member_that_has_joined_under_two_names_is_no_target_of_itself() {
    let scene = Scene::new().await;
    let server = scene.fleet.world.control_plane();
    let id = server.get(&CLUSTERS, None, "east").unwrap()["spec"]["id"].clone();
    let writer = WriteOptions::manager("somebody");
    let twin = Patch::Merge(json!({"spec": {"id": id}}));
    server
        .patch(&CLUSTERS, None, "west", None, &twin, &writer)
        .unwrap();
    scene.fleet.migrate_with(MOVE, json!({"to": "west"}));
    assert_eq!(scene.ended().await, Phase::Failed);
    let found = scene.fleet.status(MOVE)["findings"][0].clone();
    assert_eq!(found["code"], "OneMember", "{found}");
    scene.fleet.assert_settled_in("east");
}
