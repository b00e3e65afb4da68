//! Makes a sequence that shows a difference shorter, for as long as it shows a difference of the same sort.

use serde_json::Value;

use super::run::{Difference, Pair};
use super::step::{Body, Step};

/// How many shorter sequences are tried.
const TRIES: usize = 150;

/// Returns the shortest sequence found, and its difference.
pub async fn shrink(pair: &Pair, steps: &[Step], found: &Difference) -> (Vec<Step>, Difference) {
    let mut shrinking = Shrinking {
        pair,
        sort: found.sort(),
        left: TRIES,
    };
    let (mut best, mut difference) = (steps.to_vec(), found.clone());
    loop {
        let mut smaller = None;
        for candidate in candidates(&best) {
            if shrinking.left == 0 {
                return (best, difference);
            }
            if let Some(found) = shrinking.shows(&candidate).await {
                smaller = Some((candidate, found));
                break;
            }
        }
        match smaller {
            Some((candidate, found)) => (best, difference) = (candidate, found),
            None => return (best, difference),
        }
    }
}

struct Shrinking<'a> {
    pair: &'a Pair,
    sort: String,
    left: usize,
}

impl Shrinking<'_> {
    async fn shows(&mut self, steps: &[Step]) -> Option<Difference> {
        self.left -= 1;
        self.pair
            .compare(steps)
            .await
            .filter(|difference| difference.sort() == self.sort)
    }
}

/// Returns sequences that are a little smaller: first without steps, then with less in a step.
fn candidates(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut candidates = Vec::new();
    for size in [steps.len() / 2, steps.len() / 4, 1] {
        if size > 0 {
            for start in (0..steps.len()).rev().step_by(size) {
                let end = (start + size).min(steps.len());
                // Without waiting, what comes next would be a race.
                let waits = steps[start..end].iter().filter(|step| step.is_settling());
                let waits: Vec<Step> = waits.cloned().collect();
                if waits.len() < end - start {
                    candidates.push([&steps[..start], &waits, &steps[end..]].concat());
                }
            }
        }
    }
    for (index, step) in steps.iter().enumerate().rev() {
        for smaller in smaller_steps(step) {
            let mut steps = steps.to_vec();
            steps[index] = smaller;
            candidates.push(steps);
        }
    }
    candidates
}

fn smaller_steps(step: &Step) -> Vec<Step> {
    let mut steps = Vec::new();
    for index in 0..step.query.len() {
        let mut step = step.clone();
        step.query.remove(index);
        steps.push(step);
    }
    if step.accept.is_some() {
        steps.push(Step {
            accept: None,
            ..step.clone()
        });
    }
    match &step.body {
        Body::Json(body) => {
            steps.extend(smaller_values(body).into_iter().map(|body| Step {
                body: Body::Json(body),
                ..step.clone()
            }));
        }
        Body::Seen { object, change } => {
            let changes = smaller_values(change).into_iter();
            steps.extend(changes.map(|change| Step {
                body: Body::Seen {
                    object: object.clone(),
                    change,
                },
                ..step.clone()
            }));
        }
        Body::None | Body::Text(_) => {}
    }
    steps
}

/// Returns the value without one of its parts, outer parts first.
fn smaller_values(value: &Value) -> Vec<Value> {
    let mut values = Vec::new();
    match value {
        Value::Object(fields) => {
            for name in fields.keys() {
                let mut fields = fields.clone();
                fields.shift_remove(name);
                values.push(Value::Object(fields));
            }
            for (name, value) in fields {
                for smaller in smaller_values(value) {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), smaller);
                    values.push(Value::Object(fields));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let mut without = items.clone();
                without.remove(index);
                values.push(Value::Array(without));
                for smaller in smaller_values(item) {
                    let mut items = items.clone();
                    items[index] = smaller;
                    values.push(Value::Array(items));
                }
            }
        }
        _ => {}
    }
    values
}
