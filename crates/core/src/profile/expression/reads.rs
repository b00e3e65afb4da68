//! What an expression reads of its variable, and what stands there in an object: to show people why it says what it says.
//! Nothing is decided by it.

use std::fmt::Write as _;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

use cutover_karmada::parts::operands;

use crate::redact::{MASK, kept};

/// A step from a value to one in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Field(String),
    Item(usize),
    /// The document that a text contains.
    Json,
}

/// What was found at the end of a path, with its secrets masked.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Value(Value),
    /// The path ends before: there is nothing at this place.
    Absent,
    /// The text here is no JSON.
    NotJson,
}

/// A place in an object that an expression reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// As people write it: `status.conditions[0].type`, `json(status.lastSpec).job.state`.
    pub path: String,
    pub found: Found,
}

/// Returns the paths that an expression reads, each once, in the order in which they are written.
pub(super) fn reads(root: &IdedExpr, variable: &str) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    collect(root, variable, &mut all);
    all
}

/// Returns what stands at these paths. What only leads to another one of them is left out.
pub(super) fn seen(paths: &[Vec<Step>], object: &Value) -> Vec<Seen> {
    let shown = kept(object);
    let mut all: Vec<(&[Step], Found)> = Vec::new();
    for path in paths {
        let (length, found) = walk(path, object, &shown);
        let path = &path[..length];
        if !all.iter().any(|(known, _)| *known == path) {
            all.push((path, found));
        }
    }
    let leads_on = |path: &[Step]| {
        let mut others = all.iter();
        others.any(|(other, _)| other.len() > path.len() && other.starts_with(path))
    };
    let ends = all.iter().filter(|(path, _)| !leads_on(path));
    ends.map(|(path, found)| Seen {
        path: written(path),
        found: found.clone(),
    })
    .collect()
}

fn collect(node: &IdedExpr, variable: &str, all: &mut Vec<Vec<Step>>) {
    match path(node, variable) {
        Some(path) if path.is_empty() => {}
        Some(path) if all.contains(&path) => {}
        Some(path) => all.push(path),
        None => {
            for inner in operands(&node.expr) {
                collect(inner, variable, all);
            }
        }
    }
}

/// Returns the steps from the variable to a value, where an expression is nothing else.
fn path(node: &IdedExpr, variable: &str) -> Option<Vec<Step>> {
    let (inner, step) = match &node.expr {
        Expr::Ident(name) => return (name == variable).then(Vec::new),
        Expr::Select(select) => (&*select.operand, Step::Field(select.field.clone())),
        Expr::Call(call) => called(call)?,
        _ => return None,
    };
    let mut path = path(inner, variable)?;
    path.push(step);
    Some(path)
}

