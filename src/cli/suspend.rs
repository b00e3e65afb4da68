//! `cutover suspend`: writes and commits the file that keeps changes from reaching clusters; `resume` ends it, by a commit.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::connection::{AskArgs, GitArgs};
use super::fresh::{self, Placed, Within};
use super::workspace::{ChangeArgs, Edit, Workspace};
use super::{joined, named, values};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{Change, Manifest, edit};
use cutover_karmada::name::ClusterName;

/// Writes the file that stops changes of a workload or a policy from reaching clusters.
#[derive(Args, Debug)]
pub struct Suspend {
    /// What: KIND/NAME or NAME of a workload, or PropagationPolicy/NAME and with it every workload that it selects
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
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    until: Option<Timestamp>,
    /// How long it lasts, for instance 2h
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until", value_parser = values::length)]
    lasts: Option<SignedDuration>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    placed: Placed,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    ask: AskArgs,
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
    pub async fn run(self) -> Result<ExitCode> {
        let until = self.ends()?;
        let workspace = Workspace::open(&self.change)?;
        let manifest = named::find(&workspace, &self.target, self.within.namespace.as_deref())?;
        joined::all_are(&self.ask, &self.clusters).await?;
        let base = format!("suspend-{}", manifest.key.name);
        let suspension = self.placed.beside(&workspace, "Suspension", &manifest, &base)?;
        let subject = format!("Suspend {} {}", manifest.key.kind, manifest.key.name);
        let why = format!(": {}", self.reason);
        let edit = suspension.edit(&self.spec(target(&manifest), until), subject, None, &why);
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns when it is to end by itself: later than now.
    fn ends(&self) -> Result<Option<Timestamp>> {
        let now = now();
        if let Some(until) = self.until.filter(|until| *until <= now) {
            return Err(Error::user(format!(
                "--until {until} is in the past: the suspension would end before it begins"
            ))
            .hint("name a later time, or say how long it lasts: --for 2h"));
        }
        let Some(lasts) = self.lasts else {
            return Ok(self.until);
        };
        let until = now.checked_add(lasts).ok().filter(|until| *until > now);
        let refused = || {
            let why = if lasts.is_positive() {
                "ends later than any time that can be written"
            } else {
                "would end before it begins"
            };
            Error::user(format!("--for {lasts:#}: the suspension {why}"))
                .hint("for instance --for 2h; without --for and --until it lasts until cutover resume")
        };
        until.map(Some).ok_or_else(refused)
    }

    fn spec(&self, target: Value, until: Option<Timestamp>) -> Value {
        let mut spec = json!({"target": target});
        if !self.clusters.is_empty() {
            spec["clusters"] = json!(self.clusters);
        }
        spec["scope"] = self.scope.name().into();
        spec["reason"] = self.reason.as_str().into();
        if let Some(until) = until {
            spec["until"] = until.to_string().into();
        }
        spec
    }
}

/// Returns how a Suspension names what it is about: a policy means everything that it selects.
fn target(manifest: &Manifest) -> Value {
    let is_policy =
        manifest.key.group == "policy.karmada.io" && manifest.key.kind.ends_with("PropagationPolicy");
    if is_policy {
        json!({"policy": {"kind": manifest.key.kind, "name": manifest.key.name}})
    } else {
        json!({"workload": fresh::about(manifest)})
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
        super::output::note(format!("nothing to do: {name} ended at {over}"));
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
        body: format!("Ends Suspension {name}, in {path}: held changes are released."),
    };
    workspace.apply(change, git, &edit)?;
    Ok(ExitCode::SUCCESS)
}

/// In whole seconds, as a person would write it.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
