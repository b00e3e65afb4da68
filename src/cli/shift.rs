//! `cutover shift`: writes and commits the file that moves replicas step by step.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::intent_file::{self, Failure, NewIntentArgs, Spec, Within};
use super::{joined, named, values};
use cutover_core::api::{Floor, TimeSpan};
use cutover_core::error::Result;
use cutover_core::manifest::Manifest;
use cutover_karmada::name::ClusterName;

/// Writes the file that moves the replicas of a workload to another cluster, some at a time.
#[derive(Args, Debug)]
pub struct Shift {
    /// The workload, as kubectl takes it: KIND/NAME or NAME of a template in the repository
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The cluster that has the replicas now
    #[arg(long, value_name = "CLUSTER", required_unless_present = "from_control_plane")]
    from: Option<ClusterName>,
    /// The replicas run on the cluster that hosts Karmada, as the template itself
    #[arg(long, conflicts_with = "from")]
    from_control_plane: bool,
    /// The cluster to move the replicas to
    #[arg(long, value_name = "CLUSTER")]
    to: ClusterName,
    /// How many replicas move in each step [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = values::count)]
    step: Option<u32>,
    /// Instead: how many percent have moved after each step, such as 10,50,100
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', conflicts_with = "step", value_parser = values::percent)]
    percentages: Vec<u32>,
    /// How many replicas must be ready in all: a share of those at the start, or a number [default: 100%]
    #[arg(long, value_name = "FLOOR")]
    floor: Option<Floor>,
    /// How long to wait after each step, for instance 30s
    #[arg(long, value_name = "DURATION")]
    pause: Option<TimeSpan>,
    /// Wait for `cutover approve` at these percentages
    #[arg(long, alias = "approve-at", value_name = "PERCENT", value_delimiter = ',', value_parser = values::percent)]
    approve_before: Vec<u32>,
    /// How long the replicas of a step may take to be ready [default: 10m]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<TimeSpan>,
    /// What happens when the replicas of a step are not ready in time [default: roll-back]
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<Failure>,
    /// An older name of `--on-failure hold`
    #[arg(long, hide = true, conflicts_with = "on_failure")]
    hold_on_failure: bool,
    /// Keep changes from the old cluster afterwards
    #[arg(long, conflicts_with = "from_control_plane")]
    then_suspend: bool,
    /// Roll back a shift that is not complete at this time, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    deadline: Option<Timestamp>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    new: NewIntentArgs,
}

impl Shift {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = self.new.open()?;
        let manifest = named::find(&workspace, &self.workload, self.within.namespace.as_deref())?;
        joined::all_are(&self.new.ask, self.from.iter().chain([&self.to])).await?;
        let base = format!("{}-to-{}", manifest.key.name, self.to);
        let placed = &self.new.placed;
        let shift = placed.beside(&workspace, "ReplicaShift", &manifest, &base)?;
        let from = self
            .from
            .as_ref()
            .map_or("the control plane", ClusterName::as_str);
        let subject = format!("Shift {} from {from} to {}", manifest.key.name, self.to);
        let edit = shift.edit(&self.spec(&manifest), subject, Some(&manifest.key), ".");
        self.new.write(&workspace, &edit)
    }

    /// Returns only what was asked for: what is left out has its default.
    fn spec(&self, workload: &Manifest) -> Value {
        let mut spec = Spec::default();
        spec.apply("workload", Some(intent_file::about(workload)));
        let from = match &self.from {
            Some(cluster) => json!({"cluster": cluster}),
            None => json!({"controlPlane": true}),
        };
        spec.apply("from", Some(from));
        spec.apply("to", Some(json!(self.to)));
        spec.apply("step", self.step.map(|step| json!(step)));
        spec.list("percentages", &self.percentages);
        spec.apply("floor", self.floor.as_ref().map(|floor| json!(floor)));
        let mut pause = Spec::default();
        pause.apply("each", self.pause.as_ref().map(|each| json!(each)));
        pause.list("approval", &self.approve_before);
        spec.apply("pause", pause.some());
        spec.apply("timeout", self.timeout.as_ref().map(|timeout| json!(timeout)));
        let older = self.hold_on_failure.then_some(Failure::Hold);
        let on_failure = self.on_failure.or(older);
        spec.apply("onFailure", on_failure.map(|failure| json!(failure.asked())));
        spec.apply("then", self.then_suspend.then(|| json!({"suspend": [self.from]})));
        spec.apply("deadline", self.deadline.map(|deadline| json!(deadline)));
        spec.value()
    }
}
