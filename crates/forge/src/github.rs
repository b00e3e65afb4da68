//! One comment on a pull request, found again by a marker and kept up to date.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Api, Idempotent};
use super::{Error, PullRequest};

/// More comments than that nobody reads; a hundred come at a time.
const PAGES: usize = 100;
/// How often a comment whose making had no clear answer is looked for.
const LOOKS: usize = 3;

/// A repository on GitHub.
#[derive(Clone, Debug)]
pub struct GitHub {
    api: Api,
    /// `owner/name`
    repository: String,
}

/// What became of the comment; with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sticky {
    Created(String),
    Updated(String),
    /// It says this already.
    Unchanged(String),
    /// The token may not: from a fork it may only read.
    NotAllowed(String),
}

#[derive(Clone, Debug, Deserialize)]
struct Comment {
    id: u64,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    body: Option<String>,
    user: Option<User>,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    login: String,
    #[serde(rename = "type", default)]
    kind: String,
}

impl GitHub {
    /// Fails on a name that is none: it becomes a part of addresses.
    pub fn new(api: Api, repository: &str) -> Result<Self, Error> {
        let is_name = |name: &str| {
            !name.is_empty()
                && !matches!(name, "." | "..")
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        match repository.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => Ok(Self {
                api,
                repository: repository.to_owned(),
            }),
            _ => Err(Error::BadInput {
                what: "the repository",
                why: format!("{repository:?} is not OWNER/NAME"),
            }),
        }
    }

    /// Sees to it that the pull request has one comment that begins with `marker`, and that this is what it says.
    ///
    /// Only a comment of our own is changed: anybody can write a marker into theirs, and could change what it says later.
    pub async fn comment(&self, on: &PullRequest, marker: &str, body: &str) -> Result<Sticky, Error> {
        match self.write(on, marker, body).await {
            Err(error) if error.is_permission() => Ok(Sticky::NotAllowed(error.to_string())),
            other => other,
        }
    }

    async fn write(&self, on: &PullRequest, marker: &str, body: &str) -> Result<Sticky, Error> {
        let path = format!("/repos/{}/issues/{}/comments", self.repository, on.number);
        let content = json!({"body": body});
        let mut look = 1;
        loop {
            if let Some(own) = self.find(&path, marker).await? {
                // GitHub takes line ends of its own and white space at the end away.
                let said = own.body.as_deref().unwrap_or_default().replace("\r\n", "\n");
                if said.trim_end() == body.trim_end() {
                    return Ok(Sticky::Unchanged(own.html_url));
                }
                let path = format!("/repos/{}/issues/comments/{}", self.repository, own.id);
                let answer = self
                    .api
                    .ask(Method::PATCH, &path, Some(&content), Idempotent::Yes)
                    .await?;
                return Ok(Sticky::Updated(self.read::<Comment>(answer.body)?.html_url));
            }
            let made = self
                .api
                .ask(Method::POST, &path, Some(&content), Idempotent::No)
                .await;
            match made {
                Ok(answer) => return Ok(Sticky::Created(self.read::<Comment>(answer.body)?.html_url)),
                // It may be there: then there is one to be found.
                Err(Error::Unclear { .. }) if look < LOOKS => look += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn find(&self, path: &str, marker: &str) -> Result<Option<Comment>, Error> {
        let mut page = format!("{path}?per_page=100");
        let mut own_name: Option<Option<String>> = None;
        for _ in 0..PAGES {
            let answer = self.api.get(&page).await?;
            let comments: Vec<Comment> = self.read(answer.body)?;
            for comment in comments {
                let is_marked = comment
                    .body
                    .as_deref()
                    .is_some_and(|body| body.starts_with(marker));
                if !is_marked {
                    continue;
                }
                let Some(user) = &comment.user else { continue };
                // The token of a workflow, or of an app, is a bot's; nobody else comments as one.
                if user.kind == "Bot" {
                    return Ok(Some(comment));
                }
                if own_name.is_none() {
                    own_name = Some(self.own_name().await?);
                }
                if own_name.iter().flatten().any(|own| *own == user.login) {
                    return Ok(Some(comment));
                }
            }
            match answer.next {
                Some(next) => page = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the person whose token it is; a bot's token may not ask.
    async fn own_name(&self) -> Result<Option<String>, Error> {
        match self.api.get("/user").await {
            Ok(answer) => Ok(Some(self.read::<User>(answer.body)?.login)),
            Err(error) if error.is_permission() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, body: Value) -> Result<T, Error> {
        serde_json::from_value(body).map_err(|error| self.api.not_understood(error.to_string()))
    }
}
