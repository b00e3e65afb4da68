//! Merging an applied configuration into an object, comparing two objects, removing fields from one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::fieldset::{FieldSet, Path, PathElement};
use super::super::schema::{Child, JsonType, Schema};
use super::shape::{Shape, element, field_schema, grouped, item_schema, named, shape};

/// What differs between two objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    pub(super) fn between(old: &Value, new: &Value, schema: &Schema) -> Self {
        let mut comparison = Self::default();
        comparison.walk(Some(old), Some(new), Some(schema), &mut Path::new());
        comparison
    }

    pub(super) fn without(&self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            removed: self.removed.recursive_difference(ignored),
        }
    }

    fn walk(&mut self, old: Option<&Value>, new: Option<&Value>, schema: Option<&Schema>, path: &mut Path) {
        if old == new {
            return;
        }
        // What is absent or null takes the shape of the other side.
        let open = |value: Option<&Value>| value.is_none_or(Value::is_null);
        let (old_fields, new_fields) = (fields(old, schema), fields(new, schema));
        let (old_items, new_items) = (items(old, schema), items(new, schema));
        let has_entries = !old_fields.is_none_or(Map::is_empty) || !new_fields.is_none_or(Map::is_empty);
        let has_items = !old_items.is_none_or(<[_]>::is_empty) || !new_items.is_none_or(<[_]>::is_empty);
        if has_entries && (old_fields.is_some() || open(old)) && (new_fields.is_some() || open(new)) {
            self.walk_fields(old_fields, new_fields, schema, path);
        } else if has_items && (old_items.is_some() || open(old)) && (new_items.is_some() || open(new)) {
            self.walk_items(
                old_items.unwrap_or_default(),
                new_items.unwrap_or_default(),
                schema,
                path,
            );
        } else {
            // A leaf, or another type altogether.
            if old.is_some() && new.is_some() {
                self.walk_fields(old_fields, None, schema, path);
                self.walk_fields(None, new_fields, schema, path);
                self.modified.insert(path);
                return;
            }
        }
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => {}
        }
    }

    fn walk_fields(
        &mut self,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        schema: Option<&Schema>,
        path: &mut Path,
    ) {
        let names = old
            .into_iter()
            .chain(new)
            .flat_map(Map::keys)
            .collect::<BTreeSet<_>>();
        for name in names {
            let before = old.and_then(|fields| fields.get(name));
            let after = new.and_then(|fields| fields.get(name));
            path.push(PathElement::field(name));
            self.walk(before, after, field_schema(schema, name), path);
            path.pop();
        }
    }

    fn walk_items(&mut self, old: &[Value], new: &[Value], schema: Option<&Schema>, path: &mut Path) {
        let (old, new) = (grouped(old, schema), grouped(new, schema));
        let names: BTreeSet<&PathElement> = old.keys().chain(new.keys()).collect();
        let item = item_schema(schema);
        for name in names {
            let before = old.get(name).map_or(&[][..], Vec::as_slice);
            let after = new.get(name).map_or(&[][..], Vec::as_slice);
            path.push(name.clone());
            match (before, after) {
                ([] | [_], [] | [_]) => {
                    self.walk(before.first().copied(), after.first().copied(), item, path);
                }
                // Items that share a name count as one that can't be looked into.
                ([_, _, ..], [_, _, ..]) if before != after => self.modified.insert(path),
                ([_, _, ..], [_, _, ..]) => {}
                ([_, _, ..], _) => {
                    if let Some(single) = after.first() {
                        self.walk(None, Some(single), item, path);
                    }
                    self.removed.insert(path);
                }
                (_, _) => {
                    if let Some(single) = before.first() {
                        self.walk(Some(single), None, item, path);
                    }
                    self.added.insert(path);
                }
            }
            path.pop();
        }
    }
}

fn fields<'a>(value: Option<&'a Value>, schema: Option<&Schema>) -> Option<&'a Map<String, Value>> {
    match shape(value?, schema) {
        Shape::Fields(fields) => Some(fields),
        Shape::Leaf | Shape::Items(_) => None,
    }
}

fn items<'a>(value: Option<&'a Value>, schema: Option<&Schema>) -> Option<&'a [Value]> {
    match shape(value?, schema) {
        Shape::Items(items) => Some(items),
        Shape::Leaf | Shape::Fields(_) => None,
    }
}

