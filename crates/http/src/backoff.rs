//! Delays that double up to a longest one, by `backon`.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// How delays between attempts grow: each is twice the one before, up to the longest.
///
/// A delay lies between half and the whole of that, so that many clients that failed together don't return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns delays that differ from run to run.
    pub fn delays(self) -> Delays {
        self.seeded(fastrand::u64(..))
    }

    /// Returns delays that are the same for the same seed.
    pub fn seeded(self, seed: u64) -> Delays {
        let mut seeds = fastrand::Rng::with_seed(seed);
        Delays {
            current: self.builder().with_jitter_seed(seeds.u64(..)).build(),
            backoff: self,
            seeds,
        }
    }

    /// `backon` adds up to a whole delay as jitter: half of each delay is its base.
    pub(crate) fn builder(self) -> ExponentialBuilder {
        ExponentialBuilder::new()
            .with_min_delay(self.first.min(self.longest) / 2)
            .with_max_delay(self.longest / 2)
            .without_max_times()
            .with_jitter()
    }
}

/// The delays of one series of attempts; they don't end.
#[derive(Debug)]
pub struct Delays {
    backoff: Backoff,
    seeds: fastrand::Rng,
    current: ExponentialBackoff,
}

impl Delays {
    /// Returns how long to wait before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        self.current.next().unwrap_or(self.backoff.longest)
    }

    /// Begins again with the first delay: an attempt has succeeded.
    pub fn reset(&mut self) {
        let builder = self.backoff.builder();
        self.current = builder.with_jitter_seed(self.seeds.u64(..)).build();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_between(delay: Duration, whole: u64) {
        let delay = delay.as_secs_f64() * 1000.0;
        let whole = f64::from(u32::try_from(whole).unwrap());
        // A microsecond for rounding.
        assert!(
            (whole / 2.0 - 0.001..=whole + 0.001).contains(&delay),
            "{delay} ms of {whole} ms"
        );
    }

    #[test]
    fn delays_double_up_to_the_longest_and_begin_again_after_a_success() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
        for seed in 0..100 {
            let mut delays = backoff.seeded(seed);
            for _ in 0..2 {
                for whole in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
                    assert_between(delays.next_delay(), whole);
                }
                delays.reset();
            }
            assert_between(delays.next_delay(), 100);
        }
    }

    #[test]
    fn the_longest_delay_holds_for_the_first_one_too() {
        let mut delays = Backoff::new(Duration::from_mins(1), Duration::from_secs(1)).delays();
        assert_between(delays.next_delay(), 1000);
    }

    #[test]
    fn clients_with_different_seeds_do_not_return_together() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let first = |seed| backoff.seeded(seed).next_delay();
        assert_eq!(first(7), first(7));
        let mut all: Vec<_> = (0..50).map(first).collect();
        all.sort();
        all.dedup();
        assert!(all.len() > 45, "{all:?}");
    }
}
