//! The differences that are accepted: all of them, each with its reason.

use serde_json::Value;

use super::kinds;
use super::run::Answer;
use super::step::{JSON_PATCH, STRATEGIC, Step};

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
        settle: |step, sandbox, real| {
            for parser in [
                "json parse error: ",
                "continue key is not valid: ",
                "error decoding YAML: ",
                "error decoding patch: ",
                "Object 'Kind' is missing in ",
                "illegal base64 data at input byte ",
                "unexpected GroupVersion string: ",
            ] {
                cut_after(sandbox, parser);
                cut_after(real, parser);
            }
            // Where nobody looks for unknown fields these words stand alone.
            if step.content_type == Some(JSON_PATCH) && sandbox.code == 400 && real.code == 400 {
                for answer in [sandbox, real] {
                    if is_of_a_parser(&answer.body["message"]) {
                        answer.body["message"] = "…".into();
                    }
                }
            }
        },
    },
    Accepted {
        why: "the words in which the decoder of strategic patches refuses what doesn't fit its type",
        settle: |step, sandbox, real| {
            if step.content_type == Some(STRATEGIC) && sandbox.code == 422 && real.code == 422 {
                say_no_more(&mut sandbox.body);
                say_no_more(&mut real.body);
            }
        },
    },
    Accepted {
        why: "whether a table of a watch has headings: watches of a real server share what is encoded for one of them",
        settle: |step, sandbox, real| {
            if step.is_watch() {
                drop_headings(&mut sandbox.body);
                drop_headings(&mut real.body);
            }
        },
    },
    Accepted {
        why: "how much later than asked for a list from the cache of a real server is",
        settle: |step, sandbox, real| {
            let asks = |wanted: &str| {
                step.query
                    .iter()
                    .any(|(name, value)| name == wanted && value != "Exact")
            };
            if asks("resourceVersion") && !asks("watch") {
                for answer in [sandbox, real] {
                    if answer.body["items"].is_array() || answer.body["rows"].is_array() {
                        answer.body["metadata"]["resourceVersion"] = "…".into();
                    }
                }
            }
        },
    },
    Accepted {
        why: "a policy that a Service still has from before it was an ExternalName: a real server shows it to watches only",
        settle: |step, sandbox, real| {
            if step.is_watch() {
                drop_policies(&mut sandbox.body);
                drop_policies(&mut real.body);
            }
        },
    },
    Accepted {
        why: "what a refused write warns of: a real server may have tried it on what its cache still had",
        settle: |_, sandbox, real| {
            if sandbox.code == real.code && matches!(real.code, 404 | 409) {
                for answer in [sandbox, real] {
                    answer
                        .warnings
                        .retain(|warning| !warning.contains("metadata.finalizers: "));
                }
            }
        },
    },
    Accepted {
        why: "Go's names of the types of fields, which OpenAPI doesn't tell",
        settle: |_, sandbox, real| {
            name_no_types(&mut sandbox.body);
            name_no_types(&mut real.body);
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

fn drop_headings(events: &mut Value) {
    for event in events.as_array_mut().into_iter().flatten() {
        if let Some(headings) = event.pointer_mut("/object/columnDefinitions") {
            *headings = Value::Null;
        }
    }
}

fn drop_policies(events: &mut Value) {
    for event in events.as_array_mut().into_iter().flatten() {
        let spec = event.pointer_mut("/object/spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec.filter(|spec| spec.get("type").is_some_and(|kind| kind == "ExternalName")) {
            spec.shift_remove("internalTrafficPolicy");
        }
    }
}

fn is_of_a_parser(message: &Value) -> bool {
    let message = message.as_str().unwrap_or_default();
    message.starts_with("unexpected end of JSON input") || message.starts_with("EOF while parsing")
}

/// Cuts off why a patch is refused.
fn say_no_more(status: &mut Value) {
    let causes = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut);
    for cause in causes.into_iter().flatten() {
        if cause["field"] == "patch" {
            cause["message"] = "…".into();
        }
    }
}

/// Cuts off the type into which a value doesn't fit.
fn name_no_types(status: &mut Value) {
    let cut = |text: Option<&mut Value>| {
        let text = text?;
        let (before, _) = text
            .as_str()
            .filter(|text| text.contains("json: cannot unmarshal"))
            .and_then(|text| text.rsplit_once(" of type "))?;
        *text = format!("{before} of type …").into();
        Some(())
    };
    cut(status.get_mut("message"));
    let causes = status
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut);
    for cause in causes.into_iter().flatten() {
        cut(cause.get_mut("message"));
    }
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
