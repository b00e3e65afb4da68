//! The definitions that a world's servers begin with.

use serde_json::{Value, json};

use cutover_karmada::crds;

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

/// An object of which anything is kept.
fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An object that has these fields and no others.
fn of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn workload_rebalancer() -> Value {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let mut workload = of(json!({"apiVersion": text, "kind": text, "namespace": text, "name": text}));
    workload["required"] = json!(["apiVersion", "kind", "name"]);
    let mut workloads = list(workload.clone());
    workloads["minItems"] = 1.into();
    let mut spec = of(json!({
        "workloads": workloads, "ttlSecondsAfterFinished": {"type": "integer", "format": "int32"},
    }));
    spec["required"] = json!(["workloads"]);
    let mut observed = of(json!({"workload": workload, "result": text, "reason": text}));
    observed["required"] = json!(["workload"]);
    let status = of(json!({
        "observedGeneration": {"type": "integer", "format": "int64"}, "finishTime": time,
        "observedWorkloads": list(observed),
    }));
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
                    "type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    })
}

/// What Flink's operator publishes, except that pod templates and what nobody here reads are kept as they are.
fn flink_deployment() -> Value {
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
                "name": "v1beta1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.taskManager.replicas",
                    "statusReplicasPath": ".status.taskManager.replicas",
                    "labelSelectorPath": ".status.taskManager.labelSelector",
                }},
                "additionalPrinterColumns": [
                    {"name": "Job Status", "type": "string", "jsonPath": ".status.jobStatus.state"},
                    {"name": "Lifecycle State", "type": "string", "jsonPath": ".status.lifecycleState"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": flink_spec(), "status": flink_status()},
                }},
            }],
        },
    })
}

fn flink_spec() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let job = of(json!({
        "jarURI": text, "parallelism": number, "entryClass": text, "args": list(text.clone()),
        "state": one_of(&["running", "suspended"]),
        "upgradeMode": one_of(&["last-state", "savepoint", "stateless"]),
        "initialSavepointPath": text, "allowNonRestoredState": {"type": "boolean"},
        "savepointRedeployNonce": number, "savepointTriggerNonce": number, "checkpointTriggerNonce": number,
        "autoscalerResetNonce": number,
    }));
    let manager = of(json!({
        "replicas": number, "podTemplate": open(), "resources": open(),
        "resource": of(json!({"cpu": {"type": "number"}, "memory": text, "ephemeralStorage": text})),
    }));
    of(json!({
        "image": text, "imagePullPolicy": text, "serviceAccount": text,
        "flinkVersion": one_of(&[
            "v1_13", "v1_14", "v1_15", "v1_16", "v1_17", "v1_18", "v1_19", "v1_20",
            "v2_0", "v2_1", "v2_2", "v2_3", "v2_4",
        ]),
        "flinkConfiguration": {"x-kubernetes-preserve-unknown-fields": true},
        "logConfiguration": {"type": "object", "additionalProperties": text},
        "ingress": open(), "podTemplate": open(),
        "mode": one_of(&["native", "standalone"]), "restartNonce": number,
        "jobManager": manager, "taskManager": manager, "job": job,
    }))
}

fn flink_status() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let job = of(json!({
        "jobId": text, "jobName": text, "startTime": text, "updateTime": text, "upgradeSavepointPath": text,
        "state": one_of(&[
            "CANCELED", "CANCELLING", "CREATED", "FAILED", "FAILING", "FINISHED", "INITIALIZING",
            "RECONCILING", "RESTARTING", "RUNNING", "SUSPENDED",
        ]),
        "checkpointInfo": open(), "savepointInfo": open(),
    }));
    let reconciliation = of(json!({
        "lastReconciledSpec": text, "lastStableSpec": text, "reconciliationTimestamp": number,
        "state": one_of(&["DEPLOYED", "ROLLED_BACK", "ROLLING_BACK", "UPGRADING"]),
    }));
    of(json!({
        "observedGeneration": number, "error": text,
        "lifecycleState": one_of(&[
            "CREATED", "DELETED", "DELETING", "DEPLOYED", "FAILED", "ROLLED_BACK", "ROLLING_BACK", "STABLE",
            "SUSPENDED", "UPGRADING",
        ]),
        "jobManagerDeploymentStatus": one_of(&[
            "DEPLOYED_NOT_READY", "DEPLOYING", "ERROR", "MISSING", "READY",
        ]),
        "jobStatus": job, "reconciliationStatus": reconciliation,
        "clusterInfo": {"type": "object", "additionalProperties": text},
        "taskManager": of(json!({"labelSelector": text, "replicas": number})),
        "conditions": list(open()),
    }))
}
