//! What is not a difference: what the API server and Karmada's controllers write for themselves.

use serde_json::{Map, Value};

/// Fields of `metadata` that the API server fills in.
const SERVER: &[&str] = &[
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Labels and annotations by which Karmada's detector says which policy took a template, and which binding it made.
const KARMADA: &[&str] = &[
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
    "propagationpolicy.karmada.io/name",
    "propagationpolicy.karmada.io/namespace",
    "clusterpropagationpolicy.karmada.io/name",
    "resourcebinding.karmada.io/permanent-id",
    "clusterresourcebinding.karmada.io/permanent-id",
    "deployment.kubernetes.io/revision",
];

/// Returns an object without what nobody asked for: bookkeeping in `metadata`, and `status`.
pub fn normalise(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    fields.shift_remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        for field in SERVER {
            metadata.shift_remove(*field);
        }
        drop_entries(metadata, "labels");
        drop_entries(metadata, "annotations");
        drop_finalizers(metadata);
    }
    object
}

fn drop_entries(metadata: &mut Map<String, Value>, field: &str) {
    let Some(Value::Object(entries)) = metadata.get_mut(field) else {
        return;
    };
    for name in KARMADA {
        entries.shift_remove(*name);
    }
    if entries.is_empty() {
        metadata.shift_remove(field);
    }
}

fn drop_finalizers(metadata: &mut Map<String, Value>) {
    let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") else {
        return;
    };
    finalizers.retain(|name| name.as_str().is_none_or(|name| !name.starts_with("karmada.io/")));
    if finalizers.is_empty() {
        metadata.shift_remove("finalizers");
    }
}
