//! What a cluster must have before the copy runs there, by the labels that a profile selects.

use cutover::sandbox::api::{Resource, WriteOptions};
use cutover::sandbox::member::flink::snapshots;
use serde_json::json;

use super::stage::{SNAPSHOTS, fleet, guarded_in, plan, status, until};
use crate::support::fleet::Fleet;

const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");

/// The cluster gets the object that the profile selects.
fn has_it(fleet: &Fleet, cluster: &str) {
    let member = &fleet.world.member(cluster).api;
    member.install(&snapshots::definition()).unwrap();
    let object = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": "first", "namespace": "shop", "labels": {"of": "orders"}},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "savepoint": {}},
    });
    let writer = WriteOptions::manager("somebody");
    member.create(&SNAPSHOTS, Some("shop"), object, &writer).unwrap();
}

/// What the plan tells of west.
fn told(fleet: &Fleet) -> Vec<String> {
    let status = status(fleet);
    let findings = status["findings"].as_array().into_iter().flatten();
    let messages = findings.filter_map(|finding| finding["message"].as_str());
    let of_west = messages.filter(|message| message.contains("west has "));
    of_west.map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn what_another_cluster_lacks_is_told_while_nothing_fails_until_it_is_there() {
    let fleet = fleet().await;
    let mut profile = cutover::profile::built_in().unwrap()[0].clone();
    let needs = json!([{
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot", "labelSelector": "of=${name}",
        "message": "its savepoint is deleted",
    }]);
    profile.spec.needs = serde_json::from_value(needs).unwrap();
    fleet.create(&PROFILES, None, serde_json::to_value(&profile).unwrap());
    has_it(&fleet, "east");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let lacks =
        "west has no FlinkStateSnapshot first, which east has beside the workload: its savepoint is deleted";
    until(&fleet, "it is told what west lacks", |fleet| {
        told(fleet) == [lacks]
    })
    .await;
    has_it(&fleet, "west");
    until(&fleet, "it is seen in west", |fleet| told(fleet).is_empty()).await;
    guarded_in(&fleet, "east").await;
}
