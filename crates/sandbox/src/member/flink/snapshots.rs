//! `FlinkStateSnapshot`s: savepoints of jobs that run on (`FlinkStateSnapshotController`, `StateSnapshotReconciler`,
//! `StateSnapshotObserver`, `FlinkStateSnapshotUtils`).
//!
//! Only for members that have the definition. Not simulated: checkpoints, savepoints that exist already, disposal, another try after
//! a failure, and the objects that the operator makes by itself: it puts those savepoints into the status, as it does without the
//! definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::jobs::Jobs;
use super::resource::Kind;
use crate::member::cache::{Cache, Key, without_owners};
use crate::member::{Context, Gate, kind, status};

const PLURAL: &str = "flinkstatesnapshots";

fn resource() -> ApiResource {
    ApiResource {
        group: "flink.apache.org".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "flink.apache.org/v1beta1".to_owned(),
        kind: "FlinkStateSnapshot".to_owned(),
        plural: PLURAL.to_owned(),
    }
}

/// Returns a definition that takes whatever the operator's does, and more.
pub fn definition() -> Value {
    kind::definition(&resource())
}

/// Takes the savepoints that are asked for, one after the other, for ever.
pub async fn run(client: Client, context: Arc<Context>, jobs: Jobs, gate: Gate) {
    let cache = Cache::new();
    let mut changes = cache.subscribe();
    let own = Arc::clone(&context);
    let behind = || own.lag.behind(&own.cluster, PLURAL);
    let feed = cache
        .clone()
        .feed(client.clone(), resource(), behind, &own, without_owners);
    let work = async {
        let mut operator = Operator {
            client,
            context,
            jobs,
            outcomes: BTreeMap::new(),
        };
        loop {
            changes.mark_unchanged();
            let mut complete = true;
            for (key, object) in cache.all() {
                gate.open().await;
                complete &= operator.handle(&key, &object).await;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(operator.context.timings.retry), if !complete => {}
            }
        }
    };
    tokio::join!(feed, work);
}

struct Operator {
    client: Client,
    context: Arc<Context>,
    jobs: Jobs,
    /// What came of the objects that were worked on, by uid: the cache may not show it yet.
    outcomes: BTreeMap<String, Value>,
}

impl Operator {
    /// Brings one object to its end; `false`: that has to be tried again.
    async fn handle(&mut self, key: &Key, object: &DynamicObject) -> bool {
        let (spec, shown) = (&object.data["spec"], &object.data["status"]);
        let is_due = spec["savepoint"].is_object() && shown["state"].is_null();
        if !is_due || object.metadata.deletion_timestamp.is_some() {
            return true;
        }
        let name = spec["jobReference"]["name"].as_str().unwrap_or_default();
        let kind = match spec["jobReference"]["kind"].as_str() {
            Some("FlinkSessionJob") => Kind::SessionJob,
            _ => Kind::Deployment,
        };
        let uid = object.uid().unwrap_or_default();
        let outcome = match self.outcomes.get(&uid) {
            Some(outcome) => outcome.clone(),
            None => {
                let job = (key.0.clone(), name.to_owned());
                let outcome = self.savepoint(kind, &job).await;
                self.outcomes.insert(uid, outcome.clone());
                outcome
            }
        };
        self.label(key, kind, name, &outcome).await
            && status::write(&self.client, &resource(), key, Some(shown), &outcome).await
    }

    async fn savepoint(&self, kind: Kind, job: &Key) -> Value {
        let taken = self.jobs.of_kind(kind).savepoint(job).await;
        let at = self.context.clock.now().to_string();
        match taken {
            Ok(path) => json!({"state": "COMPLETED", "path": path, "resultTimestamp": at}),
            Err(why) => json!({"state": "ABANDONED", "error": why, "resultTimestamp": at}),
        }
    }

    /// `FlinkStateSnapshotUtils.getSnapshotLabels`.
    async fn label(&self, key: &Key, kind: Kind, job: &str, outcome: &Value) -> bool {
        let metadata = json!({"labels": {
            "snapshot.type": "SAVEPOINT", "snapshot.trigger-type": "MANUAL", "snapshot.state": outcome["state"],
            "job-reference.kind": kind.name(), "job-reference.name": job,
        }});
        status::merge(&self.client, &resource(), key, &metadata).await
    }
}
