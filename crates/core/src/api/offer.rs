//! What a status offers a person to say: a word that is accepted as things are.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;
use cutover_karmada::name::ClusterName;

/// How a sentence names where a word is given.
const SPOKEN: &str = "spec.assume";

/// A word that ends a wait, or lets it go on: `cutover assume NAME FACT CLUSTER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offer {
    pub fact: Fact,
    pub cluster: ClusterName,
}

impl Offer {
    pub fn new(fact: Fact, cluster: &ClusterName) -> Self {
        Self {
            fact,
            cluster: cluster.clone(),
        }
    }

    /// Returns the arguments of `cutover assume` that say it.
    pub fn arguments(&self) -> String {
        format!("{} {}", self.fact.argument(), self.cluster)
    }
}

/// Returns what somebody else has written, as it may stand in a sentence that asks a person: it reads as no offer.
pub fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains(SPOKEN) {
        Cow::Owned(text.replace(SPOKEN, "spec assume"))
    } else {
        Cow::Borrowed(text)
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SPOKEN}: {} in {}", self.fact.name(), self.cluster)
    }
}

impl Fact {
    /// Returns how it is written in a spec.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::NoState => "NoState",
            Self::Newest => "Newest",
        }
    }

    /// Returns how it is written on the command line.
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::NoState => "no-state",
            Self::Newest => "newest",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_called_as_in_a_spec() {
        for fact in [Fact::Stopped, Fact::NoState, Fact::Newest] {
            assert_eq!(serde_json::to_value(fact).unwrap(), fact.name());
        }
    }
}
