//! Answers: objects, lists and events in the form that the client takes.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use tower::BoxError;

use super::super::owners::{self, Shown};
use super::super::registry::{self, Kind, Version};
use super::super::status::{Reason, Status};
use super::super::table::{partial, scale_columns, table};
use super::super::write::Written;
use super::super::{Clock, Event, EventKind, List, Object};
use super::negotiate::{Accept, Form};
use super::query::Query;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The forms of objects and lists.
pub(super) const FORMS: &[Form] = &[
    Form::Json,
    Form::Yaml,
    Form::Table,
    Form::Partial,
    Form::PartialList,
];

/// How to answer one request.
pub(super) struct Answer<'a> {
    pub kind: &'a Arc<Kind>,
    pub version: &'a Version,
    pub accept: &'a Accept,
    pub query: &'a Query,
    pub clock: &'a Clock,
}

/// Adds what a client is to be warned of.
pub(super) fn with_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

impl Answer<'_> {
    pub(super) fn object(&self, code: StatusCode, object: &Object) -> Result<Response<Body>, Status> {
        let object = registry::convert(self.kind, object, &self.version.name);
        match self.accept.choose(FORMS)? {
            Form::Table => encode(code, Form::Json, &self.table(&[&object], revision_of(&object))?),
            Form::PartialList if self.kind.custom => {
                Err(Status::new(500, Reason::Unknown, "content is not a list"))
            }
            Form::PartialList => Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                self.go_type("")
            ))),
            Form::Partial => encode(code, Form::Json, &partial(&object)),
            form => encode(code, form, &Shown(&object)),
        }
    }

    /// Answers with the scale of an object.
    pub(super) fn scale(&self, scale: &Value) -> Result<Response<Body>, Status> {
        let code = StatusCode::OK;
        match self.accept.choose(FORMS)? {
            Form::Table => {
                let (include, now) = (self.query.include_object()?, (self.clock)());
                let columns = scale_columns(self.kind.custom);
                let table = table(&columns, true, &[scale], revision_of(scale), include, now);
                encode(code, Form::Json, &table)
            }
            Form::PartialList => {
                let package = if self.kind.custom { "v1" } else { "autoscaling" };
                Err(Status::not_acceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.Scale)"
                )))
            }
            Form::Partial => encode(code, Form::Json, &partial(scale)),
            form => encode(code, form, scale),
        }
    }

    /// Answers with something that isn't of the kind asked for.
    pub(super) fn plain(&self, code: StatusCode, value: &Value) -> Result<Response<Body>, Status> {
        let form = self.accept.choose(FORMS)?;
        encode(code, if form == Form::Yaml { form } else { Form::Json }, value)
    }

    pub(super) fn written(&self, written: &Written) -> Result<Response<Body>, Status> {
        let code = if written.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let response = self.object(code, &written.object)?;
        Ok(with_warnings(response, &written.warnings))
    }

    pub(super) fn list(&self, list: &List) -> Result<Response<Body>, Status> {
        let form = self.accept.choose(FORMS)?;
        if form == Form::Partial {
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                self.go_type("List")
            )));
        }
        let items: Vec<Object> = list
            .items
            .iter()
            .map(|item| registry::convert(self.kind, item, &self.version.name))
            .collect();
        let mut meta = Map::new();
        meta.insert("resourceVersion".to_owned(), json!(list.revision.to_string()));
        let typed = matches!(form, Form::Json | Form::Yaml) && self.kind.custom;
        // Lists of custom resources show it always.
        if let Some(token) = list.continue_token.as_deref().or(typed.then_some("")) {
            meta.insert("continue".to_owned(), json!(token));
        }
        if let Some(remaining) = list.remaining {
            meta.insert("remainingItemCount".to_owned(), json!(remaining));
        }
        if form == Form::Table {
            let items: Vec<&Value> = items.iter().map(|item| &**item).collect();
            return encode(StatusCode::OK, Form::Json, &self.table(&items, meta)?);
        }
        if form == Form::PartialList {
            let items: Vec<Value> = items.iter().map(|item| partial(item)).collect();
            // As Go writes a list that was never made.
            let items = if items.is_empty() {
                Value::Null
            } else {
                Value::Array(items)
            };
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "items": items,
            });
            return encode(StatusCode::OK, Form::Json, &list);
        }
        let document = Document {
            kind: &self.kind.list_kind,
            api_version: &self.kind.api_version(self.version),
            metadata: meta,
            // Real servers leave the type out of the items of built-in lists.
            items: items
                .iter()
                .map(|object| Item {
                    object,
                    typed: self.kind.custom,
                })
                .collect(),
        };
        encode(StatusCode::OK, form, &document)
    }

    /// Returns the name of the Go type of an answer, as messages have it.
    fn go_type(&self, list: &str) -> String {
        let (group, kind) = (self.kind.group(), &self.kind.kind);
        let room = if group.is_empty() {
            "core"
        } else {
            group.split('.').next().unwrap_or_default()
        };
        match (self.kind.custom, list) {
            (true, "") => "*unstructured.Unstructured".to_owned(),
            (true, list) => format!("*unstructured.Unstructured{list}"),
            (false, list) => format!("*{room}.{kind}{list}"),
        }
    }

    fn table(&self, objects: &[&Value], meta: Map<String, Value>) -> Result<Value, Status> {
        Ok(table(
            &self.version.rules.columns,
            true,
            objects,
            meta,
            self.query.include_object()?,
            (self.clock)(),
        ))
    }

    /// Returns how to write the events of a watch.
    pub(super) fn event_encoder(
        &self,
    ) -> Result<impl FnMut(Event) -> Result<Bytes, BoxError> + Send + 'static + use<>, Status> {
        let form = self
            .accept
            .choose(&[Form::Json, Form::Table, Form::Partial, Form::PartialList])?;
        let (kind, version, include) = (
            Arc::clone(self.kind),
            self.version.name.clone(),
            self.query.include_object()?,
        );
        let columns = Arc::clone(&self.version.rules.columns);
        let clock = Arc::clone(self.clock);
        let mut headings = true;
        Ok(move |event: Event| {
            let object = match (event.kind, form) {
                (EventKind::Error, _) => event.object,
                (_, Form::Json) => registry::convert(&kind, &event.object, &version),
                (_, Form::Table) => {
                    let object = registry::convert(&kind, &event.object, &version);
                    let first = std::mem::take(&mut headings);
                    Arc::new(table(
                        &columns,
                        first,
                        &[&object],
                        revision_of(&object),
                        include,
                        clock(),
                    ))
                }
                _ => Arc::new(partial(&event.object)),
            };
            let mut line = serde_json::to_vec(&Line {
                kind: event.kind.as_str(),
                object: Shown(&object),
            })?;
            line.push(b'\n');
            Ok(Bytes::from(line))
        })
    }
}

