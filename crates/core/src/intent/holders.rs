//! Who suspends a policy or a binding, written on the object itself: several suspensions of one target are told apart, and
//! the object's version is the one thing that all of them compare and swap.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::effect::{add, remove, segment};
use super::seen::NotKnown;
use crate::api::{SUSPENSIONS_ANNOTATION, SuspensionSpec, WorkloadRef};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{DispatchSuspension, PropagationPolicy, ResourceBinding, SuspendedClusters};

/// What one intent suspends of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Namespace and name of the intent; for people.
    pub by: String,
    /// None: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterName>,
}

/// By uid of the intent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holders(BTreeMap<String, Holder>);

impl Holders {
    /// Reads them off an object. What can't be read isn't taken for nobody.
    pub fn of(meta: &ObjectMeta) -> Result<Self, NotKnown> {
        let Some(text) = annotation(meta) else {
            return Ok(Self::default());
        };
        serde_json::from_str(text).map_err(|error| {
            NotKnown(format!(
                "annotation {SUSPENSIONS_ANNOTATION} cannot be read, because it was edited: {error}"
            ))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// Returns the uids of those that are not among others, with their names.
    pub fn gone<'a>(&'a self, alive: &'a BTreeSet<String>) -> impl Iterator<Item = (&'a String, &'a str)> {
        let gone = self.0.iter().filter(|(uid, _)| !alive.contains(*uid));
        gone.map(|(uid, holder)| (uid, holder.by.as_str()))
    }

    /// Returns the names of all but one of them.
    pub fn others(&self, uid: &str) -> Vec<&str> {
        let others = self.0.iter().filter(|(other, _)| *other != uid);
        others.map(|(_, holder)| holder.by.as_str()).collect()
    }

    #[must_use]
    pub fn with(mut self, uid: &str, by: String, spec: &SuspensionSpec) -> Self {
        let clusters: BTreeSet<ClusterName> = spec.clusters.iter().cloned().collect();
        let holder = Holder {
            by,
            clusters: clusters.into_iter().collect(),
        };
        self.0.insert(uid.to_owned(), holder);
        self
    }

    #[must_use]
    pub fn without(mut self, uid: &str) -> Self {
        self.0.remove(uid);
        self
    }

    /// Drops those whose intent is gone.
    #[must_use]
    pub fn only(mut self, alive: &BTreeSet<String>) -> Self {
        self.0.retain(|uid, _| alive.contains(uid));
        self
    }

    /// Returns the suspension that gives each of them what it holds. Karmada takes all clusters or a list, never both.
    pub fn dispatching(&self) -> Option<DispatchSuspension> {
        if self.0.is_empty() {
            return None;
        }
        if self.0.values().any(|holder| holder.clusters.is_empty()) {
            return Some(DispatchSuspension {
                dispatching: Some(true),
                ..DispatchSuspension::default()
            });
        }
        let names: BTreeSet<ClusterName> = self
            .0
            .values()
            .flat_map(|holder| holder.clusters.clone())
            .collect();
        Some(DispatchSuspension {
            dispatching_on_clusters: Some(SuspendedClusters {
                cluster_names: names.into_iter().collect(),
                ..SuspendedClusters::default()
            }),
            ..DispatchSuspension::default()
        })
    }

    /// Returns what makes a policy carry these holders and what they hold; nothing if it does.
    pub fn on_policy(&self, policy: &PropagationPolicy) -> Result<Option<Vec<Value>>, NotKnown> {
        let wanted = self.dispatching();
        let there = policy
            .spec
            .suspension
            .clone()
            .filter(|there| *there != DispatchSuspension::default());
        if Self::of(&policy.metadata)? == *self && there == wanted {
            return Ok(None);
        }
        let mut patch = self.noted(&policy.metadata);
        match (wanted, &policy.spec.suspension) {
            (Some(wanted), _) => patch.push(add("/spec/suspension", json!(wanted))),
            (None, Some(_)) => patch.push(remove("/spec/suspension")),
            (None, None) => {}
        }
        Ok(Some(patch))
    }

    /// Returns what makes a binding carry these holders, and its scheduling suspended as long as there are any. `leave`: an
    /// intent that claims the workload has suspended it too, and is the one to resume it.
    pub fn on_binding(&self, binding: &ResourceBinding, leave: bool) -> Result<Option<Vec<Value>>, NotKnown> {
        let suspended = binding.spec.scheduling_suspended();
        let wanted = !self.0.is_empty();
        let noted = Self::of(&binding.metadata)? == *self;
        if noted && (suspended == wanted || leave) {
            return Ok(None);
        }
        let mut patch = if noted {
            Vec::new()
        } else {
            self.noted(&binding.metadata)
        };
        let suspension = binding.spec.suspension.as_ref();
        match (wanted, suspended) {
            (true, false) if suspension.is_some() => {
                patch.push(add("/spec/suspension/scheduling", json!(true)));
            }
            (true, false) => patch.push(add("/spec/suspension", json!({"scheduling": true}))),
            (false, true) if !leave => patch.push(remove("/spec/suspension/scheduling")),
            _ => {}
        }
        Ok(Some(patch))
    }

    fn noted(&self, meta: &ObjectMeta) -> Vec<Value> {
        let path = format!("/metadata/annotations/{}", segment(SUSPENSIONS_ANNOTATION));
        match (self.0.is_empty(), &meta.annotations) {
            (true, _) if annotation(meta).is_some() => vec![remove(&path)],
            (true, _) => Vec::new(),
            (false, Some(_)) => vec![add(&path, Value::String(json!(self).to_string()))],
            (false, None) => {
                let all = json!({SUSPENSIONS_ANNOTATION: json!(self).to_string()});
                vec![add("/metadata/annotations", all)]
            }
        }
    }
}

fn annotation(meta: &ObjectMeta) -> Option<&str> {
    let annotations = meta.annotations.as_ref()?;
    annotations.get(SUSPENSIONS_ANNOTATION).map(String::as_str)
}

/// Returns whether a policy can select one object alone, and it is this one.
pub fn is_own(policy: &PropagationPolicy, workload: &WorkloadRef) -> bool {
    match policy.spec.resource_selectors.as_slice() {
        [only] => {
            let one_namespace = policy.metadata.namespace.is_some() || !only.namespace.is_empty();
            (only.api_version == workload.api_version && only.kind == workload.kind)
                && only.name == workload.name
                && one_namespace
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holders(all: &[(&str, &[&str])]) -> Holders {
        let spec = |clusters: &[&str]| -> SuspensionSpec {
            serde_json::from_value(json!({"target": {}, "reason": "r", "clusters": clusters})).unwrap()
        };
        all.iter().fold(Holders::default(), |holders, (uid, clusters)| {
            holders.with(uid, (*uid).to_owned(), &spec(clusters))
        })
    }

    fn policy() -> Value {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p"},
            "spec": {"resourceSelectors": []},
        })
    }

    fn patched(policy: &Value, holders: &Holders) -> Value {
        let typed: PropagationPolicy = serde_json::from_value(policy.clone()).unwrap();
        let mut policy = policy.clone();
        if let Some(patch) = holders.on_policy(&typed).unwrap() {
            let patch: json_patch::Patch = serde_json::from_value(Value::Array(patch)).unwrap();
            json_patch::patch(&mut policy, &patch).unwrap();
        }
        policy
    }

    #[test]
    fn who_ends_takes_only_what_nobody_else_holds() {
        let both = holders(&[("a", &["green", "blue"]), ("b", &["green"])]);
        let policy = patched(&policy(), &both);
        let names =
            |policy: &Value| policy["spec"]["suspension"]["dispatchingOnClusters"]["clusterNames"].clone();
        assert_eq!(names(&policy), json!(["blue", "green"]));
        let policy = patched(&policy, &both.clone().without("a"));
        assert_eq!(names(&policy), json!(["green"]));
        let policy = patched(&policy, &both.without("a").without("b"));
        assert!(policy["spec"]["suspension"].is_null());
        assert_eq!(policy["metadata"]["annotations"], json!({}));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_not_taken_for_nobody() {
        let meta = ObjectMeta {
            annotations: Some([(SUSPENSIONS_ANNOTATION.to_owned(), "{".to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert!(Holders::of(&meta).is_err());
    }

    proptest! {
        /// Whoever comes and goes, a cluster is suspended exactly as long as somebody holds it.
        #[test]
        fn a_cluster_is_suspended_as_long_as_somebody_holds_it(
            steps in prop::collection::vec(("[a-d]", prop::option::of(prop::collection::vec("[x-z]", 0..3))), 0..12)
        ) {
            let mut model: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let mut policy = policy();
            for (uid, clusters) in steps {
                let typed: PropagationPolicy = serde_json::from_value(policy.clone()).unwrap();
                let there = Holders::of(&typed.metadata).unwrap();
                let wanted = match &clusters {
                    Some(clusters) => {
                        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
                        model.insert(uid.clone(), clusters.clone());
                        Holders({
                            let mut all = there.0.clone();
                            all.extend(holders(&[(&uid, &names)]).0);
                            all
                        })
                    }
                    None => {
                        model.remove(&uid);
                        there.without(&uid)
                    }
                };
                policy = patched(&policy, &wanted);
                let typed: PropagationPolicy = serde_json::from_value(policy.clone()).unwrap();
                prop_assert_eq!(wanted.on_policy(&typed).unwrap(), None);
                for cluster in ["x", "y", "z"] {
                    let held = model.values().any(|all| all.is_empty() || all.iter().any(|one| one == cluster));
                    let covers = typed.spec.suspension.as_ref().is_some_and(|there| there.covers(cluster));
                    prop_assert_eq!(covers, held);
                }
            }
        }
    }
}
