//! What others may change: objects that stay as somebody changed them, fields that are left to others ([`Rules`]), and
//! who has changed what ([`drifted`]).

mod fields;
mod leave;

use std::borrow::Cow;

use serde_json::Value;

pub use fields::{DriftedField, drifted};
pub use leave::Rules;

use super::applyset::{PART_OF_LABEL, set};
use super::fast_path::Wanted;
use crate::config::{Drift, DriftMode};
use crate::intent::record::digest;
use crate::manifest::{Entry, Manifest};

/// On an object in Git: `correct`, `warn` or `ignore`, instead of what its sync says.
pub const MODE_ANNOTATION: &str = "cutover.dev/drift";
/// On an object whose drift stays: the digest of what Git wanted when it was applied. Without it, Git's state comes back.
pub const APPLIED_ANNOTATION: &str = "cutover.dev/applied";

/// Returns what is done about drift of an object.
pub fn mode_of(desired: &Value, default: DriftMode) -> DriftMode {
    match annotation(desired, MODE_ANNOTATION) {
        Some("correct") => DriftMode::Correct,
        Some("warn") => DriftMode::Warn,
        Some("ignore") => DriftMode::Ignore,
        _ => default,
    }
}

/// Returns whether Git has wanted the same since it was applied last: then a difference is somebody's doing.
pub fn is_applied(desired: &Value, live: &Value) -> bool {
    annotation(desired, APPLIED_ANNOTATION)
        .is_some_and(|digest| annotation(live, APPLIED_ANNOTATION) == Some(digest))
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// What a sync adds to what Git says of an object, and what it leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyContext {
    /// The set that everything is a member of.
    pub part_of: Option<String>,
    pub drift: Drift,
}

impl ApplyContext {
    /// Returns what is to be applied to a live object, when that is no more than what is written and a label.
    pub fn plain<'a>(&'a self, entry: &'a Entry) -> Option<Wanted<'a>> {
        let written = entry.written();
        let annotations = || written.get("metadata")?.get("annotations");
        let says_mode = annotations().and_then(|all| all.get(MODE_ANNOTATION)).is_some();
        let rules = Rules::of(&self.drift.ignore, &entry.gvk, &entry.key.name);
        let is_plain = self.drift.mode == DriftMode::Correct && !says_mode && rules.is_empty();
        is_plain.then(|| Wanted {
            written,
            label: self.part_of.as_deref().map(|id| (PART_OF_LABEL, id)),
        })
    }

    /// Returns an object as it is to be applied as `manager` to a live one.
    pub fn on<'d>(&self, manifest: &'d Manifest, live: Option<&Value>, manager: &str) -> Cow<'d, Manifest> {
        let mode = mode_of(&manifest.value, self.drift.mode);
        let rules = Rules::of(&self.drift.ignore, &manifest.gvk, &manifest.key.name);
        if self.part_of.is_none() && mode == DriftMode::Correct && (rules.is_empty() || live.is_none()) {
            return Cow::Borrowed(manifest);
        }
        let mut dressed = manifest.clone();
        if let Some(id) = &self.part_of {
            set(&mut dressed.value["metadata"], "labels", PART_OF_LABEL, id);
        }
        if mode != DriftMode::Correct {
            let digest = digest(&dressed.value);
            set(
                &mut dressed.value["metadata"],
                "annotations",
                APPLIED_ANNOTATION,
                &digest,
            );
        }
        if let Cow::Owned(left) = rules.leave(&dressed.value, live, manager) {
            dressed.value = left;
        }
        Cow::Owned(dressed)
    }
}
