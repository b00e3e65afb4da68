//! Objects against JSON Schemas: the parts that `schemars` writes and that CRDs may have.
//!
//! A mapping with `properties` is closed unless the schema opens it: an API server drops what it doesn't know
//! without a word, so an unknown field is an error here. Of formats only times are looked at.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::api::TimeSpan;
use crate::finding::{Code, Finding};
use crate::manifest::{Manifest, Positions};
use cutover_base::nearest::did_you_mean;
use cutover_karmada::name::{Gvk, Location};

/// The schemas of kinds, each of the whole object.
#[derive(Clone, Debug, Default)]
pub struct Schemas {
    custom: BTreeMap<Gvk, Value>,
    /// Whether Kubernetes' own kinds are known too.
    kubernetes: bool,
}

impl Schemas {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns these schemas, and those of the kinds that Kubernetes brings itself.
    #[must_use]
    pub fn with_kubernetes(self) -> Self {
        let kubernetes = true;
        Self { kubernetes, ..self }
    }

    pub fn insert(&mut self, gvk: Gvk, schema: Value) {
        self.custom.insert(gvk, schema);
    }

    /// Returns these schemas and those of the custom resource definitions among some objects.
    #[must_use]
    pub fn with_definitions<'a>(&self, objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut all = self.clone();
        for object in objects {
            if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
                all.define(object);
            }
        }
        all
    }

    pub fn get(&self, gvk: &Gvk) -> Option<&Value> {
        self.custom.get(gvk)
    }

    /// Returns the schemas of a kind, of every version that is known.
    pub(crate) fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Value> {
        let custom = self.custom.iter();
        let of_kind = custom.filter(move |(gvk, _)| gvk.group == group && gvk.kind == kind);
        of_kind.map(|(_, schema)| schema)
    }

    pub(crate) const fn know_kubernetes(&self) -> bool {
        self.kubernetes
    }

    fn define(&mut self, definition: &Value) {
        let text = |pointer| definition.pointer(pointer).and_then(Value::as_str);
        let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else {
            return;
        };
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten() {
            let name = version.get("name").and_then(Value::as_str);
            if let (Some(name), Some(schema)) = (name, version.pointer("/schema/openAPIV3Schema")) {
                let gvk = Gvk {
                    group: group.to_owned(),
                    version: name.to_owned(),
                    kind: kind.to_owned(),
                };
                self.custom.insert(gvk, schema.clone());
            }
        }
    }
}

/// What is wrong at one place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer to the value; for a missing field, to where it should be.
    pub pointer: String,
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    Unknown {
        known: Vec<String>,
    },
    Missing,
    Type {
        expected: String,
        found: &'static str,
        hint: Option<String>,
    },
    NotAllowed {
        found: String,
        allowed: Vec<String>,
    },
    Range {
        rule: String,
        hint: Option<String>,
    },
}

/// Adds the findings about the faults of an object, and says where there may be more of them.
pub(crate) fn report(
    object: &Manifest,
    violations: &[Violation],
    finding: impl Fn(&Violation) -> Option<Finding>,
    findings: &mut Vec<Finding>,
) {
    let all: Vec<Finding> = violations.iter().filter_map(finding).collect();
    if violations.len() >= MOST_VIOLATIONS {
        let message = format!("only the first {MOST_VIOLATIONS} faults of this object are shown");
        let more = Finding::new(Code::TooLarge, object.source.clone(), message);
        // As bad as the worst of them.
        let worst = all.iter().map(|finding| finding.severity).min();
        let severity = worst.unwrap_or(more.severity);
        findings.push(Finding { severity, ..more });
    }
    findings.extend(all);
}

impl Violation {
    /// Returns the finding about a value of some `kind` in a file.
    pub fn finding(&self, kind: &str, path: &str, positions: &Positions) -> Finding {
        let field = dotted(&self.pointer);
        let name = self.pointer.rsplit('/').next().unwrap_or_default();
        let value = || positions.value(&self.pointer).of(path);
        let finding = |code, location: Location, message: String| Finding::new(code, location, message);
        match &self.problem {
            Problem::Unknown { known } => {
                let at = positions.key(&self.pointer).of(path);
                let hint = did_you_mean(name, known.iter().map(String::as_str))
                    .or_else(|| (known.len() < 12).then(|| format!("known here: {}", known.join(", "))));
                finding(
                    Code::UnknownField,
                    at,
                    format!("{field} is not a field of {kind}"),
                )
                .maybe_hint(hint)
            }
            Problem::Missing => {
                let parent = self.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                let at = positions.key(parent).of(path);
                finding(Code::MissingField, at, format!("{field} is missing"))
            }
            Problem::Type {
                expected,
                found,
                hint,
            } => {
                let message = format!("{field} must be {expected}, not {found}");
                finding(Code::WrongValue, value(), message).maybe_hint(hint.clone())
            }
            Problem::NotAllowed { found, allowed } => {
                let hint = did_you_mean(found, allowed.iter().map(String::as_str))
                    .unwrap_or_else(|| format!("one of {}", allowed.join(", ")));
                finding(Code::WrongValue, value(), format!("{field} can't be {found:?}")).hint(hint)
            }
            Problem::Range { rule, hint } => {
                finding(Code::WrongValue, value(), format!("{field} must be {rule}")).maybe_hint(hint.clone())
            }
        }
    }
}

