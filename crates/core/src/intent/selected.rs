//! Which workloads selectors take. A selector that can't be read takes everything of its kind: a change that is held for
//! nothing can be let go, one that went out can't be called back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::WorkloadSelector;
use cutover_base::packed::View;
use cutover_karmada::LabelSelector;
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// What the selectors of a policy take in its namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    namespace: String,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    kind: GroupKind,
    name: Option<String>,
    /// `None`: whatever the labels are.
    labels: Option<LabelSelector>,
}

impl Selected {
    pub fn new(namespace: &str, selectors: &[WorkloadSelector]) -> Self {
        let rule = |selector: &WorkloadSelector| Rule {
            kind: GroupKind::from(&Gvk::new(&selector.api_version, &selector.kind)),
            name: selector.name.clone(),
            labels: selector
                .label_selector
                .as_ref()
                .and_then(|text| text.parse().ok()),
        };
        Self {
            namespace: namespace.to_owned(),
            rules: selectors.iter().map(rule).collect(),
        }
    }

    /// Reads what a policy selects, whatever else in it can't be read.
    pub fn of(policy: &Value) -> Self {
        let namespace = policy["metadata"]["namespace"].as_str().unwrap_or_default();
        let selectors = policy["spec"]["select"].as_array().into_iter().flatten();
        let selectors: Vec<WorkloadSelector> = selectors
            .filter_map(|selector| serde_json::from_value(selector.clone()).ok())
            .collect();
        Self::new(namespace, &selectors)
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the kinds of which it may select something.
    pub fn kinds(&self) -> BTreeSet<&GroupKind> {
        self.rules.iter().map(|rule| &rule.kind).collect()
    }

    /// Returns whether a workload is selected by the labels that it has, or by those that it is to have: a change that takes
    /// it out of the selection is selected, too. Only an object that there is has labels.
    pub fn takes(&self, workload: &ObjectKey, wanted: Option<&Labels>, live: Option<&Labels>) -> bool {
        workload.namespace.as_deref() == Some(&self.namespace)
            && self.rules.iter().any(|rule| {
                let fits = |labels: &Labels| rule.labels.as_ref().is_none_or(|rule| rule.matches(labels));
                (&rule.kind.group, &rule.kind.kind) == (&workload.group, &workload.kind)
                    && rule.name.as_ref().is_none_or(|name| *name == workload.name)
                    && [wanted, live].into_iter().flatten().any(fits)
            })
    }
}

/// Returns the labels of an object that is packed.
pub fn labels(object: View<'_>) -> Labels {
    let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
    let fields = labels.into_iter().flat_map(View::fields);
    fields
        .filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(name: Option<&str>, labels: Option<&str>) -> WorkloadSelector {
        WorkloadSelector {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.map(str::to_owned),
            label_selector: labels.map(str::to_owned),
        }
    }

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    fn tier(tier: &str) -> Labels {
        Labels::from([("tier".to_owned(), tier.to_owned())])
    }

    #[test]
    fn a_workload_is_selected_by_what_it_is_and_by_what_it_is_to_become() {
        let (web, db) = (tier("web"), tier("db"));
        let takes = |selectors: &[WorkloadSelector], workload: &ObjectKey, wanted, live| {
            Selected::new("shop", selectors).takes(workload, wanted, live)
        };
        let by_label = [selector(None, Some("tier=web"))];
        let orders = key("shop", "orders");
        assert!(takes(&by_label, &orders, Some(&web), None));
        assert!(takes(&by_label, &orders, Some(&db), Some(&web)));
        assert!(takes(&by_label, &orders, Some(&web), Some(&db)));
        assert!(!takes(&by_label, &orders, Some(&db), Some(&db)));
        assert!(!takes(&by_label, &key("other", "orders"), Some(&web), None));
        // Both have to fit.
        let both = [selector(Some("web"), Some("tier=web"))];
        assert!(!takes(&both, &orders, Some(&web), None));
        assert!(takes(&both, &key("shop", "web"), Some(&web), None));
        // What can't be read holds rather than lets go.
        assert!(takes(
            &[selector(None, Some("tier in"))],
            &orders,
            Some(&db),
            None
        ));
        assert!(!takes(&[], &orders, Some(&web), None));
    }

    #[test]
    fn the_version_of_the_api_makes_no_difference() {
        let mut beta = selector(None, None);
        beta.api_version = "apps/v1beta1".to_owned();
        assert!(Selected::new("shop", &[beta]).takes(&key("shop", "web"), Some(&Labels::new()), None));
    }
}
