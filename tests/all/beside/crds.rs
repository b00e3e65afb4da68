//! Definitions of the kinds of Argo CD, Argo Rollouts, Flux and Flagger, as far as anything here is said of them: the names and
//! types of fields are those of the published ones. What a definition doesn't have is pruned, and a wrong type refused.

use cutover::sandbox::api::Resource;
use serde_json::{Value, json};

use crate::support::fleet::Fleet;

pub const APPLICATIONS: Resource = Resource::new("argoproj.io", "applications");
pub const KUSTOMIZATIONS: Resource = Resource::new("kustomize.toolkit.fluxcd.io", "kustomizations");
pub const HELM_RELEASES: Resource = Resource::new("helm.toolkit.fluxcd.io", "helmreleases");
pub const CANARIES: Resource = Resource::new("flagger.app", "canaries");

pub fn install(fleet: &Fleet) {
    let server = fleet.world.control_plane();
    for definition in [application(), kustomization(), helm_release()] {
        server.install(&definition).unwrap();
    }
    for name in ["argocd", "flux-system"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        fleet.create(&Resource::new("", "namespaces"), None, namespace);
    }
}

fn text() -> Value {
    json!({"type": "string"})
}

fn yes_or_no() -> Value {
    json!({"type": "boolean"})
}

fn number() -> Value {
    json!({"type": "integer"})
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn definition(
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    with_status: bool,
    fields: Value,
) -> Value {
    let mut served = json!({
        "name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": object(fields)},
    });
    if with_status {
        served["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [served],
        },
    })
}

pub fn application() -> Value {
    let ignored = object(json!({
        "group": text(), "kind": text(), "name": text(), "namespace": text(),
        "jsonPointers": list(text()), "jqPathExpressions": list(text()), "managedFieldsManagers": list(text()),
    }));
    let automated = object(json!({
        "prune": yes_or_no(), "selfHeal": yes_or_no(), "allowEmpty": yes_or_no(), "enabled": yes_or_no(),
    }));
    let fields = json!({
        "spec": object(json!({
            "project": text(),
            "destination": object(json!({"name": text(), "namespace": text(), "server": text()})),
            "source": object(json!({"repoURL": text(), "path": text(), "targetRevision": text()})),
            "syncPolicy": object(json!({"automated": automated, "syncOptions": list(text())})),
            "ignoreDifferences": list(ignored),
        })),
        "operation": object(json!({"sync": object(json!({"revision": text()}))})),
        "status": object(json!({"operationState": object(json!({"phase": text()}))})),
    });
    definition(
        "argoproj.io",
        "v1alpha1",
        "Application",
        "applications",
        false,
        fields,
    )
}

pub fn kustomization() -> Value {
    let source = object(json!({"apiVersion": text(), "kind": text(), "name": text(), "namespace": text()}));
    let fields = json!({"spec": object(json!({
        "interval": text(), "path": text(), "prune": yes_or_no(), "suspend": yes_or_no(), "sourceRef": source,
    }))});
    let group = "kustomize.toolkit.fluxcd.io";
    definition(group, "v1", "Kustomization", "kustomizations", true, fields)
}

fn helm_release() -> Value {
    let chart = object(json!({"apiVersion": text(), "kind": text(), "name": text(), "namespace": text()}));
    let fields =
        json!({"spec": object(json!({"interval": text(), "suspend": yes_or_no(), "chartRef": chart}))});
    definition(
        "helm.toolkit.fluxcd.io",
        "v2",
        "HelmRelease",
        "helmreleases",
        true,
        fields,
    )
}

pub fn canary() -> Value {
    let condition = object(json!({"type": text(), "status": text(), "reason": text(), "message": text()}));
    let phases = json!([
        "",
        "Initializing",
        "Initialized",
        "Waiting",
        "Progressing",
        "WaitingPromotion",
        "Promoting",
        "Finalising",
        "Succeeded",
        "Failed",
        "Terminating",
        "Terminated",
    ]);
    let fields = json!({
        "spec": object(json!({
            "targetRef": object(json!({"apiVersion": text(), "kind": text(), "name": text()})),
            "analysis": object(json!({"interval": text(), "threshold": number(), "maxWeight": number(), "stepWeight": number()})),
            "suspend": yes_or_no(), "skipAnalysis": yes_or_no(),
        })),
        "status": object(json!({
            "phase": {"type": "string", "enum": phases},
            "failedChecks": {"type": "number"}, "canaryWeight": {"type": "number"}, "iterations": {"type": "number"},
            "lastAppliedSpec": text(), "lastPromotedSpec": text(), "conditions": list(condition),
        })),
    });
    definition("flagger.app", "v1beta1", "Canary", "canaries", true, fields)
}

/// Argo Rollouts' own kind, which is not this tool's of the same name.
pub fn rollout() -> Value {
    let pod = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let pause = object(json!({"reason": text(), "startTime": text()}));
    let fields = json!({
        "spec": object(json!({
            "replicas": number(), "paused": yes_or_no(), "template": pod,
            "selector": object(json!({"matchLabels": {"type": "object", "additionalProperties": text()}})),
            "strategy": object(json!({"canary": object(json!({"steps": list(object(json!({"setWeight": number()})))}))})),
            "workloadRef": object(json!({"apiVersion": text(), "kind": text(), "name": text()})),
        })),
        "status": object(json!({
            "abort": yes_or_no(), "availableReplicas": number(), "controllerPause": yes_or_no(), "currentPodHash": text(),
            "currentStepIndex": number(), "HPAReplicas": number(), "message": text(), "observedGeneration": text(),
            "pauseConditions": list(pause), "phase": text(), "readyReplicas": number(), "replicas": number(),
            "stableRS": text(), "updatedReplicas": number(),
        })),
    });
    definition("argoproj.io", "v1alpha1", "Rollout", "rollouts", true, fields)
}
