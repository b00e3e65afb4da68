//! What is valid as published is valid here, nothing of it is pruned, and nothing of it is lost by the types of
//! `cutover::karmada`, fields that no type names included.

use cutover::karmada::{
    ClusterOverridePolicy, ClusterPropagationPolicy, ClusterResourceBinding, OverridePolicy,
    PropagationPolicy, ResourceBinding, Work,
};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::generate::valid;
use super::{ours, published, schema, version};

/// A field of a Karmada to come.
const NEW: &str = "inALaterRelease";

#[test]
fn what_is_valid_as_published_is_valid_here_and_stays_whole() {
    let Some(published) = published("the sandbox's definitions on published objects") else {
        return;
    };
    for (name, ours) in ours() {
        let Some(theirs) = published.get(&name) else {
            continue;
        };
        let (ours, theirs_read) = (schema(&ours), schema(theirs));
        run(&objects(theirs), |object| {
            let mistakes = theirs_read.validate(object, None);
            prop_assert!(mistakes.is_empty(), "{name}: not even as published: {mistakes:?}");
            let mistakes = ours.validate(object, None);
            prop_assert!(mistakes.is_empty(), "{name}: {mistakes:?}");
            prop_assert_eq!(ours.unknown_fields(object), Vec::<String>::new(), "{}", name);
            let (mut here, mut there) = (object.clone(), object.clone());
            ours.fill_defaults(&mut here);
            theirs_read.fill_defaults(&mut there);
            prop_assert_eq!(here, there, "{}: defaults", name);
            Ok(())
        });
    }
}

#[test]
fn every_field_survives_the_types_also_one_that_none_of_them_names() {
    survives::<PropagationPolicy>("propagationpolicies.policy.karmada.io");
    survives::<ClusterPropagationPolicy>("clusterpropagationpolicies.policy.karmada.io");
    survives::<OverridePolicy>("overridepolicies.policy.karmada.io");
    survives::<ClusterOverridePolicy>("clusteroverridepolicies.policy.karmada.io");
    survives::<ResourceBinding>("resourcebindings.work.karmada.io");
    survives::<ClusterResourceBinding>("clusterresourcebindings.work.karmada.io");
    survives::<Work>("works.work.karmada.io");
}

fn survives<T: DeserializeOwned + Serialize>(name: &str) {
    let Some(published) = published(&format!("types of {name}")) else {
        return;
    };
    let read = schema(&published[name]);
    let properties = &version(&published[name], None).unwrap()["schema"]["openAPIV3Schema"]["properties"];
    run(&objects(&published[name]), |object| {
        let mut object = object.clone();
        read.fill_defaults(&mut object);
        for part in ["spec", "status"] {
            if let Some(value) = object.get_mut(part) {
                add_new(value, &properties[part]);
            }
        }
        let typed: T =
            serde_json::from_value(object.clone()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mut back = serde_json::to_value(typed).unwrap();
        drop_empty(&mut back);
        drop_empty(&mut object);
        prop_assert_eq!(back, object, "{}", name);
        Ok(())
    });
}

fn objects(definition: &Value) -> BoxedStrategy<Value> {
    let stored = version(definition, None).unwrap();
    let mut schema = stored["schema"]["openAPIV3Schema"].clone();
    let properties = schema["properties"].as_object_mut().unwrap();
    properties.retain(|name, _| matches!(name.as_str(), "spec" | "status"));
    let spec = &definition["spec"];
    let api_version = format!(
        "{}/{}",
        spec["group"].as_str().unwrap(),
        stored["name"].as_str().unwrap()
    );
    let kind = spec["names"]["kind"].clone();
    schema["required"] = json!(["spec"]);
    valid(&schema)
        .prop_map(move |mut object| {
            object["apiVersion"] = json!(api_version);
            object["kind"] = kind.clone();
            object["metadata"] = json!({"name": "a"});
            object
        })
        .boxed()
}

fn run(objects: &BoxedStrategy<Value>, check: impl Fn(&Value) -> TestCaseResult) {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner.run(objects, |object| check(&object)).unwrap();
}

/// Puts a new field into every object that has a schema, but into no condition: they are of a type of Kubernetes' own,
/// and nobody writes them back.
fn add_new(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "conditions") {
                add_new(value, &schema["properties"][name]);
            }
            if schema["properties"].is_object() {
                fields.insert(NEW.to_owned(), json!({"a": [1, "b"]}));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| add_new(item, &schema["items"])),
        _ => {}
    }
}

/// Drops what Go leaves out.
fn drop_empty(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}
