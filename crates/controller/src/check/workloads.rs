//! Profiles for the kinds of workloads that Karmada propagates: without one, a kind can't be moved.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Check;
use cutover_cluster::{Answer, Cluster, Lookup};
use cutover_core::api::{self, WorkloadProfile};
use cutover_core::profile;
use cutover_karmada::name::Gvk;

const NAME: &str = "profiles";

pub(super) async fn check(cluster: &Cluster) -> Vec<Check> {
    let bindings = match list(cluster, &Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding")).await {
        Ok(bindings) => bindings,
        Err(why) => return vec![Check::skipped(NAME, why)],
    };
    let given = match list(cluster, &Gvk::new(api::API_VERSION, "WorkloadProfile")).await {
        Ok(given) => given,
        Err(why) => return vec![Check::skipped(NAME, why)],
    };
    let (profiles, mut checks) = read(given);
    checks.extend(judged(&profiles, &kinds(&bindings)));
    checks
}

/// Says which of the kinds that there are can be moved.
fn judged(profiles: &[WorkloadProfile], kinds: &BTreeMap<Gvk, usize>) -> Vec<Check> {
    let mut checks = Vec::new();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (kind, count) in kinds {
        if let Some(finding) = profile::ambiguous(profiles, kind) {
            let check = Check::warning(NAME, finding.message);
            checks.push(check.fix(finding.hint.unwrap_or_default()));
            continue;
        }
        match profile::find(profiles, None, kind) {
            Ok(Some(_)) => known.push(format!("{} ({count})", kind.kind)),
            Ok(None) => unknown.push(format!("{} of {} ({count})", kind.kind, kind.group)),
            Err(error) => checks.push(Check::failed(NAME, error.to_string())),
        }
    }
    if kinds.is_empty() {
        checks.push(Check::ok(NAME, "Karmada propagates no workloads yet"));
    } else if !known.is_empty() {
        checks.push(Check::ok(NAME, format!("can be moved: {}", known.join(", "))));
    }
    if !unknown.is_empty() {
        checks.push(
            Check::warning(NAME, format!("no profile for {}", unknown.join(", ")))
                .fix("write a WorkloadProfile if they are to be moved (docs/how-to/migrate.md)"),
        );
    }
    checks
}

/// Reads the profiles of the control plane; one with mistakes is a check that failed.
fn read(given: Vec<Value>) -> (Vec<WorkloadProfile>, Vec<Check>) {
    let (mut profiles, mut checks) = (Vec::new(), Vec::new());
    for object in given {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let fix = "fix the WorkloadProfile; cutover validate says where in its file";
        match serde_json::from_value::<WorkloadProfile>(object) {
            Ok(profile) => {
                if let Err(error) = profile::Profile::compile(&name, &profile.spec) {
                    checks.push(Check::failed(format!("profile {name}"), error.to_string()).fix(fix));
                }
                profiles.push(profile);
            }
            Err(error) => checks.push(Check::failed(format!("profile {name}"), error.to_string()).fix(fix)),
        }
    }
    (profiles, checks)
}

/// Returns the kinds of which Karmada counts replicas, and how many of each there are.
fn kinds(bindings: &[Value]) -> BTreeMap<Gvk, usize> {
    let mut kinds = BTreeMap::new();
    for binding in bindings {
        let (spec, resource) = (&binding["spec"], &binding["spec"]["resource"]);
        let named = resource["apiVersion"].as_str().zip(resource["kind"].as_str());
        let counts = spec["replicas"].as_u64().is_some_and(|replicas| replicas > 0);
        if let (Some((api_version, kind)), true) = (named, counts) {
            *kinds.entry(Gvk::new(api_version, kind)).or_default() += 1;
        }
    }
    kinds
}

async fn list(cluster: &Cluster, gvk: &Gvk) -> Result<Vec<Value>, String> {
    match cluster.lookup(gvk).await {
        Ok(Lookup::Served(served)) => match cluster.reader().list(&served, None, None).await.answer {
            Answer::Found(items) => Ok(items),
            Answer::NotFound => Ok(Vec::new()),
            Answer::Unknown { why } => Err(why),
        },
        Ok(Lookup::NotServed) => Err(format!("{} is not served", gvk.kind)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kinds_with_replicas_are_workloads() {
        let binding = |api_version: &str, kind: &str, replicas: Value| json!({"spec": {"resource": {"apiVersion": api_version, "kind": kind}, "replicas": replicas}});
        let found = kinds(&[
            binding("apps/v1", "Deployment", json!(2)),
            binding("apps/v1", "Deployment", json!(1)),
            binding("v1", "ConfigMap", json!(null)),
            binding("example.com/v1", "Database", json!(1)),
        ]);
        let found: Vec<_> = found
            .iter()
            .map(|(kind, count)| (kind.kind.as_str(), *count))
            .collect();
        assert_eq!(found, [("Deployment", 2), ("Database", 1)]);
    }

    #[test]
    fn a_kind_that_several_profiles_are_for_is_a_warning() {
        let kinds = BTreeMap::from([(Gvk::new("flink.apache.org/v1beta1", "FlinkDeployment"), 1)]);
        let own = |name: &str| {
            let mut own = profile::built_in().unwrap()[0].clone();
            own.metadata.name = Some(name.to_owned());
            own
        };
        let said = |profiles: &[WorkloadProfile]| judged(profiles, &kinds)[0].message.clone();
        assert!(said(&[own("a")]).starts_with("can be moved: FlinkDeployment"));
        assert!(said(&[own("a"), own("b")]).starts_with("several WorkloadProfiles are for "));
    }

    #[test]
    fn a_profile_that_cannot_be_used_is_named() {
        let (profiles, checks) = read(vec![json!({"metadata": {"name": "broken"}, "spec": {}})]);
        assert!(profiles.is_empty());
        assert_eq!(checks[0].name, "profile broken");
        assert!(checks[0].fix.is_some());
    }
}
