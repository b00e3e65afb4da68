//! `cutover rollout`: writes and commits the file that lets a workload's changes go cluster by cluster; `undo`, `follow` and `retry`
//! say one thing to it, `policy` writes a RolloutPolicy.

mod policy;
mod strategy;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::connection::{AskArgs, GitArgs};
use super::control::LookArgs;
use super::control_edit::{self, ControlEdit, Target};
use super::fresh::{self, Placed, Spec, Within};
use super::workspace::{ChangeArgs, Workspace};
use super::{joined, named, output, selected, values};
use cutover_core::api::RolloutStatus;
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{Change, Manifest};
use policy::Policy;
use strategy::StrategyArgs;

/// Lets every change of a workload's template go cluster by cluster.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Rollout {
    #[command(subcommand)]
    tells: Option<Tells>,
    #[command(flatten)]
    begin: Begin,
}

/// Says one thing to a rollout, by a commit to its file.
#[derive(Debug, Subcommand)]
enum Tells {
    /// Go back to a revision of the history, cluster by cluster, whatever Git says of the template
    Undo(Undo),
    /// Follow Git again after `undo`
    Follow(Which),
    /// Let a halted rollout try again
    Retry(Which),
    /// Let every change of many workloads go cluster by cluster: write and commit the RolloutPolicy
    Policy(Policy),
}

/// What a new rollout asks for.
#[derive(Args, Debug)]
struct Begin {
    /// The workload, as kubectl takes it: KIND/NAME or NAME of a template in the repository
    #[arg(value_name = "WORKLOAD", required = true)]
    workload: Option<String>,
    #[command(flatten)]
    strategy: StrategyArgs,
    /// When nothing begins any more, and what isn't complete counts as failed
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    deadline: Option<Timestamp>,
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

#[derive(Args, Debug)]
struct Undo {
    #[command(flatten)]
    which: Which,
    /// The revision, by the beginning of its name or of its commit [default: the last one that every cluster had before]
    #[arg(long, value_name = "REVISION")]
    to: Option<String>,
}

#[derive(Args, Debug)]
struct Which {
    /// The Rollout, or with --workload the RolloutPolicy, as a file of the repository names it: NAME or NAMESPACE/NAME
    #[arg(value_name = "NAME")]
    name: String,
    /// The namespace of the Rollout, where its name alone is not enough
    #[arg(short, long)]
    namespace: Option<String>,
    /// Of a RolloutPolicy: which of the workloads that it rolls
    #[arg(long, value_name = "KIND/NAME")]
    workload: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    look: LookArgs,
}

impl Rollout {
    pub async fn run(self) -> Result<ExitCode> {
        match self.tells {
            Some(Tells::Undo(undo)) => undo.run().await,
            Some(Tells::Follow(which)) => which.follow(),
            Some(Tells::Retry(which)) => which.retry(),
            Some(Tells::Policy(policy)) => policy.run().await,
            None => self.begin.run().await,
        }
    }
}

impl Begin {
    async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let workload = self.workload.as_deref().unwrap_or_default();
        let manifest = named::find(&workspace, workload, self.within.namespace.as_deref())?;
        let namespace = workspace.namespace_of(&manifest);
        let about = |rollout: &Manifest, field: &str| {
            rollout.value.pointer(&format!("/spec/workload/{field}")).cloned()
        };
        let is_its = |(rollout, there): &(&Arc<Manifest>, String)| {
            *there == namespace
                && about(rollout, "kind") == Some(json!(manifest.key.kind))
                && about(rollout, "name") == Some(json!(manifest.key.name))
        };
        if let Some((rollout, _)) = workspace.of_kind("Rollout").find(is_its) {
            return Err(Error::user(format!("{} is about it already", rollout.key))
                .at(rollout.source.clone())
                .hint("a workload has one Rollout: change its file"));
        }
        joined::all_are(&self.ask, self.strategy.clusters()).await?;
        let base = &manifest.key.name;
        let rollout = self.placed.beside(&workspace, "Rollout", &manifest, base)?;
        let subject = format!("Let changes of {base} go cluster by cluster");
        let edit = rollout.edit(&self.spec(&manifest), subject, Some(&manifest.key), ".");
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    fn spec(&self, workload: &Manifest) -> Value {
        let mut spec = Spec::default();
        spec.apply("workload", Some(fresh::about(workload)));
        self.strategy.apply(&mut spec);
        spec.apply("deadline", self.deadline.map(|deadline| json!(deadline)));
        spec.value()
    }
}

impl Which {
    fn find<'a>(&'a self, workspace: &'a Workspace) -> Result<Target<'a>> {
        let namespace = self.namespace.as_deref();
        if let Some(workload) = &self.workload {
            return selected::find(workspace, &self.name, namespace, workload);
        }
        let found = workspace.only("Rollout", &self.name, namespace);
        let (manifest, namespace) = found.ok_or_else(|| {
            let is_policy = workspace.only("RolloutPolicy", &self.name, namespace).is_some();
            let hint = if is_policy {
                "it is a RolloutPolicy: say which of its workloads with --workload KIND/NAME"
            } else {
                "name it as NAMESPACE/NAME; cutover rollout KIND/NAME writes one"
            };
            workspace.no_one("Rollout", &self.name, hint)
        })?;
        Ok(Target::intent(manifest, namespace))
    }

