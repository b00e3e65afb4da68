//! Admission: hooks that review every write, as webhooks do, and the policies that are written in CEL.

/// One write, as policies see it.
pub(super) mod attributes;
mod matching;
mod policies;
mod policy;
/// What a server refuses of policies and bindings themselves.
pub(super) mod validation;

use std::sync::Arc;

use serde_json::Value;

use super::{Resource, Status, Subresource};
use crate::store::Store;

pub use policies::AdmissionLag;
pub(super) use policies::Policies;

/// What a write is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// Returns what rules and `request.operation` call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// One write under review.
#[derive(Clone, Copy, Debug)]
pub struct Review<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    pub subresource: Option<Subresource>,
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub old: Option<&'a Value>,
    /// What is to be written; nothing on deletion.
    pub new: Option<&'a Value>,
    pub user: &'a str,
    pub dry_run: bool,
    /// The other objects, as they are at this moment. A hook must not call the server's verbs: it runs within one.
    pub store: &'a Store,
}

/// A webhook: refuses a write, or changes what is written.
pub trait Admission: Send + Sync {
    /// Returns the object to write instead, if it is to be changed.
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status>;
}

/// Asks all hooks in order, each about what the ones before made of the object, and returns that if one changed it.
pub(super) fn ask(hooks: &[Arc<dyn Admission>], review: &Review<'_>) -> Result<Option<Value>, Status> {
    let mut changed = None;
    for hook in hooks {
        let new = changed.as_ref().or(review.new);
        if let Some(object) = hook.review(&Review { new, ..*review })? {
            changed = Some(object);
        }
    }
    Ok(changed)
}
