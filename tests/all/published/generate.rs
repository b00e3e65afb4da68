//! Objects that a structural schema accepts.

use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

/// Returns objects of a schema's node, each field there or not unless it is required.
pub fn valid(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(allowed) = schema["enum"].as_array() {
        return proptest::sample::select(allowed.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return prop_oneof![(0..9).prop_map(|number| json!(number)), Just(json!("100m"))].boxed();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema),
        Some("array") => {
            let least = usize::try_from(schema["minItems"].as_u64().unwrap_or_default()).unwrap();
            proptest::collection::vec(valid(&schema["items"]), least..=least.max(2))
                .prop_map(Value::Array)
                .boxed()
        }
        Some("string") => text(schema).boxed(),
        Some("integer") => {
            let least = schema["minimum"].as_i64().unwrap_or_default();
            (least..least + 4).prop_map(|number| json!(number)).boxed()
        }
        Some("number") => (0..4).prop_map(|number| json!(f64::from(number) + 0.5)).boxed(),
        Some("boolean") => any::<bool>().prop_map(|value| json!(value)).boxed(),
        Some(other) => panic!("no values of type {other}"),
        None => anything(),
    }
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    if schema["additionalProperties"].is_object() {
        let values = valid(&schema["additionalProperties"]);
        return proptest::collection::btree_map("[a-c]", values, 0..3)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
            .boxed();
    }
    let Some(properties) = schema["properties"].as_object() else {
        return anything();
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut all = Just(Map::new()).boxed();
    for (name, schema) in properties {
        let value = if required.contains(&json!(name)) {
            valid(schema).prop_map(Some).boxed()
        } else {
            proptest::option::weighted(0.4, valid(schema)).boxed()
        };
        let name = name.clone();
        all = (all, value)
            .prop_map(move |(mut fields, value)| {
                if let Some(value) = value {
                    fields.insert(name.clone(), value);
                }
                fields
            })
            .boxed();
    }
    all.prop_map(Value::Object).boxed()
}

/// What fits formats, patterns and lengths, as far as they occur.
fn text(schema: &Value) -> Union<BoxedStrategy<Value>> {
    let values: Vec<&str> = match schema["format"].as_str() {
        Some("date-time") => vec!["2026-01-02T03:04:05Z"],
        _ => vec!["Ab", "x"],
    };
    let empty = schema["format"].is_null() && schema["pattern"].is_null() && schema["minLength"].is_null();
    let values = values.into_iter().chain(empty.then_some(""));
    Union::new(values.map(|value| Just(json!(value)).boxed()))
}

fn anything() -> BoxedStrategy<Value> {
    proptest::sample::select(vec![
        json!({}),
        json!({"kind": "Any", "spec": {"replicas": 0, "list": [1, {}]}}),
    ])
    .boxed()
}
