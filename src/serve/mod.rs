//! What the reconciler answers over HTTP: for now, words of Git hosts that somebody has pushed.

mod hooks;

pub use hooks::{HookOptions, hooks};
