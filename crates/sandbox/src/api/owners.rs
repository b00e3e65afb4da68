//! How stored objects keep the list of who owns their fields, `managedFields`: as its text. Its tree would take more memory than
//! all the rest of an object, and is read only when the object is written. Clients are shown the list; who has a stored
//! object in hand, in this program, asks [`of`].

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{Object, metadata};

pub(crate) const LIST: &str = "managedFields";
/// What the text is called in the metadata of a stored object. To clients it is a field that nobody knows.
pub(crate) const TEXT: &str = "managedFieldsAsText";

/// Returns who owns the fields of an object, stored or not.
pub fn of(object: &Value) -> Option<Cow<'_, Value>> {
    let metadata = object.get("metadata")?;
    match metadata.get(LIST) {
        Some(list) => Some(Cow::Borrowed(list)),
        None => metadata.get(TEXT).and_then(list).map(Cow::Owned),
    }
}

/// Writes down who owns the fields of an object that isn't stored yet.
pub(super) fn set(object: &mut Value, owners: Option<Value>) {
    if let Some(fields) = fields(object) {
        replace(fields, TEXT, LIST, |_| Some(Value::Null));
    }
    metadata::set(object, LIST, owners);
}

/// Makes the list a text, in its place.
pub(super) fn pack(object: &mut Value) {
    let Some(fields) = fields(object) else { return };
    if fields.contains_key(LIST) {
        fields.shift_remove(TEXT);
        replace(fields, LIST, TEXT, |list| Some(list.to_string().into()));
    }
}

/// Makes the text a list, in its place.
pub(super) fn unpack(object: &mut Value) {
    if let Some(fields) = fields(object) {
        replace(fields, TEXT, LIST, list);
    }
}

/// Returns an object as clients know it.
pub(super) fn unpacked(object: &Object) -> Object {
    if object["metadata"].get(TEXT).is_none() {
        return Arc::clone(object);
    }
    let mut object = (**object).clone();
    unpack(&mut object);
    Arc::new(object)
}

fn fields(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata").and_then(Value::as_object_mut)
}

fn replace(fields: &mut Map<String, Value>, old: &str, new: &str, form: impl Fn(&Value) -> Option<Value>) {
    let Some(place) = fields.keys().position(|field| field == old) else {
        return;
    };
    if let Some(value) = fields.shift_remove(old).as_ref().and_then(form) {
        fields.shift_insert(place, new.to_owned(), value);
    }
}

fn list(text: &Value) -> Option<Value> {
    serde_json::from_str(text.as_str()?).ok()
}

/// An object as clients know it, written without copying it.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a>(pub &'a Value);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (field, value) in fields {
            entry(&mut map, field, value)?;
        }
        map.end()
    }
}

/// Writes one field of an object as clients know it.
pub(super) fn entry<M: SerializeMap>(map: &mut M, field: &str, value: &Value) -> Result<(), M::Error> {
    if field == "metadata" {
        map.serialize_entry(field, &Metadata(value))
    } else {
        map.serialize_entry(field, value)
    }
}

struct Metadata<'a>(&'a Value);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (field, value) in fields {
            if field == TEXT {
                map.serialize_entry(LIST, &list(value))?;
            } else {
                map.serialize_entry(field, value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object() -> Value {
        json!({
            "kind": "ConfigMap",
            "metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}], "uid": "u"},
            "data": {"managedFields": "[1]", "metadata": "[2]"},
        })
    }

    #[test]
    fn what_is_packed_is_shown_as_it_was() {
        let mut stored = object();
        pack(&mut stored);
        assert!(stored["metadata"].get("managedFields").is_none());
        assert_eq!(
            serde_json::to_string(&Shown(&stored)).unwrap(),
            object().to_string()
        );
        assert_eq!(
            of(&stored).unwrap().into_owned(),
            object()["metadata"]["managedFields"]
        );
        assert_eq!(*unpacked(&Arc::new(stored.clone())), object());
        unpack(&mut stored);
        assert_eq!(stored, object());
    }

    #[test]
    fn what_is_written_down_replaces_what_was_stored() {
        let mut stored = object();
        pack(&mut stored);
        let mut emptied = stored.clone();
        set(&mut emptied, None);
        assert!(of(&emptied).is_none());
        set(&mut stored, Some(json!([{"manager": "other"}])));
        pack(&mut stored);
        assert_eq!(of(&stored).unwrap().into_owned(), json!([{"manager": "other"}]));
        assert_eq!(stored["metadata"].as_object().unwrap().len(), 3);
    }

    #[test]
    fn what_has_no_owners_is_shown_as_it_is() {
        for object in [
            json!({"metadata": {"name": "a"}}),
            json!({"code": 404}),
            json!("text"),
        ] {
            assert_eq!(
                serde_json::to_string(&Shown(&object)).unwrap(),
                object.to_string()
            );
            assert!(of(&object).is_none());
        }
    }
}
