//! The flags that `cutover evacuate` and `cutover rebalance` share: which workloads move, to which clusters, how many at once.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::intent_file::Spec;
use super::workspace::Workspace;
use super::{named, values};
use cutover_core::api::{self, MovesPhase, TimeSpan};
use cutover_core::error::Result;
use cutover_karmada::name::ClusterName;

#[derive(Args, Debug)]
pub struct MovesArgs {
    /// Move workloads to these clusters only [default: any that a workload's policy allows]
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    to: Vec<ClusterName>,
    /// Which of several suitable clusters a workload moves to
    #[arg(long, value_name = "WHICH", default_value = "least-loaded")]
    choose: Choose,
    /// Only these kinds, as kubectl takes them, for instance FlinkDeployment, deploy or deployments.apps
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Only workloads whose templates have these labels, as in kubectl -l
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = values::labels)]
    selector: Option<String>,
    /// Only these namespaces
    #[arg(short, long = "namespace", value_name = "NAMESPACE", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Which workloads move first, by labels; may be given several times
    #[arg(long, value_name = "SELECTOR", value_parser = values::labels)]
    first: Vec<String>,
    /// How many workloads move at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = values::count)]
    max_parallel: u32,
    /// How many moves may fail before no other one begins
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    max_failures: u32,
    /// How long each workload must be healthy without a break before its source is removed [default: 60s]
    #[arg(long, value_name = "DURATION")]
    healthy_for: Option<TimeSpan>,
    /// Wait for `cutover approve` before the first workload moves; `Moving` is the one phase that can wait
    #[arg(
        long,
        alias = "require-approval",
        value_name = "PHASE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "Moving",
        value_parser = ["Moving"],
        ignore_case = true
    )]
    approve_before: Option<String>,
    /// The time from which no move begins, and moves that are not past their commit point are rolled back
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    deadline: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choose {
    /// The one with the smallest share of its capacity requested
    LeastLoaded,
    /// The one that Karmada's scheduler ranks first
    Scheduler,
}

impl MovesArgs {
    /// Returns the clusters that may take part, where some are named.
    pub fn targets(&self) -> &[ClusterName] {
        &self.to
    }

    /// Adds the fields that were asked for: what is left out has its default.
    pub fn apply(&self, workspace: &Workspace, spec: &mut Spec) -> Result<()> {
        let mut to = Spec::default();
        to.list("clusters", &self.to);
        to.apply(
            "choose",
            (self.choose == Choose::Scheduler).then(|| json!(api::Choose::Scheduler)),
        );
        spec.apply("to", to.some());
        let mut select = Spec::default();
        let kinds = self
            .kinds
            .iter()
            .map(|kind| named::selected_kind(workspace, kind));
        select.list("kinds", &kinds.collect::<Result<Vec<_>>>()?);
        select.apply(
            "labelSelector",
            self.selector.as_ref().map(|labels| json!(labels)),
        );
        select.list("namespaces", &self.namespaces);
        spec.apply("select", select.some());
        let order = self.first.iter();
        let order: Vec<Value> = order.map(|first| json!({"labelSelector": first})).collect();
        spec.list("order", &order);
        spec.apply("maxParallel", Some(json!(self.max_parallel)));
        spec.apply("maxFailures", Some(json!(self.max_failures)));
        let verify = self.healthy_for.as_ref().map(|long| json!({"healthyFor": long}));
        spec.apply("verify", verify);
        let gate = self
            .approve_before
            .as_ref()
            .map(|_| json!({"before": [MovesPhase::Moving]}));
        spec.apply("approval", gate);
        spec.apply("deadline", self.deadline.map(|deadline| json!(deadline)));
        Ok(())
    }
}
