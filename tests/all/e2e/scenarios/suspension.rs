//! Suspensions: a burst of changes, none of which reaches the cluster that is suspended.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DEAD_ENDS, IMAGE};
use crate::e2e::act::Act;
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
    act.until("it says what is kept back", async |act| {
        let held = act.status().await["held"].as_array().cloned().unwrap_or_default();
        held.iter()
            .any(|held| held["cluster"] == **suspended && held["pending"].is_array())
    })
    .await;
    assert_eq!(
        generation(&act, suspended).await,
        before,
        "not even its metadata was written"
    );

    let mut over = spec.clone();
    over["until"] = json!(Timestamp::now());
    act.ask(&over);
    let status = act.comes_to("Completed", &["Failed"]).await;
    assert!(status["steps"].is_array(), "{status:#}");
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
