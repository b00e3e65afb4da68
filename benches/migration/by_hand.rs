//! A move as a person's best script makes it, through a client: no waiting that isn't needed, and nothing checked.
//!
//! The template is suspended, its savepoint awaited in the member itself, the policy pointed at the target, and the template let
//! run from the savepoint as soon as the binding lists the target alone.

use std::time::Duration;

use serde_json::{Value, json};

use super::place::{PATIENCE, Place};
use super::server::{BINDINGS, JOBS, POLICIES};

/// How often the script looks: as fast as `kubectl get` in a loop would not be.
const LOOKS: Duration = Duration::from_millis(20);

/// Moves a job from one member to another.
pub async fn migrate(place: &Place, job: &str, from: &str, to: &str) {
    let (control, namespace) = (&place.control, Some(place.namespace.as_str()));
    let source = &place.members[from].server;
    let savepoint_of = |copy: &Value| {
        let path = copy.pointer("/status/jobStatus/upgradeSavepointPath");
        path.and_then(Value::as_str).map(str::to_owned)
    };
    let before = source
        .get(JOBS, namespace, job)
        .await
        .as_ref()
        .and_then(savepoint_of);
    let stop = json!({"spec": {"job": {"state": "suspended"}}});
    control.patch(JOBS, namespace, job, stop).await.unwrap();
    let savepoint = loop_until("the savepoint", async || {
        let copy = source.get(JOBS, namespace, job).await?;
        let savepoint = savepoint_of(&copy);
        let has_stopped = copy["status"]["lifecycleState"] == "SUSPENDED"
            || copy["status"]["jobStatus"]["state"] == "FINISHED";
        savepoint.filter(|savepoint| has_stopped && Some(savepoint) != before.as_ref())
    })
    .await;
    let only = json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": [to]}}}});
    control.patch(POLICIES, namespace, job, only).await.unwrap();
    let binding = format!("{job}-flinkdeployment");
    loop_until("the binding lists the target alone", async || {
        let binding = control.get(BINDINGS, namespace, &binding).await?;
        let listed = binding["spec"]["clusters"].as_array()?;
        (listed.len() == 1 && listed[0]["name"] == to).then_some(())
    })
    .await;
    let go_on = json!({"spec": {"job": {"state": "running", "initialSavepointPath": savepoint}}});
    control.patch(JOBS, namespace, job, go_on).await.unwrap();
}

async fn loop_until<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let looks = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(LOOKS).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looks).await;
    found.unwrap_or_else(|_| panic!("{what}: not after {PATIENCE:?}"))
}
