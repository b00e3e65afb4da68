//! The definitions that a world's servers begin with.

use serde_json::{Value, json};

use crate::karmada::crds;

/// Returns what Karmada's control plane serves, and the templates' kinds.
pub fn control_plane() -> Vec<Value> {
    let karmada = crds()
        .into_iter()
        .filter_map(|crd| serde_json::to_value(crd).ok());
    karmada.chain([workload_rebalancer()]).chain(member()).collect()
}

/// Returns what every member serves beyond the built-in kinds.
pub fn member() -> Vec<Value> {
    vec![flink_deployment()]
}

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn workload_rebalancer() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "workloadrebalancers.apps.karmada.io"},
        "spec": {
            "group": "apps.karmada.io", "scope": "Cluster",
            "names": {
                "kind": "WorkloadRebalancer", "listKind": "WorkloadRebalancerList",
                "plural": "workloadrebalancers", "singular": "workloadrebalancer",
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {"spec": open(), "status": open()},
                }},
            }],
        },
    })
}

/// The fields that Flink's operator, Karmada's interpreter and this tool read are typed; the others are kept.
fn flink_deployment() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "format": "int64"});
    let with = |properties: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties});
    let job = with(json!({
        "jarURI": text, "parallelism": {"type": "integer"}, "entryClass": text,
        "args": {"type": "array", "items": text},
        "state": {"type": "string", "enum": ["running", "suspended"]},
        "upgradeMode": {"type": "string", "enum": ["last-state", "savepoint", "stateless"]},
        "initialSavepointPath": text, "allowNonRestoredState": {"type": "boolean"},
        "savepointRedeployNonce": number, "savepointTriggerNonce": number, "checkpointTriggerNonce": number,
    }));
    let spec = with(json!({
        "image": text, "imagePullPolicy": text, "flinkVersion": text, "serviceAccount": text,
        "mode": {"type": "string", "enum": ["native", "standalone"]},
        "restartNonce": number,
        "flinkConfiguration": open(),
        "jobManager": with(json!({"replicas": {"type": "integer"}, "resource": open()})),
        "taskManager": with(json!({"replicas": {"type": "integer"}, "resource": open()})),
        "job": job,
    }));
    let status = with(json!({
        "observedGeneration": number, "error": text, "lifecycleState": text, "jobManagerDeploymentStatus": text,
        "jobStatus": with(json!({
            "jobId": text, "jobName": text, "state": text, "startTime": text, "updateTime": text,
            "upgradeSavepointPath": text,
        })),
        "reconciliationStatus": with(json!({"lastReconciledSpec": text, "lastStableSpec": text, "state": text})),
        "clusterInfo": open(),
        "taskManager": with(json!({"labelSelector": text, "replicas": {"type": "integer"}})),
    }));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "flinkdeployments.flink.apache.org"},
        "spec": {
            "group": "flink.apache.org", "scope": "Namespaced",
            "names": {
                "kind": "FlinkDeployment", "listKind": "FlinkDeploymentList",
                "plural": "flinkdeployments", "singular": "flinkdeployment", "shortNames": ["flinkdep"],
            },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Job Status", "type": "string", "jsonPath": ".status.jobStatus.state"},
                    {"name": "Lifecycle State", "type": "string", "jsonPath": ".status.lifecycleState"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    })
}
