//! Waiting until something is so, by tokio's clock: where a test has paused it, minutes pass in no time.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

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
        every: Duration::from_millis(5),
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

    /// Looks so often; every 5 ms unless this is said.
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
            comes_true(self.within, self.every, async || holds()).await,
            "{}: not after {:?}\n{}",
            self.what,
            self.within,
            story().to_string()
        );
        begun.elapsed()
    }
}

/// Looks so often, and returns whether it came true in time. An answer that never comes is in vain, too.
pub async fn comes_true(within: Duration, every: Duration, mut holds: impl AsyncFnMut() -> bool) -> bool {
    let waiting = async {
        while !holds().await {
            sleep(every).await;
        }
    };
    timeout(within, waiting).await.is_ok()
}
