//! One state of an object: a tree while somebody works with it, text once it is at rest. Text takes a fifth of the memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Object, tree};

#[derive(Debug)]
pub(super) struct State {
    form: Mutex<Form>,
    /// What the tree weighs.
    weight: usize,
    /// Whether the object has another state by now.
    past: AtomicBool,
}

#[derive(Debug)]
enum Form {
    Tree(Object),
    Text(Box<str>),
}

impl State {
    pub(super) fn new(object: Object) -> Arc<Self> {
        Arc::new(Self {
            weight: tree::weight(&object),
            form: Mutex::new(Form::Tree(object)),
            past: AtomicBool::new(false),
        })
    }

    /// Returns the object; of a state at rest it is a copy, and the state rests on.
    pub(super) fn object(&self) -> Object {
        match &*self.form.lock().unwrap_or_else(PoisonError::into_inner) {
            Form::Tree(object) => Arc::clone(object),
            // It was written by `rest`, and is read as it was.
            Form::Text(text) => Arc::new(serde_json::from_str(text).unwrap_or_default()),
        }
    }

    /// Notes that the object has another state now; returns what the tree of this one weighs.
    pub(super) fn pass(&self) -> usize {
        self.past.store(true, Ordering::Relaxed);
        self.weight
    }

    /// Makes text of the state. The present one stays a tree where caches have the same tree: its text would come on top.
    pub(super) fn rest(&self) {
        let mut form = self.form.lock().unwrap_or_else(PoisonError::into_inner);
        if let Form::Tree(object) = &*form
            && (self.past.load(Ordering::Relaxed) || Arc::strong_count(object) == 1)
            && is_exact(object)
        {
            *form = Form::Text(object.to_string().into());
        }
    }
}

/// Returns whether a value is read from its text as it was: numbers with a fraction may differ in their last digit.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(fields) => fields.values().all(is_exact),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn is_text(state: &State) -> bool {
        matches!(&*state.form.lock().unwrap(), Form::Text(_))
    }

    #[test]
    fn a_state_is_the_same_at_rest() {
        let object = json!({"z": 1, "a": [u64::MAX, i64::MIN, null, "\u{0}\"ü"], "m": {"b": {}, "a": []}});
        let state = State::new(Arc::new(object.clone()));
        state.rest();
        assert!(is_text(&state));
        assert_eq!(state.object().to_string(), object.to_string());
        assert!(is_text(&state));
    }

    #[test]
    fn what_text_might_change_stays_a_tree() {
        let state = State::new(Arc::new(json!({"a": [{"b": 0.1}]})));
        state.rest();
        assert!(!is_text(&state));
    }

    #[test]
    fn the_present_state_stays_a_tree_while_a_cache_has_it() {
        let state = State::new(Arc::new(json!({})));
        let cached = state.object();
        state.rest();
        assert!(!is_text(&state));
        state.pass();
        state.rest();
        assert!(is_text(&state));
        assert_eq!(*cached, json!({}));
    }
}
