//! Git: whether the branch and `cutover.yaml` can be read, and whether a push would be let in.

use tokio_util::sync::CancellationToken;

use super::{Check, CheckOptions};
use crate::reconcile::check_settings;
use cutover_core::error::Error;

pub(super) async fn check(options: &CheckOptions, cancel: &CancellationToken) -> Vec<Check> {
    const NAME: &str = "Git";
    let Some(repo) = &options.repo else {
        return vec![Check::skipped(NAME, "no repository was named").fix("pass --repo, and what opens it")];
    };
    let (read, push) = check_settings(
        repo,
        options.status_repo.as_ref(),
        &options.status_branches,
        cancel,
    )
    .await;
    let read = match read {
        Ok(revision) => Check::ok("Git read", format!("{} is at {}", repo.branch, revision.short())),
        Err(error) => return vec![Check::of_error("Git read", &error)],
    };
    let push = match push {
        Ok(branch) => Check::ok(
            "Git push",
            format!(
                "a push to {branch} would be let in (protected branches and hooks show only when it is made)"
            ),
        ),
        Err(error) => with_fix("Git push", &error),
    };
    vec![read, push]
}

fn with_fix(name: &str, error: &Error) -> Check {
    let check = Check::of_error(name, error);
    match check.fix {
        Some(_) => check,
        None => check.fix(
            "give the token or key the right to push to the status branch (docs/reference/sync.md#status-branch)",
        ),
    }
}
