//! One REST API: every request has a time limit, what can be asked again is, and no more often than the API wants.

use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use serde_json::Value;

use super::Error;
use cutover_base::Secret;
use cutover_http::{
    Backoff, Client, ClientOptions, InvalidOptions, Retry, RetryPolicy, Trust, bearer, retry_after,
};

/// A page of a hundred comments of the greatest length is 25 MiB at the very most.
const MAX_BYTES: usize = 32 << 20;

/// How long to go on with one request. An API that asks for a longer wait than the longest is not waited for.
pub const RETRY_POLICY: RetryPolicy = RetryPolicy {
    attempts: 5,
    backoff: Backoff::new(Duration::from_secs(2), Duration::from_secs(90)),
    timeout: Duration::from_secs(30),
};

/// An API, and who asks.
#[derive(Clone)]
pub struct Api {
    client: Client,
    /// Without a slash at the end.
    base: String,
    /// Of the base: it stands before that of every request.
    path: String,
    token: Option<HeaderValue>,
    /// What it calls the form of its answers.
    accept: &'static str,
    policy: RetryPolicy,
}

/// GitHub's own; others know no other than JSON, and may refuse to answer in a form of which they haven't heard.
const GITHUB: &str = "application/vnd.github+json";

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// What an API answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) body: Value,
    /// Where the next page is, relative to the API.
    pub(super) next: Option<String>,
}

/// Whether a request that is sent twice does once what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idempotent {
    Yes,
    /// Only what certainly was not carried out is sent again.
    No,
}

impl Api {
    /// Sends nothing yet. `base` is for instance `https://api.github.com`, or `https://git.example.com/api/v3`.
    pub fn new(base: &str, token: Option<&Secret>, policy: RetryPolicy) -> Result<Self, Error> {
        Self::trusting(base, token, policy, None)
    }

    /// The same; trusts the certificate authorities of a PEM file, too.
    pub fn trusting(
        base: &str,
        token: Option<&Secret>,
        policy: RetryPolicy,
        ca_file: Option<&Path>,
    ) -> Result<Self, Error> {
        let base = base.trim_end_matches('/');
        let url: Uri = base.parse().map_err(|_| bad_url("is not one"))?;
        let options = ClientOptions {
            trust: ca_file.map_or(Trust::System, Trust::SystemAnd),
            https_only: true,
            timeout: policy.timeout,
            max_bytes: MAX_BYTES,
        };
        Ok(Self {
            client: Client::new(&url, &options)?,
            base: base.to_owned(),
            path: url.path().trim_end_matches('/').to_owned(),
            token: token.map(authorization).transpose()?,
            accept: GITHUB,
            policy,
        })
    }

    /// Returns the same API, asked by whoever has this token.
    pub(super) fn by(&self, token: &Secret) -> Result<Self, Error> {
        Ok(Self {
            token: Some(authorization(token)?),
            ..self.clone()
        })
    }

    /// Returns an API that isn't GitHub's.
    pub(super) fn plain(self) -> Self {
        Self {
            accept: "application/json",
            ..self
        }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.ask(Method::GET, path, None, Idempotent::Yes).await
    }

    /// Sends a request until there is an answer that counts, or attempts run out.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        idempotent: Idempotent,
    ) -> Result<Answer, Error> {
        let send = || self.send(&method, path, body);
        self.policy.run(send, |error| self.retry(error, idempotent)).await
    }

    fn retry(&self, error: &Error, idempotent: Idempotent) -> Retry {
        match error {
            Error::Limited { wait, .. } if *wait <= self.policy.backoff.longest => Retry::After(*wait),
            Error::Unreachable { .. } => Retry::Soon,
            Error::Unclear { .. } if idempotent == Idempotent::Yes => Retry::Soon,
            _ => Retry::No,
        }
    }

    async fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, Error> {
        let request = self.request(method, path, body)?;
        let answer = self.client.send(request).await.map_err(|error| match error {
            cutover_http::Error::NotConnected(why) => self.unreachable(why),
            other => self.unclear(other.to_string()),
        })?;
        let (head, body) = answer.into_parts();
        let body = body.map_err(|error| self.unclear(error.to_string()))?;
        self.judge(head.status, &head.headers, &body)
    }

    fn request(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Request<Vec<u8>>, Error> {
        let bad = |why: String| Error::BadInput {
            what: "a request",
            why,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.path))
            .header(header::ACCEPT, self.accept);
        if self.accept == GITHUB {
            request = request.header("x-github-api-version", "2022-11-28");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                body.to_string().into_bytes()
            }
            None => Vec::new(),
        };
        request.body(body).map_err(|error| bad(error.to_string()))
    }

    fn judge(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Answer, Error> {
        let value: Option<Value> = serde_json::from_slice(body).ok();
        if status.is_success() {
            let Some(body) = value else {
                return Err(self.not_understood(format!("{status} without JSON")));
            };
            let next = next_page(headers).map(|url| self.inside(&url)).transpose()?;
            return Ok(Answer { body, next });
        }
        let why = value
            .as_ref()
            .and_then(reason)
            .unwrap_or_else(|| "it does not say why".to_owned());
        let now = jiff::Timestamp::now().as_second();
        if let Some(wait) = limited(status, headers, &why, now) {
            return Err(Error::Limited {
                api: self.base.clone(),
                wait,
            });
        }
        if status.is_server_error() {
            return Err(self.unclear(format!("{status}: {why}")));
        }
        Err(Error::Refused {
            api: self.base.clone(),
            status,
            why,
        })
    }

    /// Returns the path of a page: the token goes to no other place, whatever an answer says.
    fn inside(&self, url: &str) -> Result<String, Error> {
        let path = url.strip_prefix(&self.base).filter(|path| path.starts_with('/'));
        path.map(str::to_owned)
            .ok_or_else(|| self.not_understood("the next page is elsewhere".to_owned()))
    }

    pub(super) fn not_understood(&self, why: String) -> Error {
        Error::NotUnderstood {
            api: self.base.clone(),
            why,
        }
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable {
            api: self.base.clone(),
            why,
        }
    }

    fn unclear(&self, why: String) -> Error {
        Error::Unclear {
            api: self.base.clone(),
            why,
        }
    }
}

