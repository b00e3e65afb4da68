//! Which policy of Karmada's is meant.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cutover_karmada::name::ObjectKey;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PolicyKind {
    #[default]
    PropagationPolicy,
    ClusterPropagationPolicy,
}

impl PolicyKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::PropagationPolicy => "PropagationPolicy",
            Self::ClusterPropagationPolicy => "ClusterPropagationPolicy",
        }
    }
}

/// Names a policy, of a namespace or of the whole control plane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PolicyName {
    /// The policy's namespace; none for a `ClusterPropagationPolicy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The policy's name.
    pub name: String,
}

impl PolicyName {
    pub const fn kind(&self) -> PolicyKind {
        match self.namespace {
            Some(_) => PolicyKind::PropagationPolicy,
            None => PolicyKind::ClusterPropagationPolicy,
        }
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: "policy.karmada.io".to_owned(),
            kind: self.kind().name().to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind().name(), self.name),
            None => write!(f, "{} {}", self.kind().name(), self.name),
        }
    }
}