    fn follow(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let to = self.find(&workspace)?;
        let name = to.name();
        if to.current("/undoTo").is_none() {
            output::note(format!("nothing to do: {name} follows Git"));
            return Ok(ExitCode::SUCCESS);
        }
        let said = ControlEdit::Plain {
            change: Change::Unset("/spec/undoTo", Value::Null),
            subject: format!("Let {name} follow Git again"),
            body: "What Git has of the template is rolled out again, cluster by cluster.",
        };
        control_edit::apply(&workspace, &to, &said, &self.change, &self.look.git)
    }

    fn retry(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let to = self.find(&workspace)?;
        let retry = to.current("/retry").and_then(Value::as_u64);
        let said = ControlEdit::Plain {
            change: Change::Set("/spec/retry", (retry.unwrap_or_default() + 1).into()),
            subject: format!("Try {} again", to.name()),
            body: "A halted rollout goes on where it stopped.",
        };
        control_edit::apply(&workspace, &to, &said, &self.change, &self.look.git)
    }
}

impl Undo {
    async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.which.change)?;
        let to = self.which.find(&workspace)?;
        let name = to.name();
        let look = &self.which.look;
        let object = selected::object(look, &workspace, &to).await;
        let status: Option<RolloutStatus> =
            object.and_then(|object| serde_json::from_value(object.get("status")?.clone()).ok());
        let revision = match (&self.to, &status) {
            (Some(text), Some(status)) => meant(&name, status, text)?,
            // What it comes to is found out when it is carried out.
            (Some(text), None) => text.clone(),
            (None, Some(status)) => before(&name, status)?,
            (None, None) => {
                return Err(Error::user(format!(
                    "which revisions {name} has can't be told: no control plane could be asked how it stands"
                ))
                .hint("name one with --to: the beginning of its commit will do"));
            }
        };
        if to.current("/undoTo") == Some(&json!(revision)) {
            output::note(format!(
                "nothing to do: {name} is to go back to {revision} already"
            ));
            return Ok(ExitCode::SUCCESS);
        }
        let said = ControlEdit::Plain {
            change: Change::Set("/spec/undoTo", json!(revision)),
            subject: format!("Take {name} back to revision {revision}"),
            body: "Every cluster gets it, in the order of its waves, until `cutover rollout follow`.",
        };
        control_edit::apply(&workspace, &to, &said, &self.which.change, &look.git)
    }
}

/// Returns the name of the one revision that is meant.
fn meant(name: &str, status: &RolloutStatus, text: &str) -> Result<String> {
    let found = status.meant(text).map(|revision| revision.name.clone());
    found.ok_or_else(|| {
        let known: Vec<String> = status
            .revisions
            .iter()
            .map(|known| match &known.git {
                Some(git) => format!("{} ({})", known.name, git.get(..8).unwrap_or(git)),
                None => known.name.clone(),
            })
            .collect();
        Error::user(format!(
            "no revision of {name}, or more than one, is meant by {text}"
        ))
        .hint(format!("there is {}", known.join(", ")))
    })
}

/// Returns the newest revision that every cluster had, other than what is or was last rolled out.
fn before(name: &str, status: &RolloutStatus) -> Result<String> {
    let target = status.target.as_ref();
    let mut complete = status
        .revisions
        .iter()
        .filter(|revision| revision.completed_at.is_some() && Some(&revision.name) != target);
    let newest = complete.next().map(|first| {
        complete.fold(first, |newest, next| {
            if next.completed_at > newest.completed_at {
                next
            } else {
                newest
            }
        })
    });
    newest.map(|revision| revision.name.clone()).ok_or_else(|| {
        Error::user(format!(
            "{name} has no revision before the present one that every cluster had"
        ))
        .hint("name one with --to")
    })
}
