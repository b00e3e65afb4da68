//! Time that was looked at: whatever is decided by how long something lasts counts what passed between two looks that saw it.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far two looks may lie apart for what is between them to count. A pass that waits for a cluster that gives no answer
/// takes more than a minute.
const APART: SignedDuration = SignedDuration::from_mins(2);
/// How often the journal takes it down: what a process saw since then is lost with it.
const COARSE: SignedDuration = SignedDuration::from_secs(10);

/// How long something was seen to last. A pass that could not look adds nothing and takes nothing away, and whoever comes
/// after the one who has looked so far goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Watched {
    /// The first look.
    pub since: Timestamp,
    /// The last one that the journal knows of.
    pub last: Timestamp,
    /// What counts of the time up to that one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub millis: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_none(millis: &i64) -> bool {
    *millis == 0
}

impl Watched {
    /// Returns what a first look begins.
    pub const fn begin(now: Timestamp) -> Self {
        Self {
            since: now,
            last: now,
            millis: 0,
        }
    }

    /// Takes a look down, where that is due.
    pub fn look(&mut self, now: Timestamp) {
        match self.gap(now) {
            Some(gap) if gap < COARSE => {}
            Some(gap) => (self.last, self.millis) = (now, self.millis.saturating_add(millis(gap))),
            None => self.last = now,
        }
    }

    /// A look showed nothing: what has passed since the last one does not count, but for what is too short to be taken down.
    pub fn skip(&mut self, now: Timestamp) {
        if self.gap(now).is_none_or(|gap| gap >= COARSE) {
            self.last = now;
        }
    }

    /// Returns what counts up to now, which is a look as well.
    pub fn elapsed(&self, now: Timestamp) -> SignedDuration {
        let known = SignedDuration::from_millis(self.millis);
        known.saturating_add(self.gap(now).unwrap_or_default())
    }

    /// Returns what has passed since the last look, if nobody was away meanwhile and no clock was set back.
    fn gap(&self, now: Timestamp) -> Option<SignedDuration> {
        let gap = now.duration_since(self.last);
        (SignedDuration::ZERO..=APART).contains(&gap).then_some(gap)
    }
}

fn millis(of: SignedDuration) -> i64 {
    i64::try_from(of.as_millis()).unwrap_or(i64::MAX)
}

/// Takes a look down, the first one too.
pub fn look(watched: &mut Option<Watched>, now: Timestamp) {
    watched.get_or_insert_with(|| Watched::begin(now)).look(now);
}

/// Returns what counts up to now; nothing where nobody has looked.
pub fn elapsed(watched: Option<&Watched>, now: Timestamp) -> SignedDuration {
    watched.map_or(SignedDuration::ZERO, |watched| watched.elapsed(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn only_what_is_between_two_looks_that_are_not_far_apart_counts() {
        let mut watched = Watched::begin(at(0));
        for (now, elapsed) in [
            (5, 5),
            (20, 20),
            (140, 140),
            (4000, 140),
            (4001, 141),
            (4030, 170),
        ] {
            watched.look(at(now));
            assert_eq!(
                watched.elapsed(at(now)),
                SignedDuration::from_secs(elapsed),
                "{now}"
            );
        }
    }

    #[test]
    fn a_look_is_taken_down_seldom() {
        let mut watched = Watched::begin(at(0));
        watched.look(at(9));
        assert_eq!(watched, Watched::begin(at(0)));
        watched.look(at(10));
        assert_eq!((watched.last, watched.millis), (at(10), 10_000));
    }

    #[test]
    fn a_look_that_failed_adds_nothing_and_takes_nothing_away() {
        let mut watched = Watched::begin(at(0));
        watched.look(at(20));
        watched.skip(at(50));
        watched.look(at(60));
        assert_eq!(watched.elapsed(at(60)), SignedDuration::from_secs(30));
    }

    #[test]
    fn a_clock_that_is_behind_takes_nothing_away() {
        let mut watched = Watched::begin(at(0));
        watched.look(at(60));
        // Another process goes on, whose clock is behind, and then one whose clock is ahead.
        for now in [20, 35, 3000, 3015] {
            watched.look(at(now));
        }
        assert_eq!(watched.elapsed(at(3015)), SignedDuration::from_secs(90));
    }
}
