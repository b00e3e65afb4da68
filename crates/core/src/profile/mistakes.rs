//! What is wrong with the expressions and paths of a spec, and where each stands: all of it at once, for whoever wrote it.

use cel::common::ast::IdedExpr;
use serde_json::Value;

use super::compile_check;
use super::expression::{self, Expression};
use super::mistake::Mistake;
use super::path::Path;
use super::query;
use crate::api::{Check, WorkloadProfileSpec};
use cutover_karmada::LabelSelector;

/// How many expressions and paths a profile may have: each is looked up in every copy, in every pass.
pub(super) const EXPRESSIONS: usize = 64;

/// Something of a profile that doesn't fit the schema of its kind: see [`crate::lint::misfits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Where it stands in the object.
    pub pointer: String,
    /// The field of the profile, and what it has that doesn't fit.
    pub message: String,
    pub hint: Option<String>,
}

/// Returns what is wrong with the expressions and paths of a profile.
pub fn mistakes(spec: &WorkloadProfileSpec) -> Vec<Mistake> {
    if let Err(message) = check_count(spec) {
        let pointer = "/spec".to_owned();
        return vec![Mistake { pointer, message }];
    }
    let expressions = expressions(spec).into_iter().filter_map(|(pointer, source)| {
        let message = Expression::compile("", source).err()?;
        Some(Mistake { pointer, message })
    });
    let paths = paths(spec).into_iter().filter_map(|(pointer, source)| {
        let message = Path::parse(source).err()?.to_string();
        Some(Mistake { pointer, message })
    });
    let selector = spec.starts_over.iter().filter_map(|rule| {
        let error = rule.label_selector.parse::<LabelSelector>().err()?;
        let pointer = "/spec/startsOver/labelSelector".to_owned();
        let message = error.to_string();
        Some(Mistake { pointer, message })
    });
    let last_known = super::last_known::mistakes(spec);
    let needs = super::needs::mistakes(spec);
    expressions
        .chain(paths)
        .chain(selector)
        .chain(last_known)
        .chain(needs)
        .collect()
}

/// Returns the expressions of a profile about the kind that it is for as they are written, by where they stand; without those that
/// [`mistakes`] tells of.
pub(crate) fn trees(spec: &WorkloadProfileSpec) -> Vec<(String, IdedExpr)> {
    if check_count(spec).is_err() {
        return Vec::new();
    }
    let of_others: Vec<String> = spec
        .last_known
        .iter()
        .enumerate()
        .filter(|(_, rule)| rule.from.is_some())
        .flat_map(|(index, _)| {
            ["validWhen", "disposedWhen"].map(|field| format!("/spec/lastKnown/{index}/{field}"))
        })
        .collect();
    let all = expressions(spec).into_iter();
    let all = all.filter(|(pointer, _)| !of_others.contains(pointer));
    all.filter_map(|(pointer, source)| Some((pointer, expression::tree(source).ok()?)))
        .collect()
}

/// Returns what is wrong with the expressions of the checks of an intent, wherever its kind has them.
pub fn mistakes_of_checks(intent: &Value) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    if let Some(spec) = intent.get("spec") {
        add_checks(spec, "/spec", &mut mistakes);
    }
    mistakes
}

fn add_checks(of: &Value, at: &str, mistakes: &mut Vec<Mistake>) {
    for (name, value) in of.as_object().into_iter().flatten() {
        let pointer = format!("{at}/{name}");
        if name != "checks" {
            add_checks(value, &pointer, mistakes);
            continue;
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            // What can't be read is the schema's to tell.
            let Ok(check) = serde_json::from_value::<Check>(item.clone()) else {
                continue;
            };
            if let Err(error) = compile_check(&check) {
                let message = match error {
                    super::Error::Evaluation { message, .. } => message,
                    other => other.to_string(),
                };
                let pointer = format!("{pointer}/{index}/cel");
                mistakes.push(Mistake { pointer, message });
            }
            if let Some(message) = check.prometheus.as_deref().and_then(query::mistake) {
                let pointer = format!("{pointer}/{index}/prometheus");
                mistakes.push(Mistake { pointer, message });
            }
        }
    }
}

