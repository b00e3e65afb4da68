//! What a command controls: the intent that a person names, or one of the workloads that a RolloutPolicy rolls, and the change of its
//! file.

use std::sync::Arc;

use serde_json::{Value, json};

use super::connection::GitArgs;
use super::intent_name::{self, IntentName};
use super::output;
use super::workspace::{ChangeArgs, Edit, Workspace};
use cutover_core::api::{Intent as _, KINDS, Rollout};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::Decision;
use cutover_core::manifest::{Change, Manifest};
use cutover_core::report::MANY;
use cutover_karmada::name::Location;

/// An intent of the repository, or one of the workloads of a RolloutPolicy.
#[derive(Debug)]
pub struct Target {
    pub manifest: Arc<Manifest>,
    /// `None`: of cluster scope.
    pub namespace: Option<String>,
    pub workload: Option<Selected>,
}

/// One of the workloads that a RolloutPolicy selects, which is controlled by the policy's `controls`.
#[derive(Debug)]
pub struct Selected {
    pub template: Arc<Manifest>,
    /// Where among the controls there are some of this workload already.
    pub at: Option<usize>,
}

/// Where a RolloutPolicy controls single workloads.
const CONTROLS: &str = "/spec/controls";

/// An intent, or a workload of a RolloutPolicy, as its file or the control plane has it: what is decided about a control depends on this.
#[derive(Debug)]
pub struct Controlled<'a> {
    /// A workload of a policy has the controls of a Rollout.
    pub kind: &'a str,
    pub name: String,
    /// The name, with the kind.
    pub full_name: String,
    /// As a whole: of a workload, the policy.
    pub object: &'a Value,
    spec: Option<&'a Value>,
    /// `None`: no file asks for it.
    file: Option<&'a Manifest>,
}

/// Finds the one intent that is meant by `NAME`, `NAMESPACE/NAME` or `KIND/NAME`, of whatever kind; `None`: no file defines one. `fits`:
/// whether the rest of the command line can be about a kind, which tells apart intents that have one name.
pub fn find_intent(
    workspace: &Workspace,
    named: &str,
    namespace: Option<&str>,
    fits: impl Fn(&str) -> bool,
) -> Result<Option<Target>> {
    let meant = IntentName::new(named, namespace);
    let is_meant = |one: &Target| {
        let key = &one.manifest.key;
        meant.means(&key.kind, one.namespace.as_deref(), &key.name)
    };
    let all = KINDS.iter().flat_map(|kind| of_kind(workspace, kind.name));
    let mut found: Vec<Target> = all.filter(is_meant).collect();
    if found.iter().any(|one| fits(one.kind())) {
        found.retain(|one| fits(one.kind()));
    }
    let last = found.pop();
    match (last, found.as_slice()) {
        (Some(only), []) => Ok(Some(only)),
        (Some(last), others) => Err(ambiguous(named, &last, others)),
        (None, _) => Ok(None),
    }
}

fn of_kind(workspace: &Workspace, kind: &'static str) -> impl Iterator<Item = Target> {
    let all = workspace.of_kind(kind);
    all.map(move |(manifest, namespace)| Target {
        manifest: Arc::clone(manifest),
        namespace: (!MANY.contains(&kind)).then_some(namespace),
        workload: None,
    })
}

fn ambiguous(named: &str, last: &Target, others: &[Target]) -> Error {
    let is_same = |one: &&Target| one.kind() == last.kind() && one.namespace == last.namespace;
    if let Some(first) = others.iter().find(is_same) {
        return Error::user(format!("{} is defined more than once", first.full_name()))
            .at(first.manifest.source.clone())
            .hint("cutover validate shows where");
    }
    let all = others.iter().chain([last]);
    let all: Vec<_> = all
        .map(|one| {
            let namespace = one.namespace.as_deref().unwrap_or_default();
            (one.kind(), namespace, one.manifest.key.name.as_str())
        })
        .collect();
    intent_name::ambiguous(named, &all)
}

impl Target {
    /// Returns an intent of a namespace.
    pub fn intent(manifest: Arc<Manifest>, namespace: String) -> Self {
        Self {
            manifest,
            namespace: Some(namespace),
            workload: None,
        }
    }

