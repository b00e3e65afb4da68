//! `cutover shift`: writes and commits the file that moves replicas step by step; and what `approve`, `pause`, `resume` and
//! `abort` do for such a file.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::connection::GitArgs;
use super::migrate::place;
use super::output;
use super::workspace::{ChangeArgs, Edit, Workspace};
use crate::api;
use crate::error::{Error, Result};
use crate::intent::control::Control;
use crate::manifest::{Change, Manifest, edit};
use crate::name::ClusterName;

/// Writes the file that moves the replicas of a workload to another cluster, some at a time.
#[derive(Args, Debug)]
pub struct Shift {
    /// The workload: KIND/NAME of a template in the repository
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The cluster that has the replicas now
    #[arg(long, value_name = "CLUSTER", required_unless_present = "from_control_plane")]
    from: Option<ClusterName>,
    /// The template itself runs, on the cluster that Karmada is installed on
    #[arg(long, conflicts_with = "from")]
    from_control_plane: bool,
    /// The cluster that they go to
    #[arg(long, value_name = "CLUSTER")]
    to: ClusterName,
    /// How many go at once [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
    /// Instead: how much has gone after each step, such as 10,50,100
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', conflicts_with = "step", value_parser = clap::value_parser!(u32).range(1..=100))]
    percentages: Vec<u32>,
    /// How many replicas must be ready in all: a share of those at the start, or a number [default: 100%]
    #[arg(long, value_name = "FLOOR")]
    floor: Option<String>,
    /// How long it rests after every step, for instance 30s
    #[arg(long, value_name = "DURATION")]
    pause: Option<String>,
    /// It goes on past these percentages only when `cutover approve` says so
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100))]
    approve_at: Vec<u32>,
    /// How long the replicas of one step may take to be ready [default: 10m]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Stay as it is when they don't become ready, instead of going back
    #[arg(long)]
    hold_on_failure: bool,
    /// Keep changes from the old cluster afterwards
    #[arg(long, conflicts_with = "from_control_plane")]
    then_suspend: bool,
    /// When what hasn't gone is brought back, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME")]
    deadline: Option<Timestamp>,
    /// The namespace, where the workload's name alone is not enough
    #[arg(short, long)]
    namespace: Option<String>,
    /// The name of the ReplicaShift [default: WORKLOAD-to-CLUSTER, with a number if that is taken]
    #[arg(long)]
    name: Option<String>,
    /// The file to write [default: NAME.yaml beside other intents, else in intents/]
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    git: GitArgs,
}

impl Shift {
    pub fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let manifest = self.found(&workspace)?;
        let namespace = workspace.namespace_of(&manifest);
        let name = self.free_name(&workspace, &namespace, &manifest.key.name)?;
        let path = match &self.file {
            Some(path) => path.trim_start_matches("./").to_owned(),
            None => place(&workspace, &manifest.key, &namespace, &name)?,
        };
        if workspace.is_taken(&path) {
            return Err(Error::user(format!("{path} is there already")).hint("name another file with --file"));
        }
        let from = self
            .from
            .as_ref()
            .map_or("the control plane", ClusterName::as_str);
        let edit = Edit {
            text: document(&namespace, &name, &self.spec(&manifest))?,
            intent: format!("{namespace}/{name}"),
            subject: format!("Shift {} from {from} to {}", manifest.key.name, self.to),
            body: format!(
                "Asks for ReplicaShift {namespace}/{name} of {} {namespace}/{}, in {path}.",
                manifest.key.kind, manifest.key.name
            ),
            path,
        };
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns only what was asked for: what is left out has its default.
    fn spec(&self, workload: &Manifest) -> Value {
        let mut spec = Map::new();
        let mut say = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec.insert(field.to_owned(), value);
            }
        };
        let what = json!({
            "apiVersion": workload.gvk.api_version(), "kind": workload.gvk.kind, "name": workload.key.name,
        });
        say("workload", Some(what));
        let from = match &self.from {
            Some(cluster) => json!({"cluster": cluster}),
            None => json!({"controlPlane": true}),
        };
        say("from", Some(from));
        say("to", Some(json!(self.to)));
        say("step", self.step.map(|step| json!(step)));
        say(
            "percentages",
            (!self.percentages.is_empty()).then(|| json!(self.percentages)),
        );
        say("floor", self.floor.as_ref().map(|floor| json!(floor)));
        let mut pause = Map::new();
        if let Some(each) = &self.pause {
            pause.insert("each".to_owned(), json!(each));
        }
        if !self.approve_at.is_empty() {
            pause.insert("approval".to_owned(), json!(self.approve_at));
        }
        say("pause", (!pause.is_empty()).then_some(Value::Object(pause)));
        say("timeout", self.timeout.as_ref().map(|timeout| json!(timeout)));
        say("onFailure", self.hold_on_failure.then(|| json!("Hold")));
        say("then", self.then_suspend.then(|| json!({"suspend": [self.from]})));
        say("deadline", self.deadline.map(|deadline| json!(deadline)));
        Value::Object(spec)
    }

    fn found(&self, workspace: &Workspace) -> Result<Arc<Manifest>> {
        let Some((kind, name)) = self.workload.split_once('/') else {
            return Err(Error::user(format!("{} says no kind", self.workload)).hint("name it as KIND/NAME"));
        };
        let is_meant = |manifest: &&Arc<Manifest>| {
            let there = workspace.namespace_of(manifest);
            manifest.key.kind.eq_ignore_ascii_case(kind)
                && manifest.key.name == name
                && self.namespace.as_ref().is_none_or(|wanted| *wanted == there)
        };
        let found: Vec<_> = workspace.set.definitions().filter(is_meant).collect();
        match found.as_slice() {
            [only] => Ok(Arc::clone(only)),
            [] => Err(Error::user(format!("the repository has no {}", self.workload))
                .hint("cutover validate shows what is in it")),
            _ => Err(Error::user(format!("there is more than one {}", self.workload))
                .hint("say which one with --namespace")),
        }
    }

    fn free_name(&self, workspace: &Workspace, namespace: &str, of: &str) -> Result<String> {
        let taken = |name: &str| {
            let mut all = workspace.of_kind("ReplicaShift");
            all.any(|(manifest, there)| there == namespace && manifest.key.name == name)
        };
        if let Some(name) = &self.name {
            if taken(name) {
                return Err(
                    Error::user(format!("there is a ReplicaShift {namespace}/{name} already"))
                        .hint("give it another name with --name, or change its file"),
                );
            }
            return Ok(name.clone());
        }
        let base = format!("{of}-to-{}", self.to);
        let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        Ok(names.find(|name| !taken(name)).unwrap_or(base))
    }
}

