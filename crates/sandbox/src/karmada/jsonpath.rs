//! The JSONPath of `kubectl`, as far as state preservation rules use it: `{.jobStatus.jobId}`, or without braces.
//!
//! A path is looked up in a *status*. What is missing is an error, never an empty text: that is how a rule with a
//! typing error switches failover off. Filters, slices and ranges are refused.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unrecognized JSONPath {0:?}")]
    Syntax(String),
    #[error("{0} is not found")]
    Missing(String),
}

/// Returns the text that a template gives for a value.
pub fn evaluate(template: &str, value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        text.push_str(&rest[..open]);
        let close = rest[open..]
            .find('}')
            .ok_or_else(|| Error::Syntax(template.to_owned()))?
            + open;
        text.push_str(&look_up(&rest[open + 1..close], value)?);
        rest = &rest[close + 1..];
    }
    // Outside of braces everything is text, as kubectl's parser has it.
    text.push_str(rest);
    Ok(text)
}

fn look_up(path: &str, value: &Value) -> Result<String, Error> {
    let mut at = value;
    for step in steps(path.trim())? {
        let next = match &step {
            Step::Field(name) => at.get(name),
            Step::Index(index) => at.get(index),
        };
        at = next.ok_or_else(|| Error::Missing(step.to_string()))?;
    }
    Ok(match at {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

enum Step {
    Field(String),
    Index(usize),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn steps(path: &str) -> Result<Vec<Step>, Error> {
    let wrong = || Error::Syntax(path.to_owned());
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = inner.split_once(']').ok_or_else(wrong)?;
            let quoted = key.strip_prefix('\'').and_then(|key| key.strip_suffix('\''));
            steps.push(match quoted {
                Some(name) => Step::Field(name.to_owned()),
                None => Step::Index(key.parse().map_err(|_| wrong())?),
            });
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = unescaped_end(after);
            let name = after[..end].replace('\\', "");
            if name.contains(['*', '?', '@', '(']) {
                return Err(wrong());
            }
            if !name.is_empty() {
                steps.push(Step::Field(name));
            }
            rest = &after[end..];
        } else {
            return Err(wrong());
        }
    }
    Ok(steps)
}

/// Returns where a field's name ends: at a dot or bracket that no backslash stands before.
fn unescaped_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\\' => escaped = !escaped,
            '.' | '[' if !escaped => return at,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_indices_and_text_around_them() {
        let status = json!({"jobStatus": {"jobId": "a1", "list": [1, {"x.y": true}]}});
        assert_eq!(evaluate("{.jobStatus.jobId}", &status).unwrap(), "a1");
        assert_eq!(evaluate("job-{ .jobStatus.jobId }", &status).unwrap(), "job-a1");
        assert_eq!(evaluate("{.jobStatus.list[0]}", &status).unwrap(), "1");
        assert_eq!(evaluate("{.jobStatus.list[1].x\\.y}", &status).unwrap(), "true");
        assert_eq!(evaluate("{$['jobStatus']['jobId']}", &status).unwrap(), "a1");
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let status = json!({"jobStatus": {"jobId": "a1"}});
        assert_eq!(
            evaluate("{.jobStatus.jobID}", &status),
            Err(Error::Missing("jobID".to_owned()))
        );
        assert!(matches!(evaluate("{.list[*]}", &status), Err(Error::Syntax(_))));
        assert!(matches!(evaluate("{.open", &status), Err(Error::Syntax(_))));
    }
}
