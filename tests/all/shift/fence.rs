//! Who may not create canaries needs none where the API server itself refuses what the scheduler has queued.

use std::sync::Arc;
use std::time::Duration;

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{NoFailpoints, install_fence};
use cutover::sandbox::faults::{Effect, Rule};
use serde_json::{Value, json};

use super::stage::{Stage, duplicated};
use crate::support::fleet::POLICIES;

async fn without_canaries() -> Stage {
    let stage = Stage::without_controller(&duplicated(&["east"]), 2, Duration::from_millis(100)).await;
    let rule = Rule::new(Effect::Refuse(403))
        .verb("create")
        .resource("propagationpolicies");
    stage.fleet.world.faults().requests(rule);
    stage
}

fn barrier(stage: &Stage) -> Value {
    stage.status("go")["journal"]["fence"]["barrier"].clone()
}

#[tokio::test(start_paused = true)]
async fn the_fence_stands_in_for_a_canary_that_a_shift_may_not_create() {
    let mut stage = without_canaries().await;
    let cluster = Cluster::from_client(stage.fleet.world.client(), Limits::default());
    let name = cluster.whoami().await.unwrap();
    install_fence(&cluster, &[name]).await.unwrap().unwrap();
    stage.lead(Arc::new(NoFailpoints));
    let floor = stage.watch_floor(2);
    stage.shift("go", json!({}));
    stage.is("go", "Shifted").await;
    assert_eq!(barrier(&stage)["canary"], "");
    let steps = stage.status("go")["steps"].to_string();
    assert!(
        steps.contains("what the scheduler has queued is refused"),
        "{steps}"
    );

    // While it rests, the claim lists no clusters: another barrier is passed under one that does.
    let before = barrier(&stage)["leases"].clone();
    stage.fleet.world.faults().restart("karmada-scheduler");
    stage
        .until("it is past another barrier", || {
            let now = barrier(&stage);
            now["canary"] == "" && now["leases"] != before
        })
        .await;
    stage.fleet.world.faults().end();
    stage.fleet.apply(&POLICIES, duplicated(&["west"]));
    stage.is("go", "Completed").await;
    stage.settled(&[("west", 2)]).await;
    // Karmada renders the Work without the pin after the shift has ended.
    stage
        .until("its copy has lost the marker", || !stage.is_marked("west"))
        .await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn without_canary_and_fence_a_shift_waits_and_says_what_is_needed() {
    let mut stage = without_canaries().await;
    stage.lead(Arc::new(NoFailpoints));
    stage.shift("go", json!({"timeout": "24h"}));
    stage
        .until("it says what it needs", || {
            let why = stage.status("go")["waitingFor"]["reason"].to_string();
            why.contains("create canary")
                && why.contains("docs/how-to/operate.md#rbac")
                && why.contains("docs/how-to/operate.md#admission-fence")
        })
        .await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(stage.status("go")["phase"], "Hold");
    assert_eq!(stage.replicas(), [("east", 2)]);
    stage.fleet.world.faults().end();
    stage.is("go", "Shifted").await;
}
