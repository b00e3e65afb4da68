//! One receiver: what is sent again, and when.

use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use tokio::sync::mpsc;

use super::Left;
use crate::signature;
use cutover_core::config::{Format, Receiver};
use cutover_core::error::Error;
use cutover_core::report::Notice;
use cutover_http::{Backoff, Client, ClientOptions, Retry, RetryPolicy, Trust, bearer, retry_after};

/// More of an answer isn't read. Read to the end, the connection can be used again.
const MAX_BYTES: usize = 64 << 10;

/// How long to go on with one notice. A receiver that asks for a longer wait than the longest is asked again after that.
pub const RETRY_POLICY: RetryPolicy = RetryPolicy {
    attempts: 6,
    backoff: Backoff::new(Duration::from_secs(2), Duration::from_mins(1)),
    timeout: Duration::from_secs(10),
};

/// Why a receiver was not told. It doesn't name the URL: that may be a secret.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Never(String),
    #[error("{why}")]
    Perhaps { why: String, retry: Retry },
}

pub(super) struct Sender {
    name: String,
    format: Format,
    source: String,
    client: Client,
    path: PathAndQuery,
    secret: Option<String>,
    headers: HeaderMap,
    policy: RetryPolicy,
}

impl Sender {
    pub(super) fn new(receiver: &Receiver, source: &str, policy: RetryPolicy) -> Result<Self, Error> {
        let bad = |why: String| Error::user(format!("receiver {} can't be used: {why}", receiver.name));
        let url: Uri = receiver
            .url
            .reveal()
            .parse()
            .map_err(|_| bad("its URL is none".to_owned()))?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &receiver.token {
            let value = bearer(token.reveal())
                .ok_or_else(|| bad("its token is empty, or has characters that no token has".to_owned()))?;
            headers.insert(header::AUTHORIZATION, value);
        }
        let options = ClientOptions {
            trust: Trust::System,
            https_only: false,
            timeout: policy.timeout,
            max_bytes: MAX_BYTES,
        };
        Ok(Self {
            name: receiver.name.clone(),
            format: receiver.format,
            source: source.to_owned(),
            client: Client::new(&url, &options).map_err(|error| bad(error.to_string()))?,
            path: url
                .path_and_query()
                .cloned()
                .unwrap_or(PathAndQuery::from_static("/")),
            secret: receiver.secret.as_ref().map(|secret| secret.reveal().to_owned()),
            headers,
            policy,
        })
    }

    pub(super) async fn run(self, mut waiting: mpsc::Receiver<Left>) {
        while let Some(left) = waiting.recv().await {
            let notice = left.into_notice();
            if let Err(why) = self.tell(&notice).await {
                let (receiver, reason) = (&self.name, &notice.told.reason);
                tracing::warn!(receiver, reason, %why, "a notice is lost");
            }
        }
    }

    async fn tell(&self, notice: &Notice) -> Result<(), Failed> {
        let retry = |failed: &Failed| match failed {
            Failed::Never(_) => Retry::No,
            Failed::Perhaps { retry, .. } => *retry,
        };
        self.policy.run(|| self.send(notice), retry).await
    }

    async fn send(&self, notice: &Notice) -> Result<(), Failed> {
        let answer = self.client.send(self.request(notice)?).await;
        let answer = answer.map_err(|error| Failed::Perhaps {
            why: match error {
                cutover_http::Error::NotConnected(why) => format!("it can't be reached: {why}"),
                other => other.to_string(),
            },
            retry: Retry::Soon,
        })?;
        self.judge(answer.status(), answer.headers())
    }

    fn request(&self, notice: &Notice) -> Result<Request<Vec<u8>>, Failed> {
        let body = notice.body(self.format, &self.source);
        let mut request = Request::post(self.path.clone()).header(header::CONTENT_TYPE, body.content_type);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        if let Some(secret) = &self.secret {
            let signature = signature(secret, &body.bytes)
                .ok_or_else(|| Failed::Never("it can't be signed".to_owned()))?;
            request = request.header("x-cutover-signature-256", format!("sha256={signature}"));
        }
        request
            .body(body.bytes)
            .map_err(|_| Failed::Never("no request can be made of it".to_owned()))
    }

    fn judge(&self, status: StatusCode, headers: &HeaderMap) -> Result<(), Failed> {
        if status.is_success() {
            return Ok(());
        }
        let why = format!("it answered {status}");
        let later = [
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::TOO_EARLY,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        if !status.is_server_error() && !later.contains(&status) {
            return Err(Failed::Never(why));
        }
        let longest = self.policy.backoff.longest;
        let retry = retry_after(headers).map_or(Retry::Soon, |wait| Retry::After(wait.min(longest)));
        Err(Failed::Perhaps { why, retry })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use cutover_core::report::EventRecord;

    fn notice() -> Notice {
        Notice {
            kind: "Migration".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders-to-west".to_owned(),
            uid: None,
            told: EventRecord::new(false, "Hold", "east: held"),
            at: jiff::Timestamp::UNIX_EPOCH,
            besides: None,
        }
    }

    /// Sends a notice to a receiver that is there for one request; returns what came of it.
    async fn sent(answer: String) -> Result<(), Failed> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/swordfish", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            drop(listener);
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            // Whoever has read enough may hang up.
            let _ = stream.write_all(answer.as_bytes());
        });
        let receiver = serde_json::json!({"name": "ours", "format": "Webhook", "url": url});
        let policy = RetryPolicy {
            attempts: 2,
            backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(1)),
            ..RETRY_POLICY
        };
        let sender = Sender::new(&serde_json::from_value(receiver).unwrap(), "plane", policy).unwrap();
        let outcome = sender.tell(&notice()).await;
        served.join().unwrap();
        outcome
    }

    #[tokio::test]
    async fn a_receiver_that_accepts_a_notice_at_length_gets_it_once() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_owned();
        sent(head.clone() + &" ".repeat(1_000_000)).await.unwrap();
        sent(head + "cut off").await.unwrap();
    }

    #[tokio::test]
    async fn why_a_notice_is_lost_is_said_without_the_url() {
        let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let why = sent(head.to_owned()).await.unwrap_err().to_string();
        assert!(why.contains("refused") && !why.contains("swordfish"), "{why}");
    }
}
