//! Sequences of requests from a seed: mostly what clients send, often what they should not.

use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};
use super::step::{
    APPLY, Body, JSON, JSON_PATCH, MERGE, PARTIAL, PARTIAL_LIST, STRATEGIC, Step, TABLE, YAML,
};
use super::values::{self, Dice, once_in, one};

const NAMES: &[&str] = &["a", "b"];
const LABELS: &[&str] = &[
    "app=x",
    "app!=q",
    "app in (x, z)",
    "tier",
    "!gone",
    "app=x,tier=t",
    "app notin (q),tier",
];
const BAD_LABELS: &[&str] = &["app in", "tier in (t", "app>1"];
const MANAGERS: &[&str] = &["one", "two", "three"];
const ACCEPTS: &[&str] = &[
    JSON,
    YAML,
    TABLE,
    PARTIAL,
    PARTIAL_LIST,
    "*/*",
    "text/html",
    "application/json;as=Odd;v=v1;g=meta.k8s.io",
    "text/html, application/yaml;q=0.5, */*",
    "application/*",
    "",
];

/// Returns the sequence of a number and a seed.
pub fn sequence(seed: u64, number: usize) -> Vec<Step> {
    let rng = Dice::new(
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(number as u64),
    );
    let kind = weighted(&rng);
    let mut sequence = Sequence { rng, kind };
    sequence.steps()
}

fn weighted(rng: &Dice) -> &'static Kind {
    let sum = KINDS.iter().map(|kind| kind.weight).sum::<usize>();
    let mut place = rng.usize(..sum);
    for kind in KINDS {
        match place.checked_sub(kind.weight) {
            Some(rest) => place = rest,
            None => return kind,
        }
    }
    &KINDS[0]
}

struct Sequence {
    rng: Dice,
    kind: &'static Kind,
}

