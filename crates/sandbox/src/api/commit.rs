//! From an object that a verb has decided on to the store: identity, generation, and what follows from a write.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::registry::{CRDS, Generation, Kind, NAMESPACES, SERVICES};
use super::{Object, State, metadata, owners};
use crate::store::Key;

impl State {
    /// Writes an object and does what follows from it.
    pub(super) fn commit(
        &mut self,
        kind: &Kind,
        key: &Key,
        old: Option<&Object>,
        mut body: Value,
        now: Timestamp,
    ) -> Object {
        if let Some(version) = kind.storage() {
            body["apiVersion"] = kind.api_version(version).into();
        }
        owners::pack(&mut body);
        self.policies.before(&kind.resource, &self.store, &self.registry);
        let object = self.store.put(&kind.resource, key, body);
        self.policies.after(&kind.resource, key, Some(&object));
        self.owners
            .wrote(&kind.resource, key, old.map(|old| &**old), &object);
        if kind.resource == SERVICES {
            self.services.wrote(old.map(|old| &**old), Some(&object));
        }
        if kind.resource == CRDS {
            self.accept_definition(key, &object, now);
        }
        object
    }

    /// Removes an object whose last state is `last`, and does what follows from it. Returns it with the revision of its
    /// end.
    pub(super) fn erase(&mut self, kind: &Kind, key: &Key, mut last: Value) -> Option<Object> {
        owners::pack(&mut last);
        self.policies.before(&kind.resource, &self.store, &self.registry);
        let removed = self.store.remove(&kind.resource, key, last);
        if let Some(object) = &removed {
            self.policies.after(&kind.resource, key, None);
            self.owners.removed(&kind.resource, key, object);
            if kind.resource == SERVICES {
                self.services.wrote(Some(object), None);
            }
            if kind.resource == CRDS {
                self.withdraw_definition(object);
            }
        }
        removed
    }

    /// Remembers the maps and lists in the metadata of a custom resource that were applied empty. A real server
    /// stores them and never shows them: another write that doesn't have them changes the object.
    pub(super) fn keep_empty(&mut self, kind: &Kind, key: &Key, empty: BTreeSet<String>) {
        if empty.is_empty() && self.empty.is_empty() {
            return;
        }
        let place = (kind.resource.clone(), key.clone());
        if empty.is_empty() {
            self.empty.remove(&place);
        } else {
            self.empty.insert(place, empty);
        }
    }

    /// Returns what was remembered of an object.
    pub(super) fn kept_empty(&self, kind: &Kind, key: &Key) -> BTreeSet<String> {
        if self.empty.is_empty() {
            return BTreeSet::new();
        }
        let kept = self.empty.get(&(kind.resource.clone(), key.clone()));
        kept.cloned().unwrap_or_default()
    }

    /// Completes a generated name.
    pub(super) fn generate_name(&mut self, body: &mut Value) {
        // No vowels, and nothing that looks like something else.
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        const LONGEST_PREFIX: usize = 58;
        let prefix = metadata::text(body, "generateName");
        if !metadata::name(body).is_empty() || prefix.is_empty() {
            return;
        }
        let suffix = (0..5)
            .filter_map(|_| self.random.choice(ALPHABET))
            .copied()
            .map(char::from);
        let name: String = prefix.chars().take(LONGEST_PREFIX).chain(suffix).collect();
        metadata::set(body, "name", Some(name.into()));
    }

    /// Gives a new object what the server alone decides.
    pub(super) fn identify(
        &mut self,
        kind: &Kind,
        namespace: Option<&str>,
        body: &mut Value,
        now: Timestamp,
    ) {
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
        ] {
            metadata::set(body, field, None);
        }
        metadata::set(body, "namespace", namespace.map(Into::into));
        metadata::set(body, "uid", Some(self.uid().into()));
        metadata::set(body, "creationTimestamp", Some(metadata::time(now)));
        let generation = (kind.generation != Generation::None).then(|| json!(1));
        metadata::set(body, "generation", generation);
    }

    pub(super) fn uid(&mut self) -> String {
        let bits = self.random.u128(..);
        // The version and variant of a random UUID.
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

/// Puts back what clients can't change; a difference that a real server refuses is left for validation.
pub(super) fn restore_identity(body: &mut Value, old: &Value) {
    const KEPT: &[&str] = &[
        "name",
        "namespace",
        "creationTimestamp",
        "generation",
        "selfLink",
        "resourceVersion",
    ];
    for field in KEPT {
        metadata::set(body, field, old["metadata"].get(field).cloned());
    }
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if body["metadata"][field].is_null() {
            metadata::set(body, field, old["metadata"].get(field).cloned());
        }
    }
}

