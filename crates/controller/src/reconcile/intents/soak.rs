//! How long something has been watched as it should be, such as a healthy target: the time between the looks of this process, by its own
//! clock.

use std::time::Duration;

use tokio::time::Instant;

use cutover_core::intent::member::SoakSample;

/// Between two looks nobody knows more than what both have shown: what lies further apart counts as this much. A machine that
/// stood still for an hour has not watched for an hour.
const LONGEST: Duration = Duration::from_secs(10);

/// What one worker has watched. It dies with its process, and whoever takes over begins anew.
#[derive(Debug, Default)]
pub(super) struct Soak {
    run: Option<String>,
    watched: Duration,
    /// The last look, if it was a good one.
    last: Option<Instant>,
}

impl Soak {
    /// Adds a look that was begun at that time; returns how long the same run was watched.
    pub(super) fn add(&mut self, look: SoakSample, at: Instant) -> Duration {
        match look {
            SoakSample::Good(run) => {
                if self.run.as_ref() == Some(&run) {
                    let since = self.last.map(|last| at.duration_since(last));
                    self.watched += since.unwrap_or_default().min(LONGEST);
                } else {
                    self.watched = Duration::ZERO;
                    self.run = Some(run);
                }
                self.last = Some(at);
            }
            SoakSample::Bad => *self = Self::default(),
            SoakSample::Unknown => self.last = None,
        }
        self.watched
    }
}

/// Looks that lie further apart are none of one thing: what came and went in between may have left no trace.
const APART: Duration = Duration::from_secs(30);

/// How long something has been seen to be the same. A look that shows nothing starts the time again.
#[derive(Debug, Default)]
pub(super) struct Settling(Option<Same>);

#[derive(Debug)]
struct Same {
    seen: String,
    /// When the first look that showed it had ended.
    since: Instant,
    last: Instant,
}

impl Settling {
    /// Adds a look that was begun and had ended at these times; returns the time from the end of the first look to the beginning of this one.
    pub(super) fn add(&mut self, look: SoakSample, begun: Instant, ended: Instant) -> Duration {
        let SoakSample::Good(seen) = look else {
            self.0 = None;
            return Duration::ZERO;
        };
        if let Some(same) = &mut self.0
            && same.seen == seen
            && begun.saturating_duration_since(same.last) <= APART
        {
            same.last = ended;
            return begun.saturating_duration_since(same.since);
        }
        self.0 = Some(Same {
            seen,
            since: ended,
            last: ended,
        });
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(run: &str) -> SoakSample {
        SoakSample::Good(run.to_owned())
    }

    /// Returns what has been watched after looks at these seconds.
    fn watched(looks: Vec<(u64, SoakSample)>) -> u64 {
        let begun = Instant::now();
        let mut soak = Soak::default();
        let mut sum = Duration::ZERO;
        for (second, look) in looks {
            sum = soak.add(look, begun + Duration::from_secs(second));
        }
        sum.as_secs()
    }

    #[test]
    fn only_the_time_between_good_looks_at_one_run_counts() {
        assert_eq!(watched(vec![(0, good("a"))]), 0);
        assert_eq!(watched(vec![(0, good("a")), (2, good("a")), (5, good("a"))]), 5);
        assert_eq!(watched(vec![(0, good("a")), (2, good("a")), (5, good("b"))]), 0);
        assert_eq!(
            watched(vec![(0, good("a")), (2, SoakSample::Bad), (5, good("a"))]),
            0
        );
        assert_eq!(
            watched(vec![(0, good("a")), (2, good("a")), (3, SoakSample::Bad)]),
            0
        );
    }

    #[test]
    fn a_look_that_shows_nothing_adds_nothing_and_breaks_nothing() {
        let looks = vec![
            (0, good("a")),
            (2, good("a")),
            (4, SoakSample::Unknown),
            (6, good("a")),
            (7, good("a")),
        ];
        assert_eq!(watched(looks), 3);
    }

    #[test]
    fn what_has_settled_was_the_same_from_the_end_of_the_first_look_on() {
        let begun = Instant::now();
        let at = |second: u64| begun + Duration::from_secs(second);
        let settled = |looks: &[(u64, u64, SoakSample)]| {
            let mut settling = Settling::default();
            let watched = looks
                .iter()
                .map(|(from, to, look)| settling.add(look.clone(), at(*from), at(*to)));
            watched.last().unwrap_or_default().as_secs()
        };
        let slow = (0, 4, good("a"));
        assert_eq!(settled(std::slice::from_ref(&slow)), 0);
        assert_eq!(
            settled(&[slow.clone(), (5, 6, good("a")), (20, 21, good("a"))]),
            16
        );
        for between in [SoakSample::Bad, SoakSample::Unknown, good("b")] {
            let looks = [
                slow.clone(),
                (5, 6, between),
                (7, 8, good("a")),
                (10, 11, good("a")),
            ];
            assert_eq!(settled(&looks), 2);
        }
        assert_eq!(settled(&[slow, (40, 41, good("a"))]), 0, "nobody looked");
    }

    #[test]
    fn one_that_stood_still_has_not_watched() {
        assert_eq!(
            watched(vec![(0, good("a")), (3600, good("a"))]),
            LONGEST.as_secs()
        );
    }
}
