//! Writes: creations, updates, applies, deletions, of objects and of subresources.

use serde_json::{Value, json};

use super::super::step::{APPLY, Body, JSON, JSON_PATCH, MERGE, PARTIAL, Step, TABLE, YAML};
use super::super::values::{self, once_in, one};
use super::read::{ACCEPTS, LABELS};
use super::{Sequence, set};

const MANAGERS: &[&str] = &["one", "two", "three"];

impl Sequence {
    pub(super) fn create(&mut self) -> Step {
        let name = self.name();
        let mut object = self.object(&name);
        // The order of several would be a matter of chance.
        if !self.generated && once_in(&self.rng, 15) && object["metadata"].is_object() {
            self.generated = true;
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.shift_remove("name");
            metadata.insert("generateName".to_owned(), json!("gen-"));
        }
        let path = self.kind.path();
        let step = if once_in(&self.rng, 10) {
            self.as_text(Step::new("POST", path), &object)
        } else {
            Step::post(path, object)
        };
        self.parameters(step)
    }

    pub(super) fn update(&mut self) -> Step {
        let (path, name) = self.path();
        let mut object = self.object(&name);
        let step = match self.rng.usize(..10) {
            0..=5 => {
                let change = self.change(&object);
                Step::put_seen(path, self.key(&name), change)
            }
            6..=8 => {
                let version = self.version();
                if object["metadata"].is_object() && !once_in(&self.rng, 4) {
                    set(&mut object, "resourceVersion", version);
                }
                Step::put(path, object)
            }
            _ => self.as_text(Step::new("PUT", path), &object),
        };
        self.parameters(step)
    }

    pub(super) fn apply(&mut self) -> Step {
        let (path, name) = self.path();
        let mut object = self.plain_object(&name);
        let versioned = once_in(&self.rng, 12);
        if versioned {
            let version = self.version();
            set(&mut object, "resourceVersion", version);
        }
        if once_in(&self.rng, 25) {
            self.misplace(&mut object);
        }
        if once_in(&self.rng, 30) && object["metadata"].is_object() {
            set(
                &mut object,
                "managedFields",
                one(
                    &self.rng,
                    &[json!([]), json!([{"manager": "x", "operation": "Apply"}])],
                ),
            );
        }
        let mut step = match self.rng.usize(..25) {
            0 => Step::new("PATCH", path).text(APPLY, self.twice(&object)),
            1 => Step::new("PATCH", path).text(APPLY, serde_yaml::to_string(&object).unwrap()),
            2 => Step::new("PATCH", path).text(APPLY, one(&self.rng, &["", "{", "[]", "a: {b"])),
            _ => Step::patch(path, APPLY, object),
        };
        if !once_in(&self.rng, 25) {
            let manager = one(&self.rng, MANAGERS);
            step = step.with("fieldManager", manager);
        }
        if versioned {
            return step;
        }
        if once_in(&self.rng, 3) {
            step = step.with("force", one(&self.rng, &["true", "true", "false"]));
        }
        self.parameters(step)
    }

