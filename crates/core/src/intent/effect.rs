//! What a machine wants written. Each effect is safe to repeat and carries the precondition under which it may be sent.

use std::fmt;

use serde_json::{Value, json};

use super::pin::{PinWrite, named_writer};
use super::record::{Kept, Record};
use crate::api::{ClaimSpec, PatchOp};
use cutover_karmada::{OverridePolicy, ResourceBinding};

/// Names an object, and which one: another one under the same name is not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exactly {
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
    /// When given, the object must not have changed since it was read.
    pub resource_version: Option<String>,
}

impl Exactly {
    /// Returns the precondition for deleting an override policy as it was read.
    pub fn policy(live: &OverridePolicy) -> Self {
        Self {
            namespace: live.metadata.namespace.clone(),
            name: live.metadata.name.clone().unwrap_or_default(),
            uid: live.metadata.uid.clone().unwrap_or_default(),
            resource_version: live.metadata.resource_version.clone(),
        }
    }
}

/// One write, with its precondition.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Keeps the intent until it is settled.
    AddFinalizer,
    /// Lets a settled intent go.
    RemoveFinalizer,
    /// Created, never applied: the API server refuses a second one.
    CreateClaim {
        name: String,
        spec: ClaimSpec,
    },
    ReplaceClaim {
        claim: Exactly,
        spec: ClaimSpec,
    },
    DeleteClaim {
        claim: Exactly,
    },
    /// Created or replaced at the resource version that was read: see [`PinWrite`].
    WritePin(Box<PinWrite>),
    DeletePin {
        pin: Exactly,
    },
    /// A JSON patch whose `test` operations are its precondition; `rehearse`: as a dry-run first.
    PatchBinding {
        why: &'static str,
        binding: Exactly,
        patch: Vec<Value>,
        rehearse: bool,
    },
    /// The same on the status of a binding.
    PatchBindingStatus {
        why: &'static str,
        binding: Exactly,
        patch: Vec<Value>,
    },
    /// A JSON patch of a `PropagationPolicy`, or of a `ClusterPropagationPolicy` when it has no namespace.
    PatchPolicy {
        why: &'static str,
        policy: Exactly,
        patch: Vec<Value>,
    },
    /// A JSON patch of a `Cluster`: its taints.
    PatchCluster {
        why: &'static str,
        cluster: Exactly,
        patch: Vec<Value>,
    },
    /// An intent, or an object of Karmada's that asks for something, which is this intent's: created under a name that only
    /// this move has, never applied. One of that name that is somebody else's is an error.
    CreateIntent {
        manifest: Box<Value>,
    },
    /// A JSON patch of an intent that this one has created.
    PatchIntent {
        why: &'static str,
        kind: &'static str,
        intent: Exactly,
        patch: Vec<Value>,
    },
    /// A brand-new ConfigMap with a policy of its own, which is never dispatched to a member.
    CreateCanary {
        name: String,
        scheduler: String,
        cluster: String,
    },
    DeleteCanary {
        name: String,
    },
    /// A template change that was held back, applied as sync would: sent late, it must not undo a later one.
    ApplyTemplate {
        template: Exactly,
        manifest: Box<Value>,
    },
    /// A change that the intent itself asks for, of a template that is not in Git.
    PatchTemplate {
        template: Exactly,
        patch: Vec<Value>,
    },
    DeleteIntent {
        kind: &'static str,
        intent: Exactly,
    },
    /// Pushed to the status branch; the pass waits for it.
    PushRecord(Box<Record>),
    /// The same, of a standing intent.
    Keep(Box<Kept>),
}

impl Effect {
    /// Returns whether what shows that it was sent comes later than the answer, by a controller's doing: until then it looks
    /// as if it were still to be sent.
    pub fn shows_late(&self) -> bool {
        matches!(self, Self::CreateCanary { .. } | Self::DeleteCanary { .. })
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer => f.write_str("add the finalizer"),
            Self::RemoveFinalizer => f.write_str("remove the finalizer"),
            Self::CreateClaim { spec, .. } => write!(f, "claim {}", spec.workload),
            Self::ReplaceClaim { spec, .. } => {
                let writer = if spec.shared {
                    "shared".to_owned()
                } else {
                    format!("writer {}", named_writer(spec.writer.as_ref()))
                };
                write!(f, "claim: sequence {}, {writer}", spec.seq)
            }
            Self::DeleteClaim { .. } => f.write_str("give up the claim"),
            Self::WritePin(pin) => write!(f, "{pin}"),
            Self::DeletePin { .. } => f.write_str("remove the pin"),
            Self::PatchBinding { why, .. } | Self::PatchBindingStatus { why, .. } => {
                write!(f, "binding: {why}")
            }
            Self::PatchPolicy { why, .. } => write!(f, "policy: {why}"),
            Self::PatchCluster { why, cluster, .. } => write!(f, "cluster {}: {why}", cluster.name),
            Self::CreateIntent { manifest } => {
                let text = |pointer: &str| {
                    manifest
                        .pointer(pointer)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                };
                write!(f, "create {} {}", text("/kind"), text("/metadata/name"))
            }
            Self::PatchIntent { why, intent, .. } => write!(f, "{}: {why}", intent.name),
            Self::CreateCanary { name, .. } => write!(f, "create canary {name}"),
            Self::DeleteCanary { name } => write!(f, "delete canary {name}"),
            Self::ApplyTemplate { .. } => f.write_str("apply the held-back template"),
            Self::PatchTemplate { .. } => f.write_str("patch the template"),
            Self::DeleteIntent { kind, intent } => write!(f, "delete {kind} {}", intent.name),
            Self::PushRecord(record) => write!(f, "push the record: {}", record.status.phase),
            Self::Keep(kept) => write!(f, "push the record: {}", kept.news),
        }
    }
}