/// How many faults of one value are told: each names the fields that are known instead.
pub const MOST_VIOLATIONS: usize = 100;

/// Returns what in a value doesn't fit a schema, up to [`MOST_VIOLATIONS`].
pub fn violations(value: &Value, schema: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    Validator { root: schema }.value(value, schema, &mut String::new(), true, 0, &mut found);
    found
}

struct Validator<'a> {
    root: &'a Value,
}

/// No schema that people write is nested deeper; recursive ones end here.
const DEPTH: usize = 64;

impl<'a> Validator<'a> {
    fn value(
        &self,
        value: &Value,
        schema: &'a Value,
        at: &mut String,
        closed: bool,
        depth: usize,
        found: &mut Vec<Violation>,
    ) {
        let schema = self.resolve(schema);
        let is_enough = found.len() >= MOST_VIOLATIONS;
        if is_enough || depth > DEPTH || value.is_null() && accepts_null(schema) {
            return;
        }
        let before = found.len();
        check_kind(value, schema, at, found);
        if found.len() > before {
            return;
        }
        match value {
            Value::Object(_) => self.mapping(value, schema, at, closed, depth, found),
            Value::Array(items) => {
                if let Some(inner) = schema.get("items") {
                    for (index, item) in items.iter().enumerate() {
                        descend(at, &index.to_string(), |at| {
                            self.value(item, inner, at, true, depth + 1, found);
                        });
                    }
                }
            }
            _ => {}
        }
        self.branches(value, schema, at, depth, found);
    }

    fn mapping(
        &self,
        value: &Value,
        schema: &'a Value,
        at: &mut String,
        closed: bool,
        depth: usize,
        found: &mut Vec<Violation>,
    ) {
        let Some(fields) = value.as_object() else { return };
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for name in required
            .filter_map(Value::as_str)
            .filter(|name| !fields.contains_key(*name))
        {
            descend(at, name, |at| {
                found.push(Violation {
                    pointer: at.clone(),
                    problem: Problem::Missing,
                });
            });
        }
        let mut known = Known::default();
        self.known(schema, 0, &mut known);
        for (name, inner) in fields {
            let property = schema.get("properties").and_then(|all| all.get(name));
            let other = schema
                .get("additionalProperties")
                .filter(|other| other.is_object());
            descend(at, name, |at| match property.or(other) {
                Some(schema) => self.value(inner, schema, at, true, depth + 1, found),
                None if closed
                    && found.len() < MOST_VIOLATIONS
                    && !known.open
                    && !known.names.contains(name.as_str())
                    && !is_identity(at) =>
                {
                    let known = known.names.iter().map(|name| (*name).to_owned()).collect();
                    found.push(Violation {
                        pointer: at.clone(),
                        problem: Problem::Unknown { known },
                    });
                }
                None => {}
            });
        }
    }

    /// Schemas that are combined with this one. In a choice, the alternative with the fewest faults is held against the value.
    fn branches(
        &self,
        value: &Value,
        schema: &'a Value,
        at: &mut String,
        depth: usize,
        found: &mut Vec<Violation>,
    ) {
        for part in alternatives(schema, "allOf") {
            self.value(value, part, at, false, depth + 1, found);
        }
        for choice in ["oneOf", "anyOf"] {
            let mut least: Option<Vec<Violation>> = None;
            for part in alternatives(schema, choice) {
                let mut faults = Vec::new();
                self.value(value, part, at, false, depth + 1, &mut faults);
                least = Some(match least {
                    Some(least) => better(least, faults),
                    None => faults,
                });
            }
            found.extend(least.unwrap_or_default());
        }
    }

