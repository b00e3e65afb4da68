//! Small questions to objects that are plain values.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::clock::seconds;

/// Returns a time as objects show it.
pub fn time(at: Timestamp) -> Value {
    json!(seconds(at))
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns the namespace, or `None` for an object of cluster scope.
pub fn namespace(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

pub fn is_terminating(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null())
}

pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    entry(object, "labels", key)
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    entry(object, "annotations", key)
}

fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

pub fn set_label(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "labels", key, value);
}

pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "annotations", key, value);
}

fn set_entry(object: &mut Value, map: &str, key: &str, value: &str) {
    fields(field(fields(object), "metadata"))
        .entry(map)
        .and_modify(|map| _ = fields(map))
        .or_insert_with(|| json!({}))[key] = json!(value);
}

/// Removes labels or annotations; tells whether any was there.
pub fn remove_entries(object: &mut Value, map: &str, keys: &[&str]) -> bool {
    let Some(entries) = object
        .pointer_mut(&format!("/metadata/{map}"))
        .and_then(Value::as_object_mut)
    else {
        return false;
    };
    let before = entries.len();
    entries.retain(|key, _| !keys.contains(&key.as_str()));
    entries.len() != before
}

pub fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let Some(finalizers) = object
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    else {
        return false;
    };
    let before = finalizers.len();
    finalizers.retain(|present| present != finalizer);
    finalizers.len() != before
}

pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    if has_finalizer(object, finalizer) {
        return;
    }
    match object
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    {
        Some(finalizers) => finalizers.push(json!(finalizer)),
        None => object["metadata"]["finalizers"] = json!([finalizer]),
    }
}

pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers
        .into_iter()
        .flatten()
        .any(|present| present == finalizer)
}

/// Returns labels or annotations.
pub fn entries(object: &Value, map: &str) -> BTreeMap<String, String> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(map))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Returns the fields of a value; what isn't a map becomes an empty one.
pub fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("it was made a map"),
    }
}

fn field<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    fields.entry(name).or_insert_with(|| json!({}))
}

/// Sets a condition; its time moves only with its status. Tells whether anything changed.
pub fn set_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: &Value,
) -> bool {
    let conditions = fields(status).entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return false;
    };
    let mut condition = json!({"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now});
    let Some(known) = conditions.iter_mut().find(|known| known["type"] == kind) else {
        conditions.push(condition);
        return true;
    };
    if known["status"] == value {
        condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
    }
    let changed = *known != condition;
    *known = condition;
    changed
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object
        .pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Returns a short hash for names, as stable as what it is made from.
pub fn hash(text: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let mut letters = String::new();
    while rest > 0 {
        letters.push(char::from(LETTERS[rest as usize % LETTERS.len()]));
        rest /= 27;
    }
    letters
}

/// Returns the name of the Work of a template in each member's execution namespace.
pub fn work_name(kind: &str, name: &str, namespace: Option<&str>) -> String {
    let name = name.replace(':', ".").to_lowercase();
    let long = namespace.map_or_else(
        || format!("{name}-{kind}").to_lowercase(),
        |namespace| format!("{namespace}-{name}-{kind}").to_lowercase(),
    );
    format!("{name}-{}", hash(&long))
}
