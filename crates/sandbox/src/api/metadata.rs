//! Reading and writing an object's `metadata` as a value.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::clock::seconds;
use crate::store::Key;

/// Returns a text of the metadata; empty when it is absent.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "name")
}

pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub fn key(object: &Value) -> Key {
    Key {
        namespace: text(object, "namespace").to_owned(),
        name: name(object).to_owned(),
    }
}

pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns the metadata to write to; an object without any gets an empty one.
pub fn of(object: &mut Value) -> &mut Map<String, Value> {
    entry(object, "metadata")
}

/// Returns a part of an object to write to; what isn't a map becomes one.
pub fn entry<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    entry_of(map(object), field)
}

/// Returns a part of a map to write to; what isn't a map becomes one.
pub fn entry_of<'a>(fields: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    map(fields.entry(field).or_insert_with(|| Value::Object(Map::new())))
}

/// Sets a field of the metadata, or removes it.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(of(object).insert(field.to_owned(), value)),
        None => drop(of(object).shift_remove(field)),
    }
}

/// Adds a finalizer, unless it is there.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    if finalizers(object).any(|present| present == finalizer) {
        return;
    }
    match of(object)
        .entry("finalizers")
        .or_insert_with(|| Value::Array(Vec::new()))
    {
        Value::Array(finalizers) => finalizers.push(finalizer.into()),
        other => *other = Value::Array(vec![finalizer.into()]),
    }
}

/// Removes a finalizer; the list goes when it is empty.
pub fn remove_finalizer(object: &mut Value, finalizer: &str) {
    let left: Vec<Value> = finalizers(object)
        .filter(|present| *present != finalizer)
        .map(Into::into)
        .collect();
    set(
        object,
        "finalizers",
        (!left.is_empty()).then_some(Value::Array(left)),
    );
}

/// Returns a moment as objects show it: whole seconds.
pub fn time(now: Timestamp) -> Value {
    Value::String(seconds(now))
}

fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made a map"),
    }
}
