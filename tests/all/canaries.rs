//! Canaries of the scheduler barrier, where several intents wait for one at the same time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutover::api::{OWN_NAMESPACE, Phase};
use cutover::intent::custody::canary_name;
use cutover::reconcile::intents::NoFailpoints;
use serde_json::json;

use crate::races::hand::backlog;
use crate::stops::canaries;
use crate::support::fleet::{Controller, Fleet, MIGRATIONS, POLICIES};
use crate::support::many::{EVACUATION, Stage};

const JOBS: [&str; 4] = ["a", "b", "c", "d"];

/// Behind a queue the scheduler is asked once for many, not once for each.
#[tokio::test(start_paused = true)]
async fn intents_that_wait_for_the_scheduler_together_share_a_canary() {
    let (stage, _controller) = moving_behind(40).await;
    let fleet = &stage.fleet;
    // One that has ended says no more which it was.
    let used = RefCell::new(BTreeMap::new());
    let is_known = |fleet: &Fleet| {
        for job in &stage.jobs {
            if let Some(canary) = fleet.status(job)["journal"]["fence"]["barrier"]["canary"].as_str() {
                used.borrow_mut().insert(job.clone(), canary.to_owned());
            }
        }
        used.borrow().len() == stage.jobs.len()
    };
    fleet.until("each is past its barrier", is_known).await;
    for job in &stage.jobs {
        let ended = fleet.ended(job).await;
        assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(job));
    }
    let canaries_used: BTreeSet<String> = used.into_inner().into_values().collect();
    assert!(canaries_used.len() <= 3, "{canaries_used:?}");
    assert_eq!(canaries(fleet), 0, "a canary is left");
    fleet.assert_one_writer();
}

/// Whoever rode along with the canary of an intent that is aborted asks anew.
#[tokio::test(start_paused = true)]
async fn a_canary_whose_intent_is_given_up_holds_nobody_up() {
    let (stage, _controller) = moving_behind(60).await;
    let fleet = &stage.fleet;
    fleet
        .until("a canary is on its way", |fleet| canaries(fleet) > 0)
        .await;
    let whose = |job: &&String| {
        let server = fleet.world.control_plane();
        let migration = server.get(&MIGRATIONS, Some("shop"), job).unwrap();
        let canary = canary_name(migration["metadata"]["uid"].as_str().unwrap(), 1, 0);
        server.get(&POLICIES, Some(OWN_NAMESPACE), &canary).is_ok()
    };
    let whose = stage.jobs.iter().find(whose).unwrap();
    fleet.patch(&MIGRATIONS, whose, json!({"spec": {"abort": true}}));
    for job in &stage.jobs {
        let ended = fleet.ended(job).await;
        let is_completed = ended == Phase::Completed;
        assert_eq!(is_completed, job != whose, "{job}: {:#}", fleet.status(job));
    }
    // What wasn't to be seen yet when its intent ended is swept.
    fleet
        .until("no canary is left", |fleet| canaries(fleet) == 0)
        .await;
    fleet.assert_one_writer();
}

/// All jobs are to go to west, and so many bindings are in the scheduler's queue before them.
async fn moving_behind(queued: usize) -> (Stage, Controller) {
    let stage = Stage::start(EVACUATION, &JOBS).await;
    let controller = stage.controller(Arc::new(NoFailpoints));
    backlog(&stage.fleet.world, queued);
    for job in &stage.jobs {
        move_west(&stage.fleet, job);
    }
    (stage, controller)
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
