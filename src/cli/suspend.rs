//! `cutover suspend`: writes and commits the file that keeps changes from reaching clusters; `resume` ends it, by a commit.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::connection::GitArgs;
use super::migrate::place;
use super::workspace::{ChangeArgs, Edit, Workspace};
use crate::api;
use crate::error::{Error, Result};
use crate::manifest::{Change, Manifest, edit};
use crate::name::ClusterName;

/// Writes the file that stops changes of a workload or a policy from reaching clusters.
#[derive(Args, Debug)]
pub struct Suspend {
    /// What: KIND/NAME of a workload, or PropagationPolicy/NAME and with it every workload that it selects
    #[arg(value_name = "TARGET")]
    target: String,
    /// Why; stands in the status for everybody
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Only these clusters [default: all]
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',')]
    clusters: Vec<ClusterName>,
    /// What waits
    #[arg(long, value_name = "WHAT", default_value = "dispatching")]
    scope: Scope,
    /// When it ends by itself, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// How long it lasts, for instance 2h
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    lasts: Option<SignedDuration>,
    /// The namespace, where the target's name alone is not enough
    #[arg(short, long)]
    namespace: Option<String>,
    /// The name of the Suspension [default: suspend-NAME, with a number if that is taken]
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// Changes are computed, and not sent to the members
    Dispatching,
    /// The scheduler leaves the workloads where they are
    Scheduling,
    Both,
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Dispatching => "Dispatching",
            Self::Scheduling => "Scheduling",
            Self::Both => "Both",
        }
    }
}

impl Suspend {
    pub fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let (target, manifest) = self.found(&workspace)?;
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => workspace.namespace_of(&manifest),
        };
        let name = self.free_name(&workspace, &namespace, &manifest.key.name)?;
        let path = match &self.file {
            Some(path) => path.trim_start_matches("./").to_owned(),
            None => place(&workspace, &manifest.key, &namespace, &name)?,
        };
        if workspace.is_taken(&path) {
            return Err(Error::user(format!("{path} is there already")).hint("name another file with --file"));
        }
        let what = format!("{} {}", manifest.key.kind, manifest.key.name);
        let edit = Edit {
            text: document(&namespace, &name, &self.spec(target))?,
            intent: format!("{namespace}/{name}"),
            subject: format!("Suspend {what}"),
            body: format!(
                "Asks for Suspension {namespace}/{name}, in {path}: {}",
                self.reason
            ),
            path,
        };
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    fn spec(&self, target: Value) -> Value {
        let mut spec = json!({"target": target});
        if !self.clusters.is_empty() {
            spec["clusters"] = json!(self.clusters);
        }
        spec["scope"] = self.scope.name().into();
        spec["reason"] = self.reason.as_str().into();
        let until = self.until.or_else(|| self.lasts.map(|lasts| now() + lasts));
        if let Some(until) = until {
            spec["until"] = until.to_string().into();
        }
        spec
    }

    /// Returns the target and the object that it is.
    fn found(&self, workspace: &Workspace) -> Result<(Value, Arc<Manifest>)> {
        let Some((kind, name)) = self.target.split_once('/') else {
            return Err(Error::user(format!("{} says no kind", self.target)).hint(
                "name it as KIND/NAME: Deployment/web, or PropagationPolicy/web for all that it selects",
            ));
        };
        let is_meant = |manifest: &&Arc<Manifest>| {
            let there = workspace.namespace_of(manifest);
            manifest.key.kind.eq_ignore_ascii_case(kind)
                && manifest.key.name == name
                && self.namespace.as_ref().is_none_or(|wanted| *wanted == there)
        };
        let found: Vec<_> = workspace.set.definitions().filter(is_meant).collect();
        let manifest = match found.as_slice() {
            [only] => Arc::clone(only),
            [] => {
                return Err(Error::user(format!("the repository has no {}", self.target))
                    .hint("cutover validate shows what is in it"));
            }
            _ => {
                return Err(Error::user(format!("there is more than one {}", self.target))
                    .hint("say which one with --namespace"));
            }
        };
        let is_policy =
            manifest.key.group == "policy.karmada.io" && manifest.key.kind.ends_with("PropagationPolicy");
        let target = if is_policy {
            json!({"policy": {"kind": manifest.key.kind, "name": name}})
        } else {
            json!({"workload": {
                "apiVersion": manifest.gvk.api_version(), "kind": manifest.gvk.kind, "name": name,
            }})
        };
        Ok((target, manifest))
    }

    fn free_name(&self, workspace: &Workspace, namespace: &str, of: &str) -> Result<String> {
        let taken = |name: &str| {
            let mut all = workspace.suspensions();
            all.any(|(manifest, there)| there == namespace && manifest.key.name == name)
        };
        if let Some(name) = &self.name {
            if taken(name) {
                return Err(
                    Error::user(format!("there is a Suspension {namespace}/{name} already"))
                        .hint("give it another name with --name, or change its file"),
                );
            }
            return Ok(name.clone());
        }
        let base = format!("suspend-{of}");
        let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        Ok(names.find(|name| !taken(name)).unwrap_or(base))
    }
}

/// Ends a suspension: its time is over now.
pub fn resume(
    workspace: &Workspace,
    manifest: &Arc<Manifest>,
    namespace: &str,
    change: &ChangeArgs,
    git: &GitArgs,
) -> Result<ExitCode> {
    let path = &manifest.source.path;
    let name = format!("{namespace}/{}", manifest.key.name);
    let text = workspace
        .text(path)
        .ok_or_else(|| Error::internal(format!("{path} was read and has no text")))?;
    if manifest.value.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        return Err(
            Error::user(format!("Suspension {name} is paused, and would not end"))
                .at(manifest.location("/spec/paused"))
                .hint("take spec.paused away first"),
        );
    }
    let over = manifest.value.pointer("/spec/until").and_then(Value::as_str);
    let over = over.and_then(|until| until.parse::<Timestamp>().ok());
    let now = now();
    if let Some(over) = over.filter(|over| *over <= now) {
        super::output::note(format!("nothing to do: {name} was over at {over}"));
        return Ok(ExitCode::SUCCESS);
    }
    let until = Change::Set("/spec/until", now.to_string().into());
    let text = edit(text, manifest, &until).map_err(|error| {
        let hint = format!("edit it by hand: {}", until.by_hand());
        Error::user(error.to_string()).at(error.at).hint(hint)
    })?;
    let edit = Edit {
        path: path.clone(),
        text,
        intent: name.clone(),
        subject: format!("Resume {name}"),
        body: format!("Ends Suspension {name}, in {path}: what it kept back goes out."),
    };
    workspace.apply(change, git, &edit)?;
    Ok(ExitCode::SUCCESS)
}

/// In whole seconds, as a person would write it.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn document(namespace: &str, name: &str, spec: &Value) -> Result<String> {
    let document = json!({
        "apiVersion": api::API_VERSION,
        "kind": "Suspension",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    });
    serde_yaml::to_string(&document)
        .map_err(|error| Error::internal(format!("the Suspension cannot be written as YAML: {error}")))
}