    /// Reads or writes a subresource, whether or not the kind has it.
    pub(super) fn of_subresource(&mut self) -> Step {
        let (path, name) = self.path();
        let kind = self.kind;
        if once_in(&self.rng, 3) {
            return self.scale(format!("{path}/scale"), &name);
        }
        let path = format!("{path}/status");
        let mut object = self.object(&name);
        if kind.status {
            object["status"] = (kind.status_body)(&self.rng);
        }
        let change = if once_in(&self.rng, 3) {
            self.change(&object)
        } else {
            json!({"status": object["status"]})
        };
        let step = match self.rng.usize(..8) {
            0 => return self.accepting(Step::get(path)),
            1 | 2 => Step::patch(path, MERGE, change),
            3 => Step::patch(
                path,
                JSON_PATCH,
                json!([{"op": "add", "path": "/status", "value": object["status"]}]),
            ),
            4 => {
                let manager = one(&self.rng, MANAGERS);
                let thin = json!({
                    "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": name},
                    "status": object["status"],
                });
                let object = if once_in(&self.rng, 3) { object } else { thin };
                Step::apply(path, manager, object)
            }
            _ => Step::put_seen(path, self.key(&name), change),
        };
        self.parameters(step)
    }

    fn scale(&mut self, path: String, name: &str) -> Step {
        let replicas = one(&self.rng, &[0, 2, 3]);
        let version = self.version();
        let step = match self.rng.usize(..6) {
            0 | 1 => return self.accepting(Step::get(path)),
            2 => Step::patch(path, MERGE, json!({"spec": {"replicas": replicas}})),
            3 => Step::patch(
                path,
                JSON_PATCH,
                json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]),
            ),
            _ => {
                let metadata = json!({"name": name, "namespace": "${ns}", "resourceVersion": version});
                Step::put(
                    path,
                    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}),
                )
            }
        };
        self.parameters(step)
    }

    pub(super) fn delete(&mut self) -> Step {
        let (path, name) = self.path();
        let mut step = Step::delete(path);
        let policy = one(&self.rng, &["Foreground", "Background", "Orphan", "Odd"]);
        let key = self.key(&name);
        match self.rng.usize(..10) {
            0..=3 => {}
            4 => step = step.with("propagationPolicy", policy),
            5 => {
                step = step.json(
                    JSON,
                    json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}),
                );
            }
            6 => {
                let uid = one(
                    &self.rng,
                    &[
                        format!("${{uid:{key}}}"),
                        "b8d3a0d2-0000-4000-8000-000000000004".to_owned(),
                    ],
                );
                step = step.json(JSON, json!({"preconditions": {"uid": uid}}));
            }
            7 => {
                let version = self.version();
                step = step.json(JSON, json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": version}}));
            }
            8 => step = step.with("gracePeriodSeconds", one(&self.rng, &["0", "5", "-1", "x"])),
            _ => {
                let bodies = [
                    json!({}),
                    json!({"orphanDependents": true}),
                    json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
                    json!({"kind": "Odd", "apiVersion": "v1"}),
                    json!({"gracePeriodSeconds": 3}),
                    json!({"dryRun": ["Odd"]}),
                    json!({"unknown": 1}),
                    json!([]),
                ];
                step = step.json(JSON, one(&self.rng, &bodies));
            }
        }
        if step.body != Body::None && once_in(&self.rng, 12) {
            let odd = ["text/plain", YAML, "application/json; charset=utf-8", MERGE];
            step.content_type = Some(one(&self.rng, &odd));
        }
        if once_in(&self.rng, 12) {
            step.accept = Some(one(&self.rng, ACCEPTS));
        }
        if step.body == Body::None && once_in(&self.rng, 8) {
            step = step.with("dryRun", "All");
        }
        step
    }

    pub(super) fn delete_collection(&mut self) -> Step {
        let mut step = Step::delete(self.kind.path());
        if !self.kind.namespaced {
            return step.with("labelSelector", "never=there");
        }
        if once_in(&self.rng, 2) {
            step = step.with("labelSelector", one(&self.rng, LABELS));
        }
        if once_in(&self.rng, 5) {
            step = step.with("dryRun", "All");
        }
        step
    }

    /// Adds the parameters of a write.
    pub(super) fn parameters(&mut self, mut step: Step) -> Step {
        if once_in(&self.rng, 7) {
            step = step.with("dryRun", "All");
        } else if once_in(&self.rng, 80) {
            step = step.with("dryRun", "Odd");
        }
        if once_in(&self.rng, 3) {
            let how = one(&self.rng, &["Strict", "Strict", "Warn", "Ignore", "Ignore", ""]);
            step = step.with("fieldValidation", how);
        } else if once_in(&self.rng, 80) {
            step = step.with("fieldValidation", "Odd");
        }
        let named = step.query.iter().any(|(name, _)| name == "fieldManager");
        if !named && once_in(&self.rng, 3) {
            let manager = one(&self.rng, MANAGERS);
            step = step.with("fieldManager", manager);
        }
        if once_in(&self.rng, 20) {
            step.accept = Some(one(&self.rng, &[JSON, YAML, TABLE, PARTIAL, "*/*", "text/html"]));
        }
        step
    }

    /// Sends an object as text, sometimes with a field twice, or not as what it is.
    fn as_text(&mut self, step: Step, object: &Value) -> Step {
        let text = object.to_string();
        match self.rng.usize(..9) {
            0 => step.text(YAML, serde_yaml::to_string(object).unwrap()),
            1 => step.text(YAML, text),
            2 => step.text("text/plain", text),
            3 => step.text(JSON, &text[..text.len() - 1]),
            4 => step.text(JSON, one(&self.rng, &["[]", "7", "\"a\""])),
            5 => step.text("application/json; charset=utf-8", text),
            _ => step.text(JSON, self.twice(object)),
        }
    }

    /// Returns an object as JSON in which one field stands twice.
    pub(super) fn twice(&mut self, object: &Value) -> String {
        let pointers = values::pointers(object);
        let pointer = one(&self.rng, &pointers);
        let Some((parent, name)) = pointer.rsplit_once('/') else {
            return object.to_string();
        };
        let mut marked = object.clone();
        let Some(Value::Object(fields)) = marked.pointer_mut(parent) else {
            return object.to_string();
        };
        let Some(value) = fields.get(name).cloned() else {
            return object.to_string();
        };
        let other = value;
        fields.insert("__TWICE__".to_owned(), other);
        marked.to_string().replace("__TWICE__", name)
    }
}