fn called(call: &CallExpr) -> Option<(&IdedExpr, Step)> {
    match (
        call.func_name.as_str(),
        call.target.as_deref(),
        call.args.as_slice(),
    ) {
        ("json", None, [text]) | ("json", Some(text), []) => Some((text, Step::Json)),
        (operators::INDEX, None, [of, index]) => match &index.expr {
            Expr::Literal(LiteralValue::String(key)) => Some((of, Step::Field(key.inner().to_owned()))),
            Expr::Literal(LiteralValue::Int(index)) => {
                Some((of, Step::Item(usize::try_from(*index.inner()).ok()?)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns how many steps of a path there are in an object, counting the first that there isn't, and what is at the end.
fn walk(path: &[Step], object: &Value, shown: &Value) -> (usize, Found) {
    let (mut real, mut shown) = (object.clone(), shown.clone());
    for (index, step) in path.iter().enumerate() {
        let next = match step {
            Step::Field(name) => real.get(name).cloned().zip(shown.get(name).cloned()),
            Step::Item(at) => real.get(*at).cloned().zip(shown.get(*at).cloned()),
            Step::Json => match document(&real, &shown) {
                Ok(both) => Some(both),
                Err(found) => return (index, found),
            },
        };
        match next {
            Some(both) => (real, shown) = both,
            // Of a value that is masked whole, nothing in it is shown.
            None if shown == MASK => return (index, Found::Value(MASK.into())),
            None => return (index + 1, Found::Absent),
        }
    }
    (path.len(), Found::Value(shown))
}

/// Returns the document in a text, and the same with its secrets masked.
fn document(real: &Value, shown: &Value) -> Result<(Value, Value), Found> {
    let parsed = |value: &Value| serde_json::from_str::<Value>(value.as_str()?).ok();
    match (parsed(real), parsed(shown)) {
        (Some(real), Some(shown)) => Ok((real, kept(&shown))),
        (Some(_), None) => Err(Found::Value(MASK.into())),
        (None, _) => Err(Found::NotJson),
    }
}

/// Returns a JSON pointer as people write it.
pub(in crate::profile) fn written_pointer(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        step.parse().map_or(Step::Field(step), Step::Item)
    });
    written(&steps.collect::<Vec<_>>())
}

fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Field(name) if is_plain(name) && text.is_empty() => text.push_str(name),
            Step::Field(name) if is_plain(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Field(name) => {
                let _ = write!(text, "[{name:?}]");
            }
            Step::Item(index) => {
                let _ = write!(text, "[{index}]");
            }
            Step::Json => text = format!("json({text})"),
        }
    }
    text
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Expression;
    use super::*;

    fn seen(source: &str, object: &Value) -> String {
        let expression = Expression::compile("field", source).unwrap();
        let seen = expression.sees(object).into_iter();
        let lines = seen.map(|seen| match seen.found {
            Found::Value(value) => format!("{} = {value}", seen.path),
            Found::Absent => format!("{} is absent", seen.path),
            Found::NotJson => format!("{} is no JSON", seen.path),
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn an_expression_sees_the_values_of_the_fields_that_it_names() {
        let object = json!({
            "metadata": {"generation": 4},
            "status": {"observedGeneration": "4", "last": r#"{"spec":{"state":"suspended"}}"#, "conditions": [{"type": "Ready"}]},
        });
        let is = |source: &str, expected: &str| assert_eq!(seen(source, &object), expected, "{source}");
        is(
            "has(object.status) && has(object.status.observedGeneration) && object.status.observedGeneration == object.metadata.generation",
            r#"status.observedGeneration = "4"; metadata.generation = 4"#,
        );
        is(
            "json(object.status.last).spec.state == 'suspended'",
            r#"json(status.last).spec.state = "suspended""#,
        );
        is(
            "object.status.jobStatus.state == 'RUNNING'",
            "status.jobStatus is absent",
        );
        is(
            "object.status.conditions.exists(c, c.type == 'Ready') && object.status.conditions[0].type != ''",
            r#"status.conditions[0].type = "Ready""#,
        );
        is(
            "object.status.conditions.exists(c, c.type == 'Ready')",
            r#"status.conditions = [{"type":"Ready"}]"#,
        );
        is(
            "'a.b' in object.metadata && object.metadata['a.b'] == 1",
            r#"metadata["a.b"] is absent"#,
        );
        is(
            "json(object.status.observedGeneration).a == 1",
            "json(status.observedGeneration).a is absent",
        );
        is("size(object) > 0", "");
    }

    #[test]
    fn no_secret_is_seen() {
        let object = json!({
            "spec": {"config": {"s3.secret-key": "hunter22", "mode": "fast"}},
            "status": {"last": r#"{"password":"hunter22","mode":"fast"}"#, "text": "{broken"},
        });
        for source in [
            "object.spec.config['s3.secret-key'] == 'x' && object.spec.config.mode == 'fast'",
            "object.spec.config == {}",
            "json(object.status.last).password == 'x'",
            "json(object.status.last) == {}",
            "object.status.last == ''",
        ] {
            assert!(!seen(source, &object).contains("hunter22"), "{source}");
        }
        assert_eq!(
            seen("json(object.status.text).a == 1", &object),
            "status.text is no JSON"
        );
    }
}
