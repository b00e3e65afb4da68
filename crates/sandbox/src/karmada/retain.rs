//! What a member decides about its object: an update by Karmada keeps it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::manifest::prune;
use super::objects;
use cutover_karmada::meta::{MANAGED_ANNOTATIONS, MANAGED_LABELS, RETAIN_REPLICAS};

/// Returns what to write over an object in a member.
pub fn retain(manifest: &Value, present: &Value) -> Value {
    let mut wanted = manifest.clone();
    retain_metadata(&mut wanted, present);
    match objects::text(present, "/kind") {
        "Deployment" if objects::label(manifest, RETAIN_REPLICAS) == Some("true") => {
            keep(&mut wanted, present, "/spec", "replicas");
        }
        "Pod" => {
            for field in ["nodeName", "serviceAccountName", "volumes"] {
                keep(&mut wanted, present, "/spec", field);
            }
        }
        "Service" => {
            for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
                keep(&mut wanted, present, "/spec", field);
            }
        }
        "ServiceAccount" => keep(&mut wanted, present, "", "secrets"),
        "PersistentVolumeClaim" => keep(&mut wanted, present, "/spec", "volumeName"),
        "PersistentVolume" => keep(&mut wanted, present, "/spec", "claimRef"),
        "Job" => {
            keep(&mut wanted, present, "/spec/selector", "matchLabels");
            keep(&mut wanted, present, "/spec/template/metadata", "labels");
        }
        _ => {}
    }
    wanted
}

/// Tells whether an object in a member already is what would be written over it.
pub fn is_same(wanted: &Value, present: &Value) -> bool {
    let mut comparable = present.clone();
    prune(&mut comparable);
    retain_metadata(&mut comparable, present);
    *wanted == comparable
}

fn retain_metadata(wanted: &mut Value, present: &Value) {
    for field in ["resourceVersion", "finalizers", "ownerReferences"] {
        keep(wanted, present, "/metadata", field);
    }
    for (map, record) in [("annotations", MANAGED_ANNOTATIONS), ("labels", MANAGED_LABELS)] {
        let own = objects::entries(wanted, map);
        let recorded = objects::annotation(present, record).unwrap_or_default();
        // What the template once had and no longer has.
        let removed: BTreeSet<&str> = recorded
            .split(',')
            .filter(|key| !own.contains_key(*key))
            .collect();
        for (key, value) in objects::entries(present, map) {
            if !own.contains_key(&key) && !removed.contains(key.as_str()) {
                wanted["metadata"][map][&key] = json!(value);
            }
        }
    }
}

/// Takes a field as the member has it, also when it has none.
fn keep(wanted: &mut Value, present: &Value, parent: &str, field: &str) {
    let kept = present
        .pointer(parent)
        .and_then(|parent| parent.get(field))
        .cloned();
    let parent = if parent.is_empty() {
        Some(wanted)
    } else {
        wanted.pointer_mut(parent)
    };
    let Some(fields) = parent.and_then(Value::as_object_mut) else {
        return;
    };
    match kept {
        Some(value) => drop(fields.insert(field.to_owned(), value)),
        None => drop(fields.shift_remove(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_member_added_stays_and_what_the_template_dropped_goes() {
        let manifest = json!({
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"app": "new"}, "annotations": {"mine": "1"}},
        });
        let present = json!({
            "kind": "ConfigMap",
            "metadata": {
                "name": "a", "resourceVersion": "7", "finalizers": ["theirs"],
                "labels": {"app": "old", "gone": "x", "theirs": "y"},
                "annotations": {"gone": "x", "theirs": "y", MANAGED_ANNOTATIONS: "gone,mine", MANAGED_LABELS: "app,gone"},
            },
        });
        let wanted = retain(&manifest, &present);
        assert_eq!(wanted["metadata"]["labels"], json!({"app": "new", "theirs": "y"}));
        assert_eq!(wanted["metadata"]["annotations"]["gone"], Value::Null);
        assert_eq!(wanted["metadata"]["annotations"]["theirs"], "y");
        assert_eq!(wanted["metadata"]["resourceVersion"], "7");
        assert_eq!(wanted["metadata"]["finalizers"], json!(["theirs"]));
        assert!(!is_same(&wanted, &present));
        assert!(is_same(&retain(&wanted, &wanted), &wanted));
    }

    #[test]
    fn replicas_stay_with_the_member_only_under_the_label() {
        let present = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 5}});
        let mut manifest = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 1}});
        assert_eq!(retain(&manifest, &present)["spec"]["replicas"], 1);
        objects::set_label(&mut manifest, RETAIN_REPLICAS, "true");
        assert_eq!(retain(&manifest, &present)["spec"]["replicas"], 5);
    }
}
