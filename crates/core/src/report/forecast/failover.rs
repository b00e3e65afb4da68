//! A failover plan: what it guards, what it takes over from Karmada's failover, and what becomes of the old copy.

use super::{DryRunOutcome, outcome};
use crate::api::{FailoverPlanSpec, FailoverPlanStatus, FencedBy, SourceUnreachable};
use crate::intent::Seen;
use crate::plan::{Forecast, ForecastStep};
use cutover_karmada::{Failover, PurgeMode, ResourceBinding};

/// Returns what a plan would do. `status`: how its machine left it; `binding`: that of its workload.
pub fn failover_forecast(
    spec: &FailoverPlanSpec,
    status: &FailoverPlanStatus,
    came: &DryRunOutcome,
    binding: &Seen<Option<ResourceBinding>>,
) -> Forecast {
    let in_force = || vec![format!("{} of it is in force", status.phase)];
    let (outcome, because) = outcome(status, came, in_force);
    let mut remarks = Vec::new();
    let failover = match binding.get() {
        Ok(binding) => binding.as_ref().and_then(|binding| binding.spec.failover.clone()),
        Err(why) => {
            if *came != DryRunOutcome::NotAsked {
                remarks.push(format!("what Karmada's failover is set to is not known: {why}"));
            }
            None
        }
    };
    let known = matches!(binding.get(), Ok(Some(_)));
    if known
        && failover
            .as_ref()
            .is_none_or(|failover| failover.application.is_none())
    {
        remarks.push(
            "its policy asks for no application failover: a workload that is ill stays where it is"
                .to_owned(),
        );
    }
    let writer = status
        .journal
        .as_ref()
        .and_then(|journal| journal.writer.as_ref());
    let writer = writer.map_or_else(|| "the cluster in which it runs".to_owned(), ToString::to_string);
    let failover = failover.unwrap_or_default();
    let mut steps = vec![
        ForecastStep::new(
            "guard",
            format!("a pin lets {writer} alone run it: whatever else gets a copy holds it"),
        ),
        ForecastStep::new("eviction", eviction(&failover)),
    ];
    steps.extend(old_copies(spec, &failover));
    steps.push(ForecastStep::new(
        "unreachable",
        unreachable(&spec.source_unreachable),
    ));
    steps.push(ForecastStep::new("release", release(spec)));
    Forecast {
        outcome,
        because,
        steps,
        remarks,
        ..Forecast::default()
    }
}

fn eviction(failover: &Failover) -> String {
    let when = match &failover.application {
        Some(application) => format!(
            "Karmada decides when (after {} s of being ill, or by a taint) and where to",
            application.decision_conditions.toleration_seconds
        ),
        None => "Karmada decides when and where to".to_owned(),
    };
    format!(
        "{when}; its failover is taken off the binding until the new copy runs, so that the held copy isn't evicted too"
    )
}

/// One line a purge mode: applications and clusters may have different ones.
fn old_copies(spec: &FailoverPlanSpec, failover: &Failover) -> Vec<ForecastStep> {
    let application = failover
        .application
        .as_ref()
        .map(|of| ("application", of.purge_mode));
    let cluster = failover.cluster.as_ref().map(|of| ("cluster", of.purge_mode));
    let within = &spec.stop_within;
    let told = application.into_iter().chain(cluster).map(|(of, mode)| {
        let (name, what) = match mode {
            PurgeMode::Directly | PurgeMode::Immediately => (
                "Directly",
                "Karmada deletes it at once; the state is what was preserved, or seen last".to_owned(),
            ),
            PurgeMode::Gracefully | PurgeMode::Graciously => (
                "Gracefully",
                format!("it is stopped with its state within {within} if it is well, else removed at once"),
            ),
            PurgeMode::Never if spec.purge.confirm => (
                "Never",
                format!(
                    "it is stopped with its state within {within} and kept, held, until its purge is approved"
                ),
            ),
            PurgeMode::Never => (
                "Never",
                format!("it is stopped with its state within {within} and kept, held"),
            ),
        };
        ForecastStep::new(format!("old copy ({of} failover, {name})"), what)
    });
    told.collect()
}

fn unreachable(source: &SourceUnreachable) -> String {
    match (&source.proceed_after, source.fenced_by) {
        (Some(after), Some(FencedBy::Approval)) => {
            format!(
                "while the old copy is not visible the new one is held; after {after} cutover asks for an approval"
            )
        }
        (Some(after), Some(FencedBy::NodeFencing)) => format!(
            "while the old copy is not visible the new one is held; after {after} cutover treats the old one as fenced by the \
             infrastructure"
        ),
        _ => "while the old copy is not visible, the new one is held".to_owned(),
    }
}

fn release(spec: &FailoverPlanSpec) -> String {
    let mut states = vec!["captured".to_owned()];
    states.push(match spec.preserved.as_slice() {
        [] => "preserved by Karmada".to_owned(),
        rules => {
            let labels: Vec<&str> = rules.iter().map(|rule| rule.label.as_str()).collect();
            format!("preserved by Karmada ({})", labels.join(", "))
        }
    });
    if spec.capture.continuous {
        states.push("seen last".to_owned());
    }
    format!(
        "the new copy starts once the old one is proved harmless, from the newest state: {}; a person is asked before it \
         starts from nothing",
        states.join(", else ")
    )
}
