//! One receiver: what is sent again, and when.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use kube::client::{Body, ClientBuilder};
use kube::config::Config;
use tokio::sync::mpsc;

use crate::signature;
use cutover_base::USER_AGENT;
use cutover_core::config::Receiver;
use cutover_core::error::Error;
use cutover_core::report::{Format, Notice};

/// More of an answer isn't read.
const MOST_BYTES: usize = 64 << 10;

/// How long to go on with one notice.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub attempts: u32,
    /// Before the second attempt; each further wait is twice as long.
    pub first: Duration,
    /// The longest that is waited at once, also when the receiver asks for more.
    pub longest: Duration,
    /// For one answer.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 6,
            first: Duration::from_secs(1),
            longest: Duration::from_mins(1),
            answer: Duration::from_secs(10),
        }
    }
}

/// Why a receiver was not told. It doesn't name the URL: that may be a secret.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Never(String),
    #[error("{why}")]
    Perhaps { why: String, wait: Option<Duration> },
}

pub(super) struct Sender {
    name: String,
    format: Format,
    source: String,
    client: kube::Client,
    path: String,
    secret: Option<String>,
    headers: HeaderMap,
    patience: Patience,
}

impl Sender {
    pub(super) fn new(receiver: &Receiver, source: &str, patience: Patience) -> Result<Self, Error> {
        let bad = |why: &str| Error::user(format!("receiver {} can't be used: {why}", receiver.name));
        let url: Uri = receiver
            .url
            .reveal()
            .parse()
            .map_err(|_| bad("its URL is none"))?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &receiver.token {
            let bearer = format!("Bearer {}", token.reveal());
            let mut value = HeaderValue::from_str(&bearer)
                .map_err(|_| bad("its token has characters that no token has"))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        // The client puts the path of its base before that of a request.
        let path = url
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str)
            .to_owned();
        let mut base = url.into_parts();
        base.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let base = Uri::from_parts(base).map_err(|_| bad("its URL is none"))?;
        let mut config = Config::new(base);
        config.connect_timeout = Some(patience.answer);
        config.read_timeout = Some(patience.answer);
        config.default_retry = false;
        let client = ClientBuilder::try_from(config)
            .map_err(|_| bad("no connection can be prepared"))?
            .build();
        Ok(Self {
            name: receiver.name.clone(),
            format: receiver.format,
            source: source.to_owned(),
            client,
            path,
            secret: receiver.secret.as_ref().map(|secret| secret.reveal().to_owned()),
            headers,
            patience,
        })
    }

    pub(super) async fn run(self, mut waiting: mpsc::Receiver<Notice>) {
        while let Some(notice) = waiting.recv().await {
            if let Err(why) = self.tell(&notice).await {
                let (receiver, reason) = (&self.name, &notice.told.reason);
                tracing::warn!(receiver, reason, %why, "a notice is lost");
            }
        }
    }

    async fn tell(&self, notice: &Notice) -> Result<(), Failed> {
        let mut pause = self.patience.first;
        let mut attempt = 1;
        loop {
            let failed = match self.once(notice).await {
                Err(failed @ Failed::Perhaps { .. }) if attempt < self.patience.attempts => failed,
                outcome => return outcome,
            };
            let wait = match failed {
                Failed::Perhaps { wait: Some(wait), .. } => wait,
                _ => pause,
            };
            // Many that were refused together don't come back together.
            let wait = wait
                .min(self.patience.longest)
                .mul_f64(1.0 + fastrand::f64() / 4.0);
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(self.patience.longest);
            attempt += 1;
        }
    }

    async fn once(&self, notice: &Notice) -> Result<(), Failed> {
        let request = self.request(notice)?;
        let unclear = |why: String| Failed::Perhaps { why, wait: None };
        let asked = async {
            let answer = self.client.send(request).await;
            let (head, body) = answer
                .map_err(|_| unclear("it can't be reached".to_owned()))?
                .into_parts();
            // Read to the end, the connection can be used again.
            let _ = Limited::new(body, MOST_BYTES).collect().await;
            judge(head.status, &head.headers)
        };
        let limit = self.patience.answer;
        match tokio::time::timeout(limit, asked).await {
            Ok(outcome) => outcome,
            Err(_) => Err(unclear(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    fn request(&self, notice: &Notice) -> Result<Request<Body>, Failed> {
        let body = notice.body(self.format, &self.source);
        let mut request = Request::post(&self.path)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, body.content_type);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        if let Some(secret) = &self.secret {
            let signature = signature(secret, &body.bytes)
                .ok_or_else(|| Failed::Never("it can't be signed".to_owned()))?;
            request = request.header("x-cutover-signature-256", format!("sha256={signature}"));
        }
        request
            .body(Body::from(body.bytes))
            .map_err(|_| Failed::Never("no request can be made of it".to_owned()))
    }
}

fn judge(status: StatusCode, headers: &HeaderMap) -> Result<(), Failed> {
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
    let after = headers.get(header::RETRY_AFTER);
    let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
    Err(Failed::Perhaps {
        why,
        wait: after.map(Duration::from_secs),
    })
}
