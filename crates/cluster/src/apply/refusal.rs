//! Why the API server refuses an object: the field, where it was written, and what to do. Values are left out: they are in
//! Git, where the place points to, and they may be secret.

use kube::core::Status;
use kube::core::response::StatusCause;

use super::outcome::{Conflict, Failure, Outcome};
use crate::error::describe;
use crate::{Error, FieldConflict};
use cutover_core::error::Kind;
use cutover_core::manifest::Manifest;
use cutover_core::plan::{RECREATE_ANNOTATION, is_fixed};

pub(super) fn failure(manifest: &Manifest, error: &Error) -> Outcome {
    let fixed = error.status().map(fixed_fields).unwrap_or_default();
    let (message, hint) = if fixed.is_empty() {
        (told(manifest, error), hint(manifest, error))
    } else {
        (
            format!("{} cannot be changed once the object is there", fixed.join(", ")),
            Some(recreate_hint()),
        )
    };
    Outcome::Failed(Failure {
        message,
        hint,
        at: manifest.source.clone(),
        field: named_field(error).map(|field| pointer_of(&field, &manifest.value)),
        passing: matches!(error.kind(), Kind::Unreachable | Kind::Auth | Kind::Conflict)
            // A namespace or a webhook that isn't there yet.
            || error.code() == 404,
        fixed,
    })
}

pub(super) fn conflict(manifest: &Manifest, fields: Vec<FieldConflict>) -> Outcome {
    let of = |own: FieldConflict| Conflict {
        pointer: pointer_of(&own.field, &manifest.value),
        manager: own.manager,
        field: own.field,
        at: manifest.source.clone(),
    };
    Outcome::Conflict(fields.into_iter().map(of).collect())
}

pub(super) fn names_nothing(error: &Error) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    details.is_none_or(|details| details.name.is_empty() && details.kind.is_empty())
}

fn recreate_hint() -> String {
    format!(
        "change it back, or let the object be deleted and recreated: annotation {RECREATE_ANNOTATION}: \"true\" on \
         the object, or recreate: true on the sync"
    )
}

/// Returns the fields that can't be changed; none if anything else is wrong as well.
fn fixed_fields(status: &Status) -> Vec<String> {
    let causes = causes(status);
    if status.code != 422 || !causes.iter().all(|cause| is_fixed(&cause.message)) {
        return Vec::new();
    }
    let mut fields: Vec<String> = causes.iter().map(|cause| cause.field.clone()).collect();
    fields.dedup();
    fields
}

fn causes(status: &Status) -> &[StatusCause] {
    status.details.as_ref().map_or(&[], |details| &details.causes)
}

fn hint(manifest: &Manifest, error: &Error) -> Option<String> {
    let status = error.status()?;
    let missing = status
        .details
        .as_ref()
        .filter(|details| status.code == 404 && matches!(details.kind.as_str(), "namespaces" | "Namespace"));
    if let Some(missing) = missing {
        return Some(format!(
            "define Namespace {} in Git, or set createNamespaces: true on the sync",
            missing.name
        ));
    }
    if causes(status)
        .iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
    {
        let namespace = manifest.key.namespace.as_deref().unwrap_or_default();
        return Some(format!(
            "it is applied when namespace {namespace} is gone and there again"
        ));
    }
    error.hint().map(str::to_owned)
}

/// Returns what the server says; of a Secret only where, as it likes to quote values.
fn told(manifest: &Manifest, error: &Error) -> String {
    match error.status() {
        None => error.to_string(),
        Some(status) if manifest.gvk.group.is_empty() && manifest.gvk.kind == "Secret" => {
            let field = named_field(error)
                .map(|field| format!(" at {field}"))
                .unwrap_or_default();
            format!(
                "the API server refuses it{field} (HTTP {}, {})",
                status.code, status.reason
            )
        }
        Some(status) => without_values(status),
    }
}

/// Returns a refusal in words, without the values that it quotes.
fn without_values(status: &Status) -> String {
    let named: Vec<String> = causes(status)
        .iter()
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| format!("{}: {}", cause.field, unquoted(&cause.message)))
        .collect();
    if named.is_empty() {
        // What has another type than the schema says is quoted as it is.
        let text = describe(status);
        match text.split_once(", got ") {
            Some((before, _)) => before.to_owned(),
            None => text,
        }
    } else {
        named.join("; ")
    }
}

