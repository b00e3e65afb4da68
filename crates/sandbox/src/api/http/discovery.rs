//! Discovery: which groups, versions, kinds and verbs are served, in the old form and the aggregated one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value, json};

use super::super::registry::{Kind, NAMESPACES, Version, api_version};
use super::super::status::Status;
use super::super::{ApiServer, Subresource};
use super::negotiate::{Accept, Form};
use super::respond;
use super::route::Route;

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const PARTIAL_VERBS: &[&str] = &["get", "patch", "update"];

/// Answers a request for a document about what is served.
pub(super) fn answer(
    server: &ApiServer,
    route: &Route,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let accept = Accept::parse(headers);
    let aggregated = accept
        .choose(&[Form::Discovery, Form::Json])
        .is_ok_and(|form| form == Form::Discovery);
    let groups = server.groups();
    let document = match route {
        Route::Version => version(),
        Route::CoreVersions if aggregated => aggregated_list(&groups, str::is_empty),
        Route::Groups if aggregated => aggregated_list(&groups, |group| !group.is_empty()),
        Route::CoreVersions => json!({"kind": "APIVersions", "versions": ["v1"]}),
        Route::Groups => {
            let named = groups.iter().filter(|(group, _)| !group.is_empty());
            let groups: Vec<Value> = named
                .map(|(group, versions)| group_document(group, versions))
                .collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        Route::Group(group) => {
            let Some(versions) = groups.get(group) else {
                return Ok(nothing());
            };
            let mut document = json!({"kind": "APIGroup", "apiVersion": "v1"});
            merge(&mut document, group_document(group, versions));
            document
        }
        Route::Resources { group, version } => {
            let Some(kinds) = groups.get(group).and_then(|versions| versions.get(version)) else {
                return Ok(nothing());
            };
            resources_document(group, version, kinds)
        }
        _ => return Ok(nothing()),
    };
    let mut response = respond::encode(StatusCode::OK, Form::Json, &document)?;
    if aggregated && matches!(route, Route::CoreVersions | Route::Groups) {
        let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static(content_type),
        );
    }
    Ok(response)
}

/// The kinds of each group and version.
type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Kind>>>>;

impl ApiServer {
    /// Returns whether a group and version has built-in kinds: only there a real server answers in JSON about kinds
    /// that it doesn't have.
    pub(super) fn builds_in(&self, group: &str, version: &str) -> bool {
        self.with(|state| {
            let mut kinds = state.registry.kinds();
            kinds.any(|kind| !kind.custom && kind.group() == group && kind.served(version).is_some())
        })
    }

    fn groups(&self) -> Groups {
        let kinds: Vec<Arc<Kind>> = self.with(|state| state.registry.kinds().map(Arc::clone).collect());
        let mut groups = Groups::new();
        for kind in kinds {
            for version in kind.versions.iter().filter(|version| version.served) {
                let versions = groups.entry(kind.group().to_owned()).or_default();
                versions
                    .entry(version.name.clone())
                    .or_default()
                    .push(Arc::clone(&kind));
            }
        }
        groups
    }
}

fn nothing() -> Response<Body> {
    respond::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.0+sandbox",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    })
}

/// Returns versions with the most mature first, as Kubernetes prefers them: `v1`, `v1beta1`, `v1alpha1`.
fn by_preference<T>(versions: &BTreeMap<String, T>) -> Vec<(&str, &T)> {
    let mut sorted: Vec<(&str, &T)> = versions
        .iter()
        .map(|(version, kinds)| (version.as_str(), kinds))
        .collect();
    sorted.sort_by_key(|(version, _)| std::cmp::Reverse(maturity(version)));
    sorted
}

fn maturity(version: &str) -> (u8, u32, u32) {
    let rest = version.strip_prefix('v').unwrap_or_default();
    let (stage, (major, minor)) = match (rest.split_once("beta"), rest.split_once("alpha")) {
        (Some(parts), _) => (1, parts),
        (_, Some(parts)) => (0, parts),
        _ => (2, (rest, "")),
    };
    (
        stage,
        major.parse().unwrap_or_default(),
        minor.parse().unwrap_or_default(),
    )
}

fn group_document(group: &str, versions: &BTreeMap<String, Vec<Arc<Kind>>>) -> Value {
    let versions: Vec<Value> = by_preference(versions)
        .iter()
        .map(|(version, _)| json!({"groupVersion": api_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn resources_document(group: &str, version: &str, kinds: &[Arc<Kind>]) -> Value {
    let mut resources = Vec::new();
    for kind in kinds {
        let Some(served) = kind.served(version) else {
            continue;
        };
        let mut resource = json!({
            "name": kind.resource.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": verbs(kind),
        });
        add_names(&mut resource, kind);
        resources.push(resource);
        for part in subresources(kind, served) {
            let mut resource = json!({
                "name": format!("{}/{}", kind.resource.plural, part.as_str()),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": PARTIAL_VERBS,
            });
            if part == Subresource::Scale {
                merge(
                    &mut resource,
                    json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
                );
            }
            resources.push(resource);
        }
    }
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": resources,
    })
}

fn aggregated_list(groups: &Groups, wanted: impl Fn(&str) -> bool) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| wanted(group))
        .map(|(group, versions)| {
            let versions: Vec<Value> = by_preference(versions)
                .iter()
                .map(|(version, kinds)| {
                    let resources: Vec<Value> = kinds
                        .iter()
                        .filter_map(|kind| aggregated_resource(kind, version))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(kind: &Kind, version: &str) -> Option<Value> {
    let served = kind.served(version)?;
    let response_kind = json!({"group": kind.group(), "version": version, "kind": kind.kind});
    let mut resource = json!({
        "resource": kind.resource.plural,
        "responseKind": response_kind,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    add_names(&mut resource, kind);
    let parts: Vec<Value> = subresources(kind, served)
        .map(|part| {
            let response_kind = if part == Subresource::Scale {
                json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
            } else {
                response_kind.clone()
            };
            json!({"subresource": part.as_str(), "responseKind": response_kind, "verbs": PARTIAL_VERBS})
        })
        .collect();
    if !parts.is_empty() {
        merge(&mut resource, json!({"subresources": parts}));
    }
    Some(resource)
}

fn verbs(kind: &Kind) -> Vec<&'static str> {
    VERBS
        .iter()
        .copied()
        .filter(|verb| kind.resource != NAMESPACES || *verb != "deletecollection")
        .collect()
}

fn subresources(kind: &Kind, version: &Version) -> impl Iterator<Item = Subresource> {
    let finalize = kind.resource == NAMESPACES;
    let parts = [
        (Subresource::Status, version.status),
        (Subresource::Scale, version.scale.is_some()),
        (Subresource::Finalize, finalize),
    ];
    parts
        .into_iter()
        .filter(|(_, served)| *served)
        .map(|(part, _)| part)
}

fn add_names(resource: &mut Value, kind: &Kind) {
    if !kind.short_names.is_empty() {
        merge(resource, json!({"shortNames": kind.short_names}));
    }
    if !kind.categories.is_empty() {
        merge(resource, json!({"categories": kind.categories}));
    }
}

fn merge(into: &mut Value, fields: Value) {
    if let (Value::Object(into), Value::Object(fields)) = (into, fields) {
        let fields: Map<String, Value> = fields;
        into.extend(fields);
    }
}
