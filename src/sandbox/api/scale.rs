//! The scale subresource: one number of an object, seen as an `autoscaling/v1` Scale.

use serde_json::{Map, Value, json};

use super::metadata;
use super::registry::ScalePaths;
use super::schema::FieldError;

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
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": status,
    })
}

/// Writes the number of a scale into the object.
pub(super) fn write(object: &mut Value, paths: &ScalePaths, scale: &Value) {
    let mut part = object;
    let mut steps = paths.spec_replicas.split('/').skip(1).peekable();
    while let Some(step) = steps.next() {
        if steps.peek().is_none() {
            part[step] = scale["spec"]["replicas"].clone();
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

/// Returns what is wrong with the number of replicas that an object wants.
pub(super) fn check(object: &Value, paths: &ScalePaths) -> Option<FieldError> {
    let wanted = object.pointer(&paths.spec_replicas)?;
    let field = paths.spec_replicas.replace('/', ".");
    let why = match wanted.as_i64()? {
        ..0 => "should be a non-negative integer".to_owned(),
        number if number > i64::from(i32::MAX) => format!("should be less than or equal to {}", i32::MAX),
        _ => return None,
    };
    Some(FieldError::invalid(field, wanted.clone(), why))
}
