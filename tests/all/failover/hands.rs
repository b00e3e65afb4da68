//! What people do to the objects of a guarded workload; and what a plan does that may not do everything.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::FailoverPhase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{NoFailpoints, install_fence};
use cutover::sandbox::api::{DeleteOptions, ListOptions, Resource};
use cutover::sandbox::faults::{Effect, Rule};
use serde_json::{Value, json};

use super::modes::moved_from;
use super::stage::{
    PLAN, PLANS, fleet, guarded_in, known, lose, one_writer, phase_is, plan, purge_mode, savepoint,
    started_from, status, taint, tidy, unled, untaint, until, unwell,
};
use crate::support::fleet::{BINDINGS, CLAIMS, Fleet, JOBS, PINS, job};

const BINDING: &str = "orders-flinkdeployment";

fn delete(fleet: &Fleet, resource: &Resource, name: &str) {
    let server = fleet.world.control_plane();
    server
        .delete(resource, Some("shop"), name, &DeleteOptions::default())
        .unwrap();
}

/// Karmada makes a binding anew when the template is changed.
fn touch(fleet: &Fleet) {
    fleet.patch(
        &JOBS,
        "orders",
        json!({"metadata": {"annotations": {"note": "touched"}}}),
    );
}

fn binding_uid(fleet: &Fleet) -> Value {
    fleet.binding()["metadata"]["uid"].clone()
}

