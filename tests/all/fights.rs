//! Override policies of somebody else's that are applied after the pin: found in time, or answered by going back.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::DeleteOptions;
use serde_json::json;

use crate::support::fleet::{CLAIMS, Controller, Fleet, PINS, job};

const MOVE: &str = "orders-to-west";
const STATE: &str = "/spec/job/state";
const PATH: &str = "/spec/job/initialSavepointPath";

async fn moving() -> (Fleet, Controller) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job("orders:2.0"));
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    (fleet, controller)
}

/// A policy that sorts after every pin, and sets one field in one cluster.
fn interfere(fleet: &Fleet, cluster: &str, path: &str, value: &str) {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "zzzzz-mine", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            ],
            "overrideRules": [{
                "targetCluster": {"clusterNames": [cluster]},
                "overriders": {"plaintext": [{"path": path, "operator": "add", "value": value}]},
            }],
        },
    });
    fleet.create(&PINS, Some("shop"), policy);
}

fn stop_interfering(fleet: &Fleet) {
    let server = fleet.world.control_plane();
    server
        .delete(&PINS, Some("shop"), "zzzzz-mine", &DeleteOptions::default())
        .unwrap();
}

fn reason(fleet: &Fleet) -> String {
    fleet.status(MOVE)["journal"]["rollBack"]["reason"].to_string()
}

#[tokio::test(start_paused = true)]
async fn one_that_is_there_before_is_a_finding_and_nothing_is_touched() {
    for (cluster, path, value) in [
        ("west", STATE, "running"),
        ("north", STATE, "running"),
        ("west", PATH, "s3://elsewhere"),
    ] {
        let fleet = Fleet::start(WorldOptions::default()).await;
        interfere(&fleet, cluster, path, value);
        let _controller = fleet.controller(Arc::new(NoFailpoints));
        fleet.migrate(MOVE, "west");
        assert_eq!(fleet.ended(MOVE).await, Phase::Failed);
        let finding = &fleet.status(MOVE)["findings"][0];
        assert_eq!(finding["code"], "OverrideFight");
        let message = finding["message"].as_str().unwrap();
        assert!(message.contains("OverridePolicy shop/zzzzz-mine"), "{message}");
        assert!(message.contains(path) && message.contains(cluster), "{message}");
        assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 0));
        assert!(fleet.runs_in("east"));
    }
}

/// Nothing is in that cluster yet: it is waited for, with the name of the policy, and nobody is let go.
#[tokio::test(start_paused = true)]
async fn one_that_frees_a_cluster_without_a_copy_is_waited_out() {
    for (phase, cluster) in [(Phase::Hold, "west"), (Phase::Verify, "north")] {
        let (fleet, _controller) = moving().await;
        fleet.phase(MOVE, phase).await;
        interfere(&fleet, cluster, STATE, "running");
        fleet
            .until("it waits for the policy", |fleet| {
                let why = fleet.status(MOVE)["waitingFor"]["reason"].clone();
                why.as_str().is_some_and(|why| why.contains("shop/zzzzz-mine"))
            })
            .await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(fleet.status(MOVE)["phase"], phase.to_string());
        stop_interfering(&fleet);
        assert_eq!(
            fleet.ended(MOVE).await,
            Phase::Completed,
            "{:#}",
            fleet.status(MOVE)
        );
        fleet.assert_clean_in("west");
    }
}

/// Both may write until the tool sees it: it goes back, soon, and says whose policy that was.
#[tokio::test(start_paused = true)]
async fn one_that_frees_a_held_copy_is_a_lapse_that_ends() {
    for (phase, freed) in [(Phase::Expand, "west"), (Phase::Verify, "east")] {
        let (fleet, _controller) = moving().await;
        fleet.phase(MOVE, phase).await;
        fleet
            .until("both have copies", |fleet| {
                fleet.copy("east").is_some() && fleet.copy("west").is_some()
            })
            .await;
        interfere(&fleet, freed, STATE, "running");
        assert_eq!(
            fleet.ended(MOVE).await,
            Phase::RolledBack,
            "{:#}",
            fleet.status(MOVE)
        );
        let reason = reason(&fleet);
        assert!(
            reason.contains("SingleWriterLapse") && reason.contains("shop/zzzzz-mine"),
            "{reason}"
        );
        if phase == Phase::Verify {
            let findings = fleet.status(MOVE)["findings"].to_string();
            let lost = "what it wrote beside west is not in the state that stays";
            assert!(findings.contains(lost), "{findings}");
        }
        stop_interfering(&fleet);
        fleet.until("it runs", |fleet| fleet.runs_in("east")).await;
        fleet.assert_settled_in("east");
        let verdict = fleet.world.ledger().verdict();
        for overlap in &verdict.overlaps {
            let lasted = overlap.until.unwrap().duration_since(overlap.from);
            assert!(
                lasted < Duration::from_secs(5).try_into().unwrap(),
                "{phase}: {verdict}"
            );
        }
    }
}

/// The target would begin from somewhere else.
#[tokio::test(start_paused = true)]
async fn one_that_would_change_the_state_that_is_handed_over_is_never_followed() {
    let (fleet, _controller) = moving().await;
    fleet.phase(MOVE, Phase::Capture).await;
    interfere(&fleet, "west", PATH, "s3://elsewhere");
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::RolledBack,
        "{:#}",
        fleet.status(MOVE)
    );
    assert!(reason(&fleet).contains(PATH));
    stop_interfering(&fleet);
    fleet.assert_clean_in("east");
}

/// A policy that people use every day is no fight.
#[tokio::test(start_paused = true)]
async fn one_that_changes_something_else_is_let_be() {
    let (fleet, _controller) = moving().await;
    interfere(&fleet, "west", "/spec/taskManager/resource/memory", "2048m");
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    stop_interfering(&fleet);
    fleet.assert_one_writer();
    assert!(fleet.runs_in("west"));
}
