//! `x-kubernetes-validations`: rules in CEL, compiled when a CRD is installed.
//!
//! What the interpreter lacks of Kubernetes' CEL is refused when the CRD is installed, not ignored. There is no cost
//! budget, and `self` has no type before it is there: a rule that a real server refuses for the types of its fields
//! fails here when it is evaluated.

use std::sync::Arc;

use ::cel::Context;
use ::cel::objects::OptionalValue;
use serde_json::Value;

use super::super::cel::{self as language, Expression, Scope};
use super::{Additional, FieldError, JsonType, ListType, Mistake, Schema};

/// One compiled rule.
#[derive(Clone, Debug)]
pub struct Rule {
    program: Expression,
    source: String,
    message: Option<String>,
    message_expression: Option<Expression>,
    reason: Mistake,
    /// Where the error is told, below the node of the rule: `.spec.foo`.
    field_path: String,
    /// Whether the rule speaks of `oldSelf`.
    transition: bool,
    optional_old_self: bool,
}

/// Why a rule could not be compiled, and in which of its fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct RuleError {
    pub field: &'static str,
    pub reason: String,
}

impl Rule {
    pub(super) fn compile(source: &Value) -> Result<Self, RuleError> {
        let text = |name: &str| {
            source
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.trim().is_empty())
        };
        let rule = text("rule").ok_or_else(|| RuleError {
            field: "rule",
            reason: "rule is not specified".into(),
        })?;
        let optional_old_self = source
            .get("optionalOldSelf")
            .and_then(Value::as_bool)
            .unwrap_or_default();
        let old_self = if optional_old_self { "optional(dyn)" } else { "dyn" };
        let scope = Scope::default().with("self", "dyn").with("oldSelf", old_self);
        let program = compile("rule", rule, &scope)?;
        let message_expression = text("messageExpression")
            .map(|expression| compile("messageExpression", expression, &scope))
            .transpose()?;
        let reason = match text("reason") {
            Some("FieldValueRequired") => Mistake::Required,
            Some("FieldValueForbidden") => Mistake::Forbidden,
            Some("FieldValueDuplicate") => Mistake::Duplicate,
            _ => Mistake::Invalid,
        };
        Ok(Self {
            transition: program.mentions("oldSelf"),
            program,
            source: rule.trim().to_owned(),
            message: text("message").map(|message| message.trim().to_owned()),
            message_expression,
            reason,
            field_path: text("fieldPath").unwrap_or_default().to_owned(),
            optional_old_self,
        })
    }

    fn check(
        &self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        unchanged: bool,
        path: &str,
    ) -> Option<FieldError> {
        // A transition rule says nothing about what is new.
        if self.transition && old.is_none() && !self.optional_old_self {
            return None;
        }
        let mut context = language::context();
        context.add_variable_from_value("self", cel_value(value, Some(schema)));
        let old = old.map(|old| cel_value(old, Some(schema)));
        if self.optional_old_self {
            let old = old.map_or_else(OptionalValue::none, OptionalValue::of);
            context.add_variable_from_value("oldSelf", ::cel::Value::Opaque(Arc::new(old)));
        } else if let Some(old) = old {
            context.add_variable_from_value("oldSelf", old);
        }
        let kind = schema.kind.map_or("", JsonType::name);
        let outcome = self.program.evaluate(&context);
        match outcome.as_ref().map(|outcome| language::truth(outcome.as_ref())) {
            Ok(Some(true)) => None,
            // What was broken before may stay so; a rule that compares is always heard.
            Ok(Some(false)) if unchanged && !self.transition => None,
            Ok(Some(false)) => Some(self.broken(value, path, &context)),
            Ok(None) => {
                let detail = format!("rule does not evaluate to bool: {}", self.title());
                Some(FieldError::invalid(path, kind, detail))
            }
            Err(error) => {
                let detail = format!("{error} evaluating rule: {}", self.title());
                Some(FieldError::invalid(path, kind, detail))
            }
        }
    }

    fn broken(&self, value: &Value, path: &str, context: &Context<'_, 'static>) -> FieldError {
        let expressed = self.message_expression.as_ref().and_then(|expression| {
            let value = expression.evaluate(context).ok()?;
            let text = language::text(value.as_ref())?.trim();
            (!text.is_empty() && !text.contains('\n')).then(|| text.to_owned())
        });
        let detail = expressed
            .or_else(|| self.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", self.source));
        let field = format!("{path}{}", self.field_path);
        let field = field.trim_start_matches('.');
        let value = match self.reason {
            Mistake::Required | Mistake::Forbidden => None,
            _ => Some(value.clone()).filter(|value| !value.is_object() && !value.is_array()),
        };
        let detail = if self.reason == Mistake::Duplicate {
            String::new()
        } else {
            detail
        };
        FieldError::new(self.reason, field, value, detail)
    }

    fn title(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }
}

