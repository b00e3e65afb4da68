//! The admission fence: policies by which an API server itself refuses what would move a claimed workload, and the writes
//! that show whether it does. Nothing is safe because of it alone: docs/how-to/operate.md#admission-fence says what it adds.

use serde_json::{Value, json};

use super::effect::{Exactly, add, exactly};
use super::pin;
use crate::api::{API_VERSION, AdmissionTest, Claim, Guard, UnknownGuard};
use cutover_karmada::name::{Gvk, ObjectKey};
use cutover_karmada::{ResourceBinding, meta};

/// The policies and their bindings, as they can be applied by hand.
const FENCE: &str = include_str!("../../../../deploy/admission/fence.yaml");

/// The cluster that no claim lists.
const NO_CLUSTER: &str = "cutover-self-test";

/// The file of the fence, as it was built in, is not what is expected of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the admission policies can't be made: {0}")]
pub struct Unusable(String);

/// Returns the policies and then their bindings, for reconcilers with these names.
pub fn manifests(reconcilers: &[String]) -> Result<Vec<Value>, Unusable> {
    let mut objects = Vec::new();
    for document in FENCE.split("\n---\n") {
        let object: Value = serde_yaml::from_str(document).map_err(|error| Unusable(error.to_string()))?;
        objects.push(object);
    }
    let names = json!(reconcilers).to_string();
    let lists: Vec<&mut Value> = objects
        .iter_mut()
        .filter_map(|object| object.pointer_mut("/spec/variables")?.as_array_mut())
        .flatten()
        .filter(|variable| variable["name"] == "reconcilers")
        .collect();
    if lists.is_empty() {
        return Err(Unusable("nothing says who reconciles".to_owned()));
    }
    for list in lists {
        // A list of JSON strings is one of CEL.
        list["expression"] = names.clone().into();
    }
    objects.sort_by_key(|object| object["kind"] != "ValidatingAdmissionPolicy");
    Ok(objects)
}

/// A write that is only tried: a fence that stands refuses it, whoever sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    pub guard: Guard,
    pub gvk: Gvk,
    pub attempt: Attempt,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    Create(Value),
    Patch(Exactly, Vec<Value>),
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Accepted,
    Unknown(String),
}

/// Returns a probe of each guard around a claimed workload.
pub fn probes(
    claim: &Claim,
    workload: &ObjectKey,
    api_version: &str,
    binding: &ResourceBinding,
) -> Vec<Probe> {
    let elsewhere = Attempt::Patch(
        exactly(binding),
        vec![add("/spec/clusters", json!([{"name": NO_CLUSTER}]))],
    );
    let cluster = claim.spec.clusters.first();
    let namespace = meta::execution_namespace(cluster.map_or(NO_CLUSTER, |cluster| cluster.as_str()));
    let wide = workload.namespace.is_none();
    let id = meta::binding_id_label(wide);
    let unmarked = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": NO_CLUSTER, "namespace": namespace, "labels": {id: claim.spec.binding_id},
        },
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NO_CLUSTER, "namespace": "default"}},
        ]}},
    });
    let later = json!({"apiVersion": api_version, "kind": workload.kind, "name": workload.name});
    let probe = |guard, api_version, kind: &str, attempt| Probe {
        guard,
        gvk: Gvk::new(api_version, kind),
        attempt,
    };
    let (binding_kind, override_kind) = (
        meta::scoped_kind("ResourceBinding", wide),
        meta::scoped_kind("OverridePolicy", wide),
    );
    let after_the_pin = Attempt::Create(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": override_kind,
        "metadata": {"name": "zzzzz-cutover-self-test", "namespace": workload.namespace},
        "spec": {"resourceSelectors": [later], "overrideRules": [{"overriders": {}}]},
    }));
    vec![
        probe(
            Guard::Bindings,
            "work.karmada.io/v1alpha2",
            &binding_kind,
            elsewhere,
        ),
        probe(
            Guard::Works,
            "work.karmada.io/v1alpha1",
            "Work",
            Attempt::Create(unmarked),
        ),
        probe(
            Guard::Overrides,
            "policy.karmada.io/v1alpha1",
            &override_kind,
            after_the_pin,
        ),
        claims_probe(workload.namespace.as_deref().unwrap_or("default")),
    ]
}

