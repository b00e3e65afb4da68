//! Fills `${…}` in patches and selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use crate::api::{SecretHandles, is_reference};
use cutover_karmada::name::ObjectKey;

/// What `${cluster}` stands for in the clusters that an intent isn't about: a pin holds them without naming them. No cluster can have
/// this name.
pub const ELSEWHERE: &str = "elsewhere.cutover.dev";

/// As it is written. A selector of pods keeps it until it is known in which cluster they are read: no label has such a value.
pub(super) const CLUSTER: &str = "${cluster}";

/// Of which workload a patch or a selector is, and in which cluster: what `${cluster}`, `${namespace}` and `${name}` stand for.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    pub cluster: &'a str,
    /// Empty for a workload of cluster scope.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> Site<'a> {
    pub fn new(workload: &'a ObjectKey, cluster: &'a str) -> Self {
        Self {
            cluster,
            namespace: workload.namespace.as_deref().unwrap_or_default(),
            name: &workload.name,
        }
    }

    /// Returns the site of a copy or a template.
    pub fn of(object: &'a Value, cluster: &'a str) -> Self {
        let named = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Self {
            cluster,
            namespace: named("/metadata/namespace"),
            name: named("/metadata/name"),
        }
    }

    /// Returns the site of an object in a cluster that isn't known yet: the cluster stays as it is written.
    pub(super) fn unplaced(object: &'a Value) -> Self {
        Self::of(object, CLUSTER)
    }
}

/// Returns whether there is nothing to fill in.
pub(super) fn is_plain(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains("${"),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(fields) => fields.values().all(is_plain),
        _ => true,
    }
}

/// What `${captured.NAME}`, `${attempt}`, `${object.PATH}` and the variables of a [`Site`] stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables<'a> {
    pub captured: Option<&'a BTreeMap<String, String>>,
    /// What the secret ones among the captured are; without any, what stands for them is filled in.
    pub secrets: Option<&'a SecretHandles>,
    pub attempt: u32,
    pub object: Option<&'a Value>,
    pub site: Option<Site<'a>>,
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
        if let Some(site) = &self.site {
            match name {
                "cluster" => return Ok(site.cluster.to_owned()),
                "namespace" => return Ok(site.namespace.to_owned()),
                "name" => return Ok(site.name.to_owned()),
                _ => {}
            }
        }
        if let Some(handle) = name.strip_prefix("captured.") {
            let captured = self.captured.and_then(|values| values.get(handle));
            return self.value_of(name, captured.ok_or_else(unknown)?);
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

    /// A copy is given the handle itself, and never what stands for it.
    fn value_of(&self, name: &str, handle: &str) -> Result<String, Error> {
        match self.secrets {
            Some(secrets) if is_reference(handle) => {
                let value = secrets.reveal(handle).map(str::to_owned);
                value.ok_or_else(|| Error::Secret(name.to_owned()))
            }
            _ => Ok(handle.to_owned()),
        }
    }
}
