//! A migration as a Mermaid chart, which Git hosts render: its steps, and where the workload ran meanwhile.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use super::{route, status};
use crate::api::{Migration, MigrationStatus, Phase};
use crate::units::duration;
use cutover_base::escape::markdown::task;

/// Returns a `mermaid` code block; `None` before the first step.
pub(super) fn chart(migration: &Migration) -> Option<String> {
    let status = status(migration);
    let begin = status.common.steps.first()?.started_at;
    let end = status
        .common
        .finished_at
        .or_else(|| {
            status
                .common
                .steps
                .iter()
                .filter_map(|step| step.finished_at)
                .max()
        })
        .unwrap_or(begin);
    let mut chart = format!(
        "```mermaid\ngantt\n    dateFormat x\n    axisFormat {}\n    section Steps\n",
        axis(end.duration_since(begin))
    );
    for step in &status.common.steps {
        // A step that goes on has no end yet; the chart shows it as the shortest bar there is.
        let (state, until) = match step.finished_at {
            Some(at) => ("done", millis(at)),
            None => ("active", millis(step.started_at) + 1),
        };
        let _ = writeln!(
            chart,
            "    {} :{state}, {}, {until}",
            task(&step.name),
            millis(step.started_at)
        );
    }
    running(&mut chart, migration, &status, begin, end);
    chart.push_str("```\n");
    Some(chart)
}

/// Adds the bars of where the workload ran, with the pause between them.
fn running(
    chart: &mut String,
    migration: &Migration,
    status: &MigrationStatus,
    begin: Timestamp,
    end: Timestamp,
) {
    let Some((journal, down)) = status
        .journal
        .as_ref()
        .and_then(|journal| Some((journal, journal.down_since?)))
    else {
        return;
    };
    let (source, target) = route(migration);
    let after = match status.phase {
        Phase::RollingBack | Phase::RolledBack | Phase::Aborted | Phase::Failed => source,
        _ => target,
    };
    let _ = writeln!(chart, "    section Running in");
    let _ = writeln!(
        chart,
        "    {} :done, {}, {}",
        task(source),
        millis(begin),
        millis(down)
    );
    if let Some(up) = journal.up_since {
        let pause = duration(up.duration_since(down));
        let _ = writeln!(
            chart,
            "    nowhere ({pause}) :crit, {}, {}",
            millis(down),
            millis(up)
        );
        if end > up {
            let _ = writeln!(
                chart,
                "    {} :active, {}, {}",
                task(after),
                millis(up),
                millis(end)
            );
        }
    }
}

/// What stands below the chart: parts of the time of day, with their units where it isn't all of it.
fn axis(span: SignedDuration) -> &'static str {
    match span.as_secs() {
        ..60 => "%S.%L s",
        60..3600 => "%M min %S s",
        _ => "%H:%M",
    }
}

fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}
