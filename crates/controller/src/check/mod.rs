//! Whether everything that a reconciler needs is there: `cutover check`. It changes nothing: what writes is a dry-run.

mod git;
mod members;
mod permissions;
mod server;
mod workloads;

use futures::future::BoxFuture;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::reconcile::Elsewhere;
use cutover_cluster::Cluster;
use cutover_core::config::StatusBranches;
use cutover_core::error::{Error, Kind};
use cutover_git as repo;

/// What is checked.
#[derive(Debug)]
pub struct CheckOptions {
    pub cluster: Cluster,
    /// `None`: Git is left out.
    pub repo: Option<repo::Options>,
    /// Where status is committed to, if that is another repository.
    pub status_repo: Option<Elsewhere>,
    pub status_branches: StatusBranches,
}

/// What came of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    /// It works, with less than there could be.
    Warning,
    Failed,
    /// It could not be looked at.
    Skipped,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One check: what was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// For instance `permissions`, or `member west`.
    pub name: String,
    pub outcome: Outcome,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Who can do something about the error that has ended the check, if one has.
    #[serde(skip)]
    pub error: Option<Kind>,
}

impl Check {
    fn new(name: impl Into<String>, outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            outcome,
            message: message.into(),
            fix: None,
            error: None,
        }
    }

    fn ok(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Outcome::Ok, message)
    }

    fn warning(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Outcome::Warning, message)
    }

    fn failed(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Outcome::Failed, message)
    }

    fn skipped(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Outcome::Skipped, message)
    }

    /// A check that an error has ended.
    fn of_error(name: impl Into<String>, error: &Error) -> Self {
        let check = Self {
            error: Some(error.kind()),
            ..Self::failed(name, error.to_string())
        };
        match error.hint_text() {
            Some(hint) => check.fix(hint),
            None => check,
        }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Checks everything, in the order in which it is mended: without an API server, nothing that is asked of it is looked at.
pub fn check(options: CheckOptions, cancel: CancellationToken) -> BoxFuture<'static, Vec<Check>> {
    Box::pin(async move {
        let cluster = &options.cluster;
        let (mut checks, reached) = server::reach(cluster).await;
        if let Some(reached) = reached {
            checks.push(server::clock(&reached));
            checks.extend(server::karmada(cluster).await);
            checks.extend(server::definitions(cluster).await);
            let identity = cluster.whoami().await;
            checks.extend(permissions::check(cluster, identity.as_deref().ok()).await);
            checks.push(server::fence(cluster, identity.as_deref().ok()).await);
            checks.extend(members::check(cluster).await);
            checks.extend(workloads::check(cluster).await);
        }
        checks.extend(git::check(&options, &cancel).await);
        checks
    })
}
