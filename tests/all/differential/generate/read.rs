//! Reads, watches, and requests to where nothing is.

use serde_json::json;

use super::super::step::{JSON, MERGE, PARTIAL, PARTIAL_LIST, Step, TABLE, YAML};
use super::super::values::{once_in, one};
use super::Sequence;

pub(super) const LABELS: &[&str] = &[
    "app=x",
    "app!=q",
    "app in (x, z)",
    "tier",
    "!gone",
    "app=x,tier=t",
    "app notin (q),tier",
];
const BAD_LABELS: &[&str] = &["app in", "tier in (t", "app>1"];
pub(super) const ACCEPTS: &[&str] = &[
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

impl Sequence {
    /// Asks for an answer in another form, every other time.
    pub(super) fn accepting(&self, mut step: Step) -> Step {
        if once_in(&self.rng, 2) {
            step.accept = Some(one(&self.rng, ACCEPTS));
        }
        step
    }

    pub(super) fn get(&mut self) -> Step {
        let (path, _) = self.path();
        let mut step = self.accepting(Step::get(path));
        if once_in(&self.rng, 20) {
            step.method = "HEAD";
        }
        if once_in(&self.rng, 4) {
            step = step.with(
                "includeObject",
                one(&self.rng, &["None", "Metadata", "Object", "Odd"]),
            );
        }
        step
    }

    pub(super) fn list(&mut self) -> Step {
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
    pub(super) fn watch(&mut self) -> Step {
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
    pub(super) fn odd(&mut self) -> Step {
        let (path, name) = self.path();
        let all = self.kind.path();
        let object = self.object(&name);
        one(
            &self.rng,
            &[
                Step::put(all.clone(), object.clone()),
                Step::post(path.clone(), object.clone()),
                Step::post(format!("{path}/status"), object.clone()),
                Step::new("HEAD", all.clone()),
                Step::new("OPTIONS", all.clone()),
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
