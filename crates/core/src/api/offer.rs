//! What a status offers a person to say: a word that is accepted as things are.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cutover_karmada::name::ClusterName;

/// How a sentence names where a word is given.
const SPOKEN: &str = "spec.assume";

/// A word of a person: what the tool can't see, or must not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fact {
    /// No copy of the workload in that cluster can write any more, or will by itself.
    Stopped,
    /// The workload goes on from the state that the copy in that cluster has, or left last: what others wrote is given up.
    #[serde(alias = "Newest")]
    From,
    /// The workload may start in that cluster from nothing: its state is given up.
    #[serde(alias = "NoState")]
    FromNothing,
    /// That cluster keeps the workload, or gets it back.
    To,
    /// It ends although that cluster, which has the workload, can't be looked into.
    Settle,
}

impl JsonSchema for Fact {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Fact".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "`Stopped`: no copy in the cluster can write any more. `From`: go on from the state that the copy in the \
                cluster has, or left last. `FromNothing`: it may start in the cluster from nothing. `To`: the cluster keeps the \
                workload, or gets it back. `Settle`: end without looking into the cluster. `Newest` and `NoState` are older names of \
                `From` and `FromNothing`",
            "enum": ["Stopped", "From", "FromNothing", "To", "Settle", "Newest", "NoState"],
        })
    }
}

/// A word that ends a wait, or lets it go on: `cutover assume NAME FACT CLUSTER`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// What can be said.
    pub fact: Fact,
    /// The cluster that it would be about.
    pub cluster: ClusterName,
    /// What whoever says it gives up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gives_up: String,
}

impl Offer {
    pub fn new(fact: Fact, cluster: &ClusterName) -> Self {
        Self {
            fact,
            cluster: cluster.clone(),
            gives_up: String::new(),
        }
    }

    #[must_use]
    pub fn giving_up(self, what: impl Into<String>) -> Self {
        Self {
            gives_up: what.into(),
            ..self
        }
    }

    /// Returns whether two offers are of the same word, whatever is said of its cost.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.fact, &self.cluster) == (other.fact, &other.cluster)
    }

    /// Returns the arguments of `cutover assume` that say it.
    pub fn arguments(&self) -> String {
        format!("{} {}", self.fact.argument(), self.cluster)
    }
}

/// Returns a text of others, as it may stand in a sentence that asks a person: it reads as no offer.
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
            Self::From => "From",
            Self::FromNothing => "FromNothing",
            Self::To => "To",
            Self::Settle => "Settle",
        }
    }

    /// Returns how it is written on the command line.
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::From => "from",
            Self::FromNothing => "from-nothing",
            Self::To => "to",
            Self::Settle => "settle",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Fact; 5] = [
        Fact::Stopped,
        Fact::From,
        Fact::FromNothing,
        Fact::To,
        Fact::Settle,
    ];

    #[test]
    fn a_fact_is_called_as_in_a_spec() {
        for fact in ALL {
            assert_eq!(serde_json::to_value(fact).unwrap(), fact.name());
        }
    }

    #[test]
    fn the_older_names_mean_what_they_meant() {
        for (older, fact) in [("Newest", Fact::From), ("NoState", Fact::FromNothing)] {
            assert_eq!(serde_json::from_value::<Fact>(older.into()).unwrap(), fact);
        }
    }

    #[test]
    fn the_schema_takes_every_name() {
        let schema = schemars::schema_for!(Fact);
        let names = schema.as_value()["enum"].clone();
        for name in ALL.map(Fact::name).into_iter().chain(["Newest", "NoState"]) {
            assert!(names.as_array().unwrap().contains(&name.into()), "{name}");
        }
    }
}
