//! `cutover evacuate`: writes and commits the file that empties a cluster.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::intent_file::{NewIntentArgs, Spec};
use super::joined;
use super::moves::MovesArgs;
use super::workspace::Workspace;
use cutover_core::api;
use cutover_core::error::{Error, Result};
use cutover_karmada::name::ClusterName;

/// Writes the file that moves the workloads of a cluster to others.
#[derive(Args, Debug)]
pub struct Evacuate {
    /// The cluster to empty
    #[arg(
        value_name = "CLUSTER",
        required_unless_present = "taint",
        conflicts_with = "taint"
    )]
    cluster: Option<ClusterName>,
    /// Empty every cluster that has this taint, until the intent is deleted
    #[arg(long, value_name = "KEY[=VALUE]")]
    taint: Option<String>,
    #[command(flatten)]
    moves: MovesArgs,
    /// Move the workloads that can be moved, although others cannot
    #[arg(long)]
    leave_unmovable: bool,
    /// Do not cordon the cluster: Karmada may schedule new workloads to it meanwhile
    #[arg(long, conflicts_with = "keep_cordoned")]
    no_cordon: bool,
    /// Keep the cluster cordoned afterwards, until the intent is deleted
    #[arg(long)]
    keep_cordoned: bool,
    #[command(flatten)]
    new: NewIntentArgs,
}

impl Evacuate {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = self.new.open()?;
        joined::all_are(&self.new.ask, self.cluster.iter().chain(self.moves.targets())).await?;
        let taint = self
            .taint
            .as_deref()
            .map(|taint| taint.split_once('=').unwrap_or((taint, "")));
        let what = match (&self.cluster, taint) {
            (Some(cluster), _) => cluster.to_string(),
            (None, Some((key, _))) => key.rsplit('/').next().unwrap_or(key).to_owned(),
            (None, None) => return Err(Error::internal("neither a cluster nor a taint was given")),
        };
        let base = format!("evacuate-{}", what.to_lowercase());
        let placed = &self.new.placed;
        let evacuation = placed.of_cluster_scope(&workspace, "Evacuation", &base)?;
        let spec = self.spec(&workspace, taint)?;
        let edit = evacuation.edit(&spec, format!("Evacuate {what}"), None, ".");
        self.new.write(&workspace, &edit)
    }

    /// Returns only what was asked for: what is left out has its default.
    fn spec(&self, workspace: &Workspace, taint: Option<(&str, &str)>) -> Result<Value> {
        let mut spec = Spec::default();
        spec.apply("cluster", self.cluster.as_ref().map(|cluster| json!(cluster)));
        spec.apply(
            "taint",
            taint.map(|(key, value)| match value {
                "" => json!({"key": key}),
                value => json!({"key": key, "value": value}),
            }),
        );
        self.moves.apply(workspace, &mut spec)?;
        let leave = self.leave_unmovable.then(|| json!(api::Unmovable::Leave));
        spec.apply("unmovable", leave);
        spec.apply("cordon", self.no_cordon.then(|| json!(false)));
        spec.apply("keepCordoned", self.keep_cordoned.then(|| json!(true)));
        Ok(spec.value())
    }
}
