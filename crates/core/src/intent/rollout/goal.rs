//! What a template is to be: what Git has, a revision that a person went back to, or the last good one.

use serde_json::Value;

use crate::api::{RolloutRevision, RolloutSpec, RolloutStatus};

/// What a template is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The digest of the manifest in Git, or `revision/` and the name of one.
    pub id: String,
    /// The Git revision.
    pub git: Option<String>,
    /// As it is applied.
    pub manifest: Value,
    /// It is the last good revision, in place of what is asked for and was undone.
    pub instead: bool,
}

impl Goal {
    pub(super) fn revision(revision: &RolloutRevision) -> Self {
        Self {
            id: format!("revision/{}", revision.name),
            git: revision.git.clone(),
            manifest: revision.manifest.clone(),
            instead: false,
        }
    }
}

/// Returns what the template is to be, or why nobody can say. `wanted`: what Git has.
///
/// What was undone isn't tried again: until a commit changes it, the last good revision stays.
pub fn goal(
    spec: &RolloutSpec,
    status: &RolloutStatus,
    wanted: Option<Goal>,
) -> Result<Option<Goal>, String> {
    let asked = match &spec.controls.undo_to {
        Some(text) => match status.meant(text) {
            Some(revision) => Some(Goal::revision(revision)),
            None => {
                return Err(format!("spec.undoTo: {text} names no revision, or more than one"));
            }
        },
        None => wanted,
    };
    let undone = status.held_back.as_ref().map(|held_back| &held_back.hash);
    if asked.is_some() && asked.as_ref().map(|goal| &goal.id) == undone {
        let stable = status.stable.as_ref().and_then(|name| status.revision(name));
        let instead = |revision| Goal {
            instead: true,
            ..Goal::revision(revision)
        };
        return Ok(stable.map(instead));
    }
    Ok(asked)
}
