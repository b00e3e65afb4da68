//! What would come of the intents of a plan, and of templates that a rollout takes along. Only reads and dry-runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::Value;

use super::intents::{self, NoMetrics, Nobody, Parts};
use super::plan::Plan;
use super::records::Unread;
use crate::api::{self, WorkloadRef};
use crate::cluster::{Answer, Cluster, Lookup, Observer};
use crate::name::{Gvk, ObjectKey};
use crate::plan::{Action, Change, ChangeSet, Forecast};

/// Returns what would come of each intent that comes or changes, by the change under which it is told.
pub(super) async fn forecasts(
    cluster: &Cluster,
    plan: &Plan,
    now: Timestamp,
) -> BTreeMap<ObjectKey, Forecast> {
    let parts = Parts {
        cluster: cluster.clone(),
        observer: Observer::new(cluster.clone()),
        records: Arc::new(Unread),
        templates: Arc::new(plan.templates.clone()),
        metrics: Arc::new(NoMetrics),
        notifier: None,
        clock: Arc::new(move || now),
        witness: Arc::new(Nobody),
    };
    let mut asked = Vec::new();
    for change in plan.changes.changes.iter().filter(|change| is_written(change)) {
        if let Some(intent) = change.after.as_ref().filter(|_| change.key.group == api::GROUP) {
            asked.push((
                change.key.clone(),
                intent.clone(),
                comes_first(intent, &plan.changes),
            ));
        }
    }
    let held = plan
        .changes
        .changes
        .iter()
        .filter(|change| is_held(change))
        .collect::<Vec<_>>();
    if !held.is_empty() {
        for rollout in rollouts(cluster).await {
            let about = intents::templates_of_rollout(&rollout);
            let template = held.iter().find(|change| about.contains(&change.key));
            asked.extend(template.map(|change| (change.key.clone(), rollout, None)));
        }
    }
    let parts = &parts;
    let told = asked.into_iter().map(async |(key, intent, later)| {
        let forecast = Box::pin(intents::foretell(parts, &intent, later)).await;
        Some((key, forecast?))
    });
    join_all(told).await.into_iter().flatten().collect()
}

/// Returns what the intents of a plan ask for, by what Git has alone.
pub(super) fn unasked(changes: &ChangeSet) -> BTreeMap<ObjectKey, Forecast> {
    let intents = changes.changes.iter().filter(|change| is_written(change));
    let intents = intents.filter(|change| change.key.group == api::GROUP);
    let told = intents.filter_map(|change| {
        let forecast = intents::unasked(change.after.as_ref()?)?;
        Some((change.key.clone(), forecast))
    });
    told.collect()
}

pub(super) const fn is_written(change: &Change) -> bool {
    matches!(
        change.action,
        Action::Create | Action::Configure | Action::Recreate { .. }
    )
}

fn is_held(change: &Change) -> bool {
    matches!(change.action, Action::HeldBack { .. }) && !change.is_deletion()
}

/// Intents come last: a workload of the same push isn't there yet, and will be.
fn comes_first(intent: &Value, changes: &ChangeSet) -> Option<String> {
    let named = intent
        .pointer("/spec/workload")
        .or_else(|| intent.pointer("/spec/target/workload"))?;
    let workload: WorkloadRef = serde_json::from_value(named.clone()).ok()?;
    let namespace = intent["metadata"]["namespace"].as_str();
    let keys = [workload.key(namespace), workload.key(None)];
    let mut created = changes
        .changes
        .iter()
        .filter(|change| change.action == Action::Create);
    created
        .any(|change| keys.contains(&change.key))
        .then(|| "the workload comes with the same push, and has to run first".to_owned())
}

/// The rollouts that are there. Where they can't be read, nothing is told of what they would do.
async fn rollouts(cluster: &Cluster) -> Vec<Value> {
    let gvk = Gvk::new(api::API_VERSION, "Rollout");
    let Ok(Lookup::Served(served)) = cluster.lookup(&gvk).await else {
        return Vec::new();
    };
    match cluster.reader().list(&served, None, None).await.answer {
        Answer::Found(all) => all,
        Answer::NotFound | Answer::Unknown { .. } => Vec::new(),
    }
}
