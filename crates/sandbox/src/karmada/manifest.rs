//! The manifests in Works: a template as one member is to have it.
//!
//! A manifest is without what an API server fills in, is marked as Karmada's, and lists its own labels and annotations;
//! whatever else a member has on its object stays.

use serde_json::{Value, json};

use super::objects::{self, annotation, label};
use crate::api::owners::{LIST, TEXT};
use cutover_karmada::meta::{
    BINDING_ID, BINDING_NAME, BINDING_NAMESPACE, CLUSTER_BINDING_ID, CLUSTER_BINDING_NAME,
    CONFLICT_RESOLUTION, MANAGED, MANAGED_ANNOTATIONS, MANAGED_LABELS, WORK_ID, WORK_NAME, WORK_NAMESPACE,
};

/// What API servers fill into the metadata of an object, and what doesn't leave the control plane.
const FILLED_IN: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    LIST,
    TEXT,
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

/// Makes an object the manifest of a Work. Doing it again changes nothing.
pub fn stamp(manifest: &mut Value, work: &Value) {
    prune(manifest);
    objects::set_label(manifest, MANAGED, "true");
    for key in [BINDING_ID, CLUSTER_BINDING_ID, WORK_ID] {
        if let Some(id) = label(work, key).filter(|id| !id.is_empty()) {
            objects::set_label(manifest, key, id);
        }
    }
    for key in [BINDING_NAMESPACE, BINDING_NAME, CLUSTER_BINDING_NAME] {
        if let Some(name) = annotation(work, key) {
            objects::set_annotation(manifest, key, name);
        }
    }
    objects::set_annotation(manifest, WORK_NAME, objects::name(work));
    objects::set_annotation(
        manifest,
        WORK_NAMESPACE,
        objects::namespace(work).unwrap_or_default(),
    );
    record(manifest);
}

/// Notes on a manifest which labels and annotations are its own, so that their removal reaches the member.
fn record(manifest: &mut Value) {
    let mut annotations: Vec<String> = objects::entries(manifest, "annotations").into_keys().collect();
    annotations.retain(|key| key != MANAGED_ANNOTATIONS && key != MANAGED_LABELS);
    annotations.extend([MANAGED_ANNOTATIONS, MANAGED_LABELS].map(str::to_owned));
    annotations.sort();
    objects::set_annotation(manifest, MANAGED_ANNOTATIONS, &annotations.join(","));
    let labels: Vec<String> = objects::entries(manifest, "labels").into_keys().collect();
    objects::set_annotation(manifest, MANAGED_LABELS, &labels.join(","));
}

/// Removes from an object what doesn't go to members.
pub fn prune(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata") {
        objects::fields(metadata).retain(|field, _| !FILLED_IN.contains(&field.as_str()));
    }
    objects::fields(object).shift_remove("status");
    match objects::text(object, "/kind") {
        "Deployment" => {
            const REVISIONS: &[&str] = &[
                "deployment.kubernetes.io/revision",
                "deployment.kubernetes.io/revision-history",
            ];
            objects::remove_entries(object, "annotations", REVISIONS);
        }
        "Service" if !matches!(objects::text(object, "/spec/clusterIP"), "" | "None") => {
            remove(object, "/spec", &["clusterIP", "clusterIPs"]);
        }
        "Job" => prune_job(object),
        "PersistentVolumeClaim" => {
            objects::remove_entries(object, "annotations", &["volume.kubernetes.io/selected-node"]);
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
    if job.pointer("/spec/manualSelector") != Some(&json!(true)) {
        remove(job, "/spec/selector/matchLabels", GENERATED);
        remove(job, "/spec/template/metadata/labels", GENERATED);
    }
}

fn remove(object: &mut Value, pointer: &str, names: &[&str]) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
}

/// Tells whether an object in a member is Karmada's.
pub fn is_managed(object: &Value) -> bool {
    label(object, MANAGED) == Some("true")
}

/// Tells whether Karmada may write over an object that is in a member already.
pub fn may_overwrite(manifest: &Value, present: &Value) -> bool {
    is_managed(present) || annotation(manifest, CONFLICT_RESOLUTION) == Some("overwrite")
}