    /// Returns namespace and name of the intent.
    pub fn intent_name(&self) -> String {
        let name = &self.manifest.key.name;
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.clone(),
        }
    }

    /// Returns the name of what is controlled.
    pub fn name(&self) -> String {
        let name = self.intent_name();
        match &self.workload {
            Some(Selected { template, .. }) => {
                format!("{} {} of {name}", template.key.kind, template.key.name)
            }
            None => name,
        }
    }

    /// Returns the name, with the kind.
    pub fn full_name(&self) -> String {
        match &self.workload {
            Some(_) => self.name(),
            None => format!("{} {}", self.kind(), self.name()),
        }
    }

    /// Returns the kind that is controlled: a workload of a policy has the controls of a Rollout.
    pub fn kind(&self) -> &str {
        match &self.workload {
            Some(_) => Rollout::KIND,
            None => &self.manifest.key.kind,
        }
    }

    /// Returns what the file says in a field of a spec, such as `/paused`.
    pub fn current(&self, field: &str) -> Option<&Value> {
        self.spec()?.pointer(field)
    }

    fn spec(&self) -> Option<&Value> {
        let object = &self.manifest.value;
        match &self.workload {
            None => object.get("spec"),
            Some(selected) => object.pointer(&format!("{CONTROLS}/{}", selected.at?)),
        }
    }

    /// Returns it as its file has it.
    pub fn controlled(&self) -> Controlled<'_> {
        Controlled {
            kind: self.kind(),
            name: self.name(),
            full_name: self.full_name(),
            object: &self.manifest.value,
            spec: self.spec(),
            file: Some(&self.manifest),
        }
    }

    /// Writes and commits what was decided.
    pub fn write(
        &self,
        workspace: &Workspace,
        decision: Decision,
        args: &ChangeArgs,
        git: &GitArgs,
    ) -> Result<()> {
        let (change, subject, body) = match decision {
            Decision::Nothing(why) => {
                output::note(format!("nothing to do: {why}"));
                return Ok(());
            }
            Decision::Change {
                change,
                subject,
                body,
            } => (self.change(change), subject, body),
        };
        let edit = Edit {
            path: self.manifest.source.path.clone(),
            text: workspace.edited(&self.manifest, &change)?,
            intent: self.intent_name(),
            subject,
            body,
        };
        workspace.apply(args, git, &edit)
    }

    /// Returns a change of a spec as one of the file.
    fn change(&self, change: Change) -> Change {
        let Some(selected) = &self.workload else {
            return change;
        };
        let change = change.from("/spec");
        if let Some(index) = selected.at {
            return Change::Within(CONTROLS, index, Box::new(change));
        }
        let key = &selected.template.key;
        let item = json!({"kind": key.kind, "name": key.name});
        let changed = change.outcomes(&item).into_iter().next();
        Change::Append(CONTROLS, changed.unwrap_or(item))
    }
}

impl<'a> Controlled<'a> {
    /// Takes an intent as the control plane has it. `name`: with its namespace.
    pub fn live(kind: &'a str, name: String, object: &'a Value) -> Self {
        Self {
            kind,
            full_name: format!("{kind} {name}"),
            name,
            object,
            spec: object.get("spec"),
            file: None,
        }
    }

    /// Returns what a field of the spec says, such as `/paused`.
    pub fn current(&self, field: &str) -> Option<&Value> {
        self.spec?.pointer(field)
    }

    /// Returns whether a field of the spec is true.
    pub fn is_set(&self, field: &str) -> bool {
        self.current(field) == Some(&Value::Bool(true))
    }

    /// Returns an error about it, with the place where its file defines it.
    pub fn error(&self, message: impl Into<String>) -> Error {
        located(message, self.file.map(|file| file.source.clone()))
    }

    /// Returns an error about one of its fields, with the place where its file has that.
    pub fn error_at(&self, pointer: &str, message: impl Into<String>) -> Error {
        located(message, self.file.map(|file| file.location(pointer)))
    }
}

fn located(message: impl Into<String>, place: Option<Location>) -> Error {
    let error = Error::user(message);
    match place {
        Some(place) => error.at(place),
        None => error,
    }
}
