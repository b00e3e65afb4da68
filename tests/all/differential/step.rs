//! A request, as data: what a sequence is made of, what can be shortened and printed.

use serde_json::{Value, json};

/// One request to both servers. Texts may hold `${…}`, which each side fills in from what it has answered so far:
/// `${ns}`, `${rv:PLURAL/NAME}` (the last resourceVersion seen), `${rv1:…}` (the first), `${uid:…}`, `${list}` (the
/// resourceVersion of the last list), `${continue}`, and `${ip}` and `${port}`, an address and a node port that no other
/// sequence asks for at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub method: &'static str,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub accept: Option<&'static str>,
    pub content_type: Option<&'static str>,
    pub body: Body,
}

/// What a request carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    None,
    Json(Value),
    /// Anything, such as JSON with a field twice, or YAML.
    Text(String),
    /// The object `PLURAL/NAME` as the side has last seen it, changed by a merge patch.
    Seen {
        object: String,
        change: Value,
    },
}

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
pub const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

impl Step {
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            accept: None,
            content_type: None,
            body: Body::None,
        }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new("POST", path).json(JSON, body)
    }

    pub fn put(path: impl Into<String>, body: Value) -> Self {
        Self::new("PUT", path).json(JSON, body)
    }

    /// Replaces an object by what was seen of it last, with a change.
    pub fn put_seen(path: impl Into<String>, object: impl Into<String>, change: Value) -> Self {
        let body = Body::Seen {
            object: object.into(),
            change,
        };
        Self {
            content_type: Some(JSON),
            body,
            ..Self::new("PUT", path)
        }
    }

    pub fn patch(path: impl Into<String>, content_type: &'static str, body: Value) -> Self {
        Self::new("PATCH", path).json(content_type, body)
    }

    pub fn apply(path: impl Into<String>, manager: &str, body: Value) -> Self {
        Self::patch(path, APPLY, body).with("fieldManager", manager)
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    /// A watch: it goes on until the end of the sequence.
    pub fn watch(path: impl Into<String>) -> Self {
        Self::get(path).with("watch", "true")
    }

    pub fn with(mut self, parameter: &str, value: impl Into<String>) -> Self {
        self.query.push((parameter.to_owned(), value.into()));
        self
    }

    pub fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = Some(accept);
        self
    }

    pub fn json(mut self, content_type: &'static str, body: Value) -> Self {
        self.content_type = Some(content_type);
        self.body = Body::Json(body);
        self
    }

    pub fn text(mut self, content_type: &'static str, body: impl Into<String>) -> Self {
        self.content_type = Some(content_type);
        self.body = Body::Text(body.into());
        self
    }

    /// Waits until what was written at a path is in force: on a real server some things are so later.
    pub fn settle(path: impl Into<String>) -> Self {
        Self::new("SETTLE", path)
    }

    pub fn is_settling(&self) -> bool {
        self.method == "SETTLE"
    }

    pub fn is_watch(&self) -> bool {
        self.method == "GET"
            && self
                .query
                .iter()
                .any(|(name, value)| name == "watch" && value == "true")
    }
}

/// Returns steps as lines for people, and for a case that is kept.
pub fn listing(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "  {} {}", self.method, self.path)?;
        for (index, (name, value)) in self.query.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { '?' } else { '&' })?;
        }
        if let Some(accept) = self.accept {
            write!(f, " accept {accept:?}")?;
        }
        if let Some(content_type) = self.content_type {
            write!(f, " {content_type:?}")?;
        }
        match &self.body {
            Body::None => Ok(()),
            Body::Json(body) => write!(f, " {body}"),
            Body::Text(text) => write!(f, " {text:?}"),
            Body::Seen { object, change } => write!(f, " {}", json!({"seen": object, "change": change})),
        }
    }
}
