//! The flags that `cutover rollout` and `cutover rollout policy` share: how a change goes from cluster to cluster.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::cli::intent_file::Spec;
use crate::cli::values;
use cutover_core::api::{NotATimeSpan, OnRolloutFailure, TimeSpan};
use cutover_karmada::name::ClusterName;

#[derive(Args, Debug)]
pub(super) struct StrategyArgs {
    /// One cluster after the other, in this order; clusters that are not named come last
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    order: Vec<ClusterName>,
    /// Clusters that get a change together, and how long they must be healthy, such as eu-1,eu-2=10m; may be given several times, in order
    #[arg(long = "wave", value_name = "CLUSTERS[=DURATION]", conflicts_with = "order")]
    waves: Vec<Wave>,
    /// How long a cluster must be healthy without a break [default: 30s]
    #[arg(long, value_name = "DURATION")]
    healthy_for: Option<TimeSpan>,
    /// How long a cluster may be unhealthy [default: 10m]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<TimeSpan>,
    /// How many clusters may have the change and not be healthy yet [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = values::count)]
    max_unavailable: Option<u32>,
    /// What happens when a cluster is not healthy in time [default: halt]
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<Failure>,
    /// An older name of `--on-failure undo`
    #[arg(long, hide = true, conflicts_with = "on_failure")]
    undo_on_failure: bool,
    /// Waves that wait for `cutover approve --wave` before they begin, counted from 1
    #[arg(long, value_name = "WAVE", value_delimiter = ',', value_parser = values::count)]
    approve_before: Vec<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Failure {
    /// No other cluster gets the change until a person decides
    Halt,
    /// All clusters go back to the revision that they had
    Undo,
}

impl Failure {
    const fn asked(self) -> OnRolloutFailure {
        match self {
            Self::Halt => OnRolloutFailure::Halt,
            Self::Undo => OnRolloutFailure::Undo,
        }
    }
}

/// Clusters that are released together.
#[derive(Clone, Debug)]
struct Wave {
    clusters: Vec<ClusterName>,
    soak: Option<TimeSpan>,
}

impl FromStr for Wave {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (clusters, soak) = match text.split_once('=') {
            Some((clusters, soak)) => (clusters, Some(soak)),
            None => (text, None),
        };
        let clusters: Vec<&str> = clusters.split(',').map(str::trim).collect();
        if clusters.iter().any(|name| name.is_empty()) {
            return Err("name clusters, such as eu-1,eu-2=10m".to_owned());
        }
        let soak = soak.map(|soak| soak.parse().map_err(|error: NotATimeSpan| error.to_string()));
        Ok(Self {
            clusters: clusters.into_iter().map(ClusterName::from).collect(),
            soak: soak.transpose()?,
        })
    }
}

impl StrategyArgs {
    /// Returns every cluster that is named.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let waves = self.waves.iter().flat_map(|wave| &wave.clusters);
        self.order.iter().chain(waves)
    }

    /// Adds the fields that were asked for: what is left out has its default.
    pub(super) fn apply(&self, spec: &mut Spec) {
        spec.list("order", &self.order);
        let waves = self.waves.iter().map(|wave| match &wave.soak {
            Some(soak) => json!({"clusters": wave.clusters, "soak": soak}),
            None => json!({"clusters": wave.clusters}),
        });
        spec.list("waves", &waves.collect::<Vec<_>>());
        let mut progress = Spec::default();
        progress.apply("timeout", self.timeout.as_ref().map(|long| json!(long)));
        progress.apply("healthyFor", self.healthy_for.as_ref().map(|long| json!(long)));
        spec.apply("progress", progress.some());
        spec.apply(
            "maxUnavailableClusters",
            self.max_unavailable.map(|most| json!(most)),
        );
        let older = self.undo_on_failure.then_some(Failure::Undo);
        let on_failure = self.on_failure.or(older);
        spec.apply("onFailure", on_failure.map(|failure| json!(failure.asked())));
        let gated = !self.approve_before.is_empty();
        spec.apply(
            "approval",
            gated.then(|| json!({"beforeWaves": self.approve_before})),
        );
    }
}
