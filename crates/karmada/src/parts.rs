//! Which parts of its variable an expression looks at, so that only those are given to it: most look at a few fields of a
//! status, and what CEL is given has to be converted whole.

use std::collections::BTreeMap;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, MapExpr, StructExpr};
use serde_json::{Map, Value};

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    Whole,
    Fields(BTreeMap<String, Parts>),
}

impl Default for Parts {
    /// None.
    fn default() -> Self {
        Self::Fields(BTreeMap::new())
    }
}

impl Parts {
    /// Returns what an expression can tell apart: for the rest it may be given anything, or nothing.
    pub fn of(expression: &IdedExpr, variable: &str) -> Self {
        let mut parts = Self::default();
        parts.add_all(expression, variable);
        parts
    }

    /// Returns a copy of these parts alone. What is no object where fields are wanted is copied, for its type is seen.
    pub fn cut(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Fields(fields), Value::Object(object)) => {
                let cut = fields.iter().filter_map(|(name, parts)| {
                    let value = object.get(name)?;
                    Some((name.clone(), parts.cut(value)))
                });
                Value::Object(cut.collect::<Map<_, _>>())
            }
            _ => value.clone(),
        }
    }

    /// Adds what another expression looks at.
    pub fn join(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Whole, _) => {}
            (_, Self::Whole) => *self = Self::Whole,
            (Self::Fields(fields), Self::Fields(others)) => {
                for (name, parts) in others {
                    match fields.get_mut(name) {
                        Some(field) => field.join(parts),
                        None => drop(fields.insert(name.clone(), parts.clone())),
                    }
                }
            }
        }
    }

    fn add_all(&mut self, expression: &IdedExpr, variable: &str) {
        if let Some(path) = selected(expression, variable) {
            return self.add(&path);
        }
        for inner in operands(&expression.expr) {
            self.add_all(inner, variable);
        }
    }

    fn add(&mut self, path: &[&str]) {
        let (Self::Fields(fields), Some((first, rest))) = (&mut *self, path.split_first()) else {
            *self = Self::Whole;
            return;
        };
        let field = fields.entry((*first).to_owned());
        field.or_default().add(rest);
    }
}

/// Returns the fields that lead from the variable to a value, in order; none where it is the variable itself.
fn selected<'e>(expression: &'e IdedExpr, variable: &str) -> Option<Vec<&'e str>> {
    match &expression.expr {
        Expr::Ident(name) => (name == variable).then(Vec::new),
        Expr::Select(select) => {
            let mut path = selected(&select.operand, variable)?;
            path.push(&select.field);
            Some(path)
        }
        _ => None,
    }
}

/// Returns the expressions an expression consists of. A variable of a macro's own is not told from one outside of the same
/// name: more is copied then than is needed.
pub fn operands(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Literal(_) | Expr::Unspecified | Expr::Ident(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Comprehension(all) => vec![
            &all.iter_range,
            &all.accu_init,
            &all.loop_cond,
            &all.loop_step,
            &all.result,
        ],
        Expr::Map(MapExpr { entries }) | Expr::Struct(StructExpr { entries, .. }) => entries
            .iter()
            .flat_map(|entry| entry_operands(&entry.expr))
            .collect(),
    }
}

fn entry_operands(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

#[cfg(test)]
mod tests {
    use cel::Program;
    use serde_json::json;

    use super::*;

    fn parts(source: &str) -> Parts {
        Parts::of(Program::compile(source).unwrap().expression(), "object")
    }

    #[test]
    fn what_several_look_at_is_what_any_of_them_looks_at() {
        let joined = |sources: &[&str]| {
            let mut all = Parts::default();
            for source in sources {
                all.join(&parts(source));
            }
            all
        };
        let (one, other) = ("object.a.b == 1", "object.a.c == object.d");
        assert_eq!(
            joined(&[one, other]),
            parts("object.a.b == 1 && object.a.c == object.d")
        );
        assert_eq!(joined(&["object.a == 1", one]), parts("object.a == 1"));
        assert_eq!(joined(&[one, "size(object) > 0", other]), Parts::Whole);
    }

    #[test]
    fn only_what_is_looked_at_is_copied() {
        let object = json!({
            "metadata": {"generation": 3, "managedFields": [{"manager": "somebody"}]},
            "spec": {"job": {"state": "running"}, "image": "app:1"},
            "status": {"jobStatus": {"state": "RUNNING", "jobId": "1"}, "error": null},
        });
        let cut = |source: &str| parts(source).cut(&object);
        assert_eq!(
            cut(
                "has(object.status.jobStatus) && object.status.jobStatus.state == 'RUNNING' && object.metadata.generation > 2"
            ),
            json!({
                "metadata": {"generation": 3},
                "status": {"jobStatus": object["status"]["jobStatus"]},
            })
        );
        assert_eq!(
            cut("object.status.jobStatus.state == object.spec['image'] || object.spec.job.state == ''"),
            json!({"spec": object["spec"], "status": {"jobStatus": {"state": "RUNNING"}}})
        );
        assert_eq!(
            cut("object.status.error.x == 1"),
            json!({"status": {"error": null}})
        );
        assert_eq!(cut("object.status.missing.x == 1"), json!({"status": {}}));
        assert_eq!(cut("1 == 1"), json!({}));
        for whole in [
            "size(object) > 0",
            "object['status'] == 1",
            "[object].all(it, it.a == 1)",
        ] {
            assert_eq!(cut(whole), object, "{whole}");
        }
        assert_eq!(
            cut("object.spec.list.exists(it, it == object.metadata.generation)"),
            json!({"metadata": {"generation": 3}, "spec": {}})
        );
    }
}
