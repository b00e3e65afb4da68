//! The differences that are accepted: all of them, each with its reason.

use serde_json::Value;

use super::kinds;
use super::run::Answer;
use super::step::Step;

/// A difference that is accepted: where it is found, and why it stays.
struct Accepted {
    why: &'static str,
    /// Makes the answers alike if they differ in this, and in nothing else.
    settle: fn(&Step, &mut Answer, &mut Answer),
}

/// The reviewed list.
const ACCEPTED: &[Accepted] = &[
    Accepted {
        why: "a refused patch quotes the whole object, in the order of a Go struct and with its times",
        settle: |_, sandbox, real| {
            unquote(&mut sandbox.body);
            unquote(&mut real.body);
        },
    },
    Accepted {
        why: "Go's dump of a value that doesn't fit its type, and the random order of its maps",
        settle: |_, sandbox, real| {
            sort_untyped(sandbox);
            sort_untyped(real);
        },
    },
    Accepted {
        why: "the headings of built-in kinds' tables are explained in other words",
        settle: |step, sandbox, real| {
            if kinds::is_built_in(&step.path) {
                drop_descriptions(&mut sandbox.body);
                drop_descriptions(&mut real.body);
            }
        },
    },
    Accepted {
        why: "the words in which Go's decoders of JSON, YAML and base64 say where a text breaks off",
        settle: |_, sandbox, real| {
            for parser in [
                "json parse error: ",
                "continue key is not valid: ",
                "error decoding YAML: ",
                "error decoding patch: ",
                "Object 'Kind' is missing in ",
                "illegal base64 data at input byte ",
            ] {
                cut_after(sandbox, parser);
                cut_after(real, parser);
            }
        },
    },
];

/// Sorts the mistakes of a refused apply, without the values that it shows.
fn sort_untyped(answer: &mut Answer) {
    let message = answer.body["message"].as_str().unwrap_or_default();
    if !message.starts_with("failed to create typed patch object") {
        return;
    }
    let (before, after) = message.split_once("): ").unwrap_or((message, ""));
    let mut mistakes: Vec<&str> = after
        .lines()
        .map(|line| line.trim().split(", got ").next().unwrap_or_default())
        .filter(|line| !line.is_empty() && *line != "errors:")
        .collect();
    mistakes.sort_unstable();
    answer.body["message"] = format!("{before}): {}", mistakes.join("; ")).into();
}

fn unquote(status: &mut Value) {
    let causes = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut);
    for cause in causes
        .into_iter()
        .flatten()
        .filter(|cause| cause["field"] == "patch")
    {
        let message = cause["message"].as_str().unwrap_or_default();
        cause["message"] = message.rsplit("}\": ").next().unwrap_or_default().into();
    }
}

fn drop_descriptions(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_descriptions),
        Value::Object(fields) => {
            if let Some(Value::Array(columns)) = fields.get_mut("columnDefinitions") {
                for column in columns {
                    column["description"] = Value::Null;
                }
            }
            fields.values_mut().for_each(drop_descriptions);
        }
        _ => {}
    }
}

/// Cuts a message off behind a text, if it has it.
fn cut_after(answer: &mut Answer, text: &str) {
    let message = answer.body["message"].as_str().unwrap_or_default();
    if let Some((before, _)) = message.split_once(text) {
        answer.body["message"] = format!("{before}{text}…").into();
    }
}

/// Takes what is accepted out of the answers of both servers to a step.
pub fn settle(step: &Step, sandbox: &mut Answer, real: &mut Answer) {
    for accepted in ACCEPTED {
        debug_assert!(!accepted.why.is_empty());
        (accepted.settle)(step, sandbox, real);
    }
}
