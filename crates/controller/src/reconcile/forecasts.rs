//! What would come of the intents of a plan, and of templates that a rollout takes along. Only reads and dry-runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::Value;

use super::intents::{self, Canaries, Fits, NoFailpoints, NoMetrics, Parts};
use super::plan::Plan;
use super::records::Unread;
use crate::telemetry::Telemetry;
use cutover_cluster::{Answer, Cluster, Lookup, Observer};
use cutover_core::api::{self, WorkloadRef};
use cutover_core::plan::{Action, Change, ChangeSet, Forecast};
use cutover_karmada::name::{Gvk, ObjectKey};

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
        failpoints: Arc::new(NoFailpoints),
        canaries: Canaries::default(),
        fits: Fits::default(),
        telemetry: Telemetry::default(),
    };
    let mut asked = Vec::new();
    for change in plan.changes.changes.iter().filter(|change| change.is_written()) {
        if let Some(intent) = change.after.as_ref().filter(|_| change.key.group == api::GROUP) {
            asked.push((
                change.key.clone(),
                intent.clone(),
                comes_first(intent, &plan.changes),
            ));
        }
    }
    asked.extend(taken_along(cluster, &plan.changes).await);
    let parts = &parts;
    let told = asked.into_iter().map(async |(key, intent, later)| {
        let forecast = Box::pin(intents::dry_run(parts, &intent, later)).await;
        Some((key, forecast?))
    });
    join_all(told).await.into_iter().flatten().collect()
}

/// Returns the rollouts that take a template of the plan along, by the change of that template: those that are there, and
/// those that policies would make.
async fn taken_along(cluster: &Cluster, changes: &ChangeSet) -> Vec<(ObjectKey, Value, Option<String>)> {
    let held: Vec<(&Change, &str)> = changes.changes.iter().filter_map(held_by).collect();
    if held.is_empty() {
        return Vec::new();
    }
    let mut all: BTreeMap<ObjectKey, Value> = BTreeMap::new();
    for rollout in every(cluster, "Rollout").await {
        let about = intents::templates_of_rollout(&rollout);
        let template = held.iter().find(|(change, _)| about.contains(&change.key));
        all.extend(template.map(|(change, _)| (change.key.clone(), rollout)));
    }
    let by_policy = held
        .iter()
        .filter_map(|(change, by)| Some((change, by.strip_prefix("RolloutPolicy ")?)));
    let by_policy: Vec<_> = by_policy
        .filter(|(change, _)| !all.contains_key(&change.key))
        .collect();
    if by_policy.is_empty() {
        return told_of(all);
    }
    // As the plan leaves them.
    let written = changes.changes.iter().filter(|change| change.is_written());
    let written = written.filter_map(|change| change.after.clone());
    let written = written.filter(|after| after["kind"] == "RolloutPolicy");
    let policies: Vec<Value> = written.chain(every(cluster, "RolloutPolicy").await).collect();
    for (change, name) in by_policy {
        let is_it = |policy: &&Value| {
            let text = |field: &str| policy["metadata"][field].as_str().unwrap_or_default().to_owned();
            format!("{}/{}", text("namespace"), text("name")) == name
        };
        let policy = policies.iter().find(is_it);
        let made = policy.and_then(|policy| intents::rollout_of_policy(policy, change.after.as_ref()?));
        all.extend(made.map(|rollout| (change.key.clone(), rollout)));
    }
    told_of(all)
}

fn told_of(all: BTreeMap<ObjectKey, Value>) -> Vec<(ObjectKey, Value, Option<String>)> {
    all.into_iter()
        .map(|(key, rollout)| (key, rollout, None))
        .collect()
}

/// Returns what the intents of a plan ask for, by what Git has alone.
pub(super) fn unasked(changes: &ChangeSet) -> BTreeMap<ObjectKey, Forecast> {
    let intents = changes.changes.iter().filter(|change| change.is_written());
    let intents = intents.filter(|change| change.key.group == api::GROUP);
    let told = intents.filter_map(|change| {
        let forecast = intents::unasked(change.after.as_ref()?)?;
        Some((change.key.clone(), forecast))
    });
    told.collect()
}

fn held_by(change: &Change) -> Option<(&Change, &str)> {
    match &change.action {
        Action::HeldBack { by } if !change.is_deletion() => Some((change, by)),
        _ => None,
    }
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

/// All intents of a kind. Where they can't be read, nothing is told of what they would do.
async fn every(cluster: &Cluster, kind: &str) -> Vec<Value> {
    let Ok(Lookup::Served(served)) = cluster.lookup(&Gvk::new(api::API_VERSION, kind)).await else {
        return Vec::new();
    };
    match cluster.reader().list(&served, None, None).await.answer {
        Answer::Found(all) => all,
        Answer::NotFound | Answer::Unknown { .. } => Vec::new(),
    }
}
