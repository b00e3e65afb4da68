//! Keeps the values of Secrets out of everything that is shown.

use serde_json::{Map, Value};

use super::normalise::LAST_APPLIED;

/// Stands for a value that must not be shown.
pub const MASK: &str = "***";
const BEFORE: &str = "*** (before)";
const AFTER: &str = "*** (after)";

/// Returns both sides of a change with the values of Secrets replaced, wherever in an object a Secret is embedded. A value
/// that changes is masked differently on the two sides, so that a diff shows *that* it changes.
///
/// The annotation in which `kubectl apply` keeps a copy of the whole object is masked on every kind.
pub fn mask(before: Option<&Value>, after: Option<&Value>) -> (Option<Value>, Option<Value>) {
    let mut masked = (before.cloned(), after.cloned());
    walk(masked.0.as_mut(), masked.1.as_mut());
    masked
}

pub(super) fn is_secret(object: &Value) -> bool {
    let text = |field| object.get(field).and_then(Value::as_str);
    text("kind") == Some("Secret") && text("apiVersion").is_none_or(|version| version == "v1")
}

fn walk(mut before: Option<&mut Value>, mut after: Option<&mut Value>) {
    let is_ours = |side: &Option<&mut Value>| side.as_deref().is_some_and(is_secret);
    if is_ours(&before) || is_ours(&after) {
        // Where one side is no Secret, it is masked as if it were one.
        mask_secret(before.as_deref_mut(), after.as_deref_mut());
    }
    mask_last_applied(before.as_deref_mut(), after.as_deref_mut());
    for step in steps(before.as_deref(), after.as_deref()) {
        walk(
            child(before.as_deref_mut(), &step),
            child(after.as_deref_mut(), &step),
        );
    }
}

fn mask_secret(before: Option<&mut Value>, after: Option<&mut Value>) {
    let mut sides = [before, after];
    for side in sides.iter_mut().flatten() {
        encode_plain(side);
    }
    let [before, after] = sides;
    mask_entries(field(before, "data"), field(after, "data"));
}

/// Moves `stringData` to `data`, as the API server does, so that both sides are comparable.
fn encode_plain(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else {
        return;
    };
    let Some(plain) = fields.shift_remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert(Value::Null);
    if !data.is_object() && !data.is_null() {
        *data = Value::String(MASK.to_owned());
        return;
    }
    let Value::Object(plain) = plain else {
        *data = Value::String(MASK.to_owned());
        return;
    };
    let mut encoded = data.as_object().cloned().unwrap_or_default();
    encoded.extend(plain.into_iter().map(|(key, value)| match value {
        Value::String(text) => (key, Value::String(base64(text.as_bytes()))),
        other => (key, other),
    }));
    *data = Value::Object(encoded);
}

fn mask_entries(before: Option<&mut Value>, after: Option<&mut Value>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let keys: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
            for key in keys {
                mask_pair(before.get_mut(&key), after.get_mut(&key));
            }
        }
        (Some(Value::Object(only)), other) | (other, Some(Value::Object(only))) => {
            only.values_mut().for_each(|value| mask_pair(Some(value), None));
            mask_pair(other, None);
        }
        (before, after) => mask_pair(before, after),
    }
}

/// Replaces a value on both sides, unless it is masked already.
fn mask_pair(before: Option<&mut Value>, after: Option<&mut Value>) {
    let is_masked = |value: &Value| [MASK, BEFORE, AFTER].iter().any(|mask| value == mask);
    match (before, after) {
        (Some(before), Some(after)) if before != after => {
            if !is_masked(before) {
                *before = Value::String(BEFORE.to_owned());
            }
            if !is_masked(after) {
                *after = Value::String(AFTER.to_owned());
            }
        }
        (before, after) => {
            for side in [before, after].into_iter().flatten() {
                *side = Value::String(MASK.to_owned());
            }
        }
    }
}

fn mask_last_applied(before: Option<&mut Value>, after: Option<&mut Value>) {
    mask_pair(field(before, LAST_APPLIED), field(after, LAST_APPLIED));
}

fn field<'a>(value: Option<&'a mut Value>, name: &str) -> Option<&'a mut Value> {
    value?.as_object_mut()?.get_mut(name)
}

/// One step into a value.
enum Step {
    Field(String),
    Item(usize),
}

fn steps(before: Option<&Value>, after: Option<&Value>) -> Vec<Step> {
    let mut steps = Vec::new();
    let empty = Map::new();
    let fields = |side: Option<&Value>| {
        side.and_then(Value::as_object)
            .unwrap_or(&empty)
            .keys()
            .cloned()
            .collect()
    };
    let (mut names, more): (Vec<String>, Vec<String>) = (fields(before), fields(after));
    names.extend(more);
    names.sort_unstable();
    names.dedup();
    steps.extend(names.into_iter().map(Step::Field));
    let length = |side: Option<&Value>| side.and_then(Value::as_array).map_or(0, Vec::len);
    steps.extend((0..length(before).max(length(after))).map(Step::Item));
    steps
}

fn child<'a>(value: Option<&'a mut Value>, step: &Step) -> Option<&'a mut Value> {
    match step {
        Step::Field(name) => field(value, name),
        Step::Item(index) => value?.as_array_mut()?.get_mut(*index),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes as RFC 4648 base64 with padding, which is how `data` of a Secret is written.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0_usize, |group, byte| group << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(char::from(ALPHABET[group >> (18 - 6 * place) & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}
