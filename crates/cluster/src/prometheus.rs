//! Instant queries of a Prometheus server, or of what speaks its HTTP API (v1).

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Limited};
use kube::client::{Body, ClientBuilder};
use kube::config::Config;
use serde::Deserialize;
use serde_json::Value;

use super::error::Error;
use cutover_base::USER_AGENT;

/// How long a query may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A check asks for a few numbers; whoever gives more has understood something else.
const MOST_BYTES: usize = 1 << 20;

/// Where to ask, and who by.
#[derive(Clone, Debug)]
pub struct PrometheusOptions {
    /// As in a browser, with the path that a proxy puts before `/api/v1`; without a password.
    pub url: Uri,
    /// Sent as a bearer token; read for each query.
    pub token_file: Option<PathBuf>,
    /// PEM; instead of the system's authorities.
    pub ca_file: Option<PathBuf>,
}

/// What became of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Queried {
    /// The value of each sample: there may be none.
    Values(Vec<f64>),
    /// It can't be answered, however often it is asked.
    Refused(String),
    Unknown(String),
}

/// Asks, and never writes.
#[derive(Clone)]
pub struct Prometheus {
    client: kube::Client,
    url: Uri,
    token_file: Option<PathBuf>,
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Prometheus {
    /// Sends nothing yet. Fails on a URL with a password, and on a file that can't be read.
    pub fn new(options: &PrometheusOptions) -> super::Result<Self> {
        let authority = options.url.authority();
        let unusable = |why: String| Error::Metrics { why };
        if authority.is_none_or(|authority| authority.as_str().contains('@')) {
            return Err(unusable(
                "its URL must have a host, and no user or password".to_owned(),
            ));
        }
        let mut config = Config::new(options.url.clone());
        config.connect_timeout = Some(PATIENCE);
        config.read_timeout = Some(PATIENCE);
        config.default_retry = false;
        if let Some(path) = &options.token_file {
            bearer(path).map_err(unusable)?;
        }
        if let Some(path) = &options.ca_file {
            let pem = readable(path).map_err(unusable)?;
            config.root_cert = Some(certificates(&pem).map_err(unusable)?);
        }
        let client = ClientBuilder::try_from(config)
            .map_err(|error| Error::from_kube(format!("cannot ask Prometheus at {}", options.url), error))?
            .build();
        Ok(Self {
            client,
            url: options.url.clone(),
            token_file: options.token_file.clone(),
        })
    }

    /// Evaluates an expression at this moment, of the server's clock.
    pub async fn query(&self, query: &str) -> Queried {
        match tokio::time::timeout(PATIENCE, self.ask(query)).await {
            Ok(Ok(queried)) => queried,
            Ok(Err(why)) => Queried::Unknown(format!("Prometheus at {}: {why}", self.url)),
            Err(_elapsed) => Queried::Unknown(format!(
                "Prometheus at {}: no answer within {} s",
                self.url,
                PATIENCE.as_secs()
            )),
        }
    }

    async fn ask(&self, query: &str) -> Result<Queried, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/api/v1/query")
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(format!("query={}", encoded(query)).into_bytes()))
            .map_err(|error| error.to_string())?;
        if let Some(path) = &self.token_file {
            request.headers_mut().insert(header::AUTHORIZATION, bearer(path)?);
        }
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| Error::from_kube("cannot ask", error).to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        read(status, &body)
    }
}

/// The envelope of every answer of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    status: String,
    data: Option<Data>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Value,
}

fn read(status: StatusCode, body: &[u8]) -> Result<Queried, String> {
    let Ok(answer) = serde_json::from_slice::<Envelope>(body) else {
        return Err(format!("answered {status}, and not as Prometheus does"));
    };
    match (status, answer.data) {
        (_, Some(data)) if status.is_success() && answer.status == "success" => values(&data),
        // The expression, by the API's description: 400 is a bad parameter, 422 one that can't be executed.
        (StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY, _) => Ok(Queried::Refused(
            answer.error.unwrap_or_else(|| status.to_string()),
        )),
        _ => Err(answer
            .error
            .map_or_else(|| status.to_string(), |error| format!("{status}: {error}"))),
    }
}

fn values(data: &Data) -> Result<Queried, String> {
    // [seconds, "value"]
    let value = |sample: &Value| -> Option<f64> { sample.get(1)?.as_str()?.parse().ok() };
    let values: Option<Vec<f64>> = match data.result_type.as_str() {
        "scalar" => value(&data.result).map(|value| vec![value]),
        "vector" => data.result.as_array().and_then(|samples| {
            let of = |sample: &Value| value(sample.get("value")?);
            samples.iter().map(of).collect()
        }),
        other => {
            return Ok(Queried::Refused(format!(
                "the expression gives a {other}: a scalar or an instant vector is needed"
            )));
        }
    };
    let values = values.ok_or("a sample without a number")?;
    Ok(Queried::Values(values))
}

/// Encodes the value of a form's field.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => {
                use std::fmt::Write;
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

fn readable(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn bearer(token_file: &std::path::Path) -> Result<HeaderValue, String> {
    let token = String::from_utf8(readable(token_file)?).ok();
    let token = token.as_deref().map(str::trim).filter(|token| !token.is_empty());
    let header = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    let mut header = header.ok_or_else(|| format!("{}: not a token", token_file.display()))?;
    header.set_sensitive(true);
    Ok(header)
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let all = openssl::x509::X509::stack_from_pem(pem).map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Err("no certificate is in the CA file".to_owned());
    }
    all.iter()
        .map(|one| one.to_der().map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<Queried, String> {
        read(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn the_values_of_scalars_and_vectors_are_read() {
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}"#;
        assert_eq!(answer(200, scalar), Ok(Queried::Values(vec![0.5])));
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"a":"b"},"value":[1.5,"1e3"]},{"metric":{},"value":[1.5,"+Inf"]}]}}"#;
        assert_eq!(
            answer(200, vector),
            Ok(Queried::Values(vec![1000.0, f64::INFINITY]))
        );
        let none = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
        assert_eq!(answer(200, none), Ok(Queried::Values(vec![])));
    }

    #[test]
    fn a_bad_expression_is_told_from_a_server_in_trouble() {
        let bad = r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#;
        assert_eq!(
            answer(400, bad),
            Ok(Queried::Refused("parse error: unexpected end".into()))
        );
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
        assert!(matches!(answer(200, matrix), Ok(Queried::Refused(_))));
        let timeout = r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#;
        assert_eq!(
            answer(503, timeout),
            Err("503 Service Unavailable: query timed out".into())
        );
        assert!(answer(200, "<html>").is_err());
        assert!(answer(401, "Unauthorized").is_err());
        let odd = r#"{"status":"success","data":{"resultType":"scalar","result":[1,2]}}"#;
        assert!(answer(200, odd).is_err());
    }

    #[test]
    fn a_query_is_encoded_as_a_form_is() {
        assert_eq!(
            encoded("a{b=\"c d\"}+1 > ü"),
            "a%7Bb%3D%22c%20d%22%7D%2B1%20%3E%20%C3%BC"
        );
    }
}
