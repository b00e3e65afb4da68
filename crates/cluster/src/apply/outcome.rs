//! What became of an object, and how that is told: what is in the way, who put it there, what can be done. No values.

use std::collections::BTreeMap;

use cutover_core::manifest::Manifest;
use cutover_core::plan::FORCE_ANNOTATION;
use cutover_karmada::name::Location;

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Configured,
    /// The server made no difference of it.
    Unchanged,
    /// Others own fields that Git wants to have another value; nothing was written.
    Conflict(Vec<Conflict>),
    /// Nobody serves the kind yet.
    NotServed,
    /// The object with this uid is on its way out; the new one is created when that is gone.
    Recreating {
        uid: String,
    },
    Failed(Failure),
}

/// A field that somebody else owns and that Git wants to have another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub manager: String,
    /// For instance `.spec.replicas`.
    pub field: String,
    /// The same as a JSON pointer into what Git wants.
    pub pointer: String,
    /// Where the object begins, until somebody looks up where the field is written.
    pub at: Location,
}

/// Why an object could not be applied, and where that stands in Git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub hint: Option<String>,
    /// Where the object begins, until somebody looks up where `field` is written.
    pub at: Location,
    /// JSON pointer to the field that the server names.
    pub field: Option<String>,
    /// Whether trying the same again soon may help.
    pub passing: bool,
    /// The fields that can't be changed, when that is all that is wrong.
    pub fixed: Vec<String>,
}

impl Outcome {
    /// Returns whether Git and the API server agree on the object now.
    pub const fn is_in_sync(&self) -> bool {
        matches!(self, Self::Created | Self::Configured | Self::Unchanged)
    }

    /// Returns whether the same may soon go better by itself.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Created
            | Self::Configured
            | Self::Unchanged
            | Self::Recreating { .. }
            | Self::Conflict(_) => false,
            Self::NotServed => true,
            Self::Failed(failure) => failure.passing,
        }
    }

    /// Returns where in Git that is written what stands in the way.
    pub fn place(&self) -> Option<&Location> {
        match self {
            Self::Conflict(fields) => fields.iter().map(|own| &own.at).min(),
            Self::Failed(failure) => Some(&failure.at),
            _ => None,
        }
    }

    /// Returns the fields that stand in the way, as JSON pointers, each with its place: to be looked up.
    pub fn fields(&mut self) -> Vec<(String, &mut Location)> {
        match self {
            Self::Conflict(fields) => fields
                .iter_mut()
                .map(|own| (own.pointer.clone(), &mut own.at))
                .collect(),
            Self::Failed(failure) => failure
                .field
                .clone()
                .map(|field| (field, &mut failure.at))
                .into_iter()
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns what stands in the way, and the next thing to do about it; `None` when nothing does.
    pub fn told(&self, kind: &str) -> Option<(String, Option<String>)> {
        Some(match self {
            Self::Created | Self::Configured | Self::Unchanged => return None,
            Self::Conflict(fields) => (conflict(fields), Some(conflict_hint(fields))),
            Self::NotServed => (
                format!(
                    "the API server doesn't serve {kind} of this apiVersion; it is applied as soon as it does"
                ),
                Some("install the CustomResourceDefinition, or correct apiVersion and kind".to_owned()),
            ),
            Self::Recreating { .. } => ("it is recreated when the old one is gone".to_owned(), None),
            Self::Failed(failure) => (failure.message.clone(), failure.hint.clone()),
        })
    }

    /// What was decided isn't so any more: it is looked at again.
    pub(super) fn overtaken(manifest: &Manifest, why: impl Into<String>) -> Self {
        Self::Failed(Failure {
            message: why.into(),
            hint: None,
            at: manifest.source.clone(),
            field: None,
            passing: true,
            fixed: Vec::new(),
        })
    }
}

/// Returns who owns which fields: `autoscaler owns .spec.replicas (line 9); helm owns .spec.paused (line 7)`. The place of
/// a single one is told with the message.
fn conflict(fields: &[Conflict]) -> String {
    let owned: Vec<String> = by_manager(fields)
        .into_iter()
        .map(|(manager, owned)| {
            let owned = owned.iter().map(|own| match fields.len() {
                1 => own.field.clone(),
                _ => format!("{} (line {})", own.field, own.at.line),
            });
            format!("{manager} owns {}", owned.collect::<Vec<_>>().join(", "))
        })
        .collect();
    format!(
        "other managers own fields for which Git has another value: {}",
        owned.join("; ")
    )
}

fn conflict_hint(fields: &[Conflict]) -> String {
    let (it, them) = match fields.len() {
        1 => ("the field", "it"),
        _ => ("the fields", "them"),
    };
    let owners: Vec<&str> = by_manager(fields).into_keys().collect();
    format!(
        "take {it} out of the manifest to leave {them} to {}, or take {them} over: annotation {FORCE_ANNOTATION}: \
         \"true\" on the object, or force: true on the sync",
        owners.join(" and ")
    )
}

fn by_manager(fields: &[Conflict]) -> BTreeMap<&str, Vec<&Conflict>> {
    let mut owners: BTreeMap<&str, Vec<&Conflict>> = BTreeMap::new();
    for own in fields {
        owners.entry(&own.manager).or_default().push(own);
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_every_manager_once_with_its_fields() {
        let own = |manager: &str, field: &str, line: u32| Conflict {
            manager: manager.to_owned(),
            field: field.to_owned(),
            pointer: field.replace('.', "/"),
            at: Location {
                path: "web.yaml".to_owned(),
                line,
                column: 3,
            },
        };
        let outcome = Outcome::Conflict(vec![
            own("autoscaler", ".spec.replicas", 9),
            own("helm", ".spec.paused", 7),
            own("helm", ".spec.strategy", 8),
        ]);
        let (message, hint) = outcome.told("Deployment").unwrap();
        assert_eq!(
            message,
            "other managers own fields for which Git has another value: autoscaler owns .spec.replicas (line 9); helm \
             owns .spec.paused (line 7), .spec.strategy (line 8)"
        );
        assert_eq!(outcome.place().map(|at| at.line), Some(7));
        assert_eq!(
            hint.unwrap(),
            "take the fields out of the manifest to leave them to autoscaler and helm, or take them over: annotation \
             cutover.dev/force: \"true\" on the object, or force: true on the sync"
        );
    }
}
