//! `matchConstraints` and `matchResources`: which requests a policy or a binding is about.

use serde_json::Value;

use super::super::registry::NAMESPACES;
use super::super::selector::Selector;
use super::super::{Object, Subresource};
use super::attributes::Attributes;

/// Which requests are meant.
#[derive(Clone, Debug)]
pub(super) struct MatchResources {
    namespaces: Selector,
    objects: Selector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether a rule for another version of the resource counts too.
    equivalent: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

impl MatchResources {
    pub(super) fn of(value: &Value) -> Self {
        // What is no selector was refused when it was written.
        let selector = |field: &str| Selector::from_label_selector(&value[field]).unwrap_or_default();
        let rules = |field: &str| -> Vec<Rule> {
            let rules = value[field].as_array().into_iter().flatten();
            rules.map(Rule::of).collect()
        };
        Self {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            equivalent: value["matchPolicy"] != "Exact",
        }
    }

    /// Returns the version of the resource in which the request is meant, if it is; `labels` are those of its
    /// namespace.
    pub(super) fn matches(&self, attributes: &Attributes<'_>, labels: Option<&Value>) -> Option<String> {
        let in_namespace = attributes.resource() == &NAMESPACES || !attributes.namespace.is_empty();
        if in_namespace && !self.namespaces.is_empty() && !self.namespaces.matches(labels) {
            return None;
        }
        // A scale has no labels.
        let scale = attributes.subresource == Some(Subresource::Scale);
        let selected = |object: Option<&Object>| {
            object.is_some_and(|object| {
                let labels = object["metadata"].get("labels").filter(|_| !scale);
                self.objects.matches(labels)
            })
        };
        if !self.objects.is_empty() && !selected(attributes.object) && !selected(attributes.old) {
            return None;
        }
        if self.version_of(&self.excluded, attributes).is_some() {
            return None;
        }
        if self.rules.is_empty() {
            return Some(attributes.version.name.clone());
        }
        self.version_of(&self.rules, attributes)
    }

    fn version_of(&self, rules: &[Rule], attributes: &Attributes<'_>) -> Option<String> {
        let matching = |version: &str| rules.iter().any(|rule| rule.matches(attributes, version));
        let asked = attributes.version.name.as_str();
        if matching(asked) {
            return Some(asked.to_owned());
        }
        let others = attributes
            .kind
            .versions
            .iter()
            .filter(|version| self.equivalent && version.served && version.name != asked);
        others
            .map(|version| version.name.clone())
            .find(|version| matching(version))
    }
}

impl Rule {
    fn of(value: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let texts = value[field].as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: value["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, version: &str) -> bool {
        let any = |items: &[String], wanted: &str| items.iter().any(|item| item == "*" || item == wanted);
        let clusterwide = attributes.resource() == &NAMESPACES || attributes.namespace.is_empty();
        let in_scope = match self.scope.as_str() {
            "Namespaced" => !clusterwide,
            "Cluster" => clusterwide,
            _ => true,
        };
        let of_resource = self.resources.iter().any(|resource| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            (resource == "*" || resource == attributes.resource().plural)
                && (subresource == "*" || subresource == attributes.subresource())
        });
        in_scope
            && of_resource
            && any(&self.operations, attributes.operation.as_str())
            && any(&self.groups, &attributes.resource().group)
            && any(&self.versions, version)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}
