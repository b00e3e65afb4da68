//! The places where people review changes: what is told there. GitHub, and what speaks its REST API (v3).
//!
//! - `http`: one API over the HTTP client and the TLS stack that Kubernetes' client brings; retries, limits, secrets
//! - `github`: the one comment on a pull request that is kept up to date
//! - `runner`: what a workflow's environment says

mod error;
mod github;
mod http;
mod runner;

pub use error::Error;
pub use github::{GitHub, Sticky};
pub use http::{Api, Patience};
pub use runner::{PullRequest, Runner, Unusable};
