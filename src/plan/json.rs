//! A plan for programs: a versioned document with JSON patches, and a hash by which a plan can be recognised.

use std::fmt::Write as _;

use json_patch::PatchOperation;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::mask::mask;
use super::{Action, Change, ChangeSet, Summary};
use crate::api::API_VERSION;
use crate::name::{Location, Revision};

/// A plan as `-o json` prints it. What is in sync is counted, not listed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub api_version: &'static str,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// SHA-256, in hexadecimal digits, of revision and changes with sorted keys: the same plan has the same hash.
    /// It covers what is shown, not the masked values: from a hash of those, a weak one could be guessed.
    pub hash: String,
    pub summary: Summary,
    pub changes: Vec<PlannedChange>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    /// `create`, `configure`, `delete`, `recreate`, `heldBack`, `blocked`.
    pub action: &'static str,
    /// By what it is held back, or why it is recreated or blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub object: ObjectId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Location>,
    /// A JSON patch (RFC 6902) from the object before to the object after, both normalised and masked.
    pub diff: Vec<PatchOperation>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

pub(super) fn document(set: &ChangeSet) -> Document {
    let pending = set
        .changes
        .iter()
        .filter(|change| change.action != Action::Unchanged);
    let mut document = Document {
        api_version: API_VERSION,
        kind: "Plan",
        revision: set.revision.clone(),
        hash: String::new(),
        summary: set.summary(),
        changes: pending.map(planned).collect(),
    };
    document.hash = hash(&document);
    document
}

fn planned(change: &Change) -> PlannedChange {
    let (action, reason) = match &change.action {
        Action::Create => ("create", None),
        Action::Configure => ("configure", None),
        Action::Unchanged => ("unchanged", None),
        Action::Delete => ("delete", None),
        Action::Recreate { reason } => ("recreate", Some(reason.clone())),
        Action::HeldBack { by } => ("heldBack", Some(by.clone())),
        Action::Blocked { reason } => ("blocked", Some(reason.clone())),
    };
    PlannedChange {
        action,
        reason,
        object: ObjectId {
            api_version: change.gvk.api_version(),
            kind: change.gvk.kind.clone(),
            namespace: change.key.namespace.clone(),
            name: change.key.name.clone(),
        },
        source: change.source.clone(),
        diff: patch(change.before.as_ref(), change.after.as_ref()),
    }
}

fn patch(before: Option<&Value>, after: Option<&Value>) -> Vec<PatchOperation> {
    let operations = match mask(before, after) {
        (None, None) => return Vec::new(),
        (Some(before), Some(after)) => return json_patch::diff(&before, &after).0,
        (None, Some(after)) => json!([{"op": "add", "path": "", "value": after}]),
        (Some(_), None) => json!([{"op": "remove", "path": ""}]),
    };
    serde_json::from_value(operations).unwrap_or_default()
}

/// The summary is left out: how many objects are in sync doesn't make it another plan.
fn hash(document: &Document) -> String {
    let content = json!({"revision": document.revision, "changes": document.changes});
    let mut canonical = content;
    canonical.sort_all_objects();
    let digest = Sha256::digest(canonical.to_string());
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
