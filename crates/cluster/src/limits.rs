//! What every request goes through: time limits, retries and a budget for them, and the question whether writing is
//! still ours to do ([`Leadership`]).
//!
//! A write that is not safe to repeat is sent once, unless the server says that it did not look at it (429).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header, request::Parts};
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use super::circuit_breaker::CircuitBreaker;
use super::error::{Unreached, is_about_the_object};
use super::exchange::{Exchange, RequestObserver, is_watch, verb};
use cutover_base::USER_AGENT;
use cutover_http::{Backoff, Retry, TimedOut, retry_after};
use cutover_leadership::{Leadership, Refused};

/// How long and how often something is tried.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For the connection, TLS included.
    pub connect: Duration,
    /// For one attempt, up to the last byte of the answer; for a watch, up to its first.
    pub request: Duration,
    /// After which no further attempt is begun.
    pub total: Duration,
    /// After how long a watch is renewed.
    pub watch: Duration,
    /// After how long of silence a watch counts as dead. An API server sends a bookmark every minute.
    pub idle_timeout: Duration,
    /// Attempts for one request, the first included.
    pub attempts: u32,
    /// The first delay between attempts; it doubles each time, up to `slowest`.
    pub backoff: Duration,
    pub slowest: Duration,
    /// After how many failures of the server in a row it is spared.
    pub failures: u32,
    /// How many writes of one wave are in flight.
    pub in_flight: usize,
    /// Seeds the jitter.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            request: Duration::from_secs(15),
            total: Duration::from_secs(40),
            watch: Duration::from_secs(290),
            idle_timeout: Duration::from_secs(75),
            attempts: 5,
            backoff: Duration::from_millis(100),
            slowest: Duration::from_secs(10),
            failures: 8,
            in_flight: 16,
            seed: 0,
        }
    }
}

/// Sends requests within the limits, and writes only during a term of leadership.
#[derive(Clone)]
pub(super) struct Sender {
    inner: kube::Client,
    /// The address, where it is known.
    server: Option<Arc<str>>,
    pub(super) limits: Limits,
    budget: Arc<Budget>,
    /// The next request's: no two have the same delays.
    seed: Arc<AtomicU64>,
    circuit_breaker: Arc<CircuitBreaker>,
    leadership: Leadership,
    observer: Option<Arc<dyn RequestObserver>>,
}

impl Sender {
    pub(super) fn new(inner: kube::Client, server: Option<Arc<str>>, limits: Limits) -> Self {
        Self {
            inner,
            server,
            budget: Arc::default(),
            seed: Arc::new(AtomicU64::new(limits.seed)),
            circuit_breaker: Arc::new(CircuitBreaker::new(&limits)),
            limits,
            leadership: Leadership::unbounded(),
            observer: None,
        }
    }

    /// Returns one that shares the connections, with limits and a budget of its own.
    pub(super) fn with(&self, limits: Limits) -> Self {
        Self {
            observer: self.observer.clone(),
            ..Self::new(self.inner.clone(), self.server.clone(), limits)
        }
    }

    /// Returns one that shares everything, and whose exchanges are observed.
    pub(super) fn observed(&self, observer: Arc<dyn RequestObserver>) -> Self {
        Self {
            observer: Some(observer),
            ..self.clone()
        }
    }

    /// Returns one that shares everything, and writes only during the term of leadership.
    pub(super) fn within(&self, leadership: Leadership) -> Self {
        Self {
            leadership,
            ..self.clone()
        }
    }

    pub(super) fn may_write(&self) -> super::Result<()> {
        self.leadership.may_write().map_err(|why| super::Error::NotSent {
            call: "cannot write".to_owned(),
            why,
        })
    }

    /// Returns a client that sends everything this way.
    pub(super) fn client(&self) -> kube::Client {
        let (sender, namespace) = (self.clone(), self.inner.default_namespace().to_owned());
        let service = tower::service_fn(move |request| {
            let sender = sender.clone();
            async move { sender.send(request).await }
        });
        kube::Client::new(service, namespace)
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        parts
            .headers
            .entry(header::USER_AGENT)
            .or_insert(HeaderValue::from_static(USER_AGENT));
        let deadline = Instant::now() + self.limits.total;
        self.budget.earn();
        let backoff = Backoff::new(self.limits.backoff, self.limits.slowest);
        let mut delays = backoff.seeded(self.seed.fetch_add(1, Ordering::Relaxed));
        let mut attempt = 1;
        loop {
            if !is_of_member(&parts.uri) {
                tokio::select! {
                    biased;
                    passed = self.circuit_breaker.pass(deadline) => passed?,
                    () = self.leadership.closed() => return Err(Refused::Closing.into()),
                }
            }
            let outcome = self.attempt(&parts, &body).await;
            let again = match retry(&parts, &outcome) {
                Retry::Soon if !self.budget.spend() => Retry::No,
                other => other,
            };
            match again.wait(delays.next_delay()) {
                Some(delay) if attempt < self.limits.attempts && Instant::now() + delay < deadline => {
                    tracing::debug!(method = %parts.method, path = parts.uri.path(), attempt, ?delay, "trying again");
                    tokio::select! {
                        () = tokio::time::sleep(delay) => attempt += 1,
                        () = self.leadership.closed() => return outcome,
                    }
                }
                _ => return outcome.map_err(|error| self.addressed(error)),
            }
        }
    }

