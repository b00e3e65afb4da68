//! Which objects a policy means: resource selectors and label selectors, with Karmada's order of how well they match.

use std::collections::BTreeMap;
use std::fmt;

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
