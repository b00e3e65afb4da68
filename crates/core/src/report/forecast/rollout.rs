//! A rollout: its waves, and what each cluster keeps meanwhile; and a policy that makes rollouts.

use super::{DryRunOutcome, TOLD, names, outcome};
use crate::api::{OnRolloutFailure, RolloutPolicySpec, RolloutSpec, RolloutStatus, RolloutStrategy, Wave};
use crate::intent::Seen;
use crate::intent::rollout::waves;
use crate::plan::{Forecast, ForecastStep, Outcome};
use cutover_karmada::Cluster;
use cutover_karmada::name::{ClusterName, ObjectKey};

/// Where a workload runs, and all clusters there are.
pub type Where = (Vec<ClusterName>, std::collections::BTreeMap<ClusterName, Cluster>);

/// Returns what a rollout would do with the next change of its template. `status`: how its machine left it.
pub fn rollout_forecast(
    spec: &RolloutSpec,
    status: &RolloutStatus,
    came: &DryRunOutcome,
    place: &Seen<Where>,
) -> Forecast {
    let in_force = || vec!["the template is as it shall be; its next change goes this way".to_owned()];
    let (outcome, because) = outcome(status, came, in_force);
    let mut remarks = Vec::new();
    let strategy = &spec.strategy;
    let waves = match place.get() {
        Ok((listed, clusters)) => {
            remarks.extend(strangers(strategy, listed));
            waves(strategy, listed, clusters)
        }
        Err(why) => {
            remarks.push(format!(
                "in which clusters it runs is not known ({why}): those that aren't named here come after, one by one"
            ));
            asked(strategy)
        }
    };
    if let Some(revision) = &spec.controls.undo_to {
        remarks.push(format!(
            "it goes back to revision {revision}, whatever Git says of the template"
        ));
    }
    remarks.push(on_failure(strategy));
    Forecast {
        outcome,
        because,
        steps: steps(strategy, &waves),
        remarks,
        ..Forecast::default()
    }
}

/// Returns what a policy would do with the changes of the templates that it selects. `selected`: what Git has of them, where
/// that is known.
pub fn rollout_policy_forecast(spec: &RolloutPolicySpec, selected: Option<&[ObjectKey]>) -> Forecast {
    let strategy = &spec.strategy;
    let others = "clusters that aren't named here come after, one by one";
    let at_once = match spec.max_parallel {
        1 => "changes of one workload at a time; the others wait for their turn".to_owned(),
        most => format!(
            "changes of at most {most} workloads are under way at once; the others wait for their turn"
        ),
    };
    let mut remarks = vec![on_failure(strategy), others.to_owned(), at_once];
    let (outcome, because) = match selected {
        None => (
            Outcome::Unknown,
            "which workloads it selects was not looked up".to_owned(),
        ),
        Some([]) => (Outcome::Nothing, "it selects no workload in Git".to_owned()),
        Some(some) => {
            let told: Vec<String> = some.iter().take(TOLD).map(ToString::to_string).collect();
            let more = some.len().saturating_sub(TOLD);
            let more = (more > 0).then(|| format!(", and {more} more"));
            remarks.push(format!(
                "it selects {}{}",
                told.join(", "),
                more.unwrap_or_default()
            ));
            let because = "each change of the templates that it selects goes this way";
            (Outcome::Nothing, because.to_owned())
        }
    };
    Forecast {
        outcome,
        because: vec![because],
        steps: steps(strategy, &asked(strategy)),
        remarks,
        ..Forecast::default()
    }
}

fn steps(strategy: &RolloutStrategy, waves: &[Wave]) -> Vec<ForecastStep> {
    let hold = "a pin keeps every cluster at what it has; then the template changes";
    let mut steps = vec![ForecastStep::new("hold", hold)];
    steps.extend(
        (1..)
            .zip(waves)
            .map(|(number, wave)| step(strategy, number, wave)),
    );
    let end = "every cluster has the change: the pin is taken off";
    steps.push(ForecastStep::new("end", end));
    steps
}

fn on_failure(strategy: &RolloutStrategy) -> String {
    match strategy.on_failure {
        OnRolloutFailure::Halt => "if a cluster isn't good in time, no further one gets the change",
        OnRolloutFailure::Undo => "if a cluster isn't good in time, all go back to what they had",
    }
    .to_owned()
}

fn step(strategy: &RolloutStrategy, number: u32, wave: &Wave) -> ForecastStep {
    let gated = strategy
        .approval
        .as_ref()
        .is_some_and(|gate| gate.before_waves.contains(&number));
    let gate = if gated { "waits for an approval; " } else { "" };
    let soak = wave.soak.as_ref().unwrap_or(&strategy.progress.healthy_for);
    let checks = match strategy.progress.checks.len() {
        0 => String::new(),
        1 => ", with a check".to_owned(),
        more => format!(", with {more} checks"),
    };
    let what = format!(
        "{gate}{} (healthy within {}, for {soak}{checks})",
        names(&wave.clusters),
        strategy.progress.timeout
    );
    ForecastStep::new(format!("wave {number}"), what)
}

/// The waves as far as the spec alone says.
fn asked(strategy: &RolloutStrategy) -> Vec<Wave> {
    let one = |name: &ClusterName| Wave {
        clusters: vec![name.clone()],
        soak: None,
    };
    let order = strategy.order.iter().map(one);
    order.chain(strategy.waves.iter().cloned()).collect()
}

fn strangers(strategy: &RolloutStrategy, listed: &[ClusterName]) -> Option<String> {
    let named = strategy.order.iter();
    let named = named.chain(strategy.waves.iter().flat_map(|wave| &wave.clusters));
    let strange: Vec<&ClusterName> = named.filter(|name| !listed.contains(name)).collect();
    (!strange.is_empty()).then(|| format!("it doesn't run in {}, though that is named", names(strange)))
}
