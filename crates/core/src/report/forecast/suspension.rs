//! A suspension: every workload that it holds, and in which clusters.

use super::{DryRunOutcome, TOLD, evidence, found, names, outcome};
use crate::api::{SuspensionSpec, SuspensionStatus};
use crate::intent::Seen;
use crate::intent::suspension::{covered, workload};
use crate::plan::{Forecast, ForecastStep};
use cutover_karmada::ResourceBinding;

/// Returns what a suspension would do. `status`: how its machine left it; `bindings`: those of its policy.
pub fn suspension_forecast(
    spec: &SuspensionSpec,
    status: &SuspensionStatus,
    came: &DryRunOutcome,
    bindings: &Seen<Vec<ResourceBinding>>,
) -> Forecast {
    let (outcome, because) = outcome(status, came, || evidence(&status.common));
    let mut remarks = Vec::new();
    let mut steps = match bindings.get() {
        Ok(bindings) => {
            let mut held: Vec<ForecastStep> = bindings.iter().map(|binding| step(spec, binding)).collect();
            held.sort_by(|one, other| one.name.cmp(&other.name));
            held
        }
        Err(_) if *came == DryRunOutcome::NotAsked => Vec::new(),
        Err(why) => {
            remarks.push(format!("which workloads it holds is not known: {why}"));
            Vec::new()
        }
    };
    if let Some(more) = steps.len().checked_sub(TOLD).filter(|more| *more > 0) {
        steps.truncate(TOLD);
        steps.push(ForecastStep::new("…", format!("{more} more")));
    }
    remarks.extend(found(outcome, &status.common));
    Forecast {
        outcome,
        because,
        steps,
        remarks,
        ..Forecast::default()
    }
}

fn step(spec: &SuspensionSpec, binding: &ResourceBinding) -> ForecastStep {
    let there = covered(spec, binding);
    let mut parts = Vec::new();
    if spec.scope.dispatching() {
        parts.push(match there.as_slice() {
            [] => "no change reaches the named clusters; the workload is in none of them now".to_owned(),
            there => format!("no change reaches {}", names(there)),
        });
    }
    if spec.scope.scheduling() {
        let listed = binding.spec.clusters.iter().map(|cluster| &cluster.name);
        parts.push(format!("the scheduler leaves it in {}", names(listed)));
    }
    ForecastStep::new(workload(&binding.spec.resource).to_string(), parts.join("; "))
}