/// A `test` operation of a JSON patch.
pub(super) fn test(path: &str, value: Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// An `add` operation of a JSON patch; it also replaces what is there.
pub(super) fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

pub(super) fn remove(path: &str) -> Value {
    json!({"op": "remove", "path": path})
}

/// Returns the path of an entry of `metadata.annotations` or `metadata.labels`.
pub(super) fn entry_path(map: &str, key: &str) -> String {
    format!("/metadata/{map}/{}", segment(key))
}

/// Sets such an entry of an object as it was read, which may have none yet.
pub(super) fn set_entry(object: &Value, map: &str, key: &str, value: &str) -> Value {
    if object["metadata"][map].is_object() {
        add(&entry_path(map, key), json!(value))
    } else {
        add(&format!("/metadata/{map}"), json!({ key: value }))
    }
}

/// A patch of the binding as it was read.
pub(super) fn exact(binding: &ResourceBinding, operations: Vec<Value>) -> Vec<Value> {
    let mut patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
    ];
    patch.extend(operations);
    patch
}

/// Returns which binding it is, whatever of it changes.
pub(super) fn exactly(binding: &ResourceBinding) -> Exactly {
    Exactly {
        namespace: binding.metadata.namespace.clone(),
        name: binding.metadata.name.clone().unwrap_or_default(),
        uid: binding.metadata.uid.clone().unwrap_or_default(),
        resource_version: None,
    }
}

/// A patch of a binding, which is sent without a rehearsal.
pub(super) fn patch_binding(why: &'static str, binding: &ResourceBinding, patch: Vec<Value>) -> Effect {
    Effect::PatchBinding {
        why,
        binding: exactly(binding),
        patch,
        rehearse: false,
    }
}

/// Returns a name as one segment of a JSON pointer.
pub(super) fn segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the operations that turn `from` into `to` and hold on either: only `add`, and only on parents that are in both.
///
/// What an object lost can't be said by `add`, so the object itself is added anew. O(size of both).
pub fn overlay(from: &Value, to: &Value) -> Vec<PatchOp> {
    overlay_from_any(&[from], to)
}

/// Returns the operations that turn any of several objects into `to`: every parent is in all of them. O(size of all).
pub fn overlay_from_any(from: &[&Value], to: &Value) -> Vec<PatchOp> {
    let mut patches = Vec::new();
    walk(from, to, String::new(), &mut patches);
    patches
}

fn walk(from: &[&Value], to: &Value, path: String, patches: &mut Vec<PatchOp>) {
    if from.iter().all(|from| *from == to) {
        return;
    }
    let objects: Option<Vec<_>> = from.iter().map(|from| from.as_object()).collect();
    match (objects, to) {
        (Some(old), Value::Object(new))
            if old
                .iter()
                .all(|old| old.keys().all(|name| new.contains_key(name))) =>
        {
            for (name, value) in new {
                let path = format!("{path}/{}", segment(name));
                let before: Option<Vec<&Value>> = old.iter().map(|old| old.get(name)).collect();
                match before {
                    Some(before) => walk(&before, value, path, patches),
                    None => patches.push(PatchOp::add(path, value.clone())),
                }
            }
        }
        _ => patches.push(PatchOp::add(path, to.clone())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(value: &Value, patches: &[PatchOp]) -> Value {
        let patch: json_patch::Patch =
            serde_json::from_value(serde_json::to_value(patches).unwrap()).unwrap();
        let mut value = value.clone();
        json_patch::patch(&mut value, &patch).unwrap();
        value
    }

    #[test]
    fn a_field_that_goes_away_is_said_by_its_parent() {
        let patches = overlay(&json!({"spec": {"a": 1, "b": 2}}), &json!({"spec": {"a": 3}}));
        assert_eq!(patches, [PatchOp::add("/spec", json!({"a": 3}))]);
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            (0..3i32).prop_map(|n| json!(n)),
            "[a/~]{0,2}".prop_map(|s| json!(s))
        ];
        let any = leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                prop::collection::btree_map("[ab/~]{1,2}", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        });
        any.prop_map(|spec| json!({"spec": spec}))
    }

    proptest! {
        #[test]
        fn an_overlay_gives_the_new_object_from_the_old_one_and_from_itself(from in object(), to in object()) {
            let patches = overlay(&from, &to);
            prop_assert_eq!(apply(&from, &patches), to.clone());
            prop_assert_eq!(apply(&to, &patches), to);
        }
    }
}
