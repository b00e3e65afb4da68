//! What a sync waits for of other syncs: that they are in sync, and healthy if they wait for that, with the same revision
//! or a later one of the same branch.

use std::sync::Arc;

use tokio::sync::watch;

use super::SyncReport;
use cutover_git::Repo;
use cutover_karmada::name::Revision;

/// A sync that another one depends on, and what it reports.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) reports: watch::Receiver<Option<Arc<SyncReport>>>,
}

/// Returns what is lacking before a revision may be applied, for instance `sync base, which is at 1f2e3d4c`.
pub(super) async fn lacking(all: &[Dependency], repo: &Repo, revision: &Revision) -> Option<String> {
    for dependency in all {
        let report = dependency.reports.borrow().clone();
        if let Some(why) = unready(report.as_deref(), repo, revision).await {
            return Some(format!("sync {}, which {why}", dependency.name));
        }
    }
    None
}

/// Waits until one of them reports.
pub(super) async fn reported(all: &mut [Dependency]) {
    let changed = all.iter_mut().map(|dependency| {
        Box::pin(async {
            if dependency.reports.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() {
        return std::future::pending().await;
    }
    futures::future::select_all(changed).await;
}

async fn unready(report: Option<&SyncReport>, repo: &Repo, revision: &Revision) -> Option<String> {
    let Some(report) = report else {
        return Some("has not begun".to_owned());
    };
    let follows = report.revision == *revision
        // A revision that is gone by a forced push is none that anything follows.
        || repo
            .contains(report.revision.clone(), revision.clone())
            .await
            .unwrap_or(false);
    if !follows {
        return Some(format!("is at {}", report.revision.short()));
    }
    report.unready().map(|why| format!("is not ready: {why}"))
}