/// Returns the probe that needs no claim: a pin that nobody may write.
pub fn claims_probe(namespace: &str) -> Probe {
    Probe {
        guard: Guard::Claims,
        gvk: Gvk::new("policy.karmada.io/v1alpha1", "OverridePolicy"),
        attempt: Attempt::Create(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": pin::SELF_TEST, "namespace": namespace},
            "spec": {"resourceSelectors": [{"apiVersion": API_VERSION, "kind": "Claim", "name": pin::SELF_TEST}],
                "overrideRules": [{"overriders": {}}]},
        })),
    }
}

/// Judges the refusal of a probe by its message: only the guard's own policy counts.
pub fn refused(guard: Guard, message: &str) -> Outcome {
    let policy = format!("ValidatingAdmissionPolicy '{}' with binding", guard.policy());
    if message.contains(&policy) {
        Outcome::Refused
    } else {
        Outcome::Unknown(message.to_owned())
    }
}

/// Notes what the probes have shown, if it is anything new.
pub fn note(known: &mut Option<AdmissionTest>, outcomes: &[(Guard, Outcome)], now: jiff::Timestamp) {
    let test = tested(outcomes, now);
    if !known.as_ref().is_some_and(|known| known.shows_the_same(&test)) {
        *known = Some(test);
    }
}

/// Sums up what came of the probes.
pub fn tested(outcomes: &[(Guard, Outcome)], now: jiff::Timestamp) -> AdmissionTest {
    let mut test = AdmissionTest {
        since: now,
        refused: Vec::new(),
        accepted: Vec::new(),
        unknown: Vec::new(),
    };
    for (guard, outcome) in outcomes {
        match outcome {
            Outcome::Refused => test.refused.push(*guard),
            Outcome::Accepted => test.accepted.push(*guard),
            Outcome::Unknown(why) => test.unknown.push(UnknownGuard {
                guard: *guard,
                why: why.clone(),
            }),
        }
    }
    test
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_come_before_their_bindings_and_name_who_reconciles() {
        let names = ["me".to_owned(), "o'neil \"x\"".to_owned()];
        let objects = manifests(&names).unwrap();
        let kinds: Vec<_> = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap())
            .collect();
        let (policies, bindings) = kinds.split_at(5);
        assert!(policies.iter().all(|kind| *kind == "ValidatingAdmissionPolicy"));
        assert!(
            bindings
                .iter()
                .all(|kind| *kind == "ValidatingAdmissionPolicyBinding")
        );
        assert_eq!(bindings.len(), 5);
        let text = json!(objects).to_string();
        assert!(!text.contains("system:serviceaccount:cutover-system:cutover"));
        for guard in Guard::ALL {
            assert!(text.contains(&format!("\"policyName\":\"{}\"", guard.policy())));
        }
    }

    #[test]
    fn only_the_refusal_of_its_own_policy_shows_a_guard() {
        let denied = "works \"x\" is forbidden: ValidatingAdmissionPolicy 'cutover-works' with binding 'cutover-works' \
                      denied request: no";
        assert_eq!(refused(Guard::Works, denied), Outcome::Refused);
        for other in [
            "works is forbidden: User \"u\" cannot create resource \"works\"",
            "ValidatingAdmissionPolicy 'cutover-works' denied request: failed to configure policy",
        ] {
            assert_eq!(refused(Guard::Works, other), Outcome::Unknown(other.to_owned()));
        }
        assert_ne!(refused(Guard::Bindings, denied), Outcome::Refused);
    }
}