    /// Says of a failure between here and the server which server that is.
    fn addressed(&self, error: BoxError) -> BoxError {
        match &self.server {
            Some(server) if is_of_transport(&error) => Box::new(Unreached {
                server: Arc::clone(server),
                why: error,
            }),
            _ => error,
        }
    }

    async fn attempt(&self, parts: &Parts, body: &Bytes) -> Result<Response<Body>, BoxError> {
        let write = is_write(&parts.method, &parts.uri).then(|| self.leadership.write());
        let _under_way = write.transpose()?;
        let request = Request::from_parts(parts.clone(), Body::from(body.clone()));
        let streams = is_watch(&parts.method, &parts.uri);
        let began = Instant::now();
        let exchange = async {
            let response = self.inner.send(request).await?;
            if streams && response.status().is_success() {
                return Ok((response, false));
            }
            let (head, body) = response.into_parts();
            let body = body.collect_bytes().await?;
            let fails = fails(head.status, &body);
            let response = Response::from_parts(head, Body::from(body));
            Ok((response, fails))
        };
        let exchanged = match tokio::time::timeout(self.limits.request, exchange).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(TimedOut(self.limits.request).into()),
        };
        if let Some(observer) = &self.observer {
            let why = exchanged.as_ref().map_err(ToString::to_string);
            observer.observe(&Exchange {
                verb: verb(parts),
                is_of_member: is_of_member(&parts.uri),
                outcome: why
                    .as_ref()
                    .map(|(response, _)| response.status().as_u16())
                    .map_err(String::as_str),
                took: began.elapsed(),
            });
        }
        if !is_of_member(&parts.uri) {
            match &exchanged {
                Ok((_, false)) => self.circuit_breaker.succeeded(),
                Ok((_, true)) => self.circuit_breaker.failed(),
                Err(error) if is_of_transport(error) => self.circuit_breaker.failed(),
                Err(_) => {}
            }
        }
        exchanged.map(|(response, _)| response)
    }
}

/// Returns what the outcome of an attempt says about another one.
fn retry(parts: &Parts, outcome: &Result<Response<Body>, BoxError>) -> Retry {
    match outcome {
        Ok(response) => {
            let status = response.status();
            let refused_unseen = status == StatusCode::TOO_MANY_REQUESTS;
            let passing = matches!(
                status,
                StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
            );
            if refused_unseen || (passing && is_repeatable(parts)) {
                retry_after(response.headers()).map_or(Retry::Soon, Retry::After)
            } else {
                Retry::No
            }
        }
        Err(error) if is_repeatable(parts) && is_of_transport(error) => Retry::Soon,
        Err(_) => Retry::No,
    }
}

/// Returns whether sending it twice does what sending it once does: reads, and server-side apply.
///
/// A watch is not repeated here: its reader starts it again by itself.
fn is_repeatable(parts: &Parts) -> bool {
    match parts.method {
        Method::GET | Method::HEAD => !is_watch(&parts.method, &parts.uri),
        Method::PATCH => parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch")),
        _ => false,
    }
}

/// Returns whether something may be different afterwards.
fn is_write(method: &Method, uri: &Uri) -> bool {
    let only_tried = |query: &str| query.split('&').any(|pair| pair == "dryRun=All");
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    !reads && !uri.query().is_some_and(only_tried)
}

/// Returns whether the server itself is in trouble, rather than the request.
fn fails(status: StatusCode, body: &[u8]) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() && !is_about_the_object(body)
}

/// A member that can't be reached says nothing of the control plane.
fn is_of_member(uri: &Uri) -> bool {
    uri.path().contains("/proxy/")
}

fn is_of_transport(error: &BoxError) -> bool {
    error.is::<TimedOut>()
        || matches!(
            error.downcast_ref::<kube::Error>(),
            Some(kube::Error::HyperError(_) | kube::Error::Service(_))
        )
}

