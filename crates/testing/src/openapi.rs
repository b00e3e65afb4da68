//! What an API server publishes of the kinds that Kubernetes brings itself, reduced to their structure: properties, types,
//! required fields, allowed values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// What the names of Kubernetes' own schemas begin with; those of custom resources begin with their group.
const OWN: &str = "io.k8s.";

/// The metadata of what can stand in a file; a list, an option or an answer has others.
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the content of `crates/core/src/lint/kubernetes/published.json` as a server publishes it: one schema a line, in order.
///
/// # Panics
/// When the server doesn't answer, or publishes a form that isn't known.
pub async fn kubernetes(client: &kube::Client) -> String {
    let version: Value = get(client, "/version").await;
    let index: Value = get(client, "/openapi/v3").await;
    let mut published = BTreeMap::new();
    for (path, place) in index["paths"].as_object().unwrap() {
        if path == "api/v1" || path.starts_with("apis/") {
            let document = get(client, place["serverRelativeURL"].as_str().unwrap()).await;
            let schemas = document["components"]["schemas"].as_object().cloned();
            // Definitions of custom resources bring what they share with all others again.
            for (name, schema) in schemas
                .into_iter()
                .flatten()
                .filter(|(name, _)| name.starts_with(OWN))
            {
                published.entry(name).or_insert(schema);
            }
        }
    }
    let (kinds, schemas) = reduced(&published);
    let version = &version["gitVersion"];
    format!(
        "{{\n\"kubernetes\":{version},\n\"kinds\":{},\n\"schemas\":{}\n}}\n",
        block(&kinds),
        block(&schemas)
    )
}

async fn get(client: &kube::Client, path: &str) -> Value {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

fn block(entries: &BTreeMap<String, Value>) -> String {
    let lines: Vec<String> = entries
        .iter()
        .map(|(name, entry)| format!("{}:{entry}", json!(name)))
        .collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

type Entries = BTreeMap<String, Value>;

/// Returns the kinds, and the schemas of all that is in them, as far as a file may give it: `status` is the server's.
fn reduced(published: &Entries) -> (Entries, Entries) {
    let (mut kinds, mut schemas) = (Entries::new(), Entries::new());
    let mut waiting = BTreeSet::new();
    for (name, schema) in published {
        if let Some(kind) = kind_of(schema) {
            kinds.insert(kind, json!({"$ref": reference(name)}));
            waiting.insert(name.clone());
        }
    }
    while let Some(name) = waiting.pop_first() {
        let mut schema = published[&name].clone();
        if kind_of(&schema).is_some() && schema["properties"]["status"].is_object() {
            schema["properties"]["status"] = json!({});
        }
        let mut named = BTreeSet::new();
        let before = schemas.insert(short(&name), structure(&schema, &mut named));
        assert!(before.is_none(), "two schemas are called {}", short(&name));
        waiting.extend(
            named
                .into_iter()
                .filter(|name| !schemas.contains_key(&short(name))),
        );
    }
    (kinds, schemas)
}

/// Returns the kind that a schema is of, such as `apps/v1 Deployment`, if objects of it can stand in a file.
fn kind_of(schema: &Value) -> Option<String> {
    let kinds = schema["x-kubernetes-group-version-kind"].as_array()?;
    let [kind] = kinds.as_slice() else { return None };
    let metadata = schema["properties"]["metadata"].to_string();
    let text = |field: &str| kind[field].as_str().unwrap();
    let group = match text("group") {
        "" => String::new(),
        group => format!("{group}/"),
    };
    let name = format!("{group}{} {}", text("version"), text("kind"));
    metadata.contains(&format!("/{METADATA}\"")).then_some(name)
}

/// Returns the last parts of a name, which are enough to tell it from others: `core.v1.PodSpec`.
fn short(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

fn reference(name: &str) -> String {
    format!("#/schemas/{}", short(name))
}

/// Returns what a schema says of the form of a value. `named`: gets the names of the schemas that it refers to.
fn structure(schema: &Value, named: &mut BTreeSet<String>) -> Value {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap();
        named.insert(name.to_owned());
        return json!({"$ref": reference(name)});
    }
    // A reference beside a default or a description.
    if let Some(parts) = schema["allOf"].as_array() {
        let [part] = parts.as_slice() else {
            panic!("several parts: {schema}")
        };
        return structure(part, named);
    }
    if schema["format"] == "int-or-string" {
        return json!({"x-kubernetes-int-or-string": true});
    }
    if let Some(choice) = schema["oneOf"].as_array() {
        let types: Vec<&Value> = choice.iter().map(|part| &part["type"]).collect();
        return json!({ "type": types });
    }
    assert!(schema["anyOf"].is_null() && schema["not"].is_null(), "{schema}");
    fields(schema, named)
}

fn fields(schema: &Value, named: &mut BTreeSet<String>) -> Value {
    let mut kept = Map::new();
    let entries: BTreeMap<&String, &Value> = schema.as_object().into_iter().flatten().collect();
    for (name, value) in entries {
        let value = match name.as_str() {
            "additionalProperties" | "items" if value.is_object() => structure(value, named),
            "properties" => {
                let inner: BTreeMap<&String, &Value> = value.as_object().into_iter().flatten().collect();
                let inner = inner
                    .into_iter()
                    .map(|(name, schema)| (name.clone(), structure(schema, named)));
                inner.collect::<Map<_, _>>().into()
            }
            "required" => sorted(value),
            "additionalProperties" | "enum" | "type" | "x-kubernetes-preserve-unknown-fields" => {
                value.clone()
            }
            _ => continue,
        };
        kept.insert(name.clone(), value);
    }
    kept.into()
}

fn sorted(names: &Value) -> Value {
    let names: BTreeSet<&str> = names
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    json!(names)
}
