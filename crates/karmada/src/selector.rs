//! Which objects a policy means: resource selectors and label selectors, with Karmada's order of how well they match.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;

/// A `metav1.LabelSelector`: under server-side apply it has one owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelRequirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`; anything else matches nothing.
    pub operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

impl LabelSelector {
    /// Tells whether a set of labels satisfies every part of the selector; an empty selector matches everything.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }
}

/// A text that is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no label selector")]
pub struct BadSelector(String);

impl FromStr for LabelSelector {
    type Err = BadSelector;

    /// Reads what `kubectl -l` takes: `a=b,c!=d,e in (f, g),h notin (i),j,!k`.
    fn from_str(text: &str) -> Result<Self, BadSelector> {
        let bad = || BadSelector(text.to_owned());
        let mut depth = 0_i32;
        let mut parts = vec![String::new()];
        for letter in text.chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            match parts.last_mut() {
                Some(part) if letter != ',' || depth > 0 => part.push(letter),
                _ => parts.push(String::new()),
            }
        }
        let requirements: Option<Vec<_>> = parts.iter().map(|part| requirement(part.trim())).collect();
        let match_expressions = requirements.filter(|_| depth == 0).ok_or_else(bad)?;
        Ok(Self {
            match_expressions,
            ..Self::default()
        })
    }
}

fn requirement(text: &str) -> Option<LabelRequirement> {
    let is_name = |name: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        !name.is_empty() && name.chars().all(fits)
    };
    let is_value = |value: &str| value.is_empty() || (is_name(value) && !value.contains('/'));
    let of = |key: &str, operator: &str, values: Vec<String>| {
        let fits = is_name(key) && values.iter().all(|value| is_value(value));
        fits.then(|| LabelRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values,
            rest: Rest::new(),
        })
    };
    if let Some(key) = text.strip_prefix('!') {
        return of(key.trim(), "DoesNotExist", Vec::new());
    }
    if let Some((head, list)) = text.split_once('(') {
        let mut words = head.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        let operator = match operator {
            "in" => "In",
            "notin" => "NotIn",
            _ => return None,
        };
        let list = list.strip_suffix(')')?;
        let values = list.split(',').map(|value| value.trim().to_owned()).collect();
        return words
            .next()
            .is_none()
            .then(|| of(key, operator, values))
            .flatten();
    }
    let one =
        |key: &str, operator: &str, value: &str| of(key.trim(), operator, vec![value.trim().to_owned()]);
    if let Some((key, value)) = text.split_once("!=") {
        return one(key, "NotIn", value);
    }
    match text.split_once('=') {
        Some((key, value)) => one(key, "In", value.strip_prefix('=').unwrap_or(value)),
        None => of(text, "Exists", Vec::new()),
    }
}

impl fmt::Display for LabelSelector {
    /// As a list request takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self
            .match_labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(ToString::to_string);
        f.write_str(&labels.chain(expressions).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator.as_str() {
            "Exists" => f.write_str(key),
            "DoesNotExist" => write!(f, "!{key}"),
            "NotIn" => write!(f, "{key} notin ({values})"),
            _ => write!(f, "{key} in ({values})"),
        }
    }
}

impl LabelRequirement {
    fn matches(&self, value: Option<&String>) -> bool {
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// What a propagation or override policy selects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// How closely a selector names an object; a closer one is applied later and so wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Specificity {
    All,
    Labels,
    Name,
}

impl ResourceSelector {
    /// Returns how closely the selector matches an object, or `None` when it doesn't.
    ///
    /// With a name, the label selector is ignored.
    pub fn specificity(&self, object: &Value) -> Option<Specificity> {
        let same = text(object, "/apiVersion") == self.api_version
            && text(object, "/kind") == self.kind
            && (self.namespace.is_empty() || text(object, "/metadata/namespace") == self.namespace);
        if !same {
            return None;
        }
        if !self.name.is_empty() {
            return (text(object, "/metadata/name") == self.name).then_some(Specificity::Name);
        }
        match &self.label_selector {
            None => Some(Specificity::All),
            Some(selector) => selector.matches(&labels(object)).then_some(Specificity::Labels),
        }
    }

    /// Returns the closest match of several selectors. No selectors at all match nothing: what that means differs
    /// between kinds of policies.
    pub fn closest(selectors: &[Self], object: &Value) -> Option<Specificity> {
        selectors
            .iter()
            .filter_map(|selector| selector.specificity(object))
            .max()
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> Option<bool> {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let selector: LabelSelector = selector.parse().ok()?;
        Some(selector.matches(&labels.collect()))
    }

    #[test]
    fn a_selector_is_read_as_kubectl_reads_it() {
        let labels = [("tier", "critical"), ("team", "b")];
        for (selector, expected) in [
            ("tier=critical", Some(true)),
            ("tier==critical,team=b", Some(true)),
            ("tier=critical,team=c", Some(false)),
            ("tier!=critical", Some(false)),
            ("other!=x", Some(true)),
            ("team in (a, b)", Some(true)),
            ("team notin (a, b),tier", Some(false)),
            ("!other", Some(true)),
            ("other", Some(false)),
            ("team in (a,b", None),
            ("team within (a)", None),
            ("", None),
            ("tier=critical,", None),
            ("a b", None),
        ] {
            assert_eq!(matches(selector, &labels), expected, "{selector}");
        }
    }
}
