//! One of the workloads that a RolloutPolicy rolls: which one commands mean, and how its Rollout stands.

use std::sync::Arc;

use serde_json::Value;

use super::control::LookArgs;
use super::control_edit::{self, Target};
use super::named;
use super::workspace::Workspace;
use cutover_core::api::{self, RolloutPolicySpec, RolloutPolicyStatus, WorkloadRef};
use cutover_core::error::{Error, Result};
use cutover_core::intent::rollout_policy;
use cutover_core::intent::selected::Selected;
use cutover_core::manifest::Manifest;
use cutover_karmada::name::Gvk;

/// Finds a policy by `NAME` or `NAMESPACE/NAME`, and one of the workloads that it selects by `KIND/NAME`.
pub fn find<'a>(
    workspace: &'a Workspace,
    policy: &'a str,
    namespace: Option<&str>,
    workload: &str,
) -> Result<Target<'a>> {
    let found = workspace.only("RolloutPolicy", policy, namespace);
    let (manifest, namespace) = found.ok_or_else(|| {
        let hint = "name it as NAMESPACE/NAME; a workload with a Rollout of its own goes by that one's name";
        workspace.no_one("RolloutPolicy", policy, hint)
    })?;
    let spec = spec(manifest)?;
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
            .hint("cutover status shows what rolls its changes"));
    }
    let mut controls = spec.controls.iter();
    let at = controls.position(|said| said.kind == key.kind && said.name == key.name);
    Ok(Target {
        manifest,
        namespace,
        workload: Some(control_edit::Selected { template, at }),
    })
}

/// Returns who is told as the control plane or else the status branch has it: of a workload, the Rollout that takes its changes
/// along.
pub async fn object(look: &LookArgs, workspace: &Workspace, to: &Target<'_>) -> Option<Value> {
    let namespace = Some(to.namespace.as_str());
    let intent = look.object(workspace, to.manifest, namespace).await?;
    let Some(selected) = &to.workload else {
        return Some(intent);
    };
    let rollout = rollout_name(&intent, to, &selected.template)?;
    let gvk = Gvk::new(api::API_VERSION, "Rollout");
    look.named(workspace, &gvk, namespace, &rollout).await
}

/// What the name is made of only the control plane knows; the status of the policy says it where there is something to say.
fn rollout_name(policy: &Value, to: &Target<'_>, template: &Manifest) -> Option<String> {
    let (kind, name) = (&template.key.kind, &template.key.name);
    if let Some(uid) = policy["metadata"]["uid"].as_str() {
        let workload = WorkloadRef {
            api_version: template.gvk.api_version(),
            kind: kind.clone(),
            name: name.clone(),
        };
        let of = (to.manifest.key.name.as_str(), to.namespace.as_str(), uid);
        let rollout = rollout_policy::rollout(of, &spec(to.manifest).ok()?, &workload);
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
