//! Whether an object is in sync, decided from what the API server recorded when we applied it.
//!
//! Server-side apply notes every field that a manager applied in `metadata.managedFields` (format `FieldsV1`: `f:` a
//! field, `k:` an item of a list by its key fields, `v:` an item of a set, `.` the thing itself, and an empty
//! mapping for something owned as a whole). If these are exactly the fields that Git has, with Git's values,
//! applying once more would change nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::defaults::{Dialect, quantity};
use crate::redact::{base64, is_secret};

/// Whether applying would change anything. The larger one of two parts is that of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Applying would change nothing.
    InSync,
    /// Only the server can tell: its defaults or its way to write a value are involved.
    Undecided,
    /// Applying would change a value, or what we own.
    Differs,
}

use Decision::{Differs, InSync, Undecided};

/// Compares the fields that `manager` owns in `live` with what is desired.
pub fn owned_matches(desired: &Value, live: &Value, manager: &str) -> Decision {
    let mut entries = applied(live).filter(|entry| text(entry, "manager") == Some(manager));
    let entry = match (entries.next(), entries.next()) {
        // A manager that owns nothing isn't recorded: a Namespace of which Git gives the name alone.
        (None, _) if sent(desired).is_empty() => return InSync,
        (None, _) => return Differs,
        (Some(entry), None) if text(entry, "apiVersion") == text(desired, "apiVersion") => entry,
        // Applied through another version of the API: the server converts, we don't.
        _ => return Undecided,
    };
    let Some(owned) = entry.get("fieldsV1").and_then(Value::as_object) else {
        return Undecided;
    };
    let dialect = Dialect::of(desired);
    let (desired, owned) = (sent(desired), secret_fields(desired, owned));
    match live.as_object() {
        Some(live) => mapping(&desired, live, &owned, Place::root(&dialect)),
        None => Undecided,
    }
}

/// Returns the entries of `metadata.managedFields` that come from server-side apply to the main resource.
pub(super) fn applied(live: &Value) -> impl Iterator<Item = &Value> {
    managers(live).filter(|entry| text(entry, "operation") == Some("Apply"))
}

/// Returns the entries of `metadata.managedFields` about the main resource.
pub(super) fn managers(live: &Value) -> impl Iterator<Item = &Value> {
    live.pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|entry| text(entry, "subresource").is_none_or(str::is_empty))
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// The fields of `metadata` that nobody owns: who the object is, and what the server fills in.
pub(super) const FILLED_IN: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
];

/// Returns the part of a desired object that the server records: neither its identity nor what the server fills in.
pub(super) fn sent(desired: &Value) -> Map<String, Value> {
    let mut fields = desired.as_object().cloned().unwrap_or_default();
    for field in ["apiVersion", "kind", "status"] {
        fields.shift_remove(field);
    }
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        for field in FILLED_IN {
            metadata.shift_remove(*field);
        }
        if metadata.is_empty() {
            fields.shift_remove("metadata");
        }
    }
    if is_secret(desired)
        && let Some(Value::Object(plain)) = fields.shift_remove("stringData")
    {
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(data) = data {
            data.extend(plain.into_iter().map(|(key, value)| (key, encoded(&value))));
        }
    }
    fields
}

/// What a Secret's `stringData` is stored as.
fn encoded(value: &Value) -> Value {
    value
        .as_str()
        .map_or(Value::Null, |text| Value::String(base64(text.as_bytes())))
}

/// A Secret's `stringData` is owned under that name, and stored in `data`.
fn secret_fields<'a>(desired: &Value, owned: &'a Map<String, Value>) -> Cow<'a, Map<String, Value>> {
    match owned.get("f:stringData").and_then(Value::as_object) {
        Some(plain) if is_secret(desired) => {
            let mut owned = owned.clone();
            owned.shift_remove("f:stringData");
            let data = owned.entry("f:data").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(data) = data {
                data.extend(plain.clone());
            }
            Cow::Owned(owned)
        }
        _ => Cow::Borrowed(owned),
    }
}

/// Where in an object we are: what its kind does to values, and the nearest two fields around.
#[derive(Clone, Copy)]
struct Place<'a> {
    dialect: &'a Dialect<'a>,
    parent: &'a str,
    field: &'a str,
}

impl<'a> Place<'a> {
    const fn root(dialect: &'a Dialect<'a>) -> Self {
        Self {
            dialect,
            parent: "",
            field: "",
        }
    }

    const fn under(self, field: &'a str) -> Self {
        Self {
            parent: self.field,
            field,
            ..self
        }
    }
}

fn mapping(
    desired: &Map<String, Value>,
    live: &Map<String, Value>,
    owned: &Map<String, Value>,
    place: Place<'_>,
) -> Decision {
    let gone = owned
        .keys()
        .filter_map(|key| key.strip_prefix("f:"))
        .any(|field| !desired.contains_key(field));
    if gone {
        return Differs;
    }
    desired
        .iter()
        .map(|(field, value)| {
            let owned = owned.get(&format!("f:{field}"));
            part(value, live.get(field), owned, place.under(field))
        })
        .max()
        .unwrap_or(InSync)
}

