//! Rules over the objects of a revision; every finding has a code, a place and a hint.
//!
//! No rule asks a cluster: what can only be told by one (does the cluster exist, is the kind installed) isn't said here.

mod annotations;
mod clusters;
mod expressions;
mod failover;
mod failover_plan;
mod fields;
mod gate;
mod gradual;
mod intents;
mod json_type;
pub mod kubernetes;
mod moves;
mod objects;
mod profiles;
mod references;
mod rollout_policy;
mod state;
mod suspension;
mod typed;

use std::collections::BTreeSet;

pub use gate::{Revision, compare};
pub use typed::{misfits, misfits_with};

use crate::api;
use crate::error;
use crate::finding::{Code, Finding};
use crate::manifest::Set;
use crate::profile;
use crate::schema::Schemas;
use cutover_base::budget::{Budget, Limit};
use cutover_karmada as karmada;
use cutover_karmada::name::ObjectKey;

/// What rules know besides the objects.
#[derive(Debug, Default)]
pub struct Context {
    pub schemas: Schemas,
    /// Names of profiles that need no object: the built-in ones.
    pub profiles: BTreeSet<String>,
    /// `None`: nothing is said of times.
    pub now: Option<jiff::Timestamp>,
    /// How many findings there may be.
    pub budget: Budget,
    pub may_have_ended: MayHaveEnded,
    /// Intents that are known to have ended: they take nothing from others.
    pub ended: BTreeSet<ObjectKey>,
}

/// Which intents stood in the repository before, so that they may have come to their end.
#[derive(Clone, Debug, Default)]
pub enum MayHaveEnded {
    /// All are new.
    #[default]
    None,
    These(BTreeSet<ObjectKey>),
    /// What there was before is not known.
    All,
}

impl MayHaveEnded {
    /// Returns the intents of a repository as it was before.
    pub fn of(before: &Set) -> Self {
        let intents = before
            .definitions()
            .filter(|object| object.key.group == api::GROUP);
        Self::These(intents.map(|object| object.key.clone()).collect())
    }
}

impl Context {
    /// Returns what this release knows by itself: cutover's kinds, Kubernetes', the used parts of Karmada's, the built-in profiles.
    pub fn built_in() -> Result<Self, error::Error> {
        let definitions: Vec<serde_json::Value> = api::crds()
            .iter()
            .chain(&karmada::crds())
            .filter_map(|crd| serde_json::to_value(crd).ok())
            .collect();
        let profiles = profile::built_in()
            .map_err(|error| error::Error::internal(error.to_string()))?
            .iter()
            .filter_map(|profile| profile.metadata.name.clone());
        Ok(Self {
            schemas: Schemas::new().with_definitions(&definitions).with_kubernetes(),
            profiles: profiles.collect(),
            now: None,
            budget: Budget::default(),
            may_have_ended: MayHaveEnded::None,
            ended: BTreeSet::new(),
        })
    }
}

/// Returns all that can be said about the objects of a revision, in order of places.
///
/// The schemas of custom resources that the revision itself defines are used too.
pub fn check(set: &Set, context: &Context) -> Vec<Finding> {
    let mut findings: Vec<Finding> = set.errors().map(Finding::from).collect();
    objects::check(set, &mut findings);
    annotations::check(set, &mut findings);
    references::check(set, context, &mut findings);
    failover_plan::check(set, &mut findings);
    state::check(set, &mut findings);
    suspension::check(set, context, &mut findings);
    moves::check(set, &mut findings);
    gradual::check(set, &mut findings);
    intents::check(set, context, &mut findings);
    expressions::check(set, &mut findings);
    profiles::check(set, &mut findings);
    let schemas = context
        .schemas
        .with_definitions(set.definitions().map(|object| &object.value));
    for object in set.definitions() {
        fields::check(object, &schemas, &mut findings);
        failover::check(object, &mut findings);
    }
    typed::check(set, &schemas, &mut findings);
    clusters::check(set, &mut findings);
    findings.sort();
    abridged(findings, &context.budget)
}

/// Returns the first findings, and how many more there are.
fn abridged(mut findings: Vec<Finding>, budget: &Budget) -> Vec<Finding> {
    let most = budget.of(Limit::RevisionFindings);
    let left_out = findings.split_off(findings.len().min(most));
    // As bad as the worst that it stands for.
    let worst = left_out.iter().map(|finding| finding.severity).min();
    if let Some(severity) = worst {
        let over = budget.exceeded(Limit::RevisionFindings);
        findings.push(Finding {
            location: None,
            severity,
            code: Code::TooLarge,
            message: format!("and {} more findings", left_out.len()),
            hint: Some(over.hint()),
        });
    }
    findings
}

#[cfg(test)]
mod tests;
