//! `OpenAPI` documents of what is served, versions 2 and 3: what `kubectl explain` reads, and from which kubectl learns
//! which parameters and patches a kind takes.
//!
//! Only JSON; the protobuf form isn't there. Built-in types come without descriptions.

mod operations;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use super::builtin::{self, LIST_META, OBJECT_META};
use super::registry::{self, Kind, Version};

/// One served version of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    pub kind: &'a Kind,
    pub version: &'a Version,
}

/// A document as it is sent, and the hash that clients cache it by.
#[derive(Clone, Debug)]
pub struct Document {
    pub text: String,
    pub hash: String,
}

impl Document {
    fn new(content: &Value) -> Self {
        let text = content.to_string();
        let mut hash = String::new();
        for byte in Sha512::digest(&text) {
            // Writing to a String can't fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Self { text, hash }
    }
}

/// Returns the name of the version 3 document of a group and version, such as `apis/apps/v1`.
pub fn place(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Returns the list of version 3 documents from their hashes.
pub fn index<'a>(documents: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = documents
        .map(|(place, hash)| {
            (
                place.to_owned(),
                json!({"serverRelativeURL": format!("/openapi/v3/{place}?hash={hash}")}),
            )
        })
        .collect();
    json!({"paths": paths})
}

/// Returns the version 3 document of one group and version.
pub fn v3(served: &[Served<'_>]) -> Document {
    let mut definitions = Definitions::default();
    let mut paths = Map::new();
    for served in served {
        definitions.add(*served);
        paths.extend(operations::paths(*served, operations::Style::V3));
    }
    let mut schemas = Value::Object(definitions.done);
    rewrite_references(&mut schemas);
    Document::new(&json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// Returns the version 3 document of a group and version that only built-in kinds are in, made once.
pub fn v3_of_built_in(group: &str, version: &str) -> Option<&'static Document> {
    static DOCUMENTS: LazyLock<BTreeMap<String, Document>> = LazyLock::new(|| {
        let registry = registry::Registry::built_in();
        let mut served: BTreeMap<String, Vec<Served<'_>>> = BTreeMap::new();
        for kind in registry.kinds() {
            for version in &kind.versions {
                let place = place(kind.group(), &version.name);
                served.entry(place).or_default().push(Served { kind, version });
            }
        }
        served
            .into_iter()
            .map(|(place, served)| (place, v3(&served)))
            .collect()
    });
    DOCUMENTS.get(&place(group, version))
}

/// Returns the version 2 document of everything.
pub fn v2(served: &[Served<'_>]) -> Document {
    let mut definitions = Definitions::default();
    let mut paths = Map::new();
    for served in served {
        definitions.add(*served);
        paths.extend(operations::paths(*served, operations::Style::V2));
    }
    let mut definitions = definitions.done;
    definitions.values_mut().for_each(restrict_to_v2);
    Document::new(&json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": definitions}))
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.0"})
}

/// Returns the name of a kind's definition, such as `dev.cutover.v1alpha1.Migration`.
fn definition_name(served: Served<'_>) -> String {
    let Served { kind, version, .. } = served;
    match builtin::by_plural(kind.group(), &kind.resource.plural).filter(|_| !kind.custom) {
        Some(built_in) => built_in.definition(),
        None => {
            let mut parts: Vec<&str> = kind.group().split('.').rev().collect();
            parts.extend([version.name.as_str(), kind.kind.as_str()]);
            parts.join(".")
        }
    }
}

fn type_of(served: Served<'_>) -> Value {
    json!({"group": served.kind.group(), "version": served.version.name, "kind": served.kind.kind})
}

/// The definitions that a document needs, with those that they refer to.
#[derive(Default)]
struct Definitions {
    done: Map<String, Value>,
}

const REFERENCE: &str = "#/definitions/";

impl Definitions {
    fn add(&mut self, served: Served<'_>) {
        let name = definition_name(served);
        let list = format!("{name}List");
        if served.kind.custom {
            self.done.insert(name.clone(), custom_schema(served));
        }
        let mut of_list = json!({
            "type": "object",
            "required": ["items"],
            "description": format!("{} is a list of {}", served.kind.list_kind, served.kind.kind),
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": reference(LIST_META),
                "items": {"type": "array", "items": reference(&name)},
            },
        });
        of_list["x-kubernetes-group-version-kind"] = json!([{
            "group": served.kind.group(),
            "version": served.version.name,
            "kind": served.kind.list_kind,
        }]);
        self.done.insert(list, of_list);
        let mut wanted: BTreeSet<String> =
            BTreeSet::from([name, OBJECT_META.to_owned(), LIST_META.to_owned()]);
        wanted.extend(operations::REFERRED.iter().map(|&name| name.to_owned()));
        while let Some(name) = wanted.pop_first() {
            let Some(definition) = builtin::definitions()
                .get(&name)
                .filter(|_| !self.done.contains_key(&name))
            else {
                continue;
            };
            collect_references(definition, &mut wanted);
            self.done.insert(name, definition.clone());
        }
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

fn custom_schema(served: Served<'_>) -> Value {
    let mut schema = (*served.version.rules.source).clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
        fields.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([type_of(served)]),
        );
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (name, description) in [
                (
                    "apiVersion",
                    "APIVersion defines the versioned schema of this representation of an object.",
                ),
                (
                    "kind",
                    "Kind is a string value representing the REST resource this object represents.",
                ),
            ] {
                properties.insert(
                    name.to_owned(),
                    json!({"type": "string", "description": description}),
                );
            }
            properties.insert("metadata".to_owned(), reference(OBJECT_META));
        }
    }
    schema
}

fn collect_references(node: &Value, into: &mut BTreeSet<String>) {
    match node {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().and_then(|target| target.strip_prefix(REFERENCE)) {
                    Some(target) if key == "$ref" => drop(into.insert(target.to_owned())),
                    _ => collect_references(value, into),
                }
            }
        }
        _ => {}
    }
}

/// Points references to where version 3 keeps its schemas.
fn rewrite_references(node: &mut Value) {
    match node {
        Value::Array(items) => items.iter_mut().for_each(rewrite_references),
        Value::Object(fields) => {
            for (key, value) in fields {
                let target = value.as_str().and_then(|target| target.strip_prefix(REFERENCE));
                match target.map(|target| format!("#/components/schemas/{target}")) {
                    Some(target) if key == "$ref" => *value = target.into(),
                    _ => rewrite_references(value),
                }
            }
        }
        _ => {}
    }
}

/// Drops from a schema what version 2 has no words for.
fn restrict_to_v2(schema: &mut Value) {
    let Some(words) = schema.as_object_mut() else {
        return;
    };
    for word in ["anyOf", "oneOf", "allOf", "not"] {
        words.shift_remove(word);
    }
    // A type would forbid null there.
    if words
        .shift_remove("nullable")
        .is_some_and(|nullable| nullable == true)
    {
        words.shift_remove("type");
    }
    for word in ["items", "additionalProperties"] {
        words.get_mut(word).into_iter().for_each(restrict_to_v2);
    }
    let properties = words.get_mut("properties").and_then(Value::as_object_mut);
    properties
        .into_iter()
        .flat_map(Map::values_mut)
        .for_each(restrict_to_v2);
}

#[cfg(test)]
mod tests {
    use super::super::registry::Registry;
    use super::*;

