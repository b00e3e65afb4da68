//! Reading `openAPIV3Schema`: what a structural schema must say is checked here, once.

use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::super::builtin;
use super::cel::Rule;
use super::{Additional, Bound, Checks, FieldError, JsonType, ListType, Mistake, PatchStrategy, Schema};

type Errors = Vec<FieldError>;

pub(super) fn crd(open_api: &Value) -> Result<Schema, Errors> {
    let mut errors = Errors::new();
    let mut schema = node(open_api, "", Position::Structural, &mut errors);
    if schema.kind.is_some_and(|kind| kind != JsonType::Object) {
        errors.push(FieldError::invalid(
            "type",
            open_api["type"].clone(),
            "must be object at the root",
        ));
    }
    add_type_and_object_meta(&mut schema);
    let mut defaulted = json!({});
    schema.fill_defaults(&mut defaulted);
    if errors.is_empty() {
        Ok(schema)
    } else {
        Err(errors)
    }
}

/// Gives a schema the fields of every object. What a CRD says about `metadata.name` is kept.
pub(super) fn add_type_and_object_meta(schema: &mut Schema) {
    let string = || {
        Arc::new(Schema {
            kind: Some(JsonType::String),
            ..Schema::default()
        })
    };
    for field in ["apiVersion", "kind"] {
        schema.properties.entry(field.to_owned()).or_insert_with(string);
    }
    let object_meta = builtin::object_meta();
    let meta = match schema.properties.get("metadata") {
        Some(own) if !own.properties.is_empty() || !own.rules.is_empty() => {
            let mut meta = (*object_meta).clone();
            meta.rules.clone_from(&own.rules);
            for (name, property) in &own.properties {
                meta.properties.insert(name.clone(), Arc::clone(property));
            }
            Arc::new(meta)
        }
        _ => object_meta,
    };
    schema.properties.insert("metadata".to_owned(), meta);
}

/// Where a node stands: the structural skeleton must be complete, junctors only validate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Structural,
    Junctor,
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn node(value: &Value, path: &str, position: Position, errors: &mut Errors) -> Schema {
    let Some(source) = value.as_object() else {
        errors.push(FieldError::invalid(path, value.clone(), "must be a schema"));
        return Schema::default();
    };
    let mut schema = Schema {
        kind: json_type(source, path, errors),
        int_or_string: flag(source, "x-kubernetes-int-or-string"),
        nullable: flag(source, "nullable"),
        preserve_unknown: flag(source, "x-kubernetes-preserve-unknown-fields"),
        embedded: flag(source, "x-kubernetes-embedded-resource"),
        additional: additional(source, path, position, errors),
        items: source
            .get("items")
            .map(|items| Arc::new(node(items, &join(path, "items"), position, errors))),
        list: list_type(source),
        atomic_map: source.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        patch: patch_strategy(source),
        default: source.get("default").cloned(),
        checks: checks(source, path, errors),
        rules: rules(source, path, errors),
        ..Schema::default()
    };
    for (name, property) in source
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = format!("{}[{name}]", join(path, "properties"));
        schema
            .properties
            .insert(name.clone(), Arc::new(node(property, &path, position, errors)));
    }
    if schema.embedded {
        add_type_and_object_meta(&mut schema);
    }
    if position == Position::Structural {
        check_structure(&schema, source, path, errors);
    }
    schema
}

fn check_structure(schema: &Schema, source: &Map<String, Value>, path: &str, errors: &mut Errors) {
    if schema.kind.is_none()
        && !schema.int_or_string
        && !schema.preserve_unknown
        && !source.contains_key("type")
    {
        let part = if path.ends_with("items") {
            "must not be empty for specified array items"
        } else if path.is_empty() {
            "must not be empty at the root"
        } else {
            "must not be empty for specified object fields"
        };
        errors.push(FieldError::required(join(path, "type"), part));
    }
    if schema.kind == Some(JsonType::Array) && schema.items.is_none() {
        errors.push(FieldError::required(join(path, "items"), "must be specified"));
    }
    if let ListType::Map(keys) = &schema.list {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(
                join(path, "x-kubernetes-list-map-keys"),
                detail,
            ));
        }
        let items = schema.items.as_deref();
        for key in keys {
            let declared = items.is_some_and(|items| items.properties.contains_key(key));
            if !declared {
                let field = join(path, "x-kubernetes-list-map-keys");
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(field, json!(keys), detail));
            }
        }
    }
    if let Some(default) = &schema.default {
        let mut pruned = default.clone();
        if !schema.prune(&mut pruned).is_empty() {
            errors.push(FieldError::invalid(
                join(path, "default"),
                default.clone(),
                "must not have unknown fields",
            ));
        }
        errors.extend(schema.validate_at(default, None, &join(path, "default")));
    }
}

