//! How changes go from cluster to cluster, as `cutover rollout` and `cutover rollout policy` are told.

use std::str::FromStr;

use clap::Args;
use jiff::SignedDuration;
use serde_json::json;

use crate::cli::fresh::Spec;
use cutover_karmada::name::ClusterName;

#[derive(Args, Debug)]
pub(super) struct StrategyArgs {
    /// One cluster after the other, in this order; those that aren't named come after
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    order: Vec<ClusterName>,
    /// Clusters that get a change together, and how long they must be good, such as eu-1,eu-2=10m; several times, in order
    #[arg(long = "wave", value_name = "CLUSTERS[=DURATION]", conflicts_with = "order")]
    waves: Vec<Wave>,
    /// How long a cluster must be healthy without a break [default: 30s]
    #[arg(long, value_name = "DURATION")]
    healthy_for: Option<SignedDuration>,
    /// How long it may be other than healthy [default: 10m]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<SignedDuration>,
    /// How many clusters may have got the change and not be good yet [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_unavailable: Option<u32>,
    /// Take all clusters back to what they had when one isn't good in time, instead of halting
    #[arg(long)]
    undo_on_failure: bool,
    /// These waves begin only when `cutover approve --wave` says so, counted from 1
    #[arg(long, value_name = "WAVE", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    approve_before: Vec<u32>,
}

/// Clusters that are released together.
#[derive(Clone, Debug)]
struct Wave {
    clusters: Vec<ClusterName>,
    soak: Option<String>,
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
        let soak = soak.map(|soak| {
            soak.parse()
                .map(seconds)
                .map_err(|error: jiff::Error| error.to_string())
        });
        Ok(Self {
            clusters: clusters.into_iter().map(ClusterName::from).collect(),
            soak: soak.transpose()?,
        })
    }
}

fn seconds(long: SignedDuration) -> String {
    format!("{}s", long.as_secs())
}

impl StrategyArgs {
    /// Says what was asked for: what is left out has its default.
    pub(super) fn say(&self, spec: &mut Spec) {
        spec.list("order", &self.order);
        let waves = self.waves.iter().map(|wave| match &wave.soak {
            Some(soak) => json!({"clusters": wave.clusters, "soak": soak}),
            None => json!({"clusters": wave.clusters}),
        });
        spec.list("waves", &waves.collect::<Vec<_>>());
        let mut progress = Spec::default();
        progress.say("timeout", self.timeout.map(|long| json!(seconds(long))));
        progress.say("healthyFor", self.healthy_for.map(|long| json!(seconds(long))));
        spec.say("progress", progress.some());
        spec.say(
            "maxUnavailableClusters",
            self.max_unavailable.map(|most| json!(most)),
        );
        spec.say("onFailure", self.undo_on_failure.then(|| json!("Undo")));
        let gated = !self.approve_before.is_empty();
        spec.say(
            "approval",
            gated.then(|| json!({"beforeWaves": self.approve_before})),
        );
    }
}
