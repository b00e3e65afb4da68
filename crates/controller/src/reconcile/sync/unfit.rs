//! Profiles, before they are applied, against the definitions of the kinds that they are for: one that names a field that there isn't is
//! held back. Nothing is asked while no profile changes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Sync;
use crate::reconcile::definitions;
use cutover_cluster::{Failure, Outcome, Write};
use cutover_core::api::{AppliesTo, WorkloadProfileSpec};
use cutover_core::intent::gate::is_profile;
use cutover_core::lint;
use cutover_core::plan::{Action, Change};
use cutover_core::profile::Misfit;
use cutover_core::schema::Schemas;
use cutover_karmada::name::ObjectKey;

/// How many faults of a profile are shown: the first with its place.
const TOLD: usize = 3;

impl Sync {
    /// Splits off the profiles that don't fit their kinds as the control plane defines them, or of which that isn't known.
    pub(super) async fn fitting(&self, writes: Vec<Write>) -> (Vec<Write>, BTreeMap<ObjectKey, Outcome>) {
        let mut unfit = BTreeMap::new();
        for write in writes.iter().filter(|write| is_profile(&write.entry.key)) {
            // What can't be read is the API server's to refuse.
            let Some(spec) = spec_of(&write.entry.value()) else {
                continue;
            };
            let failure = match definitions::of_kinds(&self.cluster, &spec.applies_to).await {
                Ok(definitions) => {
                    let schemas = Schemas::new().with_definitions(&definitions);
                    refusal(write, &lint::misfits(&spec, &schemas))
                }
                Err(why) => Some(failure(write, format!("it waits: {}", not_known(&why)))),
            };
            if let Some(failure) = failure {
                unfit.insert(write.entry.key.clone(), Outcome::Failed(failure));
            }
        }
        let mut passed = writes;
        passed.retain(|write| !unfit.contains_key(&write.entry.key));
        (passed, unfit)
    }

    /// Marks the profiles of a plan that would be held back. A definition in Git stands for the one that is there, with all its versions.
    pub(super) async fn fit_of_plan(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut marked = Vec::with_capacity(changes.len());
        for change in changes {
            let is_written = matches!(change.action, Action::Create | Action::Configure);
            let spec = change
                .after
                .as_ref()
                .filter(|_| is_written && is_profile(&change.key));
            let Some(spec) = spec.and_then(spec_of) else {
                marked.push(change);
                continue;
            };
            marked.push(
                match definitions::of_kinds(&self.cluster, &spec.applies_to).await {
                    Ok(live) => {
                        let wanted = self.definitions_in_git(&spec.applies_to);
                        let stays = |one: &&Value| wanted.iter().all(|other| defined(other) != defined(one));
                        let definitions = live.iter().filter(stays).chain(&wanted);
                        let schemas = Schemas::new().with_definitions(definitions);
                        match told(&lint::misfits(&spec, &schemas)) {
                            Some(why) => change.blocked(why),
                            None => change,
                        }
                    }
                    Err(why) => change.unchecked(not_known(&why)),
                },
            );
        }
        marked
    }

    fn definitions_in_git(&self, kinds: &AppliesTo) -> Vec<Value> {
        let entries = self
            .placed
            .objects
            .of_kind("apiextensions.k8s.io", super::DEFINITION);
        let of_kinds = |definition: &Value| {
            let (group, kind) = defined(definition);
            group == Some(kinds.group.as_str()) && kinds.kinds.iter().any(|one| Some(one.as_str()) == kind)
        };
        entries.map(|entry| entry.value()).filter(of_kinds).collect()
    }
}

/// Returns group and kind of what a definition defines.
fn defined(definition: &Value) -> (Option<&str>, Option<&str>) {
    let text = |pointer| definition.pointer(pointer).and_then(Value::as_str);
    (text("/spec/group"), text("/spec/names/kind"))
}

fn spec_of(profile: &Value) -> Option<WorkloadProfileSpec> {
    serde_json::from_value(profile.get("spec")?.clone()).ok()
}

fn refusal(write: &Write, misfits: &[Misfit]) -> Option<Failure> {
    let first = misfits.first()?;
    Some(Failure {
        hint: Some(first.hint.clone().unwrap_or_else(|| {
            "correct the profile: cutover validate --crds finds the same before a push".to_owned()
        })),
        field: Some(first.pointer.clone()),
        ..failure(write, told(misfits)?)
    })
}

/// Returns what is said of a profile that doesn't fit; nothing of one that does.
fn told(misfits: &[Misfit]) -> Option<String> {
    if misfits.is_empty() {
        return None;
    }
    let all: Vec<&str> = misfits
        .iter()
        .take(TOLD)
        .map(|misfit| misfit.message.as_str())
        .collect();
    let more = match misfits.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let all = all.join("; ");
    Some(format!(
        "it is held back because it does not fit the CRD: {all}{more}"
    ))
}

fn not_known(why: &str) -> String {
    format!("whether it fits the CRD is not known: {why}")
}

fn failure(write: &Write, message: String) -> Failure {
    Failure {
        message,
        hint: None,
        at: write.entry.source(),
        field: None,
        // The definition may change without anybody telling.
        passing: true,
        fixed: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_faults_are_named_and_the_rest_is_counted() {
        let misfit = |name: &str| Misfit {
            pointer: format!("/spec/{name}"),
            message: format!("spec.{name} is wrong"),
            hint: None,
        };
        assert_eq!(told(&[]), None);
        assert_eq!(
            told(&[misfit("a")]).unwrap(),
            "it is held back because it does not fit the CRD: spec.a is wrong"
        );
        let all = ["a", "b", "c", "d", "e"].map(misfit);
        assert_eq!(
            told(&all).unwrap(),
            "it is held back because it does not fit the CRD: spec.a is wrong; spec.b is wrong; spec.c is wrong, and 2 more"
        );
    }
}