/// Takes the value out of `Invalid value: <value>: detail`.
fn unquoted(message: &str) -> String {
    let Some((before, quoted)) = message.split_once(" value: ") else {
        return message.to_owned();
    };
    let mut values = serde_json::Deserializer::from_str(quoted).into_iter::<serde::de::IgnoredAny>();
    let after = match values.next() {
        Some(Ok(_)) => quoted.get(values.byte_offset()..).unwrap_or_default(),
        _ => "",
    };
    format!("{before} value{after}")
}

/// Returns the first field that a refusal names: in its causes, or in the words of a server that doesn't know the field
/// (`unknown field "spec.x"`) or can't take its value (`…, Kind=X): .spec.x: expected string`).
fn named_field(error: &Error) -> Option<String> {
    let status = error.status()?;
    let named = causes(status)
        .iter()
        .map(|cause| cause.field.as_str())
        .find(|field| !field.is_empty());
    let unknown = || status.message.split_once("unknown field \"")?.1.split('"').next();
    let untyped = || status.message.split_once("): .")?.1.split(": ").next();
    named.or_else(unknown).or_else(untyped).map(str::to_owned)
}

/// Returns a field path of the API server as a JSON pointer: `spec.items[0].x` is `/spec/items/0/x`, and
/// `.spec.containers[name="web"].image` is where `object` has that item.
fn pointer_of(field: &str, object: &serde_json::Value) -> String {
    let mut pointer = String::new();
    let mut rest = field.strip_prefix('.').unwrap_or(field);
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        let item = part
            .contains('=')
            .then(|| item_with(object.pointer(&pointer), part))
            .flatten();
        if let Some(index) = item {
            pointer.push_str(&format!("/{index}"));
        } else if !part.is_empty() {
            pointer.push('/');
            pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
        }
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    pointer
}

/// Returns the index of the item that `containerPort=80,protocol="TCP"` is about.
fn item_with(list: Option<&serde_json::Value>, keys: &str) -> Option<usize> {
    let keys: Vec<(&str, serde_json::Value)> = keys
        .split(',')
        .map(|key| {
            let (name, value) = key.split_once('=')?;
            Some((name, serde_json::from_str(value).ok()?))
        })
        .collect::<Option<_>>()?;
    let fits = |item: &serde_json::Value| {
        keys.iter()
            // A key that Git leaves to its default.
            .all(|(name, value)| item.get(name).is_none_or(|own| own == value))
    };
    list?.as_array()?.iter().position(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_the_api_server_are_pointers() {
        let object = json!({"spec": {"containers": [
            {"name": "sidecar"}, {"name": "web", "ports": [{"containerPort": 80}, {"containerPort": 81}]},
        ]}});
        for (field, pointer) in [
            ("spec.placement.clusterAfinity", "/spec/placement/clusterAfinity"),
            ("spec.containers[0].image", "/spec/containers/0/image"),
            ("metadata.labels[a.b/c]", "/metadata/labels/a.b~1c"),
            (".spec.containers[name=\"web\"].image", "/spec/containers/1/image"),
            (
                ".spec.containers[name=\"web\"].ports[containerPort=81,protocol=\"TCP\"].name",
                "/spec/containers/1/ports/1/name",
            ),
            ("", ""),
        ] {
            assert_eq!(pointer_of(field, &object), pointer);
        }
    }

    #[test]
    fn values_are_left_out() {
        for (message, told) in [
            (
                "Invalid value: \"hunter2: x\": must be short",
                "Invalid value: must be short",
            ),
            (
                "Invalid value: {\"a\":{\"b\":\"hunter2\"}}: field is immutable",
                "Invalid value: field is immutable",
            ),
            (
                "Unsupported value: \"hunter2\": supported values: \"A\", \"B\"",
                "Unsupported value: supported values: \"A\", \"B\"",
            ),
            (
                "Invalid value: v1.LabelSelector{MatchLabels:\"hunter2\"}: x",
                "Invalid value",
            ),
            ("Invalid value: -1", "Invalid value"),
            ("Required value", "Required value"),
        ] {
            assert_eq!(unquoted(message), told);
        }
    }
}
