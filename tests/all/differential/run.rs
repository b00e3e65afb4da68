//! The two servers, and a sequence of requests sent to both.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cutover::sandbox::api::{ApiServer, Options, clock_from};
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body as ClientBody;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::step::{Body, Step};
use super::{accepted, kinds, normal};
use crate::support::real;

/// How long an answer, or the event that ends a watch, may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The field manager of requests that name none is the first part of this.
const USER_AGENT: &str = "tester/1.0";

/// The sandbox and a real server.
pub struct Pair {
    sandbox: kube::Client,
    real: kube::Client,
    sequences: AtomicUsize,
    /// Numbers that no running sequence has, for addresses and ports that are shared by all namespaces.
    numbers: Mutex<Vec<u16>>,
    /// What tells this test's namespaces from those of other tests on the same real server.
    prefix: String,
}

/// What a server answered to one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub code: u16,
    pub content_type: String,
    pub warnings: Vec<String>,
    /// Of a watch: its events.
    pub body: Value,
}

/// The first step that is answered differently.
#[derive(Clone, Debug)]
pub struct Difference {
    pub step: Step,
    pub sandbox: Answer,
    pub real: Answer,
}

impl Pair {
    /// Returns both servers with the same definitions, or none when there is no real one.
    pub async fn start(test: &str) -> Option<Self> {
        // Once for the process: its tests share the real server.
        static INSTALLED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
        let shared = real::shared(test).await?;
        // The age of what objects say of a time is counted from now on both.
        let sandbox = ApiServer::new(Options {
            clock: clock_from(Timestamp::now()),
            ..Options::new("sandbox", 1)
        });
        for definition in real::definitions().iter().chain(&kinds::definitions()) {
            sandbox.install(definition).unwrap();
        }
        INSTALLED
            .get_or_init(|| async { shared.install(&kinds::definitions()).await })
            .await;
        let prefix: String = std::iter::repeat_with(fastrand::lowercase).take(5).collect();
        Some(Self {
            sandbox: sandbox.client("system:admin"),
            real: shared.client().await,
            sequences: AtomicUsize::new(0),
            numbers: Mutex::new((10..80).collect()),
            prefix,
        })
    }

    /// Sends the steps to both servers, each in a new namespace, and returns the first that they answer differently.
    pub async fn compare(&self, steps: &[Step]) -> Option<Difference> {
        let number = self.sequences.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{}-{number}", self.prefix);
        let own = self.numbers.lock().unwrap().pop().unwrap();
        let (sandbox, real) = futures::join!(
            Side::new(&self.sandbox, &namespace, own).run(steps),
            Side::new(&self.real, &namespace, own).run(steps),
        );
        self.numbers.lock().unwrap().push(own);
        let (mut sandbox, mut real) = (
            normal::answers(sandbox, &namespace),
            normal::answers(real, &namespace),
        );
        // A watch shows what steps after it did: a difference in one of those comes first.
        let (watches, others): (Vec<_>, Vec<_>) =
            steps.iter().enumerate().partition(|(_, step)| step.is_watch());
        for (index, step) in others.into_iter().chain(watches) {
            accepted::settle(step, &mut sandbox[index], &mut real[index]);
            if sandbox[index] != real[index] {
                return Some(Difference {
                    step: step.clone(),
                    sandbox: sandbox[index].clone(),
                    real: real[index].clone(),
                });
            }
        }
        None
    }
}

/// One server in the course of a sequence.
pub(super) struct Side<'a> {
    client: &'a kube::Client,
    namespace: &'a str,
    pub(super) seen: Seen,
}

/// What a server has told so far.
#[derive(Default)]
pub(super) struct Seen {
    objects: BTreeMap<String, Value>,
    first: BTreeMap<String, String>,
    /// The revision at which the sequence began.
    begin: String,
    list: String,
    /// What tells the addresses and ports of the sequence from those of others.
    own: u16,
    /// How many policies were installed to see whether others are in force.
    pub(super) probes: usize,
    token: String,
}

impl<'a> Side<'a> {
    fn new(client: &'a kube::Client, namespace: &'a str, own: u16) -> Self {
        Self {
            client,
            namespace,
            seen: Seen {
                own,
                ..Seen::default()
            },
        }
    }

