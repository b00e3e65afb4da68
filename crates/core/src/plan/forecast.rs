//! What an intent would do, were it carried out now: whoever has looked says it, and it is shown under the intent's change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::ChangeSet;
use crate::redact;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// What an intent would do, as far as could be seen. Everything in it is for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub outcome: Outcome,
    /// Why it would wait or be refused, why there is nothing to do, or why that is unknown.
    pub because: Vec<String>,
    /// What would be done, one after the other.
    pub steps: Vec<ForecastStep>,
    /// What else a person should know before.
    pub remarks: Vec<String>,
    /// Which workloads would leave which clusters, of an intent that moves many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub moves: Vec<ForecastMove>,
    /// Where the workload of a Migration was seen to run.
    #[serde(skip)]
    pub from: Option<ClusterName>,
}

/// A workload that would leave a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForecastMove {
    pub workload: String,
    pub from: String,
    /// None: Karmada's scheduler chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What would come of an intent at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Nothing blocks it.
    Begins,
    /// There is nothing to do at present.
    Nothing,
    Waits,
    /// It would fail with nothing touched.
    Refused,
    /// It has begun already.
    UnderWay,
    /// What that depends on could not be read.
    #[default]
    Unknown,
}

/// One thing that would be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForecastStep {
    /// A phase, a wave, or the workload that it is about.
    pub name: String,
    pub what: String,
}

impl ForecastStep {
    pub fn new(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            what: what.into(),
        }
    }
}

impl Forecast {
    /// Says in a line what would come of it; of one that is refused the reasons are lines of their own.
    pub fn headline(&self) -> String {
        let because = self.because.join("; ");
        let said = |what: &str| match because.as_str() {
            "" => what.to_owned(),
            because => format!("{what}: {because}"),
        };
        match self.outcome {
            Outcome::Begins => said("nothing is seen now that blocks it"),
            Outcome::Nothing => said("nothing to do now"),
            Outcome::Waits => said("would wait"),
            Outcome::Refused => "would be refused, with nothing touched:".to_owned(),
            Outcome::UnderWay => said("under way"),
            Outcome::Unknown => said("what blocks it is not known"),
        }
    }

    /// Returns it as it may be shown: nothing is done of what is refused, and what comes from servers may quote credentials.
    fn shown(mut self) -> Self {
        if self.outcome == Outcome::Refused {
            self.steps.clear();
            self.remarks.clear();
            self.moves.clear();
        }
        let safe = |text: &mut String| *text = redact::text(text).into_owned();
        self.because.iter_mut().chain(&mut self.remarks).for_each(safe);
        for step in &mut self.steps {
            safe(&mut step.name);
            safe(&mut step.what);
        }
        for one in &mut self.moves {
            safe(&mut one.workload);
        }
        self
    }
}

impl ChangeSet {
    /// Notes what would come of the intents among the changes. It is no part of the hash: it tells of the cluster as it is
    /// now, and changes by itself.
    pub fn dry_run(&mut self, mut forecasts: BTreeMap<ObjectKey, Forecast>) {
        for change in &mut self.changes {
            change.forecast = forecasts.remove(&change.key).map(Forecast::shown);
        }
    }

    /// Returns whether an intent among the changes would be refused as things are.
    pub fn refuses(&self) -> bool {
        let mut forecasts = self.changes.iter().filter_map(|change| change.forecast.as_ref());
        forecasts.any(|forecast| forecast.outcome == Outcome::Refused)
    }

    /// Notes what becomes of workloads whose templates leave Git. It is no part of the hash either.
    pub fn note_effects(&mut self, mut effects: BTreeMap<ObjectKey, String>) {
        for change in &mut self.changes {
            change.effect = effects.remove(&change.key);
        }
    }
}
