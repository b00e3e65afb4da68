//! Patches but for apply, and what they say.

use serde_json::{Value, json};

use super::super::step::{JSON, JSON_PATCH, MERGE, STRATEGIC, Step, YAML};
use super::super::values::{self, once_in, one};
use super::{Sequence, set};

impl Sequence {
    /// Returns a merge patch: some fields of an object, some of them null.
    pub(super) fn change(&mut self, object: &Value) -> Value {
        let mut change = object.clone();
        self.thin(&mut change, 0);
        if let Value::Object(fields) = &mut change {
            fields.shift_remove("apiVersion");
            fields.shift_remove("kind");
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.shift_remove("name");
            }
        }
        if once_in(&self.rng, 4) {
            let version = self.version();
            set(&mut change, "resourceVersion", version);
        }
        if once_in(&self.rng, 8) {
            set(&mut change, "finalizers", Value::Null);
        }
        change
    }

    fn thin(&mut self, value: &mut Value, depth: usize) {
        if let Value::Object(fields) = value {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names {
                match self.rng.usize(..8) {
                    0 => fields[&name] = Value::Null,
                    1..=3 if depth > 0 => drop(fields.shift_remove(&name)),
                    _ => self.thin(&mut fields[&name], depth + 1),
                }
            }
        }
    }

    pub(super) fn merge_patch(&mut self) -> Step {
        let (path, name) = self.path();
        let object = self.plain_object(&name);
        let change = self.change(&object);
        let step = match self.rng.usize(..25) {
            0 => Step::new("PATCH", path).text(MERGE, one(&self.rng, &["{", "7"])),
            1 => Step::patch(path, one(&self.rng, &[JSON, "text/plain", YAML]), change),
            2 => Step::new("PATCH", path).text(MERGE, self.twice(&object)),
            _ => Step::patch(path, MERGE, change),
        };
        self.parameters(step)
    }

    pub(super) fn json_patch(&mut self) -> Step {
        let (path, name) = self.path();
        let object = self.plain_object(&name);
        let pointers = values::pointers(&object);
        let mut operations = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let pointer = one(&self.rng, &pointers);
            let value = object.pointer(&pointer).cloned().unwrap_or_default();
            let from = one(&self.rng, &pointers);
            let is_closed = |place: &String| self.kind.closed.iter().any(|closed| place.starts_with(closed));
            if is_closed(&pointer) || is_closed(&from) {
                let op = one(&self.rng, &["replace", "test"]);
                operations.push(json!({"op": op, "path": pointer, "value": value}));
                continue;
            }
            operations.push(match self.rng.usize(..12) {
                0..=3 => json!({"op": "add", "path": pointer, "value": value}),
                4 | 5 => json!({"op": "replace", "path": pointer, "value": value}),
                6 | 7 => json!({"op": "remove", "path": pointer}),
                8 => json!({"op": "test", "path": pointer, "value": value}),
                9 => json!({"op": "test", "path": "/metadata/name", "value": name}),
                10 => json!({"op": one(&self.rng, &["move", "copy"]), "path": pointer, "from": from}),
                _ => one(
                    &self.rng,
                    &[
                        json!({"op": "odd", "path": pointer, "value": value}),
                        json!({"op": "add", "path": pointer}),
                        json!({"op": "add", "value": 1}),
                        json!({"op": "add", "path": format!("{pointer}/-"), "value": value}),
                        json!({"op": "remove", "path": "/not/there"}),
                        json!({"op": "add", "path": "nowhere", "value": 1}),
                        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}),
                        json!({"op": "replace", "path": "/metadata/name", "value": "c"}),
                        json!({"op": "remove", "path": "/metadata/finalizers"}),
                        json!({"op": "replace", "path": "", "value": {}}),
                        json!(7),
                    ],
                ),
            });
        }
        let step = match self.rng.usize(..25) {
            0 => Step::new("PATCH", path).text(JSON_PATCH, one(&self.rng, &["{}", "[", "[]"])),
            _ => Step::patch(path, JSON_PATCH, json!(operations)),
        };
        self.parameters(step)
    }

    pub(super) fn strategic_patch(&mut self) -> Step {
        let (path, name) = self.path();
        let object = self.object(&name);
        let mut change = self.change(&object);
        if self.kind.plural == "deployments" && once_in(&self.rng, 2) {
            let containers = one(
                &self.rng,
                &[
                    json!([{"name": "d", "image": "new"}]),
                    json!([{"name": "c", "$patch": "delete"}]),
                    json!([{"$patch": "replace"}, {"name": "e", "image": "i"}]),
                    json!([{"name": "c", "env": [{"name": "A", "value": "9"}]}, {"name": "d", "ports": null}]),
                    json!([{"image": "nameless"}]),
                ],
            );
            change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            if once_in(&self.rng, 3) {
                change["spec"]["strategy"] = json!({"$retainKeys": ["type"], "type": "Recreate"});
            }
        }
        let step = Step::patch(path, STRATEGIC, change);
        self.parameters(step)
    }
}
