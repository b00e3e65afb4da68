//! The protocol of Kubernetes over the verbs: a `tower::Service` for kube clients in this process, which a listener
//! can serve to kubectl and others. No verb's meaning is decided here.

mod call;
mod discovery;
mod duplicates;
mod negotiate;
mod openapi;
mod query;
mod respond;
mod route;
mod whoami;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::BoxError;

use super::ApiServer;
use super::status::Status;
use call::Call;
pub(super) use whoami::WhoAmI;

/// Answers the requests of a group and version that no served kind answers.
pub trait Aggregated: Send + Sync {
    /// Answers a request with its path as the client sent it.
    fn handle(&self, request: Request<Bytes>, user: String) -> BoxFuture<'static, Response<Body>>;
}

/// What a request is about, as far as it is known before it is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `raw`.
    pub verb: &'static str,
    pub group: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    pub dry_run: bool,
    pub user: String,
}

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    Delay(Duration),
    /// Answers with this instead.
    Status(Status),
    /// No answer: the connection breaks.
    DropConnection,
    /// A watch breaks off after this time.
    CutWatch(Duration),
}

/// Decides what goes wrong with requests.
pub trait Faults: Send + Sync {
    /// Is asked before a request is carried out.
    fn before<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>>;

    /// Is asked when a request has been carried out, before its answer leaves.
    fn after<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>>;

    /// Ends when the connection of a watch that begins now breaks.
    fn broken_off(&self, _: &RequestInfo) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The connection broke before an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by the server")]
pub struct Dropped;

/// The API of a server for one user, as a `tower::Service`.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: ApiServer,
    user: Arc<str>,
}

impl ApiServer {
    /// Returns a client in this process. Must be called on a tokio runtime.
    pub fn client(&self, user: &str) -> kube::Client {
        kube::Client::new(self.service(user), "default")
    }

    pub fn service(&self, user: &str) -> ApiService {
        ApiService {
            server: self.clone(),
            user: user.into(),
        }
    }

    /// Serves plain HTTP until the listener fails. Callers are taken for the user that `Impersonate-User` names, or
    /// for `user`.
    pub async fn serve(&self, listener: tokio::net::TcpListener, user: &str) -> std::io::Result<()> {
        let service = Unbroken(self.service(user));
        axum::serve(listener, tower::make::Shared::new(service)).await
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Bytes>, user: &str) -> Result<Response<Body>, Dropped> {
        let impersonated = request
            .headers()
            .get("impersonate-user")
            .and_then(|name| name.to_str().ok());
        let user = impersonated.unwrap_or(user).to_owned();
        let call = Call {
            server: self,
            request,
            user,
        };
        let info = call.info();
        let faults = self
            .inner
            .faults
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut cut: BoxFuture<'static, ()> = Box::pin(std::future::pending());
        if let Some(faults) = &faults {
            if info.verb == "watch" {
                cut = faults.broken_off(&info);
            }
            match faults.before(&info).await {
                Some(Fault::DropConnection) => return Err(Dropped),
                Some(Fault::Status(status)) => return Ok(respond::refusal(&status)),
                Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
                Some(Fault::CutWatch(after)) => cut = Box::pin(tokio::time::sleep(after)),
                None => {}
            }
        }
        let response = call.answer(cut).await;
        if let Some(faults) = &faults {
            match faults.after(&info).await {
                Some(Fault::DropConnection) => return Err(Dropped),
                Some(Fault::Status(status)) => return Ok(respond::refusal(&status)),
                Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
                Some(Fault::CutWatch(_)) | None => {}
            }
        }
        Ok(response)
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let ApiService { server, user } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok(server.handle(Request::from_parts(parts, body), &user).await?)
        })
    }
}

/// A service that can't fail, as a listener wants it: a broken connection becomes a body that breaks.
#[derive(Clone, Debug)]
struct Unbroken(ApiService);

impl tower::Service<Request<Body>> for Unbroken {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            Ok(answer.await.unwrap_or_else(|error| {
                Response::new(Body::from_stream(futures::stream::once(async {
                    Err::<Bytes, _>(error)
                })))
            }))
        })
    }
}