impl Sequence {
    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let watched = self.kind.namespaced;
        if watched && once_in(&self.rng, 2) {
            steps.push(self.list());
            steps.push(self.watch());
        }
        for _ in 0..self.rng.usize(3..12) {
            let step = self.step();
            steps.push(step);
            if watched && once_in(&self.rng, 25) {
                steps.push(self.watch());
            }
        }
        if self.kind.namespaced {
            steps.push(Step::get(self.kind.path()));
        } else {
            steps.extend(NAMES.iter().map(|name| Step::get(self.path_of(name))));
        }
        steps
    }

    fn step(&mut self) -> Step {
        match self.rng.usize(..100) {
            0..=21 => self.create(),
            22..=31 => self.update(),
            32..=41 => self.merge_patch(),
            42..=50 => self.json_patch(),
            51..=55 => self.strategic_patch(),
            56..=72 => self.apply(),
            73..=79 => self.of_subresource(),
            80..=86 => self.delete(),
            87..=88 => self.delete_collection(),
            89..=91 => self.get(),
            92..=97 => self.list(),
            _ => self.odd(),
        }
    }

    fn name(&mut self) -> String {
        let name = one(&self.rng, NAMES);
        self.named(name)
    }

    /// Objects without a namespace have it in their names.
    fn named(&self, name: &str) -> String {
        if self.kind.namespaced {
            name.to_owned()
        } else {
            format!("${{ns}}-{name}")
        }
    }

    /// Returns the name under which a step refers to an object.
    fn key(&self, name: &str) -> String {
        format!("{}/{}", self.kind.plural, name.replace("${ns}", ""))
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{}", self.kind.path(), self.named(name))
    }

    fn path(&mut self) -> (String, String) {
        let name = self.name();
        (format!("{}/{name}", self.kind.path()), name)
    }

    /// Returns an object, with mistakes now and then.
    fn object(&mut self, name: &str) -> Value {
        let mut object = self.plain_object(name);
        // Of built-in kinds the sandbox knows the defaults, and few of the rules.
        if !self.kind.built_in && once_in(&self.rng, 10) {
            values::corrupt(&self.rng, &mut object);
        }
        if once_in(&self.rng, 20) {
            self.misplace(&mut object);
        }
        object
    }

    /// Returns an object that is what it says.
    fn plain_object(&mut self, name: &str) -> Value {
        let kind = self.kind;
        let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
        let metadata = values::metadata(&self.rng, name);
        object["metadata"] = Value::Object(metadata);
        let body = (kind.body)(&self.rng);
        if let Value::Object(fields) = &mut object {
            fields.extend(body);
        }
        if kind.status && once_in(&self.rng, 12) {
            object["status"] = (kind.status_body)(&self.rng);
        }
        object
    }

    /// Makes an object say something else about itself than the path does.
    fn misplace(&mut self, object: &mut Value) {
        let version = self.version();
        match self.rng.usize(..5) {
            0 => set(object, "namespace", json!("elsewhere")),
            1 => set(object, "namespace", json!("${ns}")),
            2 => set(
                object,
                "name",
                one(&self.rng, &[json!("Bad_Name"), json!("other"), json!("a.b")]),
            ),
            3 => set(object, "resourceVersion", version),
            _ => {
                set(object, "creationTimestamp", json!("2020-01-01T00:00:00Z"));
            }
        }
    }

    /// Returns a resourceVersion: a good one, an old one, or none at all.
    fn version(&mut self) -> Value {
        let name = self.name();
        let key = self.key(&name);
        let versions = [
            format!("${{rv:{key}}}"),
            format!("${{rv1:{key}}}"),
            "1".to_owned(),
            "0".to_owned(),
        ];
        match self.rng.usize(..10) {
            0..=5 => json!(versions[0]),
            6 | 7 => json!(versions[1]),
            _ => json!(versions[self.rng.usize(2..4)]),
        }
    }

    /// Adds the parameters of a write.
    fn parameters(&mut self, mut step: Step) -> Step {
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
    fn twice(&mut self, object: &Value) -> String {
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

    fn create(&mut self) -> Step {
        let name = self.name();
        let mut object = self.object(&name);
        if once_in(&self.rng, 15) && object["metadata"].is_object() {
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

    fn update(&mut self) -> Step {
        let (path, name) = self.path();
        let mut object = self.object(&name);
        let step = match self.rng.usize(..10) {
            0..=5 => {
                let change = self.change(&object);
                let body = Body::Seen {
                    object: self.key(&name),
                    change,
                };
                Step {
                    content_type: Some(JSON),
                    body,
                    ..Step::new("PUT", path)
                }
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

    /// Returns a merge patch: some fields of an object, some of them null.
    fn change(&mut self, object: &Value) -> Value {
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

    fn merge_patch(&mut self) -> Step {
        let (path, name) = self.path();
        let object = self.object(&name);
        let change = self.change(&object);
        let step = match self.rng.usize(..25) {
            0 => Step::new("PATCH", path).text(MERGE, one(&self.rng, &["{", "7"])),
            1 => Step::patch(path, one(&self.rng, &[JSON, "text/plain", YAML]), change),
            2 => Step::new("PATCH", path).text(MERGE, self.twice(&object)),
            _ => Step::patch(path, MERGE, change),
        };
        self.parameters(step)
    }

    fn json_patch(&mut self) -> Step {
        let (path, name) = self.path();
        let object = self.object(&name);
        let pointers = values::pointers(&object);
        let mut operations = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let pointer = one(&self.rng, &pointers);
            let value = object.pointer(&pointer).cloned().unwrap_or_default();
            let from = one(&self.rng, &pointers);
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

    fn strategic_patch(&mut self) -> Step {
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

    fn apply(&mut self) -> Step {
        let (path, name) = self.path();
        let mut object = self.plain_object(&name);
        let versioned = once_in(&self.rng, 12);
        if versioned {
            let version = self.version();
            set(&mut object, "resourceVersion", version);
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
        let step = match self.rng.usize(..25) {
            1 => Step::new("PATCH", path).text(APPLY, serde_yaml::to_string(&object).unwrap()),
            _ => Step::patch(path, APPLY, object),
        };
        let mut step = step;
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
    fn of_subresource(&mut self) -> Step {
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
            0 => return Step::get(path),
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
            _ => {
                let body = Body::Seen {
                    object: self.key(&name),
                    change,
                };
                Step {
                    content_type: Some(JSON),
                    body,
                    ..Step::new("PUT", path)
                }
            }
        };
        self.parameters(step)
    }

    fn scale(&mut self, path: String, name: &str) -> Step {
        let replicas = one(&self.rng, &[0, 2, 3]);
        let version = self.version();
        let step = match self.rng.usize(..6) {
            0 | 1 => return Step::get(path),
            2 => Step::patch(path, MERGE, json!({"spec": {"replicas": replicas}})),
            3 => Step::patch(
                path,
                JSON_PATCH,
                json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]),
            ),
            4 if self.kind.built_in => {
                let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": replicas}});
                Step::apply(path, "one", scale)
            }
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

    fn delete(&mut self) -> Step {
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
        if step.body == Body::None && once_in(&self.rng, 8) {
            step = step.with("dryRun", "All");
        }
        step
    }

    fn delete_collection(&mut self) -> Step {
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

    fn get(&mut self) -> Step {
        let (path, _) = self.path();
        let mut step = Step::get(path);
        if once_in(&self.rng, 2) {
            step.accept = Some(one(&self.rng, ACCEPTS));
        }
        if once_in(&self.rng, 4) {
            step = step.with(
                "includeObject",
                one(&self.rng, &["None", "Metadata", "Object", "Odd"]),
            );
        }
        step
    }

    fn list(&mut self) -> Step {
        let mut step = Step::get(self.kind.path());
        if !self.kind.namespaced {
            let field = format!("metadata.name={}", self.named("a"));
            return step.with("fieldSelector", field);
        }
        if once_in(&self.rng, 3) {
            step = step.with("labelSelector", one(&self.rng, LABELS));
        } else if once_in(&self.rng, 12) {
            step = step.with("labelSelector", one(&self.rng, BAD_LABELS));
        }
        if once_in(&self.rng, 5) {
            let selector = self.field_selector();
            step = step.with("fieldSelector", selector);
        }
        if once_in(&self.rng, 4) {
            step = step.with("limit", one(&self.rng, &["1", "2", "500", "-1"]));
            if once_in(&self.rng, 2) {
                step = step.with("continue", one(&self.rng, &["${continue}", "${continue}", "odd"]));
            }
        }
        if once_in(&self.rng, 8) {
            let version = self.version();
            let version = version.as_str().unwrap_or_default().replace('0', "1");
            // A real server waits for three seconds for what has not happened.
            let version = if once_in(&self.rng, 50) {
                "999999999".to_owned()
            } else {
                version
            };
            step = step.with("resourceVersion", version);
            if once_in(&self.rng, 2) {
                step = step.with(
                    "resourceVersionMatch",
                    one(&self.rng, &["Exact", "NotOlderThan", "Odd"]),
                );
            }
        } else if once_in(&self.rng, 40) {
            step = step.with("resourceVersionMatch", "Exact");
        }
        if once_in(&self.rng, 3) {
            step.accept = Some(one(&self.rng, ACCEPTS));
        }
        if once_in(&self.rng, 10) {
            step = step.with("includeObject", one(&self.rng, &["None", "Metadata", "Object"]));
        }
        step
    }

    fn field_selector(&mut self) -> String {
        let field = one(&self.rng, self.kind.fields);
        let value = one(&self.rng, &["a", "safe", "2", "Opaque", "${ns}", ""]);
        let operator = one(&self.rng, &["=", "==", "!=", "!=", " in "]);
        format!("{field}{operator}{value}")
    }

    /// Returns a watch from the last list, or from what was seen; what ends it matches every selector here.
    fn watch(&mut self) -> Step {
        let mut step = Step::watch(self.kind.path());
        step = match self.rng.usize(..10) {
            0..=5 => step.with("resourceVersion", "${list}"),
            6 => {
                let name = self.name();
                let version = format!("${{rv1:{}}}", self.key(&name));
                step.with("resourceVersion", version)
            }
            7 => step
                .with("sendInitialEvents", "true")
                .with("resourceVersionMatch", "NotOlderThan")
                .with("allowWatchBookmarks", "true"),
            8 => one(
                &self.rng,
                &[
                    step.clone().with("resourceVersion", "x"),
                    step.clone().with("sendInitialEvents", "true"),
                    step.clone().with("resourceVersionMatch", "Exact"),
                    step.clone().with("labelSelector", "app in"),
                    step.clone().with("fieldSelector", "spec.foo=1"),
                    step.with("sendInitialEvents", "true")
                        .with("resourceVersionMatch", "Exact"),
                ],
            ),
            _ => step,
        };
        if once_in(&self.rng, 3) {
            step = step.with("labelSelector", one(&self.rng, LABELS));
        }
        if once_in(&self.rng, 10) {
            step = step.with("fieldSelector", "metadata.name!=b");
        }
        if once_in(&self.rng, 5) {
            step.accept = Some(one(&self.rng, &[TABLE, PARTIAL, JSON]));
        }
        step
    }

    /// Returns a request to where nothing is, or with a verb that isn't.
    fn odd(&mut self) -> Step {
        let (path, name) = self.path();
        let all = self.kind.path();
        let object = self.object(&name);
        one(
            &self.rng,
            &[
                Step::put(all.clone(), object.clone()),
                Step::patch(all.clone(), MERGE, object.clone()),
                Step::get(format!("{path}/odd")),
                Step::delete(format!("{path}/status")),
                Step::get("/apis/diff.example.dev/v1/namespaces/${ns}/odds"),
                Step::get("/apis/diff.example.dev/v9/namespaces/${ns}/gadgets"),
                Step::get("/apis/odd.example.dev/v1/things"),
                Step::get("/api/v1/namespaces/${ns}/odds"),
                Step::get("/api/v2/namespaces"),
                Step::get("/odd"),
                Step::new("PROPFIND", all),
                Step::get("/apis/diff.example.dev/v1/gadgets/a"),
                Step::post("/apis/diff.example.dev/v1/gadgets", object.clone()),
                Step::post(
                    "/api/v1/namespaces/nowhere/configmaps",
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
                ),
                Step::apply(
                    "/apis/diff.example.dev/v1/namespaces/nowhere/gadgets/a",
                    "one",
                    json!({"apiVersion": "diff.example.dev/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": 1}}),
                ),
                Step::get("/api/v1/namespaces/${ns}/configmaps/a/b/c"),
            ],
        )
    }
}

/// Sets a field of the metadata, if that is a map.
fn set(object: &mut Value, field: &str, value: Value) {
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert(field.to_owned(), value);
    }
}
