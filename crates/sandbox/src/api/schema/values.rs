//! What a schema does to a value before it is validated: nulls, defaults, pruning.

use serde_json::{Map, Value, json};

use super::super::builtin::canonical;
use super::super::object_meta;
use super::{Additional, Child, JsonType, Schema};

impl Schema {
    /// Fills in defaults, also where a null stands that the schema doesn't allow.
    pub fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.default_fields(fields),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.default_in_place(item);
                }
            }
            _ => {}
        }
    }

    fn default_fields(&self, fields: &mut Map<String, Value>) {
        for (name, property) in &self.properties {
            let Some(default) = &property.default else {
                continue;
            };
            match fields.get(name) {
                Some(Value::Null) if !property.nullable => {}
                Some(_) => continue,
                None => {}
            }
            fields.insert(name.clone(), default.clone());
        }
        for (name, value) in fields {
            if let Some(schema) = self.child(name).schema() {
                schema.default_in_place(value);
            }
        }
    }

    fn default_in_place(&self, value: &mut Value) {
        if value.is_null()
            && !self.nullable
            && let Some(default) = &self.default
        {
            *value = default.clone();
        }
        self.fill_defaults(value);
    }

    /// Drops nulls from fields that are neither nullable nor have a default.
    pub fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| {
                    let schema = self.child(name).schema();
                    !(value.is_null()
                        && schema.is_some_and(|schema| !schema.nullable && schema.default.is_none()))
                });
                for (name, value) in fields {
                    if let Some(schema) = self.child(name).schema() {
                        schema.drop_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.drop_nulls(item);
                }
            }
            _ => {}
        }
    }

    /// Puts empty text where a map or a list of texts has a null, or of bytes a list without any, as a decoder of Go
    /// types does.
    pub fn zero_nulls(&self, value: &mut Value) {
        let zero = |schema: Option<&Self>, value: &mut Value| {
            let Some(schema) = schema else { return };
            let nothing = value.is_null() || (schema.is_bytes() && value.is_array());
            if nothing && schema.kind == Some(JsonType::String) {
                *value = json!("");
            }
            schema.zero_nulls(value);
        };
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match self.child(name) {
                        Child::Declared(schema) => schema.zero_nulls(value),
                        child => zero(child.schema(), value),
                    }
                }
            }
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| zero(self.items.as_deref(), item)),
            _ => {}
        }
    }

    /// Writes amounts in their canonical form.
    pub fn canonical_quantities(&self, value: &mut Value) {
        if self.is_quantity() {
            let text = match &*value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if let Some(canonical) = canonical(&text) {
                *value = canonical.into();
            }
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(schema) = self.child(name).schema() {
                        schema.canonical_quantities(value);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.canonical_quantities(item);
                }
            }
            _ => {}
        }
    }

    /// Drops zeros that a Go type doesn't tell from nothing.
    pub fn drop_zeros(&self, value: &mut Value) {
        let is_zero = |value: &Value| value == &json!(0) || value == &json!("") || value == &json!(false);
        self.drop_fields(value, &|_, schema, _, value| schema.omit_zero && is_zero(value));
    }

    /// Drops maps and lists that are empty, as the encoder of Go types does with all but required ones.
    pub fn drop_empty(&self, value: &mut Value) {
        self.drop_fields(value, &|parent, schema, name, value| match value {
            Value::Object(fields) => {
                let is_map = schema.properties.is_empty() && matches!(schema.additional, Additional::Of(_));
                is_map && fields.is_empty()
            }
            Value::Array(items) => items.is_empty() && !parent.checks.required.contains(name),
            _ => false,
        });
    }

    /// Leaves out what is empty in the metadata of embedded objects.
    pub fn tidy_embedded(&self, value: &mut Value) {
        if self.embedded {
            object_meta::tidy(value);
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(schema) = self.child(name).schema() {
                        schema.tidy_embedded(value);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.tidy_embedded(item);
                }
            }
            _ => {}
        }
    }

    /// Drops properties by their parent's schema, their own, their name and their value.
    fn drop_fields(&self, value: &mut Value, drop: &impl Fn(&Self, &Self, &String, &Value) -> bool) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| {
                    let schema = self.properties.get(name);
                    !schema.is_some_and(|schema| drop(self, schema, name, value))
                });
                for (name, value) in fields {
                    if let Some(schema) = self.child(name).schema() {
                        schema.drop_fields(value, drop);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.drop_fields(item, drop);
                }
            }
            _ => {}
        }
    }

    /// Drops the fields that the schema doesn't know and returns their paths, sorted: `spec.foo`, `spec.list[0].bar`.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_at(value, "", &mut unknown);
        unknown.sort();
        unknown
    }

    /// Returns the paths of the fields that the schema doesn't know, without dropping them.
    pub fn unknown_fields(&self, value: &Value) -> Vec<String> {
        self.prune(&mut value.clone())
    }

    fn prune_at(&self, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let join = |name: &str| {
                    if path.is_empty() {
                        name.to_owned()
                    } else {
                        format!("{path}.{name}")
                    }
                };
                fields.retain(|name, _| {
                    let known = !matches!(self.child(name), Child::Undeclared);
                    if !known {
                        unknown.push(join(name));
                    }
                    known
                });
                for (name, value) in fields {
                    if let Some(schema) = self.child(name).schema() {
                        schema.prune_at(value, &join(name), unknown);
                    }
                }
            }
            Value::Array(items) => {
                // A list where none is expected knows no fields.
                let unexpected = Self::default();
                let schema = match &self.items {
                    Some(schema) => schema,
                    None if self.preserve_unknown => return,
                    None => &unexpected,
                };
                for (index, item) in items.iter_mut().enumerate() {
                    schema.prune_at(item, &format!("{path}[{index}]"), unknown);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a whole number is written with a fraction somewhere.
pub fn has_fractions_of_nothing(value: &Value) -> bool {
    match value {
        Value::Number(number) => number
            .as_f64()
            .is_some_and(|float| number.is_f64() && float.fract() == 0.0),
        Value::Object(fields) => fields.values().any(has_fractions_of_nothing),
        Value::Array(items) => items.iter().any(has_fractions_of_nothing),
        _ => false,
    }
}

/// Writes whole numbers without a fraction, as Go does.
pub fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            // Within this all whole numbers are exact.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            let float = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() < EXACT);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and within the bounds"
            )]
            if let Some(float) = float {
                *value = Value::from(float as i64);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema::of_crd(&json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "replicas": {"type": "integer", "default": 1},
                        "note": {"type": "string"},
                        "hint": {"type": "string", "nullable": true},
                        "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "rules": {"type": "array", "items": {"type": "object", "properties": {
                            "name": {"type": "string"},
                            "weight": {"type": "integer", "default": 100},
                        }}},
                        "byName": {"type": "object", "additionalProperties": {
                            "type": "object", "properties": {"on": {"type": "boolean", "default": true}},
                        }},
                    },
                },
            },
        }))
        .unwrap()
    }

    #[test]
    fn defaults_fill_what_is_missing_at_every_depth() {
        let mut object = json!({"spec": {"rules": [{"name": "a"}, {"weight": 3}], "byName": {"x": {}}}});
        schema().fill_defaults(&mut object);
        assert_eq!(
            object,
            json!({"spec": {
                "replicas": 1,
                "rules": [{"name": "a", "weight": 100}, {"weight": 3}],
                "byName": {"x": {"on": true}},
            }})
        );
        let mut empty = json!({});
        schema().fill_defaults(&mut empty);
        assert_eq!(
            empty,
            json!({"spec": {"replicas": 1}}),
            "a default has defaults too"
        );
    }

    #[test]
    fn a_null_is_replaced_by_the_default_or_dropped_unless_it_is_allowed() {
        let mut object =
            json!({"spec": {"replicas": null, "note": null, "hint": null, "byName": {"x": null}}});
        schema().drop_nulls(&mut object);
        schema().fill_defaults(&mut object);
        assert_eq!(
            object,
            json!({"spec": {"replicas": 1, "hint": null, "byName": {}}})
        );
    }

    #[test]
    fn unknown_fields_are_pruned_and_told_except_where_they_are_preserved() {
        let mut object = json!({
            "apiVersion": "x/v1", "kind": "X",
            "metadata": {"name": "a", "labels": {"any": "thing"}, "colour": "red"},
            "spec": {"foo": 1, "template": {"any": {"thing": 1}}, "rules": [{"name": "a", "bar": 2}]},
            "extra": true,
        });
        let unknown = schema().prune(&mut object);
        assert_eq!(
            unknown,
            ["extra", "metadata.colour", "spec.foo", "spec.rules[0].bar"]
        );
        assert_eq!(
            object,
            json!({
                "apiVersion": "x/v1", "kind": "X",
                "metadata": {"name": "a", "labels": {"any": "thing"}},
                "spec": {"template": {"any": {"thing": 1}}, "rules": [{"name": "a"}]},
            })
        );
    }
}
