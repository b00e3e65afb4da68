//! Expressions, paths and patches of profiles, held against the schema of the kind that they are for, where that is known.
//!
//! A profile may be for several kinds, and each kind has versions: what fits any of them is no mistake. What a schema leaves open,
//! and what is not understood here, is not reported.

mod expression;
mod jsonpath;
mod patch;
mod place;

use cel::common::ast::IdedExpr;
use serde_json::Value;

use super::kubernetes;
use crate::api::{AppliesTo, GROUP, WorkloadProfileSpec};
use crate::finding::{Code, Finding, Severity};
use crate::manifest::{Manifest, Set};
use crate::profile::{self, Misfit};
use crate::redact;
use crate::schema::Schemas;
use cutover_base::nearest::did_you_mean;
use cutover_karmada::name::{GroupKind, Gvk};
use place::{At, Place};

pub(super) fn check(set: &Set, schemas: &Schemas, findings: &mut Vec<Finding>) {
    for object in set.of_kind(GROUP, "WorkloadProfile") {
        let spec = object.value.get("spec").cloned().unwrap_or_default();
        // What can't be read is the schema's to tell.
        let Ok(spec) = serde_json::from_value::<WorkloadProfileSpec>(spec) else {
            continue;
        };
        let kinds = written(&spec.applies_to);
        let faults = faults(&spec, schemas).into_iter();
        findings.extend(faults.filter_map(|(pointer, fault)| fault.finding(&pointer, object, &kinds)));
    }
}

/// Returns what of a profile fits no version of its kinds, where all of them are known. What may be right all the same isn't told.
pub fn misfits(spec: &WorkloadProfileSpec, schemas: &Schemas) -> Vec<Misfit> {
    told(faults(spec, schemas), &written(&spec.applies_to))
}

/// Returns what of a profile doesn't fit one version of one kind, as that kind's definition has it: what is read of its objects by this
/// version. Nothing, where the definition doesn't have that version, or leaves everything open.
pub fn misfits_with(spec: &WorkloadProfileSpec, gvk: &Gvk, definition: &Value) -> Vec<Misfit> {
    let schemas = Schemas::new().with_definitions([definition]);
    let Some(schema) = schemas.get(gvk) else {
        return Vec::new();
    };
    let mut trees = profile::trees(spec);
    // What such a one reads of another kind or version, it doesn't read of this one.
    trees.retain(|(_, tree)| !expression::tells_kinds_apart(tree));
    let faults = faults_in(spec, &trees, Place::Root(schema));
    told(faults, &GroupKind::from(gvk).to_string())
}

fn told(faults: Vec<Placed>, kinds: &str) -> Vec<Misfit> {
    let told = faults.into_iter().filter_map(|(pointer, fault)| {
        let (code, goes_on, hint) = fault.told(kinds)?;
        let message = format!("{} {goes_on}", dotted(&pointer));
        let misfit = Misfit {
            pointer,
            message: redact::text(&message).into_owned(),
            hint: hint.map(|hint| redact::text(&hint).into_owned()),
        };
        (code.rule().severity == Severity::Error).then_some(misfit)
    });
    told.collect()
}

/// Returns where something stands in a profile, as people write it.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

fn written(applies_to: &AppliesTo) -> String {
    let kinds = applies_to.kinds.iter();
    let kinds = kinds.map(|kind| GroupKind::new(&applies_to.group, kind).to_string());
    kinds.collect::<Vec<_>>().join(" or ")
}

/// A fault, and where in the profile it stands.
type Placed = (String, Fault);

/// Returns what fits no version of any kind that a profile is for; nothing where one of the kinds isn't known.
fn faults(spec: &WorkloadProfileSpec, schemas: &Schemas) -> Vec<Placed> {
    let mut roots = Vec::new();
    for kind in &spec.applies_to.kinds {
        let known = Place::of_kind(schemas, &spec.applies_to.group, kind);
        if known.is_empty() {
            return Vec::new();
        }
        roots.extend(known);
    }
    if roots.is_empty() {
        return Vec::new();
    }
    let trees = profile::trees(spec);
    let mut of_each = roots.into_iter().map(|root| faults_in(spec, &trees, root));
    let mut faults = of_each.next().unwrap_or_default();
    for others in of_each {
        faults.retain(|one| others.iter().any(|other| is_the_same(one, other)));
    }
    faults
}

