//! What a real server does for each kind before it stores an object: which parts a write may touch, what it fills
//! in, which changes it refuses.

use serde_json::{Map, Value, json};

use super::metadata;
use super::registry::{CRDS, Kind, NAMESPACES, Version};
use super::status::{Cause, Status};
use super::{Resource, Subresource, crd};

const NODES: Resource = Resource::new("", "nodes");
const PODS: Resource = Resource::new("", "pods");

/// What a body says of its type.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    body: bool,
    api_version: Option<String>,
    kind: Option<String>,
    /// The name that it gives the object.
    pub(super) name: String,
}

/// Returns what a body says of its type.
pub(super) fn type_of(body: &Value) -> Said {
    Said {
        body: true,
        api_version: body["apiVersion"].as_str().map(str::to_owned),
        kind: body["kind"].as_str().map(str::to_owned),
        name: metadata::name(body).to_owned(),
    }
}

/// Returns the version of a request: that of the path, or that of the body; what the body says must fit.
pub(super) fn version_of<'a>(
    kind: &'a Kind,
    version: Option<&str>,
    said: &Said,
) -> Result<&'a Version, Status> {
    let version = match (version, &said.api_version) {
        (Some(version), _) => kind.served(version),
        (None, None) => kind.storage(),
        (None, Some(said)) => kind
            .versions
            .iter()
            .find(|version| kind.api_version(version) == *said),
    };
    let version = version.ok_or_else(Status::no_such_resource)?;
    check_type(kind, version, said)?;
    Ok(version)
}

fn check_type(kind: &Kind, version: &Version, said: &Said) -> Result<(), Status> {
    let expected = kind.api_version(version);
    if kind.custom && said.body && said.kind.is_none() {
        let message = format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
            kind.kind
        );
        return Err(Status::bad_request(message));
    }
    if let Some(said) = said.api_version.as_deref().filter(|said| *said != expected) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({said}) does not match the expected API version ({expected})"
        )));
    }
    match said.kind.as_deref() {
        Some(other) if other != kind.kind && kind.custom => {
            let cause = Cause::invalid_value("kind", &other.into(), &format!("must be {}", kind.kind));
            Err(Status::invalid(kind.group(), other, &said.name, vec![cause]))
        }
        Some(other) if other != kind.kind => Err(Status::bad_request(format!(
            "{other} in version \"{}\" cannot be handled as a {}",
            version.name, kind.kind
        ))),
        _ => Ok(()),
    }
}

/// Returns whether a version has a subresource; every version has the object itself.
pub(super) fn has_subresource(kind: &Kind, version: &Version, subresource: Option<Subresource>) -> bool {
    match subresource {
        None => true,
        Some(Subresource::Status) => version.status,
        Some(Subresource::Scale) => version.scale.is_some(),
        Some(Subresource::Finalize) => kind.resource == NAMESPACES,
    }
}

/// Fills in the type, and what is filled in before anybody owns it.
pub(super) fn prepare_defaults(kind: &Kind, version: &Version, body: &mut Value) {
    set_type(kind, version, body);
    if kind.resource == NAMESPACES {
        let name = metadata::name(body).to_owned();
        metadata::entry_of(metadata::of(body), "labels")
            .insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    if kind.resource == CRDS {
        crd::default(body);
    }
}

/// Drops what a creation can't set, and sets what it always has; nobody owns that.
pub(super) fn prepare_create(kind: &Kind, version: &Version, body: &mut Value) {
    let keeps_status = kind.resource == NODES || !version.status;
    if !keeps_status && let Some(fields) = body.as_object_mut() {
        fields.shift_remove("status");
        if !kind.custom {
            fields.insert("status".to_owned(), json!({}));
        }
    }
    if kind.resource == NAMESPACES {
        let spec = metadata::entry(body, "spec");
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|finalizer| finalizer == "kubernetes")
        {
            finalizers.push(json!("kubernetes"));
        }
        metadata::entry(body, "status").insert("phase".to_owned(), json!("Active"));
    }
    if kind.resource == PODS {
        metadata::entry(body, "status").insert("phase".to_owned(), json!("Pending"));
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

fn set_type(kind: &Kind, version: &Version, body: &mut Value) {
    let Some(fields) = body.as_object_mut() else {
        return;
    };
    // Readers expect the type first.
    let rest = std::mem::take(fields);
    fields.insert("apiVersion".to_owned(), kind.api_version(version).into());
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
