//! The memory of a value: a map keeps its fields in their order, each in about a hundred bytes beside what it holds, and grows
//! by powers of two.

use serde_json::{Map, Value};

/// What one field of a map takes: its hash, its name, its value, and its place in the index.
const FIELD: usize = size_of::<usize>() + size_of::<String>() + size_of::<Value>() + 12;

/// Returns the value without room to grow: what is stored doesn't.
pub(crate) fn fitted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields: Map<String, Value> = fields.map(|(name, value)| (name, fitted(value))).collect();
            Value::Object(fields)
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(fitted).collect::<Box<[Value]>>().into_vec())
        }
        Value::String(text) => Value::String(text.into_boxed_str().into_string()),
        other => other,
    }
}

/// Returns about how many bytes a value takes.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| FIELD + name.len() + weight(value))
            .sum(),
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + weight(item)).sum(),
        Value::String(text) => text.len(),
        _ => 0,
    }
}
