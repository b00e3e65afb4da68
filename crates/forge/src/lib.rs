//! The hosts of repositories: what is told where people review changes, and what they tell of pushes.
//!
//! Reviews are GitHub's, and of what speaks its REST API (v3); statuses of commits are also GitLab's and Gitea's; pushes are
//! told by whoever signs.
//!
//! - `api`: one REST API over the plain HTTP client; what is asked again, secrets
//! - `github`: the one comment on a pull request that is kept up to date
//! - `commits`: statuses of commits; `teller`: the queue before them, that nobody waits for
//! - `hook`: a word that somebody has pushed, whether it is authentic
//! - `runner`: what a workflow's environment says

mod api;
mod commits;
mod error;
mod github;
mod hook;
/// What receivers are told by HTTP.
pub mod notify;
mod runner;
mod teller;

pub use api::{Api, RETRY_POLICY};
pub use commits::{CommitStatus, Commits, Token};
pub use cutover_http::{Backoff, RetryPolicy};
pub use error::Error;
pub use github::{GitHub, Sticky};
pub use hook::{Heard, Hook, signature};
pub use runner::{PullRequest, Runner, Unusable};
pub use teller::{Teller, Telling};
