//! What runs where, as a table: a row for each copy.

use std::collections::{BTreeMap, BTreeSet};

use super::intents::ago;
use super::lines::{Line, table};
use super::{Dashboard, Layout};
use crate::api::Phase;
use crate::report::copies::{
    Copies, CopyState, MemberCopy, Moving, UnhealthyWorkload, WorkloadCopies, WorkloadKey,
};
use crate::report::snapshot::UnhealthySnapshot;
use crate::report::told::{BAD, BUSY, GOOD, NAME, QUIET, styled};
use crate::report::{Overview, status};

/// As many workloads are shown, whoever asks for them.
const FEW: usize = 12;

/// Adds the table: the workloads of intents that have not ended, and those with a copy that is not as it should be; of the others
/// how many there are.
pub fn add(copies: &Copies, all: &Dashboard, layout: &Layout, page: &mut Vec<Line>) {
    if let Some(why) = &copies.unknown {
        begin(page);
        let text = format!("{} {why}", styled(BUSY, "what runs where is not known:"));
        page.push(Line::new(text));
        return;
    }
    let is_part = all.is_part;
    let is_shown = |one: &WorkloadCopies| {
        let named = all.named.get(&one.key);
        let is_named = named.is_some_and(|goes_on| is_part || *goes_on);
        is_named || (!is_part && (layout.all || copies.workloads.len() <= FEW || one.is_unhealthy()))
    };
    let (shown, others): (Vec<&WorkloadCopies>, Vec<_>) =
        copies.workloads.iter().partition(|one| is_shown(one));
    if !shown.is_empty() {
        begin(page);
        let rows: Vec<Vec<String>> = shown.iter().flat_map(|one| rows(one, layout)).collect();
        page.extend(table(
            &["WORKLOAD", "CLUSTER", "SINCE", "STATE"],
            &rows,
            QUIET,
            layout.fitting(),
        ));
    }
    if !others.is_empty() && !is_part {
        page.push(Line::new(styled(QUIET, rest(&others))));
    }
    if layout.wide && !shown.is_empty() {
        page.push(Line::new(""));
    }
}

/// Adds the workloads that the status branch says are not healthy.
pub fn add_unhealthy(unhealthy: &UnhealthySnapshot, page: &mut Vec<Line>) {
    begin(page);
    for one in &unhealthy.workloads {
        page.push(Line::new(format!("{} {one}", styled(BAD, "not healthy:"))));
    }
    match unhealthy.count.saturating_sub(unhealthy.workloads.len()) {
        0 => {}
        more => page.push(Line::new(format!("and {more} more that are not healthy"))),
    }
}

fn begin(page: &mut Vec<Line>) {
    if !page.is_empty() {
        page.push(Line::new(""));
    }
}

/// Counts those that are not shown, none of which has a copy that is known to be unwell.
fn rest(others: &[&WorkloadCopies]) -> String {
    let is_healthy = |one: &&&WorkloadCopies| {
        let mut copies = one.clusters.iter();
        !one.clusters.is_empty() && copies.all(|copy| copy.state == CopyState::Healthy)
    };
    let healthy = others.iter().filter(is_healthy).count();
    let s = if others.len() == 1 { "" } else { "s" };
    let all = format!("and {} more workload{s}", others.len());
    match others.len() - healthy {
        0 => format!("{all}, healthy in every cluster (--all)"),
        more => format!("{all}, {healthy} healthy in every cluster, {more} not known to be (--all)"),
    }
}

fn rows(one: &WorkloadCopies, layout: &Layout) -> Vec<Vec<String>> {
    let mut title = Some(styled(NAME, &one.key));
    if one.clusters.is_empty() {
        let state = styled(BUSY, "no cluster is chosen");
        return vec![vec![
            title.unwrap_or_default(),
            "-".to_owned(),
            "-".to_owned(),
            state,
        ]];
    }
    let row = |copy: &MemberCopy| {
        let since = copy.since.map(|since| ago(since, layout.now));
        let mut state = styled(style(copy.state), copy.state.words());
        match (&copy.message, copy.state, &one.claimed_by) {
            (Some(message), _, _) => state += &format!(": {message}"),
            (None, CopyState::Held, Some(by)) => state += &format!(" by {by}"),
            _ => {}
        }
        vec![
            title.take().unwrap_or_default(),
            copy.cluster.clone(),
            since.unwrap_or_else(|| "-".to_owned()),
            state,
        ]
    };
    one.clusters.iter().map(row).collect()
}

const fn style(state: CopyState) -> anstyle::Style {
    match state {
        CopyState::Healthy => GOOD,
        CopyState::Unhealthy | CopyState::NotApplied | CopyState::Unknown => BAD,
        CopyState::Held
        | CopyState::Leaving
        | CopyState::Moving
        | CopyState::Unreported
        | CopyState::Unconfirmed => BUSY,
        CopyState::Applied => QUIET,
    }
}

impl Overview {
    /// Takes in which workloads are not healthy. Copies that a migration starts or stops right now are none of them.
    #[must_use]
    pub fn with_unhealthy(self, all: Vec<UnhealthyWorkload>) -> Self {
        let moving = self.moving();
        let at_rest = all.into_iter().filter_map(|one| one.at_rest(&moving));
        Self {
            unhealthy: at_rest.collect(),
            ..self
        }
    }

    /// Returns the copies that migrations and failovers start or stop right now.
    pub(in crate::report) fn moving(&self) -> Moving {
        let mut moving = Moving::new();
        for migration in &self.migrations {
            let status = status(migration);
            let is_moving = matches!(
                status.phase,
                Phase::Capture | Phase::Handoff | Phase::Verify | Phase::RollingBack
            );
            if is_moving {
                let workload = WorkloadKey::of(migration, &migration.spec.workload);
                let clusters = status.source.iter().chain([&migration.spec.to]);
                let names = clusters.map(ToString::to_string);
                moving.entry(workload).or_default().extend(names);
            }
        }
        for plan in &self.failover_plans {
            let status = status(plan);
            let flight = status
                .journal
                .as_ref()
                .and_then(|journal| journal.flight.as_ref());
            if let Some(flight) = flight.filter(|_| status.phase.in_flight()) {
                let workload = WorkloadKey::of(plan, &plan.spec_in_force().workload);
                let clusters = std::iter::once(&flight.from).chain(&flight.to);
                let names = clusters.map(ToString::to_string);
                moving.entry(workload).or_default().extend(names);
            }
        }
        moving
    }

    /// Returns the workloads of which nobody was seen running since a migration has told one to stop.
    pub(in crate::report) fn workloads_down(&self) -> BTreeSet<WorkloadKey> {
        let down = self.migrations.iter().filter(|migration| {
            let status = migration.status.as_ref();
            let journal = status.and_then(|status| status.journal_in_force());
            let goes_on = status.is_some_and(|status| !status.phase.is_terminal());
            goes_on
                && journal.is_some_and(|journal| journal.down_since.is_some() && journal.up_since.is_none())
        });
        down.map(|migration| WorkloadKey::of(migration, &migration.spec.workload))
            .collect()
    }

    /// Returns the workloads that intents are about, and whether one of these goes on.
    pub(in crate::report) fn workloads_named(&self) -> BTreeMap<WorkloadKey, bool> {
        let migrations = self.migrations.iter().map(super::migration::summary);
        let mut named = BTreeMap::new();
        for one in self.summaries().into_iter().chain(migrations) {
            for workload in one.workloads {
                *named.entry(workload).or_default() |= !one.has_ended;
            }
        }
        named
    }
}
