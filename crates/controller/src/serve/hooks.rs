//! `POST /hook`: whoever knows the secret may say that there is something new.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::listener::{self, ConnectionLimits, Place};
use super::pages;
use super::refusals::Refusals;
use crate::telemetry::Telemetry;
use cutover_core::error::{Error, Kind, Result};
use cutover_forge::{Heard, Hook};
use cutover_git::Trigger;

/// What a host sends of the greatest push that it tells in full.
const MOST_BYTES: usize = 8 << 20;
/// How long it may take to send that.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where to listen, and to whom.
#[derive(Debug)]
pub struct HookOptions {
    pub listen: SocketAddr,
    pub hook: Hook,
    pub trigger: Trigger,
    pub limits: ConnectionLimits,
}

/// Listens; returns the address, and what serves until it is cancelled.
pub fn hooks(
    options: HookOptions,
    cancel: CancellationToken,
) -> BoxFuture<'static, Result<(SocketAddr, BoxFuture<'static, ()>)>> {
    serve(options, None, cancel)
}

/// The same, with probes and metrics at the same address.
pub fn hooks_and_pages(
    options: HookOptions,
    telemetry: Telemetry,
    cancel: CancellationToken,
) -> BoxFuture<'static, Result<(SocketAddr, BoxFuture<'static, ()>)>> {
    serve(options, Some(telemetry), cancel)
}

fn serve(
    options: HookOptions,
    telemetry: Option<Telemetry>,
    cancel: CancellationToken,
) -> BoxFuture<'static, Result<(SocketAddr, BoxFuture<'static, ()>)>> {
    Box::pin(async move {
        let at = options.listen;
        let failed = |error: std::io::Error| {
            Error::new(Kind::User, format!("cannot listen for webhooks at {at}: {error}"))
                .hint("name another address with --webhook-listen")
        };
        let listener = TcpListener::bind(at).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let refusals = Arc::new(Refusals::of("webhooks"));
        let door = Arc::new(Door {
            hook: options.hook,
            trigger: options.trigger,
            refusals: Arc::clone(&refusals),
        });
        let mut app = Router::new().route("/hook", post(hear)).with_state(door);
        if let Some(telemetry) = telemetry {
            app = app.merge(pages::router(telemetry));
        }
        let serving = listener::serve(listener, app, options.limits, refusals, cancel);
        Ok((address, Box::pin(serving) as BoxFuture<'static, ()>))
    })
}

struct Door {
    hook: Hook,
    trigger: Trigger,
    refusals: Arc<Refusals>,
}

/// Says as little as possible to strangers: whether a message was believed.
async fn hear(
    State(door): State<Arc<Door>>,
    Extension(place): Extension<Place>,
    request: Request,
) -> StatusCode {
    place.receiving();
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(PATIENCE, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return StatusCode::PAYLOAD_TOO_LARGE,
        Err(_elapsed) => return StatusCode::REQUEST_TIMEOUT,
    };
    place.answering();
    match door.hook.judge(&head.headers, &body) {
        Heard::Push => {
            door.trigger.now();
            StatusCode::ACCEPTED
        }
        Heard::Other => StatusCode::NO_CONTENT,
        Heard::Forged => {
            door.refusals
                .note("a message was rejected: its signature or token is wrong");
            StatusCode::UNAUTHORIZED
        }
    }
}
