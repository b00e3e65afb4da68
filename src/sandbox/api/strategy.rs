//! What a real server does for each kind before it stores an object: which parts a write may touch, what it fills
//! in, which changes it refuses.

use serde_json::{Map, Value, json};

use super::metadata;
use super::registry::{CRDS, Kind, NAMESPACES, Version, api_version};
use super::status::{Cause, Status};
use super::{Resource, Subresource, crd};

const NODES: Resource = Resource::new("", "nodes");
const PODS: Resource = Resource::new("", "pods");

/// Sees to it that a body is of the kind and version of the request; what it leaves out is filled in later.
pub(super) fn check_type(kind: &Kind, version: &Version, body: &Value) -> Result<(), Status> {
    let expected = api_version(kind.group(), &version.name);
    let said_version = body["apiVersion"].as_str();
    let said_kind = body["kind"].as_str();
    if kind.custom && !body.is_null() && said_kind.is_none() {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}'",
            kind.kind
        )));
    }
    if let Some(said) = said_version.filter(|said| *said != expected) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({said}) does not match the expected API version ({expected})"
        )));
    }
    match said_kind {
        Some(said) if said != kind.kind && kind.custom => {
            let cause = Cause::invalid_value("kind", &said.into(), &format!("must be {}", kind.kind));
            Err(Status::invalid(
                kind.group(),
                said,
                metadata::name(body),
                vec![cause],
            ))
        }
        Some(said) if said != kind.kind => Err(Status::bad_request(format!(
            "{said} in version \"{}\" cannot be handled as a {}",
            version.name, kind.kind
        ))),
        _ => Ok(()),
    }
}

/// Fills in the type, and drops what a creation can't set.
pub(super) fn prepare_create(kind: &Kind, version: &Version, body: &mut Value) {
    set_type(kind, version, body);
    let keeps_status = kind.resource == NODES || !version.status;
    if !keeps_status && let Some(fields) = body.as_object_mut() {
        fields.shift_remove("status");
    }
    if kind.resource == NAMESPACES {
        let name = metadata::name(body).to_owned();
        metadata::entry_of(metadata::of(body), "labels")
            .insert("kubernetes.io/metadata.name".to_owned(), name.into());
        metadata::entry(body, "spec").insert("finalizers".to_owned(), json!(["kubernetes"]));
        metadata::entry(body, "status").insert("phase".to_owned(), json!("Active"));
    }
    if kind.resource == PODS {
        metadata::entry(body, "status").insert("phase".to_owned(), json!("Pending"));
    }
    if kind.resource == CRDS {
        crd::default(body);
    }
}

/// Keeps the parts of an object that a write through `subresource` can't touch as they were.
pub(super) fn separate(
    kind: &Kind,
    version: &Version,
    subresource: Option<Subresource>,
    old: &Value,
    body: &mut Value,
) {
    set_type(kind, version, body);
    match subresource {
        None => {
            if version.status || kind.resource == NAMESPACES {
                restore(body, old, "status");
            }
            if kind.resource == NAMESPACES {
                let finalizers = old["spec"].get("finalizers").cloned();
                set_or_remove(metadata::entry(body, "spec"), "finalizers", finalizers);
            }
        }
        Some(Subresource::Scale) => {}
        Some(Subresource::Status) => {
            let others: Vec<String> = fields(old).chain(fields(body)).map(str::to_owned).collect();
            for field in others {
                if !matches!(field.as_str(), "status" | "metadata" | "apiVersion" | "kind") {
                    restore(body, old, &field);
                }
            }
            if kind.custom {
                let managed = body["metadata"].get("managedFields").cloned();
                restore(body, old, "metadata");
                metadata::set(body, "managedFields", managed);
            } else {
                metadata::set(body, "labels", old["metadata"].get("labels").cloned());
            }
        }
        Some(Subresource::Finalize) => {
            let finalizers = body["spec"].get("finalizers").cloned();
            *body = old.clone();
            set_or_remove(metadata::entry(body, "spec"), "finalizers", finalizers);
        }
    }
}

/// Keeps of an apply's configuration what it may own through `subresource`.
pub(super) fn keep_applicable(
    subresource: Option<Subresource>,
    version: &Version,
    configuration: &mut Value,
) {
    let Some(fields) = configuration.as_object_mut() else {
        return;
    };
    match subresource {
        None if version.status => drop(fields.shift_remove("status")),
        Some(Subresource::Status) => {
            fields.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        }
        _ => {}
    }
}

/// Returns what is wrong with a change of an object, whatever its schema says.
pub(super) fn validate_transition(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["uid", "deletionTimestamp"] {
        if new["metadata"][field] != old["metadata"][field] {
            let field_path = format!("metadata.{field}");
            causes.push(Cause::invalid_value(
                field_path,
                &new["metadata"][field],
                "field is immutable",
            ));
        }
    }
    if metadata::is_terminating(old) {
        let added: Vec<String> = metadata::finalizers(new)
            .filter(|finalizer| !metadata::finalizers(old).any(|present| present == *finalizer))
            .map(|finalizer| format!("\"{finalizer}\""))
            .collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

/// Returns whether a write changes nothing but the times of managed fields: such a write doesn't happen.
pub(super) fn same(old: &Value, new: &Value) -> bool {
    timeless(old) == timeless(new)
}

fn timeless(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.shift_remove("apiVersion");
    }
    let managers = metadata::of(&mut object)
        .get_mut("managedFields")
        .and_then(Value::as_array_mut);
    for manager in managers.into_iter().flatten().filter_map(Value::as_object_mut) {
        manager.shift_remove("time");
    }
    object
}

fn set_type(kind: &Kind, version: &Version, body: &mut Value) {
    let Some(fields) = body.as_object_mut() else {
        return;
    };
    // Readers expect the type first.
    let rest = std::mem::take(fields);
    fields.insert(
        "apiVersion".to_owned(),
        api_version(kind.group(), &version.name).into(),
    );
    fields.insert("kind".to_owned(), kind.kind.as_str().into());
    fields.extend(
        rest.into_iter()
            .filter(|(field, _)| field != "apiVersion" && field != "kind"),
    );
}

fn fields(object: &Value) -> impl Iterator<Item = &str> {
    object
        .as_object()
        .into_iter()
        .flatten()
        .map(|(field, _)| field.as_str())
}

fn restore(body: &mut Value, old: &Value, field: &str) {
    if let Some(fields) = body.as_object_mut() {
        set_or_remove(fields, field, old.get(field).cloned());
    }
}

fn set_or_remove(fields: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(fields.insert(field.to_owned(), value)),
        None => drop(fields.shift_remove(field)),
    }
}
