//! `cutover rebalance`: writes and commits the file that redistributes workloads over the clusters.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::connection::{AskArgs, GitArgs};
use super::fresh::{Placed, Spec};
use super::moves::MovesArgs;
use super::workspace::{ChangeArgs, Workspace};
use super::{joined, values};
use cutover_core::api::Occasion;
use cutover_core::error::Result;

/// Writes the file that redistributes workloads over the clusters, within what their policies allow.
#[derive(Args, Debug)]
pub struct Rebalance {
    /// Do it again whenever this happens, for as long as the intent is there [default: once, now]
    #[arg(long, value_name = "OCCASION", value_delimiter = ',')]
    when: Vec<When>,
    /// Move nothing: only say in the status what would move
    #[arg(long)]
    say_only: bool,
    /// How many percent two clusters may differ in load [default: 20]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    tolerance: Option<u32>,
    #[command(flatten)]
    moves: MovesArgs,
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
enum When {
    /// A cluster has joined and is ready
    ClusterJoined,
    /// A cluster is gone
    ClusterLeft,
    /// A workload can't be scheduled, or a cluster is asked for more than it has
    CapacityLacking,
}

impl When {
    const fn occasion(self) -> Occasion {
        match self {
            Self::ClusterJoined => Occasion::ClusterJoined,
            Self::ClusterLeft => Occasion::ClusterLeft,
            Self::CapacityLacking => Occasion::CapacityLacking,
        }
    }
}

impl Rebalance {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        joined::all_are(&self.ask, self.moves.targets()).await?;
        let rebalance = self
            .placed
            .of_cluster_scope(&workspace, "Rebalance", "rebalance")?;
        let subject = if self.say_only {
            "Ask what a rebalance would move"
        } else {
            "Rebalance workloads"
        };
        let edit = rebalance.edit(&self.spec(), subject.to_owned(), None, ".");
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    fn spec(&self) -> Value {
        let mut spec = Spec::default();
        let when: Vec<Occasion> = self.when.iter().map(|when| when.occasion()).collect();
        spec.list("when", &when);
        spec.apply("dryRun", self.say_only.then(|| json!(true)));
        spec.apply("tolerance", self.tolerance.map(|percent| json!(percent)));
        self.moves.apply(&mut spec);
        spec.value()
    }
}
