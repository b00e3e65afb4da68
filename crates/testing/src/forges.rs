//! What of the REST APIs of GitHub, GitLab and Gitea statuses of commits need, as each answers; and, on request, trouble.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use cutover_core::report::{Host, Web};
use serde_json::{Value, json};
use tokio::sync::Notify;

pub const TOKEN: &str = "glpat-swordfish";

/// The host of `shop/fleet`.
#[derive(Clone)]
pub struct Forge {
    pub host: Host,
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// `None`: every commit is there.
    commits: Mutex<Option<Vec<String>>>,
    said: Mutex<Vec<Said>>,
    /// Everybody who asked: status of the answer.
    answers: Mutex<Vec<u16>>,
    trouble: Mutex<VecDeque<Trouble>>,
    changed: Notify,
}

/// Status and headers of an answer.
type Trouble = (u16, Vec<(&'static str, &'static str)>);

/// A status that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub revision: String,
    pub name: String,
    pub state: String,
    pub note: String,
    pub link: Option<String>,
}

impl Forge {
    pub async fn start(host: Host) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forge = Self {
            host,
            address: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::default(),
        };
        let serving = forge.clone();
        let app = axum::Router::new().fallback(move |request: Request| {
            let forge = serving.clone();
            async move { forge.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        forge
    }

    /// Returns where people see the repository.
    pub fn web(&self) -> Web {
        Web::new(self.host, &format!("{}/shop/fleet", self.address)).unwrap()
    }

    pub fn api(&self) -> String {
        self.host.api(&self.address)
    }

    /// Has no other commits from now on.
    pub fn has(&self, commits: &[&str]) {
        let commits = commits.iter().map(|&commit| commit.to_owned()).collect();
        *self.state.commits.lock().unwrap() = Some(commits);
    }

    /// Answers the next request so, and does nothing.
    pub fn trouble(&self, status: u16, headers: &[(&'static str, &'static str)]) {
        self.state
            .trouble
            .lock()
            .unwrap()
            .push_back((status, headers.to_vec()));
    }

    /// Returns the status of every answer.
    pub fn answers(&self) -> Vec<u16> {
        self.state.answers.lock().unwrap().clone()
    }

    /// Returns what was said, once that is so much.
    pub async fn said(&self, count: usize) -> Vec<Said> {
        self.until(|_| self.state.said.lock().unwrap().len() >= count)
            .await
    }

    /// Returns what was said, once it is as it should be.
    pub async fn until(&self, is: impl Fn(&[Said]) -> bool) -> Vec<Said> {
        let all = async {
            loop {
                let changed = self.state.changed.notified();
                let said = self.state.said.lock().unwrap().clone();
                if is(&said) {
                    return said;
                }
                changed.await;
            }
        };
        let said = tokio::time::timeout(Duration::from_mins(1), all).await;
        said.unwrap_or_else(|_| panic!("it is not said: {:#?}", self.state.said.lock().unwrap()))
    }

    /// Waits until so many requests were answered.
    pub async fn answered(&self, count: usize) {
        self.until(|_| self.state.answers.lock().unwrap().len() >= count)
            .await;
    }

    async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap());
        let trouble = self.state.trouble.lock().unwrap().pop_front();
        let (status, headers, answer) = match trouble {
            Some((status, headers)) => (status, headers, json!({"message": "trouble"})),
            None => {
                let content: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let path = head.uri.path();
                let trusted = header("authorization") == Some(&format!("Bearer {TOKEN}"));
                let (status, answer) =
                    self.handle(head.method.as_str(), path, header("accept"), trusted, &content);
                (status, Vec::new(), answer)
            }
        };
        self.state.answers.lock().unwrap().push(status);
        self.state.changed.notify_waiters();
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        response.body(Body::from(answer.to_string())).unwrap()
    }

    #[expect(clippy::too_many_lines, reason = "what the hosts check, in their order")]
    fn handle(
        &self,
        method: &str,
        path: &str,
        accept: Option<&str>,
        trusted: bool,
        content: &Value,
    ) -> (u16, Value) {
        let refuse = |status: u16, why: &str| (status, json!({"message": why}));
        let (place, states): (_, &[&str]) = match self.host {
            Host::GitHub => (
                "/api/v3/repos/shop/fleet/statuses/",
                &["error", "failure", "pending", "success"],
            ),
            Host::GitLab => (
                "/api/v4/projects/shop%2Ffleet/statuses/",
                &["pending", "running", "success", "failed", "canceled", "skipped"],
            ),
            _ => (
                "/api/v1/repos/shop/fleet/statuses/",
                &["pending", "success", "error", "failure", "warning"],
            ),
        };
        if self.host == Host::GitLab && accept != Some("application/json") {
            return (406, json!({"error": "The requested format is not supported"}));
        }
        if !trusted {
            return match self.host {
                Host::GitHub => refuse(401, "Bad credentials"),
                Host::GitLab => refuse(401, "401 Unauthorized"),
                _ => refuse(401, "user does not exist [uid: 0, name: ]"),
            };
        }
        let Some(revision) = path.strip_prefix(place).filter(|_| method == "POST") else {
            return refuse(404, "Not Found");
        };
        let known = self.state.commits.lock().unwrap().clone();
        if known.is_some_and(|known| !known.iter().any(|known| known == revision)) {
            return match self.host {
                Host::GitHub => refuse(422, &format!("No commit found for SHA: {revision}")),
                Host::GitLab => refuse(404, "404 Commit Not Found"),
                _ => refuse(404, "object does not exist"),
            };
        }
        let text = |field: &str| content[field].as_str().unwrap_or_default().to_owned();
        let said = Said {
            revision: revision.to_owned(),
            name: text(if self.host == Host::GitLab {
                "name"
            } else {
                "context"
            }),
            state: text("state"),
            note: text("description"),
            link: content["target_url"].as_str().map(str::to_owned),
        };
        if !states.contains(&said.state.as_str()) || said.name.is_empty() {
            return (400, json!({"error": "state does not have a valid value"}));
        }
        if self.host == Host::GitHub && said.note.chars().count() > 140 {
            return refuse(
                422,
                "Validation Failed: description is too long (maximum is 140 characters)",
            );
        }
        let mut all = self.state.said.lock().unwrap();
        let mut now: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for one in all.iter() {
            now.insert((&one.revision, &one.name), &one.state);
        }
        let before = now.get(&(said.revision.as_str(), said.name.as_str())).copied();
        if self.host == Host::GitLab && said.state == "running" && before == Some("running") {
            let why = "Cannot transition status via :run from :running (Reason(s): Status cannot transition via \"run\")";
            return refuse(400, why);
        }
        all.push(said);
        (201, json!({"id": all.len()}))
    }
}
