//! Says beside commits how they fare: whoever looks at one sees whether it is in force, and how what it asked for has ended.
//! Nobody waits for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::overview::Seen;
use cutover_core::api;
use cutover_core::report::{Overview, Verdict, Web, verdicts, verdicts_at_most};
use cutover_forge::{CommitStatus, Teller};

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(300);
/// What ended longer ago than that before a start isn't told after it: that it was told isn't remembered.
const LATELY: SignedDuration = SignedDuration::from_hours(1);

/// How many statuses there are at a time.
const MOST: usize = 32;

/// Who is told of commits, and how.
#[derive(Clone, Debug)]
pub struct Statuses {
    pub teller: Teller,
    /// What the names of all statuses begin with.
    pub name: String,
    /// Where all statuses link to, instead of the status branch.
    pub link: Option<String>,
}

/// Where people see the status branch.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) web: Web,
    pub(super) branch: String,
    pub(super) directory: Option<String>,
}

impl Pages {
    fn file(&self, path: &str) -> String {
        match &self.directory {
            Some(directory) => self.web.file(&self.branch, &format!("{directory}/{path}")),
            None => self.web.file(&self.branch, path),
        }
    }
}

/// The same with what a reconciler knows.
#[derive(Clone, Debug)]
pub(super) struct Saying {
    statuses: Statuses,
    pages: Option<Pages>,
    /// Since when this reconciler has been working.
    since: Timestamp,
}

impl Saying {
    pub(super) fn new(statuses: Statuses, pages: Option<Pages>, since: Timestamp) -> Self {
        Self {
            statuses,
            pages,
            since,
        }
    }

    /// Says whenever there is something new, until it is cancelled.
    pub(super) async fn run(self, mut seen: Seen, stop: CancellationToken) {
        let mut news = seen.news();
        loop {
            self.say(&seen.overview());
            tokio::select! {
                () = stop.cancelled() => return,
                () = news.heard(|change| change.key.group == api::GROUP) => {}
                () = seen.reported() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return self.say(&seen.overview()),
                () = tokio::time::sleep(GATHER) => {}
            }
            news.forget();
        }
    }

    pub(super) fn say(&self, overview: &Overview) {
        let is_news = |verdict: &Verdict| {
            let ended = verdict.ended_at;
            ended.is_none_or(|ended| self.since.duration_since(ended) <= LATELY)
        };
        let news = verdicts(overview).into_iter().filter(is_news).collect();
        let all = verdicts_at_most(news, MOST).into_iter();
        self.statuses
            .teller
            .tell(all.map(|verdict| self.status(verdict)).collect());
    }

    fn status(&self, verdict: Verdict) -> CommitStatus {
        let page = || self.pages.as_ref().map(|pages| pages.file(&verdict.file));
        CommitStatus {
            link: self.statuses.link.clone().or_else(page),
            name: format!("{}/{}", self.statuses.name, verdict.subject),
            revision: verdict.revision,
            outcome: verdict.outcome,
            note: verdict.note,
        }
    }
}
