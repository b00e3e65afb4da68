//! Sequences of requests from a seed: mostly what clients send, often what they should not.

mod definitions;
mod patch;
mod policies;
mod read;
mod write;

use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};
use super::step::Step;
use super::values::{self, Dice, once_in, one};

const NAMES: &[&str] = &["a", "b"];

/// Returns the sequence of a number and a seed, about one kind or, if its plural is empty, about any but definitions and
/// policies, which take seconds to come into force.
pub fn sequence(seed: u64, number: usize, plural: &str) -> Vec<Step> {
    let rng = Dice::new(
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(number as u64),
    );
    match plural {
        "customresourcedefinitions" => return definitions::sequence(&rng),
        "validatingadmissionpolicies" => return policies::sequence(&rng),
        _ => {}
    }
    let kind = KINDS.iter().find(|kind| kind.plural == plural);
    let kind = kind.unwrap_or_else(|| weighted(&rng));
    let mut sequence = Sequence {
        rng,
        kind,
        generated: false,
    };
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
    /// Whether an object's name was left to the server.
    generated: bool,
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
        if once_in(&self.rng, self.kind.mistakes) {
            values::corrupt(&self.rng, &mut object, self.kind.closed);
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
        let name = self.name();
        let key = self.key(&name);
        let rng = &self.rng;
        match rng.usize(..9) {
            0 => set(object, "namespace", json!("elsewhere")),
            1 => set(object, "namespace", json!("${ns}")),
            2 => set(
                object,
                "name",
                one(rng, &[json!("Bad_Name"), json!("other"), json!("a.b")]),
            ),
            3 => set(object, "resourceVersion", version),
            4 => set(object, "creationTimestamp", json!("2020-01-01T00:00:00Z")),
            5 => {
                let of_another = json!("b8d3a0d2-0000-4000-8000-000000000005");
                set(
                    object,
                    "uid",
                    one(rng, &[json!(format!("${{uid:{key}}}")), of_another]),
                );
            }
            6 => {
                object["kind"] = one(rng, &[json!("Odd"), json!("ConfigMap"), json!(""), Value::Null]);
            }
            7 => {
                let versions = [
                    "v9",
                    "diff.example.dev/v1",
                    "diff.example.dev/v1beta1",
                    "odd.example.dev/v1",
                    "",
                    "a/b/c",
                ];
                object["apiVersion"] = json!(one(rng, &versions));
            }
            _ => {
                let field = one(rng, &["apiVersion", "kind", "metadata"]);
                drop(
                    object
                        .as_object_mut()
                        .and_then(|fields| fields.shift_remove(field)),
                );
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
