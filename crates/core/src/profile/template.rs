//! Fills `${…}` in patches and selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;

/// What `${captured.NAME}`, `${attempt}` and `${object.PATH}` stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    pub captured: Option<&'a BTreeMap<String, String>>,
    pub attempt: u32,
    pub object: Option<&'a Value>,
}

impl Variables<'_> {
    /// Returns a value with every `${…}` filled in. A text that is nothing but a number variable becomes a number.
    pub(super) fn fill(&self, value: &Value) -> Result<Value, Error> {
        Ok(match value {
            Value::String(text) if text == "${attempt}" => Value::from(self.attempt),
            Value::String(text) => Value::String(self.fill_text(text)?),
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| self.fill(item))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.fill(value)?)))
                    .collect::<Result<_, Error>>()?,
            ),
            other => other.clone(),
        })
    }

    pub(super) fn fill_text(&self, text: &str) -> Result<String, Error> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                return Err(Error::Variable(after.to_owned()));
            };
            filled.push_str(&self.look_up(name)?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn look_up(&self, name: &str) -> Result<String, Error> {
        let unknown = || Error::Variable(name.to_owned());
        if name == "attempt" {
            return Ok(self.attempt.to_string());
        }
        if let Some(handle) = name.strip_prefix("captured.") {
            return self
                .captured
                .and_then(|values| values.get(handle))
                .cloned()
                .ok_or_else(unknown);
        }
        if let Some(path) = name.strip_prefix("object.") {
            let pointer = format!("/{}", path.replace('.', "/"));
            let found = self
                .object
                .and_then(|object| object.pointer(&pointer))
                .ok_or_else(unknown)?;
            return match found {
                Value::String(text) => Ok(text.clone()),
                Value::Number(number) => Ok(number.to_string()),
                _ => Err(unknown()),
            };
        }
        Err(unknown())
    }
}
