//! What a status offers a person to say: a word that is accepted as things are. How it stands in a sentence, and how it is found
//! there again, is here alone.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;
use cutover_karmada::name::ClusterName;

/// A word that ends a wait, or lets it go on: `cutover assume NAME FACT CLUSTER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Offer {
    pub fact: Fact,
    pub cluster: ClusterName,
}

const SPOKEN: &str = "spec.assume: ";

impl Offer {
    pub fn new(fact: Fact, cluster: &ClusterName) -> Self {
        Self {
            fact,
            cluster: cluster.clone(),
        }
    }

    /// Returns what a sentence offers, in the order in which it is said, each once.
    pub fn all_in(sentence: &str) -> Vec<Self> {
        let mut all = Vec::new();
        for said in sentence.split(SPOKEN).skip(1) {
            let offer = Self::read(said);
            all.extend(offer.filter(|offer| !all.contains(offer)));
        }
        all
    }

    /// Reads `NoState in west`, with whatever follows.
    fn read(said: &str) -> Option<Self> {
        let (fact, rest) = said.split_once(" in ")?;
        let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        let name = rest
            .split(|c| !is_of_name(c))
            .next()?
            .trim_end_matches(['-', '.']);
        let fact = Fact::ALL.into_iter().find(|known| known.name() == fact)?;
        (!name.is_empty()).then(|| Self::new(fact, &ClusterName::new(name)))
    }

    /// Returns the arguments of `cutover assume` that say it.
    pub fn arguments(&self) -> String {
        format!("{} {}", self.fact.argument(), self.cluster)
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SPOKEN}{} in {}", self.fact.name(), self.cluster)
    }
}

impl Fact {
    pub const ALL: [Self; 3] = [Self::Stopped, Self::NoState, Self::Newest];

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
    fn what_is_offered_is_found_in_the_sentence_that_offers_it() {
        let east = ClusterName::new("east-1.example");
        let west = ClusterName::new("west");
        for fact in Fact::ALL {
            let (one, other) = (Offer::new(fact, &east), Offer::new(Fact::Newest, &west));
            let sentence = format!("a person can say so ({one}; or {other}), or again ({one}).");
            let mut expected = vec![one];
            if !expected.contains(&other) {
                expected.push(other);
            }
            assert_eq!(Offer::all_in(&sentence), expected, "{sentence}");
            let json = serde_json::to_value(fact).unwrap();
            assert_eq!(json, fact.name());
        }
        let ends = format!("say so: {}. Else wait", Offer::new(Fact::Stopped, &west));
        assert_eq!(Offer::all_in(&ends), [Offer::new(Fact::Stopped, &west)]);
        assert_eq!(Offer::all_in("spec.assume: Nothing in west"), []);
        assert_eq!(Offer::all_in("spec.assume in west"), []);
    }
}