pub(super) fn refusal(status: &Status) -> Response<Body> {
    refusal_as(status, false)
}

/// Answers with a refusal in JSON or in YAML.
pub(super) fn refusal_as(status: &Status, yaml: bool) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let form = if yaml { Form::Yaml } else { Form::Json };
    let response = encode(code, form, &status.to_json())
        .unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "a status could not be written"));
    let mut response = with_warnings(response, &status.warnings);
    let seconds = status
        .details
        .as_ref()
        .and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn text(code: StatusCode, text: &'static str) -> Response<Body> {
    respond(code, TEXT, Bytes::from_static(text.as_bytes()))
}

pub(super) fn encode(code: StatusCode, form: Form, value: &impl Serialize) -> Result<Response<Body>, Status> {
    if form == Form::Yaml {
        let yaml = serde_yaml::to_string(value).map_err(|error| Status::internal(error.to_string()))?;
        return Ok(respond(code, YAML, Bytes::from(yaml)));
    }
    let json = serde_json::to_vec(value).map_err(|error| Status::internal(error.to_string()))?;
    Ok(respond(code, JSON, Bytes::from(json)))
}

fn respond(code: StatusCode, content_type: HeaderValue, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// Returns the metadata of a table of one object.
fn revision_of(object: &Value) -> Map<String, Value> {
    let revision = object["metadata"].get("resourceVersion");
    let revision = revision.map(|revision| ("resourceVersion".to_owned(), revision.clone()));
    revision.into_iter().collect()
}

/// A list, written without copying its items.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Map<String, Value>,
    items: Vec<Item<'a>>,
}

struct Item<'a> {
    object: &'a Value,
    typed: bool,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.object else {
            return self.object.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in fields {
            if self.typed || (field != "apiVersion" && field != "kind") {
                owners::entry(&mut map, field, value)?;
            }
        }
        map.end()
    }
}

/// A line of a watch.
#[derive(serde::Serialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    object: Shown<'a>,
}
