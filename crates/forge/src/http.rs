//! One REST API: every request has a timeout, what can be asked again is, and no more often than the API wants.

use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use kube::client::{Body, ClientBuilder};
use kube::config::Config;
use serde_json::Value;

use super::Error;
use cutover_base::Secret;
use cutover_base::USER_AGENT;

/// A page of a hundred comments of the greatest length is 25 MiB at the very most.
const MOST_BYTES: usize = 32 << 20;

/// How long to go on with one request.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub attempts: u32,
    /// Before the second attempt; each further wait is twice as long.
    pub first: Duration,
    /// The longest that is waited at once, also when the API asks for more.
    pub longest: Duration,
    /// For one answer.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(90),
            answer: Duration::from_secs(30),
        }
    }
}

/// An API, and who asks.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    /// Without a slash at the end.
    base: String,
    token: Option<HeaderValue>,
    /// What it calls the form of its answers.
    accept: &'static str,
    patience: Patience,
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

/// Whether asking twice does something twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Harmless,
    /// Only what certainly was not carried out is asked again.
    Doubles,
}

impl Api {
    /// Sends nothing yet. `base` is for instance `https://api.github.com`, or `https://git.example.com/api/v3`.
    pub fn new(base: &str, token: Option<&Secret>, patience: Patience) -> Result<Self, Error> {
        Self::trusting(base, token, patience, None)
    }

    /// The same; trusts the certificate authorities of a PEM file, too.
    pub fn trusting(
        base: &str,
        token: Option<&Secret>,
        patience: Patience,
        ca_file: Option<&Path>,
    ) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadInput {
            what: "the URL of the API",
            why: why.to_owned(),
        };
        let base = base.trim_end_matches('/');
        let url: Uri = base.parse().map_err(|_| bad("it is no URL"))?;
        let authority = url.authority().ok_or_else(|| bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it must have no user or password"));
        }
        let is_here = matches!(url.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
        if url.scheme_str() != Some("https") && !is_here {
            return Err(bad("a token is sent by https only"));
        }
        let mut config = Config::new(url);
        config.connect_timeout = Some(patience.answer);
        config.read_timeout = Some(patience.answer);
        config.default_retry = false;
        config.root_cert = ca_file.map(authorities).transpose()?;
        let client = ClientBuilder::try_from(config)
            .map_err(|error| bad(&error.to_string()))?
            .build();
        Ok(Self {
            client,
            base: base.to_owned(),
            token: token.map(bearer).transpose()?,
            accept: GITHUB,
            patience,
        })
    }

    /// Returns the same API, asked by whoever has this token.
    pub(super) fn by(&self, token: &Secret) -> Result<Self, Error> {
        Ok(Self {
            token: Some(bearer(token)?),
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
        self.ask(Method::GET, path, None, Again::Harmless).await
    }

    /// Sends a request until there is an answer that counts, or patience ends.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        again: Again,
    ) -> Result<Answer, Error> {
        let mut pause = self.patience.first;
        for attempt in 1.. {
            let outcome = self.once(&method, path, body).await;
            let wait = match &outcome {
                Err(Error::Limited { wait, .. }) if *wait <= self.patience.longest => *wait,
                Err(Error::Unreachable { .. }) => pause,
                Err(Error::Unclear { .. }) if again == Again::Harmless => pause,
                _ => return outcome,
            };
            if attempt >= self.patience.attempts {
                return outcome;
            }
            // Many runs that were refused together don't come back together.
            tokio::time::sleep(wait.mul_f64(1.0 + fastrand::f64() / 4.0)).await;
            pause = (pause * 2).min(self.patience.longest);
        }
        Err(self.unclear("it was not asked"))
    }

    async fn once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, Error> {
        let request = self.request(method, path, body)?;
        let asked = async {
            let response = self.client.send(request).await.map_err(|error| {
                if is_connect(&error) {
                    self.unreachable(&error)
                } else {
                    self.unclear(&told(&error))
                }
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await;
            let body = body.map_err(|error| self.unclear(&error.to_string()))?.to_bytes();
            self.judge(head.status, &head.headers, &body)
        };
        match tokio::time::timeout(self.patience.answer, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unclear(&format!("not within {} s", self.patience.answer.as_secs()))),
        }
    }

    fn request(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Request<Body>, Error> {
        let bad = |why: String| Error::BadInput {
            what: "a request",
            why,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, USER_AGENT)
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
        request
            .body(Body::from(body))
            .map_err(|error| bad(error.to_string()))
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
            return Err(self.unclear(&format!("{status}: {why}")));
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

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::Unreachable {
            api: self.base.clone(),
            why: told(error),
        }
    }

    fn unclear(&self, why: &str) -> Error {
        Error::Unclear {
            api: self.base.clone(),
            why: why.to_owned(),
        }
    }
}

fn bearer(token: &Secret) -> Result<HeaderValue, Error> {
    let header = HeaderValue::from_str(&format!("Bearer {}", token.reveal().trim()));
    let mut header = header.map_err(|_| Error::BadInput {
        what: "the token",
        why: "it has characters that no token has".to_owned(),
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// Reads the certificates of a PEM file.
fn authorities(file: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let bad = |why: String| Error::BadInput {
        what: "the file of certificate authorities",
        why: format!("{}: {why}", file.display()),
    };
    let pem = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
    let certificates = openssl::x509::X509::stack_from_pem(&pem).unwrap_or_default();
    if certificates.is_empty() {
        return Err(bad("it has no certificate in PEM form".to_owned()));
    }
    let der = certificates.iter().map(|certificate| certificate.to_der());
    der.collect::<Result<_, _>>()
        .map_err(|error| bad(error.to_string()))
}

/// Returns why something was refused: GitHub and Gitea say it in a sentence, GitLab also field by field.
fn reason(answer: &Value) -> Option<String> {
    match (&answer["message"], &answer["error"]) {
        (Value::String(text), _) | (Value::Null, Value::String(text)) => Some(text.clone()),
        (Value::Null, _) => None,
        (fields, _) => Some(fields.to_string()),
    }
}

/// Returns an error with what caused it.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        let why = next.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        source = next.source();
    }
    text
}

/// Whether a request failed before anything of it was sent.
fn is_connect(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
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
    if let Some(after) = number("retry-after") {
        return Some(seconds(after));
    }
    if number("x-ratelimit-remaining") == Some(0) {
        let reset = number("x-ratelimit-reset").unwrap_or(now + 60);
        return Some(seconds(reset - now));
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
        let api = Api::new(
            "https://git.example.com/api/v3/",
            Some(&secret),
            Patience::default(),
        )
        .unwrap();
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
            assert!(
                Api::new(bad, Some(&secret), Patience::default()).is_err(),
                "{bad}"
            );
        }
        let control = Api::new("https://a.b", Some(&Secret::new("a\nb")), Patience::default());
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