    fn document(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// Returns the references that lead nowhere.
    fn dangling(node: &Value, root: &Value) -> Vec<String> {
        match node {
            Value::Array(items) => items.iter().flat_map(|item| dangling(item, root)).collect(),
            Value::Object(fields) => fields
                .iter()
                .flat_map(
                    |(key, value)| match value.as_str().and_then(|text| text.strip_prefix('#')) {
                        Some(pointer) if key == "$ref" && root.pointer(pointer).is_none() => {
                            vec![pointer.to_owned()]
                        }
                        _ => dangling(value, root),
                    },
                )
                .collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let registry = Registry::built_in();
        let mut all = Vec::new();
        for kind in registry.kinds() {
            for version in &kind.versions {
                all.push(Served { kind, version });
                let v3 = document(&v3_of_built_in(kind.group(), &version.name).unwrap().text);
                assert_eq!(dangling(&v3, &v3), Vec::<String>::new(), "{}", kind.kind);
            }
        }
        let v2 = document(&v2(&all).text);
        assert_eq!(dangling(&v2, &v2), Vec::<String>::new());
    }

    #[test]
    fn paths_say_how_a_kind_is_patched() {
        let apps = document(&v3_of_built_in("apps", "v1").unwrap().text);
        let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-action"], "patch");
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "version": "v1", "kind": "Deployment"})
        );
        assert!(
            patch["requestBody"]["content"]
                .get("application/strategic-merge-patch+json")
                .is_some()
        );
        let parameters: Vec<&str> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    }

    #[test]
    fn version_2_has_no_words_for_choices_and_null() {
        let mut schema = json!({
            "type": "object",
            "anyOf": [{"required": ["a"]}],
            "properties": {
                "a": {"type": "string", "nullable": true},
                "not": {"type": "array", "items": {"type": "integer", "nullable": false, "oneOf": []}},
            },
        });
        restrict_to_v2(&mut schema);
        let restricted = json!({
            "type": "object",
            "properties": {"a": {}, "not": {"type": "array", "items": {"type": "integer"}}},
        });
        assert_eq!(schema, restricted);
    }

    #[test]
    fn the_index_names_documents_by_their_hashes() {
        let document = v3_of_built_in("", "v1").unwrap();
        let index = index([("api/v1", document.hash.as_str())].into_iter());
        let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
        assert_eq!(url, format!("/openapi/v3/api/v1?hash={}", document.hash));
        assert_eq!(document.hash.len(), 128);
    }
}
