//! Says beside commits how they fare: whoever looks at one sees whether it is in force, and how what it asked for has ended.
//! Nobody waits for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::overview::Seen;
use cutover_core::api;
use cutover_core::report::{Overview, Verdict, Web, verdicts, verdicts_at_most};
use cutover_forge::{CommitStatus, Teller};

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(300);
/// What ended longer ago than that before a start isn't told after it: that it was told isn't remembered.
const LATELY: SignedDuration = SignedDuration::from_hours(1);

/// How often at most the headline is said with other numbers: each pass may change them.
const RECOUNTED: Duration = Duration::from_secs(10);

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
    headline: Wording,
}

/// The headline as it was said last, and when.
#[derive(Clone, Debug, Default)]
struct Wording(Option<(Verdict, Instant)>);

impl Wording {
    /// Leaves the headline as it was said while only its numbers are new, and that was a moment ago; returns when to say them.
    fn hold(&mut self, headline: &mut Verdict, now: Instant) -> Option<Instant> {
        match &self.0 {
            Some((said, _)) if *said == *headline => None,
            Some((said, at)) if said.differs_in_numbers_only(headline) && now < *at + RECOUNTED => {
                headline.clone_from(said);
                Some(*at + RECOUNTED)
            }
            _ => {
                self.0 = Some((headline.clone(), now));
                None
            }
        }
    }
}

impl Saying {
    pub(super) fn new(statuses: Statuses, pages: Option<Pages>, since: Timestamp) -> Self {
        Self {
            statuses,
            pages,
            since,
            headline: Wording::default(),
        }
    }

    /// Says whenever there is something new, until it is cancelled.
    pub(super) async fn run(mut self, mut seen: Seen, stop: CancellationToken) {
        let mut news = seen.news();
        loop {
            let recount = self.say(&seen.overview());
            let recount = async {
                match recount {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = recount => continue,
                () = news.heard(|change| change.key.group == api::GROUP) => {}
                () = seen.reported() => {}
            }
            tokio::select! {
                () = stop.cancelled() => {
                    self.say(&seen.overview());
                    return;
                }
                () = tokio::time::sleep(GATHER) => {}
            }
            news.forget();
        }
    }

    /// Says what there is to say; returns when to do so again although nothing has changed since.
    pub(super) fn say(&mut self, overview: &Overview) -> Option<Instant> {
        let is_news = |verdict: &Verdict| {
            let ended = verdict.ended_at;
            ended.is_none_or(|ended| self.since.duration_since(ended) <= LATELY)
        };
        let mut news: Vec<Verdict> = verdicts(overview).into_iter().filter(is_news).collect();
        let headline = news.iter_mut().find(|verdict| verdict.is_headline());
        let again = headline.and_then(|headline| self.headline.hold(headline, Instant::now()));
        let all = verdicts_at_most(news, MOST).into_iter();
        self.statuses
            .teller
            .tell(all.map(|verdict| self.status(verdict)).collect());
        again
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

#[cfg(test)]
mod tests {
    use super::*;
    use cutover_core::report::Outcome;

    fn headline(outcome: Outcome, note: &str) -> Verdict {
        Verdict {
            revision: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
            subject: "status".to_owned(),
            outcome,
            note: note.to_owned(),
            file: "STATUS.md".to_owned(),
            ended_at: None,
        }
    }

    #[test]
    fn numbers_that_change_with_every_pass_are_no_request_each_and_what_they_mean_is_said_at_once() {
        let (mut wording, start) = (Wording::default(), Instant::now());
        let mut said = |second: u64, outcome, note: &str| {
            let mut headline = headline(outcome, note);
            let now = start + Duration::from_secs(second);
            let again = wording.hold(&mut headline, now);
            (headline.note, again.map(|at| at.duration_since(start).as_secs()))
        };
        let pending = Outcome::Pending;
        assert_eq!(said(0, pending, "9 objects"), ("9 objects".to_owned(), None));
        assert_eq!(said(1, pending, "8 objects"), ("9 objects".to_owned(), Some(10)));
        assert_eq!(said(9, pending, "9 objects"), ("9 objects".to_owned(), None));
        assert_eq!(said(10, pending, "7 objects"), ("7 objects".to_owned(), None));
        let well = said(11, Outcome::Success, "All is well");
        assert_eq!(well, ("All is well".to_owned(), None));
        assert_eq!(said(12, pending, "1 object"), ("1 object".to_owned(), None));
        assert_eq!(said(13, pending, "1 intent"), ("1 intent".to_owned(), None));
        let failed = |name: &str| format!("Migration shop/{name} failed, and 1 more like it");
        for (second, name) in [(14, "orders-1"), (15, "orders-2"), (16, "orders2")] {
            let note = failed(name);
            assert_eq!(
                said(second, Outcome::Failure, &note),
                (note.clone(), None),
                "another one"
            );
        }
    }
}
