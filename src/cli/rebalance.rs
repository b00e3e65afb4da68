//! `cutover rebalance`: writes and commits the file that redistributes workloads over the clusters.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::intent_file::{NewIntentArgs, Spec};
use super::moves::MovesArgs;
use super::workspace::Workspace;
use super::{joined, values};
use cutover_core::api::Occasion;
use cutover_core::error::Result;

/// Writes the file that redistributes workloads over the clusters, within what their policies allow.
#[derive(Args, Debug)]
pub struct Rebalance {
    /// Rebalance again whenever this happens, until the intent is deleted [default: once, now]
    #[arg(long, value_name = "OCCASION", value_delimiter = ',')]
    when: Vec<When>,
    /// Move nothing: only report in the status what would move
    #[arg(long, alias = "say-only")]
    report_only: bool,
    /// How many percent two clusters may differ in load [default: 20]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    tolerance: Option<u32>,
    #[command(flatten)]
    moves: MovesArgs,
    #[command(flatten)]
    new: NewIntentArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// A cluster has joined and is ready
    ClusterJoined,
    /// A cluster has left
    ClusterLeft,
    /// A workload cannot be scheduled, or the requests in a cluster exceed its capacity
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
        let workspace = self.new.open()?;
        joined::all_are(&self.new.ask, self.moves.targets()).await?;
        let placed = &self.new.placed;
        let rebalance = placed.of_cluster_scope(&workspace, "Rebalance", "rebalance")?;
        let subject = if self.report_only {
            "Report what a rebalance would move"
        } else {
            "Rebalance workloads"
        };
        let edit = rebalance.edit(&self.spec(&workspace)?, subject.to_owned(), None, ".");
        self.new.write(&workspace, &edit)
    }

    fn spec(&self, workspace: &Workspace) -> Result<Value> {
        let mut spec = Spec::default();
        let when: Vec<Occasion> = self.when.iter().map(|when| when.occasion()).collect();
        spec.list("when", &when);
        spec.apply("dryRun", self.report_only.then(|| json!(true)));
        spec.apply("tolerance", self.tolerance.map(|percent| json!(percent)));
        self.moves.apply(workspace, &mut spec)?;
        Ok(spec.value())
    }
}
