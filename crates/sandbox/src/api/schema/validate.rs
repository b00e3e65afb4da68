//! Validation of a value against a schema, with a kube-apiserver's messages and paths.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::{Additional, Bound, Checks, FieldError, JsonType, ListType, Mistake, Schema};

impl Schema {
    /// Validates an object; `old` is what it replaces, for transition rules, and because what is wrong with a part that
    /// stays as it was is let pass.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_at(object, old, "")
    }

    /// Validates an object but for its rules.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.check_values(object, old, "");
        self.embedded(object, "", &mut errors);
        errors
    }

    /// Checks what is checked of anything, also of what isn't of the kind.
    pub fn check_structure(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check_unique_items(object, old, "", &mut errors);
        self.embedded(object, "", &mut errors);
        errors
    }

    /// Validates the status of an object, which is checked by itself: messages don't name where it stands.
    pub fn check_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let (before, after) = (old.and_then(|old| old.get("status")), object.get("status"));
        let after = after.filter(|status| !status.is_null());
        if let (Some(status), Some(schema)) = (after, self.child("status").schema()) {
            errors = schema.outcome(status, before, "").errors;
        }
        for error in &mut errors {
            error.field = match error.field.as_str() {
                "<nil>" | "" => "status".to_owned(),
                field => format!("status.{field}"),
            };
        }
        self.check_unique_items(object, old, "", &mut errors);
        errors
    }

    /// Runs the rules of a schema on an object that is valid otherwise.
    pub fn check_rules(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.run_rules(object, old, false, "", &mut errors);
        errors
    }

    /// Returns whether there is a rule anywhere in the schema.
    pub fn has_rules(&self) -> bool {
        let element = match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        };
        !self.rules.is_empty()
            || self
                .properties
                .values()
                .chain(&self.items)
                .chain(element)
                .any(|schema| schema.has_rules())
    }

    /// Checks that embedded objects say what they are.
    fn embedded(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        match value {
            Value::Object(fields) => {
                if self.embedded {
                    for name in ["apiVersion", "kind"] {
                        if fields.get(name).is_none_or(|value| value == "") {
                            errors.push(FieldError::required(join(path, name), ""));
                        }
                    }
                }
                let version = fields
                    .get("apiVersion")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if self.embedded && version.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {version}");
                    errors.push(FieldError::invalid(join(path, "apiVersion"), version, detail));
                }
                for (name, value) in fields {
                    if let Some(schema) = self.child(name).schema() {
                        schema.embedded(value, &join(path, name), errors);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    schema.embedded(item, &format!("{path}[{index}]"), errors);
                }
            }
            _ => {}
        }
    }

    pub(super) fn validate_at(&self, value: &Value, old: Option<&Value>, path: &str) -> Vec<FieldError> {
        let mut errors = self.check_values(value, old, path);
        // Rules may rely on what the schema says: they run on values that are valid otherwise.
        if errors.is_empty() {
            self.run_rules(value, old, false, path, &mut errors);
        }
        errors
    }

    fn check_values(&self, value: &Value, old: Option<&Value>, path: &str) -> Vec<FieldError> {
        let mut errors = self.outcome(value, old, path).errors;
        self.check_unique_items(value, old, path, &mut errors);
        errors
    }

    /// Checks for what repeats where nothing did before.
    fn check_unique_items(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let mut repeated = Vec::new();
        if let Some(old) = old {
            self.unique_items(old, path, &mut repeated);
        }
        if repeated.is_empty() {
            self.unique_items(value, path, errors);
        }
    }

    fn outcome(&self, value: &Value, old: Option<&Value>, path: &str) -> Outcome {
        let mut outcome = self.outcome_of(value, old, path);
        if old == Some(value) {
            outcome.errors.clear();
        }
        outcome
    }

    fn outcome_of(&self, value: &Value, old: Option<&Value>, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.check(self.check_type(value, path));
        if value.is_null() {
            outcome.check(self.check_allowed(value, path));
            return outcome;
        }
        self.check_junctors(value, path, &mut outcome);
        match value {
            Value::String(text) => outcome.check(self.checks.check_text(text, path)),
            Value::Number(_) => {
                outcome.check(self.check_range(value, path));
                outcome.check(self.check_number(value, path));
            }
            Value::Array(items) => self.check_items(items, old, path, &mut outcome),
            _ => {}
        }
        outcome.check(self.check_allowed(value, path));
        if let Value::Object(fields) = value {
            self.check_fields(fields, old, path, &mut outcome);
        }
        outcome
    }

    fn check_type(&self, value: &Value, path: &str) -> Option<FieldError> {
        let expected = if self.int_or_string {
            "integer,string"
        } else {
            self.kind?.name()
        };
        if value.is_null() {
            return (!self.nullable).then(|| type_error(path, expected, "null"));
        }
        let actual = type_of(value);
        let is_whole =
            actual == JsonType::Integer || value.as_f64().is_some_and(|float| float.fract() == 0.0);
        let is_numeric =
            self.int_or_string || matches!(self.kind, Some(JsonType::Integer | JsonType::Number));
        let fits = match self.kind {
            // A format decides about texts later, and about lists never.
            _ if self.checks.format.is_some() && !is_numeric && (value.is_string() || value.is_array()) => {
                true
            }
            _ if self.int_or_string => is_whole || actual == JsonType::String,
            Some(JsonType::Number) => value.is_number(),
            Some(JsonType::Integer) => is_whole,
            Some(kind) => kind == actual,
            None => true,
        };
        if fits {
            return None;
        }
        // Where there is a format, a value that is neither text nor list is told to miss the format.
        match (self.checks.format.as_deref(), value) {
            (Some(format), Value::Number(_)) => Some(type_error(path, format, float_or_int(value))),
            (Some(format), Value::Bool(_) | Value::Object(_)) => Some(type_error(path, format, "")),
            _ => Some(type_error(path, expected, actual.name())),
        }
    }

    /// Refuses numbers that a Go integer of the field's format couldn't hold.
    fn check_range(&self, value: &Value, path: &str) -> Option<FieldError> {
        let format = self
            .checks
            .format
            .as_deref()
            .filter(|format| matches!(*format, "int32" | "int64"));
        let number = value.as_f64()?;
        let is_whole = number.fract() == 0.0;
        let holds = match format {
            Some("int32") => is_whole && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
            _ => is_whole && value.as_u64().is_none_or(|number| i64::try_from(number).is_ok()),
        };
        if holds || self.kind != Some(JsonType::Integer) {
            return None;
        }
        let format = format.map_or_else(
            || "(default format)".to_owned(),
            |format| format!("with format {format}"),
        );
        let text = format!("Checked value must be of type integer {format} in {path}");
        Some(FieldError::invalid("", "", text))
    }

    fn check_allowed(&self, value: &Value, path: &str) -> Option<FieldError> {
        let allowed = self.checks.allowed.as_ref()?;
        if allowed.iter().any(|candidate| same(candidate, value)) {
            return None;
        }
        let texts: Vec<String> = allowed
            .iter()
            .map(|candidate| {
                candidate
                    .as_str()
                    .map_or_else(|| candidate.to_string(), str::to_owned)
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        Some(FieldError::not_supported(path, value.clone(), &texts))
    }

    fn check_number(&self, value: &Value, path: &str) -> Option<FieldError> {
        let number = value.as_f64()?;
        let checks = &self.checks;
        let invalid = |text: String| {
            Some(FieldError::invalid(
                path,
                value.clone(),
                format!("{path} in body {text}"),
            ))
        };
        if let Some(factor) = checks.multiple_of
            && (number / factor).fract().abs() > f64::EPSILON
        {
            return invalid(format!("should be a multiple of {factor}"));
        }
        // Whole numbers are compared with whole bounds.
        let whole = |bound: f64| if value.is_f64() { bound } else { bound.trunc() };
        if let Some(Bound {
            value: minimum,
            exclusive,
        }) = checks.minimum
        {
            let minimum = whole(minimum);
            if exclusive && number <= minimum {
                return invalid(format!("should be greater than {minimum}"));
            }
            if number < minimum {
                return invalid(format!("should be greater than or equal to {minimum}"));
            }
        }
        if let Some(Bound {
            value: maximum,
            exclusive,
        }) = checks.maximum
        {
            let maximum = whole(maximum);
            if exclusive && number >= maximum {
                return invalid(format!("should be less than {maximum}"));
            }
            if number > maximum {
                return invalid(format!("should be less than or equal to {maximum}"));
            }
        }
        None
    }

    fn check_items(&self, items: &[Value], old: Option<&Value>, path: &str, outcome: &mut Outcome) {
        if let Some(schema) = &self.items {
            for (index, item) in items.iter().enumerate() {
                let old = old.and_then(|old| self.counterpart(item, old));
                outcome.merge(schema.outcome(item, old, &format!("{path}[{index}]")));
            }
        }
        let size = items.len() as u64;
        let checks = &self.checks;
        if let Some(min) = checks.min_items.filter(|min| size < *min) {
            let detail = format!("{path} in body should have at least {min} items");
            outcome.errors.push(FieldError::invalid(path, size, detail));
        }
        if let Some(max) = checks.max_items.filter(|max| size > *max) {
            outcome.errors.push(FieldError::too_many(path, size, max));
        }
        let repeated = || {
            items
                .iter()
                .enumerate()
                .any(|(index, item)| items[..index].contains(item))
        };
        if checks.unique_items && repeated() {
            let detail = format!("{path} in body shouldn't contain duplicates");
            outcome.errors.push(FieldError::invalid(path, "", detail));
        }
        outcome.matched += 1;
    }

    fn check_fields(
        &self,
        fields: &Map<String, Value>,
        old: Option<&Value>,
        path: &str,
        outcome: &mut Outcome,
    ) {
        let size = fields.len() as u64;
        let checks = &self.checks;
        if let Some(min) = checks.min_properties.filter(|min| size < *min) {
            let detail = format!("{path} in body should have at least {min} properties");
            outcome.errors.push(FieldError::invalid(path, size, detail));
        }
        if let Some(max) = checks.max_properties.filter(|max| size > *max) {
            outcome.errors.push(FieldError::too_many(path, size, max));
        }
        // The type of the whole object is that of the request: it can't have been wrong before.
        let before = |name: &str| {
            let of_type = path.is_empty() && matches!(name, "apiVersion" | "kind");
            old.filter(|_| !of_type)?.get(name)
        };
        for (name, value) in fields {
            if let Some(property) = self.properties.get(name) {
                outcome.merge(property.outcome(value, before(name), &join(path, name)));
                continue;
            }
            match &self.additional {
                Additional::Of(schema) => {
                    outcome.merge(schema.outcome(value, before(name), &join(path, name)));
                }
                Additional::Forbidden => {
                    let detail = format!("{path}.{name} in body is a forbidden property");
                    outcome
                        .errors
                        .push(FieldError::invalid(path, name.as_str(), detail));
                }
                Additional::Unsaid | Additional::Any => {}
            }
        }
        for name in checks.required.iter().filter(|name| !fields.contains_key(*name)) {
            outcome.errors.push(FieldError::required(join(path, name), ""));
        }
        outcome.matched += 1;
    }

    fn check_junctors(&self, value: &Value, path: &str, outcome: &mut Outcome) {
        let checks = &self.checks;
        let whole = |text: String| FieldError::invalid("", "", text);
        if !checks.any_of.is_empty() {
            let (valid, best) = try_all(&checks.any_of, value, path);
            if valid == 0 {
                outcome.errors.push(whole(format!(
                    "{path:?} must validate at least one schema (anyOf)"
                )));
            }
            outcome.merge(best);
        }
        if !checks.one_of.is_empty() {
            let (valid, best) = try_all(&checks.one_of, value, path);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    _ => format!("Found {valid} valid alternatives"),
                };
                let text = format!("{path:?} must validate one and only one schema (oneOf). {found}");
                outcome.errors.push(whole(text));
            }
            outcome.merge(best);
        }
        if !checks.all_of.is_empty() {
            let mut valid = 0;
            for schema in &checks.all_of {
                let branch = schema.outcome(value, None, path);
                valid += usize::from(branch.errors.is_empty());
                outcome.merge(branch);
            }
            if valid != checks.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.errors.push(whole(format!(
                    "{path:?} must validate all the schemas (allOf){none}"
                )));
            }
        }
        if let Some(not) = &checks.not
            && not.outcome(value, None, path).errors.is_empty()
        {
            outcome
                .errors
                .push(whole(format!("{path:?} must not validate the schema (not)")));
        }
        outcome.matched += 1;
    }

    /// Checks that lists which are sets or maps hold nothing twice.
    fn unique_items(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    // Metadata has checks of its own.
                    if name == "metadata" && (path.is_empty() || self.embedded) {
                        continue;
                    }
                    if let Some(property) = self.properties.get(name) {
                        property.unique_items(value, &join(path, name), errors);
                    } else if let Additional::Of(schema) = &self.additional {
                        schema.unique_items(value, &format!("{path}[{name}]"), errors);
                    }
                }
            }
            Value::Array(items) => {
                self.repeated(items, path, errors);
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter().enumerate() {
                    schema.unique_items(item, &format!("{path}[{index}]"), errors);
                }
            }
            _ => {}
        }
    }

    fn repeated(&self, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
        let keys: Vec<Value> = match &self.list {
            ListType::Atomic => return,
            ListType::Set => items.to_vec(),
            ListType::Map(keys) => {
                let stray = items.iter().position(|item| !item.is_object() && !item.is_null());
                if let Some(index) = stray {
                    let detail = "must be an object for an array of list-type map";
                    errors.push(FieldError::invalid(
                        format!("{path}[{index}]"),
                        items[index].clone(),
                        detail,
                    ));
                    return;
                }
                items.iter().map(|item| key_of(item, keys)).collect()
            }
        };
        for (index, key) in keys.iter().enumerate() {
            // Told once, where it first repeats.
            if keys[..index].iter().filter(|other| *other == key).count() == 1 {
                errors.push(FieldError::duplicate(format!("{path}[{index}]"), key.clone()));
            }
        }
    }
}

