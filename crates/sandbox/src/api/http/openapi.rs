//! The `OpenAPI` documents over HTTP: which document a path means, and what clients may keep of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};

use super::super::ApiServer;
use super::super::openapi::{self, Document, Served};
use super::super::registry::Kind;
use super::super::status::Status;
use super::negotiate::{Accept, Form};
use super::query::Query;
use super::respond;
use super::route::Route;

/// Answers a request for an `OpenAPI` document.
pub(super) fn answer(
    server: &ApiServer,
    route: &Route,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    // kubectl asks for version 2 in protobuf only; it then does without.
    Accept::parse(headers).choose(&[Form::Json])?;
    let kinds: Vec<Arc<Kind>> = server.with(|state| state.registry.kinds().map(Arc::clone).collect());
    let all = served(&kinds);
    match route {
        Route::OpenApiV2 => Ok(send(openapi::v2(&all), headers)),
        Route::OpenApiV3 => {
            let places: BTreeSet<(&str, &str)> = all
                .iter()
                .map(|served| (served.kind.group(), served.version.name.as_str()))
                .collect();
            let hashes: Vec<(String, String)> = places
                .into_iter()
                .map(|(group, version)| (openapi::place(group, version), v3(&all, group, version).hash))
                .collect();
            let index = openapi::index(hashes.iter().map(|(place, hash)| (place.as_str(), hash.as_str())));
            respond::encode(StatusCode::OK, Form::Json, &index)
        }
        Route::OpenApiV3Of { group, version } if all.iter().any(|served| is_in(served, group, version)) => {
            let document = v3(&all, group, version);
            match Query::parse(uri)?.get("hash") {
                Some(hash) if hash != document.hash => Ok(moved(&openapi::place(group, version), &document)),
                _ => Ok(send(document, headers)),
            }
        }
        _ => Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}

fn served(kinds: &[Arc<Kind>]) -> Vec<Served<'_>> {
    let mut all = Vec::new();
    for kind in kinds {
        let versions = kind.versions.iter().filter(|version| version.served);
        all.extend(versions.map(|version| Served { kind, version }));
    }
    all
}

fn is_in(served: &Served<'_>, group: &str, version: &str) -> bool {
    served.kind.group() == group && served.version.name == version
}

fn v3(all: &[Served<'_>], group: &str, version: &str) -> Document {
    let within: Vec<Served<'_>> = all
        .iter()
        .copied()
        .filter(|served| is_in(served, group, version))
        .collect();
    match openapi::v3_of_built_in(group, version) {
        Some(document) if within.iter().all(|served| !served.kind.custom) => document.clone(),
        _ => openapi::v3(&within),
    }
}

fn send(document: Document, headers: &HeaderMap) -> Response<Body> {
    let tag = format!("\"{}\"", document.hash);
    let known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let (code, body) = if known {
        (StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        (StatusCode::OK, Body::from(document.text))
    };
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, respond::JSON);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Leads a client with an old hash to the document as it is now.
fn moved(place: &str, document: &Document) -> Response<Body> {
    let mut response = respond::text(StatusCode::MOVED_PERMANENTLY, "");
    if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{place}?hash={}", document.hash)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