    async fn run(mut self, steps: &[Step]) -> Vec<Answer> {
        let labels = json!({"app": "x", "tier": "t"});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        let created = self.send(&Step::post("/api/v1/namespaces", namespace)).await.0;
        assert_eq!(created.code, 201, "{:?}", created.body);
        self.seen.begin = text(&created.body["metadata"]["resourceVersion"]);
        self.seen.list = self.seen.begin.clone();
        let mut answers = Vec::new();
        let mut watches: Vec<(usize, JoinHandle<Vec<Value>>)> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            if step.is_settling() {
                answers.push(self.settle(&step.path).await);
                continue;
            }
            let (answer, events) = self.send(step).await;
            self.learn(&step.path, &answer.body);
            answers.push(answer);
            watches.extend(events.map(|events| (index, events)));
        }
        let watched: Vec<&Step> = watches.iter().map(|(index, _)| &steps[*index]).collect();
        let mut paths: Vec<&str> = watched.iter().map(|step| step.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            if let Some(mut last) = kinds::minimal(path, kinds::LAST) {
                last["metadata"]["labels"] = labels.clone();
                let (created, _) = self.send(&Step::post(path, last)).await;
                assert_eq!(created.code, 201, "{:?}", created.body);
            }
        }
        for (index, events) in watches {
            let events = timeout(PATIENCE, events).await.map(Result::unwrap);
            answers[index].body = events.map_or(json!("the watch does not end"), Value::Array);
        }
        self.leave(steps).await;
        answers
    }

    pub(super) fn learn(&mut self, path: &str, body: &Value) {
        self.seen.learn(path, self.namespace, body);
    }

    /// Sends a step; a watch that is accepted goes on in the task that is returned.
    pub(super) async fn send(&self, step: &Step) -> (Answer, Option<JoinHandle<Vec<Value>>>) {
        let response = timeout(PATIENCE, self.client.send(self.request(step))).await;
        let response = match response {
            Ok(Ok(response)) => response,
            // A real server breaks connections over which it panics.
            Ok(Err(broken)) => {
                let body = json!({"broken": broken.to_string()});
                return (
                    Answer {
                        body,
                        ..Answer::default()
                    },
                    None,
                );
            }
            Err(late) => panic!("{step}: {late}"),
        };
        let mut answer = Answer {
            code: response.status().as_u16(),
            content_type: header(&response, "content-type").concat(),
            warnings: header(&response, "warning"),
            body: Value::Null,
        };
        if step.is_watch() && answer.code == 200 {
            return (answer, Some(tokio::spawn(events(response))));
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        answer.body = if answer.content_type.starts_with("application/yaml") {
            serde_yaml::from_str(&text).unwrap()
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        (answer, None)
    }

    fn request(&self, step: &Step) -> Request<ClientBody> {
        let query: Vec<String> = step
            .query
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(&self.fill(value))))
            .collect();
        let uri = format!("{}?{}", self.fill(&step.path), query.join("&"));
        let mut request = Request::builder()
            .method(step.method)
            .uri(uri.trim_end_matches('?'))
            .header("user-agent", USER_AGENT);
        if let Some(accept) = step.accept {
            request = request.header("accept", accept);
        }
        if let Some(content_type) = step.content_type {
            request = request.header("content-type", content_type);
        }
        let body = match &step.body {
            Body::None => String::new(),
            Body::Json(body) => self.filled(body).to_string(),
            Body::Text(text) => self.fill(text),
            Body::Seen { object, change } => {
                let seen = self.seen.objects.get(object).cloned();
                let mut body = seen.unwrap_or_else(|| kinds::unseen(&step.path));
                json_patch::merge(&mut body, &self.filled(change));
                body.to_string()
            }
        };
        request.body(ClientBody::from(body.into_bytes())).unwrap()
    }

    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text == "${port}" => json!(30_000 + self.seen.own),
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (self.fill(name), self.filled(value)))
                .collect(),
            other => other.clone(),
        }
    }

    fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            filled += before;
            filled += &self.seen.value(name, self.namespace);
            rest = after;
        }
        filled + rest
    }
}

impl Seen {
    fn learn(&mut self, path: &str, namespace: &str, body: &Value) {
        let plural = kinds::plural_of(path);
        if let Some(items) = body["items"].as_array() {
            let revision = |text: &str| text.parse::<u64>().unwrap_or_default();
            let listed = text(&body["metadata"]["resourceVersion"]);
            // A real server has no events from before it served a kind.
            if revision(&listed) >= revision(&self.begin) {
                self.list = listed;
            }
            self.token = text(&body["metadata"]["continue"]);
            for item in items {
                self.learn_object(plural, namespace, item);
            }
        } else if body["kind"] != "Status" && body["metadata"]["uid"].is_string() {
            self.learn_object(plural, namespace, body);
        }
    }

    fn learn_object(&mut self, plural: &str, namespace: &str, object: &Value) {
        let key = format!(
            "{plural}/{}",
            text(&object["metadata"]["name"]).replace(namespace, "")
        );
        let version = text(&object["metadata"]["resourceVersion"]);
        if !version.is_empty() {
            self.first.entry(key.clone()).or_insert(version);
        }
        if object["kind"] != "Scale" && object["kind"] != "PartialObjectMetadata" {
            self.objects.insert(key, object.clone());
        }
    }

