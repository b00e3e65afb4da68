//! A client of one server: whoever it asks, it asks there and nowhere else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_openssl::client::legacy::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod};
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;
use tokio::time::{Instant, timeout_at};

use super::error::{Error, TimedOut, with_causes};
use cutover_base::USER_AGENT;

/// What holds for every request of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions<'a> {
    pub trust: Trust<'a>,
    /// Refuses `http://` but to this machine, for whoever sends a token.
    pub https_only: bool,
    /// For one request: from connecting to the last byte of the answer.
    pub timeout: Duration,
    /// Of an answer no more is read.
    pub max_bytes: usize,
}

/// The certificate authorities that a server's certificate may be of.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    System,
    /// Those of a PEM file, too.
    SystemAnd(&'a Path),
    /// Those of a PEM file alone.
    Only(&'a Path),
}

/// Why there is no client. No text has the URL in it, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOptions {
    #[error("its URL {0}")]
    Url(&'static str),
    #[error("{}: {why}", path.display())]
    CaFile { path: PathBuf, why: String },
    #[error("TLS can't be prepared: {0}")]
    Tls(String),
}

/// Sends requests to one server. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    scheme: Scheme,
    authority: Authority,
    timeout: Duration,
    max_bytes: usize,
}

impl Client {
    /// Sends nothing yet. Of the URL only scheme, host and port count.
    pub fn new(server: &Uri, options: &ClientOptions<'_>) -> Result<Self, InvalidOptions> {
        let (scheme, authority) = origin(server, options.https_only).map_err(InvalidOptions::Url)?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let tls = connector(options.trust)?;
        let connector = HttpsConnector::with_connector(http, tls).map_err(unprepared)?;
        Ok(Self {
            inner: legacy::Client::builder(TokioExecutor::new()).build(connector),
            scheme,
            authority,
            timeout: options.timeout,
            max_bytes: options.max_bytes,
        })
    }

    /// Sends a request once, and reads the answer: the body may be cut off or too long though its status is known.
    ///
    /// Of the request's URI only path and query count: it goes to the client's server whatever it names.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Result<Bytes, Error>>, Error> {
        let deadline = Instant::now() + self.timeout;
        let timed_out = |_elapsed| TimedOut(self.timeout);
        let answer = timeout_at(deadline, self.inner.request(self.addressed(request)));
        let (head, body) = answer.await.map_err(timed_out)??.into_parts();
        let body = timeout_at(deadline, Limited::new(body, self.max_bytes).collect()).await;
        let body = match body {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Error::TooLong(self.max_bytes)),
            Ok(Err(error)) => Err(Error::Interrupted(with_causes(error.as_ref()))),
            Err(elapsed) => Err(timed_out(elapsed).into()),
        };
        Ok(Response::from_parts(head, body))
    }

    fn addressed(&self, request: Request<Vec<u8>>) -> Request<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        let path = head.uri.path_and_query().cloned();
        uri.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
        // Of three parts that are there a URI can always be made.
        head.uri = Uri::from_parts(uri).unwrap_or_default();
        head.headers
            .entry(header::USER_AGENT)
            .or_insert(HeaderValue::from_static(USER_AGENT));
        Request::from_parts(head, Full::from(body))
    }
}

fn origin(server: &Uri, https_only: bool) -> Result<(Scheme, Authority), &'static str> {
    const NO_SCHEME: &str = "begins with neither https:// nor http://";
    let authority = server
        .authority()
        .filter(|authority| !authority.host().is_empty());
    let authority = authority.ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("has a user or a password");
    }
    let scheme = server.scheme().ok_or(NO_SCHEME)?;
    let is_here = matches!(authority.host(), "127.0.0.1" | "localhost" | "[::1]");
    match scheme.as_str() {
        "https" => {}
        "http" if !https_only || is_here => {}
        "http" => return Err("begins with http://: a token is sent by https only"),
        _ => return Err(NO_SCHEME),
    }
    Ok((scheme.clone(), authority.clone()))
}

fn connector(trust: Trust<'_>) -> Result<SslConnectorBuilder, InvalidOptions> {
    let mut tls = SslConnector::builder(SslMethod::tls()).map_err(unprepared)?;
    let extra = match trust {
        Trust::System => None,
        Trust::SystemAnd(path) | Trust::Only(path) => Some(authorities(path)?),
    };
    if let Trust::Only(_) = trust {
        tls.set_cert_store(X509StoreBuilder::new().map_err(unprepared)?.build());
    } else {
        trust_system(&mut tls).map_err(unprepared)?;
    }
    for certificate in extra.into_iter().flatten() {
        tls.cert_store_mut().add_cert(certificate).map_err(unprepared)?;
    }
    Ok(tls)
}

/// The OpenSSL that is built in looks for authorities where it would have been installed; systems keep them elsewhere.
fn trust_system(tls: &mut SslConnectorBuilder) -> Result<(), ErrorStack> {
    if openssl_probe::has_ssl_cert_env_vars() {
        // OpenSSL has read what they name.
        return Ok(());
    }
    let found = openssl_probe::probe();
    let (file, folder) = (found.cert_file.as_deref(), found.cert_dir.as_deref());
    if file.is_none() && folder.is_none() {
        return Ok(());
    }
    tls.load_verify_locations(file, folder)
}

fn authorities(path: &Path) -> Result<Vec<X509>, InvalidOptions> {
    let bad = |why: String| InvalidOptions::CaFile {
        path: path.to_owned(),
        why,
    };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let certificates = X509::stack_from_pem(&pem).unwrap_or_default();
    if certificates.is_empty() {
        return Err(bad("it has no certificate in PEM form".to_owned()));
    }
    Ok(certificates)
}

fn unprepared(error: ErrorStack) -> InvalidOptions {
    InvalidOptions::Tls(error.to_string())
}

#[cfg(test)]
mod tests;
