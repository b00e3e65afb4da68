//! Tells receivers when a sync has problems, and when it has none any more. Intents tell of themselves.

use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::overview::Reports;
use super::sync::SyncReport;
use cutover_core::report::{EventRecord, Notice};
use cutover_forge::notify::Notifier;

/// What was told of one sync last.
#[derive(Default)]
struct Last(Vec<String>);

/// Follows the reports of all syncs until it is cancelled.
pub(super) async fn run(
    reports: Vec<Reports>,
    notifier: Notifier,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    stop: CancellationToken,
) {
    let following = reports.into_iter().map(|mut sync| {
        let (notifier, clock) = (notifier.clone(), Arc::clone(&clock));
        Box::pin(async move {
            let mut last = Last::default();
            while sync.latest.changed().await.is_ok() {
                let report = sync.latest.borrow_and_update().clone();
                if let Some(told) = report.and_then(|report| last.news(&report)) {
                    notifier.tell(&Notice {
                        kind: "Sync".to_owned(),
                        namespace: None,
                        name: sync.name.clone(),
                        uid: None,
                        told,
                        at: clock(),
                        besides: None,
                    });
                }
            }
        })
    });
    tokio::select! {
        () = stop.cancelled() => {}
        _ = join_all(following) => {}
    }
}

impl Last {
    fn news(&mut self, report: &SyncReport) -> Option<EventRecord> {
        let problems = report.all_problems().into_iter().map(|problem| match problem.at {
            Some(at) => format!("{at}: {}", problem.message),
            None => problem.message,
        });
        let problems: Vec<String> = problems.collect();
        let before = std::mem::replace(&mut self.0, problems);
        if before == self.0 {
            return None;
        }
        let revision = report.revision.short();
        let Some(first) = self.0.first() else {
            return Some(EventRecord::new(
                false,
                "InSync",
                &format!("no problems any more at {revision}"),
            ));
        };
        let more = match self.0.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(EventRecord::new(
            true,
            "SyncProblem",
            &format!("at {revision}: {first}{more}"),
        ))
    }
}
