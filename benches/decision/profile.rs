//! The costliest expression of each built-in profile, and all of its conditions together.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use cutover::api::WorkloadProfileSpec;
use cutover::profile::{self, Profile, Says};
use serde::Deserialize;
use serde_json::Value;

use super::{at, micros, times};

/// How often each expression is tried on each object, to find the costliest.
const SOUNDINGS: usize = 50;
/// How often what is shown is measured.
const ROUNDS: usize = 2_000;

/// An object in a phase of its life; what is expected of it is the tests' affair.
#[derive(Deserialize)]
struct Fixture {
    phase: String,
    object: Value,
}

/// An expression that is evaluated alone, on the object for which it takes longest.
struct Costliest<'a> {
    took: Duration,
    field: String,
    profile: Profile,
    fixture: &'a Fixture,
}

pub fn row() {
    println!(
        "\n| profile | costliest expression | on an object | p50 | p99 | all conditions p50 | object read p50 | copied p50 |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for built_in in profile::built_in().unwrap() {
        let name = built_in.metadata.name.as_deref().unwrap();
        let fixtures = fixtures(name);
        let costliest = costliest(name, &built_in.spec, &fixtures);
        let object = &costliest.fixture.object;
        let expression = times(ROUNDS, || costliest.profile.observed(black_box(object)).unwrap());
        let whole = Profile::compile(name, &built_in.spec).unwrap();
        let conditions = times(ROUNDS, || conditions(&whole, black_box(object)));
        let text = object.to_string();
        let read = times(ROUNDS, || {
            serde_json::from_str::<Value>(black_box(&text)).unwrap()
        });
        let copied = times(ROUNDS, || black_box(object).clone());
        println!(
            "| {name} | `{}` | {} | {} | {} | {} | {} | {} |",
            costliest.field,
            costliest.fixture.phase,
            micros(at(&expression, 50)),
            micros(at(&expression, 99)),
            micros(at(&conditions, 50)),
            micros(at(&read, 50)),
            micros(at(&copied, 50)),
        );
    }
}

fn fixtures(profile: &str) -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/profiles");
    let text = std::fs::read_to_string(root.join(format!("{profile}.yaml"))).unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    documents
        .map(|document| Fixture::deserialize(document).unwrap())
        .collect()
}

/// Tries every expression on every object on which it has a value.
fn costliest<'a>(name: &str, spec: &WorkloadProfileSpec, fixtures: &'a [Fixture]) -> Costliest<'a> {
    let mut found: Option<Costliest<'a>> = None;
    for fixture in fixtures {
        for one in profile::evaluate(spec, &fixture.object) {
            // Paths and selectors say something else.
            if !matches!(one.says, Says::Yes | Says::No | Says::Met | Says::NotMet(_)) {
                continue;
            }
            let profile = alone(name, spec, &one.source);
            let took = times(SOUNDINGS, || profile.observed(black_box(&fixture.object)));
            let took = at(&took, 50);
            if found.as_ref().is_none_or(|found| took > found.took) {
                found = Some(Costliest {
                    took,
                    field: one.field,
                    profile,
                    fixture,
                });
            }
        }
    }
    found.unwrap()
}

/// Returns the profile with an expression in the place of one that can be evaluated by itself.
fn alone(name: &str, spec: &WorkloadProfileSpec, expression: &str) -> Profile {
    let spec = WorkloadProfileSpec {
        observed_when: expression.to_owned(),
        ..spec.clone()
    };
    Profile::compile(name, &spec).unwrap()
}

/// What is asked of a copy in a pass.
fn conditions(profile: &Profile, object: &Value) -> [bool; 6] {
    [
        profile.observed(object).unwrap(),
        profile.suspended(object).unwrap(),
        profile.healthy(object).unwrap(),
        profile.failed(object).unwrap(),
        profile.finished(object).unwrap(),
        profile.ran(object).unwrap(),
    ]
}
