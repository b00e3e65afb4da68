//! Where secrets are in an object.
//!
//! - The values of a `Secret`, wherever it is embedded.
//! - The annotation in which `kubectl apply` keeps a copy of the whole object.
//! - What has a name that says so: `{name: DB_PASSWORD, value: …}` of any pod template, `s3.secret-key: …` of any mapping,
//!   `--token …` among arguments, a patch of a `path` that ends so.
//! - Inside any string: what [`super::text`] recognises, and settings in it (`password: …`, `password=…`).

use serde_json::{Map, Value};

use super::names::{is_credential, may_name_a_secret};
use super::text::settings;

/// The API server's copy of what `kubectl apply` sent last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Fields by which an entry of a list is named; the name is that of the `value` beside it.
const NAMING: &[&str] = &["name", "key", "path"];

/// Replaces every secret in a value by what `with` makes of it.
pub(super) fn hide(value: &mut Value, with: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::Object(fields) => hide_fields(fields, with),
        Value::Array(items) => hide_items(items, with),
        Value::String(text) => {
            if let Some(hidden) = hidden(text, with) {
                *text = hidden;
            }
        }
        _ => {}
    }
}

pub(crate) fn is_secret(object: &Value) -> bool {
    object.as_object().is_some_and(is_secret_object)
}

fn is_secret_object(fields: &Map<String, Value>) -> bool {
    let text = |field| fields.get(field).and_then(Value::as_str);
    text("kind") == Some("Secret") && text("apiVersion").is_none_or(|version| version == "v1")
}

fn hide_fields(fields: &mut Map<String, Value>, with: &mut dyn FnMut(&str) -> String) {
    let is_secret = is_secret_object(fields);
    if is_secret {
        encode_plain(fields);
    }
    let names_a_secret = NAMING.iter().any(|field| {
        fields
            .get(*field)
            .and_then(Value::as_str)
            .is_some_and(may_name_a_secret)
    });
    for (name, value) in fields.iter_mut() {
        let whole = match name.as_str() {
            "data" | "stringData" if is_secret => true,
            "value" => names_a_secret,
            LAST_APPLIED => true,
            // `kind: Secret`, and `name: shop-token`, are no secrets.
            "kind" | "name" => false,
            name => is_plain(value) && is_credential(name),
        };
        if whole {
            hide_all(value, with);
        } else {
            hide(value, with);
        }
    }
}

/// Returns whether a value is a scalar, or several; what has fields tells by their names what they are.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_plain),
        value => !value.is_object(),
    }
}

/// Hides every scalar in a value. Nothing, and what refers to something else, stays.
fn hide_all(value: &mut Value, with: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| hide_all(value, with)),
        Value::Array(items) => items.iter_mut().for_each(|value| hide_all(value, with)),
        Value::String(text) if text.is_empty() || is_reference(text) => {}
        Value::String(text) => *text = with(text),
        Value::Number(number) => *value = Value::String(with(&number.to_string())),
        Value::Bool(_) | Value::Null => {}
    }
}

/// An item after `--token` is one.
fn hide_items(items: &mut [Value], with: &mut dyn FnMut(&str) -> String) {
    let mut after_flag = false;
    for item in items {
        let is_flag = item.as_str().is_some_and(|text| {
            text.starts_with('-') && !text.contains(['=', ' ', '\n']) && is_credential(text)
        });
        if after_flag && !is_flag && !item.is_object() {
            hide_all(item, with);
        } else {
            hide(item, with);
        }
        after_flag = is_flag;
    }
}

/// Returns a string with the secrets in it replaced; `None` if there are none.
fn hidden(text: &str, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(inner) = serde_json::from_str::<Value>(text)
        && (inner.is_object() || inner.is_array())
    {
        let mut masked = inner.clone();
        hide(&mut masked, with);
        return (masked != inner).then(|| masked.to_string());
    }
    settings(text, with)
}

/// `$(VARIABLE)`, `${variable}`, `{{ template }}`: what will stand there is not known here.
pub(super) fn is_reference(text: &str) -> bool {
    [("$(", ")"), ("${", "}"), ("{{", "}}")]
        .iter()
        .any(|(begin, end)| text.starts_with(begin) && text.ends_with(end))
}

/// Moves `stringData` to `data`, as the API server does, so that two forms of a Secret are comparable.
fn encode_plain(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.get("stringData") else {
        return;
    };
    let plain = plain.clone();
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    // Data of another form is refused by the API server; both are hidden as they are.
    if let Value::Object(data) = data {
        data.extend(plain.into_iter().map(|(key, value)| match value {
            Value::String(text) => (key, Value::String(base64(text.as_bytes()))),
            other => (key, other),
        }));
        secret.shift_remove("stringData");
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes as RFC 4648 base64 with padding, which is how `data` of a Secret is written.
pub(crate) fn base64(bytes: &[u8]) -> String {
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

/// Decodes what [`base64`] encodes; `None` if it isn't that.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut group, mut bits) = (0_usize, 0);
    for digit in digits.bytes() {
        group = group << 6 | ALPHABET.iter().position(|known| *known == digit)?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(group >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}
