//! What a real server does for each kind before it stores an object: which parts a write may touch, what it fills
//! in, which changes it refuses.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::metadata;
use super::registry::{CRDS, Kind, NAMESPACES, SERVICES, Version};
use super::status::Status;
use super::{Resource, Subresource, builtin, crd, owners};
use crate::store::Key;

const NODES: Resource = Resource::new("", "nodes");
const PODS: Resource = Resource::new("", "pods");

/// What a body says of its type.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    /// The name that it gives the object.
    pub(super) name: String,
}

/// Returns what a body says of its type.
pub(super) fn type_of(body: &Value) -> Said {
    let text = |field: &str| {
        let said = body[field].as_str().filter(|said| !said.is_empty());
        said.map(str::to_owned)
    };
    Said {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: metadata::name(body).to_owned(),
    }
}

/// Returns the version of a request: that of the path, or that of the body.
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
    version.ok_or_else(Status::no_such_resource)
}

/// Refuses a body of which the type can't be found out; of built-in kinds also one of another type.
///
/// A real server that needn't look for unknown fields finds out later, and says so in other words.
pub(super) fn check_type(
    kind: &Kind,
    version: &Version,
    said: &Said,
    body: &Value,
    lenient: bool,
) -> Result<(), Status> {
    let unrecognized = |why: &str| {
        let message = format!(
            "the object provided is unrecognized (must be of type {}): {why}",
            kind.kind
        );
        Err(Status::bad_request(message))
    };
    let said_version = said.api_version.as_deref().unwrap_or_default();
    if said_version.matches('/').count() > 1 {
        return unrecognized(&format!(
            "unexpected GroupVersion string: {said_version} ({body})"
        ));
    }
    if kind.custom {
        let why = format!("Object 'Kind' is missing in '{body}'");
        return match said.kind {
            None if lenient => Err(Status::bad_request(format!(
                "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
                kind.kind, version.name
            ))),
            None => unrecognized(&why),
            Some(_) => Ok(()),
        };
    }
    let expected = kind.api_version(version);
    let api_version = said.api_version.as_deref().unwrap_or(&expected);
    let name = said.kind.as_deref().unwrap_or(&kind.kind);
    if api_version == expected && name == kind.kind {
        return Ok(());
    }
    let (group, short) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = builtin::by_kind(group, name).filter(|known| known.version == short);
    let why = match known {
        Some(_) => {
            let into = match kind.group() {
                "" => "core",
                group => group.split('.').next().unwrap_or_default(),
            };
            format!(
                "converting ({short}.{name}) to ({into}.{}): unknown conversion",
                kind.kind
            )
        }
        None => format!(
            "no kind \"{name}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        ),
    };
    Err(Status::bad_request(format!(
        "{name} in version \"{short}\" cannot be handled as a {}: {why}",
        kind.kind
    )))
}

/// Refuses a custom resource in another version than that of the path, once it is read.
pub(super) fn check_version(kind: &Kind, version: &Version, said: &Said) -> Result<(), Status> {
    let expected = kind.api_version(version);
    let said = said.api_version.as_deref().unwrap_or_default();
    if !kind.custom || said == expected {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({said}) does not match the expected API version ({expected})"
    )))
}

/// Refuses an applied configuration of another type.
pub(super) fn check_applied(kind: &Kind, version: &Version, configuration: &Value) -> Result<(), Status> {
    let said = type_of(configuration);
    let mut name = said.kind.unwrap_or_default();
    let mut api_version = said.api_version.unwrap_or_default();
    if api_version.matches('/').count() > 1 {
        (name, api_version) = (String::new(), String::new());
    }
    if name == kind.kind && api_version == kind.api_version(version) {
        return Ok(());
    }
    let slash = if api_version.contains('/') { "" } else { "/" };
    Err(Status::bad_request(format!(
        "invalid object type: {slash}{api_version}, Kind={name}"
    )))
}

/// Returns the version whose schema says what of a body is unknown; none for a body of something else.
pub(super) fn schema_of<'a>(kind: &'a Kind, version: &'a Version, said: &Said) -> Option<&'a Version> {
    if !kind.custom {
        return Some(version);
    }
    let named = said.kind.as_ref().is_some_and(|said| *said == kind.kind);
    let of_body = |version: &&Version| {
        let said = said.api_version.as_ref();
        said.is_some_and(|said| *said == kind.api_version(version))
    };
    kind.versions.iter().find(of_body).filter(|_| named)
}

