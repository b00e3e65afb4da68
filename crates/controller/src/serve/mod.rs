//! What the reconciler answers over HTTP: for now, words of Git hosts that somebody has pushed.

mod hooks;
mod listener;
mod refusals;

pub use hooks::{HookOptions, hooks};
pub use listener::ConnectionLimits;
