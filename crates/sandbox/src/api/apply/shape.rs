//! How a value merges: as a whole, field by field, or item by item.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::fieldset::{FieldSet, PathElement};
use super::super::schema::{Child, ListType, Schema};

/// A value as merging sees it.
#[derive(Clone, Copy)]
pub(super) enum Shape<'a> {
    /// Replaced as a whole: scalars, nulls, atomic lists and maps.
    Leaf,
    Fields(&'a Map<String, Value>),
    Items(&'a [Value]),
}

/// Returns the shape of a value. Without a schema objects are merged by field and lists are atomic.
pub(super) fn shape<'a>(value: &'a Value, schema: Option<&Schema>) -> Shape<'a> {
    match value {
        Value::Object(fields) if !schema.is_some_and(|schema| schema.atomic_map) => Shape::Fields(fields),
        Value::Array(items) if schema.is_some_and(|schema| schema.list != ListType::Atomic) => {
            Shape::Items(items)
        }
        _ => Shape::Leaf,
    }
}

pub(super) fn field_schema<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    schema.and_then(|schema| schema.child(name).schema())
}

/// Whether the field is one that the schema names, in contrast to an entry of a map.
pub(super) fn is_declared(schema: Option<&Schema>, name: &str) -> bool {
    schema.is_some_and(|schema| matches!(schema.child(name), Child::Declared(_)))
}

pub(super) fn item_schema(schema: Option<&Schema>) -> Option<&Schema> {
    schema.and_then(|schema| schema.items.as_deref())
}

/// Names an item of a list that is a set or has keys.
pub(super) fn element(item: &Value, schema: Option<&Schema>) -> Result<PathElement, String> {
    match schema.map(|schema| &schema.list) {
        Some(ListType::Map(keys)) => keyed(item, keys, item_schema(schema)),
        _ => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(PathElement::value(scalar)),
        },
    }
}

fn keyed(item: &Value, keys: &[String], schema: Option<&Schema>) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut values: Vec<(&str, &Value)> = Vec::with_capacity(keys.len());
    for key in keys {
        let default = || field_schema(schema, key).and_then(|schema| schema.default.as_ref());
        if let Some(value) = fields.get(key).or_else(default) {
            values.push((key, value));
        }
    }
    if values.is_empty() {
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] \
             (and doesn't have default values for any key fields)",
            keys.iter()
                .map(|key| format!("{key:?}"))
                .collect::<Vec<_>>()
                .join(" ")
        ));
    }
    Ok(PathElement::key(values))
}

/// The items of a list by their names, in order. Items that can't be named are left out.
pub(super) fn named<'a>(items: &'a [Value], schema: Option<&Schema>) -> Vec<(PathElement, &'a Value)> {
    items
        .iter()
        .filter_map(|item| element(item, schema).ok().map(|name| (name, item)))
        .collect()
}

/// The same by name: a name may stand for several items.
pub(super) fn grouped<'a>(
    items: &'a [Value],
    schema: Option<&Schema>,
) -> BTreeMap<PathElement, Vec<&'a Value>> {
    let mut groups: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for (name, item) in named(items, schema) {
        groups.entry(name).or_default().push(item);
    }
    groups
}

/// Returns the fields that an applied configuration speaks of.
pub(super) fn fields_of(value: &Value, schema: Option<&Schema>) -> FieldSet {
    let mut set = FieldSet::new();
    match shape(value, schema) {
        Shape::Leaf => {}
        Shape::Fields(fields) => {
            for (name, value) in fields {
                let child = field_schema(schema, name);
                let is_empty_map = value.as_object().is_some_and(Map::is_empty);
                let is_leaf = matches!(shape(value, child), Shape::Leaf);
                let member = is_leaf || is_empty_map || !is_declared(schema, name);
                set.graft(PathElement::field(name), member, fields_of(value, child));
            }
        }
        Shape::Items(items) => {
            for (name, items) in grouped(items, schema) {
                let children = match items.as_slice() {
                    [single] => fields_of(single, item_schema(schema)),
                    _ => FieldSet::new(),
                };
                set.graft(name, true, children);
            }
        }
    }
    set
}

/// Adds the named fields above the members: whoever owns `spec.a` owns `spec` too, unless it is an entry of a map.
pub(super) fn with_named_parents(set: &FieldSet, schema: Option<&Schema>) -> FieldSet {
    let mut all = FieldSet::new();
    for (element, member, children) in set.steps() {
        let (named, child) = match element {
            PathElement::Field(name) => (
                is_declared(schema, name) && !children.is_empty(),
                field_schema(schema, name),
            ),
            PathElement::Key(_) => (false, item_schema(schema)),
            PathElement::Value(_) | PathElement::Index(_) => (false, None),
        };
        all.graft(
            element.clone(),
            member || named,
            with_named_parents(children, child),
        );
    }
    all
}
