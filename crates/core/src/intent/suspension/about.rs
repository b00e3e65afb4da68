//! Whom else a suspension is about, before anything is written: told by what Git has alone.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::{PolicyTarget, SuspensionSpec};
use cutover_karmada::name::{Gvk, ObjectKey};
use cutover_karmada::{PropagationPolicy, ResourceSelector};

/// Returns which objects a suspension is about: what its policy selects, or its workload alone.
///
/// `objects` are those of all kinds that Git has, each in its namespace. O(objects × policies that count).
pub fn about(spec: &SuspensionSpec, namespace: &str, objects: &[Value]) -> Vec<ObjectKey> {
    let text = |object: &Value, pointer: &str| -> String {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let selects = |policy: &PropagationPolicy, object: &Value| {
        let there = policy.metadata.namespace.as_deref();
        there.is_none_or(|there| there == text(object, "/metadata/namespace"))
            && ResourceSelector::closest(&policy.spec.resource_selectors, object).is_some()
    };
    let key = |object: &Value| {
        let namespace = text(object, "/metadata/namespace");
        ObjectKey {
            group: Gvk::new(&text(object, "/apiVersion"), "").group,
            kind: text(object, "/kind"),
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            name: text(object, "/metadata/name"),
        }
    };
    if let Some(target) = &spec.target.workload {
        let is_it = |object: &&Value| {
            text(object, "/apiVersion") == target.api_version
                && text(object, "/kind") == target.kind
                && text(object, "/metadata/name") == target.name
                && [namespace, ""].contains(&text(object, "/metadata/namespace").as_str())
        };
        return objects.iter().find(is_it).map(key).into_iter().collect();
    }
    let is_meant = |policy: &PropagationPolicy, kind: &str| {
        let there = policy.metadata.namespace.as_deref();
        let named = |target: &PolicyTarget| {
            target.kind.name() == kind && policy.metadata.name.as_deref() == Some(&target.name)
        };
        there.is_none_or(|there| there == namespace) && spec.target.policy.as_ref().is_some_and(named)
    };
    let policies = objects.iter().filter_map(|object| {
        let kind = text(object, "/kind");
        if !kind.ends_with("PropagationPolicy") {
            return None;
        }
        let policy: PropagationPolicy = serde_json::from_value(object.clone()).ok()?;
        is_meant(&policy, &kind).then_some(policy)
    });
    let mut found = BTreeSet::new();
    for policy in policies {
        for object in objects.iter().filter(|object| selects(&policy, object)) {
            found.insert(key(object));
        }
    }
    found.into_iter().collect()
}