impl Checks {
    fn check_text(&self, text: &str, path: &str) -> Option<FieldError> {
        let length = || text.chars().count() as u64;
        let invalid = |what: String| Some(FieldError::invalid(path, text, format!("{path} in body {what}")));
        if let Some(max) = self.max_length.filter(|max| length() > *max) {
            return Some(FieldError::too_long(path, max));
        }
        if let Some(min) = self.min_length.filter(|min| length() < *min) {
            return invalid(format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            return invalid(format!("should match '{pattern}'"));
        }
        let format = self.format.as_deref()?;
        if has_format(text, format) {
            return None;
        }
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        Some(FieldError::new(
            Mistake::TypeInvalid,
            path,
            Some(json!(text)),
            detail,
        ))
    }
}

/// Errors, and how many checks a value has passed: of several alternatives the nearest is told.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matched: usize,
}

impl Outcome {
    fn check(&mut self, error: Option<FieldError>) {
        match error {
            Some(error) => self.errors.push(error),
            None => self.matched += 1,
        }
    }

    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matched += other.matched;
    }
}

/// Returns how many alternatives accept the value and, if none does, the outcome of the nearest.
fn try_all(alternatives: &[Schema], value: &Value, path: &str) -> (usize, Outcome) {
    let mut valid = 0;
    let mut best: Option<Outcome> = None;
    for schema in alternatives {
        let outcome = schema.outcome(value, None, path);
        if outcome.errors.is_empty() {
            valid += 1;
        } else if best.as_ref().is_none_or(|best| outcome.matched > best.matched) {
            best = Some(outcome);
        }
    }
    let best = best.filter(|_| valid == 0).unwrap_or_default();
    (valid, best)
}

