//! What is lost and comes back, or doesn't: Works that somebody deletes, clusters that leave and join again.

use cutover::sandbox::api::DeleteOptions;
use cutover::sandbox::karmada::kinds;
use serde_json::{Value, json};

use super::stage::{Stage, held_in_west, job};

fn delete_work(stage: &Stage, cluster: &str) {
    let work = stage.work(cluster);
    let (namespace, name) = (
        work["metadata"]["namespace"].as_str(),
        work["metadata"]["name"].as_str().unwrap(),
    );
    let server = stage.world.control_plane();
    server
        .delete(&kinds::WORKS, namespace, name, &DeleteOptions::default())
        .unwrap();
}

async fn without_its_work(stage: &Stage, cluster: &str) {
    delete_work(stage, cluster);
    stage
        .until("Work and copy are gone", || {
            stage.work(cluster).is_null() && stage.copy(cluster).is_none()
        })
        .await;
    stage.pause(60_000).await;
    assert_eq!(stage.work(cluster), Value::Null);
    assert!(stage.copy(cluster).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_work_that_somebody_deletes_is_recreated_only_with_the_next_change_of_the_template() {
    let stage = job(1).await;
    stage.pause(5000).await;
    let source = stage.listed().remove(0);
    without_its_work(&stage, &source).await;
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.until("it is back", || stage.copy(&source).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_work_that_somebody_deletes_is_recreated_with_a_change_of_the_binding() {
    let stage = job(1).await;
    stage.pause(5000).await;
    let source = stage.listed().remove(0);
    without_its_work(&stage, &source).await;
    stage.edit_binding(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.pause(5000).await;
    assert_eq!(stage.work(&source), Value::Null, "an annotation is no change");
    stage.suspend();
    stage.until("it is back", || stage.copy(&source).is_some()).await;
}

/// A new sequence of a pin is such a change: the Work comes back, and with the hold.
#[tokio::test(start_paused = true)]
async fn a_work_that_somebody_deletes_is_recreated_with_a_change_of_an_override_policy() {
    let stage = held_in_west(1).await;
    without_its_work(&stage, "west").await;
    stage.pin(&["east"], "2");
    stage.marked(&["east", "west"], "2").await;
    assert_eq!(stage.manifest("west")["spec"]["job"]["state"], "suspended");
}

/// The control plane doesn't look at its bindings because a cluster has joined.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_again_gets_its_works_only_with_the_next_change() {
    let stage = held_in_west(1).await;
    let before = stage.get_cluster("west");
    stage.world.rejoin("west", None);
    let after = stage.get_cluster("west");
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_ne!(before["spec"]["id"], after["spec"]["id"]);
    stage.pause(60_000).await;
    assert_eq!(stage.listed(), ["east", "west"]);
    assert_eq!(stage.work("west"), Value::Null);
    stage.pin(&["east"], "2");
    stage.marked(&["east", "west"], "2").await;
    stage
        .until("it is there again", || stage.copy("west").is_some())
        .await;
}
