//! How everything stands, put together from what the other loops have observed.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;

use super::sync::{LeftBehind, ObjectReport, ObjectResult, PruneReport, SyncReport};
use cutover_cluster::{News, Observer};
use cutover_core::api;
use cutover_core::report::{
    HeldObject, LeftOverview, ObjectNote, Overview, Problem, SyncOverview, UnhealthyWorkload, WaitOverview,
    Web,
};
use cutover_karmada::name::ObjectKey;

/// One sync's reports, under its name.
#[derive(Clone, Debug)]
pub struct Reports {
    pub name: String,
    pub latest: watch::Receiver<Option<Arc<SyncReport>>>,
    /// Since when Git can't be read, if so.
    pub unread: watch::Receiver<Option<Timestamp>>,
}

/// Which workloads are not healthy; `None`: that is not known yet.
pub(super) type Unwell = Option<Vec<UnhealthyWorkload>>;

/// What an overview is made of.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    observer: Observer,
    reports: Vec<Reports>,
    left_behind: watch::Receiver<Vec<LeftBehind>>,
    unhealthy: watch::Receiver<Unwell>,
    web: Option<Web>,
    branch: Option<String>,
}

impl Seen {
    pub(super) fn new(observer: Observer, reports: Vec<Reports>) -> Self {
        let (_nobody, left_behind) = watch::channel(Vec::new());
        let (_nobody, unhealthy) = watch::channel(Some(Vec::new()));
        Self {
            observer,
            reports,
            left_behind,
            unhealthy,
            web: None,
            branch: None,
        }
    }

    /// Links commits to their pages.
    pub(super) fn at(self, web: Option<Web>) -> Self {
        Self { web, ..self }
    }

    /// Tells which branch of the repository is synced that has the status branch, too.
    pub(super) fn of_branch(self, branch: Option<String>) -> Self {
        Self { branch, ..self }
    }

    /// Tells what is left behind, too.
    pub(super) fn with(self, left_behind: watch::Receiver<Vec<LeftBehind>>) -> Self {
        Self { left_behind, ..self }
    }

    /// Tells which workloads are unhealthy, too.
    pub(super) fn with_unhealthy(self, unhealthy: watch::Receiver<Unwell>) -> Self {
        Self { unhealthy, ..self }
    }

    /// Returns what tells of changes of intents.
    pub(super) fn news(&self) -> News {
        self.observer.news()
    }

    /// Returns when a sync has reported since the last overview, something was left behind, or other workloads are unhealthy.
    pub(super) async fn reported(&self) {
        let latest = self.reports.iter().map(|reports| changed(reports.latest.clone()));
        let others = [changed(self.left_behind.clone()), changed(self.unhealthy.clone())];
        let _ = futures::future::select_all(others.into_iter().chain(latest)).await;
    }

    /// Returns whether the intents of some kind have never been listed: that there is none is not known then.
    fn has_unknown_intents(&self) -> bool {
        let mut states = api::KINDS
            .iter()
            .filter_map(|kind| self.observer.state(api::GROUP, kind.name));
        states.any(|state| !state.was_listed())
    }

    pub(super) fn overview(&mut self) -> Overview {
        let syncs: Vec<SyncOverview> = self
            .reports
            .iter_mut()
            .map(|reports| sync_overview(&reports.name, reports.latest.borrow_and_update().as_deref()))
            .collect();
        let revision = syncs.iter().find_map(|sync| sync.revision.clone());
        let left_behind = self.left_behind.borrow_and_update().clone();
        let unhealthy = self.unhealthy.borrow_and_update().clone();
        let overview = Overview {
            revision,
            branch: self.branch.clone(),
            syncs,
            left_behind: left_behind.into_iter().map(left_overview).collect(),
            has_unknown_intents: self.has_unknown_intents(),
            has_unknown_health: unhealthy.is_none(),
            web: self.web.clone(),
            // One that this release can't read is left out.
            ..Overview::of_intents(|kind| self.observer.list(api::GROUP, kind), |_, _, _| {})
        };
        overview.with_unhealthy(unhealthy.unwrap_or_default())
    }
}

/// Returns when there is something new. One that never says anything again is waited for.
pub(super) fn changed<T: Send + Sync + 'static>(mut news: watch::Receiver<T>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        if news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

pub(super) fn sync_overview(name: &str, report: Option<&SyncReport>) -> SyncOverview {
    let Some(report) = report else {
        return SyncOverview {
            name: name.to_owned(),
            ..SyncOverview::default()
        };
    };
    let problems = report.all_problems().into_iter().map(|problem| Problem {
        message: problem.message,
        location: problem.at,
        hint: problem.hint,
    });
    let waiting = report.waits().into_iter().map(|waiting| WaitOverview {
        what: waiting.wait.what.clone(),
        since: waiting.wait.since,
        until: waiting.wait.until,
        overdue: waiting.wait.overdue,
        objects: waiting.objects,
    });
    let is_done = |object: &&ObjectReport| matches!(&object.result, ObjectResult::Applied(outcome) if outcome.is_in_sync());
    let undone = report.objects.values().filter(|object| !is_done(object)).count();
    let staying = report.pruned.iter().flat_map(PruneReport::staying);
    let no_prune = |key| (key, "this sync does not prune".to_owned());
    let orphaned = report.orphaned.iter().map(no_prune);
    let note = |(object, note): (&ObjectKey, String)| ObjectNote {
        object: object.clone(),
        note,
    };
    let held_back = report
        .held_back()
        .map(|(object, by)| HeldObject {
            object: object.clone(),
            by: by.to_owned(),
        })
        .collect();
    SyncOverview {
        name: name.to_owned(),
        revision: Some(report.revision.clone()),
        in_sync: report.desired.saturating_sub(undone),
        held_back,
        waiting: waiting.collect(),
        drifted: report.drifted().map(note).collect(),
        kept: staying.chain(orphaned).map(note).collect(),
        pruning: report.pruned.as_ref().map_or(0, PruneReport::pending),
        problems: problems.collect(),
    }
}

fn left_overview(left: LeftBehind) -> LeftOverview {
    LeftOverview {
        why: left.why,
        hint: left.hint,
        objects: left.objects,
    }
}
