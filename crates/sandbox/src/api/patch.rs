//! Patches other than apply: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and the strategic merge patch of
//! built-in kinds.

mod json;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::go;
use super::schema::{PatchStrategy, Schema};

/// Why a patch could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: it is no patch.
    #[error("error decoding patch: {0}")]
    Decode(String),
    /// 422: it doesn't fit the object. A real server's message is [`PatchError::REJECTED`], whatever the cause.
    #[error("{0}")]
    Rejected(String),
    /// 500: an item of a list lacks the key by which the list is merged.
    #[error("{0}")]
    MissingKey(String),
}

impl PatchError {
    pub const REJECTED: &'static str = "the server rejected our request due to an error in our request";
}

/// Returns the object changed by a merge patch.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        let detail = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            kind_of(patch)
        );
        return Err(PatchError::Decode(detail));
    }
    let mut merged = object.clone();
    merge_into(&mut merged, patch);
    Ok(merged)
}

fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.shift_remove(name);
        } else {
            merge_into(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// Returns the object changed by a JSON patch.
pub fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let refused = |kind: &str, of: &str| {
        PatchError::Decode(format!(
            "json: cannot unmarshal {kind} into Go value of type {of}"
        ))
    };
    let operations = patch
        .as_array()
        .ok_or_else(|| refused(kind_of(patch), "jsonpatch.Patch"))?;
    if let Some(odd) = operations.iter().find(|operation| !operation.is_object()) {
        return Err(refused(kind_of(odd), "jsonpatch.Operation"));
    }
    json::apply(object, operations).map_err(PatchError::Rejected)
}

/// Returns the object of a built-in kind changed by a strategic merge patch.
pub fn strategic(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    let (Some(fields), Some(changes)) = (object.as_object(), patch.as_object()) else {
        let detail = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            kind_of(patch)
        );
        return Err(PatchError::Decode(detail));
    };
    merge_fields(fields, changes, Some(schema)).map(Value::Object)
}

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETED_ELEMENTS: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

fn merge_fields(old: &Fields, patch: &Fields, schema: Option<&Schema>) -> Result<Fields, PatchError> {
    let mut merged = match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            let mut replaced = patch.clone();
            replaced.shift_remove(DIRECTIVE);
            return Ok(replaced);
        }
        Some("delete") => return Ok(Fields::new()),
        None | Some("merge") => old.clone(),
        Some(other) => return Err(PatchError::Rejected(format!("unknown patch type found: {other}"))),
    };
    if let Some(retained) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        merged.retain(|name, _| retained.iter().any(|retained| retained == name.as_str()));
    }
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix(DELETED_ELEMENTS) {
            let deleted = change.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(items) = merged.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !deleted.contains(item));
            }
        } else if change.is_null() {
            merged.shift_remove(name);
        } else if !name.starts_with('$') {
            let child = schema.and_then(|schema| schema.child(name).schema());
            let order = patch
                .get(&format!("{ELEMENT_ORDER}{name}"))
                .and_then(Value::as_array);
            let value = merge_value(merged.get(name), change, child, order.map(Vec::as_slice))?;
            merged.insert(name.clone(), value);
        }
    }
    // An order may be given for a list that is otherwise not changed.
    for (name, order) in patch {
        if let (Some(list), Some(order)) = (name.strip_prefix(ELEMENT_ORDER), order.as_array())
            && !patch.contains_key(list)
            && let Some(items) = merged.get(list).and_then(Value::as_array).cloned()
        {
            let key = schema
                .and_then(|schema| schema.child(list).schema())
                .and_then(merge_key);
            merged.insert(
                list.to_owned(),
                Value::Array(ordered(&items, items.clone(), order, key)),
            );
        }
    }
    Ok(merged)
}