pub(super) fn check_count(spec: &WorkloadProfileSpec) -> Result<(), String> {
    let count = expressions(spec).len() + paths(spec).len();
    if count > EXPRESSIONS {
        return Err(format!(
            "the profile has {count} expressions and paths: the limit is {EXPRESSIONS}"
        ));
    }
    Ok(())
}

/// Returns why `settleFor` cannot be used, if so: after no time a stop would count that was never watched.
pub(super) fn why_unwatched(spec: &WorkloadProfileSpec) -> Option<&'static str> {
    let is_zero = spec
        .settle_for
        .as_ref()
        .is_some_and(|time| time.length().is_zero());
    is_zero.then_some(
        "a copy that is watched for no time counts as stopped at once: say for how long, or leave it out",
    )
}

/// Returns the conditions by which a profile says how an object stands, by where they are written.
pub(super) fn conditions(spec: &WorkloadProfileSpec) -> impl Iterator<Item = (String, &str)> {
    let all = [
        ("observedWhen", Some(&spec.observed_when)),
        ("suspendedWhen", Some(&spec.suspended_when)),
        ("healthyWhen", Some(&spec.healthy_when)),
        ("failedWhen", spec.failed_when.as_ref()),
        ("finishedWhen", spec.finished_when.as_ref()),
        ("ranWhen", spec.ran_when.as_ref()),
    ];
    all.into_iter()
        .filter_map(|(name, source)| Some((format!("/spec/{name}"), source?.as_str())))
}

/// Returns the expressions of a profile, by where they stand.
pub(super) fn expressions(spec: &WorkloadProfileSpec) -> Vec<(String, &str)> {
    let requires = spec.requires.iter().enumerate().map(|(index, requirement)| {
        let pointer = format!("/spec/requires/{index}/cel");
        (pointer, requirement.cel.as_str())
    });
    let captured = spec.capture.iter().map(|rule| rule.valid_when.as_deref());
    let known = spec.last_known.iter().map(|rule| rule.valid_when.as_deref());
    let valid = placed("capture", "validWhen", captured).chain(placed("lastKnown", "validWhen", known));
    let disposed = spec.last_known.iter().map(|rule| rule.disposed_when.as_deref());
    let starts_over = spec.starts_over.iter().filter_map(|rule| {
        let source = rule.unless.as_deref()?;
        Some(("/spec/startsOver/unless".to_owned(), source))
    });
    conditions(spec)
        .chain(requires)
        .chain(valid)
        .chain(placed("lastKnown", "disposedWhen", disposed))
        .chain(starts_over)
        .collect()
}

/// Returns the JSONPaths of a profile, by where they stand.
pub(super) fn paths(spec: &WorkloadProfileSpec) -> Vec<(String, &str)> {
    let single = [("inUse", spec.in_use.as_ref()), ("runId", spec.run_id.as_ref())];
    let single = single
        .into_iter()
        .filter_map(|(name, path)| Some((format!("/spec/{name}"), path?.as_str())));
    let captured = spec.capture.iter().map(|rule| Some(rule.json_path.as_str()));
    let known = spec.last_known.iter().map(|rule| Some(rule.json_path.as_str()));
    let newest = spec.last_known.iter().map(|rule| rule.newest_by.as_deref());
    let of_rules = placed("capture", "jsonPath", captured)
        .chain(placed("lastKnown", "jsonPath", known))
        .chain(placed("lastKnown", "newestBy", newest));
    let needs = spec.needs.iter().map(|need| need.json_path.as_deref());
    let needs = placed("needs", "jsonPath", needs);
    let repeated = spec.repeats.iter().map(|rule| Some(rule.json_path.as_str()));
    let repeated = placed("repeats", "jsonPath", repeated);
    single.chain(of_rules).chain(needs).chain(repeated).collect()
}

/// Returns what the rules of a list say in a field, by where it stands.
fn placed<'s>(
    list: &'static str,
    field: &'static str,
    sources: impl Iterator<Item = Option<&'s str>>,
) -> impl Iterator<Item = (String, &'s str)> {
    let sources = sources.enumerate();
    sources.filter_map(move |(index, source)| Some((format!("/spec/{list}/{index}/{field}"), source?)))
}
