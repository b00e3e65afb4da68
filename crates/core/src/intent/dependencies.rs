//! What a workload's pods refer to by name, and can't start without: it has to be in the target before anything is stopped for it.
//!
//! Volumes are the profile's to judge: what is on them stays behind, whether the claim is there or not.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::api::Finding;
use cutover_karmada::name::ClusterName;

/// On a template: `ignore` leaves out what is looked for here, where override policies rename it or a driver makes it with the pod.
pub const MODE_ANNOTATION: &str = "cutover.dev/dependencies";

/// More of one workload are not asked for.
pub const MOST: usize = 30;

/// An object of the core group in the workload's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub kind: &'static str,
    pub name: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// What a reference comes to in the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    There,
    /// It is not, and Karmada brings it along.
    Comes,
    /// It is not, and nothing brings it.
    Missing,
    /// It could not be looked for, and why.
    Unknown(String),
}

/// Returns what a template's pods refer to, wherever in it a pod is described. What is optional is left out.
pub fn references(template: &Value) -> BTreeSet<Reference> {
    let mut found = BTreeSet::new();
    let annotations = template.pointer("/metadata/annotations");
    let is_ignored = annotations.is_some_and(|all| all[MODE_ANNOTATION] == "ignore");
    if let Some(spec) = template.get("spec").filter(|_| !is_ignored) {
        walk(spec, &mut found);
    }
    found
}

fn walk(value: &Value, found: &mut BTreeSet<Reference>) {
    match value {
        Value::Object(fields) => {
            if fields.get("containers").is_some_and(Value::is_array) {
                of_pod(value, found);
            }
            fields.values().for_each(|value| walk(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
        _ => {}
    }
}

/// Where a name of which kind stands: in a volume, in a projection, in a container's environment.
const VOLUME: &[(&str, &str, &str)] = &[
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
];
const PROJECTED: &[(&str, &str, &str)] = &[("configMap", "name", "ConfigMap"), ("secret", "name", "Secret")];
const ENVIRONMENT: &[(&str, &str, &str)] = &[
    ("configMapRef", "name", "ConfigMap"),
    ("secretRef", "name", "Secret"),
    ("configMapKeyRef", "name", "ConfigMap"),
    ("secretKeyRef", "name", "Secret"),
];

fn of_pod(spec: &Value, found: &mut BTreeSet<Reference>) {
    let mut add = |kind, name: Option<&str>| {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let name = name.to_owned();
            found.insert(Reference { kind, name });
        }
    };
    // Every namespace has that one.
    let account = spec["serviceAccountName"]
        .as_str()
        .filter(|name| *name != "default");
    add("ServiceAccount", account);
    for secret in list(spec, "imagePullSecrets") {
        add("Secret", secret["name"].as_str());
    }
    let mut look = |value: &Value, places: &[(&str, &str, &'static str)]| {
        for (field, name, kind) in places {
            let reference = &value[*field];
            if reference["optional"] != true {
                add(kind, reference[*name].as_str());
            }
        }
    };
    for volume in list(spec, "volumes") {
        look(volume, VOLUME);
        list(&volume["projected"], "sources").for_each(|source| look(source, PROJECTED));
    }
    for container in list(spec, "initContainers").chain(list(spec, "containers")) {
        list(container, "envFrom").for_each(|source| look(source, ENVIRONMENT));
        list(container, "env").for_each(|variable| look(&variable["valueFrom"], ENVIRONMENT));
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// Returns a finding for each that is missing in the target.
pub(super) fn findings(seen: &[(Reference, Presence)], target: &ClusterName) -> Vec<Finding> {
    let missing = seen.iter().filter(|(_, presence)| *presence == Presence::Missing);
    let finding = |(reference, _): &(Reference, Presence)| {
        Finding::new(
            "MissingDependency",
            format!("{target} has no {reference}, which its pods need, and Karmada does not bring it"),
            "propagate it to the target (propagateDeps: true in the policy, or a policy of its own), create it there, mark the \
             reference optional, or annotate the template with cutover.dev/dependencies: ignore",
        )
    };
    missing.map(finding).collect()
}

/// Says what of it could not be looked for.
pub(super) fn note(seen: &[(Reference, Presence)], target: &ClusterName) -> Option<String> {
    let unknown: Vec<(&Reference, &String)> = seen
        .iter()
        .filter_map(|(reference, presence)| match presence {
            Presence::Unknown(why) => Some((reference, why)),
            _ => None,
        })
        .collect();
    let (first, why) = unknown.first()?;
    Some(match unknown.len() {
        1 => format!("whether {target} has {first} is not known: {why}"),
        several => format!(
            "whether {target} has {first} and {} more that its pods need is not known: {why}",
            several - 1
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_pods_refer_to_is_found_wherever_a_template_describes_them() {
        let pod = json!({
            "serviceAccountName": "runner",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"configMap": {"name": "a"}}, {"secret": {"secretName": "b"}}, {"persistentVolumeClaim": {"claimName": "c"}},
                {"projected": {"sources": [{"configMap": {"name": "d"}}, {"secret": {"name": "e", "optional": true}}]}},
            ],
            "initContainers": [{"envFrom": [{"secretRef": {"name": "f"}}]}],
            "containers": [{"env": [
                {"valueFrom": {"configMapKeyRef": {"name": "g", "key": "k"}}}, {"value": "x"},
                {"valueFrom": {"secretKeyRef": {"name": "h", "key": "k", "optional": true}}},
            ]}],
        });
        for template in [
            json!({"spec": {"template": {"spec": pod}}}),
            json!({"spec": {"podTemplate": {"spec": pod}, "job": {"state": "running"}}}),
            json!({"spec": {"workerGroupSpecs": [{"template": {"spec": pod}}]}}),
        ] {
            let found: Vec<String> = references(&template).iter().map(ToString::to_string).collect();
            assert_eq!(
                found,
                [
                    "ConfigMap a",
                    "ConfigMap d",
                    "ConfigMap g",
                    "Secret b",
                    "Secret f",
                    "Secret pull",
                    "ServiceAccount runner"
                ]
            );
        }
        let plain =
            json!({"spec": {"template": {"spec": {"serviceAccountName": "default", "containers": []}}}});
        assert!(references(&plain).is_empty());
    }

    #[test]
    fn only_what_is_known_to_be_missing_is_a_finding_and_what_is_unknown_is_told() {
        let reference = |name: &str| Reference {
            kind: "Secret",
            name: name.to_owned(),
        };
        let seen = [
            (reference("a"), Presence::There),
            (reference("b"), Presence::Comes),
            (reference("c"), Presence::Missing),
            (reference("d"), Presence::Unknown("no right".to_owned())),
            (reference("e"), Presence::Unknown("no right".to_owned())),
        ];
        let west = ClusterName::new("west");
        let found: Vec<String> = findings(&seen, &west)
            .into_iter()
            .map(|found| found.message)
            .collect();
        assert_eq!(
            found,
            ["west has no Secret c, which its pods need, and Karmada does not bring it"]
        );
        let told = note(&seen, &west).unwrap();
        assert_eq!(
            told,
            "whether west has Secret d and 1 more that its pods need is not known: no right"
        );
        assert_eq!(note(&seen[..3], &west), None);
    }
}