/// Raises the generation if the change is of a sort that does, or is known to be one.
pub(super) fn raise_generation(rule: Generation, old: &Value, body: &mut Value, changed: bool) {
    let raised = match rule {
        Generation::None => false,
        _ if changed => true,
        Generation::ContentAndStatus => !same_content(old, body) || old.get("status") != body.get("status"),
        Generation::Content => !same_content(old, body),
        Generation::ContentAndAnnotations => {
            !same_content(old, body) || old["metadata"]["annotations"] != body["metadata"]["annotations"]
        }
    };
    if raised {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        metadata::set(body, "generation", Some(json!(generation + 1)));
    }
}

/// Returns whether nothing holds an object that is being deleted.
pub(super) fn is_released(kind: &Kind, object: &Value) -> bool {
    metadata::finalizers(object).next().is_none() && !is_held_by_spec(kind, object)
}

/// Returns whether an object is a namespace that still has to be emptied.
pub(super) fn is_held_by_spec(kind: &Kind, object: &Value) -> bool {
    kind.resource == NAMESPACES
        && object["spec"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty())
}

/// Returns whether a write changes nothing but the times of managed fields: such a write doesn't happen.
pub(super) fn is_same(old: &Value, new: &Value) -> bool {
    let (before, after) = (&old["metadata"], &new["metadata"]);
    old.get("status") == new.get("status")
        && same_content(old, new)
        && same_but(before, after, &[owners::LIST, owners::TEXT])
        && same_owners(owners::of(old).as_deref(), owners::of(new).as_deref())
}

fn same_content(old: &Value, new: &Value) -> bool {
    same_but(old, new, &["apiVersion", "kind", "metadata", "status"])
}

fn same_owners(old: Option<&Value>, new: Option<&Value>) -> bool {
    fn entries(owners: Option<&Value>) -> &[Value] {
        owners.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let (old, new) = (entries(old), entries(new));
    old.len() == new.len()
        && old
            .iter()
            .zip(new)
            .all(|(old, new)| same_but(old, new, &["time"]))
}

/// Returns whether two maps agree in all fields but some.
fn same_but(old: &Value, new: &Value, but: &[&str]) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    let counts = |field: &&String| !but.contains(&field.as_str());
    old.keys().filter(counts).count() == new.keys().filter(counts).count()
        && old
            .iter()
            .filter(|(field, _)| counts(field))
            .all(|(field, value)| new.get(field) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_managers_alone_are_no_change() {
        let object = |time: &str, manager: &str| json!({"metadata": {"name": "a", "managedFields": [{"manager": manager, "time": time}]}, "data": {}});
        assert!(is_same(&object("1", "a"), &object("2", "a")));
        assert!(!is_same(&object("1", "a"), &object("1", "b")));
        assert!(!is_same(
            &object("1", "a"),
            &json!({"metadata": {"name": "a"}, "data": {}})
        ));
    }

    #[test]
    fn only_deployments_count_annotations_into_their_generation() {
        let object = |annotation: &str, replicas: u8| {
            json!({
                "metadata": {"generation": 1, "labels": {"a": annotation}, "annotations": {"a": annotation}},
                "spec": {"replicas": replicas},
                "status": {"replicas": annotation},
            })
        };
        let old = object("1", 1);
        for (rule, new, generation) in [
            (Generation::None, object("2", 2), 1),
            (Generation::Content, object("2", 1), 1),
            (Generation::Content, object("1", 2), 2),
            (Generation::ContentAndAnnotations, object("2", 1), 2),
            (Generation::ContentAndAnnotations, object("1", 1), 1),
        ] {
            let mut new = new;
            raise_generation(rule, &old, &mut new, false);
            assert_eq!(new["metadata"]["generation"], generation, "{rule:?}");
        }
    }
}