    /// Collects the names of fields that a schema and what is combined with it know.
    fn known(&self, schema: &'a Value, depth: usize, known: &mut Known<'a>) {
        let schema = self.resolve(schema);
        let flag = |name| schema.get(name).and_then(Value::as_bool) == Some(true);
        let properties = schema.get("properties").and_then(Value::as_object);
        let parts = || {
            ["allOf", "oneOf", "anyOf"]
                .into_iter()
                .flat_map(|name| alternatives(schema, name))
        };
        known.names.extend(
            properties
                .into_iter()
                .flat_map(|all| all.keys().map(String::as_str)),
        );
        known.open |= flag("x-kubernetes-preserve-unknown-fields")
            || schema
                .get("additionalProperties")
                .is_some_and(|other| *other != Value::Bool(false))
            || depth == 0
                && properties.is_none()
                && parts().next().is_none()
                && schema.get("additionalProperties").is_none();
        if depth < DEPTH {
            parts().for_each(|part| self.known(part, depth + 1, known));
        }
    }

    fn resolve(&self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..DEPTH {
            let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
                break;
            };
            let target = reference
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer));
            let Some(target) = target else { break };
            schema = target;
        }
        schema
    }
}

/// Type, allowed values and ranges.
fn check_kind(value: &Value, schema: &Value, at: &str, found: &mut Vec<Violation>) {
    let mut report = |problem| {
        found.push(Violation {
            pointer: at.to_owned(),
            problem,
        });
    };
    if !has_type(value, schema) {
        let expected = expected(schema);
        let hint = if schema["pattern"] == TimeSpan::PATTERN {
            with_unit(value)
        } else {
            quotes(value, &expected).filter(|_| out_of_range(&plain(value).into(), schema).is_none())
        };
        return report(Problem::Type {
            expected,
            found: type_of(value),
            hint,
        });
    }
    let allowed: Option<Vec<&Value>> =
        match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
            (Some(only), _) => Some(vec![only]),
            (None, Some(all)) => Some(all.iter().collect()),
            (None, None) => None,
        };
    if let Some(allowed) = allowed
        && !allowed.contains(&value)
    {
        return report(Problem::NotAllowed {
            found: plain(value),
            allowed: allowed.into_iter().map(plain).collect(),
        });
    }
    if let Some(rule) = out_of_range(value, schema) {
        let text = value.as_str().filter(|_| schema["pattern"] == TimeSpan::PATTERN);
        let hint = text.and_then(|text| with_unit(&Value::Number(text.parse().ok()?)));
        report(Problem::Range { rule, hint });
    }
}

#[derive(Default)]
struct Known<'a> {
    names: BTreeSet<&'a str>,
    /// Whether any other name is allowed too.
    open: bool,
}

fn descend(at: &mut String, step: &str, inside: impl FnOnce(&mut String)) {
    let length = at.len();
    at.push('/');
    at.push_str(&step.replace('~', "~0").replace('/', "~1"));
    inside(at);
    at.truncate(length);
}

/// Schemas of custom resources leave the identity of the object itself out.
fn is_identity(pointer: &str) -> bool {
    matches!(pointer, "/apiVersion" | "/kind" | "/metadata")
}

fn alternatives<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Several alternatives that only allow other values are one that allows all of them.
fn better(a: Vec<Violation>, b: Vec<Violation>) -> Vec<Violation> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    match (a.as_slice(), b.as_slice()) {
        (
            [
                Violation {
                    pointer,
                    problem: Problem::NotAllowed { found, allowed },
                },
            ],
            [
                Violation {
                    problem: Problem::NotAllowed { allowed: more, .. },
                    ..
                },
            ],
        ) => {
            let allowed = allowed.iter().chain(more).cloned().collect();
            vec![Violation {
                pointer: pointer.clone(),
                problem: Problem::NotAllowed {
                    found: found.clone(),
                    allowed,
                },
            }]
        }
        // A wrong type says least about what was meant.
        (
            [
                Violation {
                    problem: Problem::Type { .. },
                    ..
                },
            ],
            [
                Violation {
                    problem: Problem::Type { .. },
                    ..
                },
            ],
        ) => a,
        (
            [
                Violation {
                    problem: Problem::Type { .. },
                    ..
                },
            ],
            _,
        ) => b,
        (
            _,
            [
                Violation {
                    problem: Problem::Type { .. },
                    ..
                },
            ],
        ) => a,
        _ if b.len() < a.len() => b,
        _ => a,
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn accepts_null(schema: &Value) -> bool {
    schema.get("nullable").and_then(Value::as_bool) == Some(true)
        || types(schema).contains(&"null")
        // An API server drops a null and applies the default.
        || schema.get("default").is_some()
}

fn has_type(value: &Value, schema: &Value) -> bool {
    if schema.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true) {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    let types = types(schema);
    types.is_empty()
        || types.iter().any(|name| match *name {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        })
}

/// Returns what to do about a value that YAML takes for something else than the text that is expected.
pub(crate) fn quotes(value: &Value, expected: &str) -> Option<String> {
    let is_one_word = matches!(value, Value::Bool(_) | Value::Number(_));
    (is_one_word && expected == "a string").then(|| "put it in quotes".to_owned())
}

/// Returns what to write for a number that is meant as a length of time.
fn with_unit(value: &Value) -> Option<String> {
    let text = format!("{value}s");
    matches(TimeSpan::PATTERN, &text).then(|| format!("write a unit: {text}"))
}

fn expected(schema: &Value) -> String {
    if schema["pattern"] == TimeSpan::PATTERN {
        return "a length of time such as 90s or 1h30m".to_owned();
    }
    if schema["format"] == "date-time" {
        return "a time such as 2026-03-14T09:15:00Z".to_owned();
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return "a whole number or a string".to_owned();
    }
    let names: Vec<_> = types(schema)
        .into_iter()
        .filter(|name| *name != "null")
        .map(type_name)
        .collect();
    names.join(" or ")
}

pub(crate) fn type_name(name: &str) -> &'static str {
    match name {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a mapping",
        _ => "null",
    }
}

pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn out_of_range(value: &Value, schema: &Value) -> Option<String> {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let below = |measure: f64, name| limit(name).filter(|limit| measure < *limit);
    let above = |measure: f64, name| limit(name).filter(|limit| measure > *limit);
    #[expect(clippy::cast_precision_loss, reason = "no text or list is that long")]
    let length = |length: usize| length as f64;
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            let low = below(number, "minimum").map(|limit| format!("at least {limit}"));
            low.or_else(|| above(number, "maximum").map(|limit| format!("at most {limit}")))
        }
        Value::String(text) => {
            let length = length(text.chars().count());
            let low = below(length, "minLength").map(|limit| format!("at least {limit} characters long"));
            low.or_else(|| above(length, "maxLength").map(|limit| format!("at most {limit} characters long")))
                .or_else(|| of_another_form(text, schema))
        }
        Value::Array(items) => {
            let length = length(items.len());
            let low = below(length, "minItems").map(|limit| format!("a list of at least {limit}"));
            low.or_else(|| above(length, "maxItems").map(|limit| format!("a list of at most {limit}")))
        }
        Value::Object(fields) => {
            let length = length(fields.len());
            let fields = |which: &str, limit: f64| format!("a mapping with at {which} {limit} of its fields");
            let low = below(length, "minProperties").map(|limit| fields("least", limit));
            low.or_else(|| above(length, "maxProperties").map(|limit| fields("most", limit)))
        }
        _ => None,
    }
}

/// Returns the form that a text is to have and has not.
fn of_another_form(text: &str, schema: &Value) -> Option<String> {
    if schema["format"] == "date-time" && text.parse::<Timestamp>().is_err() {
        return Some(format!("a time such as 2026-03-14T09:15:00Z, not {text:?}"));
    }
    let pattern = schema["pattern"].as_str()?;
    if matches(pattern, text) {
        return None;
    }
    Some(if pattern == TimeSpan::PATTERN {
        format!("a length of time such as 90s or 1h30m, not {text:?}")
    } else {
        // Whose words they are isn't known: they may be a secret.
        format!("of the form {pattern}")
    })
}

/// The most that a compiled pattern may take: whoever pushes a definition writes it.
const PATTERN_BYTES: usize = 1 << 18;

/// What Go reads in another way, or of another alphabet.
const ELSEWISE: [&str; 9] = ["&&", "--", "~~", "\\<", "\\>", "\\S", "\\W", "\\D", "[^\\"];

thread_local! {
    /// The patterns of the schemas that this thread has met; `None`: it can't be compiled, and the API server judges it.
    static PATTERNS: RefCell<HashMap<String, Option<Regex>>> = RefCell::default();
}

fn matches(pattern: &str, text: &str) -> bool {
    PATTERNS.with_borrow_mut(|known| {
        if let Some(compiled) = known.get(pattern) {
            return compiled.as_ref().is_none_or(|pattern| pattern.is_match(text));
        }
        if known.len() > 100 {
            known.clear();
        }
        let means_the_same = !ELSEWISE.iter().any(|token| pattern.contains(token));
        let compile = || RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().ok();
        let compiled = means_the_same.then(compile).flatten();
        let is_match = compiled.as_ref().is_none_or(|pattern| pattern.is_match(text));
        known.insert(pattern.to_owned(), compiled);
        is_match
    })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a JSON pointer as people write paths: `spec.order[0].name`.
fn dotted(pointer: &str) -> String {
    let mut text = String::new();
    for step in pointer.split('/').skip(1) {
        if step.bytes().all(|b| b.is_ascii_digit()) {
            text.push_str(&format!("[{step}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&step.replace("~1", "/").replace("~0", "~"));
        }
    }
    text
}
