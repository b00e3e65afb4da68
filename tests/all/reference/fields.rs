//! Tables of the fields that a schema has: a JSON Schema with references, or the structural one of a CRD.

use serde_json::Value;

use super::cell;

/// What cutover alone reads and writes.
const OWN: &str = "journal";

/// A field at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its place: `[]` is an item of a list, `<key>` a key of a map.
    pub path: String,
    kind: String,
    default: String,
    meaning: String,
}

impl Field {
    fn new(path: String, field: &Value, whole: &Value, is_required: bool) -> Self {
        let type_of = resolved(field, whole);
        let default = match field.get("default").or_else(|| type_of.get("default")) {
            _ if is_required => "required".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(value) => format!("`{value}`"),
        };
        let description = field["description"]
            .as_str()
            .or_else(|| type_of["description"].as_str())
            .unwrap_or_default();
        let mut meaning = cell(description);
        for one in type_of["oneOf"].as_array().into_iter().flatten() {
            if let (Some(value), Some(text)) = (one["const"].as_str(), one["description"].as_str()) {
                meaning += &format!(" `{value}`: {}", cell(text));
            }
        }
        Self {
            path,
            kind: kind(field, whole),
            default,
            meaning: meaning.trim_start().to_owned(),
        }
    }
}

/// Returns the fields below a schema, each before those in it; `prefix` stands before their names. `whole` has what the schema
/// refers to.
pub fn fields(schema: &Value, whole: &Value, prefix: &str) -> Vec<Field> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if name == OWN {
            continue;
        }
        let path = format!("{prefix}{name}");
        let is_required = required.iter().any(|one| one.as_str() == Some(name.as_str()));
        found.push(Field::new(path.clone(), field, whole, is_required));
        let (below, path) = within(field, whole, path);
        found.extend(fields(below, whole, &format!("{path}.")));
    }
    found
}

/// Returns the table of fields; `section` says where a page has more about one.
pub fn table(fields: &[Field], section: impl Fn(&str) -> Option<&'static str>) -> String {
    let mut table = "| field | type | default | meaning |\n|---|---|---|---|\n".to_owned();
    for field in fields {
        let name = match section(&field.path) {
            Some(target) => format!("[`{}`]({target})", field.path),
            None => format!("`{}`", field.path),
        };
        table += &format!(
            "| {name} | {} | {} | {} |\n",
            field.kind, field.default, field.meaning
        );
    }
    table
}

/// Follows a reference, and a choice between a type and nothing.
fn resolved<'a>(schema: &'a Value, whole: &'a Value) -> &'a Value {
    if let Some(target) = schema["$ref"].as_str() {
        return resolved(whole.pointer(target.trim_start_matches('#')).unwrap(), whole);
    }
    let mut choices = schema["anyOf"].as_array().into_iter().flatten();
    let chosen = choices.find(|choice| choice["type"] != "null");
    chosen.map_or(schema, |choice| resolved(choice, whole))
}

/// Returns what is in a list or a map, and the path to it; of anything else, itself.
fn within<'a>(schema: &'a Value, whole: &'a Value, path: String) -> (&'a Value, String) {
    let schema = resolved(schema, whole);
    if let Some(items) = schema.get("items") {
        within(items, whole, path + "[]")
    } else if schema["additionalProperties"].is_object() {
        within(&schema["additionalProperties"], whole, path + ".<key>")
    } else {
        (schema, path)
    }
}

fn kind(schema: &Value, whole: &Value) -> String {
    let schema = resolved(schema, whole);
    if let Some(items) = schema.get("items") {
        return format!("list of {}", kind(items, whole));
    }
    if schema["additionalProperties"].is_object() {
        return format!("map of {}", kind(&schema["additionalProperties"], whole));
    }
    let values = values(schema);
    if !values.is_empty() {
        return values.join(", ");
    }
    if schema["format"] == "date-time" {
        return "time".to_owned();
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().find(|one| *one != "null"),
        one => Some(one),
    };
    types.and_then(Value::as_str).unwrap_or("any").to_owned()
}

/// Returns the values that a schema lists.
fn values(schema: &Value) -> Vec<String> {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let mut values: Vec<&Value> = Vec::new();
    for one in std::iter::once(schema).chain(variants) {
        values.extend(one.get("const"));
        values.extend(one["enum"].as_array().into_iter().flatten());
    }
    values
        .into_iter()
        .filter_map(Value::as_str)
        .map(|value| format!("`{value}`"))
        .collect()
}
