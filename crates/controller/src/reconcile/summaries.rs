//! Notes on the Lease how the syncs stand, where `cutover status` reads it: with the next renewal, so that it costs no request.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, select_all};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::overview::{Reports, changed, sync_overview};
use cutover_core::report::{SyncSummaries, SyncSummary};
use cutover_karmada::name::Revision;

/// Sums up the reports of all syncs.
#[derive(Debug)]
pub(super) struct Summaries {
    reports: Vec<Reports>,
    /// The revision of each sync, and when it was reported first.
    since: BTreeMap<String, (Revision, Timestamp)>,
}

impl Summaries {
    pub(super) const fn new(reports: Vec<Reports>) -> Self {
        Self {
            reports,
            since: BTreeMap::new(),
        }
    }

    /// Returns what is to be noted now; nothing before Git was asked.
    pub(super) fn text(&mut self) -> Option<String> {
        let mut all = Vec::new();
        let mut is_known = false;
        for sync in &mut self.reports {
            let report = sync.latest.borrow_and_update().clone();
            is_known |= report.is_some();
            let since = report.as_ref().map(|report| {
                let now = (report.revision.clone(), report.finished_at);
                let since = self.since.entry(sync.name.clone()).or_insert_with(|| now.clone());
                if since.0 != now.0 {
                    *since = now;
                }
                since.1
            });
            let overview = sync_overview(&sync.name, report.as_deref());
            let unread = *sync.unread.borrow_and_update();
            is_known |= unread.is_some();
            all.push(SyncSummary::of(&overview, since).unread_since(unread));
        }
        is_known.then(|| SyncSummaries::new(all).text())
    }

    /// Notes what is new until it is cancelled.
    pub(super) async fn run(mut self, noted: watch::Sender<Option<String>>, stop: CancellationToken) {
        loop {
            if let Some(text) = self.text() {
                noted.send_replace(Some(text));
            }
            let latest = self.reports.iter().flat_map(|sync| {
                let news = [changed(sync.latest.clone()), changed(sync.unread.clone())];
                news.into_iter()
            });
            let never: BoxFuture<'static, ()> = Box::pin(std::future::pending());
            tokio::select! {
                () = stop.cancelled() => return,
                _ = select_all(latest.chain([never])) => {}
            }
        }
    }
}
