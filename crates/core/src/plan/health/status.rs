//! What the status of an object says.

use serde_json::Value;

pub(super) enum Condition<'a> {
    True,
    /// With its reason, a word in CamelCase.
    False(&'a str),
    Unknown,
    /// There is none of that type.
    Absent,
}

impl Condition<'_> {
    pub(super) fn unless_true(&self, kind: &str) -> Option<String> {
        match self {
            Self::True => None,
            Self::False("") => Some(format!("{kind} is False")),
            Self::False(reason) => Some(format!("{kind} is False ({reason})")),
            Self::Unknown => Some(format!("{kind} is Unknown")),
            Self::Absent => Some(format!("it is not {kind} yet")),
        }
    }
}

pub(super) fn condition<'a>(live: &'a Value, kind: &str) -> Condition<'a> {
    let Some(condition) = items(live, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == kind)
    else {
        return Condition::Absent;
    };
    match condition["status"].as_str() {
        Some("True") => Condition::True,
        Some("False") => Condition::False(condition["reason"].as_str().unwrap_or_default()),
        _ => Condition::Unknown,
    }
}

pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}
