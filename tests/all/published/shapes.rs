//! Field by field: what is defined here is published, with the same type, default, checks and way to merge.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{ours, published, version};

/// Definitions that nobody publishes: Karmada serves clusters by an aggregated API server.
const UNPUBLISHED: [&str; 1] = ["clusters.cluster.karmada.io"];

#[test]
fn definitions_are_as_published() {
    let Some(published) = published("comparing definitions") else {
        return;
    };
    let mut differences = Vec::new();
    for (name, ours) in ours() {
        if UNPUBLISHED.contains(&name.as_str()) {
            continue;
        }
        let theirs = published
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is not published"));
        let mut found = Vec::new();
        compare_definitions(&ours, theirs, &mut found);
        differences.extend(found.into_iter().map(|difference| format!("{name}{difference}")));
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_difference_is_found_wherever_it_is() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let theirs = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 9, "description": "of the thing"},
            "size": {"type": "integer", "format": "int64", "default": 1},
            "open": open,
            "parts": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {
                "type": "object", "properties": {"mode": {"type": "string", "enum": ["a", "b"]}}}},
        },
    });
    let differences = |change: &dyn Fn(&mut Value)| {
        let mut ours = theirs.clone();
        change(&mut ours);
        let mut found = Vec::new();
        compare(&ours, &theirs, "", &mut found);
        found.len()
    };
    let mode = |schema: &mut Value, value: Value| {
        schema["properties"]["parts"]["items"]["properties"]["mode"]["enum"] = value;
    };
    assert_eq!(differences(&|_| {}), 0);
    assert_eq!(differences(&|schema| mode(schema, json!(["b", "a"]))), 0);
    assert_eq!(
        differences(&|schema| schema["properties"]["size"]["format"] = Value::Null),
        0
    );
    assert_eq!(differences(&|schema| mode(schema, json!(["a"]))), 1);
    assert_eq!(differences(&|schema| schema["required"] = Value::Null), 1);
    assert_eq!(
        differences(&|schema| schema["properties"]["size"]["type"] = json!("string")),
        1
    );
    assert_eq!(
        differences(&|schema| schema["properties"]["size"]["default"] = json!(2)),
        1
    );
    assert_eq!(
        differences(&|schema| schema["properties"]["name"]["nullable"] = json!(true)),
        1
    );
    assert_eq!(
        differences(&|schema| schema["properties"]["name"]["maxLength"] = Value::Null),
        1
    );
    assert_eq!(
        differences(&|schema| schema["properties"]["more"] = json!({"type": "string"})),
        1
    );
    assert_eq!(
        differences(&|schema| {
            schema["properties"].as_object_mut().unwrap().remove("open");
        }),
        1
    );
    assert_eq!(
        differences(&|schema| schema["x-kubernetes-preserve-unknown-fields"] = json!(true)),
        1
    );
    assert_eq!(
        differences(&|schema| schema["properties"]["parts"]["x-kubernetes-list-type"] = json!("set")),
        1
    );
}

fn compare_definitions(ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    let fields = |definition: &Value| {
        let spec = &definition["spec"];
        let names = &spec["names"];
        let kind = names["kind"].as_str().unwrap();
        // What an API server fills in.
        let or = |field: &str, default: String| names[field].as_str().map_or(default, str::to_owned);
        json!({
            "group": spec["group"], "scope": spec["scope"], "kind": kind,
            "plural": names["plural"], "shortNames": names["shortNames"], "categories": names["categories"],
            "listKind": or("listKind", format!("{kind}List")), "singular": or("singular", kind.to_lowercase()),
        })
    };
    differ("names", &fields(ours), &fields(theirs), "", found);
    for ours in ours["spec"]["versions"].as_array().unwrap() {
        let name = ours["name"].as_str().unwrap();
        let Some(theirs) = version(theirs, Some(name)) else {
            found.push(format!(" {name}: not published"));
            continue;
        };
        let at = format!(" {name}");
        for field in ["served", "storage", "deprecated", "selectableFields"] {
            differ(field, &ours[field], &theirs[field], &at, found);
        }
        differ("columns", &columns(ours), &columns(theirs), &at, found);
        for subresource in ["status", "scale"] {
            let of = |version: &Value| version["subresources"][subresource].clone();
            differ(subresource, &of(ours), &of(theirs), &at, found);
        }
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        compare(&schema(ours), &schema(theirs), &at, found);
    }
}

fn columns(version: &Value) -> Value {
    let mut columns = version["additionalPrinterColumns"].clone();
    for column in columns.as_array_mut().into_iter().flatten() {
        let column = column.as_object_mut().unwrap();
        column.remove("description");
        if column.get("priority") == Some(&json!(0)) {
            column.remove("priority");
        }
    }
    columns
}

/// Compares two nodes of a schema and what is below. Below one that keeps anything there is nothing to say.
fn compare(ours: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    let opaque = ours["x-kubernetes-preserve-unknown-fields"] == true && ours["properties"].is_null();
    let (said, wanted) = (assertions(ours), assertions(theirs));
    let keys: BTreeSet<&String> = said.keys().chain(wanted.keys()).collect();
    for key in keys {
        let value = |of: &Map<String, Value>| of.get(key).cloned().unwrap_or_default();
        let of_its_fields = matches!(key.as_str(), "x-kubernetes-preserve-unknown-fields" | "required");
        if !(opaque && of_its_fields) {
            differ(key, &value(&said), &value(&wanted), at, found);
        }
    }
    if opaque {
        return;
    }
    let none = Map::new();
    let properties = |schema: &'_ Value| schema["properties"].as_object().cloned().unwrap_or(none.clone());
    let (mine, named) = (properties(ours), properties(theirs));
    let is_root = !at.contains('.');
    let names: BTreeSet<&String> = mine.keys().chain(named.keys()).collect();
    for name in names {
        // Every object has these, whatever its definition says.
        if is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        match (mine.get(name), named.get(name)) {
            (Some(ours), Some(theirs)) => compare(ours, theirs, &format!("{at}.{name}"), found),
            (Some(_), None) => found.push(format!("{at}.{name}: not published")),
            _ => found.push(format!("{at}.{name}: published, and lost here")),
        }
    }
    for (part, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        match (&ours[part], &theirs[part]) {
            (Value::Object(_), Value::Object(_)) => {
                compare(&ours[part], &theirs[part], &format!("{at}{suffix}"), found);
            }
            (ours, theirs) => differ(part, ours, theirs, at, found),
        }
    }
}

/// Returns what a node says by itself, in one form of several that mean the same.
fn assertions(schema: &Value) -> Map<String, Value> {
    let mut said = schema.as_object().cloned().unwrap_or_default();
    said.retain(|_, value| !value.is_null());
    for other in [
        "description",
        "title",
        "properties",
        "items",
        "additionalProperties",
    ] {
        said.remove(other);
    }
    // A whole number of unsaid size is read into 64 bits, and a list is atomic.
    for (key, default) in [("format", "int64"), ("x-kubernetes-list-type", "atomic")] {
        if said.get(key).is_some_and(|value| value == default) {
            said.remove(key);
        }
    }
    for value in said.values_mut() {
        // 1.0 is 1.
        if let Some(number) = value.as_f64() {
            *value = json!(number);
        }
    }
    for list in ["enum", "required"] {
        if let Some(Value::Array(values)) = said.get_mut(list) {
            values.sort_by_key(ToString::to_string);
        }
    }
    said
}

fn differ(what: &str, ours: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    if ours != theirs {
        found.push(format!("{at}: {what} is {ours}, published {theirs}"));
    }
}
