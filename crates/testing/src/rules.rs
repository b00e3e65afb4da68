//! A client that fails requests, or holds them back, by rules, and keeps a timeline of what it did. It stands in front of the
//! sandbox as well as of a real control plane, members behind Karmada's proxy included.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, Client};
use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use tower::service_fn;

/// How long is waited for a request that a rule is for.
const PATIENCE: Duration = Duration::from_mins(10);

/// What happens to which requests. An empty text is in every path and body.
#[derive(Clone, Debug)]
pub struct Rule {
    pub method: Method,
    /// A part of path and query.
    pub path: &'static str,
    /// A part of what is sent.
    pub body: &'static str,
    pub action: Action,
    /// How many requests it is for; then it is over.
    pub times: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The server says that it can't.
    Fail,
    /// The connection breaks.
    Break,
    /// It arrives when [`Between::release`] says so, also if whoever sent it is gone by then.
    Hold,
}

impl Rule {
    pub const fn new(method: Method, path: &'static str, body: &'static str, action: Action) -> Self {
        Self {
            method,
            path,
            body,
            action,
            times: usize::MAX,
        }
    }

    /// The same for so many requests.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    fn is_for(&self, request: &Sent) -> bool {
        self.times > 0
            && request.method == self.method
            && request.target.contains(self.path)
            && request.body.contains(self.body)
    }
}

/// A request as rules see it.
struct Sent {
    method: Method,
    target: String,
    body: String,
}

/// What stands between a program and a control plane.
#[derive(Clone)]
pub struct Between(Arc<State>);

struct State {
    begun: Instant,
    rules: Mutex<Vec<Rule>>,
    timeline: Mutex<Vec<(Duration, String)>>,
    /// How often everything that is held back was let go.
    released: watch::Sender<u64>,
    held: watch::Sender<usize>,
}

impl Between {
    pub fn new() -> Self {
        Self(Arc::new(State {
            begun: Instant::now(),
            rules: Mutex::default(),
            timeline: Mutex::default(),
            released: watch::Sender::default(),
            held: watch::Sender::default(),
        }))
    }

    /// Returns a client whose requests the rules are for.
    pub fn before(&self, client: Client) -> Client {
        let state = Arc::clone(&self.0);
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (state, client) = (Arc::clone(&state), client.clone());
            async move { state.carry(client, request).await }
        });
        Client::new(service, namespace)
    }

    pub fn add(&self, rule: Rule) {
        self.0.note(format!("rule: {rule:?}"));
        self.0.rules.lock().unwrap().push(rule);
    }

    /// Takes all rules away. What is held back stays so.
    pub fn clear(&self) {
        self.0.note("no rules".to_owned());
        self.0.rules.lock().unwrap().clear();
    }

    /// Lets everything go on that is held back.
    pub fn release(&self) {
        self.0.note("what is held back is released".to_owned());
        self.0.released.send_modify(|times| *times += 1);
    }

    /// Ends when so many requests are held back.
    pub async fn holds(&self, so_many: usize) {
        let mut held = self.0.held.subscribe();
        let waited = tokio::time::timeout(PATIENCE, held.wait_for(|held| *held >= so_many)).await;
        assert!(waited.is_ok(), "nothing is held back\n{}", self.timeline());
    }

    /// Notes what somebody else did.
    pub fn note(&self, what: impl Into<String>) {
        self.0.note(what.into());
    }

    /// Returns what happened, one line each: seconds since the beginning, and what it was.
    pub fn timeline(&self) -> String {
        let mut text = String::new();
        for (at, what) in self.0.timeline.lock().unwrap().iter() {
            let _ = writeln!(text, "{:8.3} {what}", at.as_secs_f64());
        }
        text
    }
}

impl Default for Between {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn note(&self, what: String) {
        self.timeline.lock().unwrap().push((self.begun.elapsed(), what));
    }

    /// Returns what is to be done with a request.
    fn judge(&self, request: &Sent) -> Option<Action> {
        let mut rules = self.rules.lock().unwrap();
        let rule = rules.iter_mut().find(|rule| rule.is_for(request))?;
        rule.times = rule.times.saturating_sub(1);
        Some(rule.action)
    }

    async fn carry(
        self: Arc<Self>,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, tower::BoxError> {
        let (parts, body) = request.into_parts();
        let Ok(bytes) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return Err("the body of a request broke off".into());
        };
        let sent = Sent {
            method: parts.method.clone(),
            target: parts.uri.to_string(),
            body: String::from_utf8_lossy(&bytes).into_owned(),
        };
        let action = self.judge(&sent);
        let request = Request::from_parts(parts, Body::from(bytes));
        let name = format!("{} {}", sent.method, sent.target);
        match action {
            None => {
                let answer = client.send(request).await?;
                if sent.method != Method::GET {
                    self.note(format!("{name}: {}", answer.status()));
                }
                Ok(answer)
            }
            Some(Action::Fail) => {
                self.note(format!("{name}: failed by a rule"));
                let refusal = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503,
                    "reason": "ServiceUnavailable", "message": "failed by a rule",
                });
                Ok(Response::builder()
                    .status(503)
                    .body(Body::from(refusal.to_string().into_bytes()))?)
            }
            Some(Action::Break) => {
                self.note(format!("{name}: broken off by a rule"));
                Err("the connection is broken off by a rule".into())
            }
            Some(Action::Hold) => {
                self.note(format!("{name}: held back"));
                self.held.send_modify(|held| *held += 1);
                let mut released = self.released.subscribe();
                let before = *released.borrow_and_update();
                // In a task of its own: the request is on its way, whatever becomes of whoever sent it.
                let carried = tokio::spawn(async move {
                    let _ = released.wait_for(|times| *times > before).await;
                    let answer = client.send(request).await;
                    let status = answer.as_ref().map(|answer| answer.status().to_string());
                    self.note(format!(
                        "{name}: arrives late: {}",
                        status.unwrap_or_else(ToString::to_string)
                    ));
                    answer
                });
                Ok(carried.await??)
            }
        }
    }
}
