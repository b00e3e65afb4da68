//! Content types: what a client sends, and in which forms it takes an answer.

use http::{HeaderMap, header};
use serde_json::Value;

use super::super::registry::Kind;
use super::super::status::{Reason, Status};
use super::super::{Patch, metadata};

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
    /// A `meta.k8s.io` Table, as kubectl prints it.
    Table,
    /// Only the metadata.
    Partial,
    /// A `meta.k8s.io` list of only the metadata.
    PartialList,
    /// Aggregated discovery.
    Discovery,
}

/// The forms that a client takes, in its order.
#[derive(Clone, Debug)]
pub(super) struct Accept {
    forms: Vec<Form>,
}

impl Accept {
    pub(super) fn parse(headers: &HeaderMap) -> Self {
        let Some(accept) = headers
            .get(header::ACCEPT)
            .and_then(|accept| accept.to_str().ok())
        else {
            return Self {
                forms: vec![Form::Json],
            };
        };
        Self {
            forms: accept.split(',').filter_map(form).collect(),
        }
    }

    /// Returns the first form that the client takes and the answer has.
    pub(super) fn choose(&self, available: &[Form]) -> Result<Form, Status> {
        let found = self.forms.iter().find(|form| available.contains(form));
        found.copied().ok_or_else(|| {
            let message =
                "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml";
            Status::new(406, Reason::NotAcceptable, message)
        })
    }
}

fn form(range: &str) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let shape = parts.find_map(|parameter| parameter.strip_prefix("as="));
    match (media_type, shape) {
        ("application/json", Some("Table")) => Some(Form::Table),
        ("application/json", Some("PartialObjectMetadata")) => Some(Form::Partial),
        ("application/json", Some("PartialObjectMetadataList")) => Some(Form::PartialList),
        ("application/json", Some("APIGroupDiscoveryList")) => Some(Form::Discovery),
        ("application/json" | "*/*" | "application/*" | "", None) => Some(Form::Json),
        ("application/yaml", None) => Some(Form::Yaml),
        _ => None,
    }
}

/// Reads the object that a client sends.
pub(super) fn body(headers: &HeaderMap, body: &[u8], kind: &Kind) -> Result<Value, Status> {
    let object = match media_type(headers) {
        "" | "application/json" => serde_json::from_slice(body).map_err(|error| unreadable(kind, &error))?,
        "application/yaml" | "text/yaml" => yaml(body).map_err(|error| unreadable(kind, &error))?,
        _ => {
            return Err(Status::unsupported_media_type(&[
                "application/json",
                "application/yaml",
            ]));
        }
    };
    object_only(object, kind)
}

/// Reads the patch that a client sends.
pub(super) fn patch(headers: &HeaderMap, body: &[u8], kind: &Kind) -> Result<Patch, Status> {
    let undecodable =
        |error: &dyn std::fmt::Display| Status::bad_request(format!("error decoding patch: {error}"));
    let json = || serde_json::from_slice(body).map_err(|error| undecodable(&error));
    match media_type(headers) {
        "application/json-patch+json" => json().map(Patch::Json),
        "application/merge-patch+json" => json().map(Patch::Merge),
        "application/strategic-merge-patch+json" if !kind.custom => json().map(Patch::Strategic),
        "application/apply-patch+yaml" => {
            let configuration = yaml(body).map_err(|error| undecodable(&error))?;
            object_only(configuration, kind).map(Patch::Apply)
        }
        "application/strategic-merge-patch+json" => Err(Status::unsupported_media_type(&[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ])),
        _ => Err(
            Status::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type")
                .with_details(super::super::status::Details::default()),
        ),
    }
}

fn yaml(body: &[u8]) -> Result<Value, serde_yaml::Error> {
    // JSON is what clients mostly send here, and much the faster to read.
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    serde_yaml::from_slice(body)
}

fn object_only(mut object: Value, kind: &Kind) -> Result<Value, Status> {
    if !object.is_object() {
        return Err(unreadable(kind, &"it is not an object"));
    }
    metadata::of(&mut object);
    Ok(object)
}

fn unreadable(kind: &Kind, why: &dyn std::fmt::Display) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why}",
        kind.kind
    ))
}

fn media_type(headers: &HeaderMap) -> &str {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|content_type| content_type.to_str().ok());
    content_type
        .and_then(|content_type| content_type.split(';').next())
        .map(str::trim)
        .unwrap_or_default()
}
