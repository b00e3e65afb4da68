//! What of an object doesn't leave the control plane, as Karmada takes it off before it writes to a member.

use serde_json::Value;

/// What API servers fill into the metadata of an object, and what doesn't leave the control plane.
const FILLED_IN: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

/// Removes from an object what doesn't go to members. Doing it again changes nothing.
pub fn prune(object: &mut Value) {
    remove(object, "/metadata", FILLED_IN);
    remove(object, "", &["status"]);
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" => {
            const REVISIONS: &[&str] = &[
                "deployment.kubernetes.io/revision",
                "deployment.kubernetes.io/revision-history",
            ];
            remove(object, "/metadata/annotations", REVISIONS);
        }
        "Service" => {
            let address = object.pointer("/spec/clusterIP").and_then(Value::as_str);
            if !matches!(address.unwrap_or_default(), "" | "None") {
                remove(object, "/spec", &["clusterIP", "clusterIPs"]);
            }
        }
        "Job" => prune_job(object),
        "PersistentVolumeClaim" => {
            remove(
                object,
                "/metadata/annotations",
                &["volume.kubernetes.io/selected-node"],
            );
        }
        _ => {}
    }
}

fn prune_job(job: &mut Value) {
    const GENERATED: &[&str] = &[
        "controller-uid",
        "job-name",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
    ];
    remove(job, "/spec", &["ttlSecondsAfterFinished"]);
    if job.pointer("/spec/manualSelector") != Some(&Value::Bool(true)) {
        remove(job, "/spec/selector/matchLabels", GENERATED);
        remove(job, "/spec/template/metadata/labels", GENERATED);
    }
}

fn remove(object: &mut Value, pointer: &str, names: &[&str]) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
}
