//! A plan's hash: by it, what was reviewed is recognised when it is about to be carried out.
//!
//! It covers what would be sent, which objects it would be sent to, and what it would replace there; not the commit, so
//! that a merge doesn't make another plan, and not what the server would add. Secrets are covered too. So that a weak one
//! can't be guessed from a hash that many people see, the hash is slow to compute, and covers what such people don't
//! know: the identity of the control plane and of its objects.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use super::fields::differences;
use super::{Action, Change, ChangeSet};
use crate::error::Error;
use crate::redact::stretched;

/// Recognises a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash([u8; 32]);

/// How many digits of a hash people are shown and have to give.
const SHORT: usize = 16;

impl Hash {
    /// Returns the first digits, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().take(SHORT).collect()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A hash as somebody gives it: all its digits, or at least the first 16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the hash of a plan: 16 to 64 hexadecimal digits are")]
pub struct NotAHash;

impl Expected {
    pub fn is(&self, hash: &Hash) -> bool {
        hash.to_string().starts_with(&self.0)
    }
}

impl FromStr for Expected {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let digits = text.to_ascii_lowercase();
        let fits = (SHORT..=64).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then_some(Self(digits)).ok_or(NotAHash)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ChangeSet {
    /// Returns the hash of what is pending. `control_plane` tells the API server from all others.
    pub fn hash(&self, control_plane: &str) -> Result<Hash, Error> {
        let pending = self
            .changes
            .iter()
            .filter(|change| !matches!(change.action, Action::Unchanged | Action::LeftBehind { .. }))
            .map(content);
        let problems = self.problems.iter().map(ToString::to_string);
        let mut all = json!({
            "changes": pending.collect::<Vec<_>>(),
            "problems": problems.collect::<Vec<_>>(),
        });
        all.sort_all_objects();
        stretched(all.to_string().as_bytes(), control_plane.as_bytes())
            .map(Hash)
            .ok_or_else(|| Error::internal("the hash of the plan cannot be computed"))
    }
}

fn content(change: &Change) -> Value {
    let by = match &change.action {
        Action::HeldBack { by } => Some(by),
        _ => None,
    };
    let replaced: Vec<Value> = match (&change.before, &change.after) {
        (Some(before), Some(after)) => differences(before, after)
            .into_iter()
            .map(|field| json!([field.path.pointer(), field.before]))
            .collect(),
        _ => Vec::new(),
    };
    json!({
        "action": change.action.name(),
        "by": by,
        "object": [change.gvk.api_version(), change.gvk.kind, change.key.namespace, change.key.name],
        "uid": change.uid,
        "sent": change.sent,
        "replaced": replaced,
    })
}
