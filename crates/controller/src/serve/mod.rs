//! What the reconciler answers over HTTP: webhooks of Git hosts, probes and metrics.

mod hooks;
mod listener;
mod pages;
mod refusals;

pub use hooks::{HookOptions, hooks, hooks_and_pages};
pub use listener::ConnectionLimits;
pub use pages::pages;
