//! Instant queries of a Prometheus server, or of what speaks its HTTP API (v1).

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::error::Error;
use cutover_http::{Client, ClientOptions, Trust};

/// For one query.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A check asks for a few numbers; whoever gives more has understood something else.
const MAX_BYTES: usize = 1 << 20;
/// What is encoded in a field of a form: all but what RFC 3986 leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

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
    client: Client,
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
        let unusable = |why: String| Error::Metrics { why };
        if let Some(path) = &options.token_file {
            bearer(path).map_err(unusable)?;
        }
        let client = ClientOptions {
            trust: options.ca_file.as_deref().map_or(Trust::System, Trust::Only),
            https_only: false,
            timeout: TIMEOUT,
            max_bytes: MAX_BYTES,
        };
        let client = Client::new(&options.url, &client);
        let client = client.map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            client,
            url: options.url.clone(),
            token_file: options.token_file.clone(),
        })
    }

    /// Evaluates an expression at this moment, of the server's clock.
    pub async fn query(&self, query: &str) -> Queried {
        self.ask(query)
            .await
            .unwrap_or_else(|why| Queried::Unknown(format!("Prometheus at {}: {why}", self.url)))
    }

    async fn ask(&self, query: &str) -> Result<Queried, String> {
        let path = self.url.path().trim_end_matches('/');
        let content = format!("query={}", utf8_percent_encode(query, ENCODED));
        let mut request = Request::post(format!("{path}/api/v1/query"))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(content.into_bytes())
            .map_err(|error| error.to_string())?;
        if let Some(path) = &self.token_file {
            request.headers_mut().insert(header::AUTHORIZATION, bearer(path)?);
        }
        let answer = self.client.send(request).await.map_err(|error| match error {
            cutover_http::Error::NotConnected(why) => format!("cannot connect: {why}"),
            other => other.to_string(),
        })?;
        let (head, body) = answer.into_parts();
        read(head.status, &body.map_err(|error| error.to_string())?)
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

fn bearer(token_file: &Path) -> Result<HeaderValue, String> {
    let bad = |why: String| format!("{}: {why}", token_file.display());
    let token = std::fs::read(token_file).map_err(|error| bad(error.to_string()))?;
    let token = String::from_utf8(token).ok();
    let header = token.as_deref().and_then(cutover_http::bearer);
    header.ok_or_else(|| bad("not a token".to_owned()))
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
            utf8_percent_encode("a{b=\"c d\"}+1 > ü", ENCODED).to_string(),
            "a%7Bb%3D%22c%20d%22%7D%2B1%20%3E%20%C3%BC"
        );
    }
}