/// Returns where a real server stores an object, which some refusals tell; those of dry-runs not from the root.
pub(super) fn place_of(kind: &Kind, key: &Key, dry_run: bool) -> String {
    let mut place = if dry_run { "/" } else { "/registry/" }.to_owned();
    if kind.custom {
        place += kind.group();
        place.push('/');
    }
    place += &kind.resource.plural;
    if kind.resource == SERVICES {
        place += "/specs";
    }
    for part in [&key.namespace, &key.name] {
        if !part.is_empty() {
            place.push('/');
            place += part;
        }
    }
    place
}

/// Returns the fields that are unknown in a version that doesn't exist: all but the type and the metadata.
pub(super) fn unknown_to_none(kind: &Kind, said: &Said, body: &Value) -> Vec<String> {
    let group = said.api_version.as_deref().unwrap_or_default().split('/').next();
    if said.kind.as_ref() != Some(&kind.kind) || group != Some(kind.group()) {
        return Vec::new();
    }
    let known = ["apiVersion", "kind", "metadata"];
    let mut unknown: Vec<String> = fields(body)
        .filter(|field| !known.contains(field))
        .map(str::to_owned)
        .collect();
    unknown.sort();
    unknown
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
    if kind.resource == NAMESPACES && !metadata::name(body).is_empty() {
        name_label(body);
    }
    if kind.resource == CRDS {
        crd::default(body);
    }
}

/// Returns whether a deletion is answered with the object, also when it is gone.
pub(super) fn shows_deleted(resource: &Resource) -> bool {
    const CORE: &[&str] = &[
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "resourcequotas",
        "serviceaccounts",
        "services",
    ];
    match &*resource.group {
        "" => CORE.contains(&&*resource.plural),
        "storage.k8s.io" => resource.plural == "storageclasses",
        _ => false,
    }
}

/// Labels a namespace with its name.
fn name_label(namespace: &mut Value) {
    let name = metadata::name(namespace).to_owned();
    metadata::entry_of(metadata::of(namespace), "labels")
        .insert("kubernetes.io/metadata.name".to_owned(), name.into());
}

/// Drops what a creation can't set, and sets what it always has; nobody owns that.
pub(super) fn prepare_create(kind: &Kind, version: &Version, body: &mut Value) {
    let keeps_status = kind.resource == NODES || !version.status;
    if !keeps_status && let Some(fields) = body.as_object_mut() {
        fields.shift_remove("status");
        if kind.resource == SERVICES {
            fields.insert("status".to_owned(), json!({"loadBalancer": {}}));
        } else if !kind.custom {
            fields.insert("status".to_owned(), json!({}));
        }
        if kind.resource == CRDS {
            crd::first_status(body);
        }
    }
    if kind.resource == NAMESPACES {
        name_label(body);
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
    match subresource {
        None => {
            if version.status || kind.resource == NAMESPACES {
                restore(body, old, "status");
            }
            if kind.resource == NAMESPACES {
                name_label(body);
                let finalizers = old["spec"].get("finalizers").cloned();
                set_or_remove(metadata::entry(body, "spec"), "finalizers", finalizers);
            }
        }
        Some(Subresource::Scale) => {}
        Some(Subresource::Status) => {
            if !kind.custom {
                metadata::entry(body, "status");
            }
            let others: Vec<String> = fields(old).chain(fields(body)).map(str::to_owned).collect();
            for field in others {
                if !matches!(field.as_str(), "status" | "metadata" | "apiVersion" | "kind") {
                    restore(body, old, &field);
                }
            }
            if kind.custom {
                let managed = owners::of(body).map(Cow::into_owned);
                restore(body, old, "metadata");
                owners::set(body, managed);
            } else if kind.resource.plural == "deployments" {
                metadata::set(body, "labels", old["metadata"].get("labels").cloned());
            }
        }
        Some(Subresource::Finalize) => {
            let finalizers = body["spec"].get("finalizers").cloned();
            let managed = owners::of(body).map(Cow::into_owned);
            *body = old.clone();
            owners::set(body, managed);
            set_or_remove(metadata::entry(body, "spec"), "finalizers", finalizers);
        }
    }
}

/// Writes the type first, where readers expect it.
pub(super) fn set_type(kind: &Kind, version: &Version, body: &mut Value) {
    let Some(fields) = body.as_object_mut() else {
        return;
    };
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
