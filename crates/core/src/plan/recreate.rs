//! What can't be changed, only deleted and created anew; and what is never deleted for that.

use serde_json::Value;

use super::annotations;
use super::prune::KEEP_ANNOTATION;
use crate::api::GROUP;
use cutover_karmada::meta::DELETION_PROTECTED;
use cutover_karmada::name::Gvk;

/// How API servers word that a field stays as it was created. CRDs say what their authors wrote, mostly the first.
const FIXED: &[&str] = &[
    "immutable",
    "may not be changed",
    "may not change once set",
    "cannot change",
    "cannot be changed",
    "are forbidden",
];

/// Returns whether a refusal, as far as it is about one field, says that the field can't be changed.
pub fn is_fixed(message: &str) -> bool {
    let lower = message.to_lowercase();
    // "are forbidden" is what is said of updates, and of other things too.
    FIXED.iter().any(|said| lower.contains(said))
        && (!lower.contains("are forbidden") || lower.contains("updates to"))
}

/// Returns why a live object is not deleted to be created anew, whatever was asked for.
pub fn never_recreated(gvk: &Gvk, live: &Value) -> Option<String> {
    let what_goes_with_it = match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") => "everything in it would be deleted too",
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            "every object of its kind would be deleted too"
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => "the data would be lost",
        ("cluster.karmada.io", "Cluster") => "its workloads would be taken out of the cluster",
        (GROUP, _) => "to delete an intent is to abort it",
        _ => return protected(live),
    };
    Some(format!("a {} is never recreated: {what_goes_with_it}", gvk.kind))
}

fn protected(live: &Value) -> Option<String> {
    if annotations::of(live, KEEP_ANNOTATION) == Some("true") {
        return Some(format!("it is not recreated: annotation {KEEP_ANNOTATION}: true"));
    }
    let labels = live.get("metadata")?.get("labels")?;
    (labels.get(DELETION_PROTECTED)? == "Always")
        .then(|| format!("it is not recreated: label {DELETION_PROTECTED}: Always"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fixed_fields_are_told_from_wrong_ones() {
        for message in [
            "Invalid value: {\"matchLabels\":{\"app\":\"x\"}}: field is immutable",
            "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
            "Forbidden: field is immutable when `immutable` is set",
            "Invalid value: \"\": may not change once set",
            "cannot change roleRef",
            "Invalid value: \"object\": Value is immutable",
        ] {
            assert!(is_fixed(message), "{message}");
        }
        for message in [
            "Required value",
            "Invalid value: -1: must be greater than or equal to 0",
            "Forbidden: privileged containers are forbidden",
        ] {
            assert!(!is_fixed(message), "{message}");
        }
    }

    #[test]
    fn what_takes_more_along_than_itself_is_never_recreated() {
        let never =
            |api_version: &str, kind: &str, live: Value| never_recreated(&Gvk::new(api_version, kind), &live);
        for (api_version, kind) in [
            ("v1", "Namespace"),
            ("v1", "PersistentVolumeClaim"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("cutover.dev/v1alpha1", "Migration"),
        ] {
            assert!(never(api_version, kind, json!({})).is_some(), "{kind}");
        }
        assert_eq!(never("apps/v1", "Deployment", json!({"metadata": {}})), None);
        let kept = json!({"metadata": {"annotations": {(KEEP_ANNOTATION): "true"}}});
        assert!(never("apps/v1", "Deployment", kept).is_some());
        let protected = json!({"metadata": {"labels": {(DELETION_PROTECTED): "Always"}}});
        assert!(never("apps/v1", "Deployment", protected).is_some());
    }
}
