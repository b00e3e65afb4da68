//! The decoder of built-in kinds: Go refuses a value of the wrong type before anything validates it.

use serde_json::Value;

use super::super::builtin::canonical;
use super::{Child, JsonType, Schema};

impl Schema {
    /// Returns why a Go decoder would refuse the object, if it would:
    /// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
    pub fn decode_error(&self, object: &Value) -> Option<String> {
        self.decode_error_at(object, "", "")
    }

    fn decode_error_at(&self, value: &Value, owner: &str, path: &str) -> Option<String> {
        if value.is_null() {
            return None;
        }
        if !self.accepts(value) {
            let place = if owner.is_empty() {
                String::new()
            } else {
                format!("struct field {owner}.{path} ")
            };
            let go = if place.is_empty() { "value " } else { &place };
            return Some(format!(
                "json: cannot unmarshal {} into Go {go}of type {}",
                self.json_name(value),
                self.go_type()
            ));
        }
        let owner = self.type_name.as_deref().unwrap_or(owner);
        match value {
            _ if self.is_quantity() => {
                let refusal = "quantities must match the regular expression \
                               '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
                let is_amount = match value {
                    Value::String(text) => canonical(text).is_some(),
                    other => other.is_number(),
                };
                (!is_amount).then(|| refusal.to_owned())
            }
            Value::Array(items) if self.is_bytes() => {
                let odd = items.iter().find(|item| !item.is_u64())?;
                Some(format!(
                    "json: cannot unmarshal {} into Go struct field {owner}.{path} of type uint8",
                    json_name(odd)
                ))
            }
            Value::String(text) if self.is_bytes() => {
                let decodes = openssl::base64::decode_block(text).is_ok();
                (!decodes).then(|| "illegal base64 data at input byte 0".to_owned())
            }
            Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                match self.child(name) {
                    Child::Declared(schema) => schema.decode_error_at(value, owner, &path),
                    // A decoder doesn't tell the key of a map.
                    Child::Element(schema) => {
                        schema.decode_error_at(value, owner, &path[..path.len() - name.len() - 1])
                    }
                    Child::Untyped | Child::Undeclared => None,
                }
            }),
            Value::Array(items) => {
                let schema = self.items.as_deref()?;
                items
                    .iter()
                    .find_map(|item| schema.decode_error_at(item, owner, path))
            }
            _ => None,
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        if self.is_quantity() || (self.is_bytes() && value.is_array()) {
            return true;
        }
        if self.int_or_string {
            return value.is_string() || value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
        }
        match self.kind {
            Some(JsonType::String) => value.is_string(),
            Some(JsonType::Integer) if self.checks.format.as_deref() == Some("int32") => {
                value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            Some(JsonType::Integer) => value.is_i64() || value.is_u64(),
            Some(JsonType::Number) => value.is_number(),
            Some(JsonType::Boolean) => value.is_boolean(),
            Some(JsonType::Array) => value.is_array(),
            Some(JsonType::Object) => value.is_object(),
            None => true,
        }
    }

    /// Names a value that doesn't fit; a number that should be another is shown.
    fn json_name(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Some(JsonType::Integer), Value::Number(number)) => format!("number {number}"),
            (_, Value::Number(number)) if self.int_or_string => format!("number {number}"),
            _ => json_name(value).to_owned(),
        }
    }

    pub(super) fn is_bytes(&self) -> bool {
        self.checks.format.as_deref() == Some("byte")
    }

    /// Whether this is a `resource.Quantity`, which may be written as a number.
    pub(in super::super) fn is_quantity(&self) -> bool {
        self.type_name.as_deref() == Some("Quantity")
    }

    fn go_type(&self) -> String {
        let format = self.checks.format.as_deref();
        match (self.kind, &self.type_name) {
            (Some(JsonType::Object | JsonType::String), Some(name)) => name.to_string(),
            (Some(JsonType::Object), None) => "map[string]string".to_owned(),
            (Some(JsonType::Array), _) => {
                format!(
                    "[]{}",
                    self.items.as_deref().map(Self::go_type).unwrap_or_default()
                )
            }
            (Some(JsonType::Integer), _) => format.unwrap_or("int").to_owned(),
            (Some(JsonType::Number), _) => "float64".to_owned(),
            (Some(JsonType::Boolean), _) => "bool".to_owned(),
            (Some(JsonType::String), None) if self.is_bytes() => "[]uint8".to_owned(),
            (Some(JsonType::String), None) => "string".to_owned(),
            (None, _) => "intstr.IntOrString".to_owned(),
        }
    }
}

const fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
