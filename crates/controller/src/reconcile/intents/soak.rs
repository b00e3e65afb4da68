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
    fn one_that_stood_still_has_not_watched() {
        assert_eq!(
            watched(vec![(0, good("a")), (3600, good("a"))]),
            LONGEST.as_secs()
        );
    }
}
