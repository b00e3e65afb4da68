//! JSON patches (RFC 6902), with the liberties that a kube-apiserver's library takes: what an object doesn't have may be
//! replaced, copied and tested as if it were null, a value that is left out is null, and indices may count from the end.

use serde_json::{Map, Value};

/// Returns the object changed by the operations, or why one of them doesn't fit.
pub(super) fn apply(object: &Value, operations: &[Value]) -> Result<Value, String> {
    let mut document = object.clone();
    for operation in operations {
        carry_out(&mut document, operation)?;
    }
    Ok(document)
}

fn carry_out(document: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |field: &str| {
        operation[field]
            .as_str()
            .ok_or_else(|| format!("operation failed to decode {field}: missing value"))
    };
    let value = || operation.get("value").cloned().unwrap_or_default();
    match operation["op"].as_str().unwrap_or("unknown") {
        "add" => add(document, text("path")?, value()),
        "remove" => remove(document, text("path")?).map(drop),
        "replace" => replace(document, text("path")?, value()),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, text("path")?, moved)
        }
        "copy" => {
            let copied = get(document, text("from")?)?;
            add(document, text("path")?, copied)
        }
        "test" => test(document, text("path")?, operation.get("value")),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// What holds the last part of a pointer.
enum Container<'a> {
    Fields(&'a mut Map<String, Value>),
    Items(&'a mut Vec<Value>),
}

/// Finds what a pointer leads to: its container, and the last part.
fn find<'a>(document: &'a mut Value, pointer: &str) -> Result<(Container<'a>, String), String> {
    let missing = || format!("doc is missing path: {pointer}: missing value");
    let unescaped = |part: &str| part.replace("~1", "/").replace("~0", "~");
    // What stands before the first slash is not looked at.
    let (_, path) = pointer.split_once('/').ok_or_else(missing)?;
    let (parents, key) = path
        .rsplit_once('/')
        .map_or((None, path), |(parents, key)| (Some(parents), key));
    let mut place = document;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let part = unescaped(part);
        place = match place {
            Value::Object(fields) => fields.get_mut(&part).ok_or_else(missing)?,
            Value::Array(items) => {
                let index = index(&part, items.len()).filter(|index| *index < items.len());
                &mut items[index.ok_or_else(missing)?]
            }
            _ => return Err(missing()),
        };
    }
    let container = match place {
        Value::Object(fields) => Container::Fields(fields),
        Value::Array(items) => Container::Items(items),
        _ => return Err(missing()),
    };
    Ok((container, unescaped(key)))
}

/// Reads an index; a negative one counts from `size`.
fn index(text: &str, size: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    match usize::try_from(number) {
        Ok(index) => Some(index),
        Err(_) => size.checked_sub(usize::try_from(number.unsigned_abs()).ok()?),
    }
}

fn get(document: &mut Value, pointer: &str) -> Result<Value, String> {
    let (container, key) = find(document, pointer)?;
    match container {
        Container::Fields(fields) => Ok(fields.get(&key).cloned().unwrap_or_default()),
        Container::Items(items) => index(&key, items.len())
            .and_then(|index| items.get(index).cloned())
            .ok_or_else(|| format!("Unable to access invalid index: {key}")),
    }
}

fn add(document: &mut Value, pointer: &str, value: Value) -> Result<(), String> {
    let (container, key) = find(document, pointer)?;
    match container {
        Container::Fields(fields) => drop(fields.insert(key, value)),
        Container::Items(items) if key == "-" => items.push(value),
        Container::Items(items) => {
            let place = index(&key, items.len() + 1).filter(|index| *index <= items.len());
            let place = place.ok_or_else(|| format!("Unable to access invalid index: {key}"))?;
            items.insert(place, value);
        }
    }
    Ok(())
}

fn remove(document: &mut Value, pointer: &str) -> Result<Value, String> {
    let (container, key) = find(document, pointer)?;
    let removed = match container {
        Container::Fields(fields) => fields.shift_remove(&key),
        Container::Items(items) => index(&key, items.len())
            .filter(|index| *index < items.len())
            .map(|index| items.remove(index)),
    };
    removed.ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
}

fn replace(document: &mut Value, pointer: &str, value: Value) -> Result<(), String> {
    if pointer.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *document = value;
        return Ok(());
    }
    let (container, key) = find(document, pointer)?;
    match container {
        Container::Fields(fields) => drop(fields.insert(key, value)),
        Container::Items(items) => {
            let item = index(&key, items.len()).and_then(|index| items.get_mut(index));
            *item.ok_or_else(|| format!("doc is missing key: {pointer}: missing value"))? = value;
        }
    }
    Ok(())
}

fn test(document: &mut Value, pointer: &str, wanted: Option<&Value>) -> Result<(), String> {
    let present = if pointer.is_empty() {
        document.clone()
    } else {
        get(document, pointer)?
    };
    if present == *wanted.unwrap_or(&Value::Null) {
        return Ok(());
    }
    Err(format!("testing value {pointer} failed: test failed"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_change_fields_and_items() {
        let object = json!({"a": {"b": [1, 2]}, "c~/d": "x"});
        for (operation, expected) in [
            (
                json!({"op": "add", "path": "/a/b/1", "value": 9}),
                json!({"a": {"b": [1, 9, 2]}, "c~/d": "x"}),
            ),
            (
                json!({"op": "add", "path": "/a/b/-", "value": 9}),
                json!({"a": {"b": [1, 2, 9]}, "c~/d": "x"}),
            ),
            (
                json!({"op": "replace", "path": "/a/b/-1", "value": 9}),
                json!({"a": {"b": [1, 9]}, "c~/d": "x"}),
            ),
            (
                json!({"op": "remove", "path": "/c~0~1d"}),
                json!({"a": {"b": [1, 2]}}),
            ),
            (
                json!({"op": "move", "from": "/a/b", "path": "/b"}),
                json!({"a": {}, "c~/d": "x", "b": [1, 2]}),
            ),
            (
                json!({"op": "copy", "from": "/a/no", "path": "/b"}),
                json!({"a": {"b": [1, 2]}, "c~/d": "x", "b": null}),
            ),
            (json!({"op": "replace", "path": "", "value": {}}), json!({})),
            (json!({"op": "test", "path": "/no"}), object.clone()),
        ] {
            let patched = apply(&object, std::slice::from_ref(&operation));
            assert_eq!(patched, Ok(expected), "{operation}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let object = json!({"a": {"b": [1, 2]}, "n": null});
        for operation in [
            json!({"op": "add", "path": "/a/b/3", "value": 9}),
            json!({"op": "add", "path": "/no/b", "value": 9}),
            json!({"op": "add", "path": "/n/b", "value": 9}),
            json!({"op": "add", "path": "a", "value": 9}),
            json!({"op": "add", "value": 9}),
            json!({"op": "remove", "path": "/no"}),
            json!({"op": "replace", "path": "/a/b/2", "value": 9}),
            json!({"op": "move", "from": "/no", "path": "/b"}),
            json!({"op": "copy", "from": "/a/b/7", "path": "/b"}),
            json!({"op": "test", "path": "/a/b", "value": [1]}),
            json!({"op": "odd", "path": "/a"}),
            json!({"path": "/a"}),
        ] {
            let patched = apply(&object, std::slice::from_ref(&operation));
            assert!(patched.is_err(), "{operation}");
        }
    }
}
