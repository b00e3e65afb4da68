//! The cluster proxy: `clusters/NAME/proxy/…` in the control plane is the API of a member.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};

use super::kinds::CLUSTERS;
use crate::api::status::Reason;
use crate::api::{Aggregated, ApiServer, Status};
use crate::faults::{Faults, Pace, Span};

const PROCESS: &str = "karmada-aggregated-apiserver";
const NAME: &str = "cluster-proxy";
const PREFIX: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/";

/// Answers for the members.
#[derive(Debug)]
pub struct ClusterProxy {
    members: Arc<BTreeMap<String, ApiServer>>,
    faults: Faults,
    latency: Span,
    /// One for each member, which stops what is on its way while the member is cut off.
    paces: BTreeMap<String, Arc<Pace>>,
}

impl ClusterProxy {
    pub fn new(members: Arc<BTreeMap<String, ApiServer>>, faults: Faults, latency: Span, seed: u64) -> Self {
        let pace = |name: &str| {
            let own = name.bytes().fold(seed, |seed, byte| {
                seed.wrapping_mul(31).wrapping_add(u64::from(byte))
            });
            Arc::new(Pace::new(faults.clone(), own, PROCESS, NAME).through(name))
        };
        let paces = members.keys().map(|name| (name.clone(), pace(name))).collect();
        Self {
            members,
            faults,
            latency,
            paces,
        }
    }
}

impl Aggregated for ClusterProxy {
    fn handle(&self, request: Request<Bytes>, user: String) -> BoxFuture<'static, Response<Body>> {
        let Some((name, path)) = target(request.uri().path()) else {
            return refuse(Status::no_such_resource());
        };
        let (Some(member), Some(pace)) = (self.members.get(&name), self.paces.get(&name)) else {
            return refuse(Status::not_found(&CLUSTERS, &name));
        };
        // Connecting to something is all or nothing for an aggregated API server.
        if request.uri().query().is_some_and(asks_for_a_dry_run) {
            return refuse(Status::bad_request("dryRun is not supported".to_owned()));
        }
        let Some(request) = redirect(request, &path) else {
            return refuse(Status::bad_request(format!("{path:?} is no path")));
        };
        let (member, pace) = (member.clone(), Arc::clone(pace));
        let (faults, latency) = (self.faults.clone(), self.latency);
        async move {
            let delay = pace.draw(latency);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if faults.is_partitioned(&name) {
                return answer(&unreachable(&name));
            }
            match member.handle(request, &user).await {
                Ok(response) => through(response, pace),
                Err(_) => answer(&unreachable(&name)),
            }
        }
        .boxed()
    }
}

fn asks_for_a_dry_run(query: &str) -> bool {
    query
        .split('&')
        .any(|field| field.split('=').next() == Some("dryRun"))
}

/// Returns the member that a path names, and the path within it.
fn target(path: &str) -> Option<(String, String)> {
    let (name, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
    let rest = rest.strip_prefix("proxy")?;
    match rest {
        "" => Some((name.to_owned(), "/".to_owned())),
        rest if rest.starts_with('/') => Some((name.to_owned(), rest.to_owned())),
        _ => None,
    }
}

fn redirect(request: Request<Bytes>, path: &str) -> Option<Request<Bytes>> {
    let (mut parts, body) = request.into_parts();
    let query = parts
        .uri
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    parts.uri = format!("{path}{query}").parse::<Uri>().ok()?;
    // The caller has been taken for that user already.
    parts.headers.remove("impersonate-user");
    Some(Request::from_parts(parts, body))
}

/// What comes from a member stops while it is cut off.
fn through(response: Response<Body>, pace: Arc<Pace>) -> Response<Body> {
    response.map(|body| {
        Body::from_stream(body.into_data_stream().then(move |chunk| {
            let pace = Arc::clone(&pace);
            async move {
                pace.pass().await;
                chunk
            }
        }))
    })
}

fn unreachable(name: &str) -> Status {
    let message = format!("error trying to reach service: dial tcp: cluster {name}: i/o timeout");
    Status::new(503, Reason::ServiceUnavailable, message)
}

fn refuse(status: Status) -> BoxFuture<'static, Response<Body>> {
    async move { answer(&status) }.boxed()
}

fn answer(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::from(status.to_json().to_string()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_within_the_member_is_what_follows_the_proxy() {
        let path = |path: &str| target(&format!("{PREFIX}{path}"));
        let found = |name: &str, path: &str| Some((name.to_owned(), path.to_owned()));
        assert_eq!(path("east/proxy/api/v1/pods"), found("east", "/api/v1/pods"));
        assert_eq!(path("east/proxy"), found("east", "/"));
        assert_eq!(path("east/proxyless"), None);
        assert_eq!(path("east/status"), None);
    }
}
