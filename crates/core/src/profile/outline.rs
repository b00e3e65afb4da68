//! What a profile does, in phrases: for lists, and for the reference.

use serde::Serialize;

use super::Error;
use super::catalog::{Catalog, Entry};
use super::expression::written_pointer;
use super::pods::{Selects, selectors};
use crate::api::{PatchOp, Pods, WorkloadProfileSpec};

/// What a profile does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outline {
    pub name: String,
    /// `built-in`, or where it is written: `FILE:LINE:COLUMN`.
    pub origin: String,
    /// The kinds that it is for, and whether it is used for them.
    pub kinds: Vec<Use>,
    /// Whether a second copy would lose or fork state.
    pub stateful: bool,
    /// Whether its state is kept where every cluster reaches it.
    pub state_elsewhere: bool,
    /// The fields that keep a copy from running.
    pub held_by: Vec<String>,
    /// The fields that stop a running copy.
    pub stopped_by: Vec<String>,
    /// What must be so before a copy counts as stopped.
    pub stopped_when: Vec<String>,
    /// The handles that a stopped copy leaves, each with its path.
    pub captures: Vec<Capture>,
    /// The handles that a copy in another cluster starts from, each with the field that names it.
    pub carries: Vec<Carried>,
    /// What templates are refused for.
    pub refuses: Vec<String>,
}

/// A kind that a profile is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// `KIND.GROUP`.
    pub kind: String,
    pub used: bool,
    /// Why it isn't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Where a handle stands in the stopped copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    pub name: String,
    pub json_path: String,
    pub required: bool,
}

/// Where a handle is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Carried {
    pub name: String,
    pub field: String,
}

impl Outline {
    /// Returns what a profile of a catalog does.
    pub fn of(entry: &Entry, catalog: &Catalog) -> Result<Self, Error> {
        let spec = &entry.profile.spec;
        Ok(Self {
            name: entry.name.clone(),
            origin: origin(entry),
            kinds: uses(entry, catalog)?,
            stateful: spec.stateful,
            state_elsewhere: spec.state_elsewhere,
            held_by: spec.hold.iter().map(patched).collect(),
            stopped_by: spec.suspend.iter().map(patched).collect(),
            stopped_when: stopped_when(spec),
            captures: captures(spec),
            carries: carries(spec),
            refuses: refuses(spec),
        })
    }
}

/// Returns where a profile comes from.
pub fn origin(entry: &Entry) -> String {
    if entry.is_built_in {
        "built-in".to_owned()
    } else {
        entry.location("").to_string()
    }
}

fn uses(entry: &Entry, catalog: &Catalog) -> Result<Vec<Use>, Error> {
    let uses = entry.kinds().map(|kind| {
        let because = catalog.why_not(entry, &kind)?;
        Ok(Use {
            kind: kind.to_string(),
            used: because.is_none(),
            because,
        })
    });
    uses.collect()
}

/// Returns what a patch makes of a field: `spec.job.state: suspended`.
pub fn patched(patch: &PatchOp) -> String {
    let path = written_pointer(&patch.path);
    match &patch.value {
        Some(serde_json::Value::String(text)) => format!("{path}: {text}"),
        Some(value) => format!("{path}: {value}"),
        None => format!("no {path}"),
    }
}

fn stopped_when(spec: &WorkloadProfileSpec) -> Vec<String> {
    let conditions = ["it carries the hold", "observedWhen holds", "suspendedWhen holds"];
    let pods = spec
        .no_pods
        .as_ref()
        .map(|pods| format!("no pod with {} is left", selector(pods)));
    let settled = spec
        .settle_for
        .as_ref()
        .map(|settle_for| format!("all that was seen for {settle_for} without any change"));
    let conditions = conditions.map(str::to_owned).into_iter();
    conditions.chain(pods).chain(settled).collect()
}

/// Returns which pods are meant.
pub fn selector(pods: &Pods) -> String {
    let all = selectors(pods).map(|(_, selects)| match selects {
        Selects::At(at) => format!("the labels of {}", written_pointer(at)),
        Selects::By(selector) => selector.to_owned(),
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        "no selector".to_owned()
    } else {
        all.join(" or ")
    }
}

fn captures(spec: &WorkloadProfileSpec) -> Vec<Capture> {
    let capture = spec.capture.iter().map(|rule| Capture {
        name: rule.name.clone(),
        json_path: rule.json_path.clone(),
        required: rule.required,
    });
    capture.collect()
}

fn carries(spec: &WorkloadProfileSpec) -> Vec<Carried> {
    let mut carried = Vec::new();
    for rule in &spec.capture {
        let variable = format!("${{captured.{}}}", rule.name);
        let names_it = |patch: &&PatchOp| {
            let value = patch.value.as_ref().map(ToString::to_string);
            value.is_some_and(|value| value.contains(&variable))
        };
        carried.extend(spec.start.iter().filter(names_it).map(|patch| Carried {
            name: rule.name.clone(),
            field: written_pointer(&patch.path),
        }));
    }
    carried
}

fn refuses(spec: &WorkloadProfileSpec) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for requirement in &spec.requires {
        if !messages.contains(&requirement.message) {
            messages.push(requirement.message.clone());
        }
    }
    messages
}
