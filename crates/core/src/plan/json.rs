//! A plan for programs: a versioned document. Its JSON Schema, `schemas/plan.json`, is made from these types.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::fields::FieldChange;
use super::view::{Shown, View};
use super::{Action, Forecast, Problem, Summary};
use crate::api::API_VERSION;
use crate::redact::MASK;
use cutover_karmada::name::{Location, Revision};

const KIND: &str = "Plan";

/// A plan as `-o json` prints it. What is in sync is counted, not listed. Secrets are masked.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "Plan")]
pub struct Document {
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: &'static str,
    #[schemars(extend("const" = KIND))]
    pub kind: &'static str,
    /// The commit that is planned.
    pub revision: Option<Revision>,
    /// The commit that it is compared with: only what changed between the two is planned.
    pub base: Option<Revision>,
    /// 64 hexadecimal digits. `cutover run --once --plan-hash` carries out a plan of this hash and no other.
    pub hash: Option<String>,
    pub summary: Summary,
    /// In the order in which they are carried out.
    pub changes: Vec<PlannedChange>,
    /// What could not be read in Git. Objects of such files are left alone.
    pub problems: Vec<Problem>,
    /// With a base: how many other objects may differ from Git.
    pub elsewhere: Option<usize>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    pub action: ActionName,
    /// By what it is held back, or why it is recreated, blocked or left behind.
    pub reason: Option<String>,
    /// What an intent asks for, in words.
    pub intent: Option<String>,
    /// What would come of an intent that is new or changed, or of the rollout that takes a template along.
    pub forecast: Option<Forecast>,
    /// Why the API server could not be asked what it makes of this; absent: it was, or the answer is known.
    pub unchecked: Option<String>,
    /// What may be lost by it: no profile says whether there is state to lose.
    pub warning: Option<String>,
    /// What becomes of the workload in the clusters, if its template leaves Git.
    pub effect: Option<String>,
    pub object: ObjectId,
    /// Where Git has it.
    pub source: Option<Location>,
    /// The fields that change. Of an object that comes or goes: one, the whole.
    pub fields: Vec<PlannedField>,
}

/// What is to be done with an object, or isn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActionName {
    Create,
    Configure,
    Unchanged,
    Delete,
    Recreate,
    HeldBack,
    Blocked,
    LeftBehind,
}

impl Action {
    pub const fn name(&self) -> ActionName {
        match self {
            Self::Create => ActionName::Create,
            Self::Configure => ActionName::Configure,
            Self::Unchanged => ActionName::Unchanged,
            Self::Delete => ActionName::Delete,
            Self::Recreate { .. } => ActionName::Recreate,
            Self::HeldBack { .. } => ActionName::HeldBack,
            Self::Blocked { .. } => ActionName::Blocked,
            Self::LeftBehind { .. } => ActionName::LeftBehind,
        }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedField {
    /// A JSON pointer (RFC 6901) into the object as it will be; of a removed field, into the object as it was.
    pub path: String,
    /// The same for people: items of lists are called by their names.
    pub field: String,
    /// Absent: the field is added.
    pub before: Option<Value>,
    /// Absent: the field is removed.
    pub after: Option<Value>,
    /// Whether something in it is secret, and masked: `***` is the same before and after, `*** (old)` and `*** (new)` differ.
    pub masked: bool,
}

impl View<'_> {
    /// Returns the form for programs.
    pub fn document(&self) -> Document {
        let set = self.set;
        Document {
            api_version: API_VERSION,
            kind: KIND,
            revision: set.revision.clone(),
            base: set.base.clone(),
            hash: self.hash.map(ToString::to_string),
            summary: set.summary(),
            changes: self.pending().map(planned).collect(),
            problems: set.problems.clone(),
            elsewhere: set.base.as_ref().map(|_| set.elsewhere),
        }
    }
}

fn planned(shown: Shown<'_>) -> PlannedChange {
    let change = shown.change;
    PlannedChange {
        action: change.action.name(),
        reason: shown.reason().map(str::to_owned),
        intent: shown.story(),
        forecast: change.forecast.clone(),
        unchecked: change.unchecked.clone(),
        warning: change.warning.clone(),
        effect: change.effect.clone(),
        object: ObjectId {
            api_version: change.gvk.api_version(),
            kind: change.gvk.kind.clone(),
            namespace: change.key.namespace.clone(),
            name: change.key.name.clone(),
        },
        source: change.source.clone(),
        fields: fields(shown),
    }
}

fn fields(shown: Shown<'_>) -> Vec<PlannedField> {
    match (&shown.before, &shown.after) {
        (None, None) => Vec::new(),
        (Some(_), Some(_)) => shown.fields().into_iter().map(planned_field).collect(),
        _ => vec![PlannedField::new(
            String::new(),
            String::new(),
            shown.before,
            shown.after,
        )],
    }
}

/// Returns a field that changes, whose secrets are masked already.
pub(super) fn planned_field(change: FieldChange) -> PlannedField {
    let (path, field) = (change.path.pointer(), change.path.to_string());
    PlannedField::new(path, field, change.before, change.after)
}

impl PlannedField {
    fn new(path: String, field: String, before: Option<Value>, after: Option<Value>) -> Self {
        let masked = [&before, &after]
            .into_iter()
            .flatten()
            .any(|value| value.to_string().contains(MASK));
        Self {
            path,
            field,
            before,
            after,
            masked,
        }
    }
}