fn merge_value(
    old: Option<&Value>,
    change: &Value,
    schema: Option<&Schema>,
    order: Option<&[Value]>,
) -> Result<Value, PatchError> {
    match change {
        Value::Object(changes) => {
            let empty = Fields::new();
            let old = old.and_then(Value::as_object).unwrap_or(&empty);
            merge_fields(old, changes, schema).map(Value::Object)
        }
        Value::Array(changes) => {
            let old = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let strategy = schema.map(|schema| &schema.patch);
            let key = schema.and_then(merge_key);
            let merged = match strategy {
                Some(PatchStrategy::MergeBy(key) | PatchStrategy::MergeByRetainKeys(key)) => merge_items(
                    old,
                    changes,
                    key,
                    schema.and_then(|schema| schema.items.as_deref()),
                )?,
                Some(PatchStrategy::Union) => {
                    let mut all = old.to_vec();
                    for item in changes {
                        if !all.contains(item) {
                            all.push(item.clone());
                        }
                    }
                    all
                }
                None | Some(PatchStrategy::Replace | PatchStrategy::RetainKeys) => return Ok(change.clone()),
            };
            Ok(Value::Array(ordered(old, merged, order.unwrap_or(changes), key)))
        }
        scalar => Ok(scalar.clone()),
    }
}

fn merge_key(schema: &Schema) -> Option<&str> {
    match &schema.patch {
        PatchStrategy::MergeBy(key) | PatchStrategy::MergeByRetainKeys(key) => Some(key),
        PatchStrategy::Replace | PatchStrategy::Union | PatchStrategy::RetainKeys => None,
    }
}

fn merge_items(
    old: &[Value],
    changes: &[Value],
    key: &str,
    schema: Option<&Schema>,
) -> Result<Vec<Value>, PatchError> {
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    let replaces = changes
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"));
    let mut merged = if replaces { Vec::new() } else { old.to_vec() };
    for item in changes {
        let Some(change) = item.as_object() else { continue };
        match (directive(item).as_deref(), change.get(key)) {
            // The item that carries the directive for the whole list.
            (Some("replace"), None) => {}
            (_, None) => {
                let text = format!(
                    "map: {} does not contain declared merge key: {key}",
                    go::print(item)
                );
                return Err(PatchError::MissingKey(text));
            }
            (Some("delete"), Some(name)) => merged.retain(|old| old.get(key) != Some(name)),
            (_, Some(name)) => {
                let empty = Fields::new();
                let found = merged.iter_mut().find(|old| old.get(key) == Some(name));
                let before = found.as_ref().and_then(|old| old.as_object()).unwrap_or(&empty);
                let after = Value::Object(merge_fields(before, change, schema)?);
                match found {
                    Some(old) => *old = after,
                    None => merged.push(after),
                }
            }
        }
    }
    Ok(merged)
}

