//! What `approve`, `pause`, `resume` and `abort` do for intents other than migrations: each is one field of a file.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use super::connection::GitArgs;
use super::output;
use super::workspace::{ChangeArgs, Edit, Workspace};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::Control;
use cutover_core::manifest::{Change, Manifest, edit};

/// The kinds that are told by [`apply`].
pub const KINDS: [&str; 5] = [
    "ReplicaShift",
    "Suspension",
    "Rollout",
    "RolloutPolicy",
    "FailoverPlan",
];

/// Who is told: an intent, or one of the workloads of a RolloutPolicy.
pub struct Target<'a> {
    pub manifest: &'a Arc<Manifest>,
    pub namespace: String,
    pub workload: Option<Selected>,
}

/// One of the workloads that a RolloutPolicy selects, which is told by the policy's `controls`.
pub struct Selected {
    pub template: Arc<Manifest>,
    /// Where among the controls something is said to it already.
    pub at: Option<usize>,
}

impl<'a> Target<'a> {
    pub const fn intent(manifest: &'a Arc<Manifest>, namespace: String) -> Self {
        Self {
            manifest,
            namespace,
            workload: None,
        }
    }

    /// Returns namespace and name of the intent.
    pub fn intent_name(&self) -> String {
        format!("{}/{}", self.namespace, self.manifest.key.name)
    }

    /// Returns what people call it.
    pub fn name(&self) -> String {
        let name = self.intent_name();
        match &self.workload {
            Some(Selected { template, .. }) => {
                format!("{} {} of {name}", template.key.kind, template.key.name)
            }
            None => name,
        }
    }

    /// Returns the kind whose words are meant.
    fn kind(&self) -> &str {
        match &self.workload {
            Some(_) => "Rollout",
            None => &self.manifest.key.kind,
        }
    }

    /// Returns what is said to it already, in a field of a spec such as `/paused`.
    pub fn current(&self, field: &str) -> Option<&Value> {
        let place = match &self.workload {
            None => format!("/spec{field}"),
            Some(selected) => format!("{CONTROLS}/{}{field}", selected.at?),
        };
        self.manifest.value.pointer(&place)
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
        let said = change.outcomes(&item).into_iter().next();
        Change::Append(CONTROLS, said.unwrap_or(item))
    }
}

/// Where a RolloutPolicy speaks to single workloads.
const CONTROLS: &str = "/spec/controls";

/// What a person says to such an intent.
pub enum ControlEdit<'a> {
    Control(&'a Control),
    /// A gate of the intent opens.
    Gate(Gate),
    /// Something that only one kind is told.
    Plain {
        change: Change,
        subject: String,
        body: &'static str,
    },
}

/// A person's leave to go on.
pub struct Gate {
    pub at: At,
    pub attempt: u32,
    pub by: Option<String>,
}

/// Where an intent waits for a person.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// A ReplicaShift, at a percentage.
    Percent(u32),
    /// A Rollout, before a wave.
    Wave(u32),
}

impl At {
    /// The kind that has such gates.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Percent(_) => "ReplicaShift",
            Self::Wave(_) => "Rollout",
        }
    }

    /// Where the file says that it waits.
    const fn gates(self) -> &'static str {
        match self {
            Self::Percent(_) => "/spec/pause/approval",
            Self::Wave(_) => "/spec/approval/beforeWaves",
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::Percent(number) | Self::Wave(number) => number,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Percent(percent) => format!("{percent}%"),
            Self::Wave(wave) => format!("wave {wave}"),
        }
    }

    fn approval(self, attempt: u32, by: Option<&String>) -> Value {
        let mut approval = match self {
            Self::Percent(percent) => json!({"percent": percent, "attempt": attempt}),
            Self::Wave(wave) => json!({"wave": wave, "attempt": attempt}),
        };
        if let Some(by) = by {
            approval["by"] = json!(by);
        }
        approval
    }
}

/// Changes the file of such an intent so that it asks for this.
pub fn apply(
    workspace: &Workspace,
    to: &Target<'_>,
    said: &ControlEdit<'_>,
    change: &ChangeArgs,
    git: &GitArgs,
) -> Result<ExitCode> {
    let manifest = to.manifest;
    let path = &manifest.source.path;
    let (edits, subject, body) = match asked(to, said)? {
        Asked::Nothing(why) => {
            output::note(format!("nothing to do: {why}"));
            return Ok(ExitCode::SUCCESS);
        }
        Asked::Change(edits, subject, body) => (to.change(edits), subject, body),
    };
    let text = workspace
        .text(path)
        .ok_or_else(|| Error::internal(format!("{path} was read and has no text")))?;
    let text = edit(text, manifest, &edits).map_err(|error| {
        let hint = format!("edit it by hand: {}", edits.by_hand());
        Error::user(error.to_string()).at(error.at).hint(hint)
    })?;
    let edit = Edit {
        path: path.clone(),
        text,
        intent: to.intent_name(),
        subject,
        body: body.to_owned(),
    };
    workspace.apply(change, git, &edit)?;
    Ok(ExitCode::SUCCESS)
}