/// What a person says to a shift, or to a suspension.
pub enum Said<'a> {
    Control(&'a Control),
    /// It may go on past this percentage.
    Percent(u32, u32, Option<String>),
}

/// Changes the file of such an intent so that it asks for this.
pub fn say(
    workspace: &Workspace,
    manifest: &Arc<Manifest>,
    namespace: &str,
    said: &Said<'_>,
    change: &ChangeArgs,
    git: &GitArgs,
) -> Result<ExitCode> {
    let path = &manifest.source.path;
    let name = format!("{namespace}/{}", manifest.key.name);
    let (edits, subject, body) = match asked(manifest, &name, said)? {
        Asked::Nothing(why) => {
            output::note(format!("nothing to do: {why}"));
            return Ok(ExitCode::SUCCESS);
        }
        Asked::Change(edits, subject, body) => (edits, subject, body),
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
        intent: name,
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

fn asked(manifest: &Manifest, name: &str, said: &Said<'_>) -> Result<Asked> {
    let suspends = manifest.key.kind == "Suspension";
    let is = |field: &str| manifest.value.pointer(field) == Some(&Value::Bool(true));
    let asked = match said {
        Said::Control(Control::Pause) if is("/spec/paused") => {
            return Ok(Asked::Nothing(format!("{name} is paused already")));
        }
        Said::Control(Control::Pause) => (
            Change::Set("/spec/paused", true.into()),
            format!("Pause {name}"),
            if suspends {
                "It goes no further, neither into force nor to its end."
            } else {
                "No further step is begun; what stands stays."
            },
        ),
        Said::Control(Control::Resume) if !is("/spec/paused") => {
            return Ok(Asked::Nothing(format!("{name} is not paused")));
        }
        Said::Control(Control::Resume) => (
            Change::Unset("/spec/paused", false.into()),
            format!("Resume {name}"),
            "It goes on where it stopped.",
        ),
        Said::Control(Control::Abort) if is("/spec/abort") => {
            return Ok(Asked::Nothing(format!("{name} is asked to abort already")));
        }
        Said::Control(Control::Abort) => (
            Change::Set("/spec/abort", true.into()),
            format!("Abort {name}"),
            if suspends {
                "The suspension is taken off: what it kept back goes out."
            } else {
                "The replicas go back to where they were, more there before fewer here."
            },
        ),
        Said::Control(Control::Approve { .. }) => {
            let hint = if suspends {
                "a Suspension waits for nobody's approval"
            } else {
                "approve a percentage of spec.pause.approval: --percent"
            };
            return Err(Error::user(format!("{name} has no phases to approve"))
                .at(manifest.source.clone())
                .hint(hint));
        }
        Said::Percent(percent, attempt, by) => {
            let gates = manifest
                .value
                .pointer("/spec/pause/approval")
                .and_then(Value::as_array);
            if !gates.is_some_and(|gates| gates.contains(&json!(percent))) {
                return Err(
                    Error::user(format!("{name} doesn't wait for an approval of {percent}%"))
                        .at(manifest.location("/spec"))
                        .hint("spec.pause.approval has the percentages that it waits at"),
                );
            }
            let mut approval = json!({"percent": percent, "attempt": attempt});
            if let Some(by) = by {
                approval["by"] = json!(by);
            }
            (
                Change::Append("/spec/approvals", approval),
                format!("Approve {percent}% of {name}"),
                "The shift may go on past it.",
            )
        }
    };
    let (edits, subject, body) = asked;
    Ok(Asked::Change(edits, subject, body))
}

fn document(namespace: &str, name: &str, spec: &Value) -> Result<String> {
    let document = json!({
        "apiVersion": api::API_VERSION,
        "kind": "ReplicaShift",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    });
    serde_yaml::to_string(&document)
        .map_err(|error| Error::internal(format!("the ReplicaShift cannot be written as YAML: {error}")))
}
