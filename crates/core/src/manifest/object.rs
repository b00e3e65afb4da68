//! What makes a document a Kubernetes object: its identity, checked; and lists taken apart.

use serde_json::Value;

use super::error::quoted;
use super::{Error, Errors, Manifest, Positions, Problem, Source};
use cutover_karmada::name::{Gvk, ObjectKey};

/// Adds the object of a document, or the objects of a list, to what a file gave.
pub(super) fn collect(
    source: Source<'_>,
    value: Value,
    positions: Positions,
    objects: &mut Vec<Manifest>,
    errors: &mut Errors,
) {
    match value {
        Value::Object(mut fields) if is_list(&fields) => {
            let items = fields.get_mut("items").map(Value::take);
            let Some(Value::Array(items)) = items else { return };
            let places = positions.get("/items").cloned();
            for (index, item) in items.into_iter().enumerate() {
                let place = places
                    .as_ref()
                    .and_then(|places| places.item(index))
                    .unwrap_or(&positions);
                collect(source, item, place.clone(), objects, errors);
            }
        }
        value => match manifest(source, value, positions) {
            Ok(manifest) => objects.push(manifest),
            Err(error) => errors.push(error),
        },
    }
}

fn is_list(fields: &serde_json::Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") && fields.get("items").is_some_and(Value::is_array) && !fields.contains_key("spec")
}

fn manifest(source: Source<'_>, value: Value, positions: Positions) -> Result<Manifest, Error> {
    let (key, gvk) = identity(&value)
        .map_err(|(pointer, problem)| Error::new(source.path, positions.value(pointer), problem))?;
    Ok(Manifest {
        key,
        gvk,
        value,
        source: positions.root().of(source.path),
        positions,
        blob: source.blob.map(str::to_owned),
    })
}

type Refused = (&'static str, Problem);

fn identity(value: &Value) -> Result<(ObjectKey, Gvk), Refused> {
    let Some(fields) = value.as_object() else {
        return Err(("", Problem::NotAnObject("it is not a mapping")));
    };
    if !fields.contains_key("apiVersion") && !fields.contains_key("kind") {
        return Err(("", Problem::NotAnObject("it has neither apiVersion nor kind")));
    }
    let api_version = text(value, "/apiVersion", "apiVersion")?;
    let kind = text(value, "/kind", "kind")?;
    check_api_version(api_version)?;
    check_kind(kind)?;
    if !matches!(fields.get("metadata"), None | Some(Value::Object(_))) {
        return Err(("/metadata", Problem::WrongType("metadata", "a mapping")));
    }
    if value.pointer("/metadata/name").is_none() && value.pointer("/metadata/generateName").is_some() {
        return Err(("/metadata/generateName", Problem::GenerateName));
    }
    let name = text(value, "/metadata/name", "metadata.name")?;
    let gvk = Gvk::new(api_version, kind);
    check_name(&gvk, name)?;
    let namespace = match value.pointer("/metadata/namespace") {
        None | Some(Value::Null) => None,
        Some(_) => Some(text(value, "/metadata/namespace", "metadata.namespace")?),
    };
    if let Some(namespace) = namespace {
        check("/metadata/namespace", "namespace", namespace, LABEL, is_label)?;
    }
    let key = ObjectKey {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    Ok((key, gvk))
}

fn text<'a>(value: &'a Value, pointer: &'static str, what: &'static str) -> Result<&'a str, Refused> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => Err((pointer, Problem::Missing(what))),
        Some(Value::String(text)) if text.is_empty() => Err((pointer, Problem::Missing(what))),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err((
            pointer,
            Problem::WrongType(what, "a string (in quotes, if it looks like something else)"),
        )),
    }
}

const LABEL: &str = "at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends";
const SUBDOMAIN: &str =
    "at most 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends of each part";
const SEGMENT: &str = "not `.` or `..`, and without `/` and `%`";
const API_VERSION: &str = "`version` or `group/version`";
const KIND: &str = "letters and digits, beginning with a letter";

fn check_api_version(text: &str) -> Result<(), Refused> {
    check(
        "/apiVersion",
        "apiVersion",
        text,
        API_VERSION,
        |text| match text.split_once('/') {
            Some((group, version)) => is_subdomain(group) && is_label(version),
            None => is_label(text),
        },
    )
}

fn check_kind(text: &str) -> Result<(), Refused> {
    check("/kind", "kind", text, KIND, |text| {
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// Applies the rule of the API server: names of RBAC objects may hold `:`, namespaces are labels, all else subdomains.
fn check_name(gvk: &Gvk, name: &str) -> Result<(), Refused> {
    let (rule, fits): (_, fn(&str) -> bool) = match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("rbac.authorization.k8s.io", _) => (SEGMENT, is_segment),
        ("", "Namespace" | "Service") => (LABEL, is_label),
        _ => (SUBDOMAIN, is_subdomain),
    };
    check("/metadata/name", "name", name, rule, fits)
}

fn check(
    pointer: &'static str,
    what: &'static str,
    value: &str,
    rule: &'static str,
    fits: impl Fn(&str) -> bool,
) -> Result<(), Refused> {
    if fits(value) {
        Ok(())
    } else {
        let value = quoted(value);
        Err((pointer, Problem::BadName { what, value, rule }))
    }
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dashed(text)
}

/// The API server limits the whole, not its parts.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dashed)
}

fn is_dashed(text: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

fn is_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '%'])
}
