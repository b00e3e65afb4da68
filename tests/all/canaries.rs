//! Canaries of the scheduler barrier, where several intents wait for one at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::Nobody;
use cutover::sandbox::api::ListOptions;

use crate::races::hand::backlog;
use crate::support::fleet::{Fleet, MIGRATIONS, POLICIES};
use crate::support::many::{EVACUATION, Stage};
use serde_json::json;

const JOBS: [&str; 4] = ["a", "b", "c", "d"];

/// Behind a queue the scheduler is asked once for many, not once for each.
#[tokio::test(start_paused = true)]
async fn intents_that_wait_for_the_scheduler_together_share_a_canary() {
    let stage = Stage::start(EVACUATION, &JOBS).await;
    let fleet = &stage.fleet;
    let _controller = stage.controller(Arc::new(Nobody));
    backlog(&fleet.world, 40);
    for job in &stage.jobs {
        move_west(fleet, job);
    }
    let mut canaries = BTreeSet::new();
    for job in &stage.jobs {
        assert_eq!(
            fleet.ended(job).await,
            Phase::Completed,
            "{:#}",
            fleet.status(job)
        );
        let barrier = &fleet.status(job)["journal"]["fence"]["barrier"];
        canaries.insert(barrier["canary"].as_str().unwrap().to_owned());
    }
    assert!(canaries.len() <= 3, "{canaries:?}");
    let own = fleet
        .world
        .control_plane()
        .list(&POLICIES, Some("cutover-system"), &ListOptions::default());
    assert_eq!(own.unwrap().items.len(), 0, "a canary is left");
    fleet.assert_one_writer();
}

/// Whoever rode along with the canary of an intent that is aborted asks anew.
#[tokio::test(start_paused = true)]
async fn a_canary_whose_intent_is_given_up_holds_nobody_up() {
    let stage = Stage::start(EVACUATION, &JOBS).await;
    let fleet = &stage.fleet;
    let _controller = stage.controller(Arc::new(Nobody));
    backlog(&fleet.world, 60);
    for job in &stage.jobs {
        move_west(fleet, job);
    }
    let made = |fleet: &Fleet| -> Vec<String> {
        let own = fleet
            .world
            .control_plane()
            .list(&POLICIES, Some("cutover-system"), &ListOptions::default())
            .unwrap();
        let names = own
            .items
            .iter()
            .filter_map(|policy| policy["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    };
    fleet
        .until("a canary is on its way", |fleet| !made(fleet).is_empty())
        .await;
    let first = made(fleet).remove(0);
    let whose = stage
        .jobs
        .iter()
        .find(|job| {
            let uid = fleet
                .world
                .control_plane()
                .get(&MIGRATIONS, Some("shop"), job)
                .unwrap()["metadata"]["uid"]
                .clone();
            first.contains(&uid.as_str().unwrap().replace('-', "")[..12])
        })
        .unwrap();
    fleet.patch(&MIGRATIONS, whose, json!({"spec": {"abort": true}}));
    for job in &stage.jobs {
        let ended = fleet.ended(job).await;
        assert_eq!(
            ended == Phase::Completed,
            job != whose,
            "{job}: {:#}",
            fleet.status(job)
        );
    }
    // What wasn't to be seen yet when its intent ended is swept.
    fleet
        .until("no canary is left", |fleet| made(fleet).is_empty())
        .await;
    fleet.assert_one_writer();
}

fn move_west(fleet: &Fleet, job: &str) {
    fleet.apply(
        &MIGRATIONS,
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
            "metadata": {"name": job, "namespace": "shop"},
            "spec": {
                "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": job},
                "to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"},
            },
        }),
    );
}
