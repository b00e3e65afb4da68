//! One of the workloads that a RolloutPolicy rolls: which one a command means, and how its Rollout stands.

use std::sync::Arc;

use serde_json::Value;

use super::look::{Known, Look};
use super::named;
use super::target::{self, Target, find_intent};
use super::workspace::Workspace;
use cutover_core::api::{RolloutPolicySpec, RolloutPolicyStatus, WorkloadRef};
use cutover_core::error::{Error, Result};
use cutover_core::intent::rollout_policy;
use cutover_core::intent::selected::Selected;
use cutover_core::manifest::Manifest;

/// Finds a policy by its name, and one of the workloads that it selects by `KIND/NAME`.
pub fn find(workspace: &Workspace, policy: &str, namespace: Option<&str>, workload: &str) -> Result<Target> {
    let found = find_intent(workspace, policy, namespace, |kind| kind == "RolloutPolicy")?
        .ok_or_else(|| workspace.no_intent(policy))?;
    let (manifest, namespace) = match (found.kind(), &found.namespace) {
        ("RolloutPolicy", Some(namespace)) => (found.manifest.clone(), namespace.clone()),
        _ => {
            return Err(
                Error::user(format!("{} is not a RolloutPolicy", found.full_name()))
                    .at(found.manifest.source.clone())
                    .hint("leave --workload out: only a RolloutPolicy is about several workloads"),
            );
        }
    };
    let spec = spec(&manifest)?;
    let template = named::find(workspace, workload, Some(&namespace))?;
    let mut key = template.key.clone();
    key.namespace = Some(namespace.clone());
    let labels = template.value.pointer("/metadata/labels").cloned();
    let labels = serde_json::from_value(labels.unwrap_or_default()).unwrap_or_default();
    if !Selected::new(&namespace, &spec.select).takes(&key, Some(&labels), None) {
        let error = format!(
            "{} {} is not selected by {namespace}/{}",
            key.kind, key.name, manifest.key.name
        );
        return Err(Error::user(error)
            .at(manifest.location("/spec/select"))
            .hint("cutover status shows which intent rolls its changes"));
    }
    let mut controls = spec.controls.iter();
    let at = controls.position(|control| control.kind == key.kind && control.name == key.name);
    Ok(Target {
        workload: Some(target::Selected { template, at }),
        ..Target::intent(manifest, namespace)
    })
}

/// Asks how a target stands: of a workload, the Rollout that rolls its changes.
pub async fn known(look: Look<'_>, workspace: &Workspace, target: &Target) -> Known<Value> {
    let (key, namespace) = (&target.manifest.key, target.namespace.as_deref());
    let intent = look
        .known::<Value>(workspace, &key.kind, namespace, &key.name)
        .await;
    let (policy, selected) = match (intent, &target.workload) {
        (Known::As(policy), Some(selected)) => (policy, selected),
        (intent, _) => return intent,
    };
    match rollout_name(&policy, target, &selected.template) {
        Some(rollout) => look.known(workspace, "Rollout", namespace, &rollout).await,
        None => Known::Not(Vec::new()),
    }
}

/// Returns the name of the Rollout of a workload. It is made of the policy's uid, which only the control plane knows; a record has
/// the name in the policy's status.
fn rollout_name(policy: &Value, target: &Target, template: &Manifest) -> Option<String> {
    let (kind, name) = (&template.key.kind, &template.key.name);
    if let Some(uid) = policy["metadata"]["uid"].as_str() {
        let workload = WorkloadRef {
            api_version: template.gvk.api_version(),
            kind: kind.clone(),
            name: name.clone(),
        };
        let of = (
            target.manifest.key.name.as_str(),
            target.namespace.as_deref()?,
            uid,
        );
        let rollout = rollout_policy::rollout(of, &spec(&target.manifest).ok()?, &workload);
        return rollout.metadata.name;
    }
    let status: RolloutPolicyStatus = serde_json::from_value(policy.get("status")?.clone()).ok()?;
    let mut workloads = status.workloads.into_iter();
    workloads.find(|one| one.kind == *kind && one.name == *name)?.by
}

fn spec(policy: &Arc<Manifest>) -> Result<RolloutPolicySpec> {
    let spec = policy.value.get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec).map_err(|error| {
        Error::user(format!("{} cannot be read: {error}", policy.key))
            .at(policy.source.clone())
            .hint("cutover validate says what is wrong with it")
    })
}