/// The key fields of an item of a keyed list, as an object.
fn key_of(item: &Value, keys: &[String]) -> Value {
    let fields = keys
        .iter()
        .filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
    Value::Object(fields.collect())
}

fn type_error(path: &str, expected: &str, actual: &str) -> FieldError {
    let detail = format!("{path} in body must be of type {expected}: {actual:?}");
    FieldError::new(Mistake::TypeInvalid, path, Some(json!(actual)), detail)
}

fn float_or_int(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        _ => "int64",
    }
}

fn type_of(value: &Value) -> JsonType {
    match value {
        Value::Null | Value::Object(_) => JsonType::Object,
        Value::Bool(_) => JsonType::Boolean,
        Value::Number(number) if number.is_f64() => JsonType::Number,
        Value::Number(_) => JsonType::Integer,
        Value::String(_) => JsonType::String,
        Value::Array(_) => JsonType::Array,
    }
}

fn same(left: &Value, right: &Value) -> bool {
    left == right || (left.is_number() && right.is_number() && left.as_f64() == right.as_f64())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Formats that a structural schema may ask for; others are not checked, as in Kubernetes.
fn has_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" => jiff::Timestamp::from_str(text).is_ok(),
        "date" => jiff::civil::Date::from_str(text).is_ok() && text.len() == 10,
        "ipv4" => std::net::Ipv4Addr::from_str(text).is_ok(),
        "ipv6" => std::net::Ipv6Addr::from_str(text).is_ok(),
        "uuid" => is_uuid(text),
        _ => true,
    }
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(spec: &Value) -> Schema {
        Schema::of_crd(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
    }

    fn errors(spec: &Value, value: Value) -> Vec<String> {
        let object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "spec": value});
        schema(spec)
            .validate(&object, None)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn types_and_required_fields_are_told_as_a_real_server_does() {
        let spec = json!({"type": "object", "required": ["foo", "bar"], "properties": {
            "foo": {"type": "integer"}, "bar": {"type": "string"}, "port": {"x-kubernetes-int-or-string": true},
        }});
        assert_eq!(
            errors(&spec, json!({"foo": "x", "port": true})),
            [
                "spec.foo: Invalid value: \"string\": spec.foo in body must be of type integer: \"string\"",
                "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
                "spec.bar: Required value",
            ]
        );
        assert_eq!(
            errors(&spec, json!({"foo": null, "bar": "", "port": "80%"})),
            ["spec.foo: Invalid value: \"null\": spec.foo in body must be of type integer: \"null\""]
        );
        assert_eq!(errors(&spec, json!({"foo": 1.0, "bar": "x"})), [""; 0]);
    }

    #[test]
    fn what_was_wrong_before_may_stay_as_it_is_and_nothing_else() {
        let spec = json!({"type": "object", "required": ["new"], "properties": {
            "size": {"type": "integer", "maximum": 3},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "size": {"type": "integer", "maximum": 3}}}},
            "plain": {"type": "array", "items": {"type": "integer", "maximum": 3}},
        }});
        let schema = schema(&spec);
        let told = |old: Value, new: Value| -> Vec<String> {
            let object = |spec: Value| json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "spec": spec});
            let errors = schema.validate(&object(new), Some(&object(old)));
            errors.iter().map(|error| error.field.clone()).collect()
        };
        assert_eq!(told(json!({"size": 9}), json!({"size": 9})), [""; 0]);
        assert_eq!(
            told(json!({"size": 9}), json!({"size": 9, "plain": []})),
            ["spec.new"],
            "what is required is of the whole, which has changed"
        );
        assert_eq!(
            told(json!({"size": 9, "new": 1}), json!({"size": 8, "new": 1})),
            ["spec.size"]
        );
        let keyed = |sizes: [u8; 2]| json!({"new": 1, "keyed": [{"name": "a", "size": sizes[0]}, {"name": "b", "size": sizes[1]}]});
        assert_eq!(told(keyed([9, 1]), keyed([9, 2])), [""; 0]);
        assert_eq!(told(keyed([9, 1]), keyed([9, 8])), ["spec.keyed[1].size"]);
        let plain = |items: Value| json!({"new": 1, "plain": items});
        assert_eq!(told(plain(json!([9])), plain(json!([9, 1]))), ["spec.plain[0]"]);
        let twice = json!({"new": 1, "keyed": [{"name": "a"}, {"name": "a"}]});
        assert_eq!(told(twice.clone(), twice), [""; 0]);
    }

    #[test]
    fn bounds_are_told_as_a_real_server_does() {
        let spec = json!({"type": "object", "maxProperties": 9, "properties": {
            "mode": {"type": "string", "enum": ["A", "B"]},
            "weight": {"type": "integer", "minimum": 1, "maximum": 10},
            "share": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "items": {"type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": true, "items": {"type": "string"}},
            "at": {"type": "string", "format": "date-time"},
        }});
        let one = |field: &str, value: Value| errors(&spec, json!({field: value})).pop().unwrap_or_default();
        assert_eq!(
            one("mode", json!("x")),
            "spec.mode: Unsupported value: \"x\": supported values: \"A\", \"B\""
        );
        assert_eq!(
            one("weight", json!(0)),
            "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1"
        );
        assert_eq!(
            one("weight", json!(11)),
            "spec.weight: Invalid value: 11: spec.weight in body should be less than or equal to 10"
        );
        assert_eq!(
            one("share", json!(0)),
            "spec.share: Invalid value: 0: spec.share in body should be greater than 0"
        );
        assert_eq!(
            one("name", json!("abcde")),
            "spec.name: Too long: may not be more than 4 bytes"
        );
        assert_eq!(
            one("name", json!("a")),
            "spec.name: Invalid value: \"a\": spec.name in body should be at least 2 chars long"
        );
        assert_eq!(
            one("name", json!("A-B")),
            "spec.name: Invalid value: \"A-B\": spec.name in body should match '^[a-z]+$'"
        );
        assert_eq!(
            one("items", json!([])),
            "spec.items: Invalid value: 0: spec.items in body should have at least 1 items"
        );
        assert_eq!(
            one("items", json!(["a", "b", "c"])),
            "spec.items: Too many: 3: must have at most 2 items"
        );
        assert_eq!(
            one("items", json!(["a", "a"])),
            "spec.items: Invalid value: \"\": spec.items in body shouldn't contain duplicates"
        );
        assert_eq!(
            one("at", json!("noon")),
            "spec.at: Invalid value: \"noon\": spec.at in body must be of type date-time: \"noon\""
        );
        assert_eq!(one("at", json!("2026-01-02T03:04:05Z")), "");
    }

    #[test]
    fn numbers_are_told_as_go_holds_them() {
        let spec = json!({"type": "object", "properties": {
            "count": {"type": "integer", "format": "int32"}, "at": {"type": "string", "format": "date-time"},
            "size": {"type": "integer"}, "share": {"type": "number", "minimum": 0.5},
        }});
        assert_eq!(
            errors(&spec, json!({"count": 1.5})),
            [
                "spec.count: Invalid value: \"float64\": spec.count in body must be of type int32: \"float64\"",
                "<nil>: Invalid value: \"\": \
                 Checked value must be of type integer with format int32 in spec.count",
            ]
        );
        assert_eq!(
            errors(&spec, json!({"count": 3_000_000_000_i64})),
            [
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.count"
            ]
        );
        assert_eq!(
            errors(&spec, json!({"size": 0.5})),
            [
                "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.size",
            ]
        );
        assert_eq!(
            errors(&spec, json!({"share": -1})),
            ["spec.share: Invalid value: -1: spec.share in body should be greater than or equal to 0"]
        );
        assert_eq!(errors(&spec, json!({"count": 2.0, "size": 2.0})), [""; 0]);
    }

    #[test]
    fn a_keyed_list_of_something_else_is_told_once() {
        let spec = json!({"type": "object", "properties": {
            "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        }});
        assert_eq!(
            errors(&spec, json!({"rules": [{"name": "a"}, "b"]})),
            [
                "spec.rules[1]: Invalid value: \"string\": spec.rules[1] in body must be of type object: \"string\"",
                "spec.rules[1]: Invalid value: \"b\": must be an object for an array of list-type map",
            ]
        );
    }

    #[test]
    fn alternatives_tell_the_nearest_one() {
        let spec = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(
            errors(&spec, json!({})),
            [
                "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
                "spec.a: Required value",
            ]
        );
        assert_eq!(
            errors(&spec, json!({"a": "x", "b": "y"})),
            [
                "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
              Found 2 valid alternatives"
            ]
        );
        assert_eq!(errors(&spec, json!({"a": "x"})), [""; 0]);
    }

    #[test]
    fn keyed_lists_and_sets_hold_nothing_twice() {
        let spec = json!({"type": "object", "properties": {
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        }});
        assert_eq!(
            errors(
                &spec,
                json!({"tags": ["a", "b", "a", "a"], "rules": [{"name": "x"}, {"name": "x"}]})
            ),
            [
                "spec.tags[2]: Duplicate value: \"a\"",
                "spec.rules[1]: Duplicate value: {\"name\":\"x\"}"
            ]
        );
    }

    #[test]
    fn a_schema_that_is_not_structural_is_refused_at_installation() {
        let refused = Schema::of_crd(&json!({"type": "object", "properties": {"spec": {"properties": {}}}}));
        assert_eq!(
            aggregate(&refused.unwrap_err()),
            "properties[spec].type: Required value: must not be empty for specified object fields"
        );
        let refused = Schema::of_crd(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {"foo": "x"}, "properties": {"foo": {"type": "integer"}}},
        }}));
        assert_eq!(
            aggregate(&refused.unwrap_err()),
            "properties[spec].default.foo: Invalid value: \"string\": \
             properties[spec].default.foo in body must be of type integer: \"string\""
        );
    }

    use super::super::aggregate;
}
