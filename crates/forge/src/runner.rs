//! What the environment of a workflow's step says: the event, the pull request, and where results go.

use std::path::PathBuf;

use serde_json::Value;

/// A run of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runner {
    pub event: String,
    /// `owner/name`
    pub repository: String,
    /// For instance `https://api.github.com`.
    pub api: String,
    /// The page of the repository.
    pub page: String,
    /// The page of this run.
    pub run: Option<String>,
    pub pull_request: Option<PullRequest>,
    /// Where `name=value` lines become outputs of the step.
    pub output: Option<PathBuf>,
    /// Where Markdown becomes the step's summary.
    pub summary: Option<PathBuf>,
}

/// A pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    /// The tip of the branch that it is to be merged into.
    pub base: String,
    /// Whether it comes from another repository: then there are no secrets, and the token may only read.
    pub from_fork: bool,
}

/// Why nothing is done in this environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("{0} is not set: this is no step of a workflow")]
    NotSet(&'static str),
    #[error("the event of this workflow cannot be read: {0}")]
    Event(String),
    /// Its token and secrets are those of the repository, while the files are those of whoever asks.
    #[error("a workflow on {0} can run with this repository's secrets on files that anybody may propose")]
    Privileged(String),
}

/// Events whose workflows run on files that people with write access have put there, or without secrets. Others are refused:
/// `pull_request_target`, `workflow_run`, `issue_comment` and their like have the secrets whoever caused them.
const SAFE: [&str; 7] = [
    "pull_request",
    "push",
    "merge_group",
    "schedule",
    "workflow_dispatch",
    "repository_dispatch",
    "release",
];

impl From<Unusable> for cutover_core::error::Error {
    fn from(error: Unusable) -> Self {
        let hint = match &error {
            Unusable::Privileged(_) => {
                "use `on: pull_request`: what comes from forks is checked without secrets, and the report is in the summary"
            }
            Unusable::NotSet(_) => "without a runner, `-o markdown` prints the report",
            Unusable::Event(_) => "GITHUB_EVENT_PATH must name the file that the runner has written",
        };
        Self::user(error.to_string()).hint(hint)
    }
}

impl Runner {
    /// Reads the environment; `event` is what the file holds that `GITHUB_EVENT_PATH` names.
    pub fn read(
        environment: impl Fn(&str) -> Option<String>,
        event: Option<&[u8]>,
    ) -> Result<Self, Unusable> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let name = variable("GITHUB_EVENT_NAME").ok_or(Unusable::NotSet("GITHUB_EVENT_NAME"))?;
        if !SAFE.contains(&name.as_str()) {
            return Err(Unusable::Privileged(name));
        }
        let repository = variable("GITHUB_REPOSITORY").ok_or(Unusable::NotSet("GITHUB_REPOSITORY"))?;
        let pull_request = match event {
            Some(bytes) if name == "pull_request" => Some(pull_request(bytes)?),
            None if name == "pull_request" => return Err(Unusable::NotSet("GITHUB_EVENT_PATH")),
            _ => None,
        };
        let server = variable("GITHUB_SERVER_URL").unwrap_or_else(|| "https://github.com".to_owned());
        let page = format!("{}/{repository}", server.trim_end_matches('/'));
        let run = variable("GITHUB_RUN_ID").filter(|run| run.bytes().all(|b| b.is_ascii_digit()));
        Ok(Self {
            event: name,
            run: run.map(|run| format!("{page}/actions/runs/{run}")),
            page,
            repository,
            api: variable("GITHUB_API_URL").unwrap_or_else(|| "https://api.github.com".to_owned()),
            pull_request,
            output: variable("GITHUB_OUTPUT").map(PathBuf::from),
            summary: variable("GITHUB_STEP_SUMMARY").map(PathBuf::from),
        })
    }
}

fn pull_request(event: &[u8]) -> Result<PullRequest, Unusable> {
    let event: Value = serde_json::from_slice(event).map_err(|error| Unusable::Event(error.to_string()))?;
    let missing = |what: &str| Unusable::Event(format!("it has no {what}"));
    let pull = &event["pull_request"];
    let text = |pointer: &str| pull.pointer(pointer).and_then(Value::as_str);
    let base = text("/base/sha").ok_or_else(|| missing("pull_request.base.sha"))?;
    if !base.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Unusable::Event("pull_request.base.sha is no commit".to_owned()));
    }
    Ok(PullRequest {
        number: pull["number"]
            .as_u64()
            .ok_or_else(|| missing("pull_request.number"))?,
        base: base.to_owned(),
        // A fork that was deleted meanwhile is one, too.
        from_fork: text("/head/repo/full_name") != text("/base/repo/full_name"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(head: &Value) -> Vec<u8> {
        json!({"pull_request": {"number": 7, "head": {"repo": head}, "base": {"sha": "abc123", "repo": {"full_name": "a/b"}}}})
            .to_string()
            .into_bytes()
    }

    fn read(name: &str, event: Option<&[u8]>) -> Result<Runner, Unusable> {
        let environment = |variable: &str| match variable {
            "GITHUB_EVENT_NAME" => Some(name.to_owned()),
            "GITHUB_REPOSITORY" => Some("a/b".to_owned()),
            "GITHUB_RUN_ID" => Some("12".to_owned()),
            "GITHUB_OUTPUT" => Some(String::new()),
            _ => None,
        };
        Runner::read(environment, event)
    }

    #[test]
    fn a_pull_request_is_told_from_one_of_a_fork() {
        let own = read("pull_request", Some(&event(&json!({"full_name": "a/b"})))).unwrap();
        assert_eq!(
            own.pull_request,
            Some(PullRequest {
                number: 7,
                base: "abc123".to_owned(),
                from_fork: false
            })
        );
        assert_eq!(own.run.as_deref(), Some("https://github.com/a/b/actions/runs/12"));
        assert_eq!((own.output, own.api.as_str()), (None, "https://api.github.com"));
        for fork in [json!({"full_name": "c/b"}), Value::Null] {
            let read = read("pull_request", Some(&event(&fork))).unwrap();
            assert!(read.pull_request.unwrap().from_fork);
        }
        assert_eq!(read("push", Some(b"{}")).unwrap().pull_request, None);
    }

    #[test]
    fn an_environment_that_is_dangerous_or_none_is_refused() {
        // And whatever else comes to be.
        for event in [
            "pull_request_target",
            "workflow_run",
            "issue_comment",
            "issues",
            "another",
        ] {
            let refused = read(event, Some(b"{}")).unwrap_err();
            assert_eq!(refused, Unusable::Privileged(event.to_owned()));
            assert!(refused.to_string().contains(event));
        }
        for event in SAFE.iter().filter(|event| **event != "pull_request") {
            assert!(read(event, Some(b"{}")).is_ok(), "{event}");
        }
        assert_eq!(read("", None), Err(Unusable::NotSet("GITHUB_EVENT_NAME")));
        assert_eq!(
            read("pull_request", None),
            Err(Unusable::NotSet("GITHUB_EVENT_PATH"))
        );
        assert!(matches!(
            read("pull_request", Some(b"{}")),
            Err(Unusable::Event(_))
        ));
        let bad = br#"{"pull_request": {"number": 1, "base": {"sha": "--upload-pack=x"}}}"#;
        assert!(matches!(read("pull_request", Some(bad)), Err(Unusable::Event(_))));
    }
}