    fn value(&self, name: &str, namespace: &str) -> String {
        let of = |key: &str, field: &str| {
            self.objects
                .get(key)
                .map(|object| text(&object["metadata"][field]))
        };
        let found = match name.split_once(':').unwrap_or((name, "")) {
            ("ns", _) => Some(namespace.to_owned()),
            ("rv", key) => of(key, "resourceVersion")
                .filter(|version| !version.is_empty())
                .or_else(|| Some(self.begin.clone())),
            ("rv1", key) => self.first.get(key).or(Some(&self.begin)).cloned(),
            ("uid", key) => of(key, "uid"),
            ("ip", _) => Some(format!("10.0.0.{}", self.own)),
            ("port", _) => Some((30_000 + self.own).to_string()),
            ("list", _) => Some(self.list.clone()),
            ("continue", _) => Some(self.token.clone()),
            _ => None,
        };
        found
            .filter(|found| !found.is_empty())
            .unwrap_or_else(|| "1".to_owned())
    }
}

/// Reads the events of a watch up to that of the last object, or to the end.
async fn events(response: Response<ClientBody>) -> Vec<Value> {
    let mut stream = response
        .into_body()
        .into_data_stream()
        .map_err(|error| error.to_string());
    let (mut events, mut buffer) = (Vec::new(), Vec::new());
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => buffer.extend_from_slice(&chunk),
            Err(error) => {
                events.push(json!({"broken": error}));
                return events;
            }
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let mut event: Value = serde_json::from_slice(&line).unwrap();
            if kinds::is_last(&event) {
                return events;
            }
            // When a bookmark comes is the server's affair, but for the one that ends the initial events.
            let is_end = event.pointer("/object/metadata/annotations").is_some();
            if event["type"] == "BOOKMARK"
                && let Value::Object(fields) = &mut event["object"]
            {
                // The empty parts that Go writes.
                fields.retain(|name, _| name != "spec" && name != "status");
            }
            if event["type"] != "BOOKMARK" || is_end {
                events.push(event);
            }
        }
    }
    events
}

fn header(response: &Response<ClientBody>, name: &str) -> Vec<String> {
    let values = response.headers().get_all(name).iter();
    values
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

impl Difference {
    /// Returns what sort of difference it is: whoever knows one of a sort knows all.
    pub fn sort(&self) -> String {
        let (sandbox, real) = (&self.sandbox, &self.real);
        let request = format!(
            "{} {}{}",
            self.step.method,
            kinds::plural_of(&self.step.path),
            if self.step.is_watch() { " (watch)" } else { "" },
        );
        if sandbox.code != real.code {
            let brief = |answer: &Answer| {
                let message: String = answer.body["message"]
                    .as_str()
                    .unwrap_or_default()
                    .chars()
                    .take(60)
                    .collect();
                format!("{} {message}", answer.code)
            };
            return format!("{request}: {} instead of {}", brief(sandbox), brief(real));
        }
        if sandbox.content_type != real.content_type {
            return format!(
                "{request}: {} instead of {}",
                sandbox.content_type, real.content_type
            );
        }
        if sandbox.warnings != real.warnings {
            return format!("{request}: warnings");
        }
        let path = json_patch::diff(&sorted(&sandbox.body), &sorted(&real.body))
            .0
            .first()
            .map(|operation| operation.path().to_string())
            .unwrap_or_default();
        let path: Vec<&str> = path
            .split('/')
            .map(|part| if part.parse::<u32>().is_ok() { "#" } else { part })
            .collect();
        let mut path = path.join("/");
        if sandbox.code >= 400 {
            let (one, other) = (text(&sandbox.body["message"]), text(&real.body["message"]));
            let same = one
                .chars()
                .zip(other.chars())
                .take_while(|(one, other)| one == other)
                .count();
            let from =
                |text: &str| -> String { text.chars().skip(same.saturating_sub(15)).take(50).collect() };
            path += &format!(" {:?} instead of {:?}", from(&one), from(&other));
        }
        format!("{request} {}: {path}", real.code)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |answer: &Answer| {
            format!(
                "{} {} {:?}\n{:#}\n",
                answer.code,
                answer.content_type,
                answer.warnings,
                sorted(&answer.body)
            )
        };
        let (sandbox, real) = (lines(&self.sandbox), lines(&self.real));
        let diff = similar::TextDiff::from_lines(&sandbox, &real);
        writeln!(f, "{}", self.step)?;
        writeln!(f, "- sandbox\n+ real")?;
        write!(f, "{}", diff.unified_diff().context_radius(4))
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields
                .iter()
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect();
            fields.into_iter().collect()
        }
        other => other.clone(),
    }
}
