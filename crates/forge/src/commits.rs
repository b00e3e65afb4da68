//! Statuses of commits: what GitHub, GitLab and Gitea show beside a commit wherever they show it.

use std::path::PathBuf;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Error;
use super::api::{Api, Idempotent};
use cutover_base::Secret;
use cutover_core::report::{Host, Outcome, Web};
use cutover_karmada::name::Revision;

/// What GitHub takes; the others take more.
const NOTE: usize = 140;
const NAME: usize = 255;

/// What is said of a commit, under a name: said again under the same name, it takes the place of what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    pub revision: Revision,
    pub name: String,
    pub outcome: Outcome,
    pub note: String,
    /// Where there is more to read.
    pub link: Option<String>,
}

/// What opens an API.
#[derive(Clone, Debug)]
pub enum Token {
    Given(Secret),
    /// Something else rotates it (a mounted Secret): it is read before each request.
    File(PathBuf),
}

/// The commits of one repository.
#[derive(Clone, Debug)]
pub struct Commits {
    host: Host,
    api: Api,
    /// As it stands in addresses.
    project: String,
    token: Token,
}

impl Commits {
    /// Fails on a repository that has no place in the API: that is found by the address of its page.
    pub fn new(api: Api, web: &Web, token: Token) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadInput {
            what: "the repository",
            why: format!("{}: {why}", web.page()),
        };
        let path = path_of(web.page(), api.base()).ok_or_else(|| bad("it has no path"))?;
        let project = match (web.host, path.matches('/').count()) {
            (Host::Bitbucket, _) => return Err(bad("Bitbucket's commit statuses are not supported")),
            (Host::GitLab, 1..) => path.replace('/', "%2F"),
            (Host::GitHub | Host::Gitea, 1) => path.to_owned(),
            _ => return Err(bad("it is not OWNER/NAME")),
        };
        let api = if web.host == Host::GitHub {
            api
        } else {
            api.plain()
        };
        token.read()?;
        Ok(Self {
            host: web.host,
            api,
            project,
            token,
        })
    }

    /// Says it; harmless to say again.
    pub async fn say(&self, status: &CommitStatus) -> Result<(), Error> {
        let api = self.api.by(&self.token.read()?)?;
        let (path, content) = self.request(status);
        let answer = api
            .ask(Method::POST, &path, Some(&content), Idempotent::Yes)
            .await;
        match answer {
            Err(error) if self.says_so_already(&error) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    fn request(&self, status: &CommitStatus) -> (String, Value) {
        let (project, revision) = (&self.project, &status.revision);
        let (name, note) = (cut(&status.name, NAME), cut(&status.note, NOTE));
        let state = match (self.host, status.outcome) {
            (_, Outcome::Success) => "success",
            (Host::GitLab, Outcome::Pending) => "running",
            (_, Outcome::Pending) => "pending",
            (Host::GitLab, Outcome::Failure) => "failed",
            (_, Outcome::Failure) => "failure",
        };
        let (path, name_field) = match self.host {
            Host::GitLab => (format!("/projects/{project}/statuses/{revision}"), "name"),
            _ => (format!("/repos/{project}/statuses/{revision}"), "context"),
        };
        let mut content = json!({"state": state, name_field: name, "description": note});
        if let Some(link) = &status.link {
            content["target_url"] = json!(link);
        }
        (path, content)
    }

    /// GitLab won't have the state that a status is in already, whatever else is new about it.
    fn says_so_already(&self, error: &Error) -> bool {
        let is_refused = |status: &StatusCode, why: &str| {
            *status == StatusCode::BAD_REQUEST && why.contains("Cannot transition status")
        };
        self.host == Host::GitLab
            && matches!(error, Error::Refused { status, why, .. } if is_refused(status, why))
    }
}

impl Token {
    fn read(&self) -> Result<Secret, Error> {
        match self {
            Self::Given(secret) => Ok(secret.clone()),
            Self::File(path) => {
                let bad = |why: String| Error::BadInput {
                    what: "the token",
                    why: format!("{}: {why}", path.display()),
                };
                let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
                let line = text.lines().next().unwrap_or_default().trim();
                if line.is_empty() {
                    return Err(bad("it is empty".to_owned()));
                }
                Ok(Secret::new(line))
            }
        }
    }
}

/// Returns the path of a repository on its server. Where a server isn't at the root of its address, the address of the API
/// begins with the same path.
fn path_of<'a>(page: &'a str, api: &str) -> Option<&'a str> {
    let path = |address: &'a str| Some(address.split_once("://")?.1.split_once('/')?.1);
    let page = path(page)?;
    let before = api
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'))
        .and_then(|(_, path)| path.split_once("/api/"))
        .map(|(before, _)| before);
    match before {
        Some(before) => page.strip_prefix(before)?.strip_prefix('/'),
        None => Some(page),
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RETRY_POLICY;

    fn commits(host: Host, page: &str, api: &str) -> Result<Commits, Error> {
        let api = Api::new(api, None, RETRY_POLICY).unwrap();
        let web = Web::new(host, page).unwrap();
        Commits::new(api, &web, Token::Given(Secret::new("swordfish")))
    }

    #[tokio::test]
    async fn a_repository_is_found_by_its_page() {
        for (host, page, api, project) in [
            (
                Host::GitHub,
                "https://github.com/shop/fleet",
                "https://api.github.com",
                "shop/fleet",
            ),
            (
                Host::GitLab,
                "https://gitlab.com/a/b/fleet",
                "https://gitlab.com/api/v4",
                "a%2Fb%2Ffleet",
            ),
            (
                Host::GitLab,
                "https://example.com/gitlab/a/fleet",
                "https://example.com/gitlab/api/v4",
                "a%2Ffleet",
            ),
            (
                Host::Gitea,
                "https://git.example.com/shop/fleet",
                "https://git.example.com/api/v1",
                "shop/fleet",
            ),
        ] {
            let commits = commits(host, page, api).unwrap();
            assert_eq!(commits.project, project, "{page}");
            assert!(!format!("{commits:?}").contains("swordfish"));
        }
        for (host, page, api) in [
            (Host::GitHub, "https://github.com/fleet", "https://api.github.com"),
            (
                Host::GitHub,
                "https://github.com/a/b/fleet",
                "https://api.github.com",
            ),
            (
                Host::GitLab,
                "https://example.com/a/fleet",
                "https://example.com/gitlab/api/v4",
            ),
            (
                Host::Bitbucket,
                "https://bitbucket.org/a/b",
                "https://api.bitbucket.org/2.0",
            ),
        ] {
            assert!(commits(host, page, api).is_err(), "{page}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüä", 3), "äö…");
    }
}
