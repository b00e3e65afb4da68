//! Which live objects are no longer wanted, and when there are too many of them to believe it.

use serde_json::Value;

use super::Change;
use crate::manifest::Set;
use crate::name::{Gvk, ObjectKey};

/// On an object, with the value `true`: it is never pruned.
pub(super) const KEEP_ANNOTATION: &str = "cutover.dev/keep";
/// Karmada's webhook refuses to delete what carries this label with the value `Always`.
pub(super) const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";

/// A live object that a sync applied earlier.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    pub key: ObjectKey,
    pub gvk: Gvk,
    pub live: &'a Value,
}

/// When deletions are too many to be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Up to this many are always believed.
    pub free: usize,
    /// Beyond, at most this part of all objects, in percent.
    pub percent: usize,
}

impl Default for Guard {
    fn default() -> Self {
        Self { free: 5, percent: 30 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refusing to delete {deletions} of {all} objects at once")]
pub struct MassDeletion {
    pub deletions: usize,
    pub all: usize,
}

/// Returns the deletion of every member that no file mentions. While a file can't be read, that is none: what it says is unknown.
pub fn prune(members: &[Member<'_>], desired: &Set, guard: Guard) -> Result<Vec<Change>, MassDeletion> {
    if desired.errors().next().is_some() {
        return Ok(Vec::new());
    }
    let unwanted: Vec<_> = members
        .iter()
        .filter(|member| !desired.mentions(&member.key))
        .collect();
    let (deletions, all) = (unwanted.len(), members.len());
    if deletions > guard.free && deletions * 100 > all * guard.percent {
        return Err(MassDeletion { deletions, all });
    }
    Ok(unwanted.into_iter().map(deletion).collect())
}

fn deletion(member: &Member<'_>) -> Change {
    let change = Change::delete(member.key.clone(), member.gvk.clone(), member.live);
    let metadata = |field: &str, name: &str| {
        member
            .live
            .get("metadata")
            .and_then(|metadata| metadata.get(field)?.get(name)?.as_str())
    };
    if metadata("annotations", KEEP_ANNOTATION) == Some("true") {
        change.blocked(format!("annotation {KEEP_ANNOTATION}: true"))
    } else if metadata("labels", DELETION_PROTECTED) == Some("Always") {
        change.blocked(format!("label {DELETION_PROTECTED}: Always"))
    } else {
        change
    }
}
