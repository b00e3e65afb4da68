//! The scale subresource: one number of an object, seen as an `autoscaling/v1` Scale.

use serde_json::{Map, Value, json};

use super::registry::ScalePaths;
use super::schema::FieldError;
use super::{go, metadata};

/// Returns the scale of an object.
pub(super) fn of(object: &Value, paths: &ScalePaths) -> Value {
    let number = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    let mut meta = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            meta.insert(field.to_owned(), value.clone());
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(selector) = paths
        .selector
        .as_deref()
        .and_then(|pointer| object.pointer(pointer))
    {
        status["selector"] = selector_text(selector).into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        // Go leaves out a zero.
        "spec": match number(&paths.spec_replicas) {
            0 => json!({}),
            replicas => json!({"replicas": replicas}),
        },
        "status": status,
    })
}

/// Writes the number of a scale into the object.
pub(super) fn write(object: &mut Value, paths: &ScalePaths, scale: &Value) {
    let mut part = object;
    let mut steps = paths.spec_replicas.split('/').skip(1).peekable();
    while let Some(step) = steps.next() {
        if steps.peek().is_none() {
            let replicas = &scale["spec"]["replicas"];
            part[step] = if replicas.is_null() {
                json!(0)
            } else {
                replicas.clone()
            };
            return;
        }
        metadata::entry(part, step);
        part = &mut part[step];
    }
}

/// Returns a selector in its text form; CRDs have it as text already.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let terms: Vec<String> = labels
        .map(|(label, value)| format!("{label}={}", value.as_str().unwrap_or_default()))
        .collect();
    terms.join(",")
}

/// Returns what is wrong with what the scale of a custom resource is read from; `spec` says whether that may have
/// been written, too.
pub(super) fn check(object: &Value, paths: &ScalePaths, spec: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec {
        errors.extend(check_number(object, &paths.spec_replicas));
    }
    errors.extend(check_number(object, &paths.status_replicas));
    if let Some(selector) = &paths.selector {
        let found = nested(object, selector).and_then(|found| match found {
            Some(odd) if !odd.is_string() => Err(mistyped(selector, odd, "string")),
            _ => Ok(()),
        });
        errors.extend(
            found
                .err()
                .map(|why| FieldError::invalid(dotted(selector), "", why)),
        );
    }
    errors
}

fn check_number(object: &Value, pointer: &str) -> Option<FieldError> {
    let found = nested(object, pointer).and_then(|found| match found {
        None => Ok(0),
        Some(value) => value.as_i64().ok_or_else(|| mistyped(pointer, value, "int64")),
    });
    let (number, why) = match found {
        Err(why) => (0, why),
        Ok(number @ ..0) => (number, "should be a non-negative integer".to_owned()),
        Ok(number) if number > i64::from(i32::MAX) => {
            (number, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return None,
    };
    Some(FieldError::invalid(dotted(pointer), number, why))
}

/// Follows a path; fails where something that has no fields is in the way.
fn nested<'a>(object: &'a Value, pointer: &str) -> Result<Option<&'a Value>, String> {
    let (mut value, mut path) = (object, String::new());
    for step in pointer.split('/').skip(1) {
        path = format!("{path}/{step}");
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(step) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => return Err(mistyped(&path, other, "map[string]interface{}")),
        };
    }
    Ok(Some(value))
}

fn mistyped(pointer: &str, value: &Value, expected: &str) -> String {
    format!(
        "{} accessor error: {} is of the type {}, expected {expected}",
        dotted(pointer),
        go::print(value),
        go::type_of(value)
    )
}

fn dotted(pointer: &str) -> String {
    pointer.replace('/', ".")
}
