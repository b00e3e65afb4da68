//! What an object says of itself about how it is applied, by annotations.

use serde_json::Value;

/// An integer; within a rank, smaller ones are applied first. None is 0.
pub const WAVE_ANNOTATION: &str = "cutover.dev/wave";
/// `false`: nobody waits until this object is healthy.
pub const WAIT_ANNOTATION: &str = "cutover.dev/wait";
/// Whether fields that other managers own are taken over, whatever the sync says.
pub const FORCE_ANNOTATION: &str = "cutover.dev/force";
/// Whether the object may be deleted and created anew, whatever the sync says.
pub const RECREATE_ANNOTATION: &str = "cutover.dev/recreate";

/// How an object is applied where something is in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Fields that others own are taken over.
    pub force: bool,
    /// What can't be changed is deleted and created anew.
    pub recreate: bool,
}

impl ApplyOptions {
    /// Returns what an object says, and for the rest what its sync says.
    #[must_use]
    pub fn of(self, object: &Value) -> Self {
        Self {
            force: says(object, FORCE_ANNOTATION).unwrap_or(self.force),
            recreate: says(object, RECREATE_ANNOTATION).unwrap_or(self.recreate),
        }
    }
}

/// Returns the yes or no of an annotation; anything else counts as nothing said.
pub(super) fn says(object: &Value, annotation: &str) -> Option<bool> {
    match of(object, annotation)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

pub(super) fn of<'a>(object: &'a Value, annotation: &str) -> Option<&'a str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(annotation)?
        .as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_has_the_last_word_on_how_it_is_applied() {
        let sync = ApplyOptions {
            force: true,
            recreate: false,
        };
        let object = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        assert_eq!(sync.of(&json!({})), sync);
        assert_eq!(sync.of(&object(json!({(FORCE_ANNOTATION): "yes"}))), sync);
        assert_eq!(
            sync.of(&object(
                json!({(FORCE_ANNOTATION): "false", (RECREATE_ANNOTATION): "true"})
            )),
            ApplyOptions {
                force: false,
                recreate: true
            }
        );
    }
}
