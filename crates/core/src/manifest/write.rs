//! Writes a value as a block of YAML that says the same to everybody: what a reader of YAML 1.1 takes for something else than
//! text (`yes`, `0x1f`, `1_000`) is in quotes, as `kubectl` reads it so.

use std::fmt::Write;

use serde_json::Value;

use super::scalar::{Plain, resolve};

/// Returns a value, lines and all.
pub fn block(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => write_fields(fields, 0, &mut text),
        Value::Array(items) if !items.is_empty() => write_items(items, 0, &mut text),
        other => {
            let _ = writeln!(text, "{}", inline(other));
        }
    }
    text
}

/// The first line goes on where the text is: `- ` may stand before it.
fn write_fields(fields: &serde_json::Map<String, Value>, indent: usize, text: &mut String) {
    for (number, (name, value)) in fields.iter().enumerate() {
        if number > 0 {
            text.push_str(&" ".repeat(indent));
        }
        let _ = write!(text, "{}:", scalar(name));
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                let _ = write!(text, "\n{}", " ".repeat(indent + 2));
                write_fields(inner, indent + 2, text);
            }
            Value::Array(items) if !items.is_empty() => {
                let _ = write!(text, "\n{}", " ".repeat(indent));
                write_items(items, indent, text);
            }
            other => {
                let _ = writeln!(text, " {}", inline(other));
            }
        }
    }
}

fn write_items(items: &[Value], indent: usize, text: &mut String) {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => write_fields(fields, indent + 2, text),
            Value::Array(inner) if !inner.is_empty() => write_items(inner, indent + 2, text),
            other => {
                let _ = writeln!(text, "{}", inline(other));
            }
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text without quotes where it needs none.
fn scalar(text: &str) -> String {
    let quoted = || Value::from(text).to_string();
    match serde_yaml::to_string(text) {
        Ok(written) if written.trim_end() == text && resolve_is_text(text) => text.to_owned(),
        Ok(written) if written.lines().count() == 1 && written.starts_with('\'') => {
            written.trim_end().to_owned()
        }
        Ok(_) | Err(_) => quoted(),
    }
}

fn resolve_is_text(text: &str) -> bool {
    !text.is_empty() && resolve(text) == Plain::Text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::manifest::{Limits, Source, parse};

    fn read(spec: &Value) -> Value {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "spec": spec,
        });
        let text = block(&object);
        let parsed = parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
        let errors: Vec<_> = parsed.errors.iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{errors:?}\n{text}");
        parsed.objects[0].value["spec"].clone()
    }

    #[test]
    fn it_looks_as_a_person_would_write_it() {
        let value = json!({
            "waves": [{"clusters": ["a", "b"], "soak": "30m"}, {"clusters": ["c"]}],
            "to": {}, "none": [], "taint": {"key": "maintenance", "value": "yes"}, "at": "2030-01-31T06:00:00Z",
            "reason": "it's: a loop\nin two lines", "number": "1_000", "count": 3, "on": true, "nested": [[1, 2], []],
        });
        insta::assert_snapshot!(block(&value), @r#"
        waves:
        - clusters:
          - a
          - b
          soak: 30m
        - clusters:
          - c
        to: {}
        none: []
        taint:
          key: maintenance
          value: "yes"
        at: 2030-01-31T06:00:00Z
        reason: "it's: a loop\nin two lines"
        number: "1_000"
        count: 3
        "on": true
        nested:
        - - 1
          - 2
        - []
        "#);
        assert_eq!(read(&value), value);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            "(?s).{0,12}",
            "yes|no|on|off|y|n|Yes|~|null|true|0x1f|0644|1_000|1e3|[.]inf|-|[?]|:|#|- a|a: b|a #b| a|a |'a'|\"a\"|&a|[*]a|!a|%a|@a|[|]|>",
        ];
        let word = word.prop_filter("what can't be in YAML at all", |text: &String| {
            text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t'))
                && !text.contains(['\u{fffe}', '\u{ffff}'])
        });
        let leaf = prop_oneof![
            word.clone().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z]{1,4}|yes|on|[0-9]{1,3}|[a-z ]{0,6}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_says_what_it_was_given(value in any_value()) {
            prop_assert_eq!(read(&value), value);
        }
    }
}