fn tear_pin_off(fleet: &Fleet) {
    let server = fleet.world.control_plane();
    let all = server.list(&PINS, Some("shop"), &ListOptions::default()).unwrap();
    let name = all.items[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let bare = json!({"metadata": {
        "finalizers": null, "labels": {"resourcetemplate.karmada.io/deletion-protected": null},
    }});
    fleet.patch(&PINS, &name, bare);
    delete(fleet, &PINS, &name);
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_deleted_and_recreated_is_guarded_as_the_one_before() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    let before = binding_uid(&fleet);
    delete(&fleet, &BINDINGS, BINDING);
    until(&fleet, "its copy is gone", |fleet| fleet.copy("east").is_none()).await;
    let reason = |fleet: &Fleet| status(fleet)["waitingFor"]["reason"].clone();
    until(&fleet, "it says what brings it back", |fleet| {
        reason(fleet).to_string().contains("when the template is changed")
    })
    .await;
    touch(&fleet);
    until(&fleet, "it guards the new one", |fleet| {
        let writer = status(fleet)["writer"].as_str().unwrap_or_default().to_owned();
        binding_uid(fleet) != before && phase_is(fleet, FailoverPhase::Guarding) && fleet.runs_in(&writer)
    })
    .await;
    let writer = status(&fleet)["writer"].as_str().unwrap().to_owned();
    assert_eq!(status(&fleet)["journal"]["binding"]["uid"], binding_uid(&fleet));
    if writer == "east" {
        let told = status(&fleet)["findings"].to_string();
        assert!(told.contains("MadeAnew") && told.contains(&handle), "{told}");
    } else {
        assert_eq!(started_from(&fleet, &writer), handle);
    }
    // It fails over as ever.
    let handle = savepoint(&fleet, &writer).await;
    known(&fleet, &handle).await;
    unwell(&fleet, &writer);
    let to = moved_from(&fleet, &writer).await;
    assert_eq!(started_from(&fleet, &to), handle);
    let verdict = fleet.world.ledger().verdict();
    assert_eq!(verdict.overlaps, [], "{verdict}");
    tidy(&fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_deleted_and_applied_again_at_once_is_guarded_again() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    delete(&fleet, &JOBS, "orders");
    fleet
        .until("it is gone", |fleet| {
            fleet
                .world
                .control_plane()
                .get(&JOBS, Some("shop"), "orders")
                .is_err()
        })
        .await;
    fleet.apply(&JOBS, job("orders:2.0"));
    until(&fleet, "it is guarded again", |fleet| {
        let status = status(fleet);
        let writer = status["writer"].as_str().unwrap_or_default();
        phase_is(fleet, FailoverPhase::Guarding)
            && status["journal"]["binding"]["uid"] == binding_uid(fleet)
            && fleet.is_settled_in(writer)
    })
    .await;
    let writer = status(&fleet)["writer"].as_str().unwrap().to_owned();
    let verdict = fleet.world.ledger().verdict();
    assert_eq!(verdict.overlaps, [], "{verdict}");
    tidy(&fleet, &writer).await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_recreated_in_the_midst_of_a_failover_goes_on_from_the_state_that_is_known() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    lose(&fleet, "east");
    until(&fleet, "it is held", |fleet| {
        phase_is(fleet, FailoverPhase::Fencing)
    })
    .await;
    let before = binding_uid(&fleet);
    delete(&fleet, &BINDINGS, BINDING);
    until(&fleet, "it is gone", |fleet| fleet.binding().is_null()).await;
    touch(&fleet);
    until(&fleet, "it is recreated", |fleet| {
        let uid = binding_uid(fleet);
        !uid.is_null() && uid != before && status(fleet)["journal"]["binding"]["uid"] == uid
    })
    .await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(
        status(&fleet)["writer"].is_null(),
        "nobody sees the old copy: {:#}",
        status(&fleet)
    );
    fleet.world.faults().heal("east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(started_from(&fleet, &to), handle);
    one_writer(&fleet);
    untaint(&fleet, "east");
    until(&fleet, "the old copy is gone", |fleet| {
        fleet.copy("east").is_none()
    })
    .await;
    tidy(&fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_deleted_in_the_midst_of_a_failover_leaves_nothing_behind() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    lose(&fleet, "east");
    until(&fleet, "it is held", |fleet| {
        phase_is(fleet, FailoverPhase::Fencing)
    })
    .await;
    delete(&fleet, &JOBS, "orders");
    delete(&fleet, &PLANS, PLAN);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(
        (fleet.count(&PINS), fleet.count(&CLAIMS)),
        (1, 1),
        "the old copy may still run"
    );
    fleet.world.faults().heal("east");
    until(&fleet, "nothing is left", |fleet| {
        let gone = fleet
            .world
            .control_plane()
            .get(&PLANS, Some("shop"), PLAN)
            .is_err();
        gone && (fleet.count(&PINS), fleet.count(&CLAIMS)) == (0, 0) && fleet.copy("east").is_none()
    })
    .await;
    one_writer(&fleet);
}

/// West has the token and doesn't start; east has stopped, and is listed still.
#[tokio::test(start_paused = true)]
async fn a_pin_that_is_torn_off_in_the_midst_of_a_release_is_put_back_and_holds() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    for cluster in ["west", "north"] {
        fleet
            .world
            .member(cluster)
            .simulators(|simulators| simulators.freeze());
    }
    taint(&fleet, "east");
    until(&fleet, "it is let go", |fleet| {
        phase_is(fleet, FailoverPhase::Releasing)
    })
    .await;
    until(&fleet, "the pin says so", |fleet| {
        let waits = status(fleet)["waitingFor"]["reason"].to_string();
        waits.contains("operator has not seen")
    })
    .await;
    tear_pin_off(&fleet);
    until(&fleet, "everybody is held again", |fleet| {
        let copies: Vec<Value> = ["east", "west", "north"]
            .into_iter()
            .filter_map(|name| fleet.copy(name))
            .collect();
        fleet.count(&PINS) == 1
            && status(fleet)["findings"]
                .to_string()
                .contains("SingleWriterLapse")
            && copies
                .iter()
                .all(|copy| copy["spec"]["job"]["state"] == "suspended")
    })
    .await;
    for cluster in ["west", "north"] {
        fleet
            .world
            .member(cluster)
            .simulators(|simulators| simulators.thaw());
    }
    let to = moved_from(&fleet, "east").await;
    let verdict = fleet.world.ledger().verdict();
    assert_eq!(verdict.overlaps, [], "{verdict}");
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
}

fn forbid_canaries(fleet: &Fleet) {
    let rule = Rule::new(Effect::Refuse(403))
        .verb("create")
        .resource("propagationpolicies");
    fleet.world.faults().requests(rule);
}

#[tokio::test(start_paused = true)]
async fn the_fence_stands_in_for_a_canary_that_a_failover_may_not_create() {
    let fleet = unled().await;
    let cluster = Cluster::from_client(fleet.world.client(), Limits::default());
    let name = cluster.whoami().await.unwrap();
    install_fence(&cluster, &[name]).await.unwrap().unwrap();
    fleet.lead(Arc::new(NoFailpoints));
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    forbid_canaries(&fleet);
    taint(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(status(&fleet)["journal"]["fence"]["barrier"]["canary"], "");
    one_writer(&fleet);
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn without_canary_and_fence_a_failover_is_held_and_says_what_is_needed() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    forbid_canaries(&fleet);
    taint(&fleet, "east");
    until(&fleet, "it says what it needs", |fleet| {
        let why = status(fleet)["waitingFor"]["reason"].to_string();
        phase_is(fleet, FailoverPhase::Fencing)
            && why.contains("docs/how-to/operate.md#rbac")
            && why.contains("docs/how-to/operate.md#admission-fence")
    })
    .await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(phase_is(&fleet, FailoverPhase::Fencing) && status(&fleet)["writer"].is_null());
    fleet.world.faults().end();
    let to = moved_from(&fleet, "east").await;
    one_writer(&fleet);
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
}
