//! `metav1.Status`: how an API server refuses, with the reasons, codes and words of a real one.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::store::{Compacted, Resource};

/// A refusal. Its message is what people read, its reason and details what programs read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    pub code: u16,
    pub reason: Reason,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// What was wrong besides, for the `Warning` header.
    pub warnings: Vec<String>,
}

/// The machine-readable reasons of `metav1.StatusReason` that the sandbox gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A few errors of a real server carry none.
    Unknown,
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
}

/// What the refusal is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The plural of the resource, or the kind: real servers use both.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<u32>,
}

/// One of the reasons why, often with the field that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl Cause {
    pub fn new(reason: impl Into<String>, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        }
    }

    pub fn invalid_value(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            format!("Invalid value: {value}: {why}"),
            field,
        )
    }

    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self::new("FieldValueRequired", message, field)
    }

    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
    }
}

impl Status {
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            warnings: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, Reason::NotFound, format!("{resource} \"{name}\" not found"))
            .with_details(Details::of(resource, name))
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(
            409,
            Reason::AlreadyExists,
            format!("{resource} \"{name}\" already exists"),
        )
        .with_details(Details::of(resource, name))
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(
            409,
            Reason::Conflict,
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
        )
        .with_details(Details::of(resource, name))
    }

    /// The refusal of a write made from an old read.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(
            403,
            Reason::Forbidden,
            format!("{resource} \"{name}\" is forbidden: {why}"),
        )
        .with_details(Details::of(resource, name))
    }

    /// The refusal of a validating webhook.
    pub fn denied(webhook: &str, why: &str) -> Self {
        Self::new(
            403,
            Reason::Forbidden,
            format!("admission webhook \"{webhook}\" denied the request: {why}"),
        )
    }

    /// The refusal of an object's content; `kind` is the kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let qualified = Resource::named(group, kind);
        let errors: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let errors = match errors.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Self::new(
            422,
            Reason::Invalid,
            format!("{qualified} \"{name}\" is invalid: {errors}"),
        )
        .with_details(Details {
            causes,
            ..Details::of(&qualified, name)
        })
    }

    /// The refusal of a JSON patch of which an operation, such as a `test`, failed.
    pub fn patch_failed() -> Self {
        Self::new(
            422,
            Reason::Invalid,
            "the server rejected our request due to an error in our request",
        )
        .with_details(Details::default())
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, Reason::InternalError, message)
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
        .with_details(Details::default())
    }

    /// The refusal of a verb that custom resources don't have there.
    pub fn not_supported(resource: &Resource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind \"{resource}\"");
        Self::new(405, Reason::MethodNotAllowed, message).with_details(Details::of(resource, ""))
    }

    /// The refusal of a path under which nothing is served.
    pub fn no_such_resource() -> Self {
        Self::new(
            404,
            Reason::NotFound,
            "the server could not find the requested resource",
        )
        .with_details(Details::default())
    }

    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, Reason::UnsupportedMediaType, message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, Reason::NotAcceptable, message)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    /// The end of a watch that asks for history that is gone.
    pub fn too_old(compacted: Compacted) -> Self {
        Self::expired(format!(
            "too old resource version: {} ({})",
            compacted.wanted, compacted.oldest
        ))
    }

    /// The refusal to show a revision that has not happened.
    pub fn too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::new(504, Reason::Timeout, message)
            .with_causes(vec![Cause::new(
                "ResourceVersionTooLarge",
                "Too large resource version",
                "",
            )])
            .retry_after(1)
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == Reason::NotFound
    }

    pub fn is_conflict(&self) -> bool {
        self.reason == Reason::Conflict
    }

    /// Returns the body that a client gets.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".to_owned(), json!("Status"));
        status.insert("apiVersion".to_owned(), json!("v1"));
        status.insert("metadata".to_owned(), json!({}));
        status.insert("status".to_owned(), json!("Failure"));
        status.insert("message".to_owned(), json!(self.message));
        if self.reason != Reason::Unknown {
            status.insert("reason".to_owned(), json!(self.reason.as_str()));
        }
        if let Some(details) = &self.details {
            status.insert("details".to_owned(), details.to_json());
        }
        status.insert("code".to_owned(), json!(self.code));
        Value::Object(status)
    }
}

impl Details {
    pub fn of(resource: &Resource, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.clone().into_owned(),
            kind: resource.plural.clone().into_owned(),
            ..Self::default()
        }
    }

    pub fn to_json(&self) -> Value {
        let mut details = Map::new();
        let texts = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            details.insert(field.to_owned(), json!(text));
        }
        if !self.causes.is_empty() {
            details.insert(
                "causes".to_owned(),
                self.causes.iter().map(Cause::to_json).collect(),
            );
        }
        if let Some(seconds) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        Value::Object(details)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut cause = Map::new();
        for (field, text) in [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            if !text.is_empty() {
                cause.insert(field.to_owned(), json!(text));
            }
        }
        Value::Object(cause)
    }
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::AlreadyExists => "AlreadyExists",
            Self::BadRequest => "BadRequest",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Forbidden => "Forbidden",
            Self::InternalError => "InternalError",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::NotFound => "NotFound",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unauthorized => "Unauthorized",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_causes_are_listed_in_brackets() {
        let status = Status::invalid(
            "example.dev",
            "Widget",
            "a",
            vec![
                Cause::required("spec", ""),
                Cause::invalid_value("spec.size", &json!(0), "too small"),
            ],
        );
        assert_eq!(
            status.message,
            "Widget.example.dev \"a\" is invalid: [spec: Required value, spec.size: Invalid value: 0: too small]"
        );
        assert_eq!(status.to_json()["details"]["causes"][1]["field"], "spec.size");
        assert_eq!(status.to_json()["details"]["group"], "example.dev");
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let status = Status::not_found(&Resource::new("", "configmaps"), "a").to_json();
        assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
        assert_eq!(Status::bad_request("no").to_json().get("details"), None);
    }
}
