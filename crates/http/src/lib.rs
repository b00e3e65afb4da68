//! The one plain HTTP client: REST APIs of forges, receivers of notifications, Prometheus.
//!
//! The API server of Kubernetes is asked by the client of `kube`, which `cutover-cluster` keeps to its limits. What holds for
//! both stands here once: the delays between attempts, `Retry-After`, an error with its causes.

mod backoff;
mod client;
mod error;
mod headers;
mod retry;

pub use backoff::{Backoff, Delays};
pub use client::{Client, ClientOptions, InvalidOptions, Trust};
pub use error::{Error, TimedOut, with_causes};
pub use headers::{bearer, retry_after};
pub use retry::{Retry, RetryPolicy};