/// Orders a list as the client sees it; items that only the server has keep their place among the others.
fn ordered(old: &[Value], merged: Vec<Value>, order: &[Value], key: Option<&str>) -> Vec<Value> {
    let name = |item: &Value| -> String {
        let name = key.map_or(Some(item), |key| item.get(key));
        name.map(ToString::to_string).unwrap_or_default()
    };
    let places = |items: &[Value]| -> BTreeMap<String, usize> {
        items
            .iter()
            .enumerate()
            .map(|(place, item)| (name(item), place))
            .collect()
    };
    let (wanted, before) = (places(order), places(old));
    let (mut listed, others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| wanted.contains_key(&name(item)));
    listed.sort_by_key(|item| wanted.get(&name(item)).copied());
    let mut result = Vec::with_capacity(listed.len() + others.len());
    let (mut listed, mut others) = (listed.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let listed_first = match (listed.peek(), others.peek()) {
            (Some(left), Some(right)) => {
                !matches!((before.get(&name(left)), before.get(&name(right))), (Some(l), Some(r)) if r < l)
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return result,
        };
        result.extend(if listed_first {
            listed.next()
        } else {
            others.next()
        });
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin::by_plural;
    use super::*;

    fn smp(old: &Value, patch: &Value) -> Value {
        let pod = by_plural("", "pods").unwrap().schema();
        strategic(old, patch, &pod).unwrap()
    }

    #[test]
    fn the_examples_of_rfc_7386_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ];
        for (object, patch, expected) in cases {
            assert_eq!(merge(&object, &patch), Ok(expected), "{object} + {patch}");
        }
        assert_eq!(
            merge(&json!({}), &json!([])).unwrap_err().to_string(),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }

    #[test]
    fn a_json_patch_is_refused_when_it_is_none_or_does_not_fit() {
        let object = json!({"a": 1});
        let patch =
            json!([{"op": "replace", "path": "/a", "value": 2}, {"op": "add", "path": "/b/c", "value": 2}]);
        assert!(matches!(json(&object, &patch), Err(PatchError::Rejected(_))));
        assert!(matches!(
            json(&object, &json!([{"op": "bogus"}])),
            Err(PatchError::Rejected(_))
        ));
        assert!(matches!(json(&object, &json!([7])), Err(PatchError::Decode(_))));
        assert_eq!(
            json(&object, &json!([{"op": "add", "path": "/b", "value": []}])),
            Ok(json!({"a": 1, "b": []}))
        );
        assert_eq!(
            json(&object, &json!([{"op": "replace", "path": "/b", "value": 2}])),
            Ok(json!({"a": 1, "b": 2}))
        );
    }

    #[test]
    fn containers_are_merged_by_name_and_env_by_name() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}], "args": ["x", "y"]},
            {"name": "b", "image": "b:1"},
        ]}});
        let patch = json!({"spec": {"containers": [
            {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}], "args": ["z"]},
        ]}});
        assert_eq!(
            smp(&pod, &patch),
            json!({"spec": {"containers": [
                {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
                 "args": ["z"]},
                {"name": "b", "image": "b:1"},
            ]}})
        );
    }

    #[test]
    fn directives_delete_replace_and_null_removes() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x/y"]}, "spec": {
            "containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"k": "v"}, "dnsPolicy": "Default",
        }});
        let patch = json!({
            "metadata": {"labels": {"a": null}, "finalizers": ["z/w"]},
            "spec": {
                "containers": [{"name": "a", "$patch": "delete"}],
                "nodeSelector": {"$patch": "replace", "n": "w"},
                "dnsPolicy": null,
            },
        });
        assert_eq!(
            smp(&pod, &patch),
            json!({
                "metadata": {"labels": {"b": "2"}, "finalizers": ["z/w", "x/y"]},
                "spec": {"containers": [{"name": "b"}], "nodeSelector": {"n": "w"}},
            })
        );
        let replaced = json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}});
        assert_eq!(smp(&pod, &replaced)["spec"]["containers"], json!([{"name": "c"}]));
        let fewer = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}});
        assert_eq!(smp(&pod, &fewer)["metadata"]["finalizers"], json!([]));
    }

    #[test]
    fn retain_keys_clears_the_other_members_of_a_union() {
        let deployment = by_plural("apps", "deployments").unwrap().schema();
        let old = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(
            strategic(&old, &patch, &deployment),
            Ok(json!({"spec": {"strategy": {"type": "Recreate"}}}))
        );
    }

    #[test]
    fn the_order_of_elements_follows_the_client() {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]}});
        let patch = json!({"spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
            "containers": [{"name": "new", "image": "x"}],
        }});
        let names: Vec<String> = smp(&pod, &patch)["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|container| container["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["server", "b", "new", "a"]);
    }

    #[test]
    fn an_item_without_its_merge_key_is_refused() {
        let pod = by_plural("", "pods").unwrap().schema();
        let patch = json!({"spec": {"containers": [{"image": "x"}]}});
        assert_eq!(
            strategic(&json!({}), &patch, &pod),
            Err(PatchError::MissingKey(
                "map: map[image:x] does not contain declared merge key: name".to_owned()
            ))
        );
    }
}
