//! What of GitHub's REST API pull requests' comments need, as GitHub answers: pages with links, bots and people, tokens that
//! may only read, refusals for asking too often; and, on request, trouble.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use serde_json::{Value, json};

/// What goes wrong with the next request.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// Answered with a status, headers and a message; nothing is done.
    Answer(u16, Vec<(&'static str, String)>, &'static str),
    /// Done, and answered with a status as if it weren't.
    DoneBut(u16),
    /// Nothing.
    None,
}

#[derive(Clone, Default)]
pub struct GitHub(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    address: String,
    /// Of pull request 7 of `shop/fleet`.
    comments: Vec<Value>,
    requests: Vec<String>,
    trouble: VecDeque<Trouble>,
    last: u64,
}

pub const REPOSITORY: &str = "shop/fleet";
/// What stands for a workflow's token, a person's, and that of a workflow for a fork.
pub const BOT: &str = "ghs_bot-swordfish";
pub const PERSON: &str = "ghp_person-swordfish";
pub const FORK: &str = "ghs_fork-swordfish";

impl GitHub {
    /// Serves it below `/api/v3`, as an installation of one's own has it.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let github = Self::default();
        github.0.lock().unwrap().address = format!("http://{}/api/v3", listener.local_addr().unwrap());
        let serving = github.clone();
        let app = axum::Router::new().fallback(move |request: Request| {
            let github = serving.clone();
            async move { github.answer(request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        github
    }

    pub fn url(&self) -> String {
        self.0.lock().unwrap().address.clone()
    }

    pub fn trouble(&self, trouble: Trouble) {
        self.0.lock().unwrap().trouble.push_back(trouble);
    }

    /// Lets one request through, and troubles the next.
    pub fn skip_one_then(&self, trouble: Trouble) {
        self.trouble(Trouble::None);
        self.trouble(trouble);
    }

    /// Returns the requests since the last time, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().requests)
    }

    /// Returns who says what.
    pub fn comments(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let state = self.0.lock().unwrap();
        let all = state.comments.iter();
        all.map(|comment| (text(&comment["user"]["login"]), text(&comment["body"])))
            .collect()
    }

    pub fn say(&self, login: &str, kind: &str, body: &str) {
        let mut state = self.0.lock().unwrap();
        let comment = state.comment(login, kind, body);
        state.comments.push(comment);
    }

    async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, 1 << 24).await.unwrap();
        let path = head.uri.path_and_query().unwrap().to_string();
        let path = path.strip_prefix("/api/v3").unwrap_or("/elsewhere").to_owned();
        let token = head
            .headers
            .get("authorization")
            .map(|value| value.to_str().unwrap());
        let token = token
            .and_then(|token| token.strip_prefix("Bearer "))
            .map(str::to_owned);
        let mut state = self.0.lock().unwrap();
        state.requests.push(format!("{} {path}", head.method));
        let trouble = state.trouble.pop_front();
        if let Some(Trouble::Answer(status, headers, why)) = trouble {
            return respond(status, &headers, &json!({"message": why}));
        }
        let content = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (status, headers, answer) = state.handle(head.method.as_str(), &path, token.as_deref(), &content);
        match trouble {
            Some(Trouble::DoneBut(status)) => respond(status, &[], &json!({"message": "Server Error"})),
            _ => respond(status, &headers, &answer),
        }
    }
}

fn respond(status: u16, headers: &[(&'static str, String)], body: &Value) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body.to_string())).unwrap()
}

type Answer = (u16, Vec<(&'static str, String)>, Value);

fn refuse(status: u16, why: &str) -> Answer {
    (status, Vec::new(), json!({"message": why}))
}

impl State {
    fn comment(&mut self, login: &str, kind: &str, body: &str) -> Value {
        self.last += 1;
        let id = self.last;
        json!({
            "id": id, "body": body, "user": {"login": login, "type": kind},
            "html_url": format!("https://github.example.com/{REPOSITORY}/pull/7#issuecomment-{id}"),
        })
    }

    fn handle(&mut self, method: &str, path: &str, token: Option<&str>, content: &Value) -> Answer {
        let (login, kind) = match token {
            Some(BOT | FORK) => ("github-actions[bot]", "Bot"),
            Some(PERSON) => ("alice", "User"),
            Some(_) => return refuse(401, "Bad credentials"),
            None => return refuse(401, "Requires authentication"),
        };
        let list = format!("/repos/{REPOSITORY}/issues/7/comments");
        let one = format!("/repos/{REPOSITORY}/issues/comments/");
        let (place, query) = path.split_once('?').unwrap_or((path, ""));
        match method {
            "GET" if place == "/user" && kind == "Bot" => {
                refuse(403, "Resource not accessible by integration")
            }
            "GET" if place == "/user" => (200, Vec::new(), json!({"login": login, "type": kind})),
            "GET" if place == list || place == "/repositories/1/issues/7/comments" => self.page(query),
            "POST" | "PATCH" if token == Some(FORK) => refuse(403, "Resource not accessible by integration"),
            "POST" | "PATCH" if content["body"].as_str().unwrap().chars().count() > 65_536 => {
                refuse(422, "Body is too long (maximum is 65536 characters)")
            }
            "POST" if place == list => {
                let comment = self.comment(login, kind, content["body"].as_str().unwrap());
                self.comments.push(comment.clone());
                (201, Vec::new(), comment)
            }
            "PATCH" if place.starts_with(&one) => {
                let id: u64 = place[one.len()..].parse().unwrap();
                let found = self.comments.iter_mut().find(|comment| comment["id"] == id);
                match found {
                    Some(comment) => {
                        comment["body"] = content["body"].clone();
                        (200, Vec::new(), comment.clone())
                    }
                    None => refuse(404, "Not Found"),
                }
            }
            _ => refuse(404, "Not Found"),
        }
    }

    fn page(&self, query: &str) -> Answer {
        let parameter = |name: &str, default: usize| {
            let mut all = query.split('&').filter_map(|pair| pair.split_once('='));
            all.find(|(key, _)| *key == name)
                .map_or(default, |(_, value)| value.parse().unwrap())
        };
        let (size, page) = (parameter("per_page", 30).min(100), parameter("page", 1));
        let items: Vec<&Value> = self.comments.iter().skip((page - 1) * size).take(size).collect();
        let link = |page: usize| {
            format!(
                "<{}/repositories/1/issues/7/comments?per_page={size}&page={page}>",
                self.address
            )
        };
        let mut links = Vec::new();
        if page > 1 {
            links.push(format!("{}; rel=\"prev\"", link(page - 1)));
        }
        if page * size < self.comments.len() {
            links.push(format!("{}; rel=\"next\"", link(page + 1)));
        }
        let headers = if links.is_empty() {
            Vec::new()
        } else {
            vec![("link", links.join(", "))]
        };
        (200, headers, json!(items))
    }
}
