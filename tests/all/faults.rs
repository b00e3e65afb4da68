//! Migrations in a world where things go wrong: each ends, with nothing left behind and never a second writer.

mod seeds;

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Resource};
use serde_json::{Value, json};

use crate::support::fleet::{CLAIMS, Controller, Fleet, JOBS, MIGRATIONS, PINS, job};

const MOVE: &str = "orders-to-west";
const ALL_PHASES: [Phase; 6] = [
    Phase::Hold,
    Phase::Expand,
    Phase::Capture,
    Phase::Handoff,
    Phase::Verify,
    Phase::Cleanup,
];

#[tokio::test(start_paused = true)]
async fn a_controller_manager_may_be_replaced_in_any_phase() {
    for phase in ALL_PHASES {
        restarted_in("karmada-controller-manager", phase).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_may_be_replaced_in_any_phase() {
    for phase in ALL_PHASES {
        restarted_in("karmada-scheduler", phase).await;
    }
}

async fn restarted_in(process: &str, phase: Phase) {
    let (fleet, _controller) = moving("orders:2.0", WorldOptions::default()).await;
    fleet.phase(MOVE, phase).await;
    fleet.world.faults().restart(process);
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{phase}: {:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn both_processes_may_be_replaced_while_it_is_rolled_back() {
    let (fleet, _controller) = moving("orders:broken", WorldOptions::default()).await;
    fleet.phase(MOVE, Phase::RollingBack).await;
    fleet
        .world
        .faults()
        .restart("karmada-controller-manager")
        .restart("karmada-scheduler");
    assert_eq!(fleet.ended(MOVE).await, Phase::RolledBack);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_cut_off_for_a_moment_is_waited_for() {
    let fleet = cut_off_in(Phase::Handoff, "west", Duration::from_secs(20)).await;
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("west");
}

/// Its copy may be running: nothing is given back to the source before the target can be seen again.
#[tokio::test(start_paused = true)]
async fn a_target_that_is_cut_off_for_long_is_rolled_back_only_when_it_can_be_seen() {
    let (fleet, _controller) = moving("orders:2.0", WorldOptions::default()).await;
    fleet.phase(MOVE, Phase::Handoff).await;
    fleet
        .until("the target has the token", |fleet| writer(fleet) == "west")
        .await;
    fleet.world.faults().partition("west");
    fleet.phase(MOVE, Phase::RollingBack).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(fleet.status(MOVE)["phase"], "RollingBack");
    assert!(!fleet.runs_in("east"));
    fleet.world.faults().heal("west");
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::RolledBack,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_cut_off_is_never_taken_for_stopped() {
    for seconds in [5, 60] {
        let fleet = cut_off_in(Phase::Capture, "east", Duration::from_secs(seconds)).await;
        assert_eq!(
            fleet.ended(MOVE).await,
            Phase::Completed,
            "{:#}",
            fleet.status(MOVE)
        );
        fleet.assert_clean_in("west");
    }
}

async fn cut_off_in(phase: Phase, member: &str, lasts: Duration) -> Fleet {
    let (fleet, controller) = moving("orders:2.0", WorldOptions::default()).await;
    fleet.phase(MOVE, phase).await;
    fleet.world.faults().partition(member);
    tokio::time::sleep(lasts).await;
    assert_eq!(
        fleet.status(MOVE)["phase"],
        phase.to_string(),
        "the cut came too late"
    );
    fleet.world.faults().heal(member);
    fleet.ended(MOVE).await;
    drop(controller);
    fleet
}

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_move_a_job_once() {
    for (image, ends, cluster) in [
        ("orders:2.0", Phase::Completed, "west"),
        ("orders:broken", Phase::RolledBack, "east"),
    ] {
        let (fleet, _first) = moving(image, WorldOptions::default()).await;
        let _second = fleet.controller(Arc::new(NoFailpoints));
        assert_eq!(fleet.ended(MOVE).await, ends, "{:#}", fleet.status(MOVE));
        fleet.assert_clean_in(cluster);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_cannot_be_deleted_by_mistake() {
    for phase in [Phase::Expand, Phase::Verify] {
        let (fleet, _controller) = pinned(phase).await;
        let deleted = delete_pin(&fleet);
        assert!(deleted.is_err());
        assert_eq!(
            fleet.ended(MOVE).await,
            Phase::Completed,
            "{:#}",
            fleet.status(MOVE)
        );
        fleet.assert_clean_in("west");
    }
}

/// With its finalizer on, a pin that is being deleted stays in force: there is time to go back.
#[tokio::test(start_paused = true)]
async fn a_pin_that_is_deleted_on_purpose_is_missed_before_it_is_gone() {
    for phase in [Phase::Expand, Phase::Verify] {
        let (fleet, _controller) = pinned(phase).await;
        fleet.patch(&PINS, &pin(&fleet), json!({"metadata": {"labels": null}}));
        delete_pin(&fleet).unwrap();
        let ended = fleet.ended(MOVE).await;
        fleet.assert_clean_in(if ended == Phase::Completed { "west" } else { "east" });
    }
}

/// A pin that holds nobody lets both run, and no proof undoes that; but it is seen, ended, and told. Where both wrote, a
/// person says whose state is kept.
#[tokio::test(start_paused = true)]
async fn a_pin_that_somebody_empties_is_a_lapse_that_ends() {
    for (phase, newest) in [
        (Phase::Expand, None),
        (Phase::Verify, Some("east")),
        (Phase::Verify, Some("west")),
    ] {
        // No template change goes along: else the target's operator would be in the middle of an upgrade when it is held.
        let (fleet, controller) = pinned_with("orders:1.0", phase).await;
        controller.kill().await;
        fleet.patch(&PINS, &pin(&fleet), json!({"spec": {"overrideRules": []}}));
        if newest.is_some() {
            let both = |fleet: &Fleet| fleet.runs_in("east") && fleet.runs_in("west");
            fleet.until("both run", both).await;
        }
        let _next = fleet.controller(Arc::new(NoFailpoints));
        if let Some(newest) = newest {
            fleet
                .until("it asks", |fleet| {
                    let wait = fleet.status(MOVE)["waitingFor"]["reason"].clone();
                    wait.as_str()
                        .is_some_and(|wait| wait.contains("both copies have written"))
                })
                .await;
            let assume = json!([{"fact": "Newest", "cluster": newest, "attempt": 1, "phase": "RollingBack"}]);
            fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"assume": assume}}));
        }
        assert_eq!(
            fleet.ended(MOVE).await,
            Phase::RolledBack,
            "{:#}",
            fleet.status(MOVE)
        );
        let journal = fleet.status(MOVE)["journal"].clone();
        let told = journal["rollBack"]["reason"].to_string();
        assert!(told.contains("SingleWriterLapse"), "{told}");
        if let Some(newest) = newest {
            assert_eq!(journal["captured"]["from"], newest);
        }
        fleet.assert_settled_in("east");
        let verdict = fleet.world.ledger().verdict();
        let longest = Duration::from_secs(5);
        for overlap in &verdict.overlaps {
            let lasted = overlap.until.unwrap().duration_since(overlap.from);
            assert!(lasted < longest.try_into().unwrap(), "{verdict}");
        }
    }
}

/// The pin outlasts the copies that it holds. Karmada leaves them in mid-move, and a person deletes those that status names.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_in_any_phase_never_lets_two_write() {
    const NAMESPACES: Resource = Resource::new("", "namespaces");
    for phase in ALL_PHASES {
        let (fleet, _controller) = moving("orders:2.0", WorldOptions::default()).await;
        fleet.phase(MOVE, phase).await;
        let server = fleet.world.control_plane();
        server
            .delete(&NAMESPACES, None, "shop", &DeleteOptions::default())
            .unwrap();
        fleet
            .until("every copy is gone", |fleet| {
                let waits = fleet.status(MOVE)["waitingFor"]["reason"].to_string();
                for cluster in ["east", "west"] {
                    if waits.contains(&format!("a person must delete it in {cluster}")) {
                        assert_eq!(
                            fleet.count(&PINS),
                            1,
                            "{phase}: the pin is gone before the copies"
                        );
                        let member = &fleet.world.member(cluster).api;
                        _ = member.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default());
                    }
                }
                ["east", "west"]
                    .iter()
                    .all(|cluster| fleet.copy(cluster).is_none())
            })
            .await;
        fleet
            .until("nothing of the tool's is left", |fleet| {
                (fleet.count(&PINS), fleet.count(&CLAIMS)) == (0, 0)
            })
            .await;
        let verdict = fleet.world.ledger().verdict();
        assert_eq!(verdict.overlaps, [], "{phase}: {verdict}");
    }
}

async fn pinned(phase: Phase) -> (Fleet, Controller) {
    pinned_with("orders:2.0", phase).await
}

async fn pinned_with(image: &str, phase: Phase) -> (Fleet, Controller) {
    let (fleet, controller) = moving(image, WorldOptions::default()).await;
    fleet.phase(MOVE, phase).await;
    fleet
        .until("both are listed", |fleet| fleet.listed() == ["east", "west"])
        .await;
    (fleet, controller)
}

async fn moving(image: &str, options: WorldOptions) -> (Fleet, Controller) {
    let fleet = Fleet::start(options).await;
    fleet.want(job(image));
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    (fleet, controller)
}

fn pin(fleet: &Fleet) -> String {
    let pins = fleet
        .world
        .control_plane()
        .list(&PINS, Some("shop"), &ListOptions::default())
        .unwrap();
    pins.items[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

fn delete_pin(fleet: &Fleet) -> Result<Arc<Value>, cutover::sandbox::api::Status> {
    fleet
        .world
        .control_plane()
        .delete(&PINS, Some("shop"), &pin(fleet), &DeleteOptions::default())
}

fn writer(fleet: &Fleet) -> String {
    fleet.status(MOVE)["journal"]["writer"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