fn json_type(source: &Map<String, Value>, path: &str, errors: &mut Errors) -> Option<JsonType> {
    let kind = match source.get("type")?.as_str()? {
        "object" => JsonType::Object,
        "array" => JsonType::Array,
        "string" => JsonType::String,
        "integer" => JsonType::Integer,
        "number" => JsonType::Number,
        "boolean" => JsonType::Boolean,
        "" => return None,
        other => {
            let supported = ["array", "boolean", "integer", "number", "object", "string"];
            errors.push(FieldError::not_supported(join(path, "type"), other, &supported));
            return None;
        }
    };
    Some(kind)
}

fn additional(
    source: &Map<String, Value>,
    path: &str,
    position: Position,
    errors: &mut Errors,
) -> Additional {
    match source.get("additionalProperties") {
        None => Additional::Unsaid,
        Some(Value::Bool(true)) => Additional::Any,
        Some(Value::Bool(false)) => Additional::Forbidden,
        Some(of) => Additional::Of(Arc::new(node(
            of,
            &join(path, "additionalProperties"),
            position,
            errors,
        ))),
    }
}

fn list_type(source: &Map<String, Value>) -> ListType {
    match source.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(source, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn patch_strategy(source: &Map<String, Value>) -> PatchStrategy {
    let strategy = source
        .get("x-kubernetes-patch-strategy")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let key = source
        .get("x-kubernetes-patch-merge-key")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let merge = strategy.split(',').any(|part| part == "merge");
    let retain = strategy.split(',').any(|part| part == "retainKeys");
    match (merge, retain, key) {
        (true, true, Some(key)) => PatchStrategy::MergeByRetainKeys(key),
        (true, false, Some(key)) => PatchStrategy::MergeBy(key),
        (true, _, None) => PatchStrategy::Union,
        (false, true, _) => PatchStrategy::RetainKeys,
        (false, false, _) => PatchStrategy::Replace,
    }
}

fn checks(source: &Map<String, Value>, path: &str, errors: &mut Errors) -> Checks {
    let mut junctor = |name: &str| -> Vec<Schema> {
        let branches = source
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate();
        branches
            .map(|(index, branch)| {
                let path = format!("{}[{index}]", join(path, name));
                node(branch, &path, Position::Junctor, errors)
            })
            .collect()
    };
    let (all_of, any_of, one_of) = (junctor("allOf"), junctor("anyOf"), junctor("oneOf"));
    let not = source
        .get("not")
        .map(|not| Box::new(node(not, &join(path, "not"), Position::Junctor, errors)));
    Checks {
        required: strings(source, "required"),
        allowed: source.get("enum").and_then(Value::as_array).cloned(),
        minimum: bound(source, "minimum", "exclusiveMinimum"),
        maximum: bound(source, "maximum", "exclusiveMaximum"),
        multiple_of: source.get("multipleOf").and_then(Value::as_f64),
        min_length: count(source, "minLength"),
        max_length: count(source, "maxLength"),
        pattern: pattern(source, path, errors),
        // A format that a real server doesn't know says nothing.
        format: source
            .get("format")
            .and_then(Value::as_str)
            .filter(|format| !matches!(*format, "uint8" | "uint16" | "uint32" | "uint64"))
            .map(str::to_owned),
        min_items: count(source, "minItems"),
        max_items: count(source, "maxItems"),
        unique_items: flag(source, "uniqueItems"),
        min_properties: count(source, "minProperties"),
        max_properties: count(source, "maxProperties"),
        all_of,
        any_of,
        one_of,
        not,
    }
}

fn pattern(source: &Map<String, Value>, path: &str, errors: &mut Errors) -> Option<Regex> {
    let pattern = source
        .get("pattern")
        .and_then(Value::as_str)
        .filter(|pattern| !pattern.is_empty())?;
    match Regex::new(pattern) {
        Ok(regex) => Some(regex),
        Err(error) => {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            errors.push(FieldError::invalid(join(path, "pattern"), pattern, detail));
            None
        }
    }
}

fn rules(source: &Map<String, Value>, path: &str, errors: &mut Errors) -> Vec<Rule> {
    let sources = source
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut rules = Vec::new();
    for (index, source) in sources.enumerate() {
        match Rule::compile(source) {
            Ok(rule) => rules.push(rule),
            Err(error) => {
                let field = format!(
                    "{}[{index}].{}",
                    join(path, "x-kubernetes-validations"),
                    error.field
                );
                let value = source.get(error.field).cloned();
                let detail = format!("compilation failed: {}", error.reason);
                errors.push(FieldError::new(Mistake::Invalid, field, value, detail));
            }
        }
    }
    rules
}

fn bound(source: &Map<String, Value>, name: &str, exclusive: &str) -> Option<Bound> {
    let value = source.get(name)?.as_f64()?;
    Some(Bound {
        value,
        exclusive: flag(source, exclusive),
    })
}

fn count(source: &Map<String, Value>, name: &str) -> Option<u64> {
    source.get(name).and_then(Value::as_u64)
}

fn flag(source: &Map<String, Value>, name: &str) -> bool {
    source.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn strings(source: &Map<String, Value>, name: &str) -> Vec<String> {
    let values = source.get(name).and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Parses one definition of the built-in kinds; references are looked up by `resolve`.
pub(in super::super) fn definition(
    name: &str,
    source: &Value,
    resolve: &mut dyn FnMut(&str) -> Arc<Schema>,
) -> Schema {
    let mut schema = definition_node(source, resolve);
    schema.type_name = Some(name.rsplit('.').next().unwrap_or(name).into());
    schema
}

fn definition_node(source: &Value, resolve: &mut dyn FnMut(&str) -> Arc<Schema>) -> Schema {
    let empty = Map::new();
    let source = source.as_object().unwrap_or(&empty);
    let mut ignored = Errors::new();
    if let Some(reference) = source.get("$ref").and_then(Value::as_str) {
        let mut schema = (*resolve(reference.trim_start_matches("#/definitions/"))).clone();
        if source.contains_key("default") {
            schema.default = source.get("default").cloned();
        }
        schema.atomic_map |= source.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
        match patch_strategy(source) {
            PatchStrategy::Replace => {}
            strategy => schema.patch = strategy,
        }
        return schema;
    }
    let format = source.get("format").and_then(Value::as_str);
    let mut schema = Schema {
        kind: json_type(source, "", &mut ignored),
        int_or_string: format == Some("int-or-string"),
        omit_zero: flag(source, super::OMIT_ZERO),
        list: list_type(source),
        atomic_map: source.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        patch: patch_strategy(source),
        default: source.get("default").cloned(),
        // The decoder of a built-in kind takes null for absent.
        nullable: true,
        ..Schema::default()
    };
    schema.checks.required = strings(source, "required");
    schema.checks.format = format.filter(|_| !schema.int_or_string).map(str::to_owned);
    if schema.int_or_string {
        schema.kind = None;
    }
    for (name, property) in source
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        schema
            .properties
            .insert(name.clone(), Arc::new(definition_node(property, resolve)));
    }
    schema.items = source
        .get("items")
        .map(|items| Arc::new(definition_node(items, resolve)));
    schema.additional = match source.get("additionalProperties") {
        Some(of) if of.is_object() => Additional::Of(Arc::new(definition_node(of, resolve))),
        Some(_) => Additional::Any,
        None => Additional::Unsaid,
    };
    let bare = schema.properties.is_empty() && matches!(schema.additional, Additional::Unsaid);
    schema.preserve_unknown =
        bare && !matches!(schema.kind, Some(kind) if kind != JsonType::Object) && !schema.int_or_string;
    schema
}