fn is_the_same(one: &Placed, other: &Placed) -> bool {
    one.0 == other.0 && one.1.subject == other.1.subject
}

fn faults_in(spec: &WorkloadProfileSpec, trees: &[(String, IdedExpr)], root: Place<'_>) -> Vec<Placed> {
    let root = At::root(root);
    let mut faults = Vec::new();
    for (pointer, tree) in trees {
        let found = expression::faults(tree, &root).into_iter();
        faults.extend(found.map(|fault| (pointer.clone(), fault)));
    }
    faults.extend(jsonpath::faults(spec, &root));
    faults.extend(patch::faults(spec, &root));
    faults
}

/// Something of a profile that doesn't fit a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// The paths that it is about, as people write them: by these it is known again in another version.
    subject: String,
    what: What,
    hint: Option<String>,
    /// The schema is that of one Kubernetes, and a newer one may have more.
    may_be_newer: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Unknown {
        /// The schema has a field of nearly that name.
        is_near: bool,
        /// The profile can't do without.
        is_needed: bool,
    },
    /// How the sentence goes on whose subject is the field of the profile.
    NotAllowed(String),
    /// The same, of what fits in no version.
    Mistyped(String),
}

impl Fault {
    /// Returns the fault of a path whose last field, `name`, is none of those that are known.
    fn unknown(path: String, name: &str, known: &[&str], may_be_newer: bool) -> Self {
        let near = did_you_mean(name, known.iter().copied());
        let is_near = near.is_some();
        let all = || (known.len() < 12).then(|| format!("known here: {}", known.join(", ")));
        Self {
            subject: path,
            what: What::Unknown {
                is_near,
                is_needed: true,
            },
            hint: near.or_else(all),
            may_be_newer,
        }
    }

    fn mistyped(subject: String, goes_on: String) -> Self {
        Self {
            subject,
            what: What::Mistyped(goes_on),
            hint: None,
            may_be_newer: false,
        }
    }

    #[must_use]
    fn hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// What a profile can do without is in another version perhaps; here only a slip of the pen is reported.
    #[must_use]
    fn needed(mut self, needed: bool) -> Self {
        if let What::Unknown { is_needed, .. } = &mut self.what {
            *is_needed = needed;
        }
        self
    }

    /// Returns what is said of it, as a sentence goes on whose subject is the field of the profile; nothing, if the profile works
    /// all the same.
    fn told(self, kinds: &str) -> Option<(Code, String, Option<String>)> {
        let names = format!("names {}, which is not a field of {kinds}", self.subject);
        let (code, goes_on) = match self.what {
            What::Unknown {
                is_near: false,
                is_needed: false,
            } => return None,
            What::Unknown { .. } if self.may_be_newer => (Code::KubernetesSchema, names),
            What::Unknown { is_needed: true, .. } => (Code::UnknownPath, names),
            What::Unknown { .. } => (Code::DoubtfulPath, names),
            What::NotAllowed(goes_on) if self.may_be_newer => (Code::KubernetesSchema, goes_on),
            What::NotAllowed(goes_on) | What::Mistyped(goes_on) => (Code::WrongType, goes_on),
        };
        Some((code, goes_on, self.hint))
    }

    fn finding(self, pointer: &str, object: &Manifest, kinds: &str) -> Option<Finding> {
        let (code, goes_on, mut hint) = self.told(kinds)?;
        let mut message = format!("{} of {} {goes_on}", dotted(pointer), object.key);
        if code == Code::KubernetesSchema {
            message.push_str(&format!(" in Kubernetes {}", kubernetes::version()));
            hint = hint.or_else(|| Some("a newer Kubernetes may have it".to_owned()));
        }
        Some(Finding::new(code, object.location(pointer), message).maybe_hint(hint))
    }
}

#[cfg(test)]
mod tests;
