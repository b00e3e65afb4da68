//! Structural schemas of CRDs and built-in kinds: parsed once, then used to default, prune, validate and merge.
//!
//! Follows apiextensions-apiserver: the same order of work (nulls, pruning, defaults, validation), the same messages.
//! Not done: `$ref`, `dependencies`, `patternProperties` (a structural schema may not have them).

mod cel;
mod error;
mod parse;
mod typed;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::Value;

pub use cel::{Rule, RuleError};
pub use error::{FieldError, Mistake, aggregate};
pub(super) use parse::definition;
pub(super) use values::{has_fractions_of_nothing, whole_numbers};

/// A parsed schema. Children are shared, so that a clone is cheap.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The type, if the schema says one.
    pub kind: Option<JsonType>,
    pub int_or_string: bool,
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    pub properties: BTreeMap<String, Arc<Self>>,
    pub additional: Additional,
    pub items: Option<Arc<Self>>,
    pub list: ListType,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    /// `x-kubernetes-patch-merge-key` of a list that strategic merge patches merge.
    pub patch: PatchStrategy,
    pub default: Option<Value>,
    /// Whether Go leaves the field out when it is zero.
    pub omit_zero: bool,
    pub checks: Checks,
    pub rules: Vec<Rule>,
    /// The Go type of a built-in kind, for the messages of its decoder.
    pub type_name: Option<Arc<str>>,
}

/// What marks a field of a built-in kind that is left out when it is zero.
pub(super) const OMIT_ZERO: &str = "x-omit-zero";

/// The types of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl JsonType {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// What an object may hold beside its properties.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// The schema doesn't say; unknown fields are pruned.
    #[default]
    Unsaid,
    /// `false`: refused by validation.
    Forbidden,
    /// `true`: anything.
    Any,
    /// A map whose values have a schema.
    Of(Arc<Schema>),
}

/// How a list is merged: `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// How a strategic merge patch treats a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PatchStrategy {
    #[default]
    Replace,
    /// A list of scalars: the union.
    Union,
    /// A list of objects, merged by this key.
    MergeBy(String),
    /// An object of which exactly the given fields stay.
    RetainKeys,
    /// `retainKeys` and `merge` on a list.
    MergeByRetainKeys(String),
}

/// The value validations of a schema node.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    pub required: Vec<String>,
    pub allowed: Option<Vec<Value>>,
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<Regex>,
    pub format: Option<String>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
}

/// An inclusive or exclusive bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub value: f64,
    pub exclusive: bool,
}

/// What a schema says about one field of an object.
#[derive(Clone, Copy, Debug)]
pub enum Child<'a> {
    /// A property.
    Declared(&'a Schema),
    /// A value of a map.
    Element(&'a Schema),
    /// Allowed, without a schema.
    Untyped,
    /// Not allowed: it would be pruned.
    Undeclared,
}

impl<'a> Child<'a> {
    /// Returns the schema of the field, if it has one.
    pub const fn schema(self) -> Option<&'a Schema> {
        match self {
            Self::Declared(schema) | Self::Element(schema) => Some(schema),
            Self::Untyped | Self::Undeclared => None,
        }
    }
}

impl Schema {
    /// Parses the `openAPIV3Schema` of a CRD's version. Errors carry paths below `openAPIV3Schema`.
    ///
    /// `apiVersion`, `kind` and `metadata` get the schemas that every object has.
    pub fn of_crd(open_api_v3: &Value) -> Result<Self, Vec<FieldError>> {
        parse::crd(open_api_v3)
    }

    /// Returns the schema of something that keeps whatever it is given, except for its metadata.
    pub fn of_anything() -> Self {
        let mut schema = Self {
            kind: Some(JsonType::Object),
            preserve_unknown: true,
            ..Self::default()
        };
        parse::add_type_and_object_meta(&mut schema);
        schema
    }

    /// Returns what the schema says about a field of an object.
    pub fn child(&self, name: &str) -> Child<'_> {
        if let Some(schema) = self.properties.get(name) {
            return Child::Declared(schema);
        }
        match &self.additional {
            Additional::Of(schema) => Child::Element(schema),
            Additional::Any => Child::Untyped,
            Additional::Unsaid | Additional::Forbidden if self.preserve_unknown => Child::Untyped,
            Additional::Unsaid | Additional::Forbidden => Child::Undeclared,
        }
    }
}
