//! Somebody deletes the binding in the midst of a shift, and Karmada makes another with the next change of the template.

use serde_json::{Value, json};

use super::stage::{DEPLOYMENTS, Stage, divided, duplicated, web};
use crate::support::fleet::{BINDINGS, POLICIES};

const HALF: &str = "approval of 50% for attempt 1";

/// Half of the replicas have gone, and then the binding has.
async fn half_way(policy: &Value) -> Stage {
    let stage = Stage::start(policy, 4).await;
    stage.shift("go", json!({"pause": {"approval": [50]}}));
    stage.waits_for("go", HALF).await;
    stage.delete(&BINDINGS, "web-deployment");
    stage
        .until("the copies are gone with it", || {
            stage.get(&BINDINGS, "web-deployment").is_null() && stage.replicas().is_empty()
        })
        .await;
    stage
}

fn changed() -> Value {
    let mut template = web(4);
    template["metadata"]["annotations"] = json!({"note": "changed"});
    template
}

#[tokio::test(start_paused = true)]
async fn one_that_is_recreated_is_taken_up_and_the_shift_goes_on() {
    for policy in [duplicated, divided] {
        let stage = half_way(&policy(&["east"])).await;
        stage.fleet.apply(&DEPLOYMENTS, changed());
        // What the pin says, and never all of it in one place.
        stage.settled(&[("east", 2), ("west", 2)]).await;
        stage.waits_for("go", HALF).await;
        assert_eq!(stage.status("go")["findings"][0]["code"], "MadeAnew");
        let floor = stage.watch_floor(4);
        let approvals = json!([{"percent": 50, "attempt": 1}]);
        stage.shift("go", json!({"pause": {"approval": [50]}, "approvals": approvals}));
        stage.is("go", "Shifted").await;
        assert_eq!(stage.replicas(), [("east", 0), ("west", 4)]);
        stage.fleet.apply(&POLICIES, policy(&["west"]));
        stage.is("go", "Completed").await;
        stage.settled(&[("west", 4)]).await;
        stage.assert_clean();
        floor.held();
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_recreated_is_taken_up_by_a_shift_that_goes_back() {
    let stage = half_way(&duplicated(&["east"])).await;
    stage.shift("go", json!({"pause": {"approval": [50]}, "abort": true}));
    stage.fleet.apply(&DEPLOYMENTS, changed());
    stage.is("go", "Aborted").await;
    stage.settled(&[("east", 4)]).await;
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_recreated_elsewhere_lists_the_clusters_of_the_shift_again() {
    let stage = half_way(&duplicated(&["east"])).await;
    stage.fleet.apply(&POLICIES, duplicated(&["north"]));
    stage.fleet.apply(&DEPLOYMENTS, changed());
    stage.settled(&[("east", 2), ("west", 2)]).await;
    stage.waits_for("go", HALF).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_deleted_and_recreated_waits_for_a_person() {
    let stage = Stage::start(&duplicated(&["east"]), 4).await;
    stage.shift("go", json!({"pause": {"approval": [50]}}));
    stage.waits_for("go", HALF).await;
    stage.delete(&DEPLOYMENTS, "web");
    stage
        .until("it is gone", || {
            stage.get(&BINDINGS, "web-deployment").is_null() && stage.replicas().is_empty()
        })
        .await;
    stage.fleet.apply(&DEPLOYMENTS, web(4));
    stage
        .waits_for(
            "go",
            "manual intervention required: the workload was deleted and recreated: delete the ReplicaShift and take its finalizer \
             off; its pin and its claim go by themselves where that is safe",
        )
        .await;
}
