//! What a copy in a member is without, and what somebody has changed in it meanwhile: two questions of one comparison,
//! told apart by who owns the field there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Copy, MOST};
use crate::api::HeldCopy;
use crate::intent::effect::segment;
use crate::intent::owners;
use cutover_karmada::meta;

/// How Karmada's released programs call themselves in a member.
const KARMADA: &str = "karmada";

/// Compares the manifest in the Work with the object in the member. Fields that only the member has are its own.
pub fn held(copy: &Copy) -> Option<HeldCopy> {
    let mut held = HeldCopy {
        workload: copy.workload.to_string(),
        cluster: copy.cluster.clone(),
        pending: Vec::new(),
        drift: BTreeMap::new(),
        unknown: None,
    };
    let object = match copy.object.get() {
        Ok(Some(object)) => object,
        Ok(None) => {
            held.pending
                .push("the whole object, which is not there".to_owned());
            return Some(held);
        }
        Err(why) => {
            held.unknown = Some(why.0);
            return Some(held);
        }
    };
    // A client without a field manager is named after its program's file, and a build of one's own may have any name. It is
    // known by a label that Karmada alone writes.
    let label = format!("/metadata/labels/{}", segment(meta::MANAGED));
    let writers = owners::managers(object, &label);
    let is_karmadas = |manager: &String| manager.starts_with(KARMADA) || writers.contains(manager);
    for field in differences(&copy.manifest, object) {
        let managers = owners::managers(object, &field);
        match managers.iter().find(|manager| !is_karmadas(manager)) {
            Some(manager) => drop(held.drift.insert(field, manager.clone())),
            None => held.pending.push(field),
        }
    }
    if held.pending.len() > MOST {
        let more = held.pending.len() - MOST;
        held.pending.truncate(MOST);
        held.pending.push(format!("and {more} more"));
    }
    (!held.pending.is_empty() || !held.drift.is_empty()).then_some(held)
}

/// Returns the fields of `wanted` that are not so in `there`, as JSON pointers; a list counts as one field. O(wanted).
pub fn differences(wanted: &Value, there: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(fields) = wanted.as_object() else {
        return found;
    };
    for (name, value) in fields {
        match name.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => {
                for map in ["labels", "annotations"] {
                    let entries = value.get(map).and_then(Value::as_object);
                    for (key, value) in entries.into_iter().flatten().filter(|(key, _)| !is_karmadas(key)) {
                        let path = format!("/metadata/{map}/{}", segment(key));
                        compare(value, there.pointer(&path), path, &mut found);
                    }
                }
            }
            _ => compare(value, there.get(name), format!("/{}", segment(name)), &mut found),
        }
    }
    found.sort();
    found
}

fn compare(wanted: &Value, there: Option<&Value>, path: String, found: &mut Vec<String>) {
    match (wanted, there) {
        (Value::Object(fields), Some(below @ Value::Object(_))) => {
            for (name, value) in fields {
                compare(value, below.get(name), format!("{path}/{}", segment(name)), found);
            }
        }
        (wanted, there) if there == Some(wanted) => {}
        // What is as good as not there.
        (Value::Null, None) => {}
        (Value::Array(items), None) if items.is_empty() => {}
        (Value::Object(fields), None) if fields.is_empty() => {}
        (Value::Array(wanted), Some(Value::Array(there))) if covers(wanted, there) => {}
        _ => found.push(path),
    }
}

/// Lists are equal when each item is, but for what the member has filled in.
fn covers(wanted: &[Value], there: &[Value]) -> bool {
    wanted.len() == there.len()
        && wanted.iter().zip(there).all(|(wanted, there)| {
            let mut found = Vec::new();
            compare(wanted, Some(there), String::new(), &mut found);
            found.is_empty()
        })
}

fn is_karmadas(key: &str) -> bool {
    key.split('/')
        .next()
        .is_some_and(|domain| domain.ends_with("karmada.io"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::intent::seen::{Read, Seen};
    use cutover_karmada::name::ObjectKey;

    fn copy(manifest: Value, object: Value) -> Copy {
        Copy {
            workload: ObjectKey {
                group: "apps".into(),
                kind: "Deployment".into(),
                namespace: Some("shop".into()),
                name: "web".into(),
            },
            cluster: "green".into(),
            manifest,
            object: Seen::known(Some(object), Read { sent: 1, answered: 2 }),
        }
    }

    #[test]
    fn what_the_template_changed_is_pending_and_what_a_person_changed_in_the_member_is_drift() {
        let manifest = json!({
            "metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "2", "team": "a"}},
            "spec": {"image": "web:2", "replicas": 2, "ports": [{"port": 80}]},
        });
        let object = json!({
            "metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "1", "team": "a"}, "managedFields": [
                {"manager": "karmada-controller-manager", "fieldsV1": {"f:spec": {"f:image": {}}}},
                {"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]},
            "spec": {"image": "web:1", "replicas": 5, "ports": [{"port": 80, "protocol": "TCP"}], "paused": false},
        });
        let held = held(&copy(manifest, object)).unwrap();
        assert_eq!(held.pending, ["/spec/image"]);
        assert_eq!(
            held.drift,
            BTreeMap::from([("/spec/replicas".to_owned(), "kubectl-edit".to_owned())])
        );
    }

    #[test]
    fn karmada_is_known_by_its_label_whatever_its_program_is_called() {
        let manifest = json!({"spec": {"image": "web:2", "replicas": 2}});
        let object = json!({
            "metadata": {"managedFields": [
                {"manager": "controller-manager", "fieldsV1": {
                    "f:metadata": {"f:labels": {".": {}, "f:karmada.io/managed": {}}}, "f:spec": {"f:image": {}},
                }},
                {"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]},
            "spec": {"image": "web:1", "replicas": 5},
        });
        let held = held(&copy(manifest, object)).unwrap();
        assert_eq!(held.pending, ["/spec/image"]);
        assert_eq!(held.drift.len(), 1);
    }

    #[test]
    fn a_copy_that_has_everything_is_not_told_of() {
        let manifest = json!({"spec": {"image": "web:1", "args": [], "more": {}}});
        assert_eq!(held(&copy(manifest, json!({"spec": {"image": "web:1"}}))), None);
    }
}
