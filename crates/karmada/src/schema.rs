//! What the derived schemas can't say by themselves, and the CRDs that a sandbox installs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::{
    Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, ClusterResourceBinding, OverridePolicy,
    PropagationPolicy, ResourceBinding, Work,
};

/// Returns the definitions of the kinds in this module, with the names, columns, defaults and checks of those that
/// Karmada 1.18 publishes: what one accepts, prunes or refuses, so does the other. Below a field that no type here names
/// anything is kept, and so it is everywhere in a Cluster, which Karmada serves without a definition.
pub fn crds() -> Vec<CustomResourceDefinition> {
    static ALL: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(generated);
    ALL.clone()
}

fn generated() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        PropagationPolicy::crd(),
        ClusterPropagationPolicy::crd(),
        OverridePolicy::crd(),
        ClusterOverridePolicy::crd(),
        ResourceBinding::crd(),
        ClusterResourceBinding::crd(),
        Work::crd(),
        Cluster::crd(),
    ];
    let schemas = crds
        .iter_mut()
        .flat_map(|crd| &mut crd.spec.versions)
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut());
    schemas.for_each(forbid_null);
    crds
}

/// An `Option` may be null to serde; in what Go declares, nothing may.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
    schema
        .properties
        .iter_mut()
        .flat_map(BTreeMap::values_mut)
        .for_each(forbid_null);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        forbid_null(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
    }
}

/// Any JSON value.
pub(super) fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// An object whose fields are kept as they are.
pub(super) fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of such objects.
pub(super) fn objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": object(generator) })
}

/// A `metav1.Time`.
pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// The purge modes of cluster failover, which are fewer.
pub(super) fn purge_mode_of_clusters(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Directly", "Gracefully"] })
}

/// A list of `metav1.Condition`.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": { "type": "string", "maxLength": 316, "pattern": QUALIFIED_NAME },
            },
        },
    })
}

/// The name of a label, an annotation, a type of condition.
const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// The fields of a propagation policy that no type names.
pub(super) fn more_of_propagation(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "association": { "type": "boolean" },
            "dependentOverrides": { "type": "array", "items": { "type": "string" } },
            "schedulePriority": {
                "type": "object",
                "required": ["priorityClassName", "priorityClassSource"],
                "properties": {
                    "priorityClassName": { "type": "string" },
                    "priorityClassSource": { "type": "string", "enum": ["KubePriorityClass"] },
                },
            },
        },
    })
}

/// The fields of a placement that no type names.
pub(super) fn more_of_placement(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "properties": { "workloadAffinity": object(generator) } })
}

/// The fields of a binding that no type names.
pub(super) fn more_of_binding(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "components": objects(generator),
            "replicaRequirements": object(generator),
            "schedulePriority": {
                "type": "object",
                "properties": { "priority": { "type": "integer", "format": "int32", "default": 0 } },
            },
            "workloadAffinityGroups": object(generator),
        },
    })
}

/// Karmada leaves empty values out; a field that serde may leave out also gets no default in its schema.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Placement;

    #[test]
    fn definitions_are_structural_and_only_a_clusters_keeps_fields_that_nobody_names() {
        for crd in crds() {
            let name = crd.metadata.name.clone().unwrap_or_default();
            let crd = serde_json::to_value(&crd).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let open = &schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"];
            assert_eq!(*open == true, name.starts_with("clusters."), "{name}");
            assert_structural(schema, &name);
        }
    }

    /// What an API server refuses: additional properties next to named ones, and parts without a type.
    fn assert_structural(schema: &Value, path: &str) {
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        assert!(schema["type"].is_string() || open, "{path} has no type: {schema}");
        let named = schema["properties"].as_object();
        assert!(
            named.is_none() || schema["additionalProperties"].is_null(),
            "{path}"
        );
        for (name, part) in named.into_iter().flatten() {
            assert_structural(part, &format!("{path}.{name}"));
        }
        for part in ["items", "additionalProperties"] {
            if schema[part].is_object() {
                assert_structural(&schema[part], &format!("{path}.{part}"));
            }
        }
    }

    #[test]
    fn names_columns_and_defaults_are_those_that_karmada_publishes() {
        let crds: Vec<Value> = crds()
            .iter()
            .map(|crd| serde_json::to_value(crd).unwrap())
            .collect();
        let names: Vec<_> = crds
            .iter()
            .map(|crd| {
                let names = &crd["spec"]["names"];
                format!(
                    "{} {} {}",
                    crd["metadata"]["name"], names["kind"], names["shortNames"]
                )
            })
            .collect();
        assert_eq!(
            names[0],
            r#""propagationpolicies.policy.karmada.io" "PropagationPolicy" ["pp"]"#
        );
        assert_eq!(
            names[3],
            r#""clusteroverridepolicies.policy.karmada.io" "ClusterOverridePolicy" ["cop"]"#
        );
        let policy =
            &crds[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        assert_eq!(policy["conflictResolution"]["default"], "Abort");
        assert_eq!(policy["preemption"]["default"], "Never");
        assert_eq!(policy["priority"]["default"], 0);
        assert_eq!(policy["schedulerName"]["default"], "default-scheduler");
        let application = &policy["failover"]["properties"]["application"]["properties"];
        assert_eq!(application["purgeMode"]["default"], "Gracefully");
        let seconds = &application["decisionConditions"]["properties"]["tolerationSeconds"];
        assert_eq!(seconds["default"], 300);
        assert_eq!(policy["placement"]["default"], Value::Null);
        let binding = &crds[4]["spec"]["versions"][0];
        assert_eq!(binding["additionalPrinterColumns"][1]["name"], "FULLYAPPLIED");
        assert_eq!(binding["subresources"]["status"], json!({}));
        assert!(crds[2]["spec"]["versions"][0]["subresources"]["status"].is_null());
    }

    #[test]
    fn unknown_fields_survive_a_round_trip() {
        let text = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "orders-flinkdeployment", "namespace": "shop"},
            "spec": {
                "resource": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
                "clusters": [{"name": "east", "replicas": 2}],
                "conflictResolution": "Abort",
                "components": [{"name": "jobmanager", "replicas": 1}],
                "placement": {"clusterAffinity": {"clusterNames": ["east"], "new": 1}, "workloadAffinity": {"a": 1}},
                "suspension": {"scheduling": true, "dispatchingOnClusters": {"clusterNames": ["west"]}},
                "gracefulEvictionTasks": [{"fromCluster": "east", "reason": "ApplicationFailure", "producer": "x",
                                           "purgeMode": "Directly", "later": true}],
            },
            "status": {"schedulerObservedGeneration": 3, "schedulerObservingAffinityName": "g2", "other": {}},
        });
        let binding: super::ResourceBinding = serde_json::from_value(text.clone()).unwrap();
        assert!(binding.spec.scheduling_suspended());
        assert!(binding.spec.dispatching_suspended("west"));
        assert!(!binding.spec.dispatching_suspended("east"));
        assert_eq!(serde_json::to_value(&binding).unwrap(), text);
    }

    #[test]
    fn a_cluster_policy_reads_like_a_namespaced_one() {
        let policy: super::ClusterPropagationPolicy = serde_json::from_value(json!({
            "metadata": {"name": "all"},
            "spec": {"resourceSelectors": [], "placement": {"clusterTolerations": [{"operator": "Exists"}]}, "x": 1},
        }))
        .unwrap();
        assert_eq!(policy.spec.placement.cluster_tolerations.len(), 1);
        assert_eq!(policy.spec.rest["x"], 1);
        assert_ne!(policy.spec.placement, Placement::default());
    }
}
