//! `cutover rollout`: writes and commits the file that lets a workload's changes go cluster by cluster; `undo`, `follow` and `retry`
//! change one field of it, `policy` writes a RolloutPolicy.

mod policy;
mod strategy;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::control::IntentArgs;
use super::intent_file::{self, NewIntentArgs, Spec, Within};
use super::target::Target;
use super::workspace::Workspace;
use super::{joined, named, selected, values};
use cutover_core::api::RolloutStatus;
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::Decision;
use cutover_core::manifest::{Change, Manifest};
use policy::Policy;
use strategy::StrategyArgs;

/// Lets every change of a workload's template go cluster by cluster.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Rollout {
    #[command(subcommand)]
    control: Option<RolloutControl>,
    #[command(flatten)]
    begin: Begin,
}

/// Controls a rollout, by a commit to its file.
#[derive(Debug, Subcommand)]
enum RolloutControl {
    /// Go back to an earlier revision, cluster by cluster, whatever template Git has
    Undo(Undo),
    /// Follow Git again after `undo`
    Follow(IntentArgs),
    /// Try a halted rollout again
    Retry(IntentArgs),
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
    /// The time from which no cluster gets a change, and a change that is not complete has failed
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    deadline: Option<Timestamp>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    new: NewIntentArgs,
}

#[derive(Args, Debug)]
struct Undo {
    #[command(flatten)]
    rollout: IntentArgs,
    /// The revision, by the beginning of its name or of its commit [default: the last one that every cluster had before]
    #[arg(long, value_name = "REVISION")]
    to: Option<String>,
}

impl Rollout {
    pub async fn run(self) -> Result<ExitCode> {
        match self.control {
            Some(RolloutControl::Undo(undo)) => undo.run().await,
            Some(RolloutControl::Follow(rollout)) => follow(&rollout),
            Some(RolloutControl::Retry(rollout)) => retry(&rollout),
            Some(RolloutControl::Policy(policy)) => policy.run().await,
            None => self.begin.run().await,
        }
    }
}

impl Begin {
    async fn run(self) -> Result<ExitCode> {
        let workspace = self.new.open()?;
        let workload = self.workload.as_deref().unwrap_or_default();
        let manifest = named::find(&workspace, workload, self.within.namespace.as_deref())?;
        let namespace = workspace.namespace_of(&manifest);
        let base = &manifest.key.name;
        let about = |rollout: &Manifest, field: &str| {
            rollout.value.pointer(&format!("/spec/workload/{field}")).cloned()
        };
        let is_its = |(rollout, there): &(&Arc<Manifest>, String)| {
            *there == namespace
                && about(rollout, "kind") == Some(json!(manifest.key.kind))
                && about(rollout, "name") == Some(json!(manifest.key.name))
        };
        if let Some((rollout, _)) = workspace.of_kind("Rollout").find(is_its) {
            return Err(Error::user(format!(
                "{} rolls out {} {base} already",
                rollout.key, manifest.key.kind
            ))
            .at(rollout.source.clone())
            .hint("a workload has one Rollout: change its file"));
        }
        joined::all_are(&self.new.ask, self.strategy.clusters()).await?;
        let placed = &self.new.placed;
        let rollout = placed.beside(&workspace, "Rollout", &manifest, base)?;
        let subject = format!("Let changes of {base} go cluster by cluster");
        let edit = rollout.edit(&self.spec(&manifest), subject, Some(&manifest.key), ".");
        self.new.write(&workspace, &edit)
    }

    fn spec(&self, workload: &Manifest) -> Value {
        let mut spec = Spec::default();
        spec.apply("workload", Some(intent_file::about(workload)));
        self.strategy.apply(&mut spec);
        spec.apply("deadline", self.deadline.map(|deadline| json!(deadline)));
        spec.value()
    }
}

/// Finds the Rollout that is meant, or the workload of a RolloutPolicy.
fn find(rollout: &IntentArgs, workspace: &Workspace) -> Result<Target> {
    let target = rollout.target(workspace, |kind| kind == "Rollout")?;
    if target.kind() == "Rollout" {
        return Ok(target);
    }
    let hint = if target.kind() == "RolloutPolicy" {
        "name one of its workloads with --workload KIND/NAME"
    } else {
        "cutover rollout KIND/NAME writes one"
    };
    Err(Error::user(format!("{} is not a Rollout", target.full_name()))
        .at(target.manifest.source.clone())
        .hint(hint))
}

fn follow(rollout: &IntentArgs) -> Result<ExitCode> {
    let workspace = rollout.open()?;
    let target = find(rollout, &workspace)?;
    let name = target.name();
    let decision = if target.current("/undoTo").is_none() {
        Decision::Nothing(format!("{name} follows Git"))
    } else {
        Decision::Change {
            change: Change::Unset("/spec/undoTo", Value::Null),
            subject: format!("Let {name} follow Git again"),
            body: "The template that Git has is rolled out again, cluster by cluster.".to_owned(),
        }
    };
    rollout.write(&workspace, &target, decision)
}

fn retry(rollout: &IntentArgs) -> Result<ExitCode> {
    let workspace = rollout.open()?;
    let target = find(rollout, &workspace)?;
    let retry = target.current("/retry").and_then(Value::as_u64);
    let decision = Decision::Change {
        change: Change::Set("/spec/retry", (retry.unwrap_or_default() + 1).into()),
        subject: format!("Try {} again", target.name()),
        body: "The halted rollout continues where it stopped.".to_owned(),
    };
    rollout.write(&workspace, &target, decision)
}

impl Undo {
    async fn run(self) -> Result<ExitCode> {
        let workspace = self.rollout.open()?;
        let target = find(&self.rollout, &workspace)?;
        let name = target.name();
        let known = selected::known(self.rollout.look.look(), &workspace, &target).await;
        let status: Option<RolloutStatus> = known
            .object()
            .and_then(|object| serde_json::from_value(object.get("status")?.clone()).ok());
        let revision = match (&self.to, &status) {
            (Some(text), Some(status)) => meant(&name, status, text)?,
            // The reconciler finds the revision when it carries this out.
            (Some(text), None) => text.clone(),
            (None, Some(status)) => before(&name, status)?,
            (None, None) => {
                return Err(Error::user(format!(
                    "the revisions of {name} are not known: no control plane could be asked how it stands"
                ))
                .hint("name one with --to: the beginning of its commit is enough"));
            }
        };
        let decision = if target.current("/undoTo") == Some(&json!(revision)) {
            Decision::Nothing(format!("{name} is asked to go back to {revision} already"))
        } else {
            Decision::Change {
                change: Change::Set("/spec/undoTo", json!(revision)),
                subject: format!("Take {name} back to revision {revision}"),
                body: "Every cluster gets it, in the order of its waves, until `cutover rollout follow`."
                    .to_owned(),
            }
        };
        self.rollout.write(&workspace, &target, decision)
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
            "{text} is the beginning of no revision of {name}, or of several"
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
        Error::user(format!("{name} has no earlier revision that every cluster had"))
            .hint("name one with --to")
    })
}
