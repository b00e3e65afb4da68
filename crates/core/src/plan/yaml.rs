//! An object as YAML for people: always the same order of keys, identity first.

use serde_json::{Map, Value};

use crate::redact::MASK;

const FIRST: &[&str] = &["apiVersion", "kind", "metadata", "name", "namespace"];

pub(super) fn to_yaml(value: &Value) -> String {
    // Only a map with keys that are no strings fails, and JSON has none.
    bare_masks(&serde_yaml::to_string(&ordered(value)).unwrap_or_default())
}

const MASKS: [&str; 3] = [MASK, "*** (old)", "*** (new)"];

/// Takes the quotes off what stands for a secret: YAML needs them, people don't.
fn bare_masks(yaml: &str) -> String {
    let quoted = format!("'{MASK}");
    let mut bare = String::with_capacity(yaml.len());
    let mut rest = yaml;
    while let Some(at) = rest.find(&quoted) {
        let (before, from) = rest.split_at(at);
        bare.push_str(before);
        match from[1..].split_once('\'') {
            Some((mask, after)) if MASKS.contains(&mask) => {
                bare.push_str(mask);
                rest = after;
            }
            _ => {
                bare.push('\'');
                rest = &from[1..];
            }
        }
    }
    bare + rest
}

fn ordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(ordered).collect(),
        Value::Object(fields) => {
            let rank = |key: &str| {
                FIRST
                    .iter()
                    .position(|first| *first == key)
                    .unwrap_or(FIRST.len())
            };
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_by_key(|key| (rank(key), *key));
            let fields: Map<_, _> = keys
                .into_iter()
                .map(|key| (key.clone(), ordered(&fields[key])))
                .collect();
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

/// Returns the path of the mapping or item that a line of a YAML text is in, such as `spec.containers[app]`.
pub(super) fn path_of(lines: &[&str], line: usize) -> String {
    let mut parts = Vec::new();
    let Some(mut limit) = lines.get(line).map(|text| depth(text)) else {
        return String::new();
    };
    for text in lines[..line].iter().rev() {
        let here = depth(text);
        let content = text.trim_start();
        if let Some(item) = content.strip_prefix("- ") {
            // `- name: a` is an item, and the first key in it.
            if here + 1 < limit && item.trim_end().ends_with(':') {
                parts.push(format!(".{}", item.trim_end().trim_end_matches(':')));
            }
            if here < limit {
                parts.push(format!(
                    "[{}]",
                    item.strip_prefix("name: ").unwrap_or_default().trim_end()
                ));
                limit = here;
            }
        } else if here < limit && content.trim_end().ends_with(':') {
            parts.push(format!(".{}", content.trim_end().trim_end_matches(':')));
            limit = here;
        }
        if limit == 0 {
            break;
        }
    }
    parts
        .iter()
        .rev()
        .flat_map(|part| part.chars())
        .collect::<String>()
        .trim_start_matches('.')
        .to_owned()
}

/// How deep a line is: items of a sequence count as deeper than the key that they stand under at the same column.
fn depth(text: &str) -> usize {
    let spaces = text.len() - text.trim_start().len();
    2 * spaces + usize::from(text.trim_start().starts_with("- "))
}