/// Returns `live` with what `config` says.
pub(super) fn merge(live: &Value, config: &Value, schema: Option<&Schema>) -> Value {
    match (shape(live, schema), shape(config, schema)) {
        (Shape::Fields(old), Shape::Fields(new)) => {
            let mut merged = old.clone();
            for (name, value) in new {
                let value = match old.get(name) {
                    Some(live) => merge(live, value, field_schema(schema, name)),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Shape::Items(old), Shape::Items(new)) => Value::Array(merge_items(old, new, schema)),
        // A null says nothing about the entries of a map or a keyed list.
        (Shape::Fields(fields), Shape::Leaf) if config.is_null() && !fields.is_empty() => live.clone(),
        (Shape::Items(items), Shape::Leaf) if config.is_null() && !items.is_empty() => live.clone(),
        _ => config.clone(),
    }
}

/// The configuration decides about the order of its items; others keep their place relative to their neighbours.
fn merge_items(live: &[Value], config: &[Value], schema: Option<&Schema>) -> Vec<Value> {
    let (left, right) = (named(live, schema), named(config, schema));
    let live_groups = grouped(live, schema);
    let mentioned: BTreeMap<&PathElement, &Value> =
        right.iter().map(|(name, value)| (name, *value)).collect();
    let merged = |name: &PathElement, value: &Value| match live_groups.get(name).map(Vec::as_slice) {
        Some([single]) => merge(single, value, item_schema(schema)),
        _ => value.clone(),
    };
    let mut shared = right
        .iter()
        .map(|(name, _)| name)
        .filter(|name| live_groups.contains_key(*name));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((name, _)), Some((wanted, value))) = (left.get(l), right.get(r)) {
            if name == wanted {
                out.push(merged(wanted, value));
                done.insert(wanted);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            // Shared, but its turn comes later.
            if mentioned.contains_key(name) && next_shared.is_some_and(|next| next != name) {
                l += 1;
                continue;
            }
        }
        if let Some((name, value)) = left.get(l) {
            if !mentioned.contains_key(name) {
                out.push((*value).clone());
                l += 1;
                continue;
            }
            if done.contains(name) {
                l += 1;
            }
        }
        if let Some((wanted, value)) = right.get(r) {
            out.push(merged(wanted, value));
            done.insert(wanted);
            r += 1;
            if next_shared == Some(wanted) {
                next_shared = shared.next();
            }
        }
    }
    out
}

/// Returns the value without the members of `set`. What is emptied by that becomes null, which keeps its owners.
pub(super) fn remove(value: &Value, set: &FieldSet, schema: Option<&Schema>) -> Value {
    let keep = |element: &PathElement, value: &Value, schema: Option<&Schema>| match set.step(element) {
        (true, _) => None,
        (false, Some(below)) => Some(remove(value, below, schema)),
        (false, None) => Some(value.clone()),
    };
    match shape(value, schema) {
        Shape::Leaf => value.clone(),
        Shape::Fields(fields) => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| {
                    let child = field_schema(schema, name);
                    keep(&PathElement::field(name), value, child).map(|value| (name.clone(), value))
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Object(kept)
            }
        }
        Shape::Items(items) => {
            let item = item_schema(schema);
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|value| match element(value, schema) {
                    Ok(name) => keep(&name, value, item),
                    Err(_) => Some(value.clone()),
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                Value::Array(kept)
            }
        }
    }
}

/// Checks an applied configuration against the schema; returns what is wrong, with paths as in `.spec.replicas`.
pub(super) fn check(config: &Value, schema: Option<&Schema>, path: &str, errors: &mut Vec<String>) {
    let told = |what: String| {
        if path.is_empty() {
            what
        } else {
            format!("{path}: {what}")
        }
    };
    if let Some(expected) = schema.and_then(|schema| mismatch(config, schema)) {
        errors.push(told(expected));
        return;
    }
    match config {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match schema.map(|schema| schema.child(name)) {
                    Some(Child::Undeclared) => errors.push(format!("{path}: field not declared in schema")),
                    child => check(value, child.and_then(Child::schema), &path, errors),
                }
            }
        }
        Value::Array(items) if matches!(shape(config, schema), Shape::Items(_)) => {
            let mut seen = BTreeSet::new();
            for (index, value) in items.iter().enumerate() {
                match element(value, schema) {
                    Ok(name) => {
                        if seen.contains(&name) {
                            errors.push(told(format!("duplicate entries for key {name}")));
                        }
                        check(value, item_schema(schema), &format!("{path}{name}"), errors);
                        seen.insert(name);
                    }
                    Err(error) => errors.push(told(format!("element {index}: {error}"))),
                }
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                check(value, item_schema(schema), &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn mismatch(value: &Value, schema: &Schema) -> Option<String> {
    if value.is_null() || schema.int_or_string {
        return None;
    }
    let shown = || match value {
        Value::String(text) => format!("&{{{text}}}"),
        other => format!("&{{{other}}}"),
    };
    let go_type = match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        _ => "map[string]interface {}",
    };
    match schema.kind? {
        JsonType::Integer | JsonType::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {go_type}"))
        }
        // A quantity may be written as a number.
        JsonType::String if value.is_number() && schema.is_quantity() => None,
        JsonType::String if schema.is_quantity() && (value.is_object() || value.is_array()) => {
            Some(format!("expected any scalar, got {}", shown()))
        }
        JsonType::String if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{value}}}"
        )),
        JsonType::Boolean if !value.is_boolean() => Some(format!("expected boolean, got {}", shown())),
        JsonType::Array if !value.is_array() => Some(format!("expected list, got {}", shown())),
        JsonType::Object if !value.is_object() => Some(format!("expected map, got {}", shown())),
        _ => None,
    }
}
