//! Waiting until something is so, by tokio's clock: where a test has paused it, minutes pass in no time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Waits until something is so, two minutes at most.
///
/// # Panics
/// When it isn't so in time.
pub async fn until(what: &str, holds: impl FnMut() -> bool) {
    wait_for(what).until(holds).await;
}

/// Begins to wait: `wait_for("the job").within(…).until(…)`.
pub const fn wait_for(what: &str) -> Wait<'_> {
    Wait {
        what,
        within: Duration::from_mins(2),
        every: Duration::from_millis(20),
    }
}

/// What is waited for, for how long, and how often is looked.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    what: &'a str,
    within: Duration,
    every: Duration,
}

impl Wait<'_> {
    /// Gives up after so long; two minutes unless this is said.
    #[must_use]
    pub const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Looks so often; every 20 ms unless this is said.
    #[must_use]
    pub const fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Waits, and returns how long that took.
    ///
    /// # Panics
    /// When it isn't so in time.
    pub async fn until(self, holds: impl FnMut() -> bool) -> Duration {
        self.until_or(holds, || "").await
    }

    /// Waits, and returns how long that took; `story` is told when it was in vain.
    ///
    /// # Panics
    /// When it isn't so in time.
    pub async fn until_or<S: ToString>(
        self,
        mut holds: impl FnMut() -> bool,
        story: impl FnOnce() -> S,
    ) -> Duration {
        let begun = Instant::now();
        assert!(
            self.comes_true(async || holds()).await,
            "{}: not after {:?}\n{}",
            self.what,
            self.within,
            story().to_string()
        );
        begun.elapsed()
    }

    /// Waits, and returns whether it came true in time. It is looked at once more when the time is over.
    pub async fn comes_true(self, mut holds: impl AsyncFnMut() -> bool) -> bool {
        let begun = Instant::now();
        loop {
            if holds().await {
                return true;
            }
            if begun.elapsed() > self.within {
                return false;
            }
            sleep(self.every).await;
        }
    }
}
