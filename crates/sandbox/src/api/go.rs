//! How Go prints decoded JSON, for messages that show it.

use std::collections::BTreeMap;

use serde_json::Value;

/// Returns a value as `%v` prints it.
pub(super) fn print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", print(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// Returns the type of a value as `%T` prints it.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_printed_in_the_order_of_their_keys() {
        let value = json!({"b": [1, null, {"c": "d e"}], "a": true, "n": 1.5});
        assert_eq!(print(&value), "map[a:true b:[1 <nil> map[c:d e]] n:1.5]");
        assert_eq!(type_of(&value["n"]), "float64");
    }
}
