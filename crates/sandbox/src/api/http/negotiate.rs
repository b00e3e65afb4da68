//! Content types: what a client sends, and in which forms it takes an answer.

use http::{HeaderMap, header};
use serde_json::{Map, Value};

use super::super::registry::Kind;
use super::super::status::{Details, Reason, Status};
use super::super::{Duplicate, Patch, metadata};
use super::duplicates::duplicates;

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
    /// The media types without their parameters, as a router sees them.
    bare: Vec<String>,
}

/// What a real server can write.
const WRITTEN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Accept {
    pub(super) fn parse(headers: &HeaderMap) -> Self {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|accept| accept.to_str().ok());
        let accept = accept.filter(|accept| !accept.is_empty()).unwrap_or("*/*");
        let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
        sort(&mut clauses);
        Self {
            forms: clauses.iter().filter_map(Clause::form).collect(),
            bare: accept
                .split(',')
                .map(|range| before(range, ';').trim().to_owned())
                .collect(),
        }
    }

    /// Returns the first form that the client takes and the answer has.
    pub(super) fn choose(&self, available: &[Form]) -> Result<Form, Status> {
        let found = self.forms.iter().find(|form| available.contains(form));
        found.copied().ok_or_else(|| {
            Status::not_acceptable(format!("only the following media types are accepted: {WRITTEN}"))
        })
    }

    /// Returns whether a refusal goes out as YAML.
    pub(super) fn prefers_yaml(&self) -> bool {
        self.forms.first() == Some(&Form::Yaml)
    }

    /// Refuses what the router of built-in kinds refuses: it knows neither parameters nor `application/*`.
    pub(super) fn check_router(&self, streams: bool) -> Result<(), Status> {
        let known =
            |range: &String| matches!(range.as_str(), "*/*" | "application/json" | "application/yaml");
        if self.bare.iter().any(known) {
            return Ok(());
        }
        let streams = if streams {
            ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        } else {
            ""
        };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {WRITTEN}{streams}");
        Err(Status::not_acceptable(message).with_details(Details::default()))
    }
}

/// One media range of an `Accept` header.
struct Clause<'a> {
    media: (&'a str, &'a str),
    quality: f64,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(range: &'a str) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let media = match parts.next()?.split_once('/') {
            Some(media) => media,
            None if range.trim() == "*" => ("*", "*"),
            None => return None,
        };
        let pairs = parts.filter_map(|part| part.split_once('='));
        let (qualities, parameters): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| *name == "q");
        let quality = qualities
            .first()
            .map_or(1.0, |(_, value)| value.parse().unwrap_or_default());
        Some(Self {
            media,
            quality,
            parameters,
        })
    }

    fn form(&self) -> Option<Form> {
        let parameter = |wanted: &str| {
            let found = self.parameters.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| *value).unwrap_or_default()
        };
        let shape = (parameter("as"), parameter("g"), parameter("v"));
        match (self.media, shape) {
            (("application", "json" | "*") | ("*", "*"), ("", "", "")) => Some(Form::Json),
            (("application", "yaml"), ("", "", "")) => Some(Form::Yaml),
            (("application", "json"), (shape, "meta.k8s.io", "v1" | "v1beta1")) => match shape {
                "Table" => Some(Form::Table),
                "PartialObjectMetadata" => Some(Form::Partial),
                "PartialObjectMetadataList" => Some(Form::PartialList),
                _ => None,
            },
            (("application", "json"), ("APIGroupDiscoveryList", ..)) => Some(Form::Discovery),
            _ => None,
        }
    }

    /// The order of a real server's parser, which is none: a lower quality may come first.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.media.0 != "*" && other.media.0 == "*")
            || (self.media.1 != "*" && other.media.1 == "*")
    }
}

/// Sorts by insertion, as a real server does with few clauses.
fn sort(clauses: &mut [Clause<'_>]) {
    for end in 1..clauses.len() {
        for place in (1..=end).rev() {
            if !clauses[place].precedes(&clauses[place - 1]) {
                break;
            }
            clauses.swap(place, place - 1);
        }
    }
}

fn before(text: &str, end: char) -> &str {
    text.split(end).next().unwrap_or_default()
}

/// What a client sent.
pub(super) struct Sent {
    pub object: Value,
    /// The fields that stood there twice.
    pub duplicates: Vec<Duplicate>,
}

/// Refuses a body in a form that isn't read.
pub(super) fn check_body_type(headers: &HeaderMap) -> Result<(), Status> {
    match media_type(headers) {
        "" | "application/json" | "application/yaml" => Ok(()),
        _ => Err(unsupported(WRITTEN)),
    }
}

/// Reads the object that a client sends.
pub(super) fn body(headers: &HeaderMap, body: &[u8], kind: &Kind) -> Result<Sent, Status> {
    check_body_type(headers)?;
    let object = if media_type(headers) == "application/yaml" {
        yaml(body).map_err(|error| unreadable(kind, &error))?
    } else {
        serde_json::from_slice(body).map_err(|error| unreadable(kind, &error))?
    };
    Ok(Sent {
        object: object_only(object, kind)?,
        duplicates: duplicates(body),
    })
}

/// Refuses a patch in a language that the kind doesn't have.
pub(super) fn check_patch_type(headers: &HeaderMap, kind: &Kind) -> Result<(), Status> {
    match media_type(headers) {
        "application/json-patch+json" | "application/merge-patch+json" | "application/apply-patch+yaml" => {
            Ok(())
        }
        "application/strategic-merge-patch+json" if !kind.custom => Ok(()),
        _ if kind.custom => Err(unsupported(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => Err(
            Status::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type")
                .with_details(Details::default()),
        ),
    }
}

/// Returns whether the patch is an apply, which may also create.
pub(super) fn is_apply(headers: &HeaderMap) -> bool {
    media_type(headers) == "application/apply-patch+yaml"
}

/// Reads the patch that a client sends, and tells which fields stand in it twice; `lenient` says that nobody asked for
/// unknown fields, so that a real server reads it later and refuses it in other words.
pub(super) fn patch(
    headers: &HeaderMap,
    body: &[u8],
    kind: &Kind,
    lenient: bool,
) -> Result<(Patch, Vec<Duplicate>), Status> {
    check_patch_type(headers, kind)?;
    let undecodable = |error: &dyn std::fmt::Display| {
        Status::bad_request(match media_type(headers) {
            "application/merge-patch+json" if lenient => "Invalid JSON Patch".to_owned(),
            "application/json-patch+json" if lenient => error.to_string(),
            _ => format!("error decoding patch: {error}"),
        })
    };
    let json = || serde_json::from_slice(body).map_err(|error| undecodable(&error));
    let patch = match media_type(headers) {
        "application/json-patch+json" => Patch::Json(json()?),
        "application/merge-patch+json" => Patch::Merge(json()?),
        "application/strategic-merge-patch+json" => Patch::Strategic(json()?),
        _ => {
            let refused =
                |error: &dyn std::fmt::Display| Status::bad_request(format!("error decoding YAML: {error}"));
            match yaml(body).map_err(|error| refused(&error))? {
                Value::Null => Patch::Apply(Value::Object(Map::new())),
                configuration @ Value::Object(_) => Patch::Apply(configuration),
                _ => return Err(refused(&"it is not a map")),
            }
        }
    };
    Ok((patch, duplicates(body)))
}

fn unsupported(accepted: &str) -> Status {
    Status::unsupported_media_type(&accepted.split(", ").collect::<Vec<_>>())
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