impl Schema {
    /// Runs the rules of a value and of what is in it; `unchanged` says whether what it is part of is as it was.
    pub(super) fn run_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        unchanged: bool,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        if value.is_null() {
            return;
        }
        let unchanged = old.map_or(unchanged, |old| old == value);
        errors.extend(
            self.rules
                .iter()
                .filter_map(|rule| rule.check(self, value, old, unchanged, path)),
        );
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(property) = self.properties.get(name) {
                        let path = if path.is_empty() {
                            name.clone()
                        } else {
                            format!("{path}.{name}")
                        };
                        property.run_rules(value, old, unchanged, &path, errors);
                    } else if let Additional::Of(schema) = &self.additional {
                        schema.run_rules(value, old, unchanged, &format!("{path}[{name}]"), errors);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| self.counterpart(item, old));
                    schema.run_rules(item, old, unchanged, &format!("{path}[{index}]"), errors);
                }
            }
            _ => {}
        }
    }

    /// The item of the old list that has the same keys; only keyed lists can tell.
    pub(super) fn counterpart<'a>(&self, item: &Value, old: &'a Value) -> Option<&'a Value> {
        let ListType::Map(keys) = &self.list else {
            return None;
        };
        old.as_array()?
            .iter()
            .find(|other| keys.iter().all(|key| other.get(key) == item.get(key)))
    }
}

fn compile(field: &'static str, source: &str, scope: &Scope) -> Result<Expression, RuleError> {
    Expression::compile(source, scope).map_err(|reason| RuleError { field, reason })
}

/// Converts with the schema's types: a whole number is a double where the schema says `number`.
fn cel_value(value: &Value, schema: Option<&Schema>) -> ::cel::Value {
    match value {
        Value::Null => ::cel::Value::Null,
        Value::Bool(bool) => ::cel::Value::Bool(*bool),
        Value::Number(number) => {
            let is_double = schema.and_then(|schema| schema.kind) == Some(JsonType::Number);
            match number.as_i64() {
                Some(whole) if !is_double => ::cel::Value::Int(whole),
                _ => ::cel::Value::Float(number.as_f64().unwrap_or_default()),
            }
        }
        Value::String(text) => ::cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            ::cel::Value::List(Arc::new(
                items.iter().map(|item| cel_value(item, schema)).collect(),
            ))
        }
        Value::Object(fields) => {
            let entries = fields.iter().map(|(name, value)| {
                let child = schema.map(|schema| schema.child(name));
                let name = match child {
                    Some(super::Child::Declared(_)) => escaped(name),
                    _ => name.clone(),
                };
                (name, cel_value(value, child.and_then(super::Child::schema)))
            });
            let map: std::collections::HashMap<String, ::cel::Value> = entries.collect();
            ::cel::Value::from(map)
        }
    }
}