impl From<InvalidOptions> for Error {
    fn from(error: InvalidOptions) -> Self {
        match error {
            InvalidOptions::Url(why) => bad_url(why),
            InvalidOptions::CaFile { .. } => Self::BadInput {
                what: "the file of certificate authorities",
                why: error.to_string(),
            },
            InvalidOptions::Tls(why) => Self::BadInput { what: "TLS", why },
        }
    }
}

fn bad_url(why: &str) -> Error {
    Error::BadInput {
        what: "the URL of the API",
        why: format!("it {why}"),
    }
}

fn authorization(token: &Secret) -> Result<HeaderValue, Error> {
    bearer(token.reveal()).ok_or_else(|| Error::BadInput {
        what: "the token",
        why: "it is empty, or has characters that no token has".to_owned(),
    })
}

/// Returns why something was refused: GitHub and Gitea say it in a sentence, GitLab also field by field.
fn reason(answer: &Value) -> Option<String> {
    match (&answer["message"], &answer["error"]) {
        (Value::String(text), _) | (Value::Null, Value::String(text)) => Some(text.clone()),
        (Value::Null, _) => None,
        (fields, _) => Some(fields.to_string()),
    }
}

/// Returns the address of the next page (RFC 8288).
fn next_page(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(header::LINK)?.to_str().ok()?;
    links.split(',').find_map(|link| {
        let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters
            .split(';')
            .any(|parameter| matches!(parameter.trim(), r#"rel="next""# | "rel=next"));
        is_next.then(|| url.to_owned())
    })
}

/// Returns how long to wait, if a refusal is one of having been asked too often. Without a word of how long, GitHub asks
/// for a minute at least.
fn limited(status: StatusCode, headers: &HeaderMap, why: &str, now: i64) -> Option<Duration> {
    if !matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    if let Some(wait) = retry_after(headers) {
        return Some(wait);
    }
    if number("x-ratelimit-remaining") == Some(0) {
        let reset = number("x-ratelimit-reset").unwrap_or(now + 60);
        return Some(seconds(reset.saturating_sub(now)));
    }
    let says_so = why.to_ascii_lowercase().contains("rate limit");
    (says_so || status == StatusCode::TOO_MANY_REQUESTS).then_some(Duration::from_mins(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_refusal_for_asking_too_often_is_told_from_one_for_lack_of_permission() {
        let of = |all: &[(&'static str, &str)], why| limited(StatusCode::FORBIDDEN, &headers(all), why, 1000);
        let secs = |n| Some(Duration::from_secs(n));
        assert_eq!(of(&[], "Resource not accessible by integration"), None);
        assert_eq!(of(&[("retry-after", "7")], ""), secs(7));
        assert_eq!(
            of(
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1030")],
                ""
            ),
            secs(30)
        );
        assert_eq!(
            of(
                &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "900")],
                ""
            ),
            secs(0)
        );
        assert_eq!(of(&[("x-ratelimit-remaining", "9")], "no"), None);
        assert_eq!(of(&[], "You have exceeded a secondary rate limit"), secs(60));
        let of = |status| limited(status, &headers(&[]), "", 0);
        assert_eq!(of(StatusCode::TOO_MANY_REQUESTS), secs(60));
        assert_eq!(of(StatusCode::NOT_FOUND), None);
    }

    #[tokio::test]
    async fn a_token_is_sent_to_the_api_alone_and_never_shown() {
        let secret = Secret::new("ghs_swordfish");
        let api = Api::new("https://git.example.com/api/v3/", Some(&secret), RETRY_POLICY).unwrap();
        assert_eq!(
            api.inside("https://git.example.com/api/v3/repositories/1?page=2"),
            Ok("/repositories/1?page=2".to_owned())
        );
        for elsewhere in [
            "https://evil.example.com/api/v3/x",
            "https://git.example.com/api/v3.evil.example.com/x",
            "http://git.example.com/api/v3/x",
        ] {
            assert!(api.inside(elsewhere).is_err(), "{elsewhere}");
        }
        assert!(!format!("{api:?}").contains("swordfish"));
        for bad in [
            "http://git.example.com",
            "https://me:it@git.example.com",
            "here",
            "",
        ] {
            assert!(Api::new(bad, Some(&secret), RETRY_POLICY).is_err(), "{bad}");
        }
        let control = Api::new("https://a.b", Some(&Secret::new("a\nb")), RETRY_POLICY);
        let error = control.unwrap_err().to_string();
        assert!(
            !error.contains('b'.to_string().repeat(2).as_str()) && error.contains("token"),
            "{error}"
        );
    }

    #[test]
    fn the_next_page_is_found_among_links() {
        let link = r#"<https://a/x?page=1>; rel="prev", <https://a/x?page=3>; rel="next", <https://a/x?page=9>; rel="last""#;
        assert_eq!(
            next_page(&headers(&[("link", link)])).as_deref(),
            Some("https://a/x?page=3")
        );
        assert_eq!(
            next_page(&headers(&[("link", r#"<https://a/x>; rel="prev""#)])),
            None
        );
        assert_eq!(next_page(&headers(&[])), None);
    }
}
