//! What becomes of workloads whose templates a plan takes out of Git, by the bindings and profiles that were read.

use super::preflight::is_of;
use cutover_core::api::WorkloadProfile;
use cutover_core::config::UnknownKinds;
use cutover_core::intent::Seen;
use cutover_core::intent::gate::{State, may_have_state, state_of};
use cutover_core::plan::{Action, Change};
use cutover_core::profile;
use cutover_core::report::review::Ending;
use cutover_karmada::ResourceBinding;

/// Returns whether a change takes out of Git what may run somewhere.
pub(super) fn leaves_git(change: &Change) -> bool {
    let leaves = change.is_deletion() || matches!(change.action, Action::LeftBehind { .. });
    leaves && may_have_state(&change.key)
}

/// Returns what becomes of the workloads that leave Git; an error says what could not be read. What has neither replicas nor a
/// profile, and of which no state is known, is no workload.
pub(super) fn endings(
    leaving: &[&Change],
    profiles: &Seen<Vec<WorkloadProfile>>,
    bindings: &Seen<Vec<ResourceBinding>>,
) -> Result<Vec<Ending>, String> {
    if leaving.is_empty() {
        return Ok(Vec::new());
    }
    let given = profiles.get().map_err(|why| why.to_string())?;
    let bindings = bindings.get().map_err(|why| why.to_string())?;
    let mut endings = Vec::new();
    for change in leaving {
        let Some(binding) = bindings.iter().find(|binding| is_of(binding, &change.key)) else {
            continue;
        };
        let (profile, state) = profile::find(given, None, &change.gvk)
            .and_then(|profile| Ok((profile, state_of(given, &change.gvk, UnknownKinds::Pass)?)))
            .map_err(|error| error.to_string())?;
        if profile.is_some() || state != State::None || binding.spec.replicas > 0 {
            endings.extend(Ending::of(change, binding, state));
        }
    }
    Ok(endings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_core::intent::Read;
    use cutover_karmada::meta;
    use cutover_karmada::name::{Gvk, ObjectKey};
    use serde_json::json;

    /// What is reported of an object that leaves Git, of which Karmada counts no replicas.
    fn effects_of(api_version: &str, kind: &str) -> Vec<String> {
        let gvk = Gvk::new(api_version, kind);
        let key = ObjectKey {
            group: gvk.group.clone(),
            kind: kind.to_owned(),
            namespace: Some("shop".to_owned()),
            name: "one".to_owned(),
        };
        let metadata = json!({"name": "one", "namespace": "shop"});
        let live = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": meta::binding_name("one", kind), "namespace": "shop"},
            "spec": {
                "resource": {"apiVersion": api_version, "kind": kind, "namespace": "shop", "name": "one"},
                "clusters": [{"name": "east"}],
            },
        });
        let read = Read { sent: 1, answered: 2 };
        let bindings = vec![serde_json::from_value(binding).unwrap()];
        let found = endings(
            &[&Change::delete(key, gvk, &live)],
            &Seen::known(Vec::new(), read),
            &Seen::known(bindings, read),
        );
        found.unwrap().iter().map(Ending::effect).collect()
    }

    #[test]
    fn what_cannot_be_moved_is_a_workload_that_ends() {
        for (api_version, kind, expected) in [
            (
                "k8s.mariadb.com/v1alpha1",
                "MariaDB",
                "ends in east, with its state",
            ),
            ("batch/v1", "CronJob", "ends in east; its state is kept elsewhere"),
            (
                "example.org/v1",
                "Database",
                "ends in east; whether it has state is not known",
            ),
        ] {
            assert_eq!(effects_of(api_version, kind), [expected]);
        }
        assert_eq!(effects_of("policy/v1", "PodDisruptionBudget"), [""; 0]);
    }
}
