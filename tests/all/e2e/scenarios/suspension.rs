//! Suspensions: a burst of changes, none of which reaches the cluster that is suspended.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DEAD_ENDS, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::server::CONFIG_MAPS;
use crate::e2e::sightings::Sightings;

const CHANGES: usize = 20;

pub async fn no_change_reaches_a_suspended_cluster(act: Act) {
    let act = act.deployment();
    let members = act.members();
    act.runs_in(&members, &versioned(&act, 0)).await;
    let (suspended, others) = members.split_first().unwrap();
    let seen = Sightings::of(&act, version);
    let spec = json!({
        "target": {"workload": act.about()}, "clusters": [suspended], "reason": "an end-to-end test",
    });
    act.ask(&spec);
    act.comes_to("Suspended", DEAD_ENDS).await;
    let before = generation(&act, suspended).await;
    for number in 1..=CHANGES {
        act.commit(&[("workload", &versioned(&act, number))]);
    }
    let last = CHANGES.to_string();
    for cluster in others {
        act.until(&format!("{cluster} has the last change"), async |act| {
            version(&act.copy(cluster).await.unwrap()) == last
        })
        .await;
    }
    tells_what_is_kept_back(&act, suspended).await;
    assert_eq!(
        generation(&act, suspended).await,
        before,
        "not even its metadata was written"
    );

    ends_and_lets_the_last_go(&act, &spec, suspended, &seen).await;
}

/// The policy has a `ConfigMap`, too, which goes on getting its changes.
pub async fn one_workload_of_a_shared_policy_is_kept_by_a_pin(act: Act) {
    let act = act.deployment();
    let members = act.members();
    let mut shared = act.policy_of(&members);
    let selectors = shared["spec"]["resourceSelectors"].as_array_mut().unwrap();
    selectors.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": act.name}));
    act.commit(&[
        ("policy", &shared),
        ("workload", &versioned(&act, 0)),
        ("neighbour", &neighbour(&act, 0)),
    ]);
    act.until("both are everywhere", async |act| {
        act.where_it_runs().await == members && neighbours(act).await.iter().all(|one| one == "0")
    })
    .await;
    let (suspended, others) = members.split_first().unwrap();
    let seen = Sightings::of(&act, version);
    let spec = json!({
        "target": {"workload": act.about()}, "clusters": [suspended], "reason": "an end-to-end test",
    });
    act.ask(&spec);
    let status = act.comes_to("Suspended", DEAD_ENDS).await;
    assert_eq!(status["findings"][0]["code"], "HeldByPin", "{status:#}");
    assert!(act.pin().await.is_some());
    for number in 1..=CHANGES {
        act.commit(&[
            ("workload", &versioned(&act, number)),
            ("neighbour", &neighbour(&act, number)),
        ]);
    }
    let last = CHANGES.to_string();
    act.until("everything else has the last change", async |act| {
        let mut versions = neighbours(act).await;
        for cluster in others {
            versions.push(version(&act.copy(cluster).await.unwrap()));
        }
        versions.iter().all(|version| *version == last)
    })
    .await;
    tells_what_is_kept_back(&act, suspended).await;
    assert_eq!(seen.in_cluster(suspended), ["0"], "nothing of it came");

    ends_and_lets_the_last_go(&act, &spec, suspended, &seen).await;
}

async fn tells_what_is_kept_back(act: &Act, suspended: &str) {
    act.until("it says what is kept back", async |act| {
        let held = act.status().await["held"].as_array().cloned().unwrap_or_default();
        held.iter()
            .any(|held| held["cluster"] == *suspended && held["pending"].is_array())
    })
    .await;
}

/// A suspension that is over now: the cluster gets the last change, and none of those before.
async fn ends_and_lets_the_last_go(act: &Act, spec: &Value, suspended: &str, seen: &Sightings) {
    let mut over = spec.clone();
    over["until"] = json!(Timestamp::now());
    act.ask(&over);
    let status = act.comes_to("Completed", &["Failed"]).await;
    assert!(status["steps"].is_array(), "{status:#}");
    let last = CHANGES.to_string();
    act.until("what was kept back has come", async |act| {
        version(&act.copy(suspended).await.unwrap()) == last
    })
    .await;
    assert_eq!(
        seen.in_cluster(suspended),
        ["0", last.as_str()],
        "only the last, and at the end"
    );
    act.is_untouched().await;
}

fn neighbour(act: &Act, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": act.name, "namespace": act.namespace()}, "data": {"version": number.to_string()},
    })
}

/// Which version each member has of what the policy has beside the workload.
async fn neighbours(act: &Act) -> Vec<String> {
    let mut versions = Vec::new();
    for member in act.place().members.values() {
        let copy = member
            .server
            .get(CONFIG_MAPS, Some(act.namespace()), act.name)
            .await;
        let copy = copy.unwrap_or_default();
        versions.push(copy["data"]["version"].as_str().unwrap_or_default().to_owned());
    }
    versions
}

fn versioned(act: &Act, number: usize) -> Value {
    let mut workload = act.workload(IMAGE);
    workload["spec"]["template"]["metadata"]["annotations"] = json!({"version": number.to_string()});
    workload
}

fn version(copy: &Value) -> String {
    let version = copy.pointer("/spec/template/metadata/annotations/version");
    version.and_then(Value::as_str).unwrap_or_default().to_owned()
}

async fn generation(act: &Act, cluster: &str) -> Value {
    act.copy(cluster).await.unwrap()["metadata"]["generation"].clone()
}
