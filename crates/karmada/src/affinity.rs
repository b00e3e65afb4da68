//! Which clusters a rule means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::cluster::Cluster;
use super::selector::LabelSelector;
use super::{LabelRequirement, Rest};
use crate::name::ClusterName;

/// Karmada's `ClusterAffinity`: everything that is given must match; nothing given matches every cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    pub label_selector: Option<LabelSelector>,
    pub field_selector: Option<FieldSelector>,
    pub cluster_names: Option<Vec<ClusterName>>,
    pub exclude: Option<Vec<ClusterName>>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<FieldRequirement>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// A condition on `provider`, `region` or `zone` of a cluster.
pub type FieldRequirement = LabelRequirement;

impl ClusterAffinity {
    /// Returns the rule "these clusters".
    pub fn only(clusters: impl IntoIterator<Item = ClusterName>) -> Self {
        Self {
            cluster_names: Some(clusters.into_iter().collect()),
            ..Self::default()
        }
    }

    /// Returns the rule "every cluster but these", which also holds for clusters that join later.
    pub fn all_but(clusters: impl IntoIterator<Item = ClusterName>) -> Self {
        Self {
            exclude: Some(clusters.into_iter().collect()),
            ..Self::default()
        }
    }

    /// Tells whether a cluster is meant. An empty list of names or exclusions is as good as none.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let named = |names: &[ClusterName]| names.iter().any(|candidate| candidate.as_str() == name);
        if self.exclude.as_deref().is_some_and(named) {
            return false;
        }
        if let Some(selector) = &self.label_selector
            && !selector.matches(
                cluster
                    .metadata
                    .labels
                    .as_ref()
                    .unwrap_or(&std::collections::BTreeMap::new()),
            )
        {
            return false;
        }
        if let Some(selector) = &self.field_selector
            && !selector
                .match_expressions
                .iter()
                .all(|field| field_matches(field, cluster))
        {
            return false;
        }
        self.cluster_names
            .as_deref()
            .is_none_or(|names| names.is_empty() || named(names))
    }
}

/// A cluster lies in several zones: one that overlaps is enough for `In`, and none may for `NotIn`.
fn field_matches(requirement: &FieldRequirement, cluster: &Cluster) -> bool {
    let single = |value: &str| {
        (!value.is_empty())
            .then(|| value.to_owned())
            .into_iter()
            .collect()
    };
    let present: Vec<String> = match requirement.key.as_str() {
        "zone" => cluster.spec.zones.clone(),
        "provider" => single(&cluster.spec.provider),
        "region" => single(&cluster.spec.region),
        _ => Vec::new(),
    };
    let overlap = present.iter().any(|value| requirement.values.contains(value));
    match requirement.operator.as_str() {
        "In" => overlap,
        "NotIn" => !overlap,
        "Exists" => !present.is_empty(),
        "DoesNotExist" => present.is_empty(),
        _ => false,
    }
}
