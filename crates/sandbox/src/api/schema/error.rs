//! What is wrong with a field, in the words of a kube-apiserver.

use std::fmt;

use serde_json::{Value, json};

/// What kind of mistake; also the `reason` of the cause in a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    Required,
    Duplicate,
    Invalid,
    TypeInvalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
}

impl Mistake {
    /// Returns the machine-readable name, as in `status.details.causes[].reason`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }
}

/// One mistake in one field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct FieldError {
    pub mistake: Mistake,
    /// The path, such as `spec.containers[0].name`; `<nil>` when it concerns the whole object.
    pub field: String,
    /// The offending value; `None` when it isn't shown.
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    pub fn new(
        mistake: Mistake,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        let field = field.into();
        let field = if field.is_empty() {
            "<nil>".to_owned()
        } else {
            field
        };
        Self {
            mistake,
            field,
            value,
            detail: detail.into(),
        }
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Mistake::Required, field, None, detail)
    }

    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(Mistake::Invalid, field, Some(value.into()), detail)
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Mistake::Forbidden, field, None, detail)
    }

    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(Mistake::Duplicate, field, Some(value.into()), "")
    }

    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(Mistake::NotSupported, field, Some(value.into()), detail)
    }

    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(
            Mistake::TooLong,
            field,
            None,
            format!("may not be more than {max} {unit}"),
        )
    }

    pub fn too_many(field: impl Into<String>, actual: u64, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(
            Mistake::TooMany,
            field,
            Some(json!(actual)),
            format!("must have at most {max} {unit}"),
        )
    }

    /// Returns the message without the field's name, as `status.details.causes[].message` has it.
    pub fn body(&self) -> String {
        let mut body = self.mistake.label().to_owned();
        if let Some(value) = &self.value {
            body.push_str(": ");
            match value.as_f64().filter(|_| value.is_f64()) {
                // Without the fraction of a whole number.
                Some(float) => body.push_str(&float.to_string()),
                None => body.push_str(&value.to_string()),
            }
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Joins errors as an apiserver does: alone, or `[a, b]`; each message once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut messages: Vec<String> = Vec::new();
    for error in errors {
        let message = error.to_string();
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [single] => single.clone(),
        _ => format!("[{}]", messages.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_like_those_of_a_real_server() {
        let required = FieldError::required("spec.foo", "");
        assert_eq!(required.to_string(), "spec.foo: Required value");
        let unsupported = FieldError::not_supported("spec.mode", "x", &["A", "B"]);
        assert_eq!(
            unsupported.to_string(),
            "spec.mode: Unsupported value: \"x\": supported values: \"A\", \"B\""
        );
        let long = FieldError::too_long("spec.name", 5);
        assert_eq!(
            long.to_string(),
            "spec.name: Too long: may not be more than 5 bytes"
        );
        let many = FieldError::too_many("spec.items", 4, 3);
        assert_eq!(
            many.to_string(),
            "spec.items: Too many: 4: must have at most 3 items"
        );
        assert_eq!(
            aggregate(&[required.clone(), long, required]),
            "[spec.foo: Required value, spec.name: Too long: may not be more than 5 bytes]"
        );
    }
}