fn part(desired: &Value, live: Option<&Value>, owned: Option<&Value>, place: Place<'_>) -> Decision {
    let Some(owned) = owned.and_then(Value::as_object) else {
        // Not recorded as ours. Either we don't own it yet, or the server dropped it (an empty or an unknown field).
        return if place.dialect.drops(place.field, desired) && live.is_none_or(|live| live == desired) {
            InSync
        } else if live.is_none() || is_vacuous(desired) {
            Undecided
        } else {
            Differs
        };
    };
    let Some(live) = live else {
        // The API server owns up to what it doesn't store: `creationTimestamp: null` of a pod template.
        let is_nothing = place.dialect.drops(place.field, desired);
        return if is_nothing { InSync } else { Differs };
    };
    let mut inside = owned.keys().filter(|key| *key != ".");
    let Some(first) = inside.next() else {
        return whole(desired, live, place);
    };
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => mapping(desired, live, owned, place),
        (Value::Array(desired), Value::Array(live)) if first.starts_with("k:") => {
            keyed(desired, live, owned, place)
        }
        (Value::Array(desired), Value::Array(live)) if first.starts_with("v:") => set(desired, live, owned),
        (Value::Array(_), Value::Array(_)) => Undecided,
        _ => Differs,
    }
}

/// Something that is owned as a whole.
fn whole(desired: &Value, live: &Value, place: Place<'_>) -> Decision {
    if same(desired, live) || place.dialect.stores(desired, live, place.parent, place.field) {
        InSync
    } else if is_vacuous(desired) || only_adds(desired, live) {
        Undecided
    } else {
        Differs
    }
}

/// So many pairs of the items of a list and of what is recorded of them are looked at. Of a longer list the server tells.
pub(super) const PAIRS: usize = 1 << 20;

/// A list of mappings that are told apart by key fields.
fn keyed(desired: &[Value], live: &[Value], owned: &Map<String, Value>, place: Place<'_>) -> Decision {
    let mut left: Vec<(Value, &Value)> = owned
        .iter()
        .filter_map(|(key, inside)| Some((serde_json::from_str(key.strip_prefix("k:")?).ok()?, inside)))
        .collect();
    if left.len().saturating_mul(left.len().max(live.len())) > PAIRS {
        return Undecided;
    }
    let mut decision = InSync;
    let mut places = Vec::new();
    for item in desired {
        // The server fills in key fields that are left out: the protocol of a port.
        let mut fitting = left
            .iter()
            .enumerate()
            .filter(|(_, (key, _))| has_key(item, key, true));
        let at = match (fitting.next(), fitting.next()) {
            (None, _) => return Differs,
            (Some((at, _)), None) => at,
            _ => return Undecided,
        };
        let (key, inside) = left.swap_remove(at);
        let Some(at) = live.iter().position(|item| has_key(item, &key, false)) else {
            return Differs;
        };
        places.push(at);
        decision = decision.max(part(item, live.get(at), Some(inside), place));
    }
    if !left.is_empty() {
        return Differs;
    }
    if places.is_sorted() {
        decision
    } else {
        decision.max(Undecided)
    }
}

pub(super) fn has_key(item: &Value, key: &Value, lenient: bool) -> bool {
    key.as_object().is_some_and(|key| {
        key.iter()
            .all(|(field, value)| item.get(field).map_or(lenient, |found| same(found, value)))
    })
}

/// A list of scalars of which each is in it once.
fn set(desired: &[Value], live: &[Value], owned: &Map<String, Value>) -> Decision {
    let ours: BTreeSet<String> = owned
        .keys()
        .filter_map(|key| key.strip_prefix("v:"))
        .map(str::to_owned)
        .collect();
    let wanted: BTreeSet<String> = desired.iter().map(Value::to_string).collect();
    if ours != wanted {
        return Differs;
    }
    if desired.len().saturating_mul(live.len()) > PAIRS {
        return Undecided;
    }
    let places: Option<Vec<_>> = desired
        .iter()
        .map(|item| live.iter().position(|there| there == item))
        .collect();
    match places {
        None => Differs,
        Some(places) if places.is_sorted() => InSync,
        Some(_) => Undecided,
    }
}

/// Equality of JSON values, where `1` is `1.0`.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || x.as_f64() == y.as_f64() && (x.is_f64() || y.is_f64())
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

/// Whether `live` is `desired` with fields added, or with quantities written in another way: what a server does.
fn only_adds(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(x), Value::Object(y)) => x
            .iter()
            .all(|(key, x)| y.get(key).map_or(is_vacuous(x), |y| only_adds(x, y))),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| only_adds(x, y))
        }
        _ => {
            same(desired, live) || matches!((quantity(desired), quantity(live)), (Some(x), Some(y)) if x == y)
        }
    }
}

fn is_vacuous(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