/// Retries may be a tenth of all requests in the long run: against a server that fails, cutover does not add to the load.
struct Budget {
    /// In tenths of a retry.
    tenths: AtomicI64,
}

impl Budget {
    const FULL: i64 = 200;
    const RETRY: i64 = 10;

    fn earn(&self) {
        let _ = self
            .tenths
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tenths| {
                (tenths < Self::FULL).then_some(tenths + 1)
            });
    }

    fn spend(&self) -> bool {
        self.tenths
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tenths| {
                (tenths >= Self::RETRY).then_some(tenths - Self::RETRY)
            })
            .is_ok()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            tenths: AtomicI64::new(Self::FULL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, uri: &str, content: &str) -> Parts {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, content);
        request.body(()).unwrap().into_parts().0
    }

    fn answered(parts: &Parts, code: u16, after: Option<&str>) -> Retry {
        let mut response = Response::builder().status(code);
        if let Some(after) = after {
            response = response.header(header::RETRY_AFTER, after);
        }
        retry(parts, &Ok(response.body(Body::empty()).unwrap()))
    }

    #[test]
    fn only_what_is_safe_to_repeat_is_repeated() {
        let read = request(Method::GET, "/x", "");
        let watch = request(Method::GET, "/x?watch=true&timeoutSeconds=290", "");
        let create = request(Method::POST, "/x", "application/json");
        let apply = request(Method::PATCH, "/x", "application/apply-patch+yaml");
        let patch = request(Method::PATCH, "/x", "application/json-patch+json");
        for safe in [&read, &apply] {
            assert_eq!(answered(safe, 503, None), Retry::Soon);
            assert_eq!(retry(safe, &Err(TimedOut(Duration::ZERO).into())), Retry::Soon);
        }
        for unsafe_or_watch in [&create, &patch, &watch] {
            assert_eq!(answered(unsafe_or_watch, 503, None), Retry::No);
            assert_eq!(
                retry(unsafe_or_watch, &Err(TimedOut(Duration::ZERO).into())),
                Retry::No
            );
        }
        assert_eq!(
            answered(&create, 429, Some("2")),
            Retry::After(Duration::from_secs(2))
        );
        assert_eq!(answered(&read, 404, None), Retry::No);
    }

    #[tokio::test]
    async fn a_server_that_asks_for_more_time_than_clocks_have_is_not_asked_again() {
        let service = tower::service_fn(|_request: Request<Body>| async {
            let response = Response::builder()
                .status(StatusCode::TOO_MANY_REQUESTS)
                .header(header::RETRY_AFTER, u64::MAX);
            response.body(Body::empty()).map_err(BoxError::from)
        });
        let sender = Sender::new(kube::Client::new(service, "default"), None, Limits::default());
        let response = sender.send(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    }

    #[test]
    fn what_is_only_tried_is_no_write() {
        let is_write = |method: Method, uri: &'static str| is_write(&method, &Uri::from_static(uri));
        assert!(is_write(Method::POST, "/x"));
        assert!(is_write(Method::PATCH, "/x?fieldManager=cutover&force=true"));
        assert!(is_write(Method::DELETE, "/x?dryRun="));
        assert!(!is_write(Method::PATCH, "/x?fieldManager=cutover&dryRun=All"));
        assert!(!is_write(Method::GET, "/x?watch=true"));
    }

    #[test]
    fn a_server_in_trouble_is_told_from_an_object_in_trouble() {
        let internal = StatusCode::INTERNAL_SERVER_ERROR;
        assert!(fails(internal, b"etcdserver: request timed out"));
        assert!(fails(StatusCode::TOO_MANY_REQUESTS, b""));
        assert!(!fails(StatusCode::NOT_FOUND, b""));
        for message in [
            "failed to create typed patch object (shop/x; v1, Kind=X): .spec: expected map",
            "Internal error occurred: failed calling webhook \"x.example.com\": timeout",
        ] {
            assert!(!fails(internal, message.as_bytes()));
        }
        assert!(is_of_member(&Uri::from_static(
            "/apis/cluster.karmada.io/v1alpha1/clusters/west/proxy/api/v1/pods"
        )));
    }

    #[test]
    fn a_server_that_keeps_failing_uses_the_budget_up() {
        let budget = Budget::default();
        let retries = (0..100).filter(|_| budget.spend()).count();
        assert_eq!(retries, 20);
        (0..10).for_each(|_| budget.earn());
        assert!(budget.spend() && !budget.spend());
    }
}
