//! The types that schemas name.

use std::fmt;

use serde::Deserialize;

use crate::schema::type_name;

/// A type of JSON, as a schema names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Type {
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
}

impl Type {
    /// In the order in which several are shown.
    pub(super) const ALL: [Self; 6] = [
        Self::Integer,
        Self::Number,
        Self::String,
        Self::Boolean,
        Self::Array,
        Self::Object,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    const fn is_numeric(self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }

    /// Returns whether values of both may be equal: CEL compares numbers of all types.
    pub(super) fn compares_with(self, other: Self) -> bool {
        self == other || self.is_numeric() && other.is_numeric()
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name(self.name()))
    }
}

/// Returns types as they are told: `a number or a string`.
pub(super) fn listed(types: &[Type]) -> String {
    let names: Vec<String> = types.iter().map(Type::to_string).collect();
    names.join(" or ")
}
