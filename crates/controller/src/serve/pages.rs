//! `GET /livez`, `/readyz` and `/metrics`: for kubelets and Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::listener::{self, ConnectionLimits, Place};
use super::refusals::Refusals;
use crate::telemetry::{CONTENT_TYPE, Telemetry};
use cutover_core::error::{Error, Kind, Result};

/// Listens; returns the address, and what serves until it is cancelled.
pub fn pages(
    listen: SocketAddr,
    telemetry: Telemetry,
    limits: ConnectionLimits,
    cancel: CancellationToken,
) -> BoxFuture<'static, Result<(SocketAddr, BoxFuture<'static, ()>)>> {
    Box::pin(async move {
        let failed = |error: std::io::Error| {
            Error::new(
                Kind::User,
                format!("cannot listen for probes and metrics at {listen}: {error}"),
            )
            .hint("name another address with --metrics-addr")
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let refusals = Arc::new(Refusals::of("metrics"));
        let serving = listener::serve(listener, router(telemetry), limits, refusals, cancel);
        Ok((address, Box::pin(serving) as BoxFuture<'static, ()>))
    })
}

/// Returns the pages, for a listener that has others too.
pub(super) fn router(telemetry: Telemetry) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(telemetry)
}

/// That it answers is all there is to say: loops that end by themselves end the process.
async fn livez() -> &'static str {
    "ok\n"
}

async fn readyz(State(telemetry): State<Telemetry>, Extension(place): Extension<Place>) -> Response {
    place.answering();
    let readiness = telemetry.readiness().await;
    let status = if readiness.is_ready() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, text, readiness.to_string()).into_response()
}

async fn metrics(State(telemetry): State<Telemetry>, Extension(place): Extension<Place>) -> Response {
    place.answering();
    match telemetry.metrics().await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::warn!(%error, "the metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
