//! What differs between two contents of one object, apart from any plan. Secrets are masked when it is made.

use serde_json::Value;

use super::fields::differences;
use super::json::planned_field;
use super::lines::between;
use super::text::lines;
use super::{PlannedField, TextOptions, normalise};
use crate::redact;

/// Two contents of one object, without what the API server writes into it, and without secrets.
#[derive(Clone, Debug)]
pub struct Difference {
    before: Value,
    after: Value,
}

impl Difference {
    pub fn of(before: &Value, after: &Value) -> Self {
        let (before, after) = redact::pair(&normalise(before), &normalise(after));
        Self { before, after }
    }

    /// Returns the form for a terminal, without an end where nothing differs.
    pub fn text(&self, options: &TextOptions) -> String {
        let between = between(&self.before, &self.after, options.style, options.context);
        lines(&between, options)
    }

    /// Returns the form for programs.
    pub fn fields(&self) -> Vec<PlannedField> {
        let fields = differences(&self.before, &self.after).into_iter();
        fields.map(planned_field).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_shown_as_a_plan_shows_it_and_without_secrets() {
        let object = |state: &str, key: &str| {
            json!({
                "metadata": {"name": "a", "generation": 3},
                "spec": {"state": state, "config": {"s3.secret-key": key}},
                "status": {"state": state},
            })
        };
        let difference = Difference::of(&object("running", "hunter22"), &object("stopped", "hunter23"));
        let text = difference.text(&TextOptions::default());
        for line in [
            "  ~ spec.config[\"s3.secret-key\"]: *** (old) → *** (new)\n",
            "  ~ spec.state: running → stopped\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(difference.fields().len(), 2);
        assert_eq!(
            Difference::of(&object("a", "b"), &object("a", "b")).text(&TextOptions::default()),
            ""
        );
    }
}
