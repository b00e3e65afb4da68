//! OpenAPI documents of what is served: what `kubectl explain`, `kubectl apply` and their like read.
//!
//! Operations carry their parameters and kinds; answers are not described.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::builtin;
use super::registry::{Kind, Version, api_version};

/// Returns the index of `/openapi/v3`, for groups and versions.
pub fn index<'a>(versions: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = versions
        .map(|(group, version)| {
            let path = root(group, version);
            let url = json!({"serverRelativeURL": format!("/openapi/v3{path}")});
            (path.trim_start_matches('/').to_owned(), url)
        })
        .collect();
    json!({"paths": paths})
}

/// Returns the OpenAPI v3 document of one group and version.
pub fn v3(group: &str, version: &str, kinds: &[Arc<Kind>]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for kind in kinds {
        if let Some(served) = kind.served(version) {
            schemas.extend(definitions(kind, served));
            paths.extend(operations(kind, served));
        }
    }
    let mut document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": api_version(group, version)},
        "paths": paths,
        "components": {"schemas": schemas},
    });
    point_references_to(&mut document, "#/components/schemas/");
    document
}

/// Returns the OpenAPI v2 document of everything.
pub fn v2(kinds: &[Arc<Kind>]) -> Value {
    let mut all = Map::new();
    for kind in kinds {
        for version in kind.versions.iter().filter(|version| version.served) {
            all.extend(definitions(kind, version));
        }
    }
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36"}, "paths": {}, "definitions": all})
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

/// Returns the definition of a kind, and all that it refers to.
fn definitions(kind: &Kind, version: &Version) -> Map<String, Value> {
    let known = builtin::definitions();
    let mut found = Map::new();
    let mut open = BTreeSet::new();
    if kind.custom {
        let definition = custom(kind, version);
        collect_references(&definition, &mut open);
        found.insert(custom_name(kind, version), definition);
    } else if let Some(built_in) = builtin::by_plural(kind.group(), &kind.resource.plural) {
        open.insert(built_in.definition());
    }
    while let Some(name) = open.pop_first() {
        if let Some(definition) = known.get(&name).filter(|_| !found.contains_key(&name)) {
            collect_references(definition, &mut open);
            found.insert(name, definition.clone());
        }
    }
    found
}

fn custom(kind: &Kind, version: &Version) -> Value {
    let mut definition = (*version.rules.source).clone();
    if !definition.is_object() {
        definition = json!({"type": "object"});
    }
    for field in ["apiVersion", "kind"] {
        definition["properties"][field] = json!({"type": "string"});
    }
    definition["properties"]["metadata"] = json!({"$ref": format!("#/definitions/{}", builtin::OBJECT_META)});
    definition["x-kubernetes-group-version-kind"] = json!([type_of(kind, version)]);
    definition
}

/// Returns the name of a custom kind's definition: `dev.example.v1.Widget`.
fn custom_name(kind: &Kind, version: &Version) -> String {
    let reversed: Vec<&str> = kind.group().rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), version.name, kind.kind)
}

fn type_of(kind: &Kind, version: &Version) -> Value {
    json!({"group": kind.group(), "version": version.name, "kind": kind.kind})
}

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];

/// Returns what can be done with the objects of a kind, by path.
fn operations(kind: &Kind, version: &Version) -> Map<String, Value> {
    let name = match builtin::by_plural(kind.group(), &kind.resource.plural) {
        Some(built_in) if !kind.custom => built_in.definition(),
        _ => custom_name(kind, version),
    };
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| {
                let kind = if *name == "force" { "boolean" } else { "string" };
                json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
            })
            .collect();
        json!({
            "parameters": parameters,
            "responses": {"200": {
                "description": "OK",
                "content": {"application/json": {"schema": {"$ref": format!("#/definitions/{name}")}}},
            }},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": type_of(kind, version),
        })
    };
    let base = root(kind.group(), &version.name);
    let scope = if kind.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let all = format!("{base}{scope}/{}", kind.resource.plural);
    let mut paths = Map::new();
    paths.insert(
        all.clone(),
        json!({"get": operation("list", &[]), "post": operation("post", WRITE)}),
    );
    let one = json!({
        "get": operation("get", &[]),
        "put": operation("put", WRITE),
        "patch": operation("patch", PATCH),
        "delete": operation("delete", &["dryRun"]),
    });
    paths.insert(format!("{all}/{{name}}"), one);
    if version.status {
        let part = json!({
            "get": operation("get", &[]),
            "put": operation("put", WRITE),
            "patch": operation("patch", PATCH),
        });
        paths.insert(format!("{all}/{{name}}/status"), part);
    }
    paths
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    each_reference(value, &mut |name| {
        found.insert(name.trim_start_matches("#/definitions/").to_owned());
    });
}

fn each_reference(value: &Value, look: &mut impl FnMut(&str)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_reference(item, look)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value.as_str() {
                    Some(name) if field == "$ref" => look(name),
                    _ => each_reference(value, look),
                }
            }
        }
        _ => {}
    }
}

fn point_references_to(value: &mut Value, place: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| point_references_to(item, place)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(name) if field == "$ref" => *name = name.replace("#/definitions/", place),
                    value => point_references_to(value, place),
                }
            }
        }
        _ => {}
    }
}
