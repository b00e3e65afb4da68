//! A cluster that nobody can see: what is held, what lets it go on, and what becomes of the old copy when it comes back.

use std::time::Duration;

use cutover::api::FailoverPhase;
use cutover::sandbox::api::{DeleteOptions, Patch, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};

use super::modes::moved_from;
use super::stage::{
    fleet, guarded_in, known, last_move, lose, one_writer, phase_is, plan, power_off, power_on, purge_mode,
    savepoint, started_from, status, taint, tasks, tidy, untaint, until, unwell,
};
use crate::support::fleet::Fleet;

/// The plan of most tests here.
fn by_approval() -> Value {
    json!({"sourceUnreachable": {"proceedAfter": "5m", "fencedBy": "Approval"}})
}

fn approved() -> Value {
    let mut spec = by_approval();
    spec["approvals"] = json!([{"gate": "Fenced", "cluster": "east", "attempt": 1, "by": "ann"}]);
    spec
}

/// A job in east with a known state, under a plan.
async fn guarded(mode: &str, spec: Value) -> (Fleet, String) {
    let fleet = fleet().await;
    purge_mode(&fleet, mode);
    plan(&fleet, spec);
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    (fleet, handle)
}

#[tokio::test(start_paused = true)]
async fn held_until_the_lost_cluster_comes_back_it_goes_on_from_what_is_left_there() {
    for mode in ["Directly", "Gracefully"] {
        let (fleet, handle) = guarded(mode, json!({})).await;
        lose(&fleet, "east");
        until(&fleet, "it is held", |fleet| {
            phase_is(fleet, FailoverPhase::Fencing)
        })
        .await;
        tokio::time::sleep(Duration::from_mins(30)).await;
        assert!(phase_is(&fleet, FailoverPhase::Fencing), "{:#}", status(&fleet));
        let wait = status(&fleet)["waitingFor"]["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(wait.contains("sourceUnreachable: Hold"), "{wait}");
        one_writer(&fleet);
        fleet.world.faults().heal("east");
        let to = moved_from(&fleet, "east").await;
        assert_eq!(started_from(&fleet, &to), handle);
        until(&fleet, "the old copy is gone", |fleet| {
            fleet.copy("east").is_none()
        })
        .await;
        one_writer(&fleet);
        untaint(&fleet, "east");
        tidy(&fleet, &to).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_who_answers_for_the_lost_cluster_lets_it_go_on_and_the_old_copy_goes_when_it_is_back() {
    for mode in ["Directly", "Gracefully"] {
        let (fleet, handle) = guarded(mode, by_approval()).await;
        lose(&fleet, "east");
        power_off(&fleet, "east");
        let question = json!([{"gate": "Fenced", "cluster": "east", "attempt": 1}]);
        until(&fleet, "a person is asked", |fleet| {
            status(fleet)["asks"] == question
        })
        .await;
        tokio::time::sleep(Duration::from_mins(15)).await;
        assert!(phase_is(&fleet, FailoverPhase::Fencing));
        plan(&fleet, approved());
        let to = moved_from(&fleet, "east").await;
        assert_eq!(started_from(&fleet, &to), handle);
        assert_eq!(last_move(&fleet)["by"], "ann");
        assert_eq!(status(&fleet)["oldCopies"]["east"]["fenced"], "ann");
        one_writer(&fleet);
        fleet.world.faults().heal("east");
        // Its operator, which has a finalizer on it, comes back last.
        until(&fleet, "the old copy is being deleted", |fleet| {
            let copy = fleet.copy("east");
            copy.is_none_or(|copy| !copy["metadata"]["deletionTimestamp"].is_null())
        })
        .await;
        power_on(&fleet, "east");
        until(&fleet, "the old copy is gone", |fleet| {
            fleet.copy("east").is_none() && status(fleet)["oldCopies"].is_null()
        })
        .await;
        untaint(&fleet, "east");
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert!(fleet.runs_in(&to) && fleet.copy("east").is_none());
        one_writer(&fleet);
        tidy(&fleet, &to).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_comes_back_before_the_release_speaks_for_itself() {
    let (fleet, _) = guarded("Gracefully", by_approval()).await;
    lose(&fleet, "east");
    until(&fleet, "it is held", |fleet| {
        phase_is(fleet, FailoverPhase::Fencing)
    })
    .await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    fleet.world.faults().heal("east");
    let to = moved_from(&fleet, "east").await;
    let done = last_move(&fleet);
    assert!(done["by"].is_null(), "nobody had to answer for it: {done:#}");
    until(&fleet, "the old copy is gone", |fleet| {
        fleet.copy("east").is_none()
    })
    .await;
    assert!(fleet.runs_in(&to));
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_fenced_by_the_infrastructure_let_it_go_on_by_itself() {
    let (fleet, handle) = guarded(
        "Gracefully",
        json!({"sourceUnreachable": {"proceedAfter": "5m", "fencedBy": "NodeFencing"}}),
    )
    .await;
    let begun = tokio::time::Instant::now();
    lose(&fleet, "east");
    power_off(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert!(begun.elapsed() >= Duration::from_mins(5));
    assert_eq!(started_from(&fleet, &to), handle);
    assert!(
        last_move(&fleet)["by"]
            .as_str()
            .unwrap()
            .contains("fencing of its nodes")
    );
    one_writer(&fleet);
}

/// With `Never` the old copy stays, and what is written to it is that it holds.
#[tokio::test(start_paused = true)]
async fn a_copy_to_be_kept_in_a_lost_cluster_is_held_before_anything_else_when_it_comes_back() {
    let mut spec = by_approval();
    spec["purge"] = json!({"confirm": true});
    let (fleet, handle) = guarded("Never", spec.clone()).await;
    unwell(&fleet, "east");
    until(&fleet, "it is evicted", |fleet| {
        phase_is(fleet, FailoverPhase::Evicted)
    })
    .await;
    fleet.world.faults().partition("east");
    power_off(&fleet, "east");
    until(&fleet, "a person is asked", |fleet| {
        status(fleet)["asks"][0]["gate"] == "Fenced"
    })
    .await;
    spec["approvals"] = approved()["approvals"].clone();
    plan(&fleet, spec);
    let to = moved_from(&fleet, "east").await;
    assert_eq!(started_from(&fleet, &to), handle);
    assert_eq!(tasks(&fleet)[0]["suppressDeletion"], true);
    fleet.world.faults().heal("east");
    until(&fleet, "it is told to hold", |fleet| {
        fleet
            .copy("east")
            .is_some_and(|copy| copy["spec"]["job"]["state"] == "suspended")
    })
    .await;
    power_on(&fleet, "east");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!fleet.runs_in("east") && fleet.runs_in(&to));
    one_writer(&fleet);
}

const LEASES: Resource = Resource::new("coordination.k8s.io", "leases");
const NODES: Resource = Resource::new("", "nodes");

fn node_is(fleet: &Fleet, cluster: &str, ready: &str) {
    let status = Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}}));
    let (writer, node) = (WriteOptions::manager("somebody"), format!("{cluster}-node-1"));
    let api = &fleet.world.member(cluster).api;
    api.patch(&NODES, None, &node, Some(Subresource::Status), &status, &writer)
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_in_a_cluster_in_reach_keeps_nobody_from_the_newest_state() {
    let (fleet, older) = guarded("Gracefully", by_approval()).await;
    node_is(&fleet, "east", "Unknown");
    taint(&fleet, "east");
    let question = json!([{"gate": "Fenced", "cluster": "east", "attempt": 1}]);
    until(&fleet, "a person is asked", |fleet| {
        status(fleet)["asks"] == question
    })
    .await;
    let wait = status(&fleet)["waitingFor"]["reason"].clone();
    assert!(wait.as_str().unwrap().contains("east-node-1"), "{wait}");
    plan(&fleet, approved());
    let to = moved_from(&fleet, "east").await;
    let done = last_move(&fleet);
    assert_eq!(done["state"]["source"], "Captured", "{done:#}");
    assert_ne!(started_from(&fleet, &to), older);
    assert_eq!(done["state"]["values"]["savepoint"], started_from(&fleet, &to));
    one_writer(&fleet);
    // The node can say what became of its pods: nobody has to remember the copy any more.
    node_is(&fleet, "east", "True");
    until(&fleet, "it is forgotten", |fleet| {
        status(fleet)["oldCopies"].is_null()
    })
    .await;
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
}

/// Karmada's flags give its Leases other names.
#[tokio::test(start_paused = true)]
async fn a_scheduler_that_is_replaced_is_noticed_whatever_its_lease_is_called() {
    replaced(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_the_usual_name_that_was_left_does_not_hide_the_one_in_use() {
    replaced(true).await;
}

async fn replaced(leaves_old_ones: bool) {
    let fleet = fleet().await;
    let server = fleet.world.control_plane();
    let (namespace, writer) = (Some("karmada-system"), WriteOptions::manager("somebody"));
    let usual = ["karmada-scheduler", "karmada-controller-manager"];
    for name in usual.into_iter().filter(|_| !leaves_old_ones) {
        server
            .delete(&LEASES, namespace, name, &DeleteOptions::default())
            .unwrap();
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "prod-scheduler", "namespace": "karmada-system"}, "spec": {"holderIdentity": "a"},
    });
    server.create(&LEASES, namespace, lease, &writer).unwrap();
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    lose(&fleet, "east");
    let holds = |holder: &'static str| {
        move |fleet: &Fleet| {
            let barrier = &status(fleet)["journal"]["fence"]["barrier"];
            barrier["leases"]["prod-scheduler"]["holder"] == holder
        }
    };
    until(&fleet, "the barrier is passed", holds("a")).await;
    let another = Patch::Merge(json!({"spec": {"holderIdentity": "b"}}));
    server
        .patch(&LEASES, namespace, "prod-scheduler", None, &another, &writer)
        .unwrap();
    until(&fleet, "another barrier is passed", holds("b")).await;
    one_writer(&fleet);
}