/// Property names that are no CEL identifiers are written differently in rules.
fn escaped(name: &str) -> String {
    if language::RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::aggregate;
    use super::*;

    fn schema(spec: &Value) -> Schema {
        Schema::of_crd(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
    }

    fn errors(schema: &Schema, new: Value, old: Option<Value>) -> Vec<String> {
        let object =
            |spec: Value| json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "spec": spec});
        let old = old.map(object);
        schema
            .validate(&object(new), old.as_ref())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_broken_rule_is_told_with_its_message_or_its_text() {
        let schema = schema(&json!({"type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "kind": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "min must not exceed max"},
            {"rule": "!has(self.kind) || self.kind in ['a', 'b']", "fieldPath": ".kind",
             "reason": "FieldValueForbidden", "messageExpression": "'no ' + self.kind"},
        ]}));
        assert_eq!(
            errors(&schema, json!({"min": 1, "max": 2, "kind": "a"}), None),
            [""; 0]
        );
        assert_eq!(
            errors(&schema, json!({"min": 3, "max": 2, "kind": "c"}), None),
            [
                "spec: Invalid value: min must not exceed max",
                "spec.kind: Forbidden: no c"
            ]
        );
        assert_eq!(
            errors(&schema, json!({"max": 2}), None),
            ["spec: Invalid value: \"object\": no such key: min evaluating rule: min must not exceed max"]
        );
    }

    #[test]
    fn a_transition_rule_compares_with_what_was_there_and_is_silent_about_new_objects() {
        let schema = schema(&json!({"type": "object", "properties": {
            "cluster": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "cluster is immutable"}]},
            "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "self.weight >= oldSelf.weight"}]}},
        }}));
        assert_eq!(errors(&schema, json!({"cluster": "a"}), None), [""; 0]);
        assert_eq!(
            errors(&schema, json!({"cluster": "b"}), Some(json!({"cluster": "a"}))),
            ["spec.cluster: Invalid value: \"b\": cluster is immutable"]
        );
        let old = json!({"rules": [{"name": "x", "weight": 2}, {"name": "y", "weight": 2}]});
        let new = json!({"rules": [{"name": "z", "weight": 0}, {"name": "y", "weight": 1}]});
        assert_eq!(
            errors(&schema, new, Some(old)),
            ["spec.rules[1]: Invalid value: failed rule: self.weight >= oldSelf.weight"]
        );
    }

    #[test]
    fn an_optional_old_self_lets_a_rule_speak_of_creation() {
        let schema = schema(&json!({"type": "object", "properties": {"n": {"type": "integer",
            "x-kubernetes-validations": [
                {"rule": "self >= oldSelf.orValue(5)", "optionalOldSelf": true, "message": "too small"}]}}}));
        assert_eq!(errors(&schema, json!({"n": 5}), None), [""; 0]);
        assert_eq!(
            errors(&schema, json!({"n": 4}), None),
            ["spec.n: Invalid value: 4: too small"]
        );
        assert_eq!(errors(&schema, json!({"n": 2}), Some(json!({"n": 2}))), [""; 0]);
    }

    #[test]
    fn a_rule_that_was_broken_before_lets_what_is_unchanged_pass() {
        let schema = schema(&json!({"type": "object", "properties": {
            "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5", "message": "small"}]},
            "b": {"type": "integer"},
        }}));
        let old = json!({"a": 1, "b": 1});
        assert_eq!(
            errors(&schema, json!({"a": 1, "b": 2}), Some(old.clone())),
            [""; 0]
        );
        assert_eq!(
            errors(&schema, json!({"a": 2, "b": 1}), Some(old)),
            ["spec.a: Invalid value: 2: small"]
        );
    }

    #[test]
    fn names_that_are_no_identifiers_are_escaped() {
        let schema = schema(&json!({"type": "object",
            "properties": {"namespace": {"type": "string"}, "x-y": {"type": "integer"}, "f": {"type": "number"}},
            "x-kubernetes-validations": [
                {"rule": "self.__namespace__ == 'n' && self.x__dash__y == 1 && self.f > 0.5"}]}));
        assert_eq!(
            errors(&schema, json!({"namespace": "n", "x-y": 1, "f": 1}), None),
            [""; 0]
        );
    }

    #[test]
    fn a_rule_that_cannot_be_evaluated_is_refused_at_installation() {
        let refused = |rule: &str| {
            let schema = json!({"type": "object", "properties": {"spec": {"type": "string",
                "x-kubernetes-validations": [{"rule": rule}]}}});
            aggregate(&Schema::of_crd(&schema).unwrap_err())
        };
        let refusal = refused("duration(self) > duration('1m')");
        assert!(refusal.starts_with(
            "properties[spec].x-kubernetes-validations[0].rule: Invalid value: \"duration(self) > duration('1m')\": \
             compilation failed: ERROR: <input>:1:9: the sandbox does not evaluate 'duration'"
        ));
        assert!(refused("self.foo == other").contains("undeclared reference to 'other' (in container '')"));
        assert!(refused("self ==").contains("compilation failed"));
    }
}
