//! One request and what came of it, for those who measure.

use std::time::Duration;

use http::{Method, Uri, header, request::Parts};

/// A request that was sent once, and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// As RBAC calls it; server-side apply is `apply`.
    pub verb: &'static str,
    /// Of a member, through Karmada's cluster proxy.
    pub is_of_member: bool,
    /// The HTTP status, or why there is none.
    pub outcome: Result<u16, &'a str>,
    pub took: Duration,
}

/// Observes every exchange with an API server.
pub trait RequestObserver: Send + Sync {
    fn observe(&self, exchange: &Exchange<'_>);
}

/// Returns what a request asks for, as RBAC calls it.
pub(super) fn verb(parts: &Parts) -> &'static str {
    let names = names_object(&parts.uri);
    match parts.method {
        Method::GET | Method::HEAD if is_watch(&parts.method, &parts.uri) => "watch",
        Method::GET | Method::HEAD if names => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => {
            let content = parts.headers.get(header::CONTENT_TYPE);
            if content.is_some_and(|content| content.as_bytes().starts_with(b"application/apply-patch")) {
                "apply"
            } else {
                "patch"
            }
        }
        Method::DELETE if names => "delete",
        Method::DELETE => "deletecollection",
        _ => "other",
    }
}

/// Returns whether a request is for a stream of changes.
pub(super) fn is_watch(method: &Method, uri: &Uri) -> bool {
    let asks = |query: &str| {
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    };
    method == Method::GET && uri.query().is_some_and(asks)
}

/// Returns whether a path is that of one thing, and not of a collection: of a member's, the part after the proxy says so.
fn names_object(uri: &Uri) -> bool {
    let path = uri
        .path()
        .split_once("/proxy/")
        .map_or(uri.path(), |(_, path)| path);
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let root = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return true,
    };
    let rest: Vec<&str> = segments.skip(root).collect();
    match rest.as_slice() {
        // What a group serves is one document.
        [] => true,
        ["namespaces", _, rest @ ..] => rest.len() != 1,
        rest => rest.len() > 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn verbs_are_those_of_rbac() {
        for (method, uri, content, expected) in [
            (
                Method::GET,
                "/api/v1/namespaces/shop/configmaps?limit=500",
                "",
                "list",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/shop/configmaps?watch=true",
                "",
                "watch",
            ),
            (Method::GET, "/api/v1/namespaces/shop/configmaps/a", "", "get"),
            (Method::GET, "/api/v1/namespaces/shop", "", "get"),
            (Method::GET, "/api/v1/namespaces", "", "list"),
            (Method::GET, "/apis/cutover.dev/v1alpha1", "", "get"),
            (Method::GET, "/apis/cutover.dev/v1alpha1/migrations", "", "list"),
            (
                Method::PUT,
                "/apis/cutover.dev/v1alpha1/namespaces/shop/migrations/a/status",
                "",
                "update",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/shop/configmaps/a",
                "application/apply-patch+yaml",
                "apply",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/shop/configmaps/a",
                "application/merge-patch+json",
                "patch",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/shop/configmaps/a",
                "",
                "delete",
            ),
            (Method::POST, "/api/v1/namespaces/shop/configmaps", "", "create"),
            (
                Method::GET,
                "/apis/cluster.karmada.io/v1alpha1/clusters/west/proxy/api/v1/namespaces/shop/pods",
                "",
                "list",
            ),
            (
                Method::GET,
                "/apis/cluster.karmada.io/v1alpha1/clusters/west/proxy/api/v1/nodes/one",
                "",
                "get",
            ),
        ] {
            let request = Request::builder()
                .method(&method)
                .uri(uri)
                .header(header::CONTENT_TYPE, content);
            let parts = request.body(()).unwrap().into_parts().0;
            assert_eq!(verb(&parts), expected, "{method} {uri}");
        }
    }
}