/// What is to be changed in the file, with the subject and the body of the commit.
enum Asked {
    Nothing(String),
    Change(Change, String, &'static str),
}

fn asked(to: &Target<'_>, said: &ControlEdit<'_>) -> Result<Asked> {
    let (name, manifest) = (to.name(), to.manifest);
    let control = match said {
        ControlEdit::Plain {
            change,
            subject,
            body,
        } => return Ok(Asked::Change(change.clone(), subject.clone(), body)),
        ControlEdit::Gate(gate) => return approved(manifest, &name, gate),
        ControlEdit::Control(control) => control,
    };
    let is = |field: &str| to.current(field) == Some(&Value::Bool(true));
    let kind = to.kind();
    Ok(match control {
        Control::Pause if is("/paused") => Asked::Nothing(format!("{name} is paused already")),
        Control::Pause => {
            let change = Change::Set("/spec/paused", true.into());
            Asked::Change(change, format!("Pause {name}"), pause(kind))
        }
        Control::Resume if !is("/paused") => Asked::Nothing(format!("{name} is not paused")),
        Control::Resume => {
            let change = Change::Unset("/spec/paused", false.into());
            Asked::Change(change, format!("Resume {name}"), "It goes on where it stopped.")
        }
        Control::Abort if kind == "RolloutPolicy" => {
            return Err(Error::user(format!("{name} has nothing to abort"))
                .at(manifest.source.clone())
                .hint("abort what it rolls, one by one: --workload KIND/NAME; or pause all of it: cutover pause"));
        }
        Control::Abort if is("/abort") => Asked::Nothing(format!("{name} is asked to abort already")),
        Control::Abort => {
            let change = Change::Set("/spec/abort", true.into());
            Asked::Change(change, format!("Abort {name}"), abort(kind))
        }
        Control::Assume { .. } => {
            return Err(only_migrations(&name, &manifest.key.kind).at(manifest.source.clone()));
        }
        Control::Approve { .. } => {
            return Err(Error::user(format!("{name} has no phases to approve"))
                .at(manifest.source.clone())
                .hint(approve(kind)));
        }
    })
}

/// A word for what can't be seen has a meaning to migrations alone.
pub fn only_migrations(name: &str, kind: &str) -> Error {
    Error::user(format!("{kind} {name} does not accept assumptions"))
        .hint("a Migration does; what a FailoverPlan asks is answered by cutover approve --gate")
}

fn approved(manifest: &Manifest, name: &str, gate: &Gate) -> Result<Asked> {
    let (pointer, number) = (gate.at.gates(), gate.at.number());
    let gates = manifest.value.pointer(pointer).and_then(Value::as_array);
    if !gates.is_some_and(|gates| gates.contains(&json!(number))) {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        return Err(Error::user(format!(
            "{name} doesn't wait for an approval of {}",
            gate.at.words()
        ))
        .at(manifest.location("/spec"))
        .hint(format!("{field} says where it waits")));
    }
    let approval = gate.at.approval(gate.attempt, gate.by.as_ref());
    let subject = format!("Approve {} of {name}", gate.at.words());
    let body = match gate.at {
        At::Percent(_) => "The shift may go on past it.",
        At::Wave(_) => "The wave may begin.",
    };
    Ok(Asked::Change(
        Change::Append("/spec/approvals", approval),
        subject,
        body,
    ))
}

fn pause(kind: &str) -> &'static str {
    match kind {
        "Suspension" => "It goes no further, neither into force nor to its end.",
        "Rollout" => "No further cluster is released; those that have the change keep it.",
        "RolloutPolicy" => {
            "No further cluster is released, of whichever workload; those that have a change keep it."
        }
        "FailoverPlan" => "Nothing new is begun; what is held stays held.",
        _ => "No further step is begun; what stands stays.",
    }
}

fn abort(kind: &str) -> &'static str {
    match kind {
        "Suspension" => "The suspension is removed: held changes are released.",
        "Rollout" => "All clusters go back to what they had; nothing begins until this is taken away.",
        "FailoverPlan" => "The guard comes off once nothing is under way.",
        _ => "The replicas go back to where they were, more there before fewer here.",
    }
}

fn approve(kind: &str) -> &'static str {
    match kind {
        "Suspension" => "a Suspension needs no approval",
        "Rollout" => "approve a wave of spec.approval.beforeWaves: --wave",
        "RolloutPolicy" => {
            "approve a wave of spec.approval.beforeWaves for one of its workloads: --workload KIND/NAME --wave"
        }
        _ => "approve a percentage of spec.pause.approval: --percent",
    }
}
